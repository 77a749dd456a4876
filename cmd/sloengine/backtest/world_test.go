package backtest

import (
	"bytes"
	"context"
	"encoding/binary"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/ingest/counter"
	"github.com/sloengine/sloengine/ingest/counting"
	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/position"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/wal"
	"github.com/sloengine/sloengine/sla/evaluator"
	"github.com/sloengine/sloengine/slo/fold"
	"github.com/sloengine/sloengine/slo/spec"
)

var began = time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)

func load(t testing.TB, text string) *spec.Spec {
	t.Helper()
	sp, problems := spec.Load([]spec.File{{Name: "spec.yaml", Data: []byte(text)}})
	require.NoError(t, problems.Err())
	return sp
}

// world writes the log of an engine, and can be that engine.
type world struct {
	t     testing.TB
	dir   string
	log   *wal.Log
	batch []byte
	count int
	last  time.Time // of the last record

	pending []wal.Pending // one sync for many

	// nil without an engine
	state   *counting.FoldState
	eval    *evaluator.Evaluator
	machine *state.Machine
	refused int
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir()}
	require.NoError(t, engine.DataFormat.Mark(fsys.OS(), w.dir))
	var err error
	w.log, err = wal.Open(wal.Options{FS: fsys.OS(), Dir: filepath.Join(w.dir, engine.LogDir), RuleType: record.TypeConfig})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.log.Close()) })
	return w
}

func (w *world) write(typ byte, at time.Time, payload []byte) {
	w.t.Helper()
	w.pending = append(w.pending, wal.Pending{Time: at.UnixNano(), Type: typ, Payload: bytes.Clone(payload)})
	if len(w.pending) >= 500 {
		w.save()
	}
	w.last = at
	if w.state != nil {
		err := w.state.Apply(wal.Record{Type: typ, Time: at.UnixNano(), Payload: payload},
			func(int, []byte, string) { w.refused++ })
		require.NoError(w.t, err)
	}
}

// save appends what was written to the log.
func (w *world) save() {
	w.t.Helper()
	require.NoError(w.t, w.log.Append(w.pending))
	w.pending = w.pending[:0]
}

func (w *world) beat(at time.Time, b record.Beat) { w.write(record.TypeHeartbeat, at, []byte{byte(b)}) }

// start is the first record of an engine, and its spec.
func (w *world) start(at time.Time, sp *spec.Spec) {
	w.t.Helper()
	w.beat(at, record.BeatStart)
	cfg, err := evaluator.Compile(counting.Inputs(sp))
	require.NoError(w.t, err)
	payload, err := counting.EncodeConfig(cfg, spec.Encode(sp))
	require.NoError(w.t, err)
	w.write(record.TypeConfig, at, payload)
}

// event adds an event to the next record of flush.
func (w *world) event(e *event.Event) {
	w.batch = event.AppendBinary(w.batch, e)
	w.count++
}

func (w *world) flush(at time.Time) {
	if w.count == 0 {
		return
	}
	head := append(binary.AppendUvarint(nil, uint64(w.count)), 0)
	w.write(record.TypeEvents, at, append(head, w.batch...))
	w.batch, w.count = w.batch[:0], 0
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
