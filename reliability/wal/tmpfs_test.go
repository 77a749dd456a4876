//go:build linux

package wal

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sloengine/sloengine/reliability/fsys"
)

// The same as the injected errors, on a real disk of 2 MB. Mounting needs rights that a
// test may not have; then the injected errors have to do.
func TestRealDiskFull(t *testing.T) {
	t.Run("tmpfs", func(t *testing.T) {
		mount := t.TempDir()
		if err := unix.Mount("tmpfs", mount, "tmpfs", 0, "size=2m"); err != nil {
			t.Skipf("cannot mount a small tmpfs here: %v", err)
		}
		t.Cleanup(func() { _ = unix.Unmount(mount, unix.MNT_DETACH) })
		o := Options{FS: fsys.OS(), Dir: filepath.Join(mount, "wal"), SegmentBytes: 256 << 10}
		l, err := Open(o)
		require.NoError(t, err)
		var acked []Pending
		fill := func(size int) {
			for {
				recs := batch(uint64(len(acked)+1), size, 10)
				err := l.Append(recs)
				if err != nil {
					require.ErrorIs(t, err, ErrNoSpace)
					return
				}
				acked = append(acked, recs...)
				require.Less(t, len(acked), 100000)
			}
		}
		for _, size := range []int{200 << 10, 5000, 1 << 20} {
			fill(size)
		}
		got, err := readAll(l, 1)
		require.NoError(t, err)
		requireRecords(t, acked, 1, got)

		free, err := o.FS.Free(mount)
		require.NoError(t, err)
		require.Less(t, free, uint64(256<<10))
		require.NoError(t, l.Truncate(uint64(len(acked)/2)))
		first := l.FirstSeq()
		require.Greater(t, first, uint64(1))
		before := len(acked)
		fill(5000)
		require.Greater(t, len(acked), before, "space that Truncate freed is used")

		// A full disk opens for reading, and all acknowledged records are there.
		require.NoError(t, l.Close())
		l, err = Open(o)
		require.NoError(t, err)
		got, err = readAll(l, 0)
		require.NoError(t, err)
		requireRecords(t, acked[l.FirstSeq()-1:], l.FirstSeq(), got)
		require.NoError(t, errors.Join(l.Close()))
	})
}
