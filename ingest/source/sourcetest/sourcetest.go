// Package sourcetest has what the tests of sources share: an engine on a folder whose state counts events by their ids,
// and a source that runs until it is stopped.
package sourcetest

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/position"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/reliability/wal"
)

// Seen is an event that was counted.
type Seen struct {
	Times                  int
	Service, Type, Product string
	Backfill               bool
	At                     time.Time
}

// State counts events by id, and holds positions and drops.
type State struct {
	Book *position.Book // to be read in Do, or once the engine has stopped

	mu      sync.Mutex
	in      saved // Book is encoded for a checkpoint only
	version uint64
}

// saved is the form of a checkpoint.
type saved struct {
	IDs         map[string]Seen
	Live, Backs int
	Dropped     map[string]uint64
	Book        []byte
}

// Apply implements engine.State.
func (s *State) Apply(rec wal.Record, refuse engine.Refuse) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if rec.Type == record.TypeDropped {
		return record.ParseDropped(rec.Payload, func(d *record.Dropped) {
			s.in.Dropped[string(d.Service)+"/"+string(d.Type)] += d.N
		})
	}
	if rec.Type != record.TypeEvents {
		return nil
	}
	e, err := record.ParseEvents(rec.Payload)
	if err != nil {
		return err
	}
	if e.Position != nil {
		if err := s.Book.Apply(e.Position); err != nil {
			return err
		}
	}
	return engine.EachEvent(rec.Payload, func(backfill bool, v *event.View) error {
		if backfill {
			s.in.Backs++
		} else {
			s.in.Live++
		}
		product, _ := v.Attr("product")
		s.in.IDs[string(v.ID)] = Seen{s.in.IDs[string(v.ID)].Times + 1, string(v.Service), string(v.Type), string(product),
			backfill, time.Unix(0, v.Time).UTC()}
		return nil
	}, refuse)
}

// Parts implements engine.State.
func (s *State) Parts() []engine.Part {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	out := s.in
	out.Book = s.Book.Encode(nil)
	data, err := json.Marshal(out)
	if err != nil {
		panic(err)
	}
	return []engine.Part{{Name: "all", Version: s.version, Vital: true, Encode: func(dst []byte) []byte {
		return append(dst, data...)
	}}}
}

// Restore implements engine.State.
func (s *State) Restore(_ string, data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.in = saved{}
	if err := json.Unmarshal(data, &s.in); err != nil {
		return err
	}
	return s.Book.Restore(s.in.Book)
}

// FinishRestore implements engine.State.
func (s *State) FinishRestore() error { return nil }

// Loss implements engine.State.
func (s *State) Loss(string) (string, bool) { return "everything", true }

// All are the events that were counted, by their ids.
func (s *State) All() map[string]Seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.in.IDs)
}

// Live and Backs are how many events were counted as they came, and how many by backfill.
func (s *State) Live() int { s.mu.Lock(); defer s.mu.Unlock(); return s.in.Live }

func (s *State) Backs() int { s.mu.Lock(); defer s.mu.Unlock(); return s.in.Backs }

// Dropped are how many events limits have dropped, by service/type.
func (s *State) Dropped() map[string]uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.in.Dropped)
}

// Engine is an engine on a folder, until Stop.
type Engine struct {
	*engine.Engine
	State *State
	Stop  func()
}

// Start starts an engine and waits until it is ready. It ends with the test.
func Start(t testing.TB, dir string, change ...func(*engine.Options)) *Engine {
	t.Helper()
	s := &State{in: saved{IDs: map[string]Seen{}, Dropped: map[string]uint64{}}, Book: position.NewBook()}
	o := Options(dir, s)
	for _, f := range change {
		f(&o)
	}
	e, stop := Open(t, o)
	return &Engine{e, s, stop}
}

// Options are those of a small engine.
func Options(dir string, s engine.State) engine.Options {
	return engine.Options{
		Dir: dir, State: s, Logger: slog.New(slog.DiscardHandler), SegmentBytes: 1 << 20,
		IDs: engine.IDOptions{Bytes: 4 << 20}, Disk: engine.DiskOptions{LowWater: -1},
		Checkpoint: engine.CheckpointOptions{Interval: time.Hour},
	}
}

// Open runs an engine and waits until it is ready. It ends with the test, or when it is stopped.
func Open(t testing.TB, o engine.Options) (e *engine.Engine, stop func()) {
	t.Helper()
	e, err := engine.Open(o)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	end := make(chan struct{})
	go func() {
		defer close(end)
		_ = e.Run(ctx, engine.Parts{})
		_ = e.Close()
	}()
	stop = sync.OnceFunc(func() { cancel(); <-end })
	t.Cleanup(stop)
	select {
	case <-e.Ready():
	case <-end:
		require.Fail(t, "the engine did not start")
	}
	return e, stop
}

// RequireOnce waits until so many events are counted, and requires that each is counted once.
func (e *Engine) RequireOnce(t testing.TB, want int) {
	t.Helper()
	testkit.Eventually(t, "all events are counted", func() bool { return len(e.State.All()) >= want })
	for id, n := range e.State.All() {
		require.Equal(t, 1, n.Times, id)
	}
	require.Len(t, e.State.All(), want)
}

// DeadLetters keeps dead letters in memory.
type DeadLetters struct {
	mu  sync.Mutex
	all map[string]dlq.Entry
}

// Save adds entries.
func (d *DeadLetters) Save(_ context.Context, entries []dlq.Entry) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.all == nil {
		d.all = map[string]dlq.Entry{}
	}
	for _, e := range entries {
		d.all[e.ID] = e
	}
	return nil
}

// All are those that were saved.
func (d *DeadLetters) All() map[string]dlq.Entry {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.all)
}

// Run runs a source until stop, which the end of the test calls as well.
func Run(t testing.TB, run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	end := make(chan error, 1)
	go func() { end <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-end:
			require.NoError(t, err)
		case <-time.After(time.Minute):
			require.Fail(t, "the source does not stop")
		}
	})
	t.Cleanup(stop)
	return stop
}
