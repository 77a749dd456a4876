package fsys_test

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/fsys/fsystest"
)

func TestClassify(t *testing.T) {
	for _, c := range []struct {
		err  error
		want fsys.Class
	}{
		{syscall.EMFILE, fsys.NoFiles},
		{syscall.ENFILE, fsys.NoFiles},
		{fmt.Errorf("open: %w", syscall.EMFILE), fsys.NoFiles},
		{syscall.ENOSPC, fsys.NoSpace},
		{syscall.EDQUOT, fsys.NoSpace},
		{syscall.EIO, fsys.Refused},
		{syscall.EINTR, fsys.Refused},
		{syscall.EACCES, fsys.Refused},
		{&fsys.SyncError{Err: syscall.EIO}, fsys.SyncFailed},
		{&fsys.SyncError{Err: syscall.ENOSPC}, fsys.SyncFailed},
		{fmt.Errorf("a: %w", errors.Join(syscall.ENOSPC, &fsys.SyncError{Err: syscall.EIO})), fsys.SyncFailed},
	} {
		require.Equal(t, c.want, fsys.Classify(c.err), "%v", c.err)
	}
}

// Only the error of a sync is a failed sync. Without a descriptor for the folder nothing changes.
func TestWhatIsAFailedSync(t *testing.T) {
	m := fsystest.New()
	f, err := m.Create("/f")
	require.NoError(t, err)
	m.FailNext(fsystest.OpSync, syscall.EIO)
	require.Equal(t, fsys.SyncFailed, fsys.Classify(fsys.SyncFile(f, "x")))
	require.NoError(t, fsys.SyncFile(f, "x"))

	m.FailNext(fsystest.OpSyncDir, syscall.EIO)
	require.Equal(t, fsys.SyncFailed, fsys.Classify(fsys.SyncDir(m, "/", "x")))
	m.FailNext(fsystest.OpOpenDir, syscall.EMFILE)
	require.Equal(t, fsys.NoFiles, fsys.Classify(fsys.SyncDir(m, "/", "x")))
	m.FailNext(fsystest.OpOpenDir, syscall.EIO)
	require.Equal(t, fsys.Refused, fsys.Classify(fsys.ChangeDir(m, "/", "x", func() error { panic("called") })))
	require.Equal(t, fsys.Refused, fsys.Classify(fsys.ChangeDir(fsys.OS(), "/no/such/folder", "x", func() error {
		panic("called")
	})))
}

// WriteAtomic leaves the old content for every error short of a failed sync of the folder.
func TestWriteAtomicWithoutDescriptors(t *testing.T) {
	for _, c := range []struct {
		op   fsystest.Op
		err  error
		want fsys.Class
	}{
		{fsystest.OpCreate, syscall.EMFILE, fsys.NoFiles},
		{fsystest.OpOpenDir, syscall.EMFILE, fsys.NoFiles},
		{fsystest.OpRename, syscall.EIO, fsys.Refused},
		{fsystest.OpSync, syscall.EDQUOT, fsys.NoSpace},
		{fsystest.OpSync, syscall.EIO, fsys.SyncFailed},
	} {
		m := fsystest.New()
		require.NoError(t, fsys.WriteAtomic(m, "/f", write("old")))
		m.FailNext(c.op, c.err)
		err := fsys.WriteAtomic(m, "/f", write("new"))
		require.Equal(t, c.want, fsys.Classify(err), "%s %v", c.op, err)
		got, err := m.ReadFile("/f")
		require.NoError(t, err)
		require.Equal(t, "old", string(got))
		names, err := m.List("/")
		require.NoError(t, err)
		require.Equal(t, []string{"f"}, names)
	}
}
