package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	writer "github.com/sloengine/sloengine/client/outbox"
	"github.com/sloengine/sloengine/ingest/source/kafka/kafkatest"
	"github.com/sloengine/sloengine/reliability/outbox"
	"github.com/sloengine/sloengine/reliability/postgres/postgrestest"
)

var relayCycles = flag.Int("relay.cycles", 6, "faults of the set checker of the relay")

// relaySettings are those of a relay with short times: lease, database, brokers.
const relaySettings = `database: {dsn_file: %q}
lease: 4s
send_timeout: 2s
poll: 100ms
retry: {base: 50ms, cap: 500ms}
max_attempts: 1000
breaker: {consecutive: {failures: 3, open: 500ms, probes: 1}, probe_timeout: 2s, health_interval: 200ms}
kafka: {brokers: [%q], request_timeout: 900ms, delivery_timeout: 1s, backoff: 50ms, linger: 2ms}
`

// TestRelaySetChecker writes events into an outbox table while three relays publish it, and the relays, PostgreSQL and Kafka
// are killed, stopped and cut off at random moments. The table is the oracle: each committed row is in the topic, in order
// of its key, and is counted once by an engine that reads the topic, whatever was sent twice.
func TestRelaySetChecker(t *testing.T) {
	t.Parallel()
	db := postgrestest.Start(t, postgrestest.Options{Proxied: true, Settings: []string{"fsync = off"}})
	cluster := kafkatest.Start(t, kafkatest.Options{Proxied: true})
	cluster.CreateTopic(t, "orders", 5, nil)
	name := db.Database(t)
	table, err := outbox.New(outbox.Options{})
	require.NoError(t, err)
	conn := db.Conn(t, name)
	require.NoError(t, outbox.Migrate(t.Context(), conn, table, outbox.Layout{}, func(outbox.Step) {}))
	require.NoError(t, conn.Close(t.Context()))
	seed := uint64(time.Now().UnixNano())
	rnd := rand.New(rand.NewPCG(seed, 1))
	t.Logf("seed %d", seed)

	dir := t.TempDir()
	settings := writeFile(t, dir, "relay.yaml", fmt.Sprintf(relaySettings, writeFile(t, dir, "dsn", db.ProxiedDSN(name)), cluster.ProxiedBrokers()[0]))
	engine, ok := serveIn(t, dir, writeFile(t, dir, "spec.yaml", crashSpec), crashSettings+fmt.Sprintf(`sources: [{name: orders, backfill: never, kafka: {brokers: [%q], topics: [orders], refresh: 200ms, backoff: 50ms, fetch: {min_bytes: 1, max_wait: 20ms}}}]
`, cluster.Brokers()[0]))
	require.True(t, ok, engine.log.String())
	relay := func() *process {
		p, ok := start(t, nil, "relay", "-f", settings, "--web.listen-address", "127.0.0.1:0")
		require.True(t, ok, p.log.String())
		return p
	}
	relays := []*process{relay(), relay(), relay()}
	written := writeOutbox(t, db.DSN(name))

	faults := map[string]int{}
	for range *relayCycles {
		time.Sleep(time.Duration(rnd.IntN(1000)) * time.Millisecond)
		i := rnd.IntN(len(relays))
		switch n := rnd.IntN(10); {
		case n < 3:
			faults["relay killed"]++
			relays[i].kill()
			requireKilled(t, relays[i])
			relays[i] = relay()
		case n < 4:
			faults["rolling restart"]++
			for i := range relays {
				began := time.Now()
				relays[i].stop(t)
				require.Less(t, time.Since(began), 15*time.Second)
				relays[i] = relay()
			}
		case n < 5:
			faults["relay paused"]++
			require.NoError(t, relays[i].cmd.Process.Signal(syscall.SIGSTOP))
			time.Sleep(5 * time.Second) // the lease is a second shorter
			require.NoError(t, relays[i].cmd.Process.Signal(syscall.SIGCONT))
		case n < 6:
			faults["postgres killed"]++
			db.Kill()
			db.Restart(t)
		case n < 7:
			faults["postgres cut off"]++
			db.Proxy.Cut()
			time.Sleep(time.Duration(rnd.IntN(1000)) * time.Millisecond)
			db.Proxy.Restore()
		case n < 8:
			faults["kafka cut off"]++
			cluster.Proxies[0].Cut()
			time.Sleep(time.Duration(rnd.IntN(1000)) * time.Millisecond)
			cluster.Proxies[0].Restore()
		default:
			faults["kafka killed"]++
			cluster.Kill(0)
			cluster.Restart(t, 0)
		}
	}
	written.stop()
	conn = db.Conn(t, name)
	count := func(where string) (n int) {
		require.NoError(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM outbox WHERE "+where).Scan(&n))
		return n
	}
	require.Equal(t, written.saved, count("true"), "commits survive a server that is killed")
	require.Eventually(t, func() bool { return count("status = 'COMPLETED'") == written.saved }, 2*time.Minute, 100*time.Millisecond,
		"%s\n%s\n%s", relays[0].log, relays[1].log, relays[2].log)

	sent, last := map[string]int{}, map[string]int{}
	reordered := 0
	for _, r := range cluster.Records(t, "orders") {
		id := ""
		for _, h := range r.Headers {
			if h.Key == "idempotency-key" {
				id = string(h.Value)
			}
		}
		if sent[id]++; sent[id] > 1 {
			continue
		}
		var n int
		_, err := fmt.Sscan(id[strings.LastIndexByte(id, '-')+1:], &n)
		require.NoError(t, err)
		if n < last[string(r.Key)] {
			reordered++
		}
		last[string(r.Key)] = n
	}
	onWire := -len(sent)
	for _, n := range sent {
		onWire += n
	}
	var counts map[string]float64
	require.Eventually(t, func() bool { counts = countsByID(t, engine); return len(counts) >= written.saved }, 2*time.Minute, 250*time.Millisecond, engine.log)
	twice := 0
	for _, n := range counts {
		if n != 1 {
			twice++
		}
	}
	t.Logf("faults %v; rows %d; lost %d; duplicates in the topic %d; out of order %d; counted twice %d", faults, written.saved, written.saved-len(sent), onWire, reordered, twice)
	require.Equal(t, written.saved, len(sent), "lost or invented")
	require.Zero(t, reordered)
	require.Equal(t, written.saved, len(counts))
	require.Zero(t, twice)
	for _, p := range relays {
		p.stop(t)
	}
}

// outboxWriting writes events until stop.
type outboxWriting struct {
	stop  func()
	saved int // after stop
}

// writeOutbox saves events, those of a key one after the other. Whether a transaction was committed whose answer is lost does
// not matter, since it is repeated with the same id.
func writeOutbox(t *testing.T, dsn string) *outboxWriting {
	t.Helper()
	w, err := writer.New(writer.Options{})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	out := &outboxWriting{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for k := range 6 {
		wg.Go(func() {
			var conn *pgx.Conn
			save := func(id string) error {
				if conn == nil || conn.IsClosed() {
					var err error
					if conn, err = pgx.Connect(context.Background(), dsn); err != nil {
						conn = nil
						return err
					}
				}
				return pgx.BeginFunc(context.Background(), conn, func(tx pgx.Tx) error {
					_, err := w.Save(context.Background(), tx, writer.Event{
						ID: id, Type: "t", Topic: "orders", Key: fmt.Sprint("key-", k), AggregateType: "order", AggregateID: fmt.Sprint(k),
						Payload: fmt.Appendf(nil, `{"id":%q,"service":"crash","type":"t","attributes":{"uid":%q}}`, id, id),
					})
					return err
				})
			}
			for n := 1; ctx.Err() == nil && n < crashIDs/10; n++ {
				for save(fmt.Sprintf("e-%d-%d", k, n)) != nil {
					if conn != nil {
						_ = conn.Close(context.Background())
					}
					time.Sleep(20 * time.Millisecond)
				}
				mu.Lock()
				out.saved++
				mu.Unlock()
				time.Sleep(5 * time.Millisecond)
			}
			if conn != nil {
				_ = conn.Close(context.Background())
			}
		})
	}
	out.stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(out.stop)
	return out
}
