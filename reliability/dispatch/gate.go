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

// This file holds the steps between a batch and the sink: the checks that a batch waits for (admit), the call
// with breaker permit, bulkhead place, timeout and panic guard (call, send), and the stages of a recovery.

// recheckExpiry is the longest that a waiting batch sleeps before it checks again whether its items have expired.
//
// Without it an item could expire in the middle of a long pause and become a dead letter much later.
const recheckExpiry = time.Second

// admit waits until some of the items may be sent and returns how many. If how is not Delay, it is the treatment of
// all of them instead. ok is false if waits ended.
//
// The checks run from those that take nothing (age, Retry-After, breaker) to those that take permits (retry rate limit,
// recovery stages, outbound limit). A batch that waits for a breaker must not hold permits that others could use, nor
// save them up and use them all at once.
func (d *delivery) admit(todo *pending, round int) (n int, how retry.Exceed, ok bool) {
	l := d.l
	for {
		if d.waits.Err() != nil || !d.expire(todo, round) {
			return 0, retry.Delay, false
		}
		if len(todo.items) == 0 {
			return 0, retry.Delay, true
		}
		// A pause holds for all batches of the lane: a sink that asks one call to come back later means all of them.
		if wait := l.pauseLeft(); wait > 0 {
			if !retry.Sleep(d.waits, min(wait, recheckExpiry)) {
				return 0, retry.Delay, false
			}
			continue
		}
		// Ready takes no permit. Only call does, so that a probe is not used up by a batch that then waits for a rate limit.
		if ready, wait, changed := l.breaker.Ready(); !ready {
			if !retry.SleepOr(d.waits, min(wait, recheckExpiry), changed) {
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
			if !retry.Sleep(d.waits, min(wait, recheckExpiry)) {
				return 0, retry.Delay, false
			}
			continue
		}
		if err := l.outbound(d.waits, n); err != nil {
			if d.waits.Err() != nil {
				return 0, retry.Delay, false
			}
			l.m.outboundLimited.Inc()
			l.noteError(err)
			// A limiter that fails immediately must not be called in a tight loop.
			if !retry.Sleep(d.waits, 50*time.Millisecond) {
				return 0, retry.Delay, false
			}
			continue
		}
		return n, retry.Delay, true
	}
}

// turns takes permits for up to all of the items: of the retry rate limit, from the second round on, and of the
// recovery stages. limited says that the retry rate limit is used up.
//
// n may be less than the number of items: the rest waits for the next permits. First attempts are not charged to
// the retry rate limit.
func (l *lane) turns(items []Item, round int) (n int, wait time.Duration, limited bool) {
	l.gate.Lock()
	defer l.gate.Unlock()
	now := time.Now()
	n = len(items)
	// Free asks without taking: permits that stages then refuse must not be charged to the retry rate limit. gate makes
	// the two steps one.
	if round > 0 {
		n, wait = l.limit.Free(now, n)
		if n == 0 {
			l.limit.Take(now, 1) // it gets no permit, and is counted
			return 0, wait, true
		}
	}
	if n, wait = l.stages.take(now, n); n > 0 && round > 0 {
		l.limit.Take(now, n)
	}
	return n, wait, false
}

// outbound waits for the sink's own rate limit, for one unit or with LimitItems one per item.
//
// Units stay taken if the call is then refused on this side, so the sink gets less than the limit and never more.
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

// expire makes dead letters of the items that are older than TTL. It returns false if waits ended.
//
// The age of an item counts from Item.Time, when the engine received it. An item that expires during its last
// call counts by the outcome of that call.
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
	if !d.deadLetter(old, ReasonExpired, round) {
		return false
	}
	*todo = rest
	return true
}

// pauseLeft is the remainder of the pause that the sink requested.
func (l *lane) pauseLeft() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pausedUntil.IsZero() {
		return 0
	}
	return time.Until(l.pausedUntil)
}

// refusedHere reports whether a call was refused by a policy on this side, before it was made: no attempt took place.
//
// The items of such a call go back without an attempt being counted, and their class says nothing about the sink.
func refusedHere(err error) bool {
	var open *breaker.OpenError
	var full *bulkhead.FullError
	return errors.As(err, &open) || errors.As(err, &full) || errors.Is(err, errRefusedHere)
}

// errRefusedHere marks a call that ended before the sink was reached, for another reason than breaker or
// bulkhead.
var errRefusedHere = errors.New("stopped before the call")

// call makes one call through breaker, bulkhead and timeout. waits ends the wait for a place in the bulkhead, calls
// ends the call itself. past ends it too, unless zero: then the oldest item has expired.
//
// Permits are taken from the outside in, breaker before bulkhead: a batch that waits for a place in the bulkhead
// while the breaker is open would hold up those behind it for nothing. No lock is held during the call.
func (l *lane) call(waits, calls context.Context, items []Item, past time.Time) Result {
	permit, err := l.breaker.Acquire()
	if err != nil {
		return Result{Err: err}
	}
	// Every path from here on must give the permit back with an outcome, or a half-open breaker would wait for it. A
	// call that never reached the sink is Ignored: it says nothing about the sink.
	if err := l.bulkhead.Acquire(waits); err != nil {
		permit.Done(breaker.Ignored)
		if waits.Err() != nil {
			err = fmt.Errorf("%w: %w", errRefusedHere, err)
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
		return Result{Err: fmt.Errorf("%w: %w", errRefusedHere, err)}
	}
	defer cancel()
	start := time.Now()
	result := l.send(ctx, items)
	result.took = time.Since(start)
	l.m.seconds.Update(result.took.Seconds())
	if result.Err != nil && probe.Err() == nil && ctx.Err() != nil && !past.IsZero() && time.Until(past) <= ttlReserve {
		l.m.failures[retry.ClassOf(result.Err)].Inc()
		permit.Done(breaker.Ignored) // the items left it less time than a call gets, which says nothing about the sink
		return result
	}
	l.judge(permit, calls, result, len(items))
	return result // the place in the bulkhead is released by send
}

// ttlReserve is subtracted from the time to live, for the way to the sink.
//
// A call that begins with less than that left is not made.
const ttlReserve = 20 * time.Millisecond

// past is when the first of the items expires; zero without a TTL.
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

// judge reports the outcome of a call to the breaker, the metrics and the status.
//
// Items that the sink refuses one by one are a success for the breaker: the sink is up and answers. Each permit
// is returned once.
func (l *lane) judge(permit breaker.Permit, calls context.Context, r Result, items int) {
	if r.Err == nil {
		if len(r.Failed) >= items { // the sink answers, but refuses every item
			l.failed(TroubleDelivery, r.Failed[0].Err)
		} else {
			l.recovered(TroubleDelivery)
		}
		permit.Done(breaker.Success)
		l.m.succeeded.Inc()
		l.stages.good(time.Now())
		return
	}
	if calls.Err() != nil {
		permit.Done(breaker.Ignored) // the call was cut off here
		return
	}
	l.m.failures[retry.ClassOf(r.Err)].Inc()
	l.failed(TroubleDelivery, r.Err)
	if after, ok := retry.AfterOf(r.Err); ok {
		l.pause(after)
	}
	outcome := breaker.Judge(r.Err)
	if outcome == breaker.Failure {
		l.stages.bad()
	}
	permit.Done(outcome)
}

// pause keeps the whole lane away from the sink.
//
// A later answer can make the pause longer and never shorter. MaxRetryAfter bounds the pause that a sink
// can request.
func (l *lane) pause(d time.Duration) {
	until := time.Now().Add(min(d, l.policy.MaxRetryAfter()))
	l.mu.Lock()
	defer l.mu.Unlock()
	if until.After(l.pausedUntil) {
		l.pausedUntil = until
	}
}

// grace is how long a call may continue after its context ended before it is abandoned.
//
// It is for the way back: a sink that notices the end of its context needs a moment to return.
const grace = time.Second

// send calls the sink in a goroutine and waits for it, at most grace beyond the end of ctx. A sink that ignores its
// context keeps its goroutine and its place in the bulkhead until it returns, and nothing else: that is why send, not
// its caller, releases the place.
func (l *lane) send(ctx context.Context, items []Item) Result {
	done := make(chan Result, 1) // has room, so that a sink that returns after it was abandoned does not block forever
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
		return Result{Err: retry.WithClass(errors.New("sink did not return after its timeout"), retry.ClassTimeout)}
	}
}

// guarded turns a panic of the sink into an error: it is foreign code in the lane.
//
// Its class is unknown, so the items are retried: a panic may depend on a passing state.
func (l *lane) guarded(ctx context.Context, items []Item) (r Result) {
	defer func() {
		if p := recover(); p != nil {
			r = Result{Err: fmt.Errorf("sink panicked: %v", p)}
		}
	}()
	return l.o.Sink.Send(ctx, items)
}

// stages bound the traffic to a sink while it recovers from an outage: from the opening of its breaker until the
// backlog is gone. Without them the whole backlog would hit a sink that has just come back, and break it again.
//
// limit is set from the opening of the breaker to the end of the recovery, and starts at Items per Interval. It
// grows by Growth for each Interval without a failure and falls back to Items with each failure.
type stages struct {
	o Staged // fixed

	mu     sync.Mutex   // guards the fields below; nothing else is taken with it held
	limit  *retry.Limit // nil: no recovery in progress
	closed bool         // the breaker is closed again
	grown  time.Time    // when the limit grew last, zero after a failure
	free   time.Time    // since when every request was granted in full, zero if not
}

// breaker is called when the breaker opens or closes.
func (s *stages) breaker(closed bool) {
	if s.o.Off {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// A breaker that opens again during a recovery keeps the limit as it is. bad has lowered it already.
	s.closed = closed
	if s.limit == nil && !closed {
		s.limit = s.fresh()
	}
}

// fresh makes the limit of a new recovery.
func (s *stages) fresh() *retry.Limit {
	l, err := retry.NewLimit(retry.LimitOptions{PerInterval: s.o.Items, Interval: s.o.Interval})
	if err != nil {
		return nil // the options were checked
	}
	return l
}

// bad is called when a call failed: the limit goes back to its start.
func (s *stages) bad() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.grown = time.Time{}
	if s.limit != nil {
		s.limit.Shrink(s.o.Items)
	}
}

// good is called when a call succeeded: the limit grows once per interval without a failure.
func (s *stages) good(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.limit == nil {
		return
	}
	if s.grown.IsZero() {
		s.grown = now
	}
	// By time and not by calls: a fast sink must not reach its full load within a few milliseconds.
	if now.Sub(s.grown) >= s.o.Interval {
		s.limit.Grow(s.o.Growth, 1_000_000)
		s.grown = now
	}
}

// take asks for n items. The recovery is over once every request was granted in full for two intervals: the sink then
// gets no more than the arriving traffic.
func (s *stages) take(now time.Time, n int) (granted int, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.limit == nil {
		return n, 0
	}
	// One request that is granted in full proves nothing, since batches come in bursts. Two quiet intervals mean that the
	// backlog is gone.
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

// active reports whether a recovery is in progress. A lane without lag has recovered, too.
func (s *stages) active(lag uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.limit != nil && (!s.closed || lag > 0)
}
