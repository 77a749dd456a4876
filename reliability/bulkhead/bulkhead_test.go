package bulkhead

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/reliability/retry"
)

func TestSoManyRunSoManyWaitTheRestIsRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := metrics.NewSet()
		b, err := New(Options{Name: "s", Concurrency: 2, Queue: 3, Metrics: NewMetrics(set)})
		require.NoError(t, err)
		release := make(chan struct{})
		results := make(chan error, 10)
		var running atomic.Int64
		for range 10 {
			go func() {
				if err := b.Acquire(t.Context()); err != nil {
					results <- err
					return
				}
				defer b.Release()
				running.Add(1)
				<-release
				results <- nil
			}()
			synctest.Wait()
		}
		require.Equal(t, Status{Name: "s", Active: 2, Queued: 3, Concurrency: 2, Queue: 3, Rejected: 5}, b.Status())
		require.EqualValues(t, 2, running.Load())
		for range 5 {
			err := <-results
			var full *FullError
			require.ErrorAs(t, err, &full)
			require.Equal(t, retry.ClassOverload, retry.ClassOf(err))
		}
		close(release)
		for range 5 {
			require.NoError(t, <-results)
		}
		synctest.Wait() // a result is sent before its place is released
		require.Equal(t, Status{Name: "s", Concurrency: 2, Queue: 3, Rejected: 5}, b.Status())
		b.Measure()
		require.Len(t, set.ListMetricNames(), 3)
		b.o.Metrics.Forget("s")
		require.Empty(t, set.ListMetricNames())
	})
}

func TestWaitingEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := New(Options{Name: "s", Concurrency: 1, MaxWait: time.Second})
		require.NoError(t, err)
		require.NoError(t, b.Acquire(t.Context()))
		start := time.Now()
		var full *FullError
		require.ErrorAs(t, b.Acquire(t.Context()), &full)
		require.Equal(t, time.Second, time.Since(start))
		gone := errors.New("the caller left")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Millisecond, func() { cancel(gone) })
		require.ErrorIs(t, b.Acquire(ctx), gone)
		require.Zero(t, b.Status().Queued)
		b.Release()
		require.NoError(t, b.Acquire(t.Context()))
	})
}

func TestOptions(t *testing.T) {
	for want, o := range map[string]Options{
		"Name is required": {},
		"concurrency":      {Name: "s", Concurrency: -1},
		"queue":            {Name: "s", Queue: -2},
		"negative":         {Name: "s", MaxWait: -1},
	} {
		_, err := New(o)
		require.ErrorContains(t, err, want)
	}
}

func BenchmarkSuccess(bm *testing.B) {
	b, err := New(Options{Name: "s"})
	require.NoError(bm, err)
	ctx := bm.Context()
	bm.ReportAllocs()
	for bm.Loop() {
		if err := b.Acquire(ctx); err != nil {
			bm.Fatal(err)
		}
		b.Release()
	}
}
