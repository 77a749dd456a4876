package fsystest

import (
	"bytes"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/reliability/fsys"
)

func TestCrashCloneKeepsWhatWasSynced(t *testing.T) {
	m := New()
	f, err := m.Create("/f")
	require.NoError(t, err)
	old := bytes.Repeat([]byte("o"), 3*4096)
	_, err = f.Write(old)
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	_, err = m.CrashClone(0, 1).ReadFile("/f")
	require.Error(t, err, "the folder was not synced")
	require.NoError(t, fsys.SyncDir(m, "/", ""))

	_, err = f.WriteAt(bytes.Repeat([]byte("n"), 4*4096), 4096)
	require.NoError(t, err)
	sizes, mixed := map[int]bool{}, false
	for seed := range int64(50) {
		data, err := m.CrashClone(50, seed).ReadFile("/f")
		require.NoError(t, err)
		sizes[len(data)] = true
		require.Equal(t, old[:4096], data[:4096])
		mixed = mixed || data[4096] != data[2*4096]
	}
	require.Equal(t, map[int]bool{3 * 4096: true, 5 * 4096: true}, sizes, "size and data go each their way")
	require.True(t, mixed)
	data, err := m.CrashClone(0, 1).ReadFile("/f")
	require.NoError(t, err)
	require.Equal(t, old, data)

	require.NoError(t, f.Truncate(10))
	data, err = m.CrashClone(0, 1).ReadFile("/f")
	require.NoError(t, err)
	require.Equal(t, old, data, "a truncation is lost too")
	require.NoError(t, f.Sync())
	data, err = m.CrashClone(0, 1).ReadFile("/f")
	require.NoError(t, err)
	require.Equal(t, old[:10], data)

	require.NoError(t, m.Remove("/f"))
	_, err = m.CrashClone(100, 1).ReadFile("/f")
	require.NoError(t, err, "an unlink that was not synced is undone")
	require.NoError(t, fsys.SyncDir(m, "/", ""))
	_, err = m.CrashClone(100, 1).ReadFile("/f")
	require.Error(t, err)
	require.NoError(t, f.Close())
}

func TestFaults(t *testing.T) {
	m := New()
	f, err := m.Create("/f")
	require.NoError(t, err)
	m.FailAt(2, syscall.ENOSPC)
	_, err = f.Write([]byte("1234"))
	require.NoError(t, err)
	n, err := f.Write([]byte("5678"))
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.Equal(t, 2, n)
	data, err := m.ReadFile("/f")
	require.NoError(t, err)
	require.Equal(t, "123456", string(data))

	m.FailNext(OpRead, syscall.EIO)
	_, err = f.ReadAt(make([]byte, 2), 0)
	require.ErrorIs(t, err, syscall.EIO)
	_, err = f.ReadAt(make([]byte, 2), 0)
	require.NoError(t, err)

	m.FailAlways(OpSync, syscall.EIO)
	for range 2 {
		require.ErrorIs(t, fsys.SyncFile(f, "x"), syscall.EIO)
	}
	m.ClearFaults()
	require.NoError(t, fsys.SyncFile(f, "x"))

	ops := m.Ops()
	m.StopAt(2)
	_, err = f.Write([]byte("ab"))
	require.NoError(t, err)
	_, err = f.Write([]byte("cd"))
	require.ErrorIs(t, err, ErrStopped)
	_, err = f.Write([]byte("ef"))
	require.ErrorIs(t, err, ErrStopped)
	_, err = m.Open("/f")
	require.ErrorIs(t, err, ErrStopped)
	require.Equal(t, ops+3, m.Ops())
	m.ClearFaults()
	data, err = m.ReadFile("/f")
	require.NoError(t, err)
	require.Equal(t, "123456abc", string(data), "it stopped in the middle of a write")
	require.NoError(t, f.Close())
}

func TestIgnoreSync(t *testing.T) {
	m := New()
	m.IgnoreSync("drop")
	require.NoError(t, m.WriteFile("/f", []byte("a")))
	f, err := m.OpenReadWrite("/f")
	require.NoError(t, err)
	_, err = f.Write([]byte("b"))
	require.NoError(t, err)
	require.NoError(t, fsys.SyncFile(f, "drop"))
	data, err := m.CrashClone(0, 1).ReadFile("/f")
	require.NoError(t, err)
	require.Equal(t, "a", string(data))
	require.NoError(t, fsys.SyncFile(f, "keep"))
	data, err = m.CrashClone(0, 1).ReadFile("/f")
	require.NoError(t, err)
	require.Equal(t, "b", string(data))
	require.NoError(t, f.Close())

	_, err = m.Create("/dir-entry")
	require.NoError(t, err)
	require.NoError(t, fsys.SyncDir(m, "/", "drop"))
	names, err := m.CrashClone(0, 1).List("/")
	require.NoError(t, err)
	require.Equal(t, []string{"f"}, names)
	m.SetFree(7)
	free, err := m.Free("/")
	require.NoError(t, err)
	require.EqualValues(t, 7, free)
}
