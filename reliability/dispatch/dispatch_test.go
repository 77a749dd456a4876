package dispatch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/reliability/breaker"
	"github.com/sloengine/sloengine/reliability/bulkhead"
	"github.com/sloengine/sloengine/reliability/retry"
)

func TestEverySinkGetsEveryItemOnceAndInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		one, two := newFake(nil), newFake(nil)
		b.add(SinkOptions{Name: "one", Sink: one, BatchItems: 7, Bulkhead: bulkhead.Options{Concurrency: 1}})
		b.add(SinkOptions{Name: "two", Sink: two})
		b.write(50, 5)
		b.append(2, "a record that is not for sinks")
		b.run()
		time.Sleep(time.Second)
		b.write(50, 5)
		time.Sleep(2 * time.Second)
		require.Equal(t, 500, one.count())
		require.Equal(t, 500, two.count())
		for _, s := range b.d.Status() {
			require.Equal(t, Cursor{Seq: 102}, s.Next, s.Name)
			require.Equal(t, s.Next, s.Saved)
			require.Zero(t, s.LagRecords)
			require.EqualValues(t, 500, s.Delivered)
		}
		lowest, ok := b.d.Lowest()
		require.True(t, ok)
		require.EqualValues(t, 102, lowest)
		b.end()
		for i, id := range one.order {
			require.Equal(t, fmt.Sprintf("e%d", i), id)
		}
		require.Equal(t, 1, one.closed)
	})
}

func TestASinkThatHangsOrRefusesHoldsUpNoOther(t *testing.T) {
	for name, answer := range map[string]func(context.Context, []Item) Result{
		"hangs":               hanging,
		"refuses":             failing(retry.ClassTransient),
		"panics":              func(context.Context, []Item) Result { panic("boom") },
		"ignores its context": func(context.Context, []Item) Result { time.Sleep(10 * time.Minute); return Result{} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, nil)
				bad, good := newFake(answer), newFake(nil)
				b.add(SinkOptions{Name: "bad", Sink: bad})
				b.add(SinkOptions{Name: "good", Sink: good})
				b.run()
				for range 10 {
					b.write(10, 100)
					time.Sleep(500 * time.Millisecond)
				}
				require.Equal(t, 10_000, good.count())
				require.LessOrEqual(t, b.status("bad").InFlight, 4)
				lowest, _ := b.d.Lowest()
				require.Equal(t, b.status("bad").Saved.Seq, lowest)
				start := time.Now()
				b.end()
				require.Less(t, time.Since(start), 7*time.Second, "a drain must end")
				time.Sleep(20 * time.Minute) // let the hung call return before the leak check
			})
		})
	}
}

func TestPermanentPartialAndExhaustedFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		f := newFake(func(_ context.Context, batch []Item) (r Result) {
			for i, it := range batch {
				switch it.ID {
				case "e3":
					r.Failed = append(r.Failed, Failure{i, retry.Permanent(errors.New("bad item"))})
				case "e5":
					r.Failed = append(r.Failed, Failure{i, retry.WithClass(errors.New("never"), retry.ClassTransient)})
				}
			}
			return r
		})
		b.add(SinkOptions{Name: "s", Sink: f})
		b.write(1, 10)
		b.append(1, "garbage")
		b.run()
		time.Sleep(time.Minute)
		require.Equal(t, 8, f.count())
		require.Equal(t, 1, f.timesSeen("e3"), "what is refused for good is not sent again")
		require.Equal(t, 4, f.timesSeen("e5"), "3 retries after the first attempt")
		require.Equal(t, 1, f.timesSeen("e0"), "what was taken is not sent again")
		require.Equal(t, map[string]int{ReasonPermanent: 1, ReasonExhausted: 1, ReasonUnreadable: 1}, b.reasons())
		for _, l := range b.dead() {
			require.Equal(t, "s", l.Sink)
			switch l.Item.ID {
			case "e3":
				require.Equal(t, retry.ClassPermanent, l.Class)
				require.Equal(t, 1, l.Attempts)
				require.Equal(t, 3, l.Item.Index)
			case "e5":
				require.Equal(t, retry.ClassTransient, l.Class)
				require.Equal(t, 4, l.Attempts)
				require.Equal(t, "never", l.Err)
				require.True(t, l.Last.After(l.First))
			}
		}
		require.Equal(t, Cursor{Seq: 3}, b.status("s").Next)
		b.end()
	})
}

func TestTheCursorWaitsForTheDeadLetters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var well atomic.Bool
		var kept atomic.Int32
		b := newBench(t, func(o *Options) {
			o.DeadLetter = func(_ context.Context, l []DeadLetter) error {
				if !well.Load() {
					return errors.New("disk is full")
				}
				kept.Add(int32(len(l)))
				return nil
			}
		})
		b.add(SinkOptions{Name: "s", Sink: newFake(failing(retry.ClassPermanent))})
		b.write(1, 3)
		b.run()
		time.Sleep(time.Minute)
		require.Equal(t, Cursor{Seq: 1}, b.status("s").Next)
		require.Contains(t, b.status("s").LastError, "disk is full")
		well.Store(true)
		time.Sleep(10 * time.Second)
		require.EqualValues(t, 3, kept.Load())
		require.Equal(t, Cursor{Seq: 2}, b.status("s").Saved)
		b.end()
	})
}

func TestOldItemsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		f := newFake(failing(retry.ClassTransient))
		b.add(SinkOptions{Name: "s", Sink: f, TTL: 5 * time.Minute, Retry: retry.Options{MaxRetries: retry.Unlimited}})
		b.run()
		for range 10 {
			b.write(1, 10)
			time.Sleep(time.Minute)
		}
		time.Sleep(90 * time.Second)
		f.set(nil)
		calls := f.calls()
		time.Sleep(3 * time.Minute)
		require.Positive(t, f.calls()-calls)
		delivered, expired := f.count(), b.reasons()[ReasonExpired]
		require.Equal(t, 100, delivered+expired, "every item is delivered or found in the dead letters")
		require.GreaterOrEqual(t, expired, 60)
		require.Positive(t, delivered)
		b.end()
		for id := range f.got {
			for _, l := range b.deadLetters {
				require.NotEqual(t, id, l.Item.ID)
			}
		}
	})
}

func TestRetryAfterHoldsUpTheLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		var calls atomic.Int32
		f := newFake(nil)
		f.set(func(context.Context, []Item) Result {
			if calls.Add(1) == 1 {
				return Result{Err: retry.After(errors.New("429"), 7*time.Second)}
			}
			return Result{}
		})
		b.add(SinkOptions{Name: "s", Sink: f, BatchItems: 10, Bulkhead: bulkhead.Options{Concurrency: 1}})
		b.write(3, 10)
		b.run()
		time.Sleep(6 * time.Second)
		require.Equal(t, 1, f.calls())
		require.Positive(t, b.status("s").HeldSeconds)
		time.Sleep(5 * time.Second)
		require.Equal(t, 30, f.count())
		require.Equal(t, breaker.Closed, b.status("s").CircuitBreaker.State, "an overloaded sink is not a broken one")
		b.end()
	})
}

// The seed's outage: a sink down for 10 s under 100 items/s, then back. Without limits
// it would get everything at once, again and again.
func TestRecoveringSinkSeesAtMostItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		f := newFake(failing(retry.ClassTransient))
		b.add(SinkOptions{
			Name: "s", Sink: f, BatchItems: 50, Staged: Staged{Items: 200, Growth: 1},
			Breaker: breaker.Options{Consecutive: breaker.Consecutive{Open: 2 * time.Second}, Rate: breaker.Rate{Off: true}},
			Retry:   retry.Options{MaxRetries: 20},
		})
		b.run()
		feed := func(seconds int) {
			for range 10 * seconds {
				b.write(1, 10)
				time.Sleep(100 * time.Millisecond)
			}
		}
		feed(10)
		require.LessOrEqual(t, f.peak(time.Second), 500, "an open breaker keeps calls away")
		f.mu.Lock()
		f.times = nil
		f.mu.Unlock()
		f.set(nil)
		feed(20)
		time.Sleep(5 * time.Second)
		require.Equal(t, 3000, f.count())
		require.Empty(t, b.dead())
		require.LessOrEqual(t, f.peak(time.Second), 200)
		require.False(t, b.status("s").Recovering)
		b.end()
		for id, n := range f.seen {
			require.LessOrEqual(t, n, 21, id)
		}
	})
}

func TestRetriesKeepToTheirRateLimit(t *testing.T) {
	for _, how := range []retry.Exceed{retry.Delay, retry.Drop, retry.DeadLetter} {
		t.Run(string(how), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, nil)
				f := newFake(nil)
				first := map[string]bool{}
				retried := newFake(nil)
				f.set(func(ctx context.Context, batch []Item) (r Result) {
					var again []Item
					for i, it := range batch {
						if !first[it.ID] {
							first[it.ID] = true
							r.Failed = append(r.Failed, Failure{i, retry.WithClass(errors.New("not yet"), retry.ClassTransient)})
						} else {
							again = append(again, it)
						}
					}
					if len(again) > 0 {
						retried.Send(ctx, again)
					}
					return r
				})
				b.add(SinkOptions{
					Name: "s", Sink: f, Bulkhead: bulkhead.Options{Concurrency: 1},
					RetryLimit: &retry.LimitOptions{PerInterval: 30, OnExceed: how},
				})
				b.write(1, 300)
				b.run()
				time.Sleep(time.Minute)
				require.LessOrEqual(t, retried.peak(time.Second), 30)
				s := b.status("s")
				switch how {
				case retry.Delay:
					require.Equal(t, 300, f.count())
				case retry.Drop:
					require.Equal(t, 30, f.count())
					require.EqualValues(t, 270, s.Dropped)
				case retry.DeadLetter:
					require.Equal(t, 30, f.count())
					require.Equal(t, 270, b.reasons()[ReasonRateLimited])
				}
				require.Equal(t, Cursor{Seq: 2}, s.Next)
				b.end()
			})
		})
	}
}

func TestALaggingSinkSkipsARange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type span struct{ from, to uint64 }
		var mu sync.Mutex
		var spans []span
		refuse := 1
		b := newBench(t, func(o *Options) {
			o.OnLag = func(_ context.Context, sink string, from, to uint64) error {
				mu.Lock()
				defer mu.Unlock()
				if refuse--; refuse >= 0 {
					return errors.New("no room")
				}
				spans = append(spans, span{from, to})
				return nil
			}
		})
		f, good := newFake(hanging), newFake(nil)
		b.add(SinkOptions{Name: "slow", Sink: f, MaxLagBytes: 20_000, Retry: retry.Options{MaxRetries: retry.Unlimited}})
		b.add(SinkOptions{Name: "good", Sink: good})
		b.run()
		for range 100 {
			b.write(10, 10)
			time.Sleep(500 * time.Millisecond)
		}
		f.set(nil)
		time.Sleep(5 * time.Minute)
		mu.Lock()
		defer mu.Unlock()
		require.NotEmpty(t, spans)
		skipped := map[uint64]bool{}
		for _, s := range spans {
			require.LessOrEqual(t, s.from, s.to)
			for seq := s.from; seq <= s.to; seq++ {
				skipped[seq] = true
			}
		}
		require.Equal(t, 10_000, good.count())
		require.Less(t, len(skipped), 1000)
		for i := range 10_000 {
			if !skipped[uint64(i/10)+1] {
				require.Positive(t, f.timesGot(fmt.Sprintf("e%d", i)))
			}
		}
		lowest, _ := b.d.Lowest()
		require.EqualValues(t, 1001, lowest)
		b.end()
	})
}

func TestSinksComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := metrics.NewSet()
		b := newBench(t, func(o *Options) { o.Metrics = NewMetrics(set) })
		one, two, three := newFake(nil), newFake(hanging), newFake(nil)
		b.add(SinkOptions{Name: "one", Sink: one})
		b.write(10, 1)
		b.run()
		time.Sleep(2 * time.Second)
		b.add(SinkOptions{Name: "two", Sink: two, Start: Newest})
		require.ErrorContains(t, b.d.Add(SinkOptions{Name: "two", Sink: two}), "name is taken")
		b.write(10, 1)
		time.Sleep(2 * time.Second)
		lowest, _ := b.d.Lowest()
		require.EqualValues(t, 11, lowest, "a hanging sink holds the log")
		require.NoError(t, b.d.Replace(t.Context(), SinkOptions{Name: "two", Sink: three}))
		time.Sleep(2 * time.Second)
		require.Equal(t, 1, two.closed)
		require.Equal(t, 10, three.count(), "the new one goes on where the old one was")
		require.Equal(t, 20, one.count())

		two.set(hanging)
		require.NoError(t, b.d.Replace(t.Context(), SinkOptions{Name: "one", Sink: two}))
		b.write(5, 1)
		time.Sleep(2 * time.Second)
		require.Contains(t, set.ListMetricNames(), `sloengine_sink_delivered_items_total{sink="one"}`)
		require.NoError(t, b.d.Remove(t.Context(), "one"))
		for _, n := range set.ListMetricNames() {
			require.NotContains(t, n, `"one"`)
		}
		lowest, _ = b.d.Lowest()
		require.EqualValues(t, 26, lowest, "a removed sink lets go of its cursor")
		_, ok, err := b.d.cursors.load("one")
		require.NoError(t, err)
		require.False(t, ok)
		require.ErrorIs(t, b.d.Remove(t.Context(), "one"), ErrNoSink)
		b.end()
		require.Error(t, b.d.Add(SinkOptions{Name: "late", Sink: one}))
	})
}

func TestOutboundRateLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		limit, err := NewLocalLimit(6, 1, 0)
		require.NoError(t, err)
		f := newFake(nil)
		b.add(SinkOptions{Name: "s", Sink: f, BatchItems: 1, RateLimit: limit})
		b.write(100, 1)
		b.run()
		time.Sleep(10 * time.Second)
		require.InDelta(t, 61, f.count(), 4)
		require.LessOrEqual(t, f.peak(time.Second), 7)
		b.end()
	})
}

func TestAFailedFlushSendsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		f := &flushing{fake: newFake(nil), fails: 2}
		b.add(SinkOptions{Name: "s", Sink: f})
		b.write(5, 2)
		b.run()
		time.Sleep(500 * time.Millisecond)
		require.Equal(t, 10, f.count())
		require.Equal(t, Cursor{Seq: 1}, b.status("s").Saved)
		time.Sleep(10 * time.Second)
		require.Equal(t, 3, f.timesGot("e0"), "what was not flushed is sent again")
		require.Equal(t, Cursor{Seq: 6}, b.status("s").Saved)
		b.end()
	})
}

// A sink reports once that its flush failed, either to the lane or to a replay. Both have to send
// again then.
func TestAFailedFlushOfAReplayIsTheLanesToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		f := &flushing{fake: newFake(nil)}
		b.add(SinkOptions{Name: "s", Sink: f})
		b.write(5, 2)
		b.run()
		time.Sleep(500 * time.Millisecond)
		require.Equal(t, 10, f.count())
		f.mu.Lock()
		f.fails = 1
		f.mu.Unlock()
		replayed := []Item{{ID: "replayed"}}
		require.ErrorContains(t, b.d.Deliver(t.Context(), "s", replayed).Err, "fsync failed")
		time.Sleep(10 * time.Second)
		require.Equal(t, 2, f.timesGot("e0"), "what the replay could not flush is sent again")
		require.Equal(t, Cursor{Seq: 6}, b.status("s").Saved)
		require.NoError(t, b.d.Deliver(t.Context(), "s", replayed).Err)

		// The other way round: the lane's flush fails while a replay is between its call and its flush.
		l := b.d.lanes["s"]
		f.set(func(context.Context, []Item) Result {
			f.set(nil)
			f.mu.Lock()
			f.fails = 1
			f.mu.Unlock()
			require.Error(t, l.save(t.Context(), l.failedFlushes()))
			return Result{}
		})
		require.ErrorContains(t, b.d.Deliver(t.Context(), "s", replayed).Err, "fsync failed",
			"though the sink now says that all is well")
		b.end()
	})
}

type flushing struct {
	*fake
	fails int
}

func (f *flushing) Flush(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fails--; f.fails >= 0 {
		return errors.New("fsync failed")
	}
	return nil
}

func TestRestartGoesOnAtTheCursor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		f := newFake(nil)
		b.add(SinkOptions{Name: "s", Sink: f})
		b.add(SinkOptions{Name: "gone", Sink: newFake(nil)})
		b.write(10, 3)
		b.run()
		time.Sleep(2 * time.Second)
		b.stop()
		require.NoError(t, <-b.ran)
		b.write(10, 3)

		var err error
		b.d, err = New(b.d.o)
		require.NoError(t, err)
		f = newFake(nil)
		b.add(SinkOptions{Name: "s", Sink: f})
		b.run()
		time.Sleep(2 * time.Second)
		require.Equal(t, 30, f.count())
		require.Zero(t, f.timesGot("e29"))
		require.Positive(t, f.timesGot("e30"))
		_, ok, err := b.d.cursors.load("gone")
		require.NoError(t, err)
		require.False(t, ok, "the cursor of a sink that is not there any more holds nothing")
		b.end()
	})
}

func TestDeliverIsOneCallThroughThePolicies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		f := newFake(failing(retry.ClassTransient))
		b.add(SinkOptions{Name: "s", Sink: f})
		items := []Item{{ID: "a"}, {ID: "b"}}
		for range 5 {
			require.Equal(t, retry.ClassTransient, retry.ClassOf(b.d.Deliver(t.Context(), "s", items).Err))
		}
		require.Equal(t, retry.ClassBreakerOpen, retry.ClassOf(b.d.Deliver(t.Context(), "s", items).Err))
		require.Equal(t, 5, f.timesSeen("a"))
		require.ErrorIs(t, b.d.Deliver(t.Context(), "t", items).Err, ErrNoSink)
		require.NoError(t, b.log.Close())
	})
}
