package engine

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/reliability/fsys/fsystest"
)

// While the reader works off a backlog, one checkpoint follows the other: it hears of the end of each between two
// records.
func TestCheckpointsDuringABacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opt := testOptions(fsystest.New())
		opt.Checkpoint.LogBytes = 1 // after every record, if none is under way
		opt.CrashPoint = func(at CrashPoint) {
			if at == CrashBeforeApply {
				time.Sleep(time.Millisecond) // the saver is done meanwhile
			}
		}
		r := start(t, opt)
		held, release := make(chan struct{}), make(chan struct{})
		go func() { _ = r.Do(context.Background(), func() { close(held); <-release }) }()
		<-held
		const backlog = 50
		for i := range backlog {
			r.commit(fmt.Sprint("event-", i))
		}
		close(release)
		time.Sleep(backlog / 2 * time.Millisecond)
		require.Greater(t, r.Health().Checkpoint.Position, uint64(backlog/4), "in the middle of the backlog")
		require.Len(t, r.counts(), backlog)
		r.shutdown()
	})
}

// Who catches up sees every record that was durable before. Do alone would be served in the middle of a backlog.
func TestCatchUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opt := testOptions(fsystest.New())
		opt.CrashPoint = func(at CrashPoint) {
			if at == CrashBeforeApply {
				time.Sleep(time.Millisecond) // the reader is slower than the log
			}
		}
		r := start(t, opt)
		const backlog = 50
		for i := range backlog {
			r.commit(fmt.Sprint("event-", i))
		}
		durable := r.Health().Log.Durable
		require.Less(t, r.Position(), durable)
		require.NoError(t, r.CatchUp(context.Background()))
		require.GreaterOrEqual(t, r.Position(), durable)
		require.NoError(t, r.CatchUp(context.Background()), "at once")
		r.shutdown()
	})
}
