//go:build linux || darwin || freebsd

package fsys

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Files may hold personal data of events: not for others to read.
const (
	filePerm = 0o640
	dirPerm  = 0o750
)

// OS is the file system of the machine.
func OS() FS { return osFS{} }

type osFS struct{}

type osFile struct{ *os.File }

func wrap(f *os.File, err error) (File, error) {
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (osFS) Create(name string) (File, error) {
	return wrap(os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, filePerm))
}

func (osFS) Open(name string) (File, error) { return wrap(os.Open(name)) }

func (osFS) OpenReadWrite(name string) (File, error) {
	return wrap(os.OpenFile(name, os.O_RDWR, 0))
}

func (osFS) Rename(oldName, newName string) error { return os.Rename(oldName, newName) }

// Link makes a hard link. Not every FS has it: callers ask for the method.
func (osFS) Link(oldName, newName string) error { return os.Link(oldName, newName) }

// Same reports whether a name still leads to an open file: false if that was moved or
// deleted meanwhile. Not every FS has it: callers ask for the method.
func (osFS) Same(name string, file File) (bool, error) {
	f, ok := file.(osFile)
	if !ok {
		return false, fmt.Errorf("%s: not a file of the operating system", name)
	}
	now, err := os.Stat(name)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	then, err := f.Stat()
	return err == nil && os.SameFile(now, then), err
}

func (osFS) Remove(name string) error { return os.Remove(name) }

func (osFS) MkdirAll(dir string) error { return os.MkdirAll(dir, dirPerm) }

func (osFS) List(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}

func (osFS) OpenDir(dir string) (Dir, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	return d, nil
}

func (osFS) Free(dir string) (uint64, error) {
	var st unix.Statfs_t
	if err := retryInterrupted(func() error { return unix.Statfs(dir, &st) }); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	// Bavail is signed on some systems and negative inside the reserve of root.
	if int64(st.Bavail) < 0 {
		return 0, nil
	}
	return uint64(st.Bavail) * uint64(st.Bsize), nil
}

// Size is how many bytes the file system of a folder holds in all, used or not.
func Size(dir string) (uint64, error) {
	var st unix.Statfs_t
	if err := retryInterrupted(func() error { return unix.Statfs(dir, &st) }); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return st.Blocks * uint64(st.Bsize), nil
}

func (osFS) Lock(name string) (io.Closer, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, filePerm)
	if err != nil {
		return nil, err
	}
	err = withFD(f, func(fd int) error { return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) })
	if err == nil {
		return f, nil
	}
	_ = f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, fmt.Errorf("lock %s: %w", name, ErrLocked)
	}
	return nil, &os.PathError{Op: "flock", Path: name, Err: err}
}

func (f osFile) Size() (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

func (f osFile) Sync() error {
	if err := withFD(f.File, syncData); err != nil {
		return &os.PathError{Op: "fdatasync", Path: f.Name(), Err: err}
	}
	return nil
}

func (f osFile) Preallocate(off, n int64) error {
	if n <= 0 {
		return nil
	}
	err := withFD(f.File, func(fd int) error { return preallocate(fd, off, n) })
	if err == nil {
		return nil
	}
	if !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.ENOSYS) {
		return &os.PathError{Op: "fallocate", Path: f.Name(), Err: err}
	}
	size, err := f.Size()
	if err != nil || size >= off+n {
		return err
	}
	return f.Truncate(off + n)
}

// withFD runs a system call on the descriptor without switching the file to blocking
// mode, again and again while it is interrupted.
func withFD(f *os.File, call func(fd int) error) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var callErr error
	if err := conn.Control(func(fd uintptr) {
		callErr = retryInterrupted(func() error { return call(int(fd)) })
	}); err != nil {
		return err
	}
	return callErr
}

func retryInterrupted(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
