package outbox

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sloengine/sloengine/ingest/source"
	"github.com/sloengine/sloengine/ingest/source/sourcetest"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/outbox"
	"github.com/sloengine/sloengine/reliability/postgres"
	"github.com/sloengine/sloengine/reliability/postgres/postgrestest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(postgrestest.Main(m)) }

// runningSource is a source that runs until stop.
type runningSource struct {
	*Source
	intake *source.Intake
	set    *metrics.Set
	dead   sourcetest.DeadLetters
	log    testkit.Buffer
	stop   func()
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

func startSource(t testing.TB, e *sourcetest.Engine, dsn string, set Settings,
	change func(in *source.Options, o *Options)) *runningSource {
	t.Helper()
	r := &runningSource{set: metrics.NewSet()}
	m := source.NewMetrics(r.set)
	log := slog.New(slog.NewTextHandler(&r.log, nil))
	in := source.Options{Name: "orders", Settings: source.Defaults(), Typed: true, Engine: e, Metrics: m, Logger: log}
	in.Settings.Backfill = source.BackfillNever
	in.Save = r.dead.Save
	o := Options{Settings: set, Database: postgres.Options{DSNFile: secret(t, dsn), ConnectTimeout: 2 * time.Second},
		Metrics: NewMetrics(m), Logger: log}
	require.NoError(t, e.Do(t.Context(), func() { o.Positions = e.State.Book.Of("orders") }))
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
	r.stop = sourcetest.Run(t, r.Run)
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
	SELECT $1::text || '-' || n, 'Order', n::text, 'order', 'orders', n::text, '{"outcome":"success"}'
		FROM generate_series(1, $2::int) n`
