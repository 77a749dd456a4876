package source

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/event"
)

// A meter is never more than a second behind, and exact once nothing lasts any more.
func TestMeter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &meter{now: time.Now, seconds: &metrics.FloatCounter{}}
		wait := func(d time.Duration) { time.Sleep(d); synctest.Wait() }
		m.begin()
		wait(90*time.Second + 500*time.Millisecond)
		require.InDelta(t, 90, m.seconds.Get(), 1e-6)
		m.begin()
		wait(10 * time.Second)
		m.end()
		require.InDelta(t, 110.5, m.seconds.Get(), 1e-6, "two at the same time add up")
		wait(500 * time.Millisecond)
		m.end()
		require.InDelta(t, 111, m.seconds.Get(), 1e-6)
		wait(time.Hour)
		require.InDelta(t, 111, m.seconds.Get(), 1e-6)
		m.begin()
		wait(200 * time.Millisecond)
		m.end()
		require.InDelta(t, 111.2, m.seconds.Get(), 1e-6)
	})
}

// While the engine refuses for long, the source is busy and paused, and both show before it
// continues.
func TestBusyDuringALongPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, func(o *Options) { o.Now = time.Now })
		for range 60 {
			f.engine.script = append(f.engine.script, func(*event.Batch, []int32) (engine.Result, error) {
				return engine.Result{}, &engine.UnavailableError{Code: "overload", RetryAfter: 5 * time.Second}
			})
		}
		done := make(chan error)
		go func() {
			end := f.Busy()
			defer end()
			b := f.Batch(false)
			defer b.Release()
			b.Add(&Message{Topic: "orders", Value: []byte(valueOf("a"))})
			done <- f.Submit(t.Context(), b, nil)
		}()
		time.Sleep(4 * time.Minute)
		synctest.Wait()
		require.InDelta(t, 240, f.counts.busy.Get(), 1)
		require.InDelta(t, 240, f.counts.paused[TroubleEngine].Get(), 1)
		require.NoError(t, <-done)
		synctest.Wait()
		require.InDelta(t, 300, f.counts.busy.Get(), 1e-6)
		require.InDelta(t, 300, f.counts.paused[TroubleEngine].Get(), 1e-6)
	})
}
