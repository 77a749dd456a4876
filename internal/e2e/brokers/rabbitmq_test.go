package brokers

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/ingest/source/rabbitmq/rabbitmqtest"
	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
)

var rabbitFaults = flag.Int("rabbitmq.faults", 9, "faults of the set checker of the RabbitMQ source, 3 with -short")

const rabbitSpec = `version: sloengine/v1
service: executor
types: [echo%s]
slos:
  - name: executions
    objective: 99
    window: 1d
    alerting: {tiers: [{severity: page, long: 5m, short: 1m, budget: 0.1}]} # fires within seconds
    indicator:
      events: {valid: '{type=~"echo|late"}', bad: '{outcome="failure",error_type="queue_ttl_expired"}'}
`

// rabbitConnection are the settings of a connection as Alice, in a folder that has her password.
func rabbitConnection(t testing.TB, dir, address string) string {
	e2etest.WriteFile(t, dir, "rabbit.password", rabbitmqtest.AlicePassword)
	return fmt.Sprintf(`url: "amqp://%s", username: %s, password_file: rabbit.password`, address, rabbitmqtest.Alice)
}

// eventuallyTrue waits on a busy machine.
func eventuallyTrue(t testing.TB, p *e2etest.Process, what string, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, testkit.Patience, 20*time.Millisecond, "%s\n%s", what, p.Log)
}

// rabbitMetric is the sum of the samples of a family that have the given label values.
func rabbitMetric(t testing.TB, p *e2etest.Process, name string, labels ...string) (total float64) {
	t.Helper()
next:
	for _, m := range e2etest.Scrape(t, p)[name].GetMetric() {
		for i := 0; i < len(labels); i += 2 {
			found := false
			for _, l := range m.Label {
				found = found || l.GetName() == labels[i] && l.GetValue() == labels[i+1]
			}
			if !found {
				continue next
			}
		}
		total += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
	}
	return total
}

// handledWithin is how many messages of the dead-letter queue were handled within some seconds of dead-lettering.
func handledWithin(t testing.TB, p *e2etest.Process, seconds float64) int {
	t.Helper()
	for _, b := range e2etest.Scrape(
		t, p)["sloengine_rabbitmq_dead_letter_age_seconds"].GetMetric()[0].GetHistogram().GetBucket() {
		if b.GetUpperBound() == seconds {
			return int(b.GetCumulativeCount())
		}
	}
	t.Fatal("the metric has no such bucket")
	return 0
}

// TestRabbitMQWorkerStops is the way of an execution whose worker is down: its message expires, the handler makes a
// failure of it, the budget burns and the alert fires. What comes again, from the worker or by a replay, does not count
// again.
func TestRabbitMQWorkerStops(t *testing.T) {
	t.Parallel()
	node := rabbitmqtest.Start(t, rabbitmqtest.Options{})
	dir := t.TempDir()
	own, err := os.ReadFile("../../../testdata/specs/sloengine.yaml")
	require.NoError(t, err)
	specFile := e2etest.WriteFile(t, dir, "spec.yaml", fmt.Sprintf(rabbitSpec, "")+"---\n"+string(own))
	settings := fmt.Sprintf(`evaluator: {interval: 200ms}
sources:
  - name: workers
    map: {service: executor, type: .payload.kind, id: .payload.execution_id, attributes: {action: .payload.action_ref}}
    rabbitmq_dead_letters: {%s, exchange: attune.dlx, queue: attune.dlx.queue, declare: true, severity: critical,
      work_queues: [{name: worker.1.executions, ttl: 1s}]}
`, rabbitConnection(t, dir, node.Address))
	p := e2etest.Serve(t, dir, specFile, settings)
	ch := node.Channel(t, "/")
	require.NoError(t, ch.Confirm(false))
	execute := func(id, kind string) amqp.Publishing {
		return amqp.Publishing{DeliveryMode: amqp.Persistent, MessageId: "m-" + id, Body: fmt.Appendf(nil,
			`{"message_type":"ExecutionRequested","payload":{"execution_id":%q,"kind":%q,"action_ref":"core.echo"}}`, id, kind)}
	}
	publish := func(queue string, m amqp.Publishing) {
		t.Helper()
		c, err := ch.PublishWithDeferredConfirm("", queue, true, false, m)
		require.NoError(t, err)
		require.True(t, c.Wait(), node.Log())
	}
	other, err := amqp.Dial(node.URL("/"))
	require.NoError(t, err)
	defer other.Close()
	eventuallyTrue(t, p, "the work queue is declared", func() bool {
		c, err := other.Channel()
		require.NoError(t, err)
		_, err = c.QueueDeclarePassive("worker.1.executions", true, false, false, false, nil)
		return err == nil
	})
	report := func(id, outcome string) {
		t.Helper()
		body := fmt.Sprintf(`{"id":%q,"service":"executor","type":"echo","outcome":%q}`, id, outcome)
		res, err := http.Post(p.Base+"/api/v1/events", "application/json", bytes.NewReader([]byte(body)))
		require.NoError(t, err)
		res.Body.Close()
		require.Equal(t, http.StatusAccepted, res.StatusCode)
	}

	// The worker is well: it takes the messages and reports.
	worker := node.Channel(t, "/")
	deliveries, err := worker.Consume("worker.1.executions", "worker", true, false, false, false, nil)
	require.NoError(t, err)
	const well, round = 30, 20
	for i := range well {
		publish("worker.1.executions", execute(fmt.Sprint("ok-", i), "echo"))
		<-deliveries
		report(fmt.Sprint("ok-", i), "success")
	}
	eventuallyTrue(t, p, "the successes are counted", func() bool { return e2etest.Counted(t, p, "executions") == well })
	require.Zero(t, rabbitMetric(t, p, "sloengine_rabbitmq_dead_letters_handled_total"))

	// It stops, and its messages expire. They are failures within a second of dead-lettering, which the broker states in
	// whole seconds, so they expire at the beginning of one. On a busy machine that may take a second try.
	require.NoError(t, worker.Cancel("worker", false))
	down, quick := 0, 0
	for try := 0; quick < round && try < 5; try++ {
		before := handledWithin(t, p, 1)
		testkit.Pause(time.Until(time.Now().Truncate(time.Second).Add(time.Second)))
		for range round {
			publish("worker.1.executions", execute(fmt.Sprint("lost-", down), "echo"))
			down++
		}
		eventuallyTrue(t, p, "the failures are counted", func() bool {
			return rabbitMetric(t, p, "sloengine_rabbitmq_dead_letters_total", "type", "echo", "reason", "expired", "outcome",
				"failure") == float64(down)
		})
		quick = handledWithin(t, p, 1) - before
	}
	t.Logf("%d of the last %d messages that expired were failures within a second", quick, round)
	require.Equal(t, round, quick)
	eventuallyTrue(t, p, "the failures burn the budget", func() bool {
		return rabbitMetric(t, p, "slo_events_total", "slo", "executions", "result", "bad") == float64(down)
	})
	eventuallyTrue(t, p, "the alert fires", func() bool {
		return strings.Contains(
			p.Log.String(), "msg=alert name=ErrorBudgetBurnPage from=pending to=firing slo=executor/executions")
	})

	// The worker comes back and reports an execution that counts as a failure already, and a message is delivered again.
	report("lost-0", "success")
	again := execute("lost-1", "echo")
	again.Headers = amqp.Table{"x-death": []any{
		amqp.Table{"queue": "worker.1.executions", "reason": "expired", "count": int64(1), "time": time.Now()}}}
	publish("attune.dlx.queue", again)
	eventuallyTrue(t, p, "the second failure is a duplicate", func() bool {
		return rabbitMetric(t, p, "sloengine_rabbitmq_dead_letters_total", "outcome", "duplicate") == 1
	})
	// One of a type that the spec does not have becomes a dead letter. Once the spec has it, a replay counts it, once.
	late := execute("late-1", "late")
	late.Headers = again.Headers
	publish("attune.dlx.queue", late)
	eventuallyTrue(t, p, "the unknown type is a dead letter", func() bool { return e2etest.DeadLetterCount(t, p) == 1 })
	e2etest.WriteFile(t, dir, "spec.yaml", fmt.Sprintf(rabbitSpec, ", late")+"---\n"+string(own))
	res, err := http.Post(p.Base+"/-/reload", "", nil)
	require.NoError(t, err)
	res.Body.Close()
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.Equal(t, 1, e2etest.ReplayAll(t, p))
	publish("attune.dlx.queue", late)
	eventuallyTrue(t, p, "it is a duplicate after the replay", func() bool {
		return rabbitMetric(t, p, "sloengine_rabbitmq_dead_letters_total", "outcome", "duplicate") == 2
	})
	eventuallyTrue(t, p, "all are counted once", func() bool { return e2etest.Counted(t, p, "executions") == well+down+1 })
	require.EqualValues(t, down+1, rabbitMetric(t, p, "slo_events_total", "slo", "executions", "result", "bad")+
		rabbitMetric(t, p, "slo_backfilled_events_total", "slo", "executions", "result", "bad"))

	eventuallyTrue(t, p, "the engine's own objectives count what came over HTTP and from the queue", func() bool {
		return e2etest.OwnSLOs(t, p)["event-loss"].Good == well+down
	})

	// The commands see what the engine sees.
	c := func(want int, args ...string) string {
		t.Helper()
		out, errs, code := e2etest.Command(t, append([]string{"rabbitmq"}, args...)...)
		require.Equal(t, want, code, out+errs)
		return out + errs
	}
	config := dir + "/engine.yaml"
	shown := c(cli.ExitOK, "show", "-c", config)
	require.Contains(t, shown, "message-ttl=86400000")
	require.Contains(t, shown, "attune.dlx.queue")
	require.Contains(t, c(cli.ExitUsage, "purge", "-c", config), "add --yes")
	p.Stop(t)
	publish("attune.dlx.queue", again)
	require.Contains(t, c(cli.ExitOK, "peek", "-c", config), "expired")
	require.Contains(t, c(cli.ExitOK, "peek", "-c", config, "-o", "json"), `"deaths"`)
	purged := c(cli.ExitOK, "purge", "-c", config, "--yes")
	require.Contains(t, purged, "purged 1 from queue attune.dlx.queue")
	require.Contains(t, purged, "msg=audit action=rabbitmq.purge")
	require.Contains(t, c(cli.ExitOK, "peek", "-c", config), "no messages")
	require.Contains(t, c(cli.ExitFailure, "peek", "-c", config, "--queue", "nowhere"), "does not exist")
	e2etest.WriteFile(t, dir, "engine.yaml", strings.Replace(settings, "ttl: 1s", "ttl: 7m", 1))
	require.Contains(t, c(cli.ExitFindings, "show", "-c", config),
		"queue worker.1.executions has x-message-ttl 1000, but the settings want 420000")
}

// published is what the broker confirmed, outside of the engine.
type published struct {
	mu        sync.Mutex
	confirmed map[string]bool
	sent      map[string]bool
	next      int
	most      int // of next: every message is a series, so a run that takes long must not have more of them
}

// more allows for further messages.
func (b *published) more(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.most = b.next + n
}

// full reports whether all messages that are allowed were sent.
func (b *published) full() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.next >= b.most
}

// load publishes until ctx ends, and connects again whenever the broker is gone.
func (b *published) load(ctx context.Context, url, queue string) {
	for ctx.Err() == nil {
		conn, err := amqp.DialConfig(url, amqp.Config{Dial: amqp.DefaultDial(2 * time.Second)})
		if err != nil {
			testkit.Pause(50 * time.Millisecond)
			continue
		}
		b.publish(ctx, conn, queue)
		_ = conn.Close()
	}
}

func (b *published) publish(ctx context.Context, conn *amqp.Connection, queue string) {
	ch, err := conn.Channel()
	if err != nil || ch.Confirm(false) != nil {
		return
	}
	for ctx.Err() == nil && !conn.IsClosed() {
		if b.full() {
			testkit.Pause(5 * time.Millisecond)
			continue
		}
		type pending struct {
			uid string
			c   *amqp.DeferredConfirmation
		}
		var batch []pending
		for range 20 {
			b.mu.Lock()
			b.next++
			uid, id := fmt.Sprintf("i%06d", b.next), ""
			if b.next%2 == 0 {
				uid = fmt.Sprintf("n%06d", b.next) // without an id
			} else {
				id = fmt.Sprintf(`"id":%q,`, uid)
			}
			b.sent[uid] = true
			b.mu.Unlock()
			c, err := ch.PublishWithDeferredConfirm("", queue, true, false, amqp.Publishing{DeliveryMode: amqp.Persistent,
				Body: fmt.Appendf(nil, `{%s"service":"crash","type":"t","attributes":{"uid":%q}}`, id, uid)})
			if err != nil {
				return
			}
			batch = append(batch, pending{uid, c})
		}
		wait, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		for _, x := range batch {
			if ok, err := x.c.WaitContext(wait); err == nil && ok && !conn.IsClosed() {
				b.mu.Lock()
				b.confirmed[x.uid] = true
				b.mu.Unlock()
			}
		}
		cancel()
		if conn.IsClosed() {
			return
		}
		testkit.Pause(100 * time.Millisecond)
	}
}

// TestRabbitMQSetChecker kills the engine and the broker and cuts the network, under load. Each message that the broker
// confirmed is counted: once by its id, and without an id at least once, twice only if the broker delivered it again.
func TestRabbitMQSetChecker(t *testing.T) {
	t.Parallel()
	faults := *rabbitFaults
	if testing.Short() {
		faults = 3
	}
	seed := uint64(time.Now().UnixNano())
	rnd := rand.New(rand.NewPCG(seed, 1))
	t.Logf("seed %d", seed)
	node := rabbitmqtest.Start(t, rabbitmqtest.Options{Proxied: true})
	dir := t.TempDir()
	specFile := e2etest.WriteFile(t, dir, "spec.yaml", e2etest.CrashSpec)
	settings := e2etest.CrashSettings +
		fmt.Sprintf(
			"sources: [{name: queue, rabbitmq: {%s, heartbeat: 1s, connect_timeout: 2s, queue: events, declare: true, "+
				"prefetch: 100}}]\n",
			rabbitConnection(t, dir, node.Proxy.Address))
	b := &published{confirmed: map[string]bool{}, sent: map[string]bool{}}
	queue := node.Channel(t, "/")
	_, err := queue.QueueDeclare("events", true, false, false, false, amqp.Table{"x-queue-type": "quorum"})
	require.NoError(t, err)
	node.AwaitQuorumQueue(t, "/", "events")
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { b.load(ctx, node.URL("/"), "events") })
	stopped := false
	defer func() {
		if !stopped {
			stop()
			wg.Wait()
		}
	}()
	p := e2etest.Serve(t, dir, specFile, settings)
	done := map[string]int{}
	redelivered := 0.0
	var order []int // each fault once in three
	for range faults {
		if len(order) == 0 {
			order = rnd.Perm(3)
		}
		before := rabbitMetric(t, p, "sloengine_source_messages_total")
		b.more(200)
		eventuallyTrue(t, p, "messages flow", func() bool {
			return rabbitMetric(t, p, "sloengine_source_messages_total") > before
		})
		testkit.Pause(time.Duration(rnd.IntN(200)) * time.Millisecond) // the moment of the fault is random
		fault := order[0]
		order = order[1:]
		switch fault {
		case 0:
			redelivered += rabbitMetric(t, p, "sloengine_rabbitmq_redelivered_total")
			p.Kill()
			done["engine"]++
			p = e2etest.Serve(t, dir, specFile, settings)
		case 1:
			node.Proxy.Cut()
			testkit.Pause(time.Duration(rnd.IntN(300)) * time.Millisecond)
			node.Proxy.Restore()
			done["network"]++
		default:
			node.Kill()
			node.Restart(t)
			done["broker"]++
		}
	}
	stop()
	wg.Wait()
	stopped = true
	left := node.Channel(t, "/")
	eventuallyTrue(t, p, "the queue is empty and all is counted", func() bool {
		q, err := left.QueueDeclarePassive("events", true, false, false, false, nil)
		require.NoError(t, err)
		return q.Messages == 0 && rabbitMetric(t, p, "sloengine_fold_lag_records") == 0 &&
			len(e2etest.CountsByID(t, p)) >= len(b.confirmed)
	})
	redelivered += rabbitMetric(t, p, "sloengine_rabbitmq_redelivered_total")
	counts := e2etest.CountsByID(t, p)
	lost, twiceByID, doubles := 0, 0, 0
	for uid := range b.confirmed {
		if counts[uid] == 0 {
			lost++
			t.Errorf("%s was confirmed and is not counted", uid)
		}
	}
	for uid, n := range counts {
		require.True(t, b.sent[uid], "%s was never sent", uid)
		switch {
		case n > 1 && uid[0] == 'i':
			twiceByID++
			t.Errorf("%s is counted %v times", uid, n)
		case n > 1:
			doubles += int(n) - 1
		}
	}
	t.Logf(
		"seed %d; faults %v; confirmed %d, counted %d; lost %d, twice by id %d, twice without id %d, delivered again %.0f",
		seed, done, len(b.confirmed), len(counts), lost, twiceByID, doubles, redelivered)
	p.Stop(t)
}
