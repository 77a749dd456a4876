package brokers

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sloengine/sloengine/ingest/source/kafka/kafkatest"
	"github.com/sloengine/sloengine/ingest/source/rabbitmq/rabbitmqtest"
	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/outbox"
	"github.com/sloengine/sloengine/reliability/postgres/postgrestest"
)

// relayBench is a database with an outbox table and a broker, both of which sync to disk.
type relayBench struct {
	b        *testing.B
	db       *postgrestest.Server
	name     string // of the database
	cluster  *kafkatest.Cluster
	settings string // relay.yaml
}

func newRelayBench(b *testing.B) *relayBench {
	r := &relayBench{b: b, cluster: kafkatest.Start(b, kafkatest.Options{})}
	r.cluster.CreateTopic(b, "orders", 4, nil)
	r.openTable(fmt.Sprintf("kafka: {brokers: [%q]}\n", r.cluster.Brokers()[0]))
	return r
}

// openTable makes the table, and the settings of a relay that publishes it.
func (r *relayBench) openTable(destination string) {
	b := r.b
	r.db = postgrestest.Start(b, postgrestest.Options{})
	r.name = r.db.Database(b)
	table, err := outbox.New(outbox.Options{})
	require.NoError(b, err)
	require.NoError(b, outbox.Migrate(b.Context(), r.db.Conn(b, r.name), table, outbox.Layout{}, func(outbox.Step) {}))
	dir := b.TempDir()
	r.settings = e2etest.WriteFile(b, dir, "relay.yaml",
		fmt.Sprintf("database: {dsn_file: %q}\n%s", e2etest.WriteFile(b, dir, "dsn", r.db.DSN(r.name)), destination))
}

func (r *relayBench) start() *e2etest.Process {
	p, ok := e2etest.Start(r.b, nil, "relay", "-f", r.settings, "--web.listen-address", "127.0.0.1:0")
	require.True(r.b, ok, p.Log.String())
	return p
}

// fill replaces the rows of the table by n rows of about 255 bytes.
func (r *relayBench) fill(n int) {
	r.db.Exec(r.b, r.name, "TRUNCATE outbox",
		fmt.Sprintf(`INSERT INTO outbox (idempotency_key, aggregate_type, aggregate_id, event_type, topic, key, payload)
		SELECT 'k-' || n, 'Order', n::text, 'created', 'orders', (n %% 5000)::text, json_build_object('n', n, 'padding',
			repeat('x', 220)) FROM generate_series(1, %d) n`, n),
		"VACUUM ANALYZE outbox")
}

// untilCompleted waits until no row is open.
func (r *relayBench) untilCompleted(log fmt.Stringer) {
	conn, left := r.db.Conn(r.b, r.name), 0
	require.True(r.b, testkit.Within(5*time.Minute, func() bool {
		require.NoError(
			r.b, conn.QueryRow(r.b.Context(), "SELECT count(*) FROM outbox WHERE status <> 'COMPLETED'").Scan(&left))
		return left == 0
	}), log)
}

// BenchmarkRelay publishes b.N thousand rows of about 255 bytes from PostgreSQL to Kafka with the default settings, and
// then the same rows with a loop that does nothing else, by time and by CPU time of the client. It also measures the
// CPU time of a relay with nothing to do. Database and broker run on the same machine. Run it with -benchtime 100x.
func BenchmarkRelay(b *testing.B) {
	r := newRelayBench(b)
	rows := b.N * 1000
	r.fill(rows)
	b.ResetTimer()
	begin := time.Now()
	p := r.start()
	r.untilCompleted(p.Log)
	wall, cpu := time.Since(begin).Seconds(), e2etest.CPUSeconds(b, p.Cmd.Process.Pid)
	b.StopTimer()
	testkit.Pause(2 * time.Second)
	const idle = 10 * time.Second
	before := e2etest.CPUSeconds(b, p.Cmd.Process.Pid)
	testkit.Pause(idle)
	b.ReportMetric(float64(rows)/wall, "rows/s")
	b.ReportMetric(float64(rows)/cpu, "rows/cpu-s")
	b.ReportMetric(100*(e2etest.CPUSeconds(b, p.Cmd.Process.Pid)-before)/idle.Seconds(), "idle-percent")
	p.Kill()

	r.fill(rows)
	begin, before = time.Now(), ownCPUSeconds(b)
	r.bareLoop(rows)
	bareWall, bareCPU := time.Since(begin).Seconds(), ownCPUSeconds(b)-before
	b.ReportMetric(float64(rows)/bareWall, "bare-rows/s")
	b.ReportMetric(float64(rows)/bareCPU, "bare-rows/cpu-s")
	b.ReportMetric(bareCPU/cpu, "of-bare-per-cpu-s")
}

// BenchmarkRelayOthers publishes b.N thousand rows to RabbitMQ, and to a web service that reads and forgets them, one
// request for each row or one for a batch. Run it with -benchtime 20x.
func BenchmarkRelayOthers(b *testing.B) {
	for _, to := range []struct {
		name string
		make func(b *testing.B) string
	}{
		{"rabbitmq", func(b *testing.B) string {
			node := rabbitmqtest.Start(b, rabbitmqtest.Options{})
			_, err := node.Channel(b, "/").QueueDeclare("orders", true, false, false, false, nil)
			require.NoError(b, err)
			return fmt.Sprintf("rabbitmq: {%s}\n", relayRabbitConnection(b, node.Address))
		}},
		{"http", func(b *testing.B) string { return fmt.Sprintf("http: {url: %q}\n", forgetful(b)) }},
		{"cloudevents", func(b *testing.B) string {
			return fmt.Sprintf("http: {url: %q, body: cloudevents}\n", forgetful(b))
		}},
	} {
		b.Run(to.name, func(b *testing.B) {
			r := &relayBench{b: b}
			r.openTable(to.make(b))
			rows := b.N * 1000
			r.fill(rows)
			b.ResetTimer()
			begin := time.Now()
			p := r.start()
			r.untilCompleted(p.Log)
			b.ReportMetric(float64(rows)/time.Since(begin).Seconds(), "rows/s")
			b.ReportMetric(float64(rows)/e2etest.CPUSeconds(b, p.Cmd.Process.Pid), "rows/cpu-s")
			p.Kill()
		})
	}
}

// forgetful is the address of a web service that takes everything.
func forgetful(b *testing.B) string {
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
	}))
	b.Cleanup(s.Close)
	return s.URL
}

// bareLoop is what is left of a relay without promises: ten workers that each select 100 rows for update, produce them,
// and update them, all in one transaction.
func (r *relayBench) bareLoop(rows int) {
	client, err := kgo.NewClient(kgo.SeedBrokers(r.cluster.Brokers()...), kgo.ProducerLinger(5*time.Millisecond))
	require.NoError(r.b, err)
	defer client.Close()
	var wg sync.WaitGroup
	for range 10 {
		conn := r.db.Conn(r.b, r.name)
		wg.Go(func() {
			for r.b.Context().Err() == nil {
				n, err := bareBatch(r.b.Context(), conn, client)
				if err != nil || n == 0 {
					if err != nil {
						r.b.Error(err)
					}
					return
				}
			}
		})
	}
	wg.Wait()
	var done int
	require.NoError(r.b, r.db.Conn(r.b, r.name).QueryRow(r.b.Context(),
		"SELECT count(*) FROM outbox WHERE status = 'COMPLETED'").Scan(&done))
	require.Equal(r.b, rows, done)
}

func bareBatch(ctx context.Context, conn *pgx.Conn, client *kgo.Client) (n int, err error) {
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx,
			"SELECT id, topic, key, payload FROM outbox WHERE status = 'PENDING' ORDER BY id LIMIT 100 FOR UPDATE SKIP LOCKED")
		if err != nil {
			return err
		}
		var ids []int64
		var records []*kgo.Record
		var id int64
		var topic, key string
		var payload []byte
		if _, err := pgx.ForEachRow(rows, []any{&id, &topic, &key, &payload}, func() error {
			ids, records = append(ids, id),
				append(records, &kgo.Record{Topic: topic, Key: []byte(key), Value: slices.Clone(payload)})
			return nil
		}); err != nil {
			return err
		}
		if n = len(ids); n == 0 {
			return nil
		}
		if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
			return err
		}
		_, err = tx.Exec(
			ctx, "UPDATE outbox SET status = 'COMPLETED', completed_at = clock_timestamp() WHERE id = ANY ($1)", ids)
		return err
	})
	return n, err
}

// ownCPUSeconds is the CPU time of the test's own process.
func ownCPUSeconds(b *testing.B) float64 {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// BenchmarkRelayAge writes 250 rows a second (15,000 a minute), each in a transaction of its own, and measures how old
// they are when a consumer of the topic has them. b.N is the number of rows. Run it with -benchtime 5000x.
func BenchmarkRelayAge(b *testing.B) {
	r := newRelayBench(b)
	p := r.start()
	consumer, err := kgo.NewClient(kgo.SeedBrokers(r.cluster.Brokers()...), kgo.ConsumeTopics("orders"))
	require.NoError(b, err)
	defer consumer.Close()
	written := make([]time.Time, b.N)
	b.ResetTimer()
	const writers = 5
	var writing sync.WaitGroup
	for w := range writers {
		conn := r.db.Conn(b, r.name)
		writing.Go(func() {
			tick := time.NewTicker(writers * time.Second / 250)
			defer tick.Stop()
			for n := w; n < b.N; n += writers {
				<-tick.C
				written[n] = time.Now() // before the transaction begins, as created_at
				if _, err := conn.Exec(b.Context(),
					`INSERT INTO outbox (idempotency_key, aggregate_type, aggregate_id, event_type, topic, key, payload)
					VALUES ($1::text, 'Order', $1::text, 'created', 'orders', ($2::int % 5000)::text, json_build_object('n', $2::int,
						'padding', repeat('x', 220)))`, fmt.Sprint("k-", n), n); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	arrived := map[string]time.Time{}
	again := 0
	ctx, cancel := context.WithTimeout(b.Context(), 5*time.Minute)
	defer cancel()
	for len(arrived) < b.N {
		consumer.PollFetches(ctx).EachRecord(func(record *kgo.Record) {
			for _, h := range record.Headers {
				if h.Key != "idempotency-key" {
					continue
				}
				if _, ok := arrived[string(h.Value)]; ok {
					again++
				} else {
					arrived[string(h.Value)] = time.Now()
				}
			}
		})
		require.NoError(b, ctx.Err(), p.Log.String())
	}
	writing.Wait()
	b.StopTimer()
	ages := make([]time.Duration, b.N)
	for n, at := range written {
		ages[n] = arrived[fmt.Sprint("k-", n)].Sub(at)
	}
	slices.Sort(ages)
	b.ReportMetric(float64(ages[b.N/2].Milliseconds()), "median-ms")
	b.ReportMetric(float64(ages[b.N*95/100].Milliseconds()), "p95-ms")
	b.ReportMetric(float64(ages[b.N*99/100].Milliseconds()), "p99-ms")
	b.ReportMetric(float64(again), "duplicates")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
	b.ReportMetric(100*e2etest.CPUSeconds(b, p.Cmd.Process.Pid)/b.Elapsed().Seconds(), "cpu-percent")
	p.Kill()
}
