package rabbitmq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"golang.org/x/time/rate"

	"github.com/sloengine/sloengine/ingest/source"
	"github.com/sloengine/sloengine/reliability/amqpclient"
	"github.com/sloengine/sloengine/reliability/retry"
)

// This file holds the common part of a source and a dead-letter handler: one queue, consumed over one
// connection.

// verifyEvery is how often the topology is verified and depths are measured.
const (
	verifyEvery  = time.Minute
	measureEvery = 15 * time.Second
)

// How long to wait before a queue that cannot be consumed is tried again.
const (
	retryFirst = time.Second
	retryMost  = 30 * time.Second
)

// cutEvery is how often a message is logged that cannot be read in all parts.
const cutEvery = time.Minute

// Parts are the parts of the engine that a source uses. All are required except Now and Logger.
type Parts struct {
	Name    string
	Client  *amqpclient.Client // connects
	Intake  *source.Intake
	Metrics *Metrics
	Logger  *slog.Logger     // slog.Default
	Now     func() time.Time // time.Now
}

func (p *Parts) applyDefaults() {
	p.Logger = cmp.Or(p.Logger, slog.Default())
	if p.Now == nil {
		p.Now = time.Now
	}
}

type consumer struct {
	Parts
	queue    string
	prefetch int
	topology *topology
	series   *sourceSeries
	// answerWithin is how long the queue may take to answer before the state says that it does not.
	answerWithin time.Duration
	// take handles messages in their order and returns when they may be acknowledged. Without an error, it has
	// acknowledged all of them.
	take func(ctx context.Context, s *session, list []amqp.Delivery) error

	inspection atomic.Pointer[Inspection] // the last one; nil before the first
	inspected  func(*Inspection)          // further use of it; may be nil
	reported   map[string]bool            // findings that were logged and last; only in verify
	cut        rate.Sometimes             // logs messages that cannot be read in all parts
}

// session is the consumer on one connection.
type session struct {
	conn  *amqp.Connection
	ch    *amqp.Channel // for deliveries and their acknowledgements
	epoch string        // distinguishes deliveries of sessions
}

// Inspection is the result of the last verification; nil before the first.
func (c *consumer) Inspection() *Inspection { return c.inspection.Load() }

// Consumed is the queue that is consumed, by the last measurement; nil before the first.
func (c *consumer) Consumed() *QueueState {
	if i := c.Inspection(); i != nil {
		return i.Queue(c.queue)
	}
	return nil
}

// serve consumes until ctx ends, which is no error, or the connection fails. While the queue is missing, or the user
// may not read it, the connection stays and the state says so.
func (c *consumer) serve(ctx context.Context, conn *amqp.Connection) error {
	ctx, cancel := context.WithCancelCause(ctx)
	closed := conn.NotifyClose(make(chan *amqp.Error, 1))
	verified, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		c.watch(ctx, conn, verified)
	}()
	defer func() { cancel(nil); <-done }()
	go func() {
		select {
		case err := <-closed: // nil after Close
			cancel(connectionError(err))
		case <-ctx.Done():
		}
	}()
	select {
	case <-verified: // queues are declared before the first one is consumed
	case <-ctx.Done():
	}
	wait := retryFirst
	for epoch := 0; ; epoch++ {
		started := c.Now()
		err := c.consume(ctx, conn, fmt.Sprintf("%x.%d", started.UnixNano(), epoch))
		if errors.Is(err, errUnanswered) {
			return nil // on the next connection again
		}
		if cause := context.Cause(ctx); cause != nil {
			if errors.Is(cause, context.Canceled) {
				return nil
			}
			return cause
		}
		var e *amqp.Error
		switch {
		case err == nil:
			return nil
		case conn.IsClosed():
			return err
		case errors.As(err, &e) && e.Code == amqp.NotFound, errors.Is(err, errCancelled):
			c.Intake.Fails(source.TroubleTopic, c.queue, "queue "+c.queue+" cannot be consumed", err.Error())
		case errors.As(err, &e) && e.Code == amqp.AccessRefused:
			c.Intake.Fails(source.TroubleCredentials, c.queue, "the user may not read queue "+c.queue, err.Error())
		case errors.As(err, &e):
			c.Intake.Fails(source.TroubleTopic, c.queue, "queue "+c.queue+" cannot be consumed", err.Error())
		default:
			return err // of the intake: the engine stops
		}
		if c.Now().Sub(started) > retryMost {
			wait = retryFirst
		}
		if !retry.Sleep(ctx, wait) {
			continue // the cause is looked at above
		}
		wait = min(2*wait, retryMost)
	}
}

// errConnection is for a connection that was closed without a reason.
var errConnection = errors.New("the connection was closed")

func connectionError(err *amqp.Error) error {
	if err == nil {
		return errConnection
	}
	return err
}

var errCancelled = errors.New("the broker cancelled the consumer, for example because the queue was deleted")

// consume takes messages until ctx, the channel or the consumer ends.
func (c *consumer) consume(ctx context.Context, conn *amqp.Connection, epoch string) error {
	ch, err := conn.Channel()
	if err != nil {
		return fmt.Errorf("open channel: %w", err)
	}
	defer func() { _ = ch.Close() }() // returns unacknowledged messages to the queue
	s := &session{conn: conn, ch: ch, epoch: epoch}
	closed := ch.NotifyClose(make(chan *amqp.Error, 1))
	cancelled := ch.NotifyCancel(make(chan string, 1))
	if err := ch.Qos(c.prefetch, 0, false); err != nil {
		return fmt.Errorf("set prefetch: %w", err)
	}
	delivered, err := c.subscribe(ctx, conn, ch)
	if err != nil {
		return err
	}
	// The library hands over one delivery at a time, so a batch would hold a single message. The broker delivers at most
	// c.prefetch that are not acknowledged, so this goroutine never waits for the buffer, and ends with the channel.
	deliveries := make(chan amqp.Delivery, c.prefetch)
	go func() {
		defer close(deliveries)
		for d := range delivered {
			deliveries <- d
		}
	}()
	c.Intake.Works(source.TroubleTopic, c.queue)
	c.Intake.Works(source.TroubleCredentials, c.queue)
	ended := func() error {
		select {
		case <-cancelled:
			c.series.cancelled.Inc()
			return errCancelled
		case err := <-closed:
			if err != nil {
				return err
			}
		default:
		}
		return errConnection
	}
	// Half of the prefetched messages are on their way while the others are made durable.
	most := max(c.prefetch/2, 1)
	list := make([]amqp.Delivery, 0, most)
	for {
		select {
		case d, ok := <-deliveries:
			if !ok {
				return ended()
			}
			list = append(list[:0], d)
		case <-ctx.Done():
			return nil
		}
		end := c.Intake.Busy()
	fill:
		for len(list) < most {
			select {
			case d, ok := <-deliveries:
				if !ok {
					break fill // acknowledging fails, or the next round ends
				}
				list = append(list, d)
			default:
				break fill
			}
		}
		if ch.IsClosed() { // the broker delivers all of them again
			end()
			return ended()
		}
		for i := range list {
			if list[i].Redelivered {
				c.series.redelivered.Inc()
			}
			if names, ok := list[i].Headers[amqpclient.HeaderUnreadable].(string); ok {
				c.cut.Do(func() {
					c.Logger.Warn("parts of a message cannot be read and were left out", "source", c.Name, "queue", c.queue,
						"message_id", text(list[i].MessageId), "parts", text(names))
				})
			}
		}
		err := c.take(ctx, s, list)
		end()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			if errors.Is(err, amqp.ErrClosed) {
				return ended()
			}
			return err
		}
		clear(list) // releases the bodies
	}
}

// message makes a message of a delivery. Its place in a dead letter follows from the message id where there is one, so
// that a message which is delivered again gives a dead letter that the storage recognises.
func (s *session) message(d *amqp.Delivery, queue string) source.Message {
	m := source.Message{
		Value: d.Body, ContentType: d.ContentType, Time: d.Timestamp, Topic: queue, Generation: s.epoch,
		Offset: int64(d.DeliveryTag), MessageID: d.MessageId,
	}
	if d.MessageId != "" {
		m.Generation, m.Offset = hashed(queue, d.MessageId), 0
	}
	if len(d.Headers) > 0 {
		m.Headers = newHeaders(d.Headers)
	}
	return m
}

// watch verifies the topology and measures depths until ctx ends. verified is closed after the first time.
func (c *consumer) watch(ctx context.Context, conn *amqp.Connection, verified chan<- struct{}) {
	c.verify(conn)
	close(verified)
	last := c.Now()
	for retry.Sleep(ctx, measureEvery) {
		if now := c.Now(); now.Sub(last) >= verifyEvery {
			c.verify(conn)
			last = now
		} else {
			c.measure(conn)
		}
	}
}

// verify compares the broker with the settings. An error is that of the connection, which ends soon.
func (c *consumer) verify(conn *amqp.Connection) {
	i, err := c.topology.inspect(conn, c.Now())
	if err != nil {
		return
	}
	c.show(i)
	now := map[string]bool{}
	var texts []string
	for _, f := range i.Findings {
		text := f.String()
		now[text] = true
		if f.Problem != Unverified {
			texts = append(texts, text)
		}
		if !c.reported[text] {
			c.Logger.Warn("rabbitmq topology differs from the settings", "source", c.Name, "kind", f.Kind, "name", f.Name,
				"problem", f.Problem, "finding", text)
		}
	}
	if len(c.reported) > 0 && len(now) == 0 {
		c.Logger.Info("rabbitmq topology is as the settings want", "source", c.Name)
	}
	c.reported = now
	const topologyName = "topology"
	if len(texts) == 0 {
		c.Intake.Works(source.TroubleTopic, topologyName)
		return
	}
	c.Intake.Fails(source.TroubleTopic, topologyName, clip(strings.Join(texts, "; ")), "verified by declaring again")
}

// measure asks for the depths only.
func (c *consumer) measure(conn *amqp.Connection) {
	before := c.inspection.Load()
	if before == nil {
		return
	}
	next := *before
	next.Queues = append([]QueueState{}, before.Queues...)
	for i := range next.Queues {
		q := &next.Queues[i]
		refused, err := try(conn, func(ch *amqp.Channel) error {
			state, err := ch.QueueDeclarePassive(q.Name, true, false, false, false, nil)
			if err == nil {
				q.Messages, q.Consumers, q.Missing = state.Messages, state.Consumers, false
			}
			return err
		})
		if err != nil {
			return
		}
		if refused != nil && refused.Code == amqp.NotFound {
			q.Messages, q.Consumers, q.Missing = 0, 0, true
		}
	}
	c.show(&next)
}

// show publishes an inspection.
func (c *consumer) show(i *Inspection) {
	c.inspection.Store(i)
	c.series.inspected(i)
	if c.inspected != nil {
		c.inspected(i)
	}
}
