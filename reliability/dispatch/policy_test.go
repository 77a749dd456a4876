package dispatch

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/reliability/breaker"
	"github.com/sloengine/sloengine/reliability/retry"
)

type coded struct {
	error
	code int
}

func (e coded) StatusCode() int { return e.code }

// Retryable errors can be chosen by class and by status code.
func TestRetryOnChoosesWhatIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		on := &RetryOn{Codes: []int{409}}
		on.Classes[retry.ClassTimeout] = true
		errs := map[string]error{
			"e0": retry.WithClass(coded{errors.New("conflict"), 409}, retry.ClassPermanent),
			"e1": retry.WithClass(errors.New("down"), retry.ClassTransient),
			"e2": retry.WithClass(errors.New("slow"), retry.ClassTimeout),
			"e3": retry.WithClass(errors.New("401"), retry.ClassBlocked),
		}
		f := newFake(func(_ context.Context, batch []Item) (r Result) {
			for i, it := range batch {
				if err := errs[it.ID]; err != nil {
					r.Failed = append(r.Failed, Failure{i, err})
				}
			}
			return r
		})
		b.add(SinkOptions{Name: "s", Sink: f, RetryOn: on})
		b.write(1, 5)
		b.run()
		time.Sleep(time.Minute)
		for id, want := range map[string]int{"e0": 4, "e1": 1, "e2": 4, "e3": 1, "e4": 1} {
			require.Equal(t, want, f.timesSeen(id), id)
		}
		require.Equal(t, map[string]int{ReasonPermanent: 2, ReasonExhausted: 2}, b.reasons())
		b.end()
	})
}

// Without a breaker a failing sink is tried as often as the retries say.
func TestWithoutABreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		b.add(SinkOptions{Name: "s", Sink: newFake(failing(retry.ClassTransient)),
			Breaker: breaker.Options{Off: true}, BatchItems: 1})
		b.write(20, 1)
		b.run()
		time.Sleep(2 * time.Minute)
		require.Equal(t, map[string]int{ReasonExhausted: 20}, b.reasons())
		require.Equal(t, breaker.Closed, b.status("s").CircuitBreaker.State)
		require.True(t, b.status("s").CircuitBreaker.Off)
		b.end()
	})
}

// A call ends with the time to live of its oldest item, one that would have no time is not
// made, and neither says anything of the sink.
func TestCallsEndWithTheTimeToLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := metrics.NewSet()
		b := newBench(t, func(o *Options) { o.Metrics = NewMetrics(set) })
		var longest atomic.Int64
		f := newFake(func(ctx context.Context, _ []Item) Result {
			end, _ := ctx.Deadline()
			longest.Store(max(longest.Load(), int64(time.Until(end))))
			<-ctx.Done()
			return Result{Err: ctx.Err()}
		})
		b.add(SinkOptions{Name: "s", Sink: f, TTL: 2 * time.Second, Timeout: time.Minute, BatchWait: -1,
			Retry:   retry.Options{Base: time.Millisecond, Cap: time.Millisecond, Jitter: retry.None},
			Breaker: breaker.Options{Consecutive: breaker.Consecutive{Failures: 1}}})
		b.run()
		b.write(3, 1)
		time.Sleep(10 * time.Second)
		require.LessOrEqual(t, time.Duration(longest.Load()), 2*time.Second-ttlReserve)
		require.Equal(t, map[string]int{ReasonExpired: 3}, b.reasons())
		require.Equal(t, breaker.Closed, b.status("s").CircuitBreaker.State)
		require.Positive(t, set.GetOrCreateCounter(`sloengine_deadline_expired_total{where="sink"}`).Get())
		b.end()
	})
}
