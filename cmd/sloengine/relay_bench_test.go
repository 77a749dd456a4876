package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/source/kafka/kafkatest"
	"github.com/sloengine/sloengine/reliability/outbox"
	"github.com/sloengine/sloengine/reliability/postgres/postgrestest"
)

// BenchmarkRelay publishes b.N thousand rows of about 255 bytes from PostgreSQL to Kafka with the default settings, by time
// and by CPU time of the relay, and then measures the CPU time of a relay with nothing to do. Database and broker run on the
// same machine and sync to disk. Run it with -benchtime 100x.
func BenchmarkRelay(b *testing.B) {
	db := postgrestest.Start(b, postgrestest.Options{})
	cluster := kafkatest.Start(b, kafkatest.Options{})
	cluster.CreateTopic(b, "orders", 4, nil)
	name := db.Database(b)
	table, err := outbox.New(outbox.Options{})
	require.NoError(b, err)
	conn := db.Conn(b, name)
	require.NoError(b, outbox.Migrate(b.Context(), conn, table, outbox.Layout{}, func(outbox.Step) {}))
	rows := b.N * 1000
	db.Exec(b, name, fmt.Sprintf(`INSERT INTO outbox (idempotency_key, aggregate_type, aggregate_id, event_type, topic, key, payload)
		SELECT 'k-' || n, 'Order', n::text, 'created', 'orders', (n %% 5000)::text, json_build_object('n', n, 'padding', repeat('x', 220)) FROM generate_series(1, %d) n`, rows), "VACUUM ANALYZE outbox")
	dir := b.TempDir()
	settings := writeFile(b, dir, "relay.yaml", fmt.Sprintf("database: {dsn_file: %q}\nkafka: {brokers: [%q]}\n", writeFile(b, dir, "dsn", db.DSN(name)), cluster.Brokers()[0]))
	b.ResetTimer()
	begin := time.Now()
	p, ok := start(b, nil, "relay", "-f", settings, "--web.listen-address", "127.0.0.1:0")
	require.True(b, ok, p.log.String())
	for left := rows; left > 0; time.Sleep(100 * time.Millisecond) {
		require.NoError(b, conn.QueryRow(b.Context(), "SELECT count(*) FROM outbox WHERE status <> 'COMPLETED'").Scan(&left))
		require.Less(b, time.Since(begin), 5*time.Minute, p.log.String())
	}
	wall, cpu := time.Since(begin).Seconds(), cpuSeconds(b, p.cmd.Process.Pid)
	b.StopTimer()
	time.Sleep(2 * time.Second)
	const idle = 10 * time.Second
	before := cpuSeconds(b, p.cmd.Process.Pid)
	time.Sleep(idle)
	b.ReportMetric(float64(rows)/wall, "rows/s")
	b.ReportMetric(float64(rows)/cpu, "rows/cpu-s")
	b.ReportMetric(100*(cpuSeconds(b, p.cmd.Process.Pid)-before)/idle.Seconds(), "idle-percent")
	p.kill()
}
