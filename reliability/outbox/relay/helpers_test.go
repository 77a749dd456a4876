package relay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sloengine/sloengine/ingest/source/kafka/kafkatest"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/outbox"
	"github.com/sloengine/sloengine/reliability/postgres"
	"github.com/sloengine/sloengine/reliability/postgres/postgrestest"
	"github.com/sloengine/sloengine/reliability/retry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(kafkatest.Main(postgrestest.Main(m))) }

// soon bounds the time on a busy machine.
const soon = testkit.Patience

// fakeBroker takes messages in memory.
type fakeBroker struct {
	mu   sync.Mutex
	sent []*Message
	// outcome, if not nil, decides about a message. It may block.
	outcome func(ctx context.Context, m *Message) Outcome
	down    error // of Check
	max     int
}

func (b *fakeBroker) Publish(ctx context.Context, batch []*Message) []Outcome {
	b.mu.Lock()
	decide := b.outcome
	b.mu.Unlock()
	outcomes := make([]Outcome, len(batch))
	failed := map[string]bool{}
	for i, m := range batch {
		if failed[m.Key] {
			outcomes[i].Skipped = true
			continue
		}
		if decide != nil {
			outcomes[i] = decide(ctx, m)
		}
		if failed[m.Key] = outcomes[i].Err != nil; outcomes[i].Err == nil {
			b.mu.Lock()
			b.sent = append(b.sent, m)
			b.mu.Unlock()
		}
	}
	return outcomes
}

func (b *fakeBroker) Check(context.Context) error { b.mu.Lock(); defer b.mu.Unlock(); return b.down }
func (b *fakeBroker) MaxBytes() int               { return b.max }
func (b *fakeBroker) Close() error                { return nil }

// set changes how the broker behaves.
func (b *fakeBroker) set(f func(b *fakeBroker)) { b.mu.Lock(); defer b.mu.Unlock(); f(b) }

// keys are the idempotency keys of the accepted messages of a topic, in order.
func (b *fakeBroker) keys(topic string) (list []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range b.sent {
		if m.Topic == topic {
			list = append(list, m.IdempotencyKey)
		}
	}
	return list
}

// fixture is a database with a table, and a broker.
type fixture struct {
	t      *testing.T
	server *postgrestest.Server
	db     string
	pool   *postgres.Pool
	table  *outbox.Table
	broker *fakeBroker
	claim  string // of its relays
}

// eachWay runs a test for both ways to claim rows.
func eachWay(t *testing.T, test func(t *testing.T, f *fixture)) {
	t.Run(Lease, func(t *testing.T) { test(t, newFixture(t, outbox.Options{}, outbox.Layout{})) })
	t.Run(Optimistic, func(t *testing.T) { test(t, newOptimistic(t)) })
}

// newOptimistic is a table whose rows are claimed by their version.
func newOptimistic(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(t, outbox.Options{Columns: map[string]string{"version": "version", "processing_instance": "instance",
		"locked_at": "locked_at"}}, outbox.Layout{})
	f.claim = Optimistic
	return f
}

// newFixture migrates a database, after statements that others have executed.
func newFixture(t *testing.T, o outbox.Options, l outbox.Layout, before ...string) *fixture {
	t.Helper()
	f := &fixture{t: t, server: postgrestest.Shared(t), broker: &fakeBroker{max: 1 << 20}}
	f.db = f.server.Database(t)
	var err error
	f.table, err = outbox.New(o)
	require.NoError(t, err)
	f.pool = f.open()
	for _, sql := range before {
		f.exec(sql)
	}
	require.NoError(t, outbox.Migrate(t.Context(), f.server.Conn(t, f.db), f.table, l, func(outbox.Step) {}))
	return f
}

func (f *fixture) open() *postgres.Pool {
	file := f.t.TempDir() + "/dsn"
	writeFile(f.t, file, f.server.DSN(f.db))
	p, err := postgres.Open(postgres.Options{DSNFile: file, MaxConnections: 4})
	require.NoError(f.t, err)
	f.t.Cleanup(p.Close)
	return p
}

func (f *fixture) exec(sql string, args ...any) {
	f.t.Helper()
	_, err := f.pool.Exec(context.Background(), sql, args...)
	require.NoError(f.t, err, sql)
}

func value[T any](f *fixture, sql string, args ...any) (v T) {
	f.t.Helper()
	require.NoError(f.t, f.pool.QueryRow(context.Background(), sql, args...).Scan(&v), sql)
	return v
}

// write adds rows with the ids from, from+1, .. and the given key.
func (f *fixture) write(key string, from, n int) {
	f.t.Helper()
	f.exec(`INSERT INTO outbox (idempotency_key, aggregate_type, aggregate_id, event_type, topic, key, payload, headers)
		SELECT $1::text || '-' || n, 'order', $1, 'created', 'orders', $1, json_build_object('n', n),
			'{"traceparent": "00-abc-def-01"}' FROM generate_series($2::int, $3::int) n`, key, from, from+n-1)
}

func (f *fixture) statuses() map[string]int {
	f.t.Helper()
	rows, err := f.pool.Query(
		context.Background(), "SELECT status, count(*)::int FROM "+f.table.Name.String()+" GROUP BY status")
	require.NoError(f.t, err)
	defer rows.Close()
	got := map[string]int{}
	for rows.Next() {
		var s string
		var n int
		require.NoError(f.t, rows.Scan(&s, &n))
		got[s] = n
	}
	return got
}

// completed waits until n rows are.
func (f *fixture) completed(n int) {
	f.t.Helper()
	require.Eventually(f.t, func() bool {
		return f.statuses()[outbox.Completed] == n
	}, soon, 10*time.Millisecond, "want %d", n)
}

// running is a relay that runs.
type running struct {
	*Relay
	set  *metrics.Set
	log  *testkit.Buffer
	stop func()
}

// relay starts a relay with short times.
func (f *fixture) relay(change func(o *Options)) *running {
	f.t.Helper()
	r := &running{set: metrics.NewSet(), log: &testkit.Buffer{}}
	o := Options{
		Claim: f.claim, Database: f.pool, Table: f.table, Publisher: f.broker, Metrics: NewMetrics(r.set, "kafka"),
		Log:   slog.New(slog.NewTextHandler(r.log, nil)),
		Lease: 3 * time.Second, SendTimeout: 1500 * time.Millisecond, Poll: 50 * time.Millisecond,
		Retry: retry.Options{Base: 20 * time.Millisecond, Cap: 100 * time.Millisecond},
	}
	if change != nil {
		change(&o)
	}
	var err error
	r.Relay, err = New(o)
	require.NoError(f.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = r.Run(ctx) }()
	r.stop = sync.OnceFunc(func() { cancel(); <-done })
	f.t.Cleanup(r.stop)
	return r
}

// metric is the value of a series, 0 if it is not there.
func (r *running) metric(series string) float64 {
	var b bytes.Buffer
	r.set.WritePrometheus(&b)
	for line := range strings.Lines(b.String()) {
		if rest, ok := strings.CutPrefix(line, series+" "); ok {
			var v float64
			_, _ = fmt.Sscan(rest, &v)
			return v
		}
	}
	return 0
}

// inOrder fails unless the numbers of each key ascend; later duplicates of a row do not count.
func inOrder(t *testing.T, keys []string) {
	t.Helper()
	last, seen := map[string]int{}, map[string]bool{}
	for _, id := range keys {
		if seen[id] {
			continue
		}
		seen[id] = true
		at := strings.LastIndexByte(id, '-')
		var n int
		_, err := fmt.Sscan(id[at+1:], &n)
		require.NoError(t, err)
		require.Greater(t, n, last[id[:at]], "%s came too late", id)
		last[id[:at]] = n
	}
}

var (
	errRow    = errors.New("the row is poison")
	errBroker = retry.WithClass(errors.New("connection refused"), retry.ClassTransient)
)
