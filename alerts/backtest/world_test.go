package backtest

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/ingest/counter"
	"github.com/sloengine/sloengine/ingest/counting"
	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/position"
	"github.com/sloengine/sloengine/internal/testkit/pastlog"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/wal"
	"github.com/sloengine/sloengine/sla/evaluator"
	"github.com/sloengine/sloengine/slo/fold"
	"github.com/sloengine/sloengine/slo/spec"
)

var began = time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)

// shop reads the spec that tests of backtests share.
func shop(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile("testdata/shop.yaml")
	require.NoError(t, err)
	return string(text)
}

func load(t testing.TB, text string) *spec.Spec {
	t.Helper()
	sp, problems := spec.Load([]spec.File{{Name: "spec.yaml", Data: []byte(text)}})
	require.NoError(t, problems.Err())
	return sp
}

// world writes the log of an engine, and can be that engine.
type world struct {
	*pastlog.Log
	t   testing.TB
	dir string

	// nil without an engine
	state   *counting.FoldState
	eval    *evaluator.Evaluator
	machine *state.Machine
	refused int
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir()}
	var err error
	w.Log, err = pastlog.New(w.dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.Close()) })
	w.Wrote = func(r *wal.Record) {
		if w.state != nil {
			require.NoError(t, w.state.Apply(*r, func(int, []byte, string) { w.refused++ }))
		}
	}
	return w
}

func (w *world) save() {
	w.t.Helper()
	require.NoError(w.t, w.Save())
}

func (w *world) start(at time.Time, sp *spec.Spec) {
	w.t.Helper()
	require.NoError(w.t, w.Start(at, sp))
}

// engine makes the world evaluate as an engine does. States of alerts survive restarts.
func (w *world) engine(sp *spec.Spec) {
	w.t.Helper()
	if w.state == nil {
		f, err := fold.New(fold.Options{})
		require.NoError(w.t, err)
		w.state = &counting.FoldState{Fold: f, Incidents: incident.NewBook(), Positions: position.NewBook(),
			Counters: counter.NewTable()}
	}
	var saved []byte
	if w.machine != nil {
		saved = w.machine.Snapshot()
	}
	var err error
	w.eval, err = evaluator.New(evaluator.Options{
		Source: func(_ context.Context, req fold.Request) (*fold.Sums, error) { return w.state.Fold.Sums(req), nil },
	})
	require.NoError(w.t, err)
	require.NoError(w.t, w.eval.SetSpec(counting.Inputs(sp)))
	w.machine, err = state.New(state.Options{KeepResolved: 30 * 24 * time.Hour})
	require.NoError(w.t, err)
	if saved != nil {
		require.NoError(w.t, w.machine.Restore(saved))
	}
}

// tick evaluates once.
func (w *world) tick(now time.Time) {
	w.t.Helper()
	report, err := w.eval.Tick(w.t.Context(), now)
	require.NoError(w.t, err)
	w.machine.Step(report)
}

// replay makes a replay of the log.
func (w *world) replay(from, to time.Time, specs ...*spec.Spec) *replay {
	w.t.Helper()
	w.save()
	source, err := engine.OpenLog(fsys.OS(), w.dir)
	require.NoError(w.t, err)
	r := &replay{source: source, from: from, to: to, interval: 10 * time.Second, zone: time.UTC}
	for _, sp := range specs {
		require.NoError(w.t, r.add("spec", sp))
	}
	return r
}
