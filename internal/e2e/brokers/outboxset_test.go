package brokers

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/outbox"
	"github.com/sloengine/sloengine/reliability/postgres/postgrestest"
)

var outboxCycles = flag.Int("outbox.cycles", 6, "faults of the set checker of the outbox source, for each way")

// TestOutboxSetChecker reads a table while the engine is killed, PostgreSQL is killed, and the network is cut, at
// random moments. Writers commit late, roll back, and write more rows in a transaction than a batch holds. Whatever is
// in the table in the end is counted exactly once: the table itself is the oracle.
func TestOutboxSetChecker(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"claim", "xid"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			s := postgrestest.Start(t, postgrestest.Options{Proxied: true})
			db := s.Database(t)
			table, err := outbox.New(outbox.Options{})
			require.NoError(t, err)
			require.NoError(t, outbox.Migrate(t.Context(), s.Conn(t, db), table, outbox.Layout{Source: outbox.Source(way)},
				func(outbox.Step) {}))

			dir := t.TempDir()
			dsn := filepath.Join(dir, "outbox.dsn")
			require.NoError(t, os.WriteFile(dsn, []byte(s.ProxiedDSN(db)), 0o600))
			spec := e2etest.WriteFile(t, dir, "spec.yaml", e2etest.CrashSpec)
			settings := e2etest.CrashSettings +
				fmt.Sprintf(
					"sources: [{name: orders, backfill: never, outbox: {dsn_file: %q, way: %s, service: crash, poll: 20ms, refresh: "+
						"500ms, batch: 200}}]\n", dsn, way)
			stop := writeLateRows(t, s.DSN(db))
			p, faults := disturbSource(t, *outboxCycles, e2etest.ServeArgs(t, dir, spec, settings), func(*rand.Rand) origin {
				return origin{name: "PostgreSQL", cut: s.Proxy.Cut, restore: s.Proxy.Restore, kill: s.Kill,
					restart: func() { s.Restart(t) }}
			})
			stop()
			p.WaitReady(t)

			want := map[string]int{}
			rows, err := s.Conn(t, db).Query(t.Context(), "SELECT idempotency_key FROM outbox")
			require.NoError(t, err)
			keys, err := pgx.CollectRows(rows, pgx.RowTo[string])
			require.NoError(t, err)
			for _, key := range keys {
				want[key] = 1
			}
			require.NotEmpty(t, want)
			require.Eventually(t, func() bool {
				return len(e2etest.CountsByID(t, p)) >= len(want)
			}, testkit.Patience, 250*time.Millisecond, "%d rows in the table\n%s", len(want), p.Log)
			if way == "claim" { // what would be counted twice is read before the last row is marked
				require.Eventually(t, func() bool {
					var left int
					require.NoError(
						t, s.Conn(t, db).QueryRow(t.Context(), "SELECT count(*) FROM outbox WHERE counted_at IS NULL").Scan(&left))
					return left == 0
				}, testkit.Patience, 100*time.Millisecond)
			}
			t.Logf("faults %v", faults)
			requireCountedAsSent(t, p, want)
		})
	}
}

// writeLateRows writes rows in transactions that overlap, until the returned function is called. It goes around the
// proxy.
func writeLateRows(t *testing.T, dsn string) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for w := range 3 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(w), 2))
			for n := 0; ctx.Err() == nil && n < e2etest.CrashIDs/3; {
				n += writeTransactions(ctx, rnd, dsn, w, n)
			}
		})
	}
	return func() { cancel(); wg.Wait() }
}

// writeTransactions makes transactions on one connection until it breaks, and returns how many rows it tried to write.
// A commit whose answer is lost may have happened, so its keys are not used again.
func writeTransactions(ctx context.Context, rnd *rand.Rand, dsn string, writer, from int) (n int) {
	c, err := pgx.Connect(ctx, dsn)
	if err != nil {
		testkit.Pause(20 * time.Millisecond)
		return 0
	}
	defer c.Close(context.WithoutCancel(ctx))
	for ctx.Err() == nil && from+n < e2etest.CrashIDs/3 {
		rows := 1 + rnd.IntN(20)
		if rnd.IntN(20) == 0 {
			rows = 450 // more than a batch
		}
		rows = min(rows, e2etest.CrashIDs/3-from-n)
		first := from + n
		n += rows
		tx, err := c.Begin(ctx)
		if err != nil {
			return n
		}
		for i := range rows {
			key := fmt.Sprintf("w%d-%d", writer, first+i)
			_, err := tx.Exec(ctx,
				`INSERT INTO outbox (idempotency_key, aggregate_type, aggregate_id, event_type, topic, key, payload)
				VALUES ($1, 'Order', $1, 't', 'orders', $1, $2::text::json)`, key, fmt.Sprintf(`{"attributes":{"uid":%q}}`, key))
			if err != nil {
				return n
			}
			if i == rows/2 {
				testkit.Pause(time.Duration(rnd.IntN(30)) * time.Millisecond) // others begin later and commit earlier
			}
		}
		testkit.Pause(10 * time.Millisecond)
		if rnd.IntN(10) == 0 {
			err = tx.Rollback(ctx)
		} else {
			err = tx.Commit(ctx)
		}
		if err != nil {
			return n
		}
	}
	return n
}
