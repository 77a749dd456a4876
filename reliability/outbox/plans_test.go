package outbox

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// completedRows is how many COMPLETED rows the table of TestOpenRowsAreFoundByTheirIndexes has. With 10,000,000 it
// takes some minutes, and times are asserted.
var completedRows = flag.Int("completed", 50_000, "COMPLETED rows of the table that plans are made for")

const manyRows = 10_000_000

// crowded is a table with a lot of COMPLETED rows and 500 others, the newest.
func crowded(t testing.TB, l Layout) (*pgx.Conn, *Table) {
	t.Helper()
	conn, _ := database(t)
	table := newTable(t, Options{})
	migrate(t, conn, table, l)
	insert := `INSERT INTO outbox (idempotency_key, aggregate_type, aggregate_id, event_type, topic, key, payload, status,
		attempts, next_attempt_at, completed_at, counted_at)
		SELECT '%[1]s' || i, 'Order', i, 'OrderCreated', 'order-events', 'customer-' || i %% 5000, '{"total": 12.5}', '%[1]s',
			%[2]s, %[3]s, %[4]s, %[4]s FROM generate_series(1, %[5]d) i`
	exec(t, conn,
		fmt.Sprintf(insert, Completed, "0", "NULL", "now()", *completedRows),
		fmt.Sprintf(insert, Pending, "i % 5", "CASE WHEN i % 5 > 0 THEN now() + interval '1 hour' END",
			"NULL::timestamptz", 400),
		fmt.Sprintf(insert, Failed, "9", "NULL", "NULL::timestamptz", 100),
		"VACUUM ANALYZE outbox")
	return conn, table
}

// TestOpenRowsAreFoundByTheirIndexes: however many rows are COMPLETED, no query that is run often reads them.
func TestOpenRowsAreFoundByTheirIndexes(t *testing.T) {
	for _, partitioned := range []bool{false, true} {
		t.Run(fmt.Sprintf("partitioned %v", partitioned), func(t *testing.T) {
			conn, table := crowded(t, Layout{Partitioned: partitioned, Source: SourceClaim})
			for name, sql := range map[string]string{
				"uncounted": "SELECT id FROM outbox WHERE counted_at IS NULL ORDER BY id LIMIT 100",
				"failed":    "SELECT id FROM outbox WHERE status = 'FAILED' ORDER BY id LIMIT 100",
			} {
				rows, err := conn.Query(t.Context(), "EXPLAIN "+sql, pgx.QueryExecModeSimpleProtocol)
				require.NoError(t, err)
				lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
				require.NoError(t, err)
				plan := strings.Join(lines, "\n")
				require.Zero(t, fullScans(lines), "%s:\n%s", name, plan)
				require.Contains(t, plan, "Index", name)
			}
			times := 20
			if *completedRows >= manyRows {
				times = 1000
			}
			for name, f := range map[string]func() error{
				"list":    func() error { _, err := List(t.Context(), conn, table, Filter{}); return err },
				"backlog": func() error { _, err := ReadBacklog(t.Context(), conn, table); return err },
				"retry":   func() error { _, err := Retry(t.Context(), conn, table, Filter{Type: "none"}); return err },
			} {
				var took []time.Duration
				for range times {
					began := time.Now()
					require.NoError(t, f())
					took = append(took, time.Since(began))
				}
				slices.Sort(took)
				t.Logf("%d completed rows, %s: median %s, p95 %s", *completedRows, name, took[times/2], took[times*95/100])
			}
		})
	}
}

// fullScans counts the sequential scans of tables that have rows. Those of empty partitions cost nothing.
func fullScans(plan []string) (n int) {
	full := "Seq Scan on outbox_p" + time.Now().UTC().Format("20060102")
	for _, line := range plan {
		if strings.Contains(line, full) || strings.Contains(line, "Seq Scan on outbox ") {
			n++
		}
	}
	return n
}
