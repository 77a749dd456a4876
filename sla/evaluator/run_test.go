package evaluator

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo/fold"
)

func nothing(_ context.Context, req fold.Request) (*fold.Sums, error) {
	return &fold.Sums{Now: req.Now, Watermark: req.Now}, nil
}

// rig is an evaluator that runs in a bubble, and what it did.
type rig struct {
	*Evaluator
	set    *metrics.Set
	log    *testkit.Buffer
	source atomic.Value // of source
	skew   atomic.Int64 // nanoseconds
	refuse atomic.Bool  // the clock, where events are counted

	mu   sync.Mutex
	made []*sla.Report
}

func (r *rig) reports() []*sla.Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.made)
}

type source = func(context.Context, fold.Request) (*fold.Sums, error)

func newRig(t *testing.T) *rig {
	r := &rig{set: metrics.NewSet(), log: &testkit.Buffer{}}
	r.source.Store(nothing)
	origin := time.Now()
	e, err := New(Options{
		Source: func(ctx context.Context, req fold.Request) (*fold.Sums, error) {
			return r.source.Load().(source)(ctx, req)
		},
		Now: func() time.Time { return time.Now().Add(time.Duration(r.skew.Load())) }, Refused: r.refuse.Load,
		Monotonic: func() time.Duration { return time.Since(origin) },
		OnReport: func(rep *sla.Report) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.made = append(r.made, rep)
		},
		Logger:  slog.New(slog.NewTextHandler(r.log, nil)),
		Metrics: NewMetrics(r.set),
	})
	require.NoError(t, err)
	r.Evaluator = e
	return r
}

func (r *rig) start(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-done)
	})
}

func (r *rig) metric(name string) string {
	var b strings.Builder
	r.set.WritePrometheus(&b)
	for line := range strings.Lines(b.String()) {
		if v, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestRunTicksAtOnceAndWithoutDrift(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		began := time.Now()
		require.Nil(t, r.Latest())
		r.source.Store(func(ctx context.Context, req fold.Request) (*fold.Sums, error) {
			time.Sleep(3 * time.Second)
			return nothing(ctx, req)
		})
		r.start(t)
		pass(34 * time.Second)
		require.Len(t, r.reports(), 4)
		for i, rep := range r.reports() {
			require.Equal(t, uint64(i+1), rep.Version)
			require.Equal(t, time.Duration(i)*10*time.Second, rep.Time.Sub(began))
			require.Equal(t, 3*time.Second, rep.Took)
		}
		require.Same(t, r.reports()[3], r.Latest())
		require.Equal(t, "4", r.metric("sloengine_evaluate_ticks_total"))
		require.Equal(t, "4", r.metric("sloengine_evaluate_seconds_count"))
		require.Equal(t, "12", r.metric("sloengine_evaluate_seconds_sum"))
		require.Equal(t, "0", r.metric("sloengine_evaluate_late_total"))
	})
}

func TestRunCountsLateTicks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.source.Store(func(ctx context.Context, req fold.Request) (*fold.Sums, error) {
			time.Sleep(12 * time.Second)
			return nothing(ctx, req)
		})
		r.start(t)
		pass(13 * time.Second)
		require.Len(t, r.reports(), 1)
		require.Equal(t, "1", r.metric("sloengine_evaluate_late_total"))
		require.Contains(t, r.log.String(), "longer than its interval")
	})
}

func TestRunKeepsTheLastReportWhenTheSourceFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.start(t)
		pass(time.Second)
		last := r.Latest()
		require.NotNil(t, last)
		r.source.Store(func(context.Context, fold.Request) (*fold.Sums, error) { return nil, errors.New("still recovering") })
		pass(time.Minute)
		require.Same(t, last, r.Latest())
		require.Equal(t, "6", r.metric("sloengine_evaluate_errors_total"))
		require.Equal(t, 1, strings.Count(r.log.String(), "still recovering"), "a lasting error is logged once")
		r.source.Store(nothing)
		pass(10 * time.Second)
		require.Equal(t, uint64(2), r.Latest().Version)
		require.Contains(t, r.log.String(), "works again")
	})
}

func TestRunRefusesAClockThatJumps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.start(t)
		pass(time.Second)
		r.skew.Store(int64(2 * time.Hour))
		pass(time.Minute)
		require.Len(t, r.reports(), 1)
		require.Equal(t, "6", r.metric("sloengine_evaluate_clock_refused_total"))
		require.Equal(t, 1, strings.Count(r.log.String(), "evaluation refused"))
		r.skew.Store(0)
		pass(10 * time.Second)
		require.Len(t, r.reports(), 2)
		require.Contains(t, r.log.String(), "clock accepted, evaluation resumed")
	})
}

// A report of a time that the engine does not believe would send reports, end periods and delete what is old.
func TestRunRefusesAClockThatTheEngineRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.start(t)
		pass(time.Second)
		r.skew.Store(int64(24 * time.Hour))
		r.refuse.Store(true)
		pass(2 * time.Hour)
		require.Len(t, r.reports(), 1)
		require.Equal(t, 1, strings.Count(r.log.String(), "evaluation refused"))
		r.refuse.Store(false)
		pass(10 * time.Second)
		require.Len(t, r.reports(), 2, "it has run on for long enough")
	})
}

func TestOptionsAreChecked(t *testing.T) {
	_, err := New(Options{})
	require.ErrorContains(t, err, "source")
	_, err = New(Options{Source: nothing, Interval: -1})
	require.ErrorContains(t, err, "negative")
}

func TestSumsThatDoNotFitTheRequestAreRefused(t *testing.T) {
	e, err := New(Options{Source: func(_ context.Context, req fold.Request) (*fold.Sums, error) {
		return &fold.Sums{Groups: []fold.Group{{Indicator: &fold.Indicator{ID: "a/b"}}}}, nil
	}})
	require.NoError(t, err)
	_, err = e.Tick(t.Context(), monday)
	require.ErrorContains(t, err, "sums of a/b: 0 spans instead of")
}

// OnReport may write to disk. While it does, the report is out and the spec can change.
func TestReportsAreHandledOutsideTheLock(t *testing.T) {
	writing, stored := make(chan struct{}), make(chan struct{})
	e, err := New(Options{Source: nothing, OnReport: func(*sla.Report) {
		close(writing)
		<-stored
	}})
	require.NoError(t, err)
	ticked := make(chan error)
	go func() {
		_, err := e.Tick(context.Background(), time.Now())
		ticked <- err
	}()
	<-writing
	require.NoError(t, e.SetSpec(Inputs{}))
	require.NoError(t, e.Change(Inputs{}, func() error { return nil }))
	require.EqualValues(t, 1, e.Latest().Version)
	close(stored)
	require.NoError(t, <-ticked)
}
