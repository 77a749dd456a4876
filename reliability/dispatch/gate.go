package dispatch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sloengine/sloengine/reliability/breaker"
	"github.com/sloengine/sloengine/reliability/bulkhead"
	"github.com/sloengine/sloengine/reliability/retry"
)

// lookAgain is the longest that a waiting batch sleeps before it looks whether its
// items have expired.
const lookAgain = time.Second

// admit waits until some of the items may be sent and says how many. how is what else
// to do with all of them, if it is not Delay. Permission is taken last, when nothing
// else stands in the way, so that what waits for a breaker holds no turns that others
// could use, nor saves up turns to be used all at once.
func (d *delivery) admit(todo *pending, round int) (n int, how retry.Exceed, ok bool) {
	l := d.l
	for {
		if d.waits.Err() != nil || !d.expire(todo, round) {
			return 0, retry.Delay, false
		}
		if len(todo.items) == 0 {
			return 0, retry.Delay, true
		}
		if wait := l.held(); wait > 0 {
			if !retry.Sleep(d.waits, min(wait, lookAgain)) {
				return 0, retry.Delay, false
			}
			continue
		}
		if ready, wait, changed := l.breaker.Ready(); !ready {
			if !sleepOr(d.waits, min(wait, lookAgain), changed) {
				return 0, retry.Delay, false
			}
			continue
		}
		n, wait, limited := l.turns(todo.items, round)
		if limited {
			l.m.limited.Inc()
			if how := l.limit.OnExceed(); how != retry.Delay {
				return 0, how, true
			}
		}
		if n == 0 {
			if !retry.Sleep(d.waits, min(wait, lookAgain)) {
				return 0, retry.Delay, false
			}
			continue
		}
		if err := l.outbound(d.waits, n); err != nil {
			if d.waits.Err() != nil {
				return 0, retry.Delay, false
			}
			l.m.outboundLimited.Inc()
			l.failed(err)
			// A limiter that fails at once must not be asked in a circle.
			if !retry.Sleep(d.waits, 50*time.Millisecond) {
				return 0, retry.Delay, false
			}
			continue
		}
		return n, retry.Delay, true
	}
}

// turns takes turns under the retry limit and the stages of a recovery.
func (l *lane) turns(items []Item, round int) (n int, wait time.Duration, limited bool) {
	l.gate.Lock()
	defer l.gate.Unlock()
	now := time.Now()
	n = len(items)
	if round > 0 {
		n, wait = l.limit.Free(now, n)
		if n == 0 {
			l.limit.Take(now, 1) // to count it
			return 0, wait, true
		}
	}
	if n, wait = l.stages.take(now, n); n > 0 && round > 0 {
		l.limit.Take(now, n)
	}
	return n, wait, false
}

// outbound asks the sink's own rate limit.
func (l *lane) outbound(ctx context.Context, items int) error {
	if l.o.RateLimit == nil {
		return nil
	}
	n := 1
	if l.o.LimitItems {
		n = items
	}
	if err := l.o.RateLimit.Wait(ctx, n); err != nil {
		return fmt.Errorf("outbound rate limit: %w", err)
	}
	return nil
}

// expire moves items that are too old to the dead letters.
func (d *delivery) expire(todo *pending, round int) bool {
	ttl := d.l.o.TTL
	if ttl == 0 {
		return true
	}
	oldest := time.Now().Add(-ttl)
	var old, rest pending
	for i, it := range todo.items {
		var err error
		if todo.errs != nil {
			err = todo.errs[i]
		}
		if it.Time.Before(oldest) {
			old.add(it, err)
		} else {
			rest.add(it, err)
		}
	}
	if len(old.items) == 0 {
		return true
	}
	if !d.bury(old, ReasonExpired, round) {
		return false
	}
	*todo = rest
	return true
}

// held is how long the sink asked us to stay away yet.
func (l *lane) held() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hold.IsZero() {
		return 0
	}
	return time.Until(l.hold)
}

// notMade reports whether a call was refused on this side, before it was made.
func notMade(err error) bool {
	var open *breaker.OpenError
	var full *bulkhead.FullError
	return errors.As(err, &open) || errors.As(err, &full) || errors.Is(err, errNotMade)
}

var errNotMade = errors.New("stopped before the call")

// call makes one call through breaker, bulkhead and time-out. waits ends the wait for
// a place, calls the call itself.
// Past ends it, if it is not zero, as nobody wants the items any more.
func (l *lane) call(waits, calls context.Context, items []Item, past time.Time) Result {
	permit, err := l.breaker.Acquire()
	if err != nil {
		return Result{Err: err}
	}
	if err := l.bulkhead.Acquire(waits); err != nil {
		permit.Done(breaker.Ignored)
		if waits.Err() != nil {
			err = fmt.Errorf("%w: %w", errNotMade, err)
		}
		return Result{Err: err}
	}
	probe, cancelProbe := permit.Context(calls)
	defer cancelProbe()
	if !past.IsZero() {
		var stop context.CancelFunc
		probe, stop = context.WithDeadline(probe, past)
		defer stop()
	}
	ctx, cancel, err := l.timeout.Begin(probe)
	if err != nil {
		l.bulkhead.Release()
		permit.Done(breaker.Ignored)
		return Result{Err: fmt.Errorf("%w: %w", errNotMade, err)}
	}
	defer cancel()
	start := time.Now()
	result := l.send(ctx, items)
	result.took = time.Since(start)
	l.m.seconds.Update(result.took.Seconds())
	if result.Err != nil && probe.Err() == nil && ctx.Err() != nil && !past.IsZero() && time.Until(past) <= ttlReserve {
		l.m.failures[retry.ClassOf(result.Err)].Inc()
		permit.Done(breaker.Ignored) // it had less time than a call gets, which says nothing of the sink
		return result
	}
	l.judge(permit, calls, result, len(items))
	return result
}

// ttlReserve is kept back of the time to live, for the way.
const ttlReserve = 20 * time.Millisecond

// past is when the first of the items gets too old; zero if they never do.
func (l *lane) past(items []Item) (at time.Time) {
	if l.o.TTL == 0 {
		return at
	}
	for i := range items {
		if end := items[i].Time.Add(l.o.TTL); at.IsZero() || end.Before(at) {
			at = end
		}
	}
	return at
}

// judge tells breaker, metrics and status how a call went.
func (l *lane) judge(permit breaker.Permit, calls context.Context, r Result, items int) {
	if r.Err == nil {
		if len(r.Failed) >= items { // an answer, but none that anybody wants
			l.ail(TroubleDelivery, r.Failed[0].Err)
		} else {
			l.mend(TroubleDelivery)
		}
		permit.Done(breaker.Success)
		l.m.succeeded.Inc()
		l.stages.good(time.Now())
		return
	}
	if calls.Err() != nil {
		permit.Done(breaker.Ignored) // we cut it off
		return
	}
	l.m.failures[retry.ClassOf(r.Err)].Inc()
	l.ail(TroubleDelivery, r.Err)
	if after, ok := retry.AfterOf(r.Err); ok {
		l.holdOff(after)
	}
	outcome := breaker.Judge(r.Err)
	if outcome == breaker.Failure {
		l.stages.bad()
	}
	permit.Done(outcome)
}

// holdOff keeps the whole lane away from the sink.
func (l *lane) holdOff(d time.Duration) {
	until := time.Now().Add(min(d, l.policy.MaxRetryAfter()))
	l.mu.Lock()
	defer l.mu.Unlock()
	if until.After(l.hold) {
		l.hold = until
	}
}

// grace is how long a call may go on after its time is over before it is given up.
const grace = time.Second

// send calls the sink and waits for it, but not for ever: a sink that ignores its
// context keeps its place in the bulkhead, and nothing else.
func (l *lane) send(ctx context.Context, items []Item) Result {
	done := make(chan Result, 1)
	go func() {
		defer l.bulkhead.Release()
		done <- l.guarded(ctx, items)
	}()
	select {
	case r := <-done:
		return r
	case <-ctx.Done():
	}
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case r := <-done:
		return r
	case <-t.C:
		l.m.abandoned.Inc()
		return Result{Err: retry.WithClass(errors.New("the sink did not come back after its time was over"), retry.ClassTimeout)}
	}
}

// guarded makes a panic of the sink an error.
func (l *lane) guarded(ctx context.Context, items []Item) (r Result) {
	defer func() {
		if p := recover(); p != nil {
			r = Result{Err: fmt.Errorf("sink panicked: %v", p)}
		}
	}()
	return l.o.Sink.Send(ctx, items)
}

func sleepOr(ctx context.Context, d time.Duration, changed <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-changed:
		return true
	case <-ctx.Done():
		return false
	}
}

// stages bound what a sink gets while it recovers from an outage: from the opening of
// its breaker until it keeps up again.
type stages struct {
	o      Staged
	mu     sync.Mutex
	limit  *retry.Limit // nil: no recovery under way
	closed bool         // the breaker is closed again
	grown  time.Time    // when more was let through last
	free   time.Time    // since when nothing was held back
}

// breaker is called when the breaker opens or closes.
func (s *stages) breaker(closed bool) {
	if s.o.Off {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = closed
	if s.limit == nil && !closed {
		s.limit = s.fresh()
	}
}

func (s *stages) fresh() *retry.Limit {
	l, err := retry.NewLimit(retry.LimitOptions{PerInterval: s.o.Items, Interval: s.o.Interval})
	if err != nil {
		return nil // the options were checked
	}
	return l
}

// bad is called when a call failed: the sink is not well yet.
func (s *stages) bad() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.grown = time.Time{}
	if s.limit != nil {
		s.limit.Shrink(s.o.Items)
	}
}

// good is called when a call succeeded: once per interval more is let through.
func (s *stages) good(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.limit == nil {
		return
	}
	if s.grown.IsZero() {
		s.grown = now
	}
	if now.Sub(s.grown) >= s.o.Interval {
		s.limit.Grow(s.o.Growth, 1_000_000)
		s.grown = now
	}
}

// take asks for n items. The recovery is over once nothing was held back for two
// intervals: what the sink gets then is no more than what comes in.
func (s *stages) take(now time.Time, n int) (granted int, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.limit == nil {
		return n, 0
	}
	granted, wait = s.limit.Take(now, n)
	switch {
	case granted < n || !s.closed:
		s.free = time.Time{}
	case s.free.IsZero():
		s.free = now
	case now.Sub(s.free) >= 2*s.o.Interval:
		s.limit, s.grown, s.free = nil, time.Time{}, time.Time{}
	}
	return granted, wait
}

// active reports whether a recovery is under way. A lane with nothing left to send has
// caught up too.
func (s *stages) active(lag uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.limit != nil && (!s.closed || lag > 0)
}
