package fsys

import (
	"slices"

	"golang.org/x/sys/unix"
)

func syncData(fd int) error { return unix.Fdatasync(fd) }

func preallocate(fd int, off, n int64) error { return unix.Fallocate(fd, 0, off, n) }

// takesFiles is false for file systems that only show the kernel.
func takesFiles(dir string) bool {
	var st unix.Statfs_t
	err := retryInterrupted(func() error { return unix.Statfs(dir, &st) })
	return err != nil || !slices.Contains([]int64{
		unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC, unix.DEVPTS_SUPER_MAGIC,
		unix.SECURITYFS_MAGIC, unix.DEBUGFS_MAGIC, unix.TRACEFS_MAGIC, unix.BPF_FS_MAGIC,
	}, st.Type)
}
