package brokers

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	writer "github.com/sloengine/sloengine/client/outbox"
	"github.com/sloengine/sloengine/ingest/source/kafka/kafkatest"
	"github.com/sloengine/sloengine/ingest/source/rabbitmq/rabbitmqtest"
	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/nettest"
	"github.com/sloengine/sloengine/reliability/outbox"
	"github.com/sloengine/sloengine/reliability/outbox/relay"
	"github.com/sloengine/sloengine/reliability/postgres/postgrestest"
)

var relayCycles = flag.Int("relay.cycles", 4, "faults of the set checker of the relay")

// relaySettings are those of a relay with short times: lease and database. Its destination follows.
const relaySettings = `database: {dsn_file: %q}
lease: 4s
send_timeout: 2s
poll: 100ms
retry: {base: 50ms, cap: 500ms}
max_attempts: 1000
breaker: {consecutive: {failures: 3, open: 500ms, probes: 1}, probe_timeout: 2s, health_interval: 200ms}
`

// optimisticTable are the settings of a table whose rows are claimed by their version.
const optimisticTable = `claim: optimistic
table: {columns: {version: version, processing_instance: instance, locked_at: locked_at}}
`

// sentRow is a row as it was received, in the order of its key.
type sentRow struct{ id, key string }

// relayTarget is what relays publish to, and an engine that counts what arrives.
type relayTarget struct {
	settings string // of the relay
	engine   *e2etest.Process
	kill     func() // and start again
	cut      func(d time.Duration)
	pause    time.Duration    // between two rows of a key; 5 ms
	received func() []sentRow // by a consumer that is not the engine
}

func TestRelaySetCheckerKafka(t *testing.T) {
	t.Parallel()
	checkRelaySet(t, "", kafkaTarget(t))
}

func TestRelaySetCheckerOptimistic(t *testing.T) {
	t.Parallel()
	checkRelaySet(t, optimisticTable, kafkaTarget(t))
}

func TestRelaySetCheckerRabbitMQ(t *testing.T) {
	t.Parallel()
	checkRelaySet(t, "", rabbitMQTarget(t))
}

func TestRelaySetCheckerHTTP(t *testing.T) {
	t.Parallel()
	checkRelaySet(t, "", httpTarget(t))
}

func kafkaTarget(t *testing.T) *relayTarget {
	cluster := kafkatest.Start(t, kafkatest.Options{Proxied: true})
	cluster.CreateTopic(t, "orders", 5, nil)
	dir := t.TempDir()
	engine, ok := e2etest.ServeIn(t, dir, e2etest.WriteFile(t, dir, "spec.yaml", e2etest.CrashSpec),
		e2etest.CrashSettings+fmt.Sprintf(`sources: [{name: orders, backfill: never, kafka: {brokers: [%q], topics: [orders],
		    refresh: 200ms, backoff: 50ms, fetch: {min_bytes: 1, max_wait: 20ms}}}]
`, cluster.Brokers()[0]))
	require.True(t, ok, engine.Log.String())
	return &relayTarget{
		settings: fmt.Sprintf(
			"kafka: {brokers: [%q], request_timeout: 900ms, delivery_timeout: 1s, backoff: 50ms, linger: 2ms}\n",
			cluster.ProxiedBrokers()[0]),
		engine: engine,
		kill:   func() { cluster.Kill(0); cluster.Restart(t, 0) },
		cut: func(d time.Duration) {
			cluster.Proxies[0].Cut()
			testkit.Pause(d)
			cluster.Proxies[0].Restore()
		},
		received: func() (list []sentRow) {
			for _, r := range cluster.Records(t, "orders") {
				row := sentRow{key: string(r.Key)}
				for _, h := range r.Headers {
					if h.Key == "idempotency-key" {
						row.id = string(h.Value)
					}
				}
				list = append(list, row)
			}
			return list
		},
	}
}

// rabbitMQTarget has an exchange with a queue for the engine and one for the test.
func rabbitMQTarget(t *testing.T) *relayTarget {
	node := rabbitmqtest.Start(t, rabbitmqtest.Options{Proxied: true})
	ch := node.Channel(t, "/")
	require.NoError(t, ch.ExchangeDeclare("events", amqp.ExchangeTopic, true, false, false, false, nil))
	for _, queue := range []string{"engine", "test"} {
		_, err := ch.QueueDeclare(queue, true, false, false, false, nil)
		require.NoError(t, err)
		require.NoError(t, ch.QueueBind(queue, "orders", "events", false, nil))
	}
	dir := t.TempDir()
	engine, ok := e2etest.ServeIn(t, dir, e2etest.WriteFile(t, dir, "spec.yaml", e2etest.CrashSpec),
		e2etest.CrashSettings+fmt.Sprintf(
			"sources: [{name: queue, rabbitmq: {%s, heartbeat: 1s, connect_timeout: 2s, queue: engine, prefetch: 100}}]\n",
			rabbitConnection(t, dir, node.Address)))
	require.True(t, ok, engine.Log.String())
	return &relayTarget{
		settings: fmt.Sprintf("rabbitmq: {%s, exchange: events, confirm_timeout: 1s, connect_timeout: 2s, heartbeat: 1s}\n",
			relayRabbitConnection(t, node.Proxy.Address)),
		engine: engine,
		kill:   func() { node.Kill(); node.Restart(t) },
		pause:  25 * time.Millisecond, // each row waits for the confirmation of the row before it with its key
		cut: func(d time.Duration) {
			node.Proxy.Cut()
			testkit.Pause(d)
			node.Proxy.Restore()
		},
		received: func() (list []sentRow) {
			for _, d := range node.Drain(t, "test") {
				key, _ := d.Headers[relay.HeaderKey].(string)
				list = append(list, sentRow{d.MessageId, key})
			}
			return list
		},
	}
}

// relayRabbitConnection is that of settings in any folder.
func relayRabbitConnection(t testing.TB, address string) string {
	return fmt.Sprintf(`url: "amqp://%s", username: %s, password_file: %q`, address, rabbitmqtest.Alice,
		nettest.PasswordFile(t, rabbitmqtest.AlicePassword))
}

// httpTarget is a web service in front of an engine, which takes the rows as requests to its API.
func httpTarget(t *testing.T) *relayTarget {
	dir := t.TempDir()
	engine := e2etest.Serve(t, dir, e2etest.WriteFile(t, dir, "spec.yaml", e2etest.CrashSpec), e2etest.CrashSettings)
	var mu sync.Mutex
	var list []sentRow
	back, err := url.Parse(engine.Base)
	require.NoError(t, err)
	forward := httputil.NewSingleHostReverseProxy(back)
	forward.ErrorLog = log.New(io.Discard, "", 0)
	forward.ModifyResponse = func(r *http.Response) error {
		if r.StatusCode == http.StatusAccepted {
			mu.Lock()
			defer mu.Unlock()
			list = append(list, sentRow{r.Request.Header.Get("Idempotency-Key"), r.Request.Header.Get("Outbox-Key")})
		}
		return nil
	}
	server := httptest.NewServer(forward)
	t.Cleanup(server.Close)
	proxy := nettest.NewProxy(t, server.Listener.Addr().String())
	cut := func(d time.Duration) {
		proxy.Cut()
		testkit.Pause(d)
		proxy.Restore()
	}
	return &relayTarget{
		settings: fmt.Sprintf("http: {url: \"http://%s/api/v1/events\", request_timeout: 1s}\n", proxy.Address),
		engine:   engine,
		kill:     func() { server.CloseClientConnections(); cut(500 * time.Millisecond) },
		cut:      cut,
		received: func() []sentRow { mu.Lock(); defer mu.Unlock(); return list },
	}
}

// checkRelaySet writes events into an outbox table while three relays publish it, and the relays, PostgreSQL and the
// destination are killed, stopped and cut off at random moments. The table is the oracle: each committed row is
// received, in order of its key unless rows are claimed one by one, and is counted once by an engine, whatever was sent
// twice.
func checkRelaySet(t *testing.T, more string, to *relayTarget) {
	db := postgrestest.Start(t, postgrestest.Options{Proxied: true, Settings: []string{"fsync = off"}})
	name := db.Database(t)
	o := outbox.Options{}
	if more != "" {
		o.Columns = map[string]string{"version": "version", "processing_instance": "instance", "locked_at": "locked_at"}
	}
	table, err := outbox.New(o)
	require.NoError(t, err)
	conn := db.Conn(t, name)
	require.NoError(t, outbox.Migrate(t.Context(), conn, table, outbox.Layout{}, func(outbox.Step) {}))
	require.NoError(t, conn.Close(t.Context()))
	seed := uint64(time.Now().UnixNano())
	rnd := rand.New(rand.NewPCG(seed, 1))
	t.Logf("seed %d", seed)

	dir := t.TempDir()
	settings := e2etest.WriteFile(t, dir, "relay.yaml",
		fmt.Sprintf(relaySettings, e2etest.WriteFile(t, dir, "dsn", db.ProxiedDSN(name)))+more+to.settings)
	engine := to.engine
	relay := func() *e2etest.Process {
		p, ok := e2etest.Start(t, nil, "relay", "-f", settings, "--web.listen-address", "127.0.0.1:0")
		require.True(t, ok, p.Log.String())
		return p
	}
	relays := []*e2etest.Process{relay(), relay(), relay()}
	written := writeOutbox(t, db.DSN(name), cmp.Or(to.pause, 5*time.Millisecond))

	faults := map[string]int{}
	for range *relayCycles {
		testkit.Pause(time.Duration(rnd.IntN(1000)) * time.Millisecond)
		i := rnd.IntN(len(relays))
		switch n := rnd.IntN(10); {
		case n < 3:
			faults["relay killed"]++
			relays[i].Kill()
			e2etest.RequireKilled(t, relays[i])
			relays[i] = relay()
		case n < 4:
			faults["rolling restart"]++
			for i := range relays {
				began := time.Now()
				relays[i].Stop(t)
				require.Less(t, time.Since(began), 15*time.Second)
				relays[i] = relay()
			}
		case n < 5:
			faults["relay paused"]++
			require.NoError(t, relays[i].Cmd.Process.Signal(syscall.SIGSTOP))
			testkit.Pause(5 * time.Second) // the lease is a second shorter
			require.NoError(t, relays[i].Cmd.Process.Signal(syscall.SIGCONT))
		case n < 6:
			faults["postgres killed"]++
			db.Kill()
			db.Restart(t)
		case n < 7:
			faults["postgres cut off"]++
			db.Proxy.Cut()
			testkit.Pause(time.Duration(rnd.IntN(1000)) * time.Millisecond)
			db.Proxy.Restore()
		case n < 8:
			faults["destination cut off"]++
			to.cut(time.Duration(rnd.IntN(1000)) * time.Millisecond)
		default:
			faults["destination killed"]++
			to.kill()
		}
	}
	written.stop()
	conn = db.Conn(t, name)
	count := func(where string) (n int) {
		require.NoError(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM outbox WHERE "+where).Scan(&n))
		return n
	}
	require.Equal(t, written.saved, count("true"), "commits survive a server that is killed")
	require.Eventually(t, func() bool {
		return count("status = 'COMPLETED'") == written.saved
	}, 5*time.Minute, 100*time.Millisecond,
		"%s\n%s\n%s", relays[0].Log, relays[1].Log, relays[2].Log)

	sent, last := map[string]int{}, map[string]int{}
	reordered := 0
	for _, r := range to.received() {
		if sent[r.id]++; sent[r.id] > 1 {
			continue
		}
		var n int
		_, err := fmt.Sscan(r.id[strings.LastIndexByte(r.id, '-')+1:], &n)
		require.NoError(t, err)
		if n < last[r.key] {
			reordered++
		}
		last[r.key] = n
	}
	onWire := -len(sent)
	for _, n := range sent {
		onWire += n
	}
	var counts map[string]float64
	require.Eventually(t, func() bool {
		counts = e2etest.CountsByID(t, engine)
		return len(counts) >= written.saved
	}, testkit.Patience, 250*time.Millisecond, engine.Log)
	twice := 0
	for _, n := range counts {
		if n != 1 {
			twice++
		}
	}
	t.Logf("faults %v; rows %d; lost %d; duplicates received %d; out of order %d; counted twice %d", faults, written.saved,
		written.saved-len(sent), onWire, reordered, twice)
	require.Equal(t, written.saved, len(sent), "lost or invented")
	if more == "" {
		require.Zero(t, reordered)
	}
	require.Equal(t, written.saved, len(counts))
	require.Zero(t, twice)
	for _, p := range relays {
		p.Stop(t)
	}
}

// outboxWriting writes events until stop.
type outboxWriting struct {
	stop  func()
	saved int // after stop
}

// writeOutbox saves events, those of a key one after the other. Whether a transaction was committed whose answer is
// lost does not matter, since it is repeated with the same id.
func writeOutbox(t *testing.T, dsn string, pause time.Duration) *outboxWriting {
	t.Helper()
	w, err := writer.New(writer.Options{})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	out := &outboxWriting{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for k := range 6 {
		pause := pause
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
						ID: id, Type: "t", Topic: "orders", Key: fmt.Sprint("key-", k), AggregateType: "order",
						AggregateID: fmt.Sprint(k),
						Payload:     fmt.Appendf(nil, `{"id":%q,"service":"crash","type":"t","attributes":{"uid":%q}}`, id, id),
					})
					return err
				})
			}
			for n := 1; ctx.Err() == nil && n < e2etest.CrashIDs/10; n++ {
				for save(fmt.Sprintf("e-%d-%d", k, n)) != nil {
					if conn != nil {
						_ = conn.Close(context.Background())
					}
					testkit.Pause(20 * time.Millisecond)
				}
				mu.Lock()
				out.saved++
				mu.Unlock()
				if n == 300 {
					pause *= 40 // a broker that takes a minute to start again leaves no mountain of rows
				}
				testkit.Pause(pause)
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
