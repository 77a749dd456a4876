package fsys

import "golang.org/x/sys/unix"

func syncData(fd int) error { return unix.Fdatasync(fd) }

func preallocate(fd int, off, n int64) error { return unix.Fallocate(fd, 0, off, n) }
