package outbox

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/position"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/ingest/source"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/reliability/outbox"
	"github.com/sloengine/sloengine/reliability/postgres"
	"github.com/sloengine/sloengine/reliability/postgres/postgrestest"
	"github.com/sloengine/sloengine/reliability/wal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(postgrestest.Main(m)) }

// seen is an event that was counted.
type seen struct {
	Times                  int
	Service, Type, Product string
	Backfill               bool
	At                     time.Time
}

// counted is a State that counts events by id, and holds positions.
type counted struct {
	mu      sync.Mutex
	ids     map[string]seen
	book    *position.Book
	version uint64
}

func (s *counted) Apply(rec wal.Record, refuse engine.Refuse) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if rec.Type != record.TypeEvents {
		return nil
	}
	e, err := record.ParseEvents(rec.Payload)
	if err != nil {
		return err
	}
	if e.Position != nil {
		if err := s.book.Apply(e.Position); err != nil {
			return err
		}
	}
	return engine.EachEvent(rec.Payload, func(backfill bool, v *event.View) error {
		x := s.ids[string(v.ID)]
		product, _ := v.Attr("product")
		s.ids[string(v.ID)] = seen{x.Times + 1, string(v.Service), string(v.Type), string(product), backfill,
			time.Unix(0, v.Time).UTC()}
		return nil
	}, refuse)
}

// saved is the form of a checkpoint.
type saved struct {
	IDs  map[string]seen
	Book []byte
}

func (s *counted) Parts() []engine.Part {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	data, err := json.Marshal(saved{s.ids, s.book.Encode(nil)})
	if err != nil {
		panic(err)
	}
	return []engine.Part{{Name: "all", Version: s.version, Vital: true, Encode: func(dst []byte) []byte {
		return append(dst, data...)
	}}}
}

func (s *counted) Restore(_ string, data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var in saved
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	s.ids = in.IDs
	return s.book.Restore(in.Book)
}

func (s *counted) FinishRestore() error       { return nil }
func (s *counted) Loss(string) (string, bool) { return "everything", true }

func (s *counted) all() map[string]seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.ids)
}

// runningEngine is an engine on a folder, until stop.
type runningEngine struct {
	*engine.Engine
	state *counted
	stop  func()
}

func startEngine(t testing.TB, dir string) *runningEngine {
	t.Helper()
	r := &runningEngine{state: &counted{ids: map[string]seen{}, book: position.NewBook()}}
	var err error
	r.Engine, err = engine.Open(engine.Options{
		Dir: dir, State: r.state, Logger: slog.New(slog.DiscardHandler), SegmentBytes: 1 << 20,
		IDs: engine.IDOptions{Bytes: 4 << 20}, Disk: engine.DiskOptions{LowWater: -1},
		Checkpoint: engine.CheckpointOptions{Interval: time.Hour},
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	end := make(chan struct{})
	go func() {
		defer close(end)
		_ = r.Run(ctx, engine.Parts{})
		_ = r.Close()
	}()
	r.stop = sync.OnceFunc(func() { cancel(); <-end })
	t.Cleanup(r.stop)
	select {
	case <-r.Ready():
	case <-end:
		require.Fail(t, "the engine did not start")
	}
	return r
}

// requireOnce waits until so many events are counted, and requires that each is counted once.
func (r *runningEngine) requireOnce(t testing.TB, want int) {
	t.Helper()
	testkit.Eventually(t, "len(r.state.all()) >= want", func() bool { return len(r.state.all()) >= want })
	for id, n := range r.state.all() {
		require.Equal(t, 1, n.Times, id)
	}
	require.Len(t, r.state.all(), want)
}

// runningSource is a source that runs until stop.
type runningSource struct {
	*Source
	intake *source.Intake
	set    *metrics.Set
	log    *testkit.Buffer
	stop   func()

	mu   sync.Mutex
	dead map[string]dlq.Entry
}

// deadLetters are those that were saved.
func (r *runningSource) deadLetters() map[string]dlq.Entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.dead)
}

// trouble finds the failure of a kind, nil if there is none.
func (r *runningSource) trouble(kind source.Kind) *source.Trouble {
	for _, t := range r.intake.Troubles() {
		if t.Kind == kind {
			return &t
		}
	}
	return nil
}

func settings(way string) Settings {
	s := Defaults()
	s.Way, s.Poll, s.Refresh, s.Service = way, 10*time.Millisecond, 100*time.Millisecond, "shop"
	return s
}

// secret is a file with a DSN or a password.
func secret(t testing.TB, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "dsn")
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

func startSource(t testing.TB, e *runningEngine, dsn string, set Settings,
	change func(in *source.Options, o *Options)) *runningSource {
	t.Helper()
	r := &runningSource{set: metrics.NewSet(), log: &testkit.Buffer{}, dead: map[string]dlq.Entry{}}
	m := source.NewMetrics(r.set)
	log := slog.New(slog.NewTextHandler(r.log, nil))
	in := source.Options{Name: "orders", Settings: source.Defaults(), Typed: true, Engine: e, Metrics: m, Logger: log}
	in.Settings.Backfill = source.BackfillNever
	in.Save = func(_ context.Context, entries []dlq.Entry) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, x := range entries {
			r.dead[x.ID] = x
		}
		return nil
	}
	o := Options{Settings: set, Database: postgres.Options{DSNFile: secret(t, dsn), ConnectTimeout: 2 * time.Second},
		Metrics: NewMetrics(m), Logger: log}
	require.NoError(t, e.Do(t.Context(), func() { o.Positions = e.state.book.Of("orders") }))
	if change != nil {
		change(&in, &o)
	}
	o.Headers, o.Most = in.Settings.Headers, in.Settings.MaxMessage
	var err error
	r.intake, err = source.New(in)
	require.NoError(t, err)
	o.Intake = r.intake
	r.Source, err = New(o)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	end := make(chan error, 1)
	go func() { end <- r.Run(ctx) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-end:
			require.NoError(t, err)
		case <-time.After(time.Minute):
			require.Fail(t, "the source does not stop")
		}
	})
	t.Cleanup(r.stop)
	return r
}

// migrate creates the table for both ways.
func migrate(t testing.TB, c *pgx.Conn, o outbox.Options) *outbox.Table {
	t.Helper()
	table, err := outbox.New(o)
	require.NoError(t, err)
	for _, way := range []outbox.Source{outbox.SourceClaim, outbox.SourceXID} {
		require.NoError(t, outbox.Migrate(t.Context(), c, table, outbox.Layout{Source: way}, func(outbox.Step) {}))
	}
	return table
}

// insert is the statement that writes the rows $1 to $2 with a prefix of their keys.
const insert = `INSERT INTO outbox (idempotency_key, aggregate_type, aggregate_id, event_type, topic, key, payload)
	SELECT $1::text || '-' || n, 'Order', n::text, 'order', 'orders', n::text, '{"outcome":"success"}' FROM generate_series(1, $2::int) n`
