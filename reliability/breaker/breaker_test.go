package breaker

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/reliability/retry"
)

func newBreaker(t testing.TB, o Options) *Breaker {
	t.Helper()
	o.Name = "s"
	b, err := New(o)
	require.NoError(t, err)
	return b
}

// calls makes one call after the other: s succeeds, f fails, i says nothing.
func calls(t testing.TB, b *Breaker, script string) {
	t.Helper()
	for i, c := range script {
		p, err := b.Acquire()
		require.NoError(t, err, "call %d of %s", i, script)
		p.Done(map[rune]Outcome{'s': Success, 'f': Failure, 'i': Ignored}[c])
	}
}

func TestFiveFailuresInARowOpenIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var moves []string
		b := newBreaker(t, Options{
			Rate:     Rate{Off: true},
			OnChange: func(from, to State, why string) { moves = append(moves, fmt.Sprint(from, ">", to)) },
		})
		calls(t, b, "ffffsffffiifsf"[:11])
		require.Equal(t, Closed, b.State(), "a success in between, or an outcome that says nothing, does not count")
		calls(t, b, "f")
		require.Equal(t, Open, b.State())
		_, err := b.Acquire()
		var open *OpenError
		require.ErrorAs(t, err, &open)
		require.Equal(t, time.Minute, open.RetryAfter)
		require.Equal(t, retry.ClassBreakerOpen, retry.ClassOf(err))

		time.Sleep(time.Minute - 1)
		require.Equal(t, Open, b.State())
		time.Sleep(1)
		require.Equal(t, HalfOpen, b.State())
		calls(t, b, "ss")
		require.Equal(t, HalfOpen, b.State(), "3 probes must succeed")
		calls(t, b, "s")
		require.Equal(t, Closed, b.State())
		require.Equal(t, []string{"closed>open", "open>half_open", "half_open>closed"}, moves)
		calls(t, b, "ffff")
		require.Equal(t, Closed, b.State(), "it has forgotten the failures of old")
	})
}

func TestRateOpensIt(t *testing.T) {
	for _, c := range []struct {
		script string
		want   State
	}{
		{"fsfsfsfsf", Closed},  // 9 calls
		{"fsfsfsfsfs", Open},   // 10 calls, 5 of them failed: the last one need not
		{"sssssfffff", Open},   // both rules could; this one is off here
		{"ssssssffff", Closed}, // 40 %
		{"iiiiifsfsf", Closed}, // an outcome without evidence is not a call
		{"sssssssfsfsfsfsfsfsf", Closed},
	} {
		t.Run(c.script, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBreaker(t, Options{Consecutive: Consecutive{Off: true}})
				calls(t, b, c.script)
				require.Equal(t, c.want, b.State())
			})
		})
	}
}

func TestRateProbesTwoOfThree(t *testing.T) {
	for script, want := range map[string]State{"ss": Closed, "fss": Closed, "sfs": Closed, "ff": Open, "sff": Open} {
		synctest.Test(t, func(t *testing.T) {
			b := newBreaker(t, Options{Consecutive: Consecutive{Off: true}})
			calls(t, b, "ffffffffff")
			time.Sleep(30*time.Second - 1)
			require.Equal(t, Open, b.State())
			time.Sleep(1)
			calls(t, b, script)
			require.Equal(t, want, b.State(), script)
		})
	}
}

func TestRateForgetsAfterItsWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, Options{Consecutive: Consecutive{Off: true}})
		calls(t, b, "fffffffff")
		time.Sleep(2 * time.Minute)
		calls(t, b, "ffff")
		require.Equal(t, Closed, b.State())
	})
}

func TestAHungProbeDoesNotWedgeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, Options{})
		calls(t, b, "fffff")
		time.Sleep(time.Minute)
		var hung []Permit
		for range 3 {
			p, err := b.Acquire()
			require.NoError(t, err)
			hung = append(hung, p)
		}
		ctx, cancel := hung[0].Context(t.Context())
		defer cancel()
		at, ok := ctx.Deadline()
		require.True(t, ok)
		require.Equal(t, 5*time.Second, time.Until(at))
		_, err := b.Acquire()
		require.Error(t, err, "only 3 probes at once")
		ready, wait, _ := b.Ready()
		require.False(t, ready)
		require.Equal(t, 5*time.Second, wait)
		time.Sleep(5 * time.Second)
		require.Equal(t, Open, b.State(), "a probe that does not come back has failed")
		for _, p := range hung {
			p.Done(Success)
		}
		require.Equal(t, Open, b.State(), "and comes too late")
		time.Sleep(time.Minute)
		calls(t, b, "sss")
		require.Equal(t, Closed, b.State())
	})
}

func TestAProbeThatSaysNothingGivesItsPlaceBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, Options{})
		calls(t, b, "fffff")
		time.Sleep(time.Minute)
		calls(t, b, "iiiiiiiiss")
		require.Equal(t, HalfOpen, b.State())
		calls(t, b, "s")
		require.Equal(t, Closed, b.State())
	})
}

func TestResultsOfAnEarlierStateDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, Options{})
		slow, err := b.Acquire()
		require.NoError(t, err)
		calls(t, b, "fffff")
		time.Sleep(time.Minute)
		require.Equal(t, HalfOpen, b.State())
		slow.Done(Failure)
		require.Equal(t, HalfOpen, b.State())
	})
}

func TestOnlyWhatSaysThatTheTargetIsUnwellTrips(t *testing.T) {
	for _, c := range []struct {
		err  error
		want State
	}{
		{retry.WithClass(errors.New("404"), retry.ClassOfStatus(404)), Closed},
		{retry.WithClass(errors.New("429"), retry.ClassOfStatus(429)), Closed},
		{retry.Permanent(errors.New("x")), Closed},
		{context.Canceled, Closed},
		{errors.New("whatever"), Closed},
		{retry.WithClass(errors.New("503"), retry.ClassOfStatus(503)), Open},
		{context.DeadlineExceeded, Open},
		{syscall.ECONNREFUSED, Open},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBreaker(t, Options{})
			for range 5 {
				p, err := b.Acquire()
				require.NoError(t, err)
				p.Done(Judge(c.err))
			}
			require.Equal(t, c.want, b.State(), c.err)
		})
	}
}

func TestHealthChecksCloseIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := metrics.NewSet()
		var well atomic.Bool
		var checks atomic.Int32
		b := newBreaker(t, Options{
			HealthCloses: true, Metrics: NewMetrics(set),
			Health: func(context.Context) error {
				if checks.Add(1) == 2 {
					panic("checks are foreign code")
				}
				if !well.Load() {
					return errors.New("down")
				}
				return nil
			},
		})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- b.Run(ctx) }()
		time.Sleep(time.Minute)
		require.Zero(t, checks.Load(), "a closed breaker is not checked")
		calls(t, b, "fffff")
		time.Sleep(21 * time.Second)
		require.Equal(t, Open, b.State())
		well.Store(true)
		time.Sleep(15 * time.Second)
		require.Equal(t, Closed, b.State(), "three checks, long before the open time is over")
		stop()
		require.NoError(t, <-done)
		require.Contains(t, set.ListMetricNames(), `sloengine_breaker_state{breaker="s"}`)
		b.o.Metrics.Forget("s")
		require.Empty(t, set.ListMetricNames())
	})
}

func TestAWeakHealthCheckOnlyLetsProbesThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, Options{Health: func(context.Context) error { return nil }})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- b.Run(ctx) }()
		calls(t, b, "fffff")
		_, _, changed := b.Ready()
		<-changed
		require.Equal(t, HalfOpen, b.State())
		time.Sleep(time.Minute)
		require.Equal(t, HalfOpen, b.State())
		calls(t, b, "f")
		require.Equal(t, Open, b.State())
		stop()
		require.NoError(t, <-done)
	})
}

func TestOptions(t *testing.T) {
	for want, o := range map[string]Options{
		"Name is required": {},
		"never open":       {Name: "s", Consecutive: Consecutive{Off: true}, Rate: Rate{Off: true}},
		"outside (0,1]":    {Name: "s", Rate: Rate{Threshold: 1.5}},
		"cannot succeed":   {Name: "s", Rate: Rate{Probes: 2, Successes: 3}},
		"must be at":       {Name: "s", Consecutive: Consecutive{Failures: -1}},
		"durations must":   {Name: "s", ProbeTimeout: -1},
		"minimum calls":    {Name: "s", Rate: Rate{MinCalls: -1}},
		"below 10 ms":      {Name: "s", Rate: Rate{Window: 1}},
	} {
		_, err := New(o)
		require.ErrorContains(t, err, want)
	}
}

func BenchmarkSuccess(b *testing.B) {
	br := newBreaker(b, Options{})
	b.ReportAllocs()
	for b.Loop() {
		p, err := br.Acquire()
		if err != nil {
			b.Fatal(err)
		}
		p.Done(Success)
	}
}
