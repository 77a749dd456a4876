package outbox

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/reliability/postgres/postgrestest"
)

// lifecycle has a row in each state: 1 PENDING, 2 waiting for its next attempt, 3 FAILED, 4 COMPLETED.
func lifecycle(t testing.TB, partitioned bool) (*pgx.Conn, *Table) {
	t.Helper()
	conn, _ := database(t)
	table := newTable(t, Options{})
	migrate(t, conn, table, Layout{Partitioned: partitioned})
	for i, status := range []string{Pending, Pending, Failed, Completed} {
		seed(t, conn, fmt.Sprint("k", i+1), status, i+1, false)
	}
	exec(t, conn,
		"UPDATE outbox SET attempts = 3, next_attempt_at = now() + interval '4 minutes', error = 'broker is down' "+
			"WHERE id = 2",
		"UPDATE outbox SET attempts = 9, error = 'too large', event_type = 'Big' WHERE id = 3",
		"UPDATE outbox SET created_at = now() - interval '10 seconds', completed_at = now() - interval '8 seconds' "+
			"WHERE id = 4",
		"UPDATE outbox SET created_at = now() - interval '1 hour' WHERE id = 1")
	return conn, table
}

func ids(rows []Row) []int64 {
	out := []int64{}
	for i := range rows {
		out = append(out, rows[i].ID)
	}
	return out
}

func TestList(t *testing.T) {
	for _, partitioned := range []bool{false, true} {
		conn, table := lifecycle(t, partitioned)
		for name, x := range map[string]struct {
			f    Filter
			want []int64
		}{
			"all open":        {Filter{}, []int64{1, 2, 3}},
			"pending":         {Filter{Statuses: []string{Pending}}, []int64{1, 2}},
			"waiting, failed": {Filter{Statuses: []string{Waiting, Failed}}, []int64{2, 3}},
			"completed":       {Filter{Statuses: []string{Completed}}, []int64{4}},
			"old":             {Filter{Statuses: []string{Pending, Completed}, OlderThan: 30 * time.Minute}, []int64{1}},
			"type":            {Filter{Type: "Big"}, []int64{3}},
			"no such type":    {Filter{Type: "Big'"}, []int64{}},
			"ids":             {Filter{IDs: []int64{4, 1, 99}}, []int64{1, 4}},
			"limit":           {Filter{Limit: 2}, []int64{1, 2}},
		} {
			rows, err := List(t.Context(), conn, table, x.f)
			require.NoError(t, err, name)
			require.Equal(t, x.want, ids(rows), name)
		}
		_, err := List(t.Context(), conn, table, Filter{Statuses: []string{"SENT"}})
		require.ErrorContains(t, err, `unknown status "SENT" (want one of PENDING, WAITING,`)
	}
}

func TestRetry(t *testing.T) {
	for _, partitioned := range []bool{false, true} {
		for name, x := range map[string]struct {
			f    Filter
			want int64
			due  []int64
		}{
			"all":  {Filter{}, 2, []int64{1, 2, 3}},
			"type": {Filter{Type: "Big"}, 1, []int64{1, 3}},
			"ids":  {Filter{IDs: []int64{1, 2, 4, 7}}, 1, []int64{1, 2}},
		} {
			conn, table := lifecycle(t, partitioned)
			n, err := Retry(t.Context(), conn, table, x.f)
			require.NoError(t, err, name)
			require.Equal(t, x.want, n, name)
			require.Equal(t, x.due, value[[]int64](t, conn,
				"SELECT array_agg(id ORDER BY id) FROM outbox WHERE status = 'PENDING' AND next_attempt_at IS NULL AND "+
					"completed_at IS NULL"), name)
			n, err = Retry(t.Context(), conn, table, x.f)
			require.NoError(t, err)
			require.Zero(t, n, "a retry that is due already is no news")
			if name == "all" {
				require.Equal(t, []int64{0, 3, 0, 0}, value[[]int64](t, conn, "SELECT array_agg(attempts ORDER BY id) FROM outbox"),
					"FAILED rows get all their attempts")
			}
		}
	}
}

func TestReplay(t *testing.T) {
	for _, partitioned := range []bool{false, true} {
		conn, table := lifecycle(t, partitioned)
		exec(t, conn,
			`INSERT INTO outbox (idempotency_key, aggregate_type, aggregate_id, event_type, topic, key, payload, status,
				completed_at, created_at)
			SELECT 'many' || i, '', '', 'Many', '', i, '{}', 'COMPLETED', '2026-12-09',
				'2026-12-08'::timestamptz + i * interval '1 second' FROM generate_series(1, 2500) i`)
		s := Span{From: date(8).Truncate(day).Add(101 * time.Second), To: date(9), Type: "Many"}
		n, err := CountCompleted(t.Context(), conn, table, s)
		require.NoError(t, err)
		require.EqualValues(t, 2400, n)
		n, err = Replay(t.Context(), conn, table, s)
		require.NoError(t, err)
		require.EqualValues(t, 2400, n)
		require.EqualValues(t, 2400, value[int64](t, conn,
			"SELECT count(*) FROM outbox WHERE status = 'PENDING' AND event_type = 'Many' AND attempts = 0 AND completed_at "+
				"IS NOT NULL"))
		require.EqualValues(
			t, 100, value[int64](t, conn, "SELECT count(*) FROM outbox WHERE status = 'COMPLETED' AND event_type = 'Many'"))
		b, err := ReadBacklog(t.Context(), conn, table)
		require.NoError(t, err)
		require.EqualValues(t, 2402, b.Pending)
		require.InDelta(t, 3600, b.Age, 600, "the age of replayed rows is no delay")
		for text, s := range map[string]Span{
			"a replay needs both ends of the time range": {From: date(1)},
			"(the end comes first)":                      {From: date(2), To: date(1)},
		} {
			_, err := Replay(t.Context(), conn, table, s)
			require.ErrorContains(t, err, text)
		}
	}
}

// TestWhoHasClaimedARowNoticesARetry: the version of tables that are claimed one by one increases.
func TestWhoHasClaimedARowNoticesARetry(t *testing.T) {
	conn, _ := database(t)
	table := newTable(t, Options{Preset: "outbox_events", Topic: "statuses"})
	migrate(t, conn, table, Layout{})
	exec(t, conn, rabbitRow, "UPDATE outbox_events SET status = 'FAILED', version = 4")
	n, err := Retry(t.Context(), conn, table, Filter{})
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
	require.Equal(t, 5, value[int](t, conn, "SELECT version FROM outbox_events WHERE status = 'PENDING'"))

	exec(t, conn, "UPDATE outbox_events SET status = 'PROCESSING'")
	st, err := ReadStats(t.Context(), conn, table)
	require.NoError(t, err)
	require.EqualValues(t, 1, st.Pending, "it is not published yet")
	require.EqualValues(t, 1, st.Topics[0].Pending)
}

func TestStats(t *testing.T) {
	for _, partitioned := range []bool{false, true} {
		conn, table := lifecycle(t, partitioned)
		exec(t, conn,
			"UPDATE outbox_buckets SET worker = 'relay-1', lease_until = now() + interval '5 minutes' WHERE bucket < 40",
			"UPDATE outbox_buckets SET worker = 'relay-2', lease_until = now() - interval '1 minute' WHERE bucket >= 60",
			"INSERT INTO outbox_relays VALUES ('relay-1', now()), ('relay-2', now() - interval '6 minutes')")
		s, err := ReadStats(t.Context(), conn, table)
		require.NoError(t, err)
		require.InDelta(t, 3600, s.Age, 600)
		two := 2.0
		latency := Latency{Completed: 1, P50: &two, P95: &two}
		require.Equal(t, []Topic{{Topic: "orders", Type: "OrderCreated", Pending: 2, Recent: latency},
			{Topic: "orders", Type: "Big", Failed: 1}}, s.Topics)
		require.Equal(t, latency, s.Recent)
		require.Equal(t, []int64{2, 1, 1, 1}, []int64{s.Pending, s.Waiting, s.Failed, s.Completed})
		require.False(t, s.Estimated)
		require.Len(t, s.Relays, 2)
		require.Equal(t, []int{40, 0, 24}, []int{s.Relays[0].Buckets, s.Relays[1].Buckets, s.Unleased})
		require.NotNil(t, s.Relays[0].Until)
		require.Equal(t, "relay-2", s.Relays[1].Name)
	}
	conn, _ := database(t)
	table := newTable(t, Options{})
	migrate(t, conn, table, Layout{})
	s, err := ReadStats(t.Context(), conn, table)
	require.NoError(t, err)
	require.Equal(t, &Stats{Topics: []Topic{}, Relays: []Relay{}, Unleased: Buckets}, s)
}

// TestNothingHasToBePrepared: a pgbouncer with transaction pooling is between the commands and the database.
func TestNothingHasToBePrepared(t *testing.T) {
	server := postgrestest.Shared(t)
	for _, mode := range []string{"exec", "simple_protocol"} {
		db := server.Database(t)
		conn, err := pgx.Connect(t.Context(), server.DSN(db)+"&default_query_exec_mode="+mode)
		require.NoError(t, err)
		defer func() { _ = conn.Close(context.Background()) }()
		table := newTable(t, Options{})
		migrate(t, conn, table, Layout{Partitioned: true, Today: date(1)})
		seed(t, conn, "done", Completed, 1, false)
		seed(t, conn, "failed", Failed, 2, false)
		_, err = Check(t.Context(), conn, table, NeedRelay)
		require.NoError(t, err)
		rows, err := List(
			t.Context(), conn, table, Filter{Type: "OrderCreated", IDs: []int64{1, 2}, Statuses: []string{Failed}})
		require.NoError(t, err)
		require.Equal(t, []int64{2}, ids(rows))
		rows, err = List(t.Context(), conn, table, Filter{OlderThan: 100 * 365 * day})
		require.NoError(t, err)
		require.Empty(t, rows)
		n, err := Retry(t.Context(), conn, table, Filter{IDs: []int64{2}})
		require.NoError(t, err)
		require.EqualValues(t, 1, n)
		n, err = Replay(t.Context(), conn, table, Span{From: date(1), To: date(2), Type: "OrderCreated"})
		require.NoError(t, err)
		require.EqualValues(t, 1, n)
		s, err := ReadStats(t.Context(), conn, table)
		require.NoError(t, err)
		require.EqualValues(t, 2, s.Pending)
		exec(t, conn, "UPDATE outbox SET status = 'COMPLETED'")
		m := maintain(t, conn, table, Retention{Now: date(20), Age: day})
		require.Len(t, m.Dropped, 4)
		require.EqualValues(t, 2, m.Keys)
	}
}
