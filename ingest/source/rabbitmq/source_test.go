package rabbitmq

import (
	"fmt"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/source"
)

// source starts a source of a queue of this test's own.
func (r *rig) source(change func(*Options)) (*Source, *amqp.Connection, <-chan error) {
	r.t.Helper()
	o := Options{Queue: names(r.t)("events"), Declare: true}
	if change != nil {
		change(&o)
	}
	s, err := NewSource(o, r.parts)
	require.NoError(r.t, err)
	conn, ended := r.serve(&s.consumer)
	r.eventually(func() bool { return s.Inspection() != nil })
	return s, conn, ended
}

func order(id string) amqp.Publishing {
	return amqp.Publishing{Body: fmt.Appendf(nil, `{"id":%q,"service":"shop","type":"order"}`, id)}
}

// Messages are acknowledged once their events are durable, and not before.
func TestAcknowledgedWhenDurable(t *testing.T) {
	r := newRig(t)
	r.setBusy(true)
	s, conn, _ := r.source(func(o *Options) { o.Prefetch = 4 })
	for i := range 10 {
		r.publish(s.queue, order(fmt.Sprint(i)))
	}
	r.eventually(func() bool { return r.messages(s.queue) == 6 }, "four are delivered, which is what prefetch allows")
	r.eventually(func() bool { return len(r.intake.Troubles()) == 1 })
	require.Equal(t, source.TroubleEngine, r.intake.Troubles()[0].Kind)
	// The connection breaks while nothing is durable, so all of them come again.
	require.NoError(t, conn.Close())
	r.eventually(func() bool { return r.messages(s.queue) == 10 })
	r.setBusy(false)
	next, err := NewSource(Options{Queue: s.queue, Declare: true}, r.parts)
	require.NoError(t, err)
	r.serve(&next.consumer)
	r.eventually(func() bool { return len(r.all()) == 10 && r.messages(s.queue) == 0 })
	require.Empty(t, r.deadLetters())
	require.Contains(t, r.metrics(), `sloengine_rabbitmq_redelivered_total{source="test"} 4`)
	require.Empty(t, r.intake.Troubles())
}

// A message that is delivered again counts once by the id of its event, or else by its message id. Without either it
// counts twice.
func TestRedeliveryCountsOnceByID(t *testing.T) {
	r := newRig(t)
	s, _, _ := r.source(nil)
	plain := []byte(`{"service":"shop","type":"order"}`)
	for range 2 {
		r.publish(s.queue, order("1"))
		r.publish(s.queue, amqp.Publishing{MessageId: "m-2", Body: plain})
		r.publish(s.queue, amqp.Publishing{
			MessageId: "m-3", Body: []byte(`[{"service":"shop","type":"order"},{"service":"shop","type":"order"}]`)})
		r.publish(s.queue, amqp.Publishing{Body: plain})
	}
	r.eventually(func() bool { return r.intake.Totals().Messages == 8 && r.messages(s.queue) == 0 })
	ids := map[string]int{}
	for _, e := range r.all() {
		ids[e.ID]++
	}
	require.Equal(t, 1, ids["1"])
	require.Equal(t, 1, ids["m-2"])
	require.Equal(t, 1, ids["m-3"])
	require.Equal(t, 1, ids["m-3/1"])
	require.Len(t, r.all(), 6)
	require.EqualValues(t, 4, r.intake.Totals().Duplicates)
}

// Events come in every form that HTTP takes, with the time of the message where they have none.
func TestForms(t *testing.T) {
	r := newRig(t)
	s, _, _ := r.source(nil)
	at := time.Now().Add(-time.Hour).Truncate(time.Second)
	r.publish(s.queue, amqp.Publishing{Timestamp: at, Body: []byte(`{"id":"json","service":"shop","type":"order"}`)})
	r.publish(s.queue, amqp.Publishing{ContentType: "application/x-ndjson",
		Body: []byte(`{"id":"nd1","service":"shop","type":"order"}` + "\n" + `{"id":"nd2","service":"shop","type":"order"}`)})
	r.publish(s.queue, amqp.Publishing{ContentType: "application/json", Headers: amqp.Table{
		"cloudEvents:specversion": "1.0", "cloudEvents:id": "ce", "cloudEvents:source": "/x", "cloudEvents:type": "order",
		"n": int32(5), "list": []any{"x"},
	}, Body: []byte(`{"service":"shop"}`)})
	r.publish(s.queue, amqp.Publishing{MessageId: "bad", Body: []byte("garbage")})
	r.eventually(func() bool { return r.intake.Totals().Messages == 4 && r.messages(s.queue) == 0 })
	require.Len(t, r.deadLetters(), 1)
	require.Equal(t, s.queue, r.deadLetters()[0].From.Topic)
	require.Len(t, r.all(), 4)
	require.True(t, r.all()[0].Time.Equal(at))
}

// A queue that is missing, or is deleted, is a state and not the end: the source takes it up once it is there.
func TestMissingQueue(t *testing.T) {
	r := newRig(t)
	s, conn, _ := r.source(func(o *Options) { o.Declare = false })
	topic := func() bool {
		for _, x := range r.intake.Troubles() {
			if x.Kind == source.TroubleTopic && x.Name == s.queue {
				return true
			}
		}
		return false
	}
	r.eventually(topic)
	require.Equal(t, []string{"queue " + s.queue + " does not exist"}, []string{s.Inspection().Findings[0].String()})
	require.Contains(t, r.metrics(), `sloengine_rabbitmq_topology_problems{source="test"} 1`)
	declare := func() {
		onChannel(t, r.conn, func(ch *amqp.Channel) error {
			_, err := ch.QueueDeclare(s.queue, true, false, false, false, amqp.Table{"x-queue-type": "quorum"})
			return err
		})
	}
	declare()
	r.publish(s.queue, order("1"))
	r.eventually(func() bool { return len(r.all()) == 1 && !topic() })

	onChannel(t, r.conn, func(ch *amqp.Channel) error {
		_, err := ch.QueueDelete(s.queue, false, false, false)
		return err
	})
	r.eventually(topic, "the broker cancelled the consumer")
	require.Contains(t, r.metrics(), `sloengine_rabbitmq_cancelled_total{source="test"} 1`)
	declare()
	r.publish(s.queue, order("2"))
	r.eventually(func() bool { return len(r.all()) == 2 && !topic() })
	require.False(t, conn.IsClosed())
}

// A queue that expires, or that is declared again, is found by the next verification.
func TestVerificationRepeats(t *testing.T) {
	r := newRig(t)
	s, _, _ := r.source(nil)
	require.Empty(t, s.Inspection().Findings)
	onChannel(t, r.conn, func(ch *amqp.Channel) error {
		_, err := ch.QueueDelete(s.queue, false, false, false)
		return err
	})
	onChannel(t, r.conn, func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(s.queue, true, false, false, false, amqp.Table{"x-max-length": int64(3)})
		return err
	})
	// The source's own connection may be gone: it ends where a queue is deleted while it subscribes.
	// A verification that does not end in time leaves the findings unchanged, so each is repeated until it has ended.
	r.eventually(func() bool { s.verify(r.conn); return len(s.Inspection().Problems()) > 0 })
	require.Contains(t, r.log.String(), "rabbitmq topology differs from the settings")
	n := len(r.log.String())
	s.verify(r.conn)
	require.NotContains(t, r.log.String()[n:], "rabbitmq topology differs", "each finding is logged once")
	require.NotEmpty(t, r.intake.Troubles())
	onChannel(t, r.conn, func(ch *amqp.Channel) error {
		_, err := ch.QueueDelete(s.queue, false, false, false)
		return err
	})
	r.eventually(func() bool { s.verify(r.conn); return len(s.Inspection().Findings) == 0 })
	require.Contains(t, r.log.String(), "rabbitmq topology is as the settings want")
}

// Peek leaves messages where they are, and purge counts the messages that it deletes.
func TestPeekAndPurge(t *testing.T) {
	r, o := newRig(t), handlerOptions(t)
	_, err := o.topology().inspect(r.conn, time.Now())
	require.NoError(t, err)
	m := execution("1", "echo")
	m.Headers = amqp.Table{"x-death": []any{death("work", "expired", 2)}, "trace": "a\x1b[31m"}
	r.publish(o.Queue, m)
	r.publish(
		o.Queue, amqp.Publishing{Body: append([]byte("\xff\xfe"), make([]byte, 10_000)...), Timestamp: time.Unix(1<<40, 0)})
	r.eventually(func() bool { return r.messages(o.Queue) == 2 })
	for range 2 {
		got, err := Peek(r.conn, o.Queue, 10)
		require.NoError(t, err)
		require.Len(t, got, 2)
		require.Equal(t, "work", got[0].Deaths[0].Queue)
		require.Equal(t, "msg-1", got[0].MessageID)
		require.Contains(t, got[1].DeathsError, "no x-death header")
		require.True(t, got[1].Truncated)
		require.Equal(t, 10_002, got[1].Bytes)
		r.eventually(func() bool { return r.messages(o.Queue) == 2 })
	}
	got, err := Peek(r.conn, o.Queue, 1)
	require.NoError(t, err)
	require.Len(t, got, 1)
	r.eventually(func() bool { return r.messages(o.Queue) == 2 })
	n, err := Purge(r.conn, o.Queue)
	require.NoError(t, err)
	require.Equal(t, 2, n)
	got, err = Peek(r.conn, o.Queue, 5)
	require.NoError(t, err)
	require.Empty(t, got)
	_, err = Peek(r.conn, "nowhere", 1)
	require.ErrorIs(t, err, ErrNoQueue)
	_, err = Purge(r.conn, "nowhere")
	require.ErrorIs(t, err, ErrNoQueue)
	i, err := o.Inspect(r.conn, time.Now())
	require.NoError(t, err)
	require.Empty(t, i.Findings)
	require.Equal(t, "86400000", i.Queue(o.Queue).Arguments[argTTL])
}
