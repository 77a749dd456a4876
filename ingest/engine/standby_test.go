package engine

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/checkpoint"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/fsys"
)

// A checkpoint that is damaged while a standby waits for the lock costs time alone: the standby counts the same, or
// stops and names the file. It changes nothing that it cannot read, and moves nothing aside without the override.
func TestStandbyTakesOverADamagedCheckpoint(t *testing.T) {
	dir := t.TempDir()
	opt := testOptions(fsys.OS())
	opt.Dir, opt.SegmentBytes = dir, 600 // the log begins late
	r := start(t, opt)
	for from := 0; from < 90; from++ {
		r.commit(numbered("x", from, from+1)...)
		if from == 59 || from == 60 || from == 61 { // two are retained
			r.checkpointNow()
		}
	}
	r.counts()
	active := filepath.Join(dir, "checkpoints")
	intact := t.TempDir()
	require.NoError(t, os.CopyFS(intact, os.DirFS(dir))) // as a kill leaves it
	r.shutdown()
	files, err := os.ReadDir(filepath.Join(intact, "checkpoints"))
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(active))

	same, refused, slowest := 0, 0, time.Duration(0)
	for _, file := range files {
		data, err := os.ReadFile(filepath.Join(intact, "checkpoints", file.Name()))
		require.NoError(t, err)
		for at := 0; at < len(data); at += 1 + len(data)/8 {
			dir := t.TempDir()
			require.NoError(t, os.CopyFS(dir, os.DirFS(intact)))
			held, err := fsys.OS().Lock(filepath.Join(dir, LockFile))
			require.NoError(t, err)
			waits := make(chan *running)
			go func() { // as the standby does
				lock, err := fsys.OS().Lock(filepath.Join(dir, LockFile))
				for errors.Is(err, fsys.ErrLocked) {
					testkit.Pause(time.Millisecond)
					lock, err = fsys.OS().Lock(filepath.Join(dir, LockFile))
				}
				opt := opt
				opt.Dir, opt.Locked = dir, true
				r := launch(t, opt)
				waits <- r
				if err == nil {
					<-r.ended
					_ = lock.Close()
				}
			}()
			broken := append([]byte{}, data...)
			broken[at] ^= 0x55
			name := filepath.Join(dir, "checkpoints", file.Name())
			require.NoError(t, os.WriteFile(name, broken, 0o644))
			began := time.Now()
			require.NoError(t, held.Close())
			r := <-waits
			select {
			case <-r.Ready():
				same++
				slowest = max(slowest, time.Since(began))
				requireOnce(t, r.counts(), numbered("x", 0, 90))
				require.Equal(t, 90, r.commit(numbered("x", 0, 90)...).Duplicates)
				r.shutdown()
			case err := <-r.end:
				refused++
				var loss *checkpoint.LossError
				require.ErrorAs(t, err, &loss, "%s at %d", file.Name(), at)
				require.ErrorContains(t, err, file.Name())
				after, err := os.ReadFile(name)
				require.NoError(t, err)
				require.Equal(t, broken, after, "nothing is reset")
			}
		}
	}
	require.Positive(t, same)
	require.Positive(t, refused)
	t.Logf("%d take-overs with the same counts, the slowest in %s, and %d refused", same, slowest, refused)
}
