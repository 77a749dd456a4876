package rabbitmq

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/source/rabbitmq/rabbitmqtest"
	"github.com/sloengine/sloengine/reliability/amqpclient"
	"github.com/sloengine/sloengine/reliability/dlq"
)

// nested is a table or an array in so many of its kind.
func nested(depth int, array bool) any {
	var v any = "deep"
	for range depth {
		if array {
			v = []any{v}
		} else {
			v = amqp.Table{"t": v}
		}
	}
	return v
}

// poisons are messages that a sender could send by mistake or on purpose.
func poisons(rnd *rand.Rand) (out []amqp.Publishing) {
	body := []byte(`{"service":"shop","type":"order"}`)
	many := make([]any, 9000)
	wide := amqp.Table{}
	for i := range 9000 {
		wide[fmt.Sprint(i)] = nil
	}
	for _, h := range []amqp.Table{
		{"deep": nested(33, false)}, {"": nested(33, true)}, {"deep": nested(40, true)}, {"deep": nested(500, false)},
		{"deep": nested(32, false), "x": "y"}, {"many": many}, {"wide": wide}, wide,
		{"deep": nested(40, false), "ce_specversion": "1.0"}, {headerDeaths: nested(40, true)}, {headerDeaths: "forged"},
		{headerDeaths: []any{amqp.Table{"queue": nested(40, true)}}},
		{"d": amqp.Decimal{Scale: 255, Value: math.MinInt32}, "t": time.Unix(1<<62, 0), "b": []byte{0xff, 0}},
		{"\xff\x00": "\xfe"},
		{amqpclient.HeaderUnreadable: int64(7)}, {"large": strings.Repeat("x", 120_000)},
		{"cloudEvents:specversion": "0.3", "cloudEvents:id": strings.Repeat("\x01", 9000)},
	} {
		out = append(out, amqp.Publishing{Headers: h, Body: body})
	}
	for _, sec := range []int64{1 << 40, 1 << 62, math.MaxInt64, math.MinInt64, -1 << 40, -1, 1 << 33, 253402300800} {
		out = append(out, amqp.Publishing{Timestamp: time.Unix(sec, 0), Body: body},
			amqp.Publishing{Timestamp: time.Unix(sec, 0), Body: []byte("{")})
	}
	for _, b := range []string{
		"", "\x00", "null", "[]", "[[]]", "{}", "\xff\xfe",
		`{"service":"shop","type":"order","time":"99999-01-01T00:00:00Z"}`, strings.Repeat("[", 100_000),
		`{"service":"shop","type":"order","time":1e300}`, `{"service":"shop","type":"order","duration_ms":1e308}`,
		`{"specversion":"1.0"}`,
		`{"service":"` + strings.Repeat("\\u0001", 20_000) + `","type":"order"}`,
		strings.Repeat(`{"service":"x"}`+"\n", 3000), strings.Repeat("\x7f", 11<<20),
	} {
		out = append(out, amqp.Publishing{Body: []byte(b)})
	}
	texts := []string{"", "\x00", "\xff", strings.Repeat("\x01", 255), "application/x-ndjson",
		"application/cloudevents+json; x", "a/b\nc", "../..", `"`}
	text := func() string { return texts[rnd.IntN(len(texts))] }
	for len(out) < 200 {
		b := []byte(`{"id":"x","service":"shop","type":"order","time":"2026-01-01T00:00:00Z","attributes":{"a":"b"}}`)
		for range rnd.IntN(4) {
			b[rnd.IntN(len(b))] = byte(rnd.Uint32())
		}
		p := amqp.Publishing{
			Body: b[:rnd.IntN(len(b)+1)], ContentType: text(), ContentEncoding: text(), MessageId: text(), Type: text(),
			CorrelationId: text(), ReplyTo: text(),
			AppId: text(), Timestamp: time.Unix(int64(rnd.Uint64()), 0), Headers: amqp.Table{},
		}
		for range rnd.IntN(4) {
			values := []any{nil, text(), int8(-1), uint32(1 << 31), nested(rnd.IntN(50), rnd.IntN(2) == 0),
				time.Unix(int64(rnd.Uint64()), 0), []byte(text())}
			p.Headers[text()] = values[rnd.IntN(len(values))]
		}
		out = append(out, p)
	}
	return out
}

// No message stops those behind it, with any content: each is counted, or a dead letter, and the next one is read.
func TestPoison(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	list := poisons(rand.New(rand.NewPCG(seed, 0)))
	connect := as(t, rabbitmqtest.Shared(t).Address, rabbitmqtest.Alice, rabbitmqtest.AlicePassword)
	t.Run("source", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		o := Options{Queue: names(t)("events"), Declare: true}
		r.run(o, connect)
		r.eventually(func() bool { return r.messages(o.Queue) == 0 })
		r.poison(o.Queue, o.Queue, list)
		r.eventually(func() bool { return r.messages(o.Queue) == 0 })
		require.Contains(t, r.log.String(), "parts of a message cannot be read")
	})
	t.Run("dead-letter handler", func(t *testing.T) {
		t.Parallel()
		r, o := newRig(t), handlerOptions(t)
		o.WorkQueues[0].TTL = time.Millisecond
		o.Retry = []RetryRule{{Reason: ReasonExpired, Type: "order", MaxDeaths: 2}}
		work := o.WorkQueues[0].Name
		var err error
		r.parts.Client, err = amqpclient.New(connect)
		require.NoError(t, err)
		h, err := NewHandler(o, HandlerParts{Parts: r.parts})
		require.NoError(t, err)
		r.start(&h.consumer)
		r.eventually(func() bool { return r.messages(work) >= 0 })
		list := append(list, amqp.Publishing{ // the broker adds x-death, and the frame exceeds its own limit
			Headers: amqp.Table{"large": strings.Repeat("x", 131_000)},
			Body:    []byte(`{"id":"large","service":"shop","type":"order"}`),
		})
		r.poison(work, o.Queue, list)
		r.eventually(func() bool { return r.messages(o.Queue) == 0 && r.messages(work) == 0 })
	})
}

// poison publishes odd messages with a good one behind each, and waits until all of them are decided.
// Those with deaths of their own go to another queue: a queue of the broker itself crashes when it adds one to them.
func (r *rig) poison(queue, deaths string, list []amqp.Publishing) {
	r.t.Helper()
	store, err := dlq.NewMemory(dlq.MemoryOptions{})
	require.NoError(r.t, err)
	r.mu.Lock()
	r.store = store
	r.mu.Unlock()
	taken := 0
	conn := dial(r.t)
	for i, p := range list {
		// The broker refuses some itself, and ends the connection over others.
		to := queue
		if _, forged := p.Headers[headerDeaths]; forged {
			to = deaths
		}
		if err := publish(conn, to, p); err == nil {
			taken++
		} else if conn.IsClosed() {
			conn = dial(r.t)
		}
		good := order(fmt.Sprintf("good-%d", i))
		if publish(conn, queue, good) != nil { // the broker ends a connection a moment after it took a message
			conn = dial(r.t)
			require.NoError(r.t, publish(conn, queue, good))
		}
	}
	r.t.Cleanup(func() {
		if r.t.Failed() {
			r.t.Logf("%d events, %d messages, %v\n%s", len(r.all()), r.intake.Totals().Messages, r.intake.Troubles(), r.log)
		}
	})
	r.t.Logf("the broker took %d of %d odd messages", taken, len(list))
	require.Greater(r.t, taken, len(list)*9/10)
	r.eventually(func() bool {
		n := 0
		for _, e := range r.all() {
			if strings.HasPrefix(e.ID, "good-") {
				n++
			}
		}
		return n >= len(list)
	}, "every good message arrives")
	require.Empty(r.t, r.intake.Troubles())
	stats, err := store.Stats(r.t.Context())
	require.NoError(r.t, err)
	require.Positive(r.t, stats.Count)
}

// publish publishes a message that the broker confirms.
func publish(conn *amqp.Connection, queue string, p amqp.Publishing) error {
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	defer func() { _ = ch.Close() }()
	if err := ch.Confirm(false); err != nil {
		return err
	}
	p.DeliveryMode = amqp.Persistent
	d, err := ch.PublishWithDeferredConfirm("", queue, true, false, p)
	if err != nil {
		return err
	}
	if !d.Wait() {
		return amqp.ErrClosed
	}
	return nil
}
