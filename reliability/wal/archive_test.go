package wal

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/fsys/fsystest"
)

func fillLog(t *testing.T, f fsys.FS, dir string, records int) *Log {
	t.Helper()
	l, err := Open(Options{FS: f, Dir: dir, SegmentBytes: 4096})
	require.NoError(t, err)
	for i := range records {
		require.NoError(
			t, l.Append([]Pending{{Time: int64(i), Type: 1, Payload: fmt.Appendf(nil, "record %04d, %0100d", i+1, i)}}))
	}
	return l
}

func readArchive(t *testing.T, f fsys.FS, dir string, from, to uint64) []uint64 {
	t.Helper()
	k, err := OpenArchive(f, dir, from, to)
	require.NoError(t, err)
	defer k.Close()
	var seqs []uint64
	var rec Record
	for {
		ok, err := k.Next(&rec)
		require.NoError(t, err)
		if !ok {
			return seqs
		}
		require.Contains(t, string(rec.Payload), fmt.Sprintf("record %04d", rec.Seq))
		seqs = append(seqs, rec.Seq)
	}
}

// A range that was kept is read whole after the log has let go of its segments, be they
// linked or copied, and over a power loss.
func TestArchive(t *testing.T) {
	mem := fsystest.New()
	for name, at := range map[string]struct {
		fs  fsys.FS
		dir string
	}{
		"linked": {fsys.OS(), t.TempDir()},
		"copied": {mem, "/data"},
	} {
		t.Run(name, func(t *testing.T) {
			log, kept := filepath.Join(at.dir, "wal"), filepath.Join(at.dir, "kept", "a")
			l := fillLog(t, at.fs, log, 300)
			require.NoError(t, l.Archive(50, 120, kept))
			require.NoError(t, l.Archive(50, 120, kept), "again")
			require.NoError(t, l.Truncate(250))
			require.Greater(t, l.FirstSeq(), uint64(120))
			require.ErrorIs(t, l.Archive(50, 120, kept), ErrTruncated)
			require.NoError(t, l.Close())

			f := at.fs
			if f == fsys.FS(mem) {
				f = mem.CrashClone(0, 1)
			}
			seqs := readArchive(t, f, kept, 50, 120)
			require.Len(t, seqs, 71)
			require.EqualValues(t, 50, seqs[0])
			require.EqualValues(t, 120, seqs[70])
			_, err := OpenArchive(f, kept, 1, 120)
			require.ErrorIs(t, err, ErrTruncated)

			require.NoError(t, RemoveArchive(f, kept))
			require.NoError(t, RemoveArchive(f, kept), "again")
			_, err = f.List(kept)
			require.Error(t, err)
		})
	}
}

// linkless is a folder on a file system that has no hard links, as seen by a system that knows them. It may become
// full.
type linkless struct {
	fsys.FS
	free int // bytes that copies may still take
}

func (f *linkless) Link(_, name string) error {
	if file, err := f.Open(name); err == nil {
		return errors.Join(fs.ErrExist, file.Close())
	}
	return fs.ErrPermission
}

func (f *linkless) Create(name string) (fsys.File, error) {
	file, err := f.FS.Create(name)
	return filling{file, f}, err
}

type filling struct {
	fsys.File
	on *linkless
}

func (f filling) WriteAt(b []byte, at int64) (int, error) {
	if f.on.free -= len(b); f.on.free < 0 {
		n, _ := f.File.WriteAt(b[:max(0, f.on.free+len(b))], at)
		return n, fs.ErrPermission
	}
	return f.File.WriteAt(b, at)
}

// A copy that was not finished is not taken for a segment, and goes with its archive.
func TestArchiveIsCopiedAgain(t *testing.T) {
	mem := fsystest.New()
	require.NoError(t, fillLog(t, mem, "/data/wal", 300).Close())
	disk := &linkless{FS: mem, free: 10_000}
	l, err := Open(Options{FS: disk, Dir: "/data/wal", SegmentBytes: 4096})
	require.NoError(t, err)
	defer l.Close()
	disk.free = 10_000
	require.Error(t, l.Archive(50, 120, "/data/kept/a"))
	require.Error(t, l.Archive(50, 120, "/data/kept/b"))
	require.NoError(t, RemoveArchive(disk, "/data/kept/b"))

	disk.free = 1 << 30
	require.NoError(t, l.Archive(50, 120, "/data/kept/a"))
	require.Len(t, readArchive(t, disk, "/data/kept/a", 50, 120), 71)
}

// The newest segment may be kept too: records appended to it later are not in the range.
func TestKeepTheActiveSegment(t *testing.T) {
	dir := t.TempDir()
	l := fillLog(t, fsys.OS(), filepath.Join(dir, "wal"), 10)
	defer l.Close()
	require.NoError(t, l.Archive(3, 10, filepath.Join(dir, "kept")))
	require.NoError(t, l.Append([]Pending{{Type: 1, Payload: []byte("record 0011")}}))
	require.Equal(t, []uint64{3, 4, 5, 6, 7, 8, 9, 10}, readArchive(t, fsys.OS(), filepath.Join(dir, "kept"), 3, 10))
	require.ErrorIs(t, l.Archive(3, 12, filepath.Join(dir, "kept")), ErrTruncated, "not written yet")
}

func TestKeptDamageIsTold(t *testing.T) {
	dir := t.TempDir()
	l := fillLog(t, fsys.OS(), filepath.Join(dir, "wal"), 10)
	require.NoError(t, l.Archive(1, 10, filepath.Join(dir, "kept")))
	require.NoError(t, l.Close())
	f, err := fsys.OS().OpenReadWrite(filepath.Join(dir, "kept", segmentName(1)))
	require.NoError(t, err)
	_, err = f.WriteAt([]byte{0xff}, segmentHead+frameHead+5)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	k, err := OpenArchive(fsys.OS(), filepath.Join(dir, "kept"), 1, 10)
	require.NoError(t, err)
	defer k.Close()
	var rec Record
	_, err = k.Next(&rec)
	var corrupt *CorruptError
	require.ErrorAs(t, err, &corrupt)
	require.EqualValues(t, 1, corrupt.Seq)
}

func TestSizeFromFalls(t *testing.T) {
	l := fillLog(t, fsys.OS(), t.TempDir(), 300)
	defer l.Close()
	last := l.SizeFrom(0)
	require.Greater(t, last, int64(300*100))
	for seq := uint64(1); seq <= 301; seq++ {
		size := l.SizeFrom(seq)
		require.LessOrEqual(t, size, last)
		last = size
	}
	require.Zero(t, last)
}
