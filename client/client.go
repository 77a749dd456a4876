package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/reliability/breaker"
	"github.com/sloengine/sloengine/reliability/deadline"
)

// The words of an event, so that an application needs to import only this package.
type (
	// Event is what happened. Service, Type and, for latency, Duration with HasDuration
	// are what counts; an ID of your own (an order's number, say) makes it count once
	// even if the application does its work twice.
	Event = event.Event
	// Attr is an attribute of an Event.
	Attr = event.Attr
)

// The outcomes of an Event.
const (
	Success = event.Success
	Failed  = event.Failure
)

const (
	// grace is how long the disk of the spool is waited for after a call's context
	// has ended.
	grace = 20 * time.Millisecond
	// leastAttempt is the shortest time in which a request is worth trying.
	leastAttempt = 2 * time.Millisecond
	// spoolWait is how long the queue waits for the disk of the spool.
	spoolWait = 10 * time.Second
)

// Client sends events. It is safe for concurrent use. Like a *sql.DB it works in the
// background from New to Close; a process needs one.
type Client struct {
	o     Options
	m     *Metrics
	r     *reporter
	q     *queue
	d     *deliverer
	spool *spool // nil: none

	scratch sync.Pool

	calls   sync.WaitGroup // of Send
	callsMu sync.Mutex     // guards closed, and calls against it
	closed  bool

	stopQueue, stopReplay, stopSpool context.CancelFunc
	queueDone, replayDone, spoolDone sync.WaitGroup
}

// New checks the options and starts the background work: sending what is queued, and
// what the spool still holds from the last run. It connects to nothing. The errors are
// those of the options; a spool that cannot be opened is logged and tried again.
func New(o Options) (*Client, error) {
	o.applyDefaults()
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	d, err := newDeliverer(&o)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	c := &Client{
		o: o, m: o.Metrics, q: newQueue(&o), d: d,
		r: &reporter{log: o.Logger, m: o.Metrics, onError: o.OnError},
	}
	c.scratch.New = func() any { return new([]byte) }
	c.start()
	return c, nil
}

func (c *Client) start() {
	var ctx context.Context
	if c.o.Spool.Dir != "" {
		c.spool = newSpool(&c.o)
		c.m.spoolLimit.Add(c.o.Spool.MaxBytes)
		if err := c.spool.open(); err != nil {
			c.o.Logger.Error("failed to open spool, events that the server does not accept will be lost", "err", err)
		}
		ctx, c.stopSpool = context.WithCancel(context.Background())
		c.spoolDone.Go(func() { c.spool.run(ctx) })
		rctx, cancel := context.WithCancel(context.Background())
		c.stopReplay = cancel
		c.replayDone.Go(func() { c.replay(rctx) })
	}
	qctx, cancel := context.WithCancel(context.Background())
	c.stopQueue = cancel
	for range c.o.Senders {
		c.queueDone.Go(func() { c.sendQueue(qctx) })
	}
	if c.spool != nil {
		c.queueDone.Go(func() { c.relieve(qctx) })
	}
}

// Send hands events over and returns when they are safe: acknowledged by the server,
// or on disk in the spool. It returns at the deadline of ctx or after Options.Timeout
// at the latest, give or take the 20 ms that it waits for the disk if there is no
// time left.
//
// Unless Options.FailClosed is set, or ctx says otherwise (FailOnError), it never returns
// an error. Without a spool, what
// the server doesn't take in time is queued in memory. What is lost all the same is
// counted; see the package's documentation.
func (c *Client) Send(ctx context.Context, events ...Event) error {
	return c.send(ctx, events, c.failOnError(ctx))
}

type failOnErrorKey struct{}

// FailOnError returns a context in which Send, Observe and the middlewares return errors
// (true), or keep the events for later (false), whatever Options.FailClosed says: a web
// request may want to know, and the job that it starts must not fail for it.
func FailOnError(ctx context.Context, fail bool) context.Context {
	return context.WithValue(ctx, failOnErrorKey{}, fail)
}

func (c *Client) failOnError(ctx context.Context) bool {
	if fail, ok := ctx.Value(failOnErrorKey{}).(bool); ok {
		return fail
	}
	return c.o.FailClosed
}

// SendStrict returns nil only if the server has taken all events; nothing goes to the
// spool, and nothing is counted as lost, since the caller knows. Events that were
// refused for good are named by a *RejectedError; other errors are temporary if
// retry.ClassOf says so. To send events again without counting those twice that were
// taken, give them ids.
func (c *Client) SendStrict(ctx context.Context, events ...Event) error {
	return c.send(ctx, events, true)
}

func (c *Client) send(ctx context.Context, events []Event, strict bool) error {
	if len(events) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	entered := c.enter()
	if entered {
		defer c.calls.Done()
	}
	var s settlement
	var errs []error
	for _, b := range c.batches(events, &s) {
		rest, err := b, ErrClosed
		if entered {
			rest, err = c.try(ctx, b, &s, strict)
		}
		switch {
		case rest == nil:
		case strict:
			errs = append(errs, err)
		default:
			c.rescue(ctx, rest, err, entered)
		}
	}
	if !strict {
		c.resolved(&s)
		return nil
	}
	c.m.count(&s.Tally)
	if len(s.Refused) > 0 {
		e := &RejectedError{}
		for _, r := range s.Refused {
			r.Index = r.From.index
			e.Items = append(e.Items, r.ItemError)
		}
		errs = append(errs, e)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("send events: %w", err)
	}
	return nil
}

// enter reports whether the client is open, and keeps it from closing until
// calls.Done is called.
func (c *Client) enter() bool {
	c.callsMu.Lock()
	defer c.callsMu.Unlock()
	if !c.closed {
		c.calls.Add(1)
	}
	return !c.closed
}

// batches encodes the events of a call.
func (c *Client) batches(events []Event, s *settlement) (all []*batch) {
	buf := c.scratch.Get().(*[]byte)
	defer c.scratch.Put(buf)
	b := &batch{}
	for i := range events {
		e := events[i] // the caller's stay as they are
		*buf = c.encode((*buf)[:0], &e)
		line, from := *buf, source{i, FromSend}
		if len(line) > maxEventBytes {
			alone := &batch{}
			alone.Append(line, from)
			s.Refuse(alone, 0, tooLarge(len(line)))
			*buf = nil
			continue
		}
		if b.Len() > 0 && (b.Len() >= c.o.BatchEvents || len(b.Body)+len(line) > c.o.BatchBytes) {
			all = append(all, b)
			b = &batch{}
		}
		b.Append(line, from)
	}
	if b.Len() > 0 {
		all = append(all, b)
	}
	return all
}

// encode appends the event as a line, with an id and a time.
func (c *Client) encode(dst []byte, e *Event) []byte {
	if e.ID == "" {
		e.ID = rand.Text()
	}
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	if e.Service == "" {
		e.Service = c.o.Service
	}
	return append(e.AppendJSON(dst), '\n')
}

func tooLarge(n int) event.ItemError {
	return event.ItemError{
		Code: event.CodeEventTooLarge, Detail: fmt.Sprintf("%d bytes of JSON exceed the maximum of %d", n, maxEventBytes)}
}

// try sends b to the server in the time that there is. rest is what is not decided.
func (c *Client) try(ctx context.Context, b *batch, s *settlement, strict bool) (rest *batch, err error) {
	step := deadline.Step{Least: leastAttempt}
	if !strict {
		if err := c.unavailable(); err != nil {
			return b, err
		}
		if c.spool != nil {
			step.Reserve = reserve(ctx)
		}
	}
	ctx, cancel, err := step.Begin(ctx)
	if err != nil {
		return b, err
	}
	defer cancel()
	return c.d.sender.Deliver(ctx, b, s)
}

// reserve is the part of a call's time that is kept back for the spool.
func reserve(ctx context.Context) time.Duration {
	left, _ := deadline.Remaining(ctx)
	return min(max(left/4, 5*time.Millisecond), 250*time.Millisecond)
}

// unavailable reports why an event should not wait for the server now. While something lies
// in the spool, its sender makes the probes of the breaker.
func (c *Client) unavailable() error {
	if err := c.d.held(); err != nil {
		return err
	}
	if c.spool != nil && c.spool.pending() {
		if st := c.d.breaker.Status(); st.State != breaker.Closed {
			return &breaker.OpenError{Name: c.o.Breaker.Name, RetryAfter: st.RetryAfter}
		}
	}
	return nil
}

// rescue keeps what the server didn't take, because of cause, or counts it as lost.
func (c *Client) rescue(ctx context.Context, b *batch, cause error, open bool) {
	switch {
	case !open:
		c.r.lost(b, Stopped, cause)
	case c.spool != nil:
		wait := grace
		if left, ok := deadline.Remaining(ctx); ok && ctx.Err() == nil {
			wait = max(left, grace)
		}
		if err := c.spool.put(b, wait); err != nil {
			c.r.lost(b, spoolReason(err), errors.Join(cause, err))
			return
		}
		c.m.spooled.Add(b.Len())
	default:
		if ok, closed := c.q.adopt(b); !ok {
			why, err := c.overflow(closed)
			c.r.lost(b, why, errors.Join(cause, err))
		}
	}
}

func spoolReason(err error) Reason {
	switch {
	case errors.Is(err, ErrClosed):
		return Stopped
	case errors.Is(err, errSpoolFull):
		return SpoolFull
	case errors.Is(err, errSpoolTimeout):
		return SpoolTimeout
	}
	return SpoolFailed
}

// overflow says why the queue in memory accepts no more.
func (c *Client) overflow(closed bool) (Reason, error) {
	if closed {
		return Stopped, ErrClosed
	}
	if err := c.d.held(); err != nil {
		return reasonOf(err), fmt.Errorf("memory queue full: %w", err)
	}
	return QueueFull, errors.New("memory queue full: events arrive faster than they can be sent")
}

// resolved counts what the server decided, and reports what it refused.
func (c *Client) resolved(s *settlement) {
	c.m.count(&s.Tally)
	for _, r := range s.Refused {
		c.r.one(r.From.origin, Permanent, r.Code, fmt.Errorf("%s: %s", r.Code, r.Detail), r.JSON)
	}
}

// deliver brings b to the server on behalf of nobody who waits.
func (c *Client) deliver(ctx context.Context, b *batch) (rest *batch, err error) {
	var s settlement
	rest, err = c.d.sender.Deliver(ctx, b, &s)
	c.resolved(&s)
	return rest, err
}

// SendAsync queues an event and returns at once, without waiting for network or disk.
// The event is lost if the application crashes within the next moments. It reports
// whether the event was queued; what was not is counted already, so that most callers
// need not care. The event's slices are not kept.
func (c *Client) SendAsync(e Event) bool { return c.enqueue(&e, FromAsync) }

func (c *Client) enqueue(e *Event, from Origin) bool {
	buf := c.scratch.Get().(*[]byte)
	defer c.scratch.Put(buf)
	*buf = c.encode((*buf)[:0], e)
	line := *buf
	if len(line) > maxEventBytes {
		*buf = nil
		e := tooLarge(len(line))
		c.r.one(from, Permanent, e.Code, errors.New(e.Detail), line)
		return false
	}
	ok, closed := c.q.add(line, from)
	if !ok {
		why, err := c.overflow(closed)
		c.r.one(from, why, "", err, line)
	}
	return ok
}

// Flush waits until all that was queued before is out of memory: acknowledged, in the
// spool, or counted as lost. The error is that of ctx.
func (c *Client) Flush(ctx context.Context) error {
	if err := c.q.flush(ctx); err != nil {
		return fmt.Errorf("flush events: %w", err)
	}
	return nil
}

// Status is what a health page of the application could show.
type Status struct {
	Breaker     breaker.Status
	Paused      time.Duration // that the server asked for
	QueueEvents int           // in memory
	QueueBytes  int
	SpoolBytes  int64 // on disk and not sent yet
	SpoolError  error // why there is no spool at present, though one was asked for
}

// Status tells the present state.
func (c *Client) Status() Status {
	used, _ := c.q.state()
	st := Status{Breaker: c.d.breaker.Status(), Paused: c.d.pauseLeft(), QueueEvents: used.events, QueueBytes: used.bytes}
	if c.spool != nil {
		st.SpoolBytes, st.SpoolError = c.spool.status()
	}
	return st
}
