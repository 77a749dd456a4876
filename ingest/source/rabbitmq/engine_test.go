package rabbitmq

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
	"github.com/zeebo/xxh3"

	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/source"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/reliability/ratelimit"
)

// fakeEngine remembers events and knows duplicates by their key, as the engine does.
type fakeEngine struct {
	mu     sync.Mutex
	events []event.Event
	known  map[xxh3.Uint128]bool
	kept   []dlq.Entry
	store  dlq.Store // instead of kept, if it is not nil
	busy   bool
}

func (e *fakeEngine) AdmitAt(ctx context.Context, b *event.Batch, _ *ratelimit.Tickets, _ []int32,
	_ engine.Position) (engine.Result, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.busy {
		return engine.Result{}, &engine.UnavailableError{Code: "overload", Detail: "busy", RetryAfter: 10 * time.Millisecond}
	}
	var r engine.Result
	for i := range b.Events {
		item := &b.Events[i]
		if item.HasKey && e.known[item.Key] {
			r.Duplicates++
			r.DupIndexes = append(r.DupIndexes, item.Index)
			continue
		}
		e.known[item.Key] = true
		var v event.View
		if _, err := v.Parse(b.Event(i)); err != nil {
			return r, err
		}
		r.Accepted++
		var one event.Event
		v.Event(&one)
		e.events = append(e.events, one)
	}
	return r, nil
}

func (e *fakeEngine) save(ctx context.Context, entries []dlq.Entry) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.store != nil {
		return e.store.Save(ctx, entries)
	}
	e.kept = append(e.kept, entries...)
	return nil
}

func (e *fakeEngine) setBusy(busy bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.busy = busy
}

func (e *fakeEngine) all() []event.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.events)
}

func (e *fakeEngine) deadLetters() []dlq.Entry {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.kept)
}

// rig is a source or handler that runs against a broker.
type rig struct {
	*fakeEngine
	t      *testing.T
	conn   *amqp.Connection // the test's own
	intake *source.Intake
	set    *metrics.Set
	log    *testkit.Buffer
	parts  Parts
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{fakeEngine: &fakeEngine{known: map[xxh3.Uint128]bool{}}, t: t, conn: dial(t), set: metrics.NewSet(),
		log: &testkit.Buffer{}}
	var err error
	logger := slog.New(slog.NewTextHandler(r.log, nil))
	r.intake, err = source.New(
		source.Options{Name: "test", Settings: source.Defaults(), Engine: r.fakeEngine, Save: r.save, Logger: logger})
	require.NoError(t, err)
	r.parts = Parts{Name: "test", Intake: r.intake, Metrics: NewMetrics(r.set), Logger: logger}
	return r
}

// serve runs a consumer on a connection of its own until the test ends.
func (r *rig) serve(c *consumer) (conn *amqp.Connection, ended <-chan error) {
	r.t.Helper()
	conn = dial(r.t)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.serve(ctx, conn) }()
	stopped := make(chan struct{})
	out := make(chan error, 1)
	go func() { out <- <-done; close(stopped) }()
	r.t.Cleanup(func() { cancel(); <-stopped })
	return conn, out
}

func (r *rig) publish(queue string, p amqp.Publishing) {
	r.t.Helper()
	p.DeliveryMode = amqp.Persistent
	onChannel(r.t, r.conn, func(ch *amqp.Channel) error { return ch.Publish("", queue, true, false, p) })
}

func (r *rig) eventually(condition func() bool, what ...any) {
	r.t.Helper()
	require.Eventually(r.t, condition, testkit.Patience, 10*time.Millisecond, what...)
}

// messages is how many are ready in a queue.
func (r *rig) messages(queue string) int {
	n := -1
	refused, err := try(r.conn, func(ch *amqp.Channel) error {
		q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
		n = q.Messages
		return err
	})
	require.NoError(r.t, err)
	if refused != nil {
		return -1
	}
	return n
}

func (r *rig) metrics() string {
	var b strings.Builder
	r.set.WritePrometheus(&b)
	return b.String()
}

func contains(s, part string) bool { return strings.Contains(s, part) }
