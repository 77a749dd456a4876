package rabbitmq

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"golang.org/x/time/rate"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/mapping"
	"github.com/sloengine/sloengine/ingest/source"
	"github.com/sloengine/sloengine/reliability/amqpclient"
	"github.com/sloengine/sloengine/reliability/retry"
)

// How long messages wait for a busy engine before they return to the queue, and how long the handler pauses then. A
// quorum queue of RabbitMQ 4 drops a message that was returned too often, so this is rare on purpose.
const (
	busyWait   = 30 * time.Second
	pauseFirst = 5 * time.Second
	pauseMost  = 5 * time.Minute
)

// confirmWait is how long the broker may take to confirm the messages that return to their queues.
const confirmWait = 30 * time.Second

// HandlerParts are the dependencies of a dead-letter handler besides Parts.
type HandlerParts struct {
	Parts
	// Map makes events of messages; nil: they are events already. The Intake has no mapping of its own.
	Map *mapping.Settings
	// Catalog knows the types that may become labels of metrics; nil, or a nil result, knows no type.
	Catalog func() event.Catalog
}

// Handler turns the messages of a dead-letter queue into failure events, or returns them to their queue.
type Handler struct {
	consumer
	o        HandlerOptions
	catalog  func() event.Catalog
	failures failures
	figures  *handlerSeries
	arrivals *arrivals
	busyWait time.Duration
	pause    time.Duration // after the next requeue

	depth   atomic.Int64 // of the queue, by the last measurement
	waiting atomic.Int64 // messages that are being handled
}

// NewHandler makes a handler. It starts nothing.
func NewHandler(o HandlerOptions, p HandlerParts) (*Handler, error) {
	o.ApplyDefaults()
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("rabbitmq dead-letter handler %s: %w", p.Name, err)
	}
	p.applyDefaults()
	mapper, err := mapping.NewMapper(p.Map)
	if err != nil {
		return nil, fmt.Errorf("rabbitmq dead-letter handler %s: %w", p.Name, err)
	}
	h := &Handler{
		consumer: consumer{Parts: p.Parts, queue: o.Queue, prefetch: o.Prefetch, topology: o.topology(),
			series: p.Metrics.sources.Of(p.Name), answerWithin: answerWithin,
			cut: rate.Sometimes{First: 10, Interval: cutEvery}},
		o: o, catalog: p.Catalog, failures: failures{mapper: mapper, severity: o.Severity},
		figures: p.Metrics.handlers.Of(p.Name), pause: pauseFirst, busyWait: busyWait,
	}
	h.take, h.inspected = h.handle, h.measured
	h.arrivals = newArrivals(&h.o, &p.Parts)
	p.Metrics.expect(p.Name, h.topology)
	return h, nil
}

// measured shows the depth of the dead-letter queue. Messages that were delivered and not acknowledged are no longer
// ready in the queue, so those are added.
func (h *Handler) measured(i *Inspection) {
	if q := i.Queue(h.queue); q != nil {
		h.depth.Store(int64(q.Messages))
	}
	h.showDepth()
	h.arrivals.measured(i, h.waiting.Load() > 0, h.Now())
}

func (h *Handler) showDepth() { h.figures.depth.Set(float64(h.depth.Load() + h.waiting.Load())) }

// handled is a message of the dead-letter queue while it is handled.
type handled struct {
	d       *amqp.Delivery
	history *history // nil: it was not dead-lettered
	failure *failure
	err     error // why there is no failure
	confirm *amqp.DeferredConfirmation
	outcome string
}

// handle returns messages to their queues as the rules say, makes failures of all others durable, and acknowledges
// them. While the engine is busy, it returns them to the dead-letter queue.
func (h *Handler) handle(ctx context.Context, s *session, list []amqp.Delivery) error {
	h.waiting.Store(int64(len(list)))
	defer func() { h.waiting.Store(0); h.showDepth() }()
	all := make([]handled, len(list))
	for i := range list {
		m := &all[i]
		m.d = &list[i]
		if m.history, m.err = readHistory(m.d.Headers); m.err == nil {
			m.failure, m.err = h.failures.event(m.d, m.history, h.Now())
		}
	}
	if err := h.republish(ctx, s, all); err != nil {
		return err
	}
	last := list[len(list)-1].DeliveryTag
	if err := h.count(ctx, s, all); err != nil {
		if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		return h.requeue(ctx, s, all)
	}
	if err := s.ch.Ack(last, true); err != nil {
		return err
	}
	h.pause = pauseFirst
	h.Intake.Works(source.TroubleEngine, h.queue)
	h.account(all)
	return nil
}

// count submits the failures of messages that did not return to their queue.
func (h *Handler) count(ctx context.Context, s *session, all []handled) error {
	ctx, cancel := context.WithTimeout(ctx, h.busyWait)
	defer cancel()
	var rest []*handled
	for i := range all {
		if all[i].outcome == "" {
			rest = append(rest, &all[i])
		}
	}
	for len(rest) > 0 {
		n, err := h.submit(ctx, s, rest)
		if err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

// submit makes the failures of the first messages durable, as many as fit into a batch.
func (h *Handler) submit(ctx context.Context, s *session, list []*handled) (n int, err error) {
	message := h.message(s, list[0])
	backfill := h.Intake.Backfills(&message)
	b := h.Intake.Batch(backfill)
	defer b.Release()
	for ; n < len(list) && !b.Full(); n++ {
		if n > 0 {
			if message = h.message(s, list[n]); h.Intake.Backfills(&message) != backfill {
				break
			}
		}
		if list[n].err != nil {
			b.Refuse(&message, list[n].err)
		} else {
			b.Add(&message)
		}
	}
	if err := h.Intake.Submit(ctx, b, nil); err != nil {
		return 0, err
	}
	b.Outcomes(func(i, _, duplicates int, refused bool) {
		switch {
		case refused:
			list[i].outcome = outcomeKept
		case duplicates > 0:
			list[i].outcome = outcomeDuplicate
		default:
			list[i].outcome = outcomeFailure
		}
	})
	return n, nil
}

// message returns the message for the intake: the failure, or the unchanged message if it is not a
// failure.
func (h *Handler) message(s *session, m *handled) source.Message {
	message := s.message(m.d, h.queue)
	if m.err == nil {
		message.Value, message.ContentType, message.Headers, message.MessageID = m.failure.value, "application/json", nil, ""
		message.Time = m.history.at
	}
	return message
}

// requeue returns messages to the dead-letter queue, except those that went back to their own, and pauses.
func (h *Handler) requeue(ctx context.Context, s *session, all []handled) error {
	n := 0
	for i := range all {
		var err error
		if all[i].outcome == outcomeRetried {
			err = s.ch.Ack(all[i].d.DeliveryTag, false)
		} else {
			n++
			err = s.ch.Nack(all[i].d.DeliveryTag, false, true)
		}
		if err != nil {
			return err
		}
	}
	h.figures.requeued.Add(n)
	h.Logger.Warn("dead-lettered messages returned to the queue, the engine is busy", "source", h.Name, "queue", h.queue,
		"messages", n, "pause", h.pause)
	h.Intake.Fails(source.TroubleEngine, h.queue, "the engine is busy; messages wait in the dead-letter queue", "requeued")
	retry.Sleep(ctx, h.pause)
	h.pause = min(2*h.pause, pauseMost)
	return nil
}

// republish returns messages to the queues in which they died, the critical ones first. A message that the broker does
// not take there counts as a failure.
func (h *Handler) republish(ctx context.Context, s *session, all []handled) error {
	var list []*handled
	for i := range all {
		if m := &all[i]; m.err == nil && retries(h.o.Retry, m.history, m.failure.typ) {
			list = append(list, m)
		}
	}
	if len(list) == 0 {
		return nil
	}
	slices.SortStableFunc(list, func(a, b *handled) int { return rank(b.failure.severity) - rank(a.failure.severity) })
	ch, err := s.publisher()
	if err != nil {
		return err
	}
	// Returns come before their confirmation, and the library waits until the listener has received
	// them.
	returned := ch.NotifyReturn(make(chan amqp.Return, len(list)))
	defer func() { _ = ch.Close() }()
	ctx, cancel := context.WithTimeout(ctx, confirmWait)
	defer cancel()
	for _, m := range list {
		p := again(m.d, m.history, h.Now())
		if len(m.history.last.Queue) > maxNameBytes || !amqpclient.Fits(s.conn, &p) { // the broker would close the connection
			continue
		}
		m.confirm, err = ch.PublishWithDeferredConfirmWithContext(ctx, "", m.history.last.Queue, true, false, p)
		if err != nil {
			return fmt.Errorf("return message to queue %s: %w", m.history.last.Queue, err)
		}
	}
	refused := 0
	for _, m := range list {
		if m.confirm == nil {
			refused++
			continue
		}
		acked, err := m.confirm.WaitContext(ctx)
		switch {
		case err != nil:
			return fmt.Errorf("wait for the broker's confirmation: %w", err)
		case acked:
			m.outcome = outcomeRetried
		default:
			refused++ // the queue is full
		}
	}
	for {
		select {
		case r := <-returned:
			if i := slices.IndexFunc(list, func(m *handled) bool {
				return m.outcome == outcomeRetried && m.history.last.Queue == r.RoutingKey && m.d.MessageId == r.MessageId &&
					bytes.Equal(m.d.Body, r.Body)
			}); i >= 0 {
				list[i].outcome = "" // the queue is gone
				refused++
			}
			continue
		default:
		}
		break
	}
	if refused > 0 {
		h.Logger.Warn("dead-lettered messages could not return to their queue and count as failures", "source",
			h.Name, "messages", refused)
	}
	return nil
}

// publisher opens a channel on which the broker confirms messages.
func (s *session) publisher() (*amqp.Channel, error) {
	ch, err := s.conn.Channel()
	if err != nil {
		return nil, fmt.Errorf("open channel: %w", err)
	}
	if err := ch.Confirm(false); err != nil {
		_ = ch.Close()
		return nil, fmt.Errorf("switch to publisher confirms: %w", err)
	}
	return ch, nil
}

// rank orders severities for a replay.
func rank(severity string) int {
	switch severity {
	case "critical":
		return 2
	case "error":
		return 1
	}
	return 0
}

// account counts the outcomes of messages.
func (h *Handler) account(all []handled) {
	now := h.Now()
	var catalog event.Catalog
	if h.catalog != nil {
		catalog = h.catalog()
	}
	for i := range all {
		m := &all[i]
		queue, reason, typ, known := other, other, other, false
		if m.history != nil {
			reason = m.history.last.Reason
			h.arrivals.arrived(m.history.last.Queue)
			if slices.ContainsFunc(h.o.WorkQueues, func(w WorkQueue) bool { return w.Name == m.history.last.Queue }) {
				queue = m.history.last.Queue
			}
		}
		if m.failure != nil && catalog != nil {
			typ = m.failure.typ
			known = catalog.Lookup([]byte(m.failure.service), []byte(typ)) == event.KnownYes
		}
		h.Metrics.outcome(h.Name, h.figures, queue, typ, reason, m.outcome, known)
		aged := m.history != nil && !m.history.at.IsZero()
		var age time.Duration
		if aged {
			age = now.Sub(m.history.at)
		}
		h.figures.handledAfter(age, aged)
	}
}
