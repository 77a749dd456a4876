package ingest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/fsys/fsystest"
	"github.com/sloengine/sloengine/reliability/ratelimit"
)

func mergeAll([]byte) ([]string, time.Duration) { return nil, time.Hour }

func window(d time.Duration) func() time.Duration { return func() time.Duration { return d } }

// Senders whose requests hold one event each, all over the limit: with a window they
// become a few records, whose ids are known after a kill.
func TestFloodOfSingleEventsIsMerged(t *testing.T) {
	const senders, each = 64, 12
	flood := func(t *testing.T, merge time.Duration) (events int) {
		set := metrics.NewSet()
		strategy, limit, hour := ratelimit.OnExceededAggregate, int64(1), time.Hour
		policy, err := ratelimit.Compile(ratelimit.Config{Default: ratelimit.Values{Limit: &limit, Window: &hour, OnExceeded: &strategy}})
		require.NoError(t, err)
		l, err := ratelimit.New(ratelimit.Options{Policy: policy, Metrics: ratelimit.NewMetrics(set)})
		require.NoError(t, err)
		opt := testOptions(fsys.OS())
		state := newSums()
		opt.Dir, opt.State, opt.Limits, opt.SegmentBytes = t.TempDir(), state, l, 1<<20
		opt.MergeBy, opt.MergeWindow = mergeAll, window(merge)
		r := start(t, opt)
		h, err := NewHandler(HandlerOptions{
			Committer: r.Engine, Limiter: l, Logger: quiet, Metrics: NewHTTPMetrics(set),
			SaveCritical: func(context.Context, []dlq.Entry) error { return nil },
		})
		require.NoError(t, err)
		gin.SetMode(gin.ReleaseMode)
		router := gin.New()
		h.Register(router)
		server := httptest.NewServer(router)
		defer server.Close()
		client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: senders}}
		defer client.CloseIdleConnections()
		now := time.Now().UTC().Format(time.RFC3339)
		send := func(id string) string {
			body := fmt.Sprintf(`{"id":%q,"service":"shop","type":"order","time":%q}`, id, now)
			resp, err := client.Post(server.URL+EventsPath, "application/json", strings.NewReader(body))
			if err != nil {
				return err.Error()
			}
			defer resp.Body.Close()
			answer, _ := io.ReadAll(resp.Body)
			return fmt.Sprint(resp.StatusCode, " ", string(answer))
		}
		var wait sync.WaitGroup
		var wrong atomic.Pointer[string]
		for s := range senders {
			wait.Go(func() {
				for i := range each {
					if a := send(fmt.Sprintf("%d-%d", s, i)); !strings.HasPrefix(a, "202") || !strings.Contains(a, `"accepted":1`) {
						wrong.Store(&a)
					}
				}
			})
		}
		wait.Wait()
		if w := wrong.Load(); w != nil {
			require.Fail(t, *w)
		}
		_ = r.read.wait(context.Background(), r.durable.Load())
		require.EqualValues(t, senders*each, state.events, "every event counts once")
		var out bytes.Buffer
		set.WritePrometheus(&out)
		if merge > 0 {
			merged := ""
			for line := range strings.Lines(out.String()) {
				if n, ok := strings.CutPrefix(line, "sloengine_ratelimit_aggregated_total "); ok {
					merged = strings.TrimSpace(n)
				}
			}
			require.NotEmpty(t, merged)
			var n int
			_, _ = fmt.Sscan(merged, &n)
			require.LessOrEqual(t, n, senders*each-1, "merged events, and the first one passed")
			require.GreaterOrEqual(t, n, senders*each-state.records, "merged events are those that share a stored one")
		}
		for s := range senders {
			require.Contains(t, send(fmt.Sprintf("%d-%d", s, s%each)), `"duplicates":1`)
		}
		stored := state.records
		r.kill()
		return stored
	}
	// Without a window only those merge that the same sync brings together.
	single := flood(t, 0)
	merged := flood(t, 100*time.Millisecond)
	t.Logf("%d events of %d senders: %d stored without a window, %d with one of 100ms", senders*each, senders, single, merged)
	require.LessOrEqual(t, merged, senders*each/8, "records of %d events", senders*each)
}

// waitingEngine has a limit of limit events and a window that does not end in a test.
func waitingEngine(t *testing.T, disk fsys.FS, limit int64, change func(*Options)) (*running, *ratelimit.Limiter, *sums) {
	l := limiter(t, limit, ratelimit.OnExceededAggregate, 1)
	opt := testOptions(disk)
	state := newSums()
	opt.State, opt.Limits, opt.SegmentBytes = state, l, 1<<20
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

func (r *running) waiting() int {
	requests, _ := r.queue.size()
	return requests
}

// A request that waits to be merged holds up nobody: what is not limited is stored, its own
// sender may leave or have a deadline, and a shutdown writes it. Only then is it answered.
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
	require.Eventually(t, func() bool { return r.waiting() == 2 }, 5*time.Second, time.Millisecond)
	_, err = r.Commit(context.Background(), testBatch("other"))
	require.NoError(t, err, "who has no ticket does not wait")
	require.Empty(t, answered, "an answer means that it is durable")
	clone := disk.CrashClone(0, 1)

	// Who leaves is not stored, and is told at once.
	ctx, cancel := context.WithCancel(context.Background())
	left := make(chan error, 1)
	go func() { _, err := admit(ctx, t, r, l, 3); left <- err }()
	require.Eventually(t, func() bool { return r.waiting() == 3 }, 5*time.Second, time.Millisecond)
	cancel()
	require.ErrorIs(t, <-left, context.Canceled)

	// A repeat that comes meanwhile and is over the limit waits, too; who needs the answer
	// soon has all of them written in time.
	ctx, cancel = context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	result, err := admit(ctx, t, r, l, 1)
	require.NoError(t, err)
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
	require.Eventually(t, func() bool { return r.waiting() == 1 }, 5*time.Second, time.Millisecond)
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

// However long the window, what waits is bounded in bytes, and by a part of the queue.
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
				if _, refused := RetryAfter(err); !refused {
					return
				}
				most.Store(max(most.Load(), int64(r.waiting())))
				time.Sleep(time.Millisecond)
			}
		})
	}
	require.Eventually(t, func() bool { return stored.Load() > senders*3/4 }, 10*time.Second, time.Millisecond)
	require.LessOrEqual(t, int64(r.waiting())*size, r.holdBytes())
	_, err := r.Commit(context.Background(), testBatch("other"))
	require.NoError(t, err, "the queue has room for others")
	cancel()
	wait.Wait()
	_ = r.read.wait(context.Background(), r.durable.Load())
	require.EqualValues(t, stored.Load()+1, state.events)
	r.kill()
}

// Senders that come and go at any moment: what is answered counts once, what is not at
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
	require.Eventually(t, func() bool { return r.waiting() == 0 }, 5*time.Second, time.Millisecond)
	_ = r.read.wait(context.Background(), r.durable.Load())
	require.EqualValues(t, answered.Load(), state.events, "a request that left is not stored")
	require.Less(t, answered.Load(), sent.Load())
	_, bytes := r.queue.size()
	require.Zero(t, bytes, "all memory is given back")
	r.kill()
}
