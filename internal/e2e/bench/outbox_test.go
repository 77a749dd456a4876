package bench

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/reliability/outbox"
	"github.com/sloengine/sloengine/reliability/postgres/postgrestest"
)

// BenchmarkIngestOutbox compares an outbox table with one event of about 255 bytes in each row, read in each way, with
// HTTP bodies of 1000 of them: b.N thousand events each way, in one run, by the CPU time of the engine until they are
// durable and counted. The CPU time of PostgreSQL is not in it. Run it with -benchtime 100x.
func BenchmarkIngestOutbox(b *testing.B) {
	events := b.N * 1000
	s := postgrestest.Start(b, postgrestest.Options{})
	db := s.Database(b)
	c := s.Conn(b, db)
	table, err := outbox.New(outbox.Options{})
	require.NoError(b, err)
	for _, way := range []outbox.Source{outbox.SourceClaim, outbox.SourceXID} {
		require.NoError(b, outbox.Migrate(b.Context(), c, table, outbox.Layout{Source: way}, func(outbox.Step) {}))
	}
	body := benchBody(1000)
	for n := range b.N {
		number(body, uint64(n+1))
		var rows [][]any
		for line := range bytes.Lines(body) {
			key := fmt.Sprintf("%d-%d", n, len(rows))
			rows = append(rows, []any{key, "Order", key, "bench", "orders", key, bytes.Clone(bytes.TrimSpace(line))})
		}
		_, err := c.CopyFrom(b.Context(), pgx.Identifier{"outbox"},
			[]string{"idempotency_key", "aggregate_type", "aggregate_id", "event_type", "topic", "key", "payload"},
			pgx.CopyFromRows(rows))
		require.NoError(b, err)
	}
	s.Exec(b, db, "VACUUM ANALYZE outbox")
	b.ResetTimer()
	p := benchEngine(b, b.TempDir(), "")
	httpCPU, _ := cpuUntilCounted(b, []*e2etest.Process{p}, func() { loadHTTP(b, p) })
	p.Kill()
	b.ReportMetric(float64(events)/httpCPU, "http-events/cpu-s")
	for _, way := range []string{"xid", "claim"} {
		// The engine starts without the source, so that its start is not in the figure.
		dir := b.TempDir()
		p := benchEngine(b, dir, "")
		dsn := e2etest.WriteFile(b, dir, "outbox.dsn", s.DSN(db))
		cpu, wall := cpuUntilCounted(b, []*e2etest.Process{p}, func() {
			reloadWith(b, p, dir, fmt.Sprintf(
				"disk: {low_water: 64MiB}\nsources: [{name: bench, backfill: never, outbox: {dsn_file: %q, way: %s}}]\n", dsn, way))
		})
		p.Kill()
		b.ReportMetric(float64(events)/cpu, way+"-rows/cpu-s")
		b.ReportMetric(float64(events)/wall, way+"-rows/s")
		b.ReportMetric(httpCPU/cpu, way+"/http")
	}
}
