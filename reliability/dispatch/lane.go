package dispatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/sloengine/sloengine/reliability/breaker"
	"github.com/sloengine/sloengine/reliability/bulkhead"
	"github.com/sloengine/sloengine/reliability/deadline"
	"github.com/sloengine/sloengine/reliability/health"
	"github.com/sloengine/sloengine/reliability/retry"
	"github.com/sloengine/sloengine/reliability/wal"
)

// This file is the lane of one sink: its policies, its cursor on the disk, and the order of flush and save that
// the promise "at least once" rests on. Reading and cutting batches is in feed.go, the loop around them in
// session.go, a batch's life in deliver.go.

// lane delivers the log to one sink. Its goroutine (run) opens one session after the other. Batches of the session are
// delivered by goroutines of their own, at most Bulkhead.Concurrency at a time, and Deliver may call the sink beside
// them.
//
// Positions are ordered: durable <= next <= the position of the feed. The first difference is sent again after
// a crash, the second is in flight. Only a jump moves durable ahead of next, and ends the session at once.
type lane struct {
	// Fixed by newLane and never written again.
	d   *Dispatcher
	o   SinkOptions
	m   *series
	log *slog.Logger

	// Policies, each safe for concurrent use. They outlive sessions: a log that had to be opened again must not reset
	// the breaker or give the sink a fresh retry budget.
	policy   *retry.Policy
	budget   Budget
	limit    *retry.Limit
	breaker  *breaker.Breaker
	bulkhead *bulkhead.Bulkhead
	timeout  deadline.Step
	stages   stages

	// gate is held while a batch takes permits from limit and stages. Both are taken together: a permit of one that was
	// taken while the other refuses would be lost.
	gate sync.Mutex
	// flushing is held during Sink.Flush, so that its result can be assigned to everything that was sent before it.
	flushing sync.Mutex

	cancel context.CancelFunc // ends run; guarded by Dispatcher.mu; nil before it runs
	gone   chan struct{}      // closed when run has returned and the sink is closed

	troubles map[string]*health.Tracker // by kind

	// mu guards the fields below. It is held to copy or set fields, never during I/O or a call to the sink.
	mu          sync.Mutex
	durable     Cursor    // as it is on disk; after the start written by saveAt only
	next        Cursor    // everything before it is delivered, dropped or a dead letter; written by the session
	pausedUntil time.Time // no call before; from Retry-After
	inFlight    int       // batches
	tally       tally
	sums        map[string]sums // counts that are logged at most once a minute
	// flushesFailed counts failed flushes, flushErr is the last of them. A sink reports a failed sync once, to the next
	// flush, but everything sent before may be lost: items of the lane and of replays. So each of them notes the
	// counter before it sends, and compares it after its own flush.
	flushesFailed uint64
	flushErr      error
}

// newLane validates the options and builds the policies. It starts nothing and touches no disk.
//
// All errors of the policies are reported together.
func newLane(d *Dispatcher, o SinkOptions) (*lane, error) {
	o.applyDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	l := &lane{d: d, m: d.o.Metrics.lanes.Of(o.Name), log: d.o.Logger.With("sink", o.Name), gone: make(chan struct{}),
		troubles: newTroubles(), sums: map[string]sums{}}
	if o.MaxLagBytes > 0 && d.o.OnLag == nil {
		return nil, fmt.Errorf("sink %q: max_lag_bytes needs OnLag, which retains the skipped log range", o.Name)
	}
	var failed error
	take := func(e error) {
		if e != nil {
			failed = errors.Join(failed, fmt.Errorf("sink %q: %w", o.Name, e))
		}
	}
	policy, err := retry.New(o.Retry)
	take(err)
	l.policy = policy
	budget, err := retry.NewBudget(orDefault(o.Budget))
	take(err)
	l.budget = budget
	if o.Sharing != nil && err == nil {
		l.budget = o.Sharing.Budget(budget)
	}
	l.limit, err = retry.NewLimit(orDefault(o.RetryLimit))
	take(err)
	b := o.Breaker
	b.Name, b.Metrics = o.Name, d.o.Metrics.breakers
	if c, ok := o.Sink.(Checker); ok && b.Health == nil {
		b.Health = c.Check
		if c, ok := c.(interface{ HealthCloses() bool }); ok {
			b.HealthCloses = b.HealthCloses || c.HealthCloses()
		}
	}
	// The lane's own reaction comes first, so that the stages are active before the caller learns of the change.
	told := b.OnChange
	b.OnChange = func(from, to breaker.State, reason string) {
		l.breakerChanged(from, to, reason)
		if o.Sharing != nil {
			o.Sharing.Changed(from, to, reason)
		}
		if told != nil {
			told(from, to, reason)
		}
	}
	l.breaker, err = breaker.New(b)
	take(err)
	h := o.Bulkhead
	h.Name, h.Metrics = o.Name, d.o.Metrics.bulkheads
	l.bulkhead, err = bulkhead.New(h)
	take(err)
	if failed != nil {
		return nil, failed
	}
	if most, ok := o.RateLimit.(interface{ Most() int }); ok && o.LimitItems {
		o.BatchItems = min(o.BatchItems, most.Most()) // a larger batch would never get its permits
	}
	l.o = o
	d.o.Metrics.bound(o.Name, o.MaxLagBytes)
	l.timeout = deadline.Step{Limit: o.Timeout, Reserve: ttlReserve, Metrics: d.o.Metrics.deadlines}
	l.stages.o = o.Staged
	return l, nil
}

func orDefault[T any](o *T) (v T) {
	if o != nil {
		v = *o
	}
	return v
}

// locate reads the cursor, or creates one. It must be durable before the sink counts as added: otherwise a crash would
// forget which records the sink was promised.
//
// No other goroutine knows the lane yet, so the fields are set without mu.
func (l *lane) locate() error {
	at, ok, err := l.d.cursors.load(l.o.Name)
	if err != nil {
		return err
	}
	if !ok {
		at = Cursor{Seq: l.d.o.Source.FirstSeq()}
		if l.o.Start == Newest {
			at = Cursor{Seq: l.d.o.Source.DurableSeq() + 1}
		}
		if err := l.d.cursors.save(l.o.Name, at); err != nil {
			return err
		}
	}
	l.durable, l.next = at, at
	return nil
}

// saved is the cursor on the disk.
func (l *lane) saved() Cursor {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.durable
}

// run opens one session after the other, each starting at the cursor on disk, until ctx ends. It closes the sink.
//
// An error of a session is never the end of the lane: the log stays where it is, so trying again after
// SaveInterval loses nothing.
func (l *lane) run(ctx context.Context) {
	defer l.closeSink() // last: after the session's calls and the health checks
	if o, ok := l.o.Sink.(*opening); ok {
		if _, err := o.ready(); err != nil {
			l.failed(TroubleDelivery, err) // reported before there is anything to deliver
		}
	}
	if l.o.Sharing != nil {
		defer l.o.Sharing.Join(l.breaker)()
	}
	var health sync.WaitGroup
	health.Go(func() { _ = l.breaker.Run(ctx) })
	defer health.Wait()
	for ctx.Err() == nil {
		err := l.session(ctx)
		switch {
		case ctx.Err() != nil:
		case err == nil || errors.Is(err, errAgain):
			continue
		default:
			// The pause below keeps a log that cannot be read, or a sink that cannot flush, from being tried in a loop.
			kind := TroubleRead
			if flush := (*flushError)(nil); errors.As(err, &flush) {
				kind = TroubleFlush
			}
			l.failed(kind, err)
		}
		if !retry.Sleep(ctx, l.d.o.SaveInterval) {
			return
		}
	}
}

// errAgain ends a session because its cursor was moved. The next one starts without a pause.
var errAgain = errors.New("restart at the cursor on disk")

// open opens the log at the cursor. Records that are no longer in the log cannot be delivered: they are counted and
// logged, and the lane continues with the oldest record. Waiting for them would stop the sink forever.
//
// The cursor that it returns is where the session begins. The one on the disk is corrected by the next save.
func (l *lane) open() (*wal.Reader, Cursor, error) {
	at := l.saved()
	r, err := l.d.o.Source.NewReader(at.Seq)
	if err == nil {
		l.recovered(TroubleRead)
	}
	if err == nil || !errors.Is(err, wal.ErrTruncated) && !errors.Is(err, wal.ErrAhead) {
		return r, at, err
	}
	first := l.d.o.Source.FirstSeq()
	if first > at.Seq {
		l.m.missed.Add(int(first - at.Seq))
	}
	l.noteError(err)
	l.log.Error("records missing from the log, continuing with the oldest",
		"next", at.Seq, "oldest", first, "error", err)
	r, err = l.d.o.Source.NewReader(first)
	return r, Cursor{Seq: first}, err
}

// save flushes the sink and then saves the cursor, in this order: a cursor on disk must never be ahead of the sink's
// durable position. since is failedFlushes at the start of the session.
//
// next is copied before the flush: items that are finished while it runs may not be part of it.
func (l *lane) save(ctx context.Context, since uint64) error {
	l.mu.Lock()
	at, durable := l.next, l.durable
	l.mu.Unlock()
	// Flush even if the cursor has not moved: it detects a sink that became unavailable before events arrive.
	if err := l.flush(ctx, since); err != nil {
		return err
	}
	if c, ok := l.o.Sink.(Collector); ok {
		if held, ok := c.Held(); ok && held.before(at) {
			at = held
		}
	}
	if at != durable {
		l.saveAt(at)
	}
	return nil
}

// failedFlushes is the counter that a caller of flush notes before it sends.
func (l *lane) failedFlushes() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.flushesFailed
}

// flush makes the items sent to the sink durable. It also fails if another flush failed since the counter was since:
// that flush received the error, and this caller's items may be among the lost ones.
//
// A sink that is no Flusher is durable when Send has returned, as far as anybody can know. The error is always a
// *flushError.
func (l *lane) flush(ctx context.Context, since uint64) error {
	f, ok := l.o.Sink.(Flusher)
	if !ok {
		return nil
	}
	// The session and replays flush the same sink. One at a time, because Flusher does not have to be safe beside itself.
	l.flushing.Lock()
	defer l.flushing.Unlock()
	limited, cancel := context.WithTimeout(ctx, l.o.Timeout)
	defer cancel()
	err := f.Flush(limited)
	l.mu.Lock()
	if err != nil {
		l.m.flushErrors.Inc()
		l.flushesFailed++
		l.flushErr = err
	} else if l.flushesFailed != since {
		err = l.flushErr
	}
	l.mu.Unlock()
	if err != nil {
		return &flushError{err}
	}
	l.recovered(TroubleFlush)
	return nil
}

// flushError distinguishes a failed flush from a log that cannot be read, for the status.
type flushError struct{ error }

func (e *flushError) Error() string { return "flush: " + e.error.Error() }
func (e *flushError) Unwrap() error { return e.error }

// saveAt saves the cursor and reports whether it could. A failure is no reason to stop: the old cursor is still valid,
// and costs duplicates after a crash only.
func (l *lane) saveAt(at Cursor) bool {
	if err := l.d.cursors.save(l.o.Name, at); err != nil {
		l.m.cursorErrors.Inc()
		l.failed(TroubleCursor, err)
		return false
	}
	// After the file is synced and not before: Lowest reads durable, and its owner deletes the log below it.
	l.recovered(TroubleCursor)
	l.mu.Lock()
	l.durable = at
	l.mu.Unlock()
	return true
}
