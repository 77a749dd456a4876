package fsys

import (
	"bufio"
	"fmt"
	"io"
	"path/filepath"
)

// TempSuffix ends the names of files that are still being written. A leftover after a
// crash may be deleted.
const TempSuffix = ".tmp"

// WriteAtomic replaces the file name by what write produces: a temporary file in the
// same folder, sync, rename, sync of the folder. Whatever fails, name holds either its
// old content or the new one, whole; after nil the new one is durable. Writes are
// buffered. Two writers of the same name at the same time are not supported.
func WriteAtomic(fsys FS, name string, write func(io.Writer) error) error {
	temp := name + TempSuffix
	if err := writeTemp(fsys, temp, write); err != nil {
		// The first error is the one to tell; a leftover is overwritten next time.
		_ = fsys.Remove(temp)
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := fsys.Rename(temp, name); err != nil {
		_ = fsys.Remove(temp)
		return fmt.Errorf("replace %s: %w", name, err)
	}
	if err := SyncDir(fsys, filepath.Dir(name), SiteAtomicDir); err != nil {
		return fmt.Errorf("sync folder of %s: %w", name, err)
	}
	return nil
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
		return SyncFile(f, SiteAtomicFile)
	}()
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}
