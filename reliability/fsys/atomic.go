package fsys

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"path/filepath"
)

// TempSuffix ends the names of files that are still being written. A leftover after a
// crash may be deleted.
const TempSuffix = ".tmp"

// WriteAtomic replaces the file name by the output of write: a temporary file in the same folder, sync, rename, sync
// of the folder. After any failure, name holds either its old content or the new one, whole; after nil the new one is
// durable. Unless the error is a *SyncError, name is as it was. Writes are buffered. Two writers of the same name at
// the same time are not supported.
func WriteAtomic(fsys FS, name string, write func(io.Writer) error) error {
	temp := name + TempSuffix
	if err := writeTemp(fsys, temp, write); err != nil {
		// The first error is the one to report; a leftover is overwritten next time.
		_ = fsys.Remove(temp)
		return fmt.Errorf("write %s: %w", name, err)
	}
	err := ChangeDir(fsys, filepath.Dir(name), SiteAtomicDir, func() error { return fsys.Rename(temp, name) })
	if err == nil {
		return nil
	}
	if Classify(err) == SyncFailed {
		return fmt.Errorf("sync folder of %s: %w", name, err)
	}
	_ = fsys.Remove(temp)
	return fmt.Errorf("replace %s: %w", name, err)
}

// Replace is WriteAtomic of data.
func Replace(fsys FS, name string, data []byte) error {
	return WriteAtomic(fsys, name, func(w io.Writer) error { _, err := w.Write(data); return err })
}

// unlessFull takes a sync that found no space for a write that did: a file system may allocate as
// late as that, and data that it could not store is discarded, not relied upon.
func unlessFull(err error) error {
	var failed *SyncError
	if errors.As(err, &failed) && Classify(failed.Err) == NoSpace {
		return failed.Err
	}
	return err
}

func writeTemp(fsys FS, temp string, write func(io.Writer) error) error {
	f, err := fsys.Create(temp)
	if err != nil {
		return err
	}
	err = func() error {
		w := bufio.NewWriterSize(f, 64<<10)
		if err := write(w); err != nil {
			return err
		}
		if err := w.Flush(); err != nil {
			return err
		}
		return unlessFull(SyncFile(f, SiteAtomicFile))
	}()
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}
