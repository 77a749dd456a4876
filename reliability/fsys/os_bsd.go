//go:build darwin || freebsd

package fsys

import "golang.org/x/sys/unix"

func syncData(fd int) error { return unix.Fsync(fd) }

// There is no portable reserve here: the caller grows the file instead.
func preallocate(int, int64, int64) error { return unix.EOPNOTSUPP }

func takesFiles(string) bool { return true }
