package rabbitmq

import (
	"fmt"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/mapping"
	"github.com/sloengine/sloengine/internal/testkit"
)

var executions = &mapping.Settings{
	Service: "executor", Type: ".payload.kind", ID: ".payload.execution_id", Severity: ".payload.severity",
	Attributes: map[string]string{"action": ".payload.action_ref"},
}

func (r *rig) handler(o HandlerOptions) *Handler {
	r.t.Helper()
	h, err := NewHandler(o, HandlerParts{Parts: r.parts, Map: executions, Catalog: func() event.Catalog {
		return event.NewCatalog(map[string][]string{"executor": {"echo"}})
	}})
	require.NoError(r.t, err)
	r.serve(&h.consumer)
	r.eventually(func() bool { return h.Inspection() != nil })
	require.Empty(r.t, h.Inspection().Findings)
	return h
}

func execution(id, kind string) amqp.Publishing {
	return amqp.Publishing{
		MessageId: "msg-" + id, Headers: amqp.Table{"trace": "abc"},
		Body: fmt.Appendf(nil,
			`{"message_type":"ExecutionRequested","payload":{"execution_id":%q,"kind":%q,"action_ref":"core.echo"}}`, id, kind),
	}
}

// A message that no worker takes becomes a failure of its execution, at the time at which it expired.
func TestExpiredMessageIsAFailure(t *testing.T) {
	for _, queueType := range []string{Quorum, Classic} {
		t.Run(queueType, func(t *testing.T) {
			r, o := newRig(t), handlerOptions(t)
			o.QueueType, o.WorkQueues[0].TTL, o.Severity = queueType, 100*time.Millisecond, "critical"
			r.handler(o)
			work := o.WorkQueues[0].Name
			before := time.Now()
			r.publish(work, execution("42", "echo"))
			r.publish(work, execution("43", "of.nobody"))
			r.eventually(func() bool { return len(r.all()) == 2 })
			require.Less(t, time.Since(before), 30*time.Second)
			e := r.all()[0]
			require.Equal(t, "42", e.ID, "the id of the worker's own event")
			require.Equal(t, "executor", e.Service)
			require.Equal(t, "echo", e.Type)
			require.Equal(t, event.Failure, e.Outcome)
			require.Equal(t, "critical", e.Severity)
			require.WithinDuration(t, before, e.Time, 10*time.Second)
			require.False(t, e.Time.Before(before.Truncate(time.Second)))
			attrs := map[string]string{}
			for _, a := range e.Attributes {
				attrs[a.Name] = a.Value
			}
			require.Equal(t, map[string]string{"action": "core.echo", "error_type": "queue_ttl_expired", "queue": work,
				"reason": "expired", "deaths": "1"}, attrs)
			r.eventually(func() bool { return r.messages(o.Queue) == 0 })
			label := `queue="` + work + `",type="%s",reason="expired",outcome="failure"} 1`
			require.Contains(t, r.metrics(), fmt.Sprintf(label, "echo"))
			require.Contains(t, r.metrics(), fmt.Sprintf(label, "other"), "no spec knows the type")
			require.Contains(t, r.metrics(), `sloengine_rabbitmq_dead_letters_handled_total{source="test"} 2`)
			require.Contains(t, r.metrics(), `sloengine_rabbitmq_dead_letter_age_seconds_count{source="test"} 2`)
		})
	}
}

// Whichever comes first counts, once: the worker's own event, or the failure by the handler.
func TestFirstOfWorkerAndHandlerCounts(t *testing.T) {
	r, o := newRig(t), handlerOptions(t)
	o.WorkQueues[0].TTL = 10 * time.Millisecond
	r.known[event.Key([]byte("executor"), []byte("42"))] = true // by the worker
	r.handler(o)
	r.publish(o.WorkQueues[0].Name, execution("42", "echo"))
	r.eventually(func() bool { return r.intake.Totals().Duplicates == 1 })
	require.Empty(t, r.all())
	r.eventually(func() bool { return r.messages(o.Queue) == 0 })
	r.eventually(func() bool { return contains(r.metrics(), `outcome="duplicate"} 1`) })
}

// An unreadable message becomes a dead letter of the engine.
func TestUnreadableMessagesAreKept(t *testing.T) {
	r, o := newRig(t), handlerOptions(t)
	o.WorkQueues[0].TTL = 10 * time.Millisecond
	r.handler(o)
	r.publish(o.WorkQueues[0].Name, amqp.Publishing{Body: []byte("\x00garbage")})
	r.publish(o.WorkQueues[0].Name, amqp.Publishing{Body: []byte(`{"payload":{"execution_id":"7"}}`), MessageId: "a"})
	// not dead-lettered
	r.publish(o.Queue, amqp.Publishing{Body: []byte(`{"payload":{}}`), MessageId: "b"})
	// hostile
	r.publish(
		o.Queue, amqp.Publishing{Body: []byte(`{"payload":{}}`), Headers: amqp.Table{"x-death": "forged"}, MessageId: "c"})
	// refused by the decoder
	r.publish(o.WorkQueues[0].Name, execution("8", "bad type \x01"))
	r.eventually(func() bool { return len(r.deadLetters()) == 5 })
	texts := ""
	for _, e := range r.deadLetters() {
		require.Equal(t, "admission", string(e.Origin))
		require.Equal(t, o.Queue, e.From.Topic)
		require.NotEmpty(t, e.Raw)
		texts += e.Error + "\n"
	}
	for _, want := range []string{"invalid JSON", "no service or no type", "no x-death header",
		"invalid x-death header: string", "type"} {
		require.Contains(t, texts, want)
	}
	require.Empty(t, r.all())
	r.eventually(func() bool { return r.messages(o.Queue) == 0 })
	r.eventually(func() bool {
		return contains(r.metrics(), `sloengine_rabbitmq_dead_letters_handled_total{source="test"} 5`)
	})
}

// A rule returns messages to their queue, with their properties, until they died too often.
func TestConditionalRetry(t *testing.T) {
	r, o := newRig(t), handlerOptions(t)
	o.WorkQueues[0].TTL = 200 * time.Millisecond
	o.Retry = []RetryRule{{Reason: ReasonExpired, Type: "echo", MaxDeaths: 2}}
	r.handler(o)
	work := o.WorkQueues[0].Name
	r.publish(work, execution("1", "echo"))
	r.publish(work, execution("2", "other"))
	r.eventually(func() bool { return len(r.all()) == 2 })
	deaths := map[string]string{}
	for _, e := range r.all() {
		for _, a := range e.Attributes {
			if a.Name == attrDeaths {
				deaths[e.ID] = a.Value
			}
		}
	}
	require.Equal(t, map[string]string{"1": "3", "2": "1"}, deaths)
	r.eventually(func() bool { return contains(r.metrics(), `type="echo",reason="expired",outcome="retried"} 2`) })

	// A worker that is back gets it as it was.
	o2 := handlerOptions(t)
	_ = o2
	worker := dial(t)
	ch, err := worker.Channel()
	require.NoError(t, err)
	got, err := ch.Consume(work, "", true, false, false, false, nil)
	require.NoError(t, err)
	died := execution("3", "echo")
	died.Headers["x-death"] = []any{death(work, "expired", 1)}
	died.CorrelationId, died.Priority = "corr", 5
	r.publish(o.Queue, died)
	select {
	case d := <-got:
		require.Equal(t, "msg-3", d.MessageId)
		require.Equal(t, "corr", d.CorrelationId)
		require.Equal(t, "abc", d.Headers["trace"])
		require.EqualValues(t, 1, d.Headers[headerRetries])
		require.Equal(t, died.Body, d.Body)
	case <-time.After(testkit.Patience):
		t.Fatal("the message did not return")
	}
	require.Len(t, r.all(), 2, "it is no failure")
}

// A message whose queue is gone or full cannot return and is a failure.
func TestRetryToMissingQueue(t *testing.T) {
	r, o := newRig(t), handlerOptions(t)
	o.Retry = []RetryRule{{MaxDeaths: 5}}
	r.handler(o)
	full := names(t)("full")
	onChannel(t, r.conn, func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(full, true, false, false, false,
			amqp.Table{"x-max-length": int64(0), "x-overflow": "reject-publish"})
		return err
	})
	for i, queue := range []string{"nowhere", "nowhere", full, o.WorkQueues[0].Name} {
		m := execution(fmt.Sprint(i), "echo")
		m.Headers["x-death"] = []any{death(queue, "rejected", 1)}
		r.publish(o.Queue, m)
	}
	r.eventually(func() bool { return len(r.all()) == 3 && r.messages(o.WorkQueues[0].Name) == 1 })
	r.eventually(func() bool { return r.messages(o.Queue) == 0 })
}

// The critical ones return first.
func TestCriticalReturnsFirst(t *testing.T) {
	r, o := newRig(t), handlerOptions(t)
	o.Retry = []RetryRule{{MaxDeaths: 1}}
	work := o.WorkQueues[0].Name
	_, err := o.topology().inspect(r.conn, time.Now())
	require.NoError(t, err)
	const n = 20
	for i := range n {
		m := execution(fmt.Sprint(i), "echo")
		if i >= n/2 {
			m.Body = fmt.Appendf(nil, `{"payload":{"execution_id":"%d","kind":"echo","severity":"critical"}}`, i)
		}
		m.Headers["x-death"] = []any{death(work, "expired", 1)}
		r.publish(o.Queue, m)
	}
	r.eventually(func() bool { return r.messages(o.Queue) == n })
	h, err := NewHandler(o, HandlerParts{Parts: r.parts, Map: executions})
	require.NoError(t, err)
	// One batch of all.
	ch, err := r.conn.Channel()
	require.NoError(t, err)
	var list []amqp.Delivery
	for range n {
		d, ok, err := ch.Get(o.Queue, false)
		require.NoError(t, err)
		require.True(t, ok)
		list = append(list, d)
	}
	require.NoError(t, h.handle(t.Context(), &session{conn: r.conn, ch: ch}, list))
	r.eventually(func() bool { return r.messages(work) == n })
	peeked, err := Peek(r.conn, work, n)
	require.NoError(t, err)
	for i, p := range peeked {
		require.Equal(t, i < n/2, contains(p.Body, "critical"), i)
	}
}

// A busy engine loses nothing: messages return to the dead-letter queue and are handled later, once.
func TestBusyEngineReturnsMessages(t *testing.T) {
	r, o := newRig(t), handlerOptions(t)
	_, err := o.topology().inspect(r.conn, time.Now())
	require.NoError(t, err)
	o.Retry = []RetryRule{{Type: "echo", MaxDeaths: 1}}
	h, err := NewHandler(o, HandlerParts{Parts: r.parts, Map: executions})
	require.NoError(t, err)
	h.busyWait, h.pause = 100*time.Millisecond, time.Millisecond
	r.setBusy(true)
	for i, kind := range []string{"echo", "job", "job"} {
		m := execution(fmt.Sprint(i), kind)
		m.Headers["x-death"] = []any{death(o.WorkQueues[0].Name, "expired", 1)}
		r.publish(o.Queue, m)
	}
	r.serve(&h.consumer)
	r.eventually(func() bool { return contains(r.log.String(), "returned to the queue") })
	require.NotEmpty(t, r.intake.Troubles(), "the state says so")
	require.Empty(t, r.all())
	r.setBusy(false)
	r.eventually(func() bool { return len(r.all()) == 2 && r.messages(o.Queue) == 0 })
	r.eventually(func() bool { return len(r.intake.Troubles()) == 0 })
	require.Equal(t, 1, r.messages(o.WorkQueues[0].Name), "it returned once")
}
