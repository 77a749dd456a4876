package rabbitmqsink

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/sink/placeholder"
	"github.com/sloengine/sloengine/reliability/amqpclient"
	"github.com/sloengine/sloengine/reliability/dispatch"
	"github.com/sloengine/sloengine/reliability/retry"
)

// window is how many messages are published before their confirmations are awaited. The channel for returned messages
// has as much room, so the library never waits for its reader.
const window = 256

// Sink is a dispatch.Sink and a dispatch.Checker. It is safe for concurrent use: each call has a connection of its own,
// so that one that is stuck does not hold up the others.
type Sink struct {
	o      Options
	key    *placeholder.Text
	client *amqpclient.Client

	mu     sync.Mutex // guards the fields below
	idle   []*link
	closed bool
}

var (
	_ dispatch.Sink    = (*Sink)(nil)
	_ dispatch.Checker = (*Sink)(nil)
)

// New checks the options and reads the password. It connects to nothing.
func New(o Options) (*Sink, error) {
	s := &Sink{}
	var err error
	if s.key, s.client, err = o.validate(); err != nil {
		return nil, fmt.Errorf("rabbitmq sink: %w", err)
	}
	s.o = o
	return s, nil
}

// Close ends the idle connections. Those in use end when their call does.
func (s *Sink) Close() error {
	s.mu.Lock()
	idle := s.idle
	s.idle, s.closed = nil, true
	s.mu.Unlock()
	for _, l := range idle {
		l.close()
	}
	return nil
}

// link is a connection with a channel in confirm mode.
type link struct {
	conn     *amqp.Connection
	ch       *amqp.Channel
	closed   chan *amqp.Error
	returned chan amqp.Return
	given    atomic.Bool // given up: it may be closing still
}

// closeWithin bounds the farewell of a connection that is of no more use.
const closeWithin = 500 * time.Millisecond

func (l *link) close() {
	l.given.Store(true)
	_ = l.conn.CloseDeadline(time.Now().Add(closeWithin))
}

// ended reports whether the link is of no more use.
func (l *link) ended() bool { return l.given.Load() || l.ch.IsClosed() || l.conn.IsClosed() }

// connect takes an idle connection or makes one.
func (s *Sink) connect(ctx context.Context) (*link, error) {
	s.mu.Lock()
	for n := len(s.idle); n > 0; n = len(s.idle) {
		l := s.idle[n-1]
		s.idle = s.idle[:n-1]
		if l.ended() {
			defer l.close()
			continue
		}
		s.mu.Unlock()
		return l, nil
	}
	s.mu.Unlock()
	conn, err := s.client.Dial(ctx)
	if err != nil {
		return nil, err
	}
	l := &link{conn: conn}
	if l.ch, err = conn.Channel(); err == nil {
		l.closed = l.ch.NotifyClose(make(chan *amqp.Error, 1))
		l.returned = l.ch.NotifyReturn(make(chan amqp.Return, window))
		err = l.ch.Confirm(false)
	}
	if err != nil {
		l.close()
		return nil, amqpclient.Explain(err)
	}
	return l, nil
}

// release gives a connection back, unless it has ended.
func (s *Sink) release(l *link) {
	s.mu.Lock()
	if !s.closed && !l.ended() {
		s.idle = append(s.idle, l)
		l = nil
	}
	s.mu.Unlock()
	if l != nil {
		l.close()
	}
}

// Send publishes a batch and waits for the confirmations. Messages that come back fail alone.
func (s *Sink) Send(ctx context.Context, batch []dispatch.Item) dispatch.Result {
	l, err := s.connect(ctx)
	if err != nil {
		return dispatch.Result{Err: err}
	}
	defer s.release(l)
	// A broker that lacks memory stops reading, and a write then blocks until the connection is closed.
	stop := context.AfterFunc(ctx, l.close)
	defer stop()
	errs := make([]error, len(batch))
	var whole error
	for from := 0; from < len(batch) && whole == nil; from += window {
		to := min(from+window, len(batch))
		whole = s.publish(ctx, l, batch[from:to], errs[from:to])
		if whole != nil {
			for i := to; i < len(batch); i++ {
				errs[i] = whole
			}
		}
	}
	var r dispatch.Result
	for i, err := range errs {
		if err != nil {
			r.Failed = append(r.Failed, dispatch.Failure{Index: i, Err: err})
		}
	}
	if whole != nil && len(r.Failed) == len(batch) {
		return dispatch.Result{Err: whole}
	}
	return r
}

// publish sends messages and waits for their confirmations. The result is why the connection is of no more use; those
// that were not confirmed have failed with it.
func (s *Sink) publish(ctx context.Context, l *link, batch []dispatch.Item, errs []error) (broken error) {
	confirms := make([]*amqp.DeferredConfirmation, len(batch))
	keys := make([]string, len(batch))
	for i := range batch {
		m, key, err := s.message(&batch[i], i)
		if err != nil {
			errs[i] = retry.Permanent(err)
			continue
		}
		keys[i] = key
		if confirms[i], err = l.ch.PublishWithDeferredConfirm(s.o.Exchange, key, !s.o.NotMandatory, false, m); err != nil {
			broken = err
			break
		}
	}
	for i, c := range confirms {
		if errs[i] != nil || c == nil {
			continue
		}
		select {
		case <-c.Done():
			if !c.Acked() && !l.ch.IsClosed() {
				errs[i] = retry.WithClass(errors.New("the broker did not take the message (nack): a queue is full or not available"), retry.ClassOverload)
			} else if !c.Acked() {
				broken = amqp.ErrClosed
			}
		case <-ctx.Done():
			broken = ctx.Err()
		}
		if broken != nil {
			break
		}
	}
	if broken != nil {
		broken = l.reason(ctx, broken)
		for i, c := range confirms {
			if errs[i] == nil && (c == nil || !acked(c)) {
				errs[i] = broken
			}
		}
		l.close()
	}
	s.takeReturned(l, keys, errs)
	return broken
}

// acked reports whether a message is confirmed by now.
func acked(c *amqp.DeferredConfirmation) bool {
	select {
	case <-c.Done():
		return c.Acked()
	default:
		return false
	}
}

// takeReturned fails the events whose messages came back. A broker returns a message before it confirms it.
func (s *Sink) takeReturned(l *link, keys []string, errs []error) {
	for {
		select {
		case r, open := <-l.returned:
			i, err := strconv.Atoi(r.CorrelationId)
			if open && err == nil && i >= 0 && i < len(errs) {
				errs[i] = retry.WithClass(fmt.Errorf("exchange %q has no queue for the routing key %q (bind one, or set mandatory: false): %s", s.o.Exchange, keys[i], r.ReplyText), retry.ClassTransient)
			}
			if !open {
				return
			}
		default:
			return
		}
	}
}

// reason is why a link broke: what the broker said, if it said anything.
func (l *link) reason(ctx context.Context, err error) error {
	select {
	case said := <-l.closed:
		if said != nil && ctx.Err() == nil {
			return amqpclient.Explain(said)
		}
	default:
	}
	if ctx.Err() != nil {
		return retry.WithClass(errors.New("the broker did not confirm the message in time, it may be delivered twice"), retry.ClassTimeout)
	}
	return amqpclient.Explain(err)
}

// message is that of an event. i is its place among those that are published together.
func (s *Sink) message(it *dispatch.Item, i int) (m amqp.Publishing, key string, err error) {
	key, _ = s.key.Of(it)
	if len(key) > maxRoutingKey {
		return m, key, fmt.Errorf("the routing key has %d bytes, more than %d", len(key), maxRoutingKey)
	}
	body, err := event.AppendBinaryAsJSON(make([]byte, 0, 2*len(it.Payload)+64), it.Payload)
	if err != nil {
		return m, key, err
	}
	m = amqp.Publishing{
		ContentType: "application/json", MessageId: it.ID, Type: it.Type, AppId: "sloengine", Timestamp: time.Now(),
		CorrelationId: strconv.Itoa(i), DeliveryMode: amqp.Persistent, Body: body,
	}
	if s.o.Transient {
		m.DeliveryMode = amqp.Transient
	}
	return m, key, nil
}

// Check connects and looks whether the exchange exists.
func (s *Sink) Check(ctx context.Context) error {
	l, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer s.release(l)
	stop := context.AfterFunc(ctx, l.close)
	defer stop()
	if s.o.Exchange == "" {
		return nil
	}
	// The kind is not compared by a passive declaration.
	return amqpclient.Explain(l.ch.ExchangeDeclarePassive(s.o.Exchange, amqp.ExchangeTopic, true, false, false, false, nil))
}
