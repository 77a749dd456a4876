package outbox

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/stretchr/testify/require"
)

const insertRow = `INSERT INTO %s (idempotency_key, aggregate_type, aggregate_id, event_type, topic, key, payload)
	VALUES ('%s', 'Order', '42', 'OrderCreated', 'order-events', '42', '{"a": 1}')`

func TestMigrateCreatesWhatIsMissing(t *testing.T) {
	for name, l := range map[string]Layout{
		"plain": {}, "claim": {Source: SourceClaim}, "xid": {Source: SourceXID},
		"by day": {Partitioned: true}, "by day, claim": {Partitioned: true, Source: SourceClaim},
		"by day, xid": {Partitioned: true, Source: SourceXID},
	} {
		t.Run(name, func(t *testing.T) {
			conn, _ := database(t)
			table := newTable(t, Options{})
			require.NotEmpty(t, migrate(t, conn, table, l))
			require.Empty(t, migrate(t, conn, table, l), "the second time, everything is there")
			exec(t, conn, fmt.Sprintf(insertRow, "outbox", "a"))
			rows, err := conn.Query(t.Context(), "SELECT "+table.SelectList("o")+" FROM outbox o")
			require.NoError(t, err)
			r, err := pgx.CollectExactlyOneRow(rows, ScanRow)
			require.NoError(t, err)
			require.WithinDuration(t, time.Now(), r.CreatedAt, time.Hour)
			r.CreatedAt, r.StoredAt = time.Time{}, pgtype.Timestamptz{}
			require.Equal(t, Row{
				ID: 1, IdempotencyKey: "a", AggregateType: "Order", AggregateID: "42", EventType: "OrderCreated",
				Topic: "order-events", Key: "42", Payload: []byte(`{"a": 1}`), Status: Pending,
			}, r)
			require.Equal(t, Buckets, value[int](t, conn, "SELECT count(*) FROM outbox_buckets"))
			require.True(t, value[bool](
				t, conn, "SELECT bucket BETWEEN 0 AND 63 AND xid < pg_snapshot_xmin(pg_current_snapshot()) FROM outbox"))
			for _, need := range []Need{NeedPublish, NeedRelay, NeedClaim, NeedXID} {
				s, err := Check(t.Context(), conn, table, need)
				require.NoError(t, err)
				require.Equal(t, Schema{Table: Name{"public", "outbox"}, Partitioned: l.Partitioned, PayloadType: "json",
					Key: "idempotency_key"}, *s)
			}
		})
	}
}

func TestASourceAddsItsIndexToATableInUse(t *testing.T) {
	for _, partitioned := range []bool{false, true} {
		conn, _ := database(t)
		table := newTable(t, Options{Name: "Billing.Out box"})
		exec(t, conn, `CREATE SCHEMA "Billing"`)
		migrate(t, conn, table, Layout{Partitioned: partitioned})
		exec(t, conn, fmt.Sprintf(insertRow, table.Name, "a"))
		steps := migrate(t, conn, table, Layout{Source: SourceClaim})
		require.NotEmpty(t, steps)
		for _, s := range steps {
			require.NotContains(t, s, "TABLE", "an index is all that is missing")
		}
		require.Contains(t, strings.Join(steps, "\n"), "CONCURRENTLY")
		require.True(t, value[bool](t, conn, "SELECT indisvalid FROM pg_index WHERE indexrelid = $1::text::regclass",
			`"Billing"."Out box_uncounted_idx"`))
		require.Empty(t, migrate(t, conn, table, Layout{Source: SourceClaim}))
	}
}

// TestABuildThatFailedIsRepeated leaves the invalid index behind that PostgreSQL leaves.
func TestABuildThatFailedIsRepeated(t *testing.T) {
	conn, _ := database(t)
	table := newTable(t, Options{})
	migrate(t, conn, table, Layout{})
	exec(t, conn, "DROP INDEX outbox_idempotency_key_idx", fmt.Sprintf(insertRow, "outbox", "a"),
		fmt.Sprintf(insertRow, "outbox", "a"))
	err := Migrate(t.Context(), conn, table, Layout{}, func(Step) {})
	require.ErrorContains(t, err, "(a) is duplicated")
	require.ErrorContains(t, err, "set columns.idempotency_key to the column id")
	require.False(
		t, value[bool](t, conn, "SELECT indisvalid FROM pg_index WHERE indexrelid = 'outbox_idempotency_key_idx'::regclass"))
	exec(t, conn, "DELETE FROM outbox WHERE id = 2")
	require.Equal(t, []string{
		`DROP INDEX CONCURRENTLY IF EXISTS "public"."outbox_idempotency_key_idx"`,
		`CREATE UNIQUE INDEX CONCURRENTLY "outbox_idempotency_key_idx" ON "public"."outbox" ("idempotency_key")`,
	}, migrate(t, conn, table, Layout{}))
}

func TestMigrationsAtOnceTakeTurns(t *testing.T) {
	conn, more := database(t)
	table := newTable(t, Options{})
	migrate(t, conn, table, Layout{Partitioned: true})
	exec(t, conn, "DROP TABLE outbox_relays", fmt.Sprintf(insertRow, "outbox", "a"))
	const n = 4
	steps := make([][]string, n)
	var wait sync.WaitGroup
	for i := range n {
		own := more()
		wait.Go(func() { steps[i] = migrate(t, own, table, Layout{Source: SourceXID}) })
	}
	wait.Wait()
	idle := slices.DeleteFunc(slices.Clone(steps), func(s []string) bool { return len(s) > 0 })
	require.Len(t, idle, n-1, "one does the work: %v", steps)
}

func TestAMigrationThatWaitsCanBeInterrupted(t *testing.T) {
	conn, more := database(t)
	table := newTable(t, Options{})
	unlock, err := lockTable(t.Context(), more(), table)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- Migrate(ctx, conn, table, Layout{}, func(Step) {}) }()
	third := more()
	asked := map[time.Time]bool{} // the answer to the first has been read when there is a second
	require.Eventually(t, func() bool {
		if at := value[*time.Time](t, third, "SELECT max(query_start) FROM pg_stat_activity WHERE pid = $1 AND "+
			"query LIKE '%pg_try_advisory_lock%'", int32(conn.PgConn().PID())); at != nil {
			asked[*at] = true
		}
		return len(asked) > 1
	}, testkit.Patience, 5*time.Millisecond)
	cancel()
	require.ErrorContains(t, <-ended, "another migration of table outbox is running")
	require.NoError(t, unlock())
	require.ErrorContains(t, unlock(), "the lock of the migration was lost")
}

// The tables of two services that had an outbox before, as valid PostgreSQL.
const (
	rabbitTable = `CREATE TABLE outbox_events (
		id bigserial PRIMARY KEY, event_id varchar(255) NOT NULL, event_type varchar(100) NOT NULL,
			aggregate_id varchar(255) NOT NULL,
		aggregate_type varchar(100) NOT NULL, payload jsonb NOT NULL, status varchar(20) DEFAULT 'PENDING',
			version integer DEFAULT 0,
		processing_instance varchar(255), locked_at timestamp, created_at timestamp DEFAULT CURRENT_TIMESTAMP,
			processed_at timestamp,
		next_retry_at timestamp, retry_count integer DEFAULT 0, error_message text)`
	rabbitRow = `INSERT INTO outbox_events (event_id, event_type, aggregate_id, aggregate_type, payload) VALUES ('e1', ` +
		`'STATUS_UPDATE', 'p1', 'POLICY', '{"a": 1}')`
	kafkaTable = `CREATE TABLE kafka_outbox (
		id bigserial, aggregate_id varchar(255) NOT NULL, aggregate_type varchar(100) NOT NULL,
			event_type varchar(100) NOT NULL,
		kafka_topic varchar(255) NOT NULL, kafka_key varchar(255) NOT NULL, payload jsonb NOT NULL, headers jsonb,
			status varchar(20) DEFAULT 'PENDING',
		created_at timestamp DEFAULT CURRENT_TIMESTAMP, processed_at timestamp, retry_count integer DEFAULT 0,
			next_retry_at timestamp,
		error_message text, idempotency_key varchar(255) NOT NULL, PRIMARY KEY (id, created_at))
			PARTITION BY RANGE (created_at);
		CREATE TABLE kafka_outbox_months PARTITION OF kafka_outbox FOR VALUES FROM ('2024-01-01') TO ('2024-02-01')`
	kafkaRow = `INSERT INTO kafka_outbox (aggregate_id, aggregate_type, event_type, kafka_topic, kafka_key, payload,
		headers, idempotency_key, created_at)
		VALUES ('42', 'Order', 'OrderCreated', 'order-events', 'k42', '{"a": 1}', '{"traceparent": "00-1"}',
			'order-created-42', '2024-01-05')`
)

func TestTablesOfOthersGetWhatTheyLack(t *testing.T) {
	created := time.Date(2024, 1, 5, 0, 0, 0, 0, time.UTC)
	for preset, x := range map[string]struct {
		ddl, row string
		need     Need
		want     Row
	}{
		"outbox_events": {rabbitTable, rabbitRow, NeedOptimistic, Row{
			ID: 1, IdempotencyKey: "e1", AggregateType: "POLICY", AggregateID: "p1", EventType: "STATUS_UPDATE",
			Topic: "statuses", Key: "p1",
			Payload: []byte(`{"a": 1}`), Status: Pending,
		}},
		"kafka_outbox": {kafkaTable, kafkaRow, NeedRelay, Row{
			ID: 1, IdempotencyKey: "order-created-42", AggregateType: "Order", AggregateID: "42", EventType: "OrderCreated",
			Topic: "order-events",
			Key:   "k42", Payload: []byte(`{"a": 1}`), Headers: []byte(`{"traceparent": "00-1"}`),
			Status: Pending, CreatedAt: created,
		}},
	} {
		for _, source := range []Source{SourceNone, SourceClaim, SourceXID} {
			t.Run(preset+" "+string(source), func(t *testing.T) {
				conn, _ := database(t)
				table := newTable(t, Options{Preset: preset, Topic: "statuses"})
				exec(t, conn, x.ddl, x.row)
				migrate(t, conn, table, Layout{Source: source})
				require.Empty(t, migrate(t, conn, table, Layout{Source: source}))
				need := x.need
				switch source {
				case SourceClaim:
					need |= NeedClaim
				case SourceXID:
					need |= NeedXID
				}
				_, err := Check(t.Context(), conn, table, need)
				require.NoError(t, err)
				rows, err := conn.Query(t.Context(), "SELECT "+table.SelectList("")+" FROM "+table.Name.String())
				require.NoError(t, err)
				got, err := pgx.CollectExactlyOneRow(rows, ScanRow)
				require.NoError(t, err)
				if x.want.CreatedAt.IsZero() {
					got.CreatedAt = time.Time{}
				}
				got.CreatedAt, got.StoredAt = got.CreatedAt.UTC(), pgtype.Timestamptz{}
				require.Equal(t, x.want, got)
			})
		}
		t.Run(preset+" from nothing", func(t *testing.T) {
			conn, _ := database(t)
			table := newTable(t, Options{Preset: preset, Topic: "statuses"})
			migrate(t, conn, table, Layout{Partitioned: preset == "kafka_outbox"})
			require.Empty(t, migrate(t, conn, table, Layout{}))
			_, err := Check(t.Context(), conn, table, x.need)
			require.NoError(t, err)
		})
	}
}

func TestAnOlderTableOfOurOwnGetsWhatItLacks(t *testing.T) {
	conn, _ := database(t)
	table := newTable(t, Options{})
	migrate(t, conn, table, Layout{})
	exec(t, conn, fmt.Sprintf(insertRow, "outbox", "a"),
		"ALTER TABLE outbox DROP COLUMN attempts, DROP COLUMN status, DROP COLUMN headers, DROP COLUMN xid, DROP COLUMN "+
			"counted_at", "DROP TABLE outbox_buckets")
	var notes []string
	require.NoError(t, Migrate(t.Context(), conn, table, Layout{}, func(s Step) {
		if s.Note != "" {
			notes = append(notes, s.Note)
		}
	}))
	require.Equal(
		t, []string{"rows that are there are taken as published; sloengine outbox replay publishes them again"}, notes)
	require.Equal(t, Completed, value[string](t, conn, "SELECT status FROM outbox"))
	exec(t, conn, fmt.Sprintf(insertRow, "outbox", "b"))
	require.Equal(t, Pending, value[string](t, conn, "SELECT status FROM outbox WHERE id = 2"))
	require.Empty(t, migrate(t, conn, table, Layout{}))
}

func TestWhatMigrateCannotDo(t *testing.T) {
	for text, x := range map[string]struct {
		ddl []string
		l   Layout
		o   Options
	}{
		`column key: missing (set columns.key to the column that has it`: {
			ddl: []string{"CREATE TABLE outbox (id bigint PRIMARY KEY, created_at timestamptz, idempotency_key text)",
				"INSERT INTO outbox VALUES (1)"},
		},
		`column id: missing`: {ddl: []string{"CREATE TABLE outbox (n bigint)"}},
		`column payload: has the type integer (want json, jsonb, text, character varying, bytea); change it: ALTER TABLE ` +
			`"public"."outbox" ALTER COLUMN "payload" TYPE json USING "payload"::json;`: {
			ddl: []string{"CREATE TABLE outbox (id bigint PRIMARY KEY, created_at timestamptz, payload integer)"},
		},
		`table public.outbox is not partitioned, and a table cannot become partitioned`: {
			ddl: []string{"CREATE TABLE outbox (id bigint PRIMARY KEY)"}, l: Layout{Partitioned: true},
		},
		`is partitioned by HASH (id) (want RANGE ("created_at"))`: {
			ddl: []string{"CREATE TABLE outbox (id bigint) PARTITION BY HASH (id)"}},
		`public.outbox is no table (relkind v in pg_class)`: {ddl: []string{"CREATE VIEW outbox AS SELECT 1 AS id"}},
		`schema "nowhere" does not exist`:                   {o: Options{Name: "nowhere.outbox"}},
	} {
		conn, _ := database(t)
		exec(t, conn, x.ddl...)
		require.ErrorContains(t, Migrate(t.Context(), conn, newTable(t, x.o), x.l, func(Step) {}), text)
		require.False(t, value[bool](t, conn, "SELECT to_regclass('outbox_buckets') IS NOT NULL"), "all or nothing")
	}
}

// TestALongTransactionDoesNotBlockWriters: a change gives up waiting, since writers queue behind it.
func TestALongTransactionDoesNotBlockWriters(t *testing.T) {
	conn, more := database(t)
	table := newTable(t, Options{})
	migrate(t, conn, table, Layout{})
	exec(t, conn, "ALTER TABLE outbox DROP COLUMN error")
	other := more()
	exec(t, other, "BEGIN", "SELECT * FROM outbox")
	err := Migrate(t.Context(), conn, table, Layout{LockTimeout: 50 * time.Millisecond}, func(Step) {})
	require.ErrorContains(t, err, "a long transaction uses the table; run it again")
}

// A service that writes several statuses of one event continues to write them after the migration of its
// table.
func TestSeveralRowsOfAnEvent(t *testing.T) {
	table := newTable(t, Options{Preset: "outbox_events", Topic: "statuses"})
	for _, ddl := range []string{"", rabbitTable} {
		conn, _ := database(t)
		if ddl != "" {
			exec(t, conn, ddl, rabbitRow)
		}
		var steps []Step
		require.NoError(t, Migrate(t.Context(), conn, table, Layout{}, func(s Step) { steps = append(steps, s) }))
		require.Contains(t, steps[0].Note, `"event_id" need not be unique: rows are known by "id"`)
		exec(t, conn, rabbitRow, rabbitRow)
		schema, err := Check(t.Context(), conn, table, NeedOptimistic)
		require.NoError(t, err)
		require.EqualValues(t, "id", schema.Key)
		rest, err := Plan(t.Context(), conn, table, Layout{})
		require.NoError(t, err)
		require.Empty(t, rest)

		exec(t, conn, "DELETE FROM outbox_events", "CREATE UNIQUE INDEX ON outbox_events (event_id)")
		schema, err = Check(t.Context(), conn, table, NeedOptimistic)
		require.NoError(t, err)
		require.EqualValues(t, "event_id", schema.Key)
	}
	// Another table gets the index, and its migration announces that before.
	conn, _ := database(t)
	exec(t, conn,
		"CREATE TABLE outbox (id bigint, created_at timestamptz, idempotency_key text, aggregate_type text, aggregate_id "+
			"text, event_type text, topic text, key text, payload json, bucket int)")
	notes := ""
	steps, err := Plan(t.Context(), conn, newTable(t, Options{}), Layout{})
	require.NoError(t, err)
	for _, s := range steps {
		if strings.Contains(s.SQL, "UNIQUE") {
			notes += s.Note
		}
	}
	require.Contains(t, notes, `fails from then on; where rows share one, set columns.idempotency_key to "id"`)
}
