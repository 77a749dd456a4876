package outbox

import (
	"context"
	"database/sql"
	"testing"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	table "github.com/sloengine/sloengine/reliability/outbox"
	"github.com/sloengine/sloengine/reliability/postgres/postgrestest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(postgrestest.Main(m)) }

// database is a database with an outbox table, and a connection of each kind.
func database(t testing.TB, o table.Options, l table.Layout) (conn *pgx.Conn, db *sql.DB, more func() *pgx.Conn) {
	t.Helper()
	s := postgrestest.Shared(t)
	name := s.Database(t)
	more = func() *pgx.Conn { return s.Conn(t, name) }
	conn = more()
	tb, err := table.New(o)
	require.NoError(t, err)
	require.NoError(t, table.Migrate(t.Context(), conn, tb, l, func(table.Step) {}))
	db, err = sql.Open("pgx", s.DSN(name))
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return conn, db, more
}

func newWriter(t testing.TB, o Options) *Writer {
	t.Helper()
	w, err := New(o)
	require.NoError(t, err)
	return w
}

func value[T any](t testing.TB, conn *pgx.Conn, query string, args ...any) (v T) {
	t.Helper()
	require.NoError(t, conn.QueryRow(context.Background(), query, args...).Scan(&v), query)
	return v
}

// order is a valid event.
func order(id string) Event {
	return Event{
		ID: id, Type: "OrderCreated", AggregateType: "Order", AggregateID: "42", Topic: "order-events",
		Payload: []byte(`{"total":  12.50}`), Headers: map[string]string{"tenant": "ü"},
	}
}
