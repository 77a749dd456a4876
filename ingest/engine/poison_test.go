package engine

import (
	"errors"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/fsys/fsystest"
	"github.com/sloengine/sloengine/reliability/wal"
)

// A stop at the moment of a failed sync must not make the saver take the ids of that group for durable ones.
func TestStopDoesNotHideAFailure(t *testing.T) {
	e, err := Open(func() Options { o := testOptions(fsystest.New()); o.State = newTally(); return o }())
	require.NoError(t, err)
	e.poison(errors.New("sync failed"))
	e.setPhase(StatusStopping)
	require.True(t, e.poisoned())
	require.NoError(t, e.Close())
}

// A heartbeat whose sync fails ends the committer. Requests that arrived meanwhile are answered all the same.
func TestFailedHeartbeatAnswersSenders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := fsystest.New()
		r := start(t, testOptions(disk))
		r.commit("a")
		answer := make(chan error, 1)
		var once sync.Once
		disk.Before(func(op fsystest.Op, name string) {
			if op != fsystest.OpSync || name == "/data/wal/durable" {
				return
			}
			once.Do(func() {
				go func() { answer <- r.refusal("b") }()
				time.Sleep(time.Millisecond) // it is in the queue
				disk.FailNext(fsystest.OpSync, syscall.EIO)
			})
		})
		select {
		case err := <-answer:
			require.ErrorIs(t, err, ErrPoisoned)
		case <-time.After(testkit.Patience):
			require.Fail(t, "the sender got no answer")
		}
		require.ErrorIs(t, <-r.end, wal.ErrPoisoned)
	})
}
