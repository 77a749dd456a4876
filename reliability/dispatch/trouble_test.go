package dispatch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/retry"
)

// logged keeps the log lines.
type logged struct{ testkit.Buffer }

func (l *logged) with(text string) (lines []string) {
	for _, line := range strings.Split(l.String(), "\n") {
		if strings.Contains(line, text) {
			lines = append(lines, line)
		}
	}
	return lines
}

func (l *logged) options(o *Options) { o.Logger = slog.New(slog.NewTextHandler(l, nil)) }

// A sink that is blocked until an operator acts holds its events, for as long as it takes, and is
// reported once; then it gets all of them.
func TestABlockedSinkHoldsItsEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logged
		set := metrics.NewSet()
		b := newBench(t, func(o *Options) { log.options(o); o.Metrics = NewMetrics(set) })
		f := newFake(failing(retry.ClassBlocked))
		b.add(SinkOptions{Name: "s", Sink: f})
		b.write(10, 100)
		b.run()
		time.Sleep(time.Hour)
		require.Empty(t, b.dead(), "no event is at fault")
		require.EqualValues(t, 10, b.status("s").LagRecords)
		trouble := b.status("s").Troubles
		require.Len(t, trouble, 1)
		require.Equal(t, TroubleDelivery, trouble[0].Kind)
		require.True(t, trouble[0].Blocked)
		require.Equal(t, "sink says blocked", trouble[0].Cause)
		require.Len(t, log.with("sink failing"), 1)
		require.Contains(t, log.with("sink failing")[0], `cause="sink says blocked"`)
		require.Contains(t, log.with("to=open")[0], "sink says blocked", "the breaker names the cause")
		require.EqualValues(t, 1, set.GetOrCreateGauge(`sloengine_sink_failing{sink="s",what="delivery"}`, nil).Get())
		require.Less(t, f.calls(), 500, "it is not hammered")

		f.set(nil)
		time.Sleep(5 * time.Minute)
		require.Equal(t, 1000, f.count())
		require.Empty(t, b.dead())
		require.Empty(t, b.status("s").Troubles)
		require.Len(t, log.with("sink recovered"), 1)
		require.Zero(t, set.GetOrCreateGauge(`sloengine_sink_failing{sink="s",what="delivery"}`, nil).Get())
		b.end()
	})
}

// One batch fails for a reason that passes, then for one that does not: the number of
// retries counts for the first kind only.
func TestOnlyWhatIsBlockedWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		f := newFake(func(_ context.Context, batch []Item) (r Result) {
			for i, it := range batch {
				if class := map[string]retry.Class{"e1": retry.ClassTransient, "e2": retry.ClassBlocked}[it.ID]; class != 0 {
					r.Failed = append(r.Failed, Failure{i, retry.WithClass(errors.New("no"), class)})
				}
			}
			return r
		})
		b.add(SinkOptions{Name: "s", Sink: f})
		b.write(1, 5)
		b.run()
		time.Sleep(10 * time.Minute)
		require.Equal(t, map[string]int{ReasonExhausted: 1}, b.reasons())
		require.Equal(t, 4, f.timesSeen("e1"))
		require.Greater(t, f.timesSeen("e2"), 20)
		require.Equal(t, 3, f.count())
		b.end()
	})
}

// A sink that refuses each event for good loses nothing either, but it must not do so
// quietly: this is how a wrong size limit at the receiver shows.
func TestASinkThatRefusesAllIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logged
		b := newBench(t, log.options)
		refusing := func(_ context.Context, batch []Item) (r Result) {
			for i := range batch {
				r.Failed = append(r.Failed, Failure{i, retry.Permanent(errors.New("answered with 413"))})
			}
			return r
		}
		f := newFake(refusing)
		b.add(SinkOptions{Name: "s", Sink: f})
		b.run()
		for range 30 {
			b.write(1, 10)
			time.Sleep(time.Second)
		}
		require.Equal(t, map[string]int{ReasonPermanent: 300}, b.reasons())
		require.Len(t, log.with("sink failing"), 1)
		require.Len(t, log.with("events became dead letters"), 1, "at most one a minute")
		require.Contains(t, log.with("events became dead letters")[0], `reason=permanent count=10 cause="answered with 413"`)
		require.Len(t, b.status("s").Troubles, 1)
		time.Sleep(time.Minute)
		b.write(1, 1)
		time.Sleep(time.Second)
		require.Contains(t, log.with("events became dead letters")[1], "count=291", "what was not told is told later")
		f.set(nil)
		b.write(1, 1)
		time.Sleep(time.Second)
		require.Empty(t, b.status("s").Troubles)
		require.Len(t, log.with("sink recovered"), 1)
		b.end()
	})
}

// A sink that fails and recovers repeatedly does not fill the log, and its log lines are true.
func TestASinkThatComesAndGoesIsToldAtMostOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logged
		b := newBench(t, log.options)
		var n atomic.Int64
		f := newFake(func(context.Context, []Item) Result {
			if n.Add(1)%2 == 0 {
				return Result{Err: retry.WithClass(errors.New("flaky"), retry.ClassTransient)}
			}
			return Result{}
		})
		b.add(SinkOptions{Name: "s", Sink: f})
		b.run()
		for range 300 {
			b.write(1, 1)
			time.Sleep(time.Second)
		}
		failing, again := len(log.with("sink failing")), len(log.with("sink recovered"))
		require.GreaterOrEqual(t, failing, 3)
		require.LessOrEqual(t, failing, 6)
		require.Equal(t, failing, again)
		b.end()
	})
}

// Where dead letters cannot be kept, the lane waits, and says so once.
func TestDeadLettersThatCannotBeKeptAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logged
		var full sync.Map
		full.Store("full", true)
		b := newBench(t, func(o *Options) {
			log.options(o)
			keep := o.DeadLetter
			o.DeadLetter = func(ctx context.Context, l []DeadLetter) error {
				if _, no := full.Load("full"); no {
					return fmt.Errorf("save: %w", syscall.ENOSPC)
				}
				return keep(ctx, l)
			}
		})
		b.add(SinkOptions{Name: "s", Sink: newFake(failing(retry.ClassPermanent))})
		b.write(1, 5)
		b.run()
		time.Sleep(10 * time.Minute)
		require.Len(t, log.with("what=dead_letters"), 1)
		troubles := b.status("s").Troubles
		require.Equal(t, TroubleDeadLetters, troubles[1].Kind)
		require.Equal(t, syscall.ENOSPC.Error(), troubles[1].Brief)
		full.Delete("full")
		time.Sleep(time.Minute)
		require.Equal(t, map[string]int{ReasonPermanent: 5}, b.reasons())
		require.Len(t, log.with("what=dead_letters"), 2)
		b.end()
	})
}

// A sink that cannot be opened is reported at once and holds its events.
func TestASinkIsOpenedOnceItCanBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logged
		b := newBench(t, log.options)
		f := newFake(nil)
		var missing sync.Map
		missing.Store("missing", true)
		b.add(SinkOptions{Name: "s", Open: func() (Sink, error) {
			if _, no := missing.Load("missing"); no {
				return nil, syscall.ENOENT
			}
			return f, nil
		}})
		b.run()
		time.Sleep(time.Second)
		require.Len(t, log.with("sink failing"), 1, "before there is anything to deliver")
		b.write(3, 3)
		time.Sleep(10 * time.Minute)
		require.Empty(t, b.dead())
		require.Len(t, log.with("sink failing"), 1)
		missing.Delete("missing")
		time.Sleep(5 * time.Minute)
		require.Equal(t, 9, f.count())
		require.Empty(t, b.status("s").Troubles)
		b.end()
		require.Equal(t, 1, f.closed)
	})
}

// A receiver chooses its codes, but not how many series there are.
func TestAnswersAreCountedByCode(t *testing.T) {
	set := metrics.NewSet()
	m := NewMetrics(set)
	s := m.lanes.Of("s")
	for range 3 {
		m.Answered("s", 401)
	}
	for code := -5; code < 1000; code++ {
		m.Answered("s", code)
	}
	m.Answered("gone", 200)
	require.EqualValues(t, 4, s.answers.list()["401"])
	require.LessOrEqual(t, len(s.answers.list()), maxCodes+1)
	var out bytes.Buffer
	set.WritePrometheus(&out)
	require.Contains(t, out.String(), `sloengine_sink_answers_total{sink="s",code="401"} 4`)
	require.Contains(t, out.String(), `sloengine_sink_answers_total{sink="s",code="other"}`)
	require.NotContains(t, out.String(), "gone")
	m.forget("s")
	out.Reset()
	set.WritePrometheus(&out)
	require.NotContains(t, out.String(), "answers_total")
}

// A sink that refused its last item, and has nothing to do, does not fail forever; one that keeps refusing does.
func TestARefusalEndsWhenNothingWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logged
		set := metrics.NewSet()
		b := newBench(t, func(o *Options) { log.options(o); o.Metrics = NewMetrics(set) })
		b.add(SinkOptions{Name: "s", Sink: newFake(failing(retry.ClassPermanent))})
		failing := func() float64 {
			return set.GetOrCreateGauge(`sloengine_sink_failing{sink="s",what="delivery"}`, nil).Get()
		}
		b.write(1, 1)
		b.run()
		time.Sleep(time.Minute)
		require.Len(t, b.dead(), 1)
		require.EqualValues(t, 1, failing(), "it was a moment ago")
		time.Sleep(2 * time.Minute)
		require.Zero(t, failing())
		require.Empty(t, b.status("s").Troubles)
		require.Len(t, log.with("nothing waits"), 1)
		for range 10 {
			b.write(1, 1)
			time.Sleep(time.Minute)
			require.EqualValues(t, 1, failing())
		}
		require.Len(t, b.dead(), 11)
	})
}
