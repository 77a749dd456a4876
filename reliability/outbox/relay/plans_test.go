package relay

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/reliability/outbox"
)

// completedRows is how many COMPLETED rows the table of TestTakingReadsNoCompletedRows has. With 10,000,000 it takes
// some minutes, and times are asserted.
var completedRows = flag.Int("completed", 50_000, "COMPLETED rows of the table that rows are taken from")

// TestTakingReadsNoCompletedRows: however many rows are done, a worker finds the next ones by their index.
func TestTakingReadsNoCompletedRows(t *testing.T) {
	const manyRows = 10_000_000
	for _, partitioned := range []bool{false, true} {
		t.Run(fmt.Sprintf("partitioned %v", partitioned), func(t *testing.T) {
			f := newFixture(t, outbox.Options{}, outbox.Layout{Partitioned: partitioned})
			insert := `INSERT INTO outbox (idempotency_key, aggregate_type, aggregate_id, event_type, topic, key, payload,
				status, attempts, next_attempt_at, completed_at)
				SELECT '%[1]s' || i, 'Order', i, 'OrderCreated', 'order-events', 'customer-' || i %% 5000, '{"total": 12.5}',
					'%[1]s', %[2]s, %[3]s, %[4]s FROM generate_series(1, %[5]d) i`
			f.exec(fmt.Sprintf(insert, outbox.Completed, "0", "NULL", "now()", *completedRows))
			f.exec(fmt.Sprintf(insert, outbox.Pending, "CASE WHEN i % 50 = 1 THEN 1 ELSE 0 END",
				"CASE WHEN i % 50 = 1 THEN now() + interval '1 hour' END", "NULL::timestamptz", 20_000))
			f.exec(fmt.Sprintf(insert, outbox.Failed, "9", "NULL", "now()", 100))
			f.exec("VACUUM ANALYZE outbox")

			r, err := New(Options{Database: f.pool, Table: f.table, Publisher: f.broker, Name: "worker"})
			require.NoError(t, err)
			schema, err := r.check(t.Context())
			require.NoError(t, err)
			r.sql = newStatements(f.table, schema, &r.o)
			f.exec(r.sql.acquire, r.o.Name, r.o.Lease.Seconds(), outbox.Buckets)
			var all []int16
			for n := range int16(outbox.Buckets) {
				all = append(all, n)
			}

			rows, err := f.pool.Query(t.Context(), "EXPLAIN "+r.sql.take, pgx.QueryExecModeExec, r.o.Name,
				r.o.SendTimeout.Seconds(), all, r.o.Batch, f.broker.max, 1000)
			require.NoError(t, err)
			plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
			require.NoError(t, err)
			full := "Seq Scan on outbox_p" + time.Now().UTC().Format("20060102")
			for _, line := range plan {
				require.False(t, strings.Contains(line, full) || strings.Contains(line, "Seq Scan on outbox "),
					strings.Join(plan, "\n"))
			}

			times := 64
			if *completedRows >= manyRows {
				times = 1024
			}
			for _, x := range []struct {
				what    string
				buckets int
				limit   int
			}{{"a batch of 100 rows", 1, 100}, {"ten batches", 10, 1000}} {
				var took []time.Duration
				for n := range times {
					from := n % (len(all) - x.buckets + 1)
					began := time.Now()
					items, _, err := r.read(t.Context(), 64<<20, r.o.Name, r.o.SendTimeout.Seconds(), all[from:from+x.buckets],
						r.o.Batch, f.broker.max, x.limit)
					took = append(took, time.Since(began))
					require.NoError(t, err)
					require.NotEmpty(t, items)
				}
				slices.Sort(took)
				t.Logf("%d completed rows, %s: median %s, p95 %s", *completedRows, x.what, took[times/2], took[times*95/100])
				if x.limit == 100 && *completedRows >= manyRows {
					require.Less(t, took[times*95/100], 5*time.Millisecond)
				}
			}
		})
	}
}

// A row may become due while a statement looks for rows: it must not stop blocking later rows of its key before it is
// taken itself. A look at the rows in between takes long here.
func TestARowThatBecomesDueIsNotOvertaken(t *testing.T) {
	f := newFixture(t, outbox.Options{}, outbox.Layout{})
	f.exec(`INSERT INTO outbox (idempotency_key, aggregate_type, aggregate_id, event_type, topic, key, payload)
		SELECT 'k' || n || '-1', 'a', '1', 'created', 'orders', 'k' || n, '{}' FROM generate_series(1, 2000) n`)
	f.exec("DELETE FROM outbox WHERE bucket <> 5")
	keys := value[int](f, "SELECT count(*)::int FROM outbox")
	require.Greater(t, keys, 10)
	f.exec(`INSERT INTO outbox (idempotency_key, aggregate_type, aggregate_id, event_type, topic, key, payload, attempts,
		next_attempt_at)
		SELECT 'filler-' || n, 'a', '1', 'created', 'orders', (SELECT min(key) FROM outbox), '{}', 1,
			now() + interval '1 hour' FROM generate_series(1, 30000) n`)
	f.exec(`INSERT INTO outbox (idempotency_key, aggregate_type, aggregate_id, event_type, topic, key, payload)
		SELECT key || '-2', 'a', '1', 'created', 'orders', key, '{}' FROM outbox
			WHERE idempotency_key LIKE 'k%' AND key <> (SELECT min(key) FROM outbox)`)
	f.exec(
		`UPDATE outbox SET attempts = 1, next_attempt_at = clock_timestamp() + interval '2 seconds' + id * interval '1 ` +
			`millisecond' WHERE idempotency_key LIKE 'k%-1'`)
	f.relay(func(o *Options) { o.Poll = 10 * time.Millisecond })
	f.completed(2*keys - 1)
	inOrder(t, f.broker.keys("orders"))
}
