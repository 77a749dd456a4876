package fsys_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/fsys/fsystest"
)

// Both file systems behave the same as long as nothing fails.
func TestContract(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) (fsys.FS, string){
		"os":     func(t *testing.T) (fsys.FS, string) { return fsys.OS(), t.TempDir() },
		"memory": func(t *testing.T) (fsys.FS, string) { return fsystest.New(), "/" },
	} {
		t.Run(name, func(t *testing.T) {
			fsy, root := open(t)
			dir := filepath.Join(root, "a", "b")
			_, err := fsy.List(dir)
			require.ErrorIs(t, err, fs.ErrNotExist)
			require.NoError(t, fsys.MkdirAllSynced(fsy, dir, ""))
			require.NoError(t, fsys.MkdirAllSynced(fsy, dir, ""))
			file := filepath.Join(dir, "f")
			_, err = fsy.Open(file)
			require.ErrorIs(t, err, fs.ErrNotExist)
			_, err = fsy.OpenReadWrite(file)
			require.ErrorIs(t, err, fs.ErrNotExist)
			require.ErrorIs(t, fsy.Remove(file), fs.ErrNotExist)

			f, err := fsy.Create(file)
			require.NoError(t, err)
			n, err := f.Write([]byte("hello "))
			require.NoError(t, err)
			require.Equal(t, 6, n)
			_, err = f.Write([]byte("world"))
			require.NoError(t, err)
			_, err = f.WriteAt([]byte("W"), 6)
			require.NoError(t, err)
			require.NoError(t, f.Preallocate(0, 20))
			require.NoError(t, f.Preallocate(0, 10), "never shrinks")
			requireContent(t, f, "hello World\x00\x00\x00\x00\x00\x00\x00\x00\x00")
			require.NoError(t, f.Truncate(5))
			require.NoError(t, f.Preallocate(5, 5))
			requireContent(t, f, "hello\x00\x00\x00\x00\x00")
			require.NoError(t, f.Truncate(7))
			require.NoError(t, fsys.SyncFile(f, ""))
			_, err = f.ReadAt(make([]byte, 3), 5)
			require.ErrorIs(t, err, io.EOF)
			require.NoError(t, f.Close())

			f, err = fsy.Open(file)
			require.NoError(t, err)
			data, err := io.ReadAll(f)
			require.NoError(t, err)
			require.Equal(t, "hello\x00\x00", string(data))
			_, err = f.WriteAt([]byte("x"), 0)
			require.Error(t, err, "opened for reading")
			require.NoError(t, f.Close())

			require.NoError(t, fsy.Rename(file, filepath.Join(dir, "z")))
			require.NoError(t, fsys.WriteAtomic(fsy, filepath.Join(dir, "c"), func(w io.Writer) error {
				_, err := io.WriteString(w, "content")
				return err
			}))
			names, err := fsy.List(dir)
			require.NoError(t, err)
			require.Equal(t, []string{"c", "z"}, names)

			f, err = fsy.Create(filepath.Join(dir, "z"))
			require.NoError(t, err)
			requireContent(t, f, "")
			require.NoError(t, f.Close())
			require.NoError(t, fsy.Remove(filepath.Join(dir, "z")))
			require.NoError(t, fsys.SyncDir(fsy, dir, ""))

			lock, err := fsy.Lock(filepath.Join(dir, "lock"))
			require.NoError(t, err)
			_, err = fsy.Lock(filepath.Join(dir, "lock"))
			require.ErrorIs(t, err, fsys.ErrLocked)
			require.NoError(t, lock.Close())
			lock, err = fsy.Lock(filepath.Join(dir, "lock"))
			require.NoError(t, err)
			require.NoError(t, lock.Close())

			free, err := fsy.Free(dir)
			require.NoError(t, err)
			require.NotZero(t, free)
		})
	}
}

func requireContent(t *testing.T, f fsys.File, want string) {
	t.Helper()
	size, err := f.Size()
	require.NoError(t, err)
	require.EqualValues(t, len(want), size)
	data := make([]byte, size)
	if size > 0 {
		_, err = f.ReadAt(data, 0)
		require.NoError(t, err)
	}
	require.Equal(t, want, string(data))
}

func TestPreallocateReservesSpace(t *testing.T) {
	f, err := fsys.OS().Create(filepath.Join(t.TempDir(), "f"))
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	require.NoError(t, f.Preallocate(0, 1<<20))
	size, err := f.Size()
	require.NoError(t, err)
	require.EqualValues(t, 1<<20, size)
	require.NoError(t, f.Preallocate(0, 0))
}

func TestFilesAreNotForOthers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	require.NoError(t, fsys.OS().MkdirAll(dir))
	f, err := fsys.OS().Create(filepath.Join(dir, "f"))
	require.NoError(t, err)
	require.NoError(t, f.Close())
	for _, name := range []string{dir, filepath.Join(dir, "f")} {
		st, err := os.Stat(name)
		require.NoError(t, err)
		require.Zero(t, st.Mode().Perm()&0o007, name)
	}
}

func write(content string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, content)
		return err
	}
}

func TestWriteAtomicKeepsTheOldFileOnEveryError(t *testing.T) {
	for n := int64(1); ; n++ {
		m := fsystest.New()
		require.NoError(t, fsys.WriteAtomic(m, "/f", write("old")))
		m.FailAt(n, syscall.ENOSPC)
		err := fsys.WriteAtomic(m, "/f", write("new"))
		if err == nil {
			require.Greater(t, n, int64(4))
			break
		}
		require.ErrorIs(t, err, syscall.ENOSPC)
		data, rerr := m.ReadFile("/f")
		require.NoError(t, rerr)
		require.Contains(t, []string{"old", "new"}, string(data))
	}
	m := fsystest.New()
	require.NoError(t, fsys.WriteAtomic(m, "/f", write("old")))
	broken := errors.New("broken")
	require.ErrorIs(t, fsys.WriteAtomic(m, "/f", func(w io.Writer) error {
		_, _ = io.WriteString(w, "half")
		return broken
	}), broken)
	names, err := m.List("/")
	require.NoError(t, err)
	require.Equal(t, []string{"f"}, names)
	data, err := m.ReadFile("/f")
	require.NoError(t, err)
	require.Equal(t, "old", string(data))
}

// replaceAndLosePower cuts the power at every operation of a replacement.
func replaceAndLosePower(ignore ...fsys.Site) error {
	m := fsystest.New()
	if err := fsys.WriteAtomic(m, "/f", write("old")); err != nil {
		return err
	}
	m.IgnoreSync(ignore...)
	var broken error
	check := func(allowed ...string) {
		for i, percent := range []int{0, 30, 60, 100, 50, 50} {
			data, err := m.CrashClone(percent, m.Ops()+int64(100*i)).ReadFile("/f")
			ok := err == nil
			if ok {
				ok = false
				for _, a := range allowed {
					ok = ok || a == string(data)
				}
			}
			if !ok && broken == nil {
				broken = fmt.Errorf("found %q (%w), wanted one of %q", data, err, allowed)
			}
		}
	}
	for range 5 {
		m.Before(func(fsystest.Op, string) { check("old", "new") })
		if err := fsys.WriteAtomic(m, "/f", write("new")); err != nil {
			return err
		}
		m.Before(nil)
		check("new")
		if err := fsys.WriteAtomic(m, "/f", write("old")); err != nil {
			return err
		}
	}
	return broken
}

func TestWriteAtomicSurvivesPowerLoss(t *testing.T) {
	require.NoError(t, replaceAndLosePower())
	for _, site := range fsystest.Sites("atomic.") {
		require.Error(t, replaceAndLosePower(site), "a missing sync %s is not noticed", site)
	}
}

func TestMkdirAllSyncedSurvivesPowerLoss(t *testing.T) {
	m := fsystest.New()
	require.NoError(t, m.MkdirAll("/a/b"), "left by a process that died")
	require.NoError(t, fsys.MkdirAllSynced(m, "/a/b/c", ""))
	_, err := m.CrashClone(0, 1).List("/a/b/c")
	require.NoError(t, err)
	m.FailNext(fsystest.OpSyncDir, syscall.EIO)
	require.ErrorIs(t, fsys.MkdirAllSynced(m, "/a/b/c", ""), syscall.EIO)
}

// farUp is a file system whose root cannot be opened.
type farUp struct {
	fsys.FS
	err error
}

func (f farUp) OpenDir(dir string) (fsys.Dir, error) {
	if dir == "/" {
		return nil, f.err
	}
	return f.FS.OpenDir(dir)
}

func TestMkdirAllSyncedBelowFoldersOfOthers(t *testing.T) {
	for err, ours := range map[error]bool{syscall.EACCES: false, syscall.EROFS: false, syscall.EIO: true} {
		got := fsys.MkdirAllSynced(farUp{fsystest.New(), err}, "/a/b/c", "")
		require.Equal(t, ours, errors.Is(got, err), err)
		require.Error(t, fsys.MkdirAllSynced(farUp{fsystest.New(), err}, "/a", ""), "its parent must be synced")
	}
}

func TestSites(t *testing.T) {
	seen := map[fsys.Site]bool{}
	for _, s := range fsystest.Sites("") {
		require.False(t, seen[s], s)
		seen[s] = true
	}
	require.Len(t, fsystest.Sites("atomic."), 2)
	require.Empty(t, fsystest.Sites("nobody."))
}
