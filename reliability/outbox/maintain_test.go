package outbox

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// date is noon of a day of December 2026.
func date(d int) time.Time { return time.Date(2026, 12, d, 12, 0, 0, 0, time.UTC) }

// seed writes a row that was created and completed at noon of the day, in a table whose ids are given by the database.
func seed(t testing.TB, conn *pgx.Conn, key, status string, d int, counted bool) {
	t.Helper()
	_, err := conn.Exec(t.Context(),
		`INSERT INTO outbox (idempotency_key, aggregate_type, aggregate_id, event_type, topic, key, payload, status,
			created_at, completed_at, counted_at)
		VALUES ($1, 'Order', '1', 'OrderCreated', 'orders', $1, '{}', $2, $3,
			CASE WHEN $2 <> 'PENDING' THEN $3::timestamptz END, CASE WHEN $4 THEN $3::timestamptz END)`, key, status,
		date(d), counted)
	require.NoError(t, err)
	if value[bool](t, conn, "SELECT to_regclass('outbox_keys') IS NOT NULL") {
		_, err = conn.Exec(t.Context(), "INSERT INTO outbox_keys VALUES ($1, $2)", key, date(d))
		require.NoError(t, err)
	}
}

func keysOf(t testing.TB, conn *pgx.Conn, table string) []string {
	t.Helper()
	return value[[]string](
		t, conn, "SELECT coalesce(array_agg(idempotency_key ORDER BY idempotency_key), '{}') FROM "+table)
}

func maintain(t testing.TB, conn *pgx.Conn, table *Table, r Retention) Maintained {
	t.Helper()
	m, err := Maintain(t.Context(), conn, table, r)
	require.NoError(t, err)
	return m
}

func TestRowsThatAreDoneAreDeleted(t *testing.T) {
	for name, x := range map[string]struct {
		r    Retention
		left []string
	}{
		"relay":           {Retention{}, []string{"failed", "late", "new", "pending"}},
		"relay and claim": {Retention{Source: SourceClaim}, []string{"done uncounted", "failed", "late", "new", "pending"}},
		"relay and xid":   {Retention{Source: SourceXID}, []string{"failed", "late", "new", "pending"}},
		"claim only": {Retention{Source: SourceClaim, WithoutRelay: true},
			[]string{"done uncounted", "failed", "late", "new"}},
	} {
		for _, partitioned := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, partitioned %v", name, partitioned), func(t *testing.T) {
				conn, _ := database(t)
				table := newTable(t, Options{})
				migrate(t, conn, table, Layout{Partitioned: partitioned, Today: date(1), Ahead: 15})
				seed(t, conn, "done", Completed, 1, true)
				seed(t, conn, "done uncounted", Completed, 2, false)
				seed(t, conn, "failed", Failed, 3, false)
				seed(t, conn, "pending", Pending, 4, true)
				for i := range 25 {
					seed(t, conn, fmt.Sprint("many", i), Completed, 5, true)
				}
				seed(t, conn, "late", Completed, 6, true) // created before the cutoff, done after it
				exec(
					t, conn, "UPDATE outbox SET completed_at = '2026-12-10', counted_at = '2026-12-10' WHERE idempotency_key = 'late'")
				seed(t, conn, "new", Completed, 10, true)
				x.r.Now, x.r.Age, x.r.Batch = date(13).Add(time.Hour), 5*day, 10
				left := x.left
				if partitioned { // by the day of the creation
					left = slices.DeleteFunc(slices.Clone(left), func(s string) bool { return s == "late" })
				}
				m := maintain(t, conn, table, x.r)
				require.Equal(t, left, keysOf(t, conn, "outbox"))
				require.Equal(
					t, Maintained{Created: m.Created, Dropped: m.Dropped, Retained: m.Retained, Rows: m.Rows, Keys: m.Keys}, m)
				if partitioned {
					require.Equal(t, left, keysOf(t, conn, "outbox_keys"), "keys go with their rows")
					require.Equal(t, len(x.left)-2, len(m.Retained), m)
					require.Equal(t, 7-len(m.Retained), len(m.Dropped), m)
				} else {
					require.EqualValues(t, 31-len(left), m.Rows)
				}
				m = maintain(t, conn, table, x.r)
				require.Equal(t, Maintained{Retained: m.Retained}, m, "the second time, nothing is left to do")
			})
		}
	}
}

func TestPartitionsAcrossMidnight(t *testing.T) {
	conn, _ := database(t)
	table := newTable(t, Options{})
	migrate(t, conn, table, Layout{Partitioned: true, Today: date(1), Ahead: 1})
	r := Retention{Age: 2 * day, Ahead: 1}
	run := func(now time.Time) Maintained { r.Now = now; return maintain(t, conn, table, r) }
	midnight := time.Date(2026, 12, 2, 0, 0, 0, 0, time.UTC)
	require.Equal(t, Maintained{}, run(midnight.Add(-time.Microsecond)))
	require.Equal(t, Maintained{Created: []string{"public.outbox_p20261203"}}, run(midnight))
	require.Equal(t, Maintained{}, run(midnight.Add(time.Microsecond)))
	for at, want := range map[string]string{
		"2026-12-01 23:59:59.999999+00": "outbox_p20261201", "2026-12-02 00:00:00+00": "outbox_p20261202",
		"2026-12-04 00:00:00+00": "outbox_default",
	} {
		exec(t, conn,
			fmt.Sprintf(
				"INSERT INTO outbox (created_at, idempotency_key, aggregate_type, aggregate_id, event_type, topic, key, payload) "+
					"VALUES ('%s', '%s', '', '', '', '', '', '1')", at, at))
		require.Equal(
			t, want, value[string](t, conn, "SELECT tableoid::regclass::text FROM outbox WHERE idempotency_key = $1", at))
	}
}

// TestMaintenanceThatLagged: rows of days without a partition wait in the default partition. Their day cannot get one
// any more, later days can, and the rows are deleted in batches.
func TestMaintenanceThatLagged(t *testing.T) {
	conn, _ := database(t)
	table := newTable(t, Options{})
	migrate(t, conn, table, Layout{Partitioned: true, Today: date(1), Ahead: 1})
	for d := 1; d <= 5; d++ {
		seed(t, conn, fmt.Sprint("day", d), Completed, d, true)
	}
	seed(t, conn, "failed", Failed, 4, true)
	m := maintain(t, conn, table, Retention{Now: date(5), Ahead: 2})
	require.Equal(t, Maintained{Created: []string{"public.outbox_p20261206", "public.outbox_p20261207"}, Default: true}, m)
	seed(t, conn, "day6", Completed, 6, true)
	require.Equal(t, "outbox_p20261206",
		value[string](t, conn, "SELECT tableoid::regclass::text FROM outbox WHERE idempotency_key = 'day6'"))
	m = maintain(t, conn, table, Retention{Now: date(11).Add(time.Hour), Age: 5 * day, Ahead: 1})
	require.Equal(t, []string{"public.outbox_p20261201", "public.outbox_p20261202"}, m.Dropped)
	require.EqualValues(t, 3, m.Rows)
	require.True(t, m.Default)
	require.Equal(t, []string{"day6", "failed"}, keysOf(t, conn, "outbox"))
	require.Equal(t, []string{"day6", "failed"}, keysOf(t, conn, "outbox_keys"))
}

// TestMaintenanceDoesNotStopWriters: a reader that stays open delays a drop, not the writers.
func TestMaintenanceDoesNotStopWriters(t *testing.T) {
	conn, more := database(t)
	table := newTable(t, Options{})
	migrate(t, conn, table, Layout{Partitioned: true, Today: date(1), Ahead: 1})
	reader, writer := more(), more()
	exec(t, reader, "BEGIN", "SELECT * FROM outbox")
	exec(t, writer, "BEGIN", fmt.Sprintf(insertRow, "outbox", "a"))
	_, err := Maintain(
		t.Context(), conn, table, Retention{Now: date(20), Age: day, Ahead: 1, LockTimeout: 50 * time.Millisecond})
	require.ErrorContains(t, err, "a long transaction uses the table; run it again later")
	exec(t, writer, fmt.Sprintf(insertRow, "outbox", "b"), "COMMIT")
	exec(t, reader, "COMMIT")
	m := maintain(t, conn, table, Retention{Now: date(20), Age: day, Ahead: 1})
	require.Equal(t, []string{"public.outbox_p20261201", "public.outbox_p20261202"}, m.Dropped)
}

func TestRetentionOptions(t *testing.T) {
	conn, _ := database(t)
	for text, r := range map[string]Retention{
		"retention: 1s is too short (at least 1m)":                                   {Age: time.Second},
		"retention: without a relay, only the source claim says which rows are done": {WithoutRelay: true},
		"table public.outbox does not exist":                                         {},
	} {
		_, err := Maintain(t.Context(), conn, newTable(t, Options{}), r)
		require.ErrorContains(t, err, text)
	}
}
