package outbox

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sloengine/sloengine/reliability/postgres/postgrestest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(postgrestest.Main(m)) }

// database is a connection to an empty database, and how to open more.
func database(t testing.TB) (conn *pgx.Conn, more func() *pgx.Conn) {
	s := postgrestest.Shared(t)
	db := s.Database(t)
	more = func() *pgx.Conn { return s.Conn(t, db) }
	return more(), more
}

func newTable(t testing.TB, o Options) *Table {
	t.Helper()
	table, err := New(o)
	require.NoError(t, err)
	return table
}

// migrate brings the layout about and returns the statements that were needed.
func migrate(t testing.TB, conn *pgx.Conn, table *Table, l Layout) (steps []string) {
	t.Helper()
	require.NoError(t, Migrate(t.Context(), conn, table, l, func(s Step) { steps = append(steps, s.SQL) }))
	return steps
}

func exec(t testing.TB, conn *pgx.Conn, statements ...string) {
	t.Helper()
	for _, s := range statements {
		_, err := conn.Exec(t.Context(), s)
		require.NoError(t, err, s)
	}
}

// value is the only value of a query's only row.
func value[T any](t testing.TB, conn *pgx.Conn, sql string, args ...any) (v T) {
	t.Helper()
	require.NoError(t, conn.QueryRow(t.Context(), sql, args...).Scan(&v), sql)
	return v
}
