package relay

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/reliability/outbox"
)

const (
	lostVersions = `sloengine_outbox_lost_claims_total{way="optimistic"}`
	claiming     = "FOR UPDATE OF o SKIP LOCKED"
	pairOfOrders = `{destination="kafka",topic="orders",event_type="created"}`
)

// TestAnEventsTableOfAnotherProgram has a table whose rows have a version, as a processor with JPA makes it.
func TestAnEventsTableOfAnotherProgram(t *testing.T) {
	f := newFixture(t, outbox.Options{Preset: "outbox_events", Topic: "orders"}, outbox.Layout{},
		`CREATE TABLE outbox_events (
		id bigserial PRIMARY KEY, event_id varchar(255) NOT NULL, event_type varchar(100) NOT NULL,
			aggregate_id varchar(255) NOT NULL,
		aggregate_type varchar(100) NOT NULL, payload jsonb NOT NULL, status varchar(20) DEFAULT 'PENDING',
			version integer DEFAULT 0,
		processing_instance varchar(255), locked_at timestamp, created_at timestamp DEFAULT CURRENT_TIMESTAMP,
			processed_at timestamp,
		next_retry_at timestamp, retry_count integer DEFAULT 0, error_message text)`)
	f.claim = Optimistic
	const rows = 3000
	f.exec(`INSERT INTO outbox_events (event_id, event_type, aggregate_id, aggregate_type, payload)
		SELECT 'e-' || n, 'created', 'p' || n % 20, 'POLICY', jsonb_build_object('n', n) FROM generate_series(1, $1::int) n`,
		rows)
	var relays []*running
	for range 3 {
		relays = append(relays, f.relay(func(o *Options) {
			o.Database, o.Lease, o.SendTimeout, o.Workers = f.open(), time.Hour, soon, 2
		}))
	}
	f.completed(rows)
	got := f.broker.keys("orders")
	require.Len(t, got, rows, "no row is published twice under a valid claim")
	seen := map[string]bool{}
	for _, id := range got {
		seen[id] = true
	}
	require.Len(t, seen, rows)
	require.Equal(t, rows, value[int](f,
		"SELECT count(*) FROM outbox_events WHERE version = 2 AND retry_count = 0 AND processed_at >= locked_at AND "+
			"locked_at >= created_at"))
	require.Greater(t, value[int](f, "SELECT count(DISTINCT processing_instance) FROM outbox_events"), 1,
		"the relays share the rows")
	m := f.broker.sent[0]
	require.Equal(t, m.IdempotencyKey, m.Header(HeaderIdempotencyKey))
	require.Equal(t, m.AggregateID, m.Key)
	require.Eventually(t, func() bool {
		published := 0.
		for _, r := range relays {
			require.Zero(t, r.metric("sloengine_outbox_duplicates_total"))
			published += r.metric("sloengine_outbox_published_total" + pairOfOrders)
		}
		return published == rows
	}, soon, 10*time.Millisecond)
}

// hookedDB calls before and after around the statements that contain a text. An error of after replaces the answer.
type hookedDB struct {
	outbox.DB
	text          string
	before, after func(ctx context.Context) error
}

func (db *hookedDB) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if !strings.Contains(sql, db.text) {
		return db.DB.Query(ctx, sql, args...)
	}
	if db.before != nil {
		if err := db.before(ctx); err != nil {
			return nil, err
		}
	}
	rows, err := db.DB.Query(ctx, sql, args...)
	if err == nil && db.after != nil {
		if err := db.after(ctx); err != nil {
			for rows.Next() {
			}
			return nil, err
		}
	}
	return rows, err
}

// TestALostClaimIsCounted: between the reading and the claim of rows, another one changes three of them and holds a
// lock on a fourth one. The relay does not wait for other transactions, and publishes the rows later.
func TestALostClaimIsCounted(t *testing.T) {
	f := newOptimistic(t)
	f.write("key", 1, 10)
	var once sync.Once
	var tx pgx.Tx
	db := &hookedDB{DB: f.pool, text: claiming, before: func(ctx context.Context) (err error) {
		once.Do(func() {
			f.exec("UPDATE outbox SET version = version + 1 WHERE id <= 3")
			tx, err = f.open().Begin(ctx)
			require.NoError(t, err)
			_, err = tx.Exec(ctx, "SELECT FROM outbox WHERE id = 4 FOR UPDATE")
			require.NoError(t, err)
		})
		return nil
	}}
	r := f.relay(func(o *Options) { o.Database = db })
	f.completed(9)
	require.GreaterOrEqual(t, r.metric(lostVersions), 4.)
	require.NoError(t, tx.Rollback(context.Background()))
	f.completed(10)
	require.Len(t, f.broker.keys("orders"), 10)
	require.Zero(t, r.metric("sloengine_outbox_duplicates_total"))
	require.Zero(t, r.metric(`sloengine_outbox_lost_claims_total{way="lease"}`))
}

// TestAClaimWithoutAnAnswerIsReleased: the connection breaks after the database has executed the claim.
func TestAClaimWithoutAnAnswerIsReleased(t *testing.T) {
	f := newOptimistic(t)
	f.write("key", 1, 10)
	var lost atomic.Bool
	db := &hookedDB{DB: f.pool, text: claiming, after: func(context.Context) error {
		if lost.CompareAndSwap(false, true) {
			return errors.New("the connection is broken")
		}
		return nil
	}}
	r := f.relay(func(o *Options) { o.Database, o.Lease, o.SendTimeout = db, time.Hour, soon })
	f.completed(10)
	require.True(t, lost.Load())
	require.Len(t, f.broker.keys("orders"), 10)
	require.Equal(t, 10, value[int](f, "SELECT count(*) FROM outbox WHERE version = 4 AND attempts = 0"))
	require.Contains(t, r.log.String(), "the connection is broken")
	require.Zero(t, r.metric("sloengine_outbox_stale_leases_total"))
}

// TestAClaimThatItsRelayLeftIsReleased: the database's clock decides when, regardless of that of the relay.
func TestAClaimThatItsRelayLeftIsReleased(t *testing.T) {
	f := newOptimistic(t)
	f.write("dead", 1, 5)
	f.write("legacy", 1, 1)
	f.exec(
		"UPDATE outbox SET status = 'PROCESSING', instance = 'dead', locked_at = clock_timestamp() - interval '1 second', " +
			"version = 7 WHERE key = 'dead'")
	f.exec("UPDATE outbox SET status = 'PROCESSING' WHERE key = 'legacy'") // without a time
	var pending, age float64
	sql := newStatements(f.table, &outbox.Schema{PayloadType: "json"}, &Options{Claim: Optimistic}).pending
	require.NoError(t, f.pool.QueryRow(t.Context(), sql).Scan(&pending, &age))
	require.Equal(t, 6., pending, "claimed rows are not published yet")
	f.exec("CREATE TABLE claimed AS SELECT id, locked_at FROM outbox WHERE key = 'dead'")
	f.relay(func(o *Options) { o.Now = func() time.Time { return time.Now().Add(time.Hour) } })
	f.relay(func(o *Options) { o.Now = func() time.Time { return time.Now().Add(-time.Hour) } })
	f.completed(6)
	require.Equal(t, 5, value[int](f,
		"SELECT count(*) FROM outbox JOIN claimed c USING (id) WHERE completed_at >= c.locked_at + interval '3 seconds' "+
			"AND version = 10"))
	require.Len(t, f.broker.keys("orders"), 6)
}

// TestAPausedRelayWritesNothing holds a relay up in the middle of a batch for longer than its claim, as SIGSTOP does.
func TestAPausedRelayWritesNothing(t *testing.T) {
	f := newOptimistic(t)
	slow, stuck, held, release := heldUp()
	f.write("key", 1, 5)
	db := &stoppedDB{DB: f.pool, until: stuck}
	paused := f.relay(func(o *Options) { o.Publisher, o.Database, o.Name = slow, db, "paused" })
	t.Cleanup(release)
	<-held
	db.stopped.Store(true)
	f.relay(func(o *Options) { o.Name = "other" })
	f.completed(5)
	release()
	require.Eventually(t, func() bool { return paused.metric(lostVersions) == 5 }, soon, 10*time.Millisecond)
	require.Equal(t, 5., paused.metric("sloengine_outbox_duplicates_total"))
	require.Equal(
		t, 5, value[int](f, "SELECT count(*) FROM outbox WHERE status = 'COMPLETED' AND instance = 'other' AND version = 4"))
}

// TestAFailedRowAndItsKey: a row that is tried again blocks no other one, but a FAILED one does, if it is to.
func TestAFailedRowAndItsKey(t *testing.T) {
	for _, onFailed := range []string{Continue, Block} {
		t.Run(onFailed, func(t *testing.T) {
			f := newOptimistic(t)
			var attempts atomic.Int32
			f.broker.outcome = func(_ context.Context, m *Message) Outcome {
				if m.IdempotencyKey == "poison-1" && m.Topic == "orders" && attempts.Add(1) > 0 {
					return Outcome{Err: errRow}
				}
				return Outcome{}
			}
			f.write("poison", 1, 3)
			r := f.relay(func(o *Options) { o.OnFailed, o.MaxAttempts, o.DeadLetterTopic = onFailed, 3, "dead" })
			f.completed(2)
			require.Eventually(t, func() bool { return f.statuses()[outbox.Failed] == 1 }, soon, 10*time.Millisecond, r.log)
			require.EqualValues(t, 3, attempts.Load())
			require.Equal(t, []string{"poison-1"}, f.broker.keys("dead"))
			require.Equal(t, "3 the row is poison",
				value[string](f,
					"SELECT attempts || ' ' || error FROM outbox WHERE status = 'FAILED' AND instance IS NULL AND locked_at IS NULL "+
						"AND completed_at IS NOT NULL"))
			require.Eventually(t, func() bool {
				return r.metric("sloengine_outbox_failed_total"+pairOfOrders) == 1
			}, soon, 10*time.Millisecond)
			require.Equal(t, 2., r.metric("sloengine_outbox_retries_total"))
			f.write("poison", 4, 2)
			f.write("other", 1, 1)
			if onFailed == Continue {
				f.completed(5)
				return
			}
			f.completed(3)
			require.Equal(t, map[string]int{outbox.Completed: 3, outbox.Failed: 1, outbox.Pending: 2}, f.statuses())
			f.broker.set(func(b *fakeBroker) { b.outcome = nil })
			n, err := outbox.Retry(context.Background(), f.pool, f.table, outbox.Filter{})
			require.NoError(t, err)
			require.EqualValues(t, 1, n)
			f.completed(6)
		})
	}
}

// TestWhatIsClaimedFitsIntoTheMemory: a look that reads too much claims only the rows that it may
// hold.
func TestWhatIsClaimedFitsIntoTheMemory(t *testing.T) {
	f := newOptimistic(t)
	f.exec(`INSERT INTO outbox (idempotency_key, aggregate_type, aggregate_id, event_type, topic, key, payload)
		SELECT 'k-' || n, 'a', '1', 'created', 'orders', n, json_build_object('x', repeat('x', 5000))
			FROM generate_series(1, 40) n`)
	var most atomic.Int32
	f.broker.outcome = func(context.Context, *Message) Outcome {
		n := value[int32](f, "SELECT count(*) FROM outbox WHERE status = 'PROCESSING'")
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		return Outcome{}
	}
	f.relay(func(o *Options) { o.Memory, o.Workers = 30_000, 2 })
	f.completed(40)
	require.Len(t, f.broker.keys("orders"), 40)
	require.LessOrEqual(t, most.Load(), int32(12))
}

// TestOpenRowsAreFoundByTheirIndexes: however many rows are COMPLETED, no statement reads them.
func TestOpenRowsAreFoundByTheirIndexes(t *testing.T) {
	f := newOptimistic(t)
	f.write("done", 1, 20_000)
	f.exec("UPDATE outbox SET status = 'COMPLETED', completed_at = now()")
	f.write("key", 1, 200)
	f.write("claimed", 1, 200)
	f.exec("UPDATE outbox SET status = 'PROCESSING', instance = 'me', locked_at = now() WHERE key = 'claimed'")
	f.exec("VACUUM ANALYZE outbox")
	for _, onFailed := range []string{Continue, Block} {
		s := newStatements(f.table, &outbox.Schema{PayloadType: "json"}, &Options{Claim: Optimistic, OnFailed: onFailed})
		none := []int64{}
		for name, x := range map[string][]any{
			s.take: {100, 100, 1000}, s.claim: {"me", none, []time.Time{}, none}, s.sweep: {300., 1000}, s.releaseAll: {"me"},
			s.pending: nil, s.failed: nil,
			s.complete: {"me", none, []time.Time{}, []int16{}, none},
		} {
			rows, err := f.pool.Query(t.Context(), "EXPLAIN "+name, append([]any{pgx.QueryExecModeExec}, x...)...)
			require.NoError(t, err, name)
			lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
			require.NoError(t, err, name)
			require.NotContains(t, strings.Join(lines, "\n"), "Seq Scan on outbox", name)
		}
	}
}

func TestATableWithoutAVersionIsNamed(t *testing.T) {
	f := newFixture(t, outbox.Options{}, outbox.Layout{})
	r := f.relay(func(o *Options) { o.Claim = Optimistic })
	require.Eventually(t, func() bool {
		return strings.Contains(r.Status().Database.Reason, "columns.version is missing in the settings")
	}, soon, 10*time.Millisecond, "%v", r.Status())
	require.Equal(t, 64, value[int](f, "SELECT count(*) FROM outbox_buckets WHERE worker IS NULL"))

	f = newFixture(t, outbox.Options{Preset: "outbox_events", Topic: "orders"}, outbox.Layout{})
	f.exec("ALTER TABLE outbox_events DROP COLUMN version")
	f.claim = Optimistic
	r = f.relay(nil)
	help := `ALTER TABLE "public"."outbox_events" ADD COLUMN "version" integer NOT NULL DEFAULT 0`
	require.Eventually(t, func() bool {
		return strings.Contains(r.Status().Database.Reason, help)
	}, soon, 10*time.Millisecond, "%v", r.Status())
	f.exec(help)
	f.exec(
		"INSERT INTO outbox_events (event_id, event_type, aggregate_id, aggregate_type, payload) VALUES ('e', 'created', " +
			"'p', 'POLICY', '{}')")
	f.completed(1)

	_, err := New(Options{Database: f.pool, Table: f.table, Publisher: f.broker, Claim: "luck"})
	require.ErrorContains(t, err, `unknown claim "luck" (want lease or optimistic)`)
}
