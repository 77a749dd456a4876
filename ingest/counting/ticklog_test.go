package counting

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/record"
)

// TestTickLog: a tick that the log did not take goes with the next one, in order, and a disk that hangs holds an
// evaluator up for a second only.
func TestTickLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []record.Tick
		var err error
		free := make(chan struct{})
		close(free)
		l := NewTickLog(func(_ context.Context, payload []byte) error {
			<-free
			if err != nil {
				return err
			}
			return record.ParseTicks(payload, func(tick record.Tick) { got = append(got, tick) })
		}, slog.New(slog.DiscardHandler))
		note := func(n int64) { l.Note(record.Tick{Time: n}, time.Unix(7, 0)) }

		note(1)
		err = errors.New("disk full")
		l.Refuse()
		note(2)
		note(3)
		require.Equal(t, []record.Tick{{Time: 1, Started: true, Restored: 7e9}}, got)
		err = nil
		note(4)
		require.Equal(t, []record.Tick{{Time: 2, Refused: 1}, {Time: 3}, {Time: 4}}, got[1:])

		free = make(chan struct{})
		began := time.Now()
		for n := range int64(2 * maxPendingTicks) {
			note(5 + n)
		}
		require.Equal(t, tickWait, time.Since(began), "only the first waits")
		close(free)
		synctest.Wait()
		note(1000)
		require.EqualValues(t, 5, got[4].Time)
		require.Len(t, got, 5+maxPendingTicks, "the oldest of those that wait give way")
		for i := range got[:len(got)-1] {
			require.Less(t, got[i].Time, got[i+1].Time)
		}
	})
}
