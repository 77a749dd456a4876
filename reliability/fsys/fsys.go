package fsys

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"syscall"
)

// ErrLocked is wrapped by [FS.Lock] when another owner holds the lock.
var ErrLocked = errors.New("locked by another process")

// File is an open file. Methods that take an offset may run concurrently with each
// other; Read and Write share one position and may not.
type File interface {
	io.Reader
	io.ReaderAt
	io.Writer
	io.WriterAt
	io.Closer
	// Sync makes the data and the size durable (fdatasync where there is one).
	// After an error the content of the disk is unknown, and another sync proves nothing: the caller
	// must treat the file as lost until reopened. Production code calls it through [SyncFile].
	Sync() error
	// Preallocate reserves disk space for [off, off+n) and grows the file to at
	// least off+n bytes; unwritten bytes read as zeros. On file systems that cannot reserve, the file
	// grows without a reserve.
	Preallocate(off, n int64) error
	// Truncate sets the size to n bytes. The position of Write does not move.
	Truncate(n int64) error
	// Size is the present size in bytes.
	Size() (int64, error)
}

// Dir is an open folder.
type Dir interface {
	io.Closer
	// Sync makes the entries durable. A failed sync has the same meaning as for File.
	Sync() error
}

// FS is the part of a file system that is used here. Names are paths of the operating
// system. A missing file or folder is reported as fs.ErrNotExist.
type FS interface {
	// Create makes an empty file for reading and writing, or empties the one there is.
	Create(name string) (File, error)
	// Open opens for reading only.
	Open(name string) (File, error)
	// OpenReadWrite opens an existing file for reading and writing.
	OpenReadWrite(name string) (File, error)
	// Rename moves a file, replacing newName if it exists. Durable after SyncDir of
	// both folders.
	Rename(oldName, newName string) error
	// Remove deletes a file or an empty folder. Durable after SyncDir.
	Remove(name string) error
	// List returns the base names in a folder, sorted.
	List(dir string) ([]string, error)
	// MkdirAll makes a folder and its parents; an existing folder is no error. See
	// [MkdirAllSynced] for the durable form.
	MkdirAll(dir string) error
	// OpenDir opens a folder, so that its entries can be made durable. Production code
	// calls it through [SyncDir] and [ChangeDir], which name the site.
	OpenDir(dir string) (Dir, error)
	// Free is the number of bytes that this process may still write to the disk
	// that holds dir.
	Free(dir string) (bytes uint64, err error)
	// Lock takes an exclusive lock on a file, creating it if needed, and returns an
	// error that wraps [ErrLocked] at once if it is held. Close releases; so does
	// the death of the process.
	Lock(name string) (io.Closer, error)
}

// siteSyncer is implemented by files and folders that want to know which site asked for
// a sync.
type siteSyncer interface{ SyncSite(site Site) error }

// SyncFile is f.Sync on behalf of a named site. Its error is a *SyncError.
func SyncFile(f File, site Site) error { return syncSite(f, site) }

func syncSite(f interface{ Sync() error }, site Site) error {
	sync := f.Sync
	if s, ok := f.(siteSyncer); ok {
		sync = func() error { return s.SyncSite(site) }
	}
	if err := sync(); err != nil {
		return &SyncError{site, err}
	}
	return nil
}

// SyncDir makes the entries of a folder durable on behalf of a named site. The error is
// a *SyncError if the sync itself failed, and another one if the folder was not opened.
func SyncDir(fsys FS, dir string, site Site) error {
	return ChangeDir(fsys, dir, site, func() error { return nil })
}

// ChangeDir calls change, which creates, renames or removes entries of a folder, and makes
// that durable. The folder is opened first: without a descriptor for it nothing changes.
// The error is a *SyncError if the sync failed; any other error means that change was not
// called or is the error of change, after which nothing was synced.
func ChangeDir(fsys FS, dir string, site Site, change func() error) error {
	d, err := fsys.OpenDir(dir)
	if err != nil {
		return fmt.Errorf("open folder: %w", err)
	}
	defer d.Close() // nothing is written through it
	if err := change(); err != nil {
		return err
	}
	return syncSite(d, site)
}

// MkdirAllSynced makes a folder and its missing parents, and syncs all folders above it:
// those that were there may hold an entry that a process made just before it died.
func MkdirAllSynced(fsys FS, dir string, site Site) error {
	dir = filepath.Clean(dir)
	if err := fsys.MkdirAll(dir); err != nil {
		return fmt.Errorf("create folder %s: %w", dir, err)
	}
	parent := filepath.Dir(dir)
	for at := parent; ; at = filepath.Dir(at) {
		// Far up there may be folders that we may not read or that do not know a sync;
		// they hold no entry of ours.
		if err := SyncDir(fsys, at, site); err != nil && (at == parent || !notOurs(err)) {
			return fmt.Errorf("sync folder %s: %w", at, err)
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}

func notOurs(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.EROFS)
}
