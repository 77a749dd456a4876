package source

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/reliability/ratelimit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// fakeEngine stores the events that it admits, after it has run its script.
type fakeEngine struct {
	mu        sync.Mutex
	script    []func(b *event.Batch, todo []int32) (engine.Result, error)
	admitted  []map[string]any // events
	backfill  []bool
	positions []string
	calls     int
	lost      []record.Dropped
}

// called is how often something was submitted.
func (f *fakeEngine) called() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

func (f *fakeEngine) AdmitAt(_ context.Context, b *event.Batch, _ *ratelimit.Tickets, todo []int32,
	at engine.Position) (engine.Result, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	var result engine.Result
	if len(f.script) > 0 {
		step := f.script[0]
		f.script = f.script[1:]
		var err error
		if result, err = step(b, todo); err != nil {
			return result, err
		}
	}
	out := map[int32]bool{}
	undecided := []int32{}
	for _, list := range [][]int32{result.Throttled, result.Critical} {
		for _, i := range list {
			out[i] = true
			undecided = append(undecided, i)
		}
	}
	slices.Sort(undecided)
	if todo == nil {
		for i := range b.Events {
			todo = append(todo, int32(i))
		}
	}
	for _, i := range todo {
		if out[i] {
			continue
		}
		var v event.View
		if _, err := v.Parse(b.Event(int(i))); err != nil {
			return result, err
		}
		var e map[string]any
		if err := json.Unmarshal(v.AppendJSON(nil), &e); err != nil {
			return result, err
		}
		result.Accepted++
		f.admitted, f.backfill = append(f.admitted, e), append(f.backfill, b.Backfill)
	}
	if at != nil {
		f.positions = append(f.positions, string(at.AppendPosition(nil, undecided)))
	}
	return result, nil
}

func (f *fakeEngine) Lose(_ context.Context, at engine.Position, lost []record.Dropped) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.positions = append(f.positions, string(at.AppendPosition(nil, nil)))
	f.lost = append(f.lost, lost...)
	return nil
}

// fixture is an intake with its dependencies.
type fixture struct {
	*Intake
	engine *fakeEngine
	dead   map[string]dlq.Entry
	saved  []dlq.Entry
	refuse []error // of the next calls of save
}

func newFixture(t *testing.T, change func(o *Options)) *fixture {
	t.Helper()
	f := &fixture{engine: &fakeEngine{}, dead: map[string]dlq.Entry{}}
	o := Options{
		Name: "orders", Settings: Defaults(), Engine: f.engine, Lose: f.engine.Lose, Now: func() time.Time {
			return now
		}, Logger: slog.New(slog.DiscardHandler),
		Save: func(_ context.Context, entries []dlq.Entry) error {
			if len(f.refuse) > 0 {
				err := f.refuse[0]
				f.refuse = f.refuse[1:]
				return err
			}
			for _, e := range entries {
				f.dead[e.ID] = e
				f.saved = append(f.saved, e)
			}
			return nil
		},
	}
	if change != nil {
		change(&o)
	}
	var err error
	f.Intake, err = New(o)
	require.NoError(t, err)
	return f
}

type headerList [][2]string

func (h headerList) Len() int                  { return len(h) }
func (h headerList) At(i int) (string, []byte) { return h[i][0], []byte(h[i][1]) }

// take submits messages, one batch each, and returns the events that were admitted.
func (f *fixture) take(t *testing.T, messages ...Message) []map[string]any {
	t.Helper()
	before := len(f.engine.admitted)
	for i := range messages {
		m := &messages[i]
		if m.Topic == "" {
			m.Topic = "orders"
		}
		b := f.Batch(f.Backfills(m))
		b.Add(m)
		require.NoError(t, f.Submit(t.Context(), b, nil))
		b.Release()
	}
	return f.engine.admitted[before:]
}
