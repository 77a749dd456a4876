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
	"github.com/sloengine/sloengine/reliability/retry"
	"github.com/sloengine/sloengine/reliability/wal"
)

// lane is the way to one sink.
type lane struct {
	d   *Dispatcher
	o   SinkOptions
	m   *series
	log *slog.Logger

	policy   *retry.Policy
	budget   *retry.Budget
	limit    *retry.Limit
	breaker  *breaker.Breaker
	bulkhead *bulkhead.Bulkhead
	timeout  deadline.Step
	stages   stages
	gate     sync.Mutex // one batch at a time takes from limit and stages
	flushing sync.Mutex // one Flush at a time

	cancel context.CancelFunc // guarded by Dispatcher.mu; nil before it runs
	gone   chan struct{}

	mu       sync.Mutex
	durable  Cursor    // as it is on disk
	next     Cursor    // all before it is delivered or kept elsewhere
	hold     time.Time // no call before; what the sink asked for
	inFlight int
	tally    tally
	troubles map[string]*trouble // by kind
	sums     map[string]sums     // what is told now and then
	// flushes that failed: a sink tells of it once, but what was sent before may be gone
	// for the lane and for replays alike.
	flushesFailed uint64
	flushErr      error // the last of them
}

func newLane(d *Dispatcher, o SinkOptions) (*lane, error) {
	o.applyDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	l := &lane{d: d, m: d.o.Metrics.of(o.Name), log: d.o.Logger.With("sink", o.Name), gone: make(chan struct{}),
		troubles: map[string]*trouble{}, sums: map[string]sums{}}
	if o.MaxLagBytes > 0 && d.o.OnLag == nil {
		return nil, fmt.Errorf("sink %q: max_lag_bytes without a place to keep what is skipped", o.Name)
	}
	var err, failed error
	take := func(e error) {
		if e != nil {
			failed = errors.Join(failed, fmt.Errorf("sink %q: %w", o.Name, e))
		}
	}
	if l.policy, err = retry.New(o.Retry); err != nil {
		take(err)
	}
	if l.budget, err = retry.NewBudget(orDefault(o.Budget)); err != nil {
		take(err)
	}
	if l.limit, err = retry.NewLimit(orDefault(o.RetryLimit)); err != nil {
		take(err)
	}
	b := o.Breaker
	b.Name, b.Metrics = o.Name, d.o.Metrics.breakers
	if c, ok := o.Sink.(Checker); ok && b.Health == nil {
		b.Health = c.Check
		if c, ok := c.(interface{ HealthCloses() bool }); ok {
			b.HealthCloses = b.HealthCloses || c.HealthCloses()
		}
	}
	told := b.OnChange
	b.OnChange = func(from, to breaker.State, reason string) {
		l.breakerChanged(from, to, reason)
		if told != nil {
			told(from, to, reason)
		}
	}
	if l.breaker, err = breaker.New(b); err != nil {
		take(err)
	}
	h := o.Bulkhead
	h.Name, h.Metrics = o.Name, d.o.Metrics.bulkheads
	if l.bulkhead, err = bulkhead.New(h); err != nil {
		take(err)
	}
	if failed != nil {
		return nil, failed
	}
	if most, ok := o.RateLimit.(interface{ Most() int }); ok && o.LimitItems {
		o.BatchItems = min(o.BatchItems, most.Most()) // else no call would ever keep within the limit
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

// locate finds the cursor, or makes one that is durable before the sink counts as added.
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

func (l *lane) saved() Cursor {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.durable
}

// run has one session after the other, each beginning at the cursor on disk.
func (l *lane) run(ctx context.Context) {
	defer l.closeSink()
	if o, ok := l.o.Sink.(*opening); ok {
		if _, err := o.ready(); err != nil {
			l.ail(TroubleDelivery, err) // told at once, before there is anything to deliver
		}
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
			kind := TroubleRead
			if flush := (*flushError)(nil); errors.As(err, &flush) {
				kind = TroubleFlush
			}
			l.ail(kind, err)
		}
		if !retry.Sleep(ctx, l.d.o.SaveInterval) {
			return
		}
	}
}

// errAgain ends a session whose cursor was moved.
var errAgain = errors.New("start again at the cursor on disk")

// open opens the log at the cursor. What is no longer there cannot be delivered: that
// is told, counted and left behind.
func (l *lane) open() (*wal.Reader, Cursor, error) {
	at := l.saved()
	r, err := l.d.o.Source.NewReader(at.Seq)
	if err == nil {
		l.mend(TroubleRead)
	}
	if err == nil || !errors.Is(err, wal.ErrTruncated) && !errors.Is(err, wal.ErrAhead) {
		return r, at, err
	}
	first := l.d.o.Source.FirstSeq()
	if first > at.Seq {
		l.m.missed.Add(int(first - at.Seq))
	}
	l.failed(err)
	l.log.Error("the log does not have the records that the sink is to get next; going on with the oldest",
		"next", at.Seq, "oldest", first, "error", err)
	r, err = l.d.o.Source.NewReader(first)
	return r, Cursor{Seq: first}, err
}

// save makes the cursor durable, after what it stands for is: all that was sent after the
// given number of failed flushes.
func (l *lane) save(ctx context.Context, since uint64) error {
	l.mu.Lock()
	at, durable := l.next, l.durable
	l.mu.Unlock()
	// With nothing to save, too: it tells of a sink that is gone before events come.
	if err := l.flush(ctx, since); err != nil {
		return err
	}
	if at != durable {
		l.saveAt(at)
	}
	return nil
}

// failedFlushes is what flush wants to know of the time before a call.
func (l *lane) failedFlushes() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.flushesFailed
}

// flush makes durable what the sink was sent since there were so many failed flushes. It
// fails, too, if somebody else's flush failed meanwhile.
func (l *lane) flush(ctx context.Context, since uint64) error {
	f, ok := l.o.Sink.(Flusher)
	if !ok {
		return nil
	}
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
	l.mend(TroubleFlush)
	return nil
}

// flushError says that a sink could not make durable what it has taken.
type flushError struct{ error }

func (e *flushError) Error() string { return "flush: " + e.error.Error() }
func (e *flushError) Unwrap() error { return e.error }

// saveAt only reports a failure: the old cursor still stands and is as good, but for
// repeats.
func (l *lane) saveAt(at Cursor) bool {
	if err := l.d.cursors.save(l.o.Name, at); err != nil {
		l.m.cursorErrors.Inc()
		l.ail(TroubleCursor, err)
		return false
	}
	l.mend(TroubleCursor)
	l.mu.Lock()
	l.durable = at
	l.mu.Unlock()
	return true
}
