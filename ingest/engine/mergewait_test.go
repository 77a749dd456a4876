package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/fsys/fsystest"
	"github.com/sloengine/sloengine/reliability/ratelimit"
)

func mergeAll([]byte) ([]string, time.Duration) { return nil, time.Hour }

func window(d time.Duration) func() time.Duration { return func() time.Duration { return d } }

// waitingEngine has a limit of limit events and a window that does not end in a test.
func waitingEngine(t *testing.T, disk fsys.FS, limit int64, change func(*Options)) (*running,
	*ratelimit.Limiter, *sums) {
	l := limiter(t, limit, ratelimit.OnExceededAggregate, 1)
	opt := testOptions(disk)
	state := newSums()
	opt.State, opt.Limiter, opt.SegmentBytes = state, l, 1<<20
	opt.MergeBy, opt.MergeWindow = mergeAll, window(time.Minute)
	if change != nil {
		change(&opt)
	}
	return start(t, opt), l, state
}

func admit(ctx context.Context, t testing.TB, r *running, l *ratelimit.Limiter, from int) (Result, error) {
	b := timed(from, from+1)
	return r.Admit(ctx, b, ticketsOf(t, l, b), nil)
}

// soon admits for a sender that needs the answer within a second.
func soon(t testing.TB, r *running, l *ratelimit.Limiter, from int) (Result, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return admit(ctx, t, r, l, from)
}

func (r *running) waiting() int {
	requests, _ := r.queue.size()
	return requests
}

// A request that waits to be merged does not delay others: unlimited events are stored, its own
// sender may disconnect or have a deadline, and a shutdown writes it. Only then is it answered.
func TestWaitingToBeMerged(t *testing.T) {
	disk := fsystest.New()
	r, l, state := waitingEngine(t, disk, 1, nil)
	_, err := admit(context.Background(), t, r, l, 0)
	require.NoError(t, err)

	answered := make(chan Result, 2)
	for i := 1; i <= 2; i++ {
		go func() {
			result, err := admit(context.Background(), t, r, l, i)
			if err == nil {
				answered <- result
			}
		}()
	}
	require.Eventually(t, func() bool { return r.waiting() == 2 }, testkit.Patience, time.Millisecond)
	_, err = r.Commit(context.Background(), testBatch("other"))
	require.NoError(t, err, "who has no ticket does not wait")
	require.Empty(t, answered, "an answer means that it is durable")
	clone := disk.CrashClone(0, 1)

	// The request of a disconnected sender is not stored, and is answered at once.
	ctx, cancel := context.WithCancel(context.Background())
	left := make(chan error, 1)
	go func() { _, err := admit(ctx, t, r, l, 3); left <- err }()
	require.Eventually(t, func() bool { return r.waiting() == 3 }, testkit.Patience, time.Millisecond)
	cancel()
	require.ErrorIs(t, <-left, context.Canceled)

	// A duplicate that comes meanwhile and is over the limit waits, too; who needs the answer
	// soon has all of them written in time.
	began := time.Now()
	result, err := soon(t, r, l, 1)
	for errors.Is(err, context.DeadlineExceeded) { // the machine was too busy to answer within the remaining time
		result, err = soon(t, r, l, 1)
	}
	require.NoError(t, err)
	require.Less(t, time.Since(began), time.Minute, "the window")
	require.Equal(t, 1, result.Accepted+result.Duplicates)
	first, second := <-answered, <-answered
	require.Equal(t, 2, first.Accepted+second.Accepted+result.Accepted, "three requests, two events")
	require.NotZero(t, max(first.Merged, second.Merged))
	_ = r.read.wait(context.Background(), r.durable.Load())
	require.EqualValues(t, 4, state.events, "0, 1, 2 and the one without a ticket")

	go func() {
		if result, err := admit(context.Background(), t, r, l, 4); err == nil {
			answered <- result
		}
	}()
	require.Eventually(t, func() bool { return r.waiting() == 1 }, testkit.Patience, time.Millisecond)
	r.shutdown()
	require.Equal(t, 1, (<-answered).Accepted, "written by the shutdown")
	require.EqualValues(t, 5, state.events)

	// Killed while they waited: nothing of them, and nothing that was acknowledged is gone.
	again, l, state := waitingEngine(t, clone, 1000, nil)
	_ = again.read.wait(context.Background(), again.durable.Load())
	require.EqualValues(t, 2, state.events)
	result, err = admit(context.Background(), t, again, l, 1)
	require.NoError(t, err)
	require.Equal(t, 1, result.Accepted, "its resend counts")
	again.kill()
}

// For a window of any length, waiting requests are bounded in bytes, and by a part of the queue.
func TestWaitingToBeMergedIsBounded(t *testing.T) {
	const senders = 200
	r, l, state := waitingEngine(t, fsystest.New(), 1, func(o *Options) { o.QueueBytes = 64 << 10 })
	one := timed(0, 1)
	size := int64(len(one.Buf)) + requestOverhead
	var wait sync.WaitGroup
	var most atomic.Int64
	ctx, cancel := context.WithCancel(context.Background())
	var stored atomic.Int64
	for i := range senders {
		wait.Go(func() {
			for {
				_, err := admit(ctx, t, r, l, i)
				if err == nil {
					stored.Add(1)
				}
				if _, refused := retryAfter(err); !refused {
					return
				}
				most.Store(max(most.Load(), int64(r.waiting())))
				testkit.Pause(time.Millisecond)
			}
		})
	}
	require.Eventually(t, func() bool { return stored.Load() > senders*3/4 }, testkit.Patience, time.Millisecond)
	require.Eventually(t, func() bool {
		return int64(r.waiting())*size <= r.mergeBytes()
	}, testkit.Patience, time.Millisecond,
		"those that the committer has not looked at yet wait, too")
	_, err := r.Commit(context.Background(), testBatch("other"))
	require.NoError(t, err, "the queue has room for others")
	cancel()
	wait.Wait()
	_ = r.read.wait(context.Background(), r.durable.Load())
	require.EqualValues(t, stored.Load()+1, state.events)
	r.kill()
}

// Senders that come and go at any moment: an answered request counts once, an unanswered one at
// most once.
func TestLeavingWhileWaitingToBeMerged(t *testing.T) {
	const senders, each = 16, 60
	r, l, state := waitingEngine(t, fsystest.New(), 5, func(o *Options) { o.MergeWindow = window(2 * time.Millisecond) })
	var wait sync.WaitGroup
	var answered, sent atomic.Int64
	for s := range senders {
		wait.Go(func() {
			for i := range each {
				ctx, cancel := context.WithCancel(context.Background())
				if i%2 == 0 {
					time.AfterFunc(time.Duration(rand.IntN(3000))*time.Microsecond, cancel)
				}
				result, err := admit(ctx, t, r, l, s*each+i)
				cancel()
				sent.Add(1)
				if err == nil {
					answered.Add(int64(result.Accepted))
				}
			}
		})
	}
	wait.Wait()
	require.Eventually(t, func() bool { return r.waiting() == 0 }, testkit.Patience, time.Millisecond)
	_ = r.read.wait(context.Background(), r.durable.Load())
	require.EqualValues(t, answered.Load(), state.events, "a request that left is not stored")
	require.Less(t, answered.Load(), sent.Load())
	require.Eventually(t, func() bool {
		_, bytes := r.queue.size()
		return bytes == 0
	}, testkit.Patience, time.Millisecond, "a group is answered before its bytes are free")
	r.kill()
}
