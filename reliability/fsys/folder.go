//go:build linux || darwin || freebsd

package fsys

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// CheckFolder says why this process could not make files in a folder, or make the folder. It changes nothing.
func CheckFolder(dir string) error {
	at := existing(dir)
	st, err := os.Stat(at)
	if err != nil { // also a link to nowhere
		return asOpen(err)
	}
	if !st.IsDir() {
		return &os.PathError{Op: "open", Path: at, Err: syscall.ENOTDIR}
	}
	if err := unix.Access(at, unix.W_OK|unix.X_OK); err != nil {
		return &os.PathError{Op: "write", Path: at, Err: err}
	}
	if !takesFiles(at) { // regardless of the permissions
		return &os.PathError{Op: "write", Path: at, Err: syscall.EROFS}
	}
	return nil
}

// Resolve is the absolute name of a file or folder without links, as far as it exists.
func Resolve(name string) string {
	name, _ = filepath.Abs(name)
	at := existing(name)
	resolved, err := filepath.EvalSymlinks(at)
	if err != nil {
		return name
	}
	rest, err := filepath.Rel(at, name)
	if err != nil {
		return name
	}
	return filepath.Join(resolved, rest)
}

// existing is the part of a name that is there.
func existing(name string) string {
	for name = filepath.Clean(name); ; name = filepath.Dir(name) {
		_, err := os.Lstat(name)
		if name == filepath.Dir(name) || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
			return name
		}
	}
}
