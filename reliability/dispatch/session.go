package dispatch

import (
	"context"
	"fmt"
	"sort"
	"sync"
	"time"
)

// This file is the loop of a lane: one goroutine that hands batches to workers, receives them when they are done,
// moves the cursor, and saves it. Workers never touch the session: they report through results.

// session reads the log from the cursor on disk and delivers it in batches, until ctx ends or an error makes the lane
// start over at the cursor on disk. It owns the cursor in memory (lane.next).
//
// Everything but the channels and contexts belongs to the goroutine of loop, which is the lane's. A batch belongs to
// its worker from fly until the worker sends it to results.
//
// Between two turns of the loop, everything before lane.next is final, every batch in flying lies behind it, in
// order and without a gap, and the batch that is filling lies behind those.
type session struct {
	l       *lane
	feed    feed
	waiter  waiter
	flying  []*batch    // in flight or done behind one that is, in log order; at most Bulkhead.Concurrency
	results chan *batch // from the workers; has room for all of flying, so that a worker never blocks on it
	// waits ends everything but calls in flight: backoff, permits, the wait for the log. calls ends those too. Two
	// contexts, because a call that is cut off says nothing about its items and makes duplicates.
	waits, calls             context.Context
	cancelWaits, cancelCalls context.CancelFunc
	workers                  sync.WaitGroup // of the waiter and the batches in flight
	since                    uint64         // failed flushes before it began, see lane.flush
}

// session runs one. The error is why it ended early; nil if ctx ended.
//
// An early end cuts off calls in flight, because a session that has lost its place in the log must not leave
// workers behind that could finish items of the next one.
func (l *lane) session(ctx context.Context) (err error) {
	r, at, err := l.open()
	if err != nil {
		return err
	}
	// last is one below the cursor, so that the first wait for the log returns at once if there is anything to read.
	s := &session{
		l: l, feed: feed{l: l, r: r, pos: at, last: max(at.Seq, 1) - 1}, results: make(chan *batch, l.o.Bulkhead.Concurrency),
		waiter: waiter{ask: make(chan uint64, 1), grew: make(chan error, 1)}, since: l.failedFlushes(),
	}
	// Back to the cursor on disk: the items that the session before had in memory are sent again.
	l.mu.Lock()
	l.next = at
	l.mu.Unlock()
	// calls does not end with ctx, so that calls in flight may finish while the lane drains. end cuts them off when
	// DrainTimeout has passed.
	s.waits, s.cancelWaits = context.WithCancel(ctx)
	s.calls, s.cancelCalls = context.WithCancel(context.WithoutCancel(ctx))
	s.workers.Go(func() { s.waiter.run(s.waits, l.d.o.Source) })
	defer func() {
		s.end(ctx.Err() != nil, err == nil)
		if cerr := r.Close(); err == nil {
			err = cerr
		}
	}()
	return s.loop(ctx)
}

// loop is the only place that blocks on the session's behalf: for a batch that is done, for the log to grow, for a
// batch to be due, for the time to save.
//
// A nil error means that ctx has ended. feedAll comes before every wait, so no batch that could go is left lying.
func (s *session) loop(ctx context.Context) error {
	tick := time.NewTicker(s.l.d.o.SaveInterval)
	defer tick.Stop()
	linger := time.NewTimer(time.Hour)
	defer linger.Stop()
	s.measure()
	for {
		wait, err := s.feedAll()
		if err != nil {
			return err
		}
		// A timer that fires without need costs one more turn of the loop, so it is never stopped.
		if wait > 0 {
			linger.Reset(wait)
		}
		select {
		case b := <-s.results:
			s.returned(b)
		case err := <-s.waiter.grew:
			s.waiter.busy, s.feed.atEnd = false, false
			if err != nil {
				return err
			}
		case <-linger.C:
		case <-tick.C:
			if err := s.tick(ctx); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// feedAll starts batches while fewer than Concurrency are in flight. wait is when the next one is due, 0 if nothing
// waits for company.
//
// Beside the batches in flight there is only the one that is filling. That bounds the memory of a sink.
func (s *session) feedAll() (wait time.Duration, err error) {
	for s.waits.Err() == nil {
		if err := s.feed.fill(); err != nil {
			return 0, err
		}
		if len(s.flying) == 0 && len(s.feed.batch) == 0 && len(s.feed.unreadable) == 0 {
			s.advance(s.feed.pos) // over records without items, or they would retain the log
		}
		// One request at a time, and no request while a full batch waits for its turn: that one is sent before more is
		// read.
		if s.feed.atEnd && !s.waiter.busy && !s.feed.full {
			s.waiter.busy = true
			s.waiter.ask <- s.feed.last
		}
		if len(s.flying) >= s.l.o.Bulkhead.Concurrency {
			return 0, nil
		}
		due, wait := s.feed.due(time.Now())
		if !due {
			return wait, nil
		}
		s.fly(s.feed.take())
	}
	return 0, nil
}

// fly hands a batch to a worker.
func (s *session) fly(b *batch) {
	s.flying = append(s.flying, b) // in the order of the log, which returned relies on
	s.count()
	s.workers.Go(func() {
		b.done = s.l.deliver(s.waits, s.calls, b)
		s.results <- b // never blocks
	})
}

// returned accepts a batch from its goroutine and moves the cursor over the batches at the front that are done. One
// that is done behind one in flight has to wait: after a crash, delivery starts at the cursor, so everything before it
// must be final.
func (s *session) returned(b *batch) {
	b.returned = b.done
	at := 0
	for at < len(s.flying) && s.flying[at].returned {
		at++
	}
	if at > 0 {
		s.advance(s.flying[at-1].end)
		clear(s.flying[:at]) // or the array would keep the items alive
		s.flying = append(s.flying[:0], s.flying[at:]...)
	}
	s.count()
}

// advance moves the cursor in memory, never backwards.
func (s *session) advance(to Cursor) {
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	if s.l.next.before(to) {
		s.l.next = to
	}
}

// count publishes the number of batches in flight.
func (s *session) count() {
	s.l.mu.Lock()
	s.l.inFlight = len(s.flying)
	s.l.mu.Unlock()
}

// tick saves the cursor and enforces the lag bound.
//
// It runs every SaveInterval, which is therefore about how much a crash sends again.
func (s *session) tick(ctx context.Context) error {
	l := s.l
	if err := l.save(ctx, s.since); err != nil {
		return err // the next session sends unflushed items again
	}
	s.measure()
	return s.jump(ctx)
}

// jump skips a log range if the sink is further behind than MaxLagBytes. First the caller makes the range safe, then
// the workers stop, then the cursor moves: a crash at any point repeats the jump, and never loses the range.
//
// Consequences of another order: a cursor that is saved before OnLag has returned loses the range in a crash.
// A cursor that moves while workers run lets their items end twice, as dead letters and in the range.
func (s *session) jump(ctx context.Context) error {
	l, src := s.l, s.l.d.o.Source
	l.mu.Lock()
	from := l.next.Seq
	l.mu.Unlock()
	most := l.o.MaxLagBytes
	if most == 0 || src.SizeFrom(from) <= most {
		return nil
	}
	if c, ok := l.o.Sink.(Collector); ok {
		if held, ok := c.Held(); ok {
			from = min(from, held.Seq)
		}
	}
	// Only durable records can be retained. Those behind them are new, and not part of the lag.
	durable := src.DurableSeq()
	if durable < from {
		return nil
	}
	// The first record behind which at most half of the bound is left, so that a sink that stays slow is not skipped on
	// every tick.
	n := sort.Search(int(durable-from), func(i int) bool { return src.SizeFrom(from+uint64(i)+1) <= most/2 })
	to := min(from+uint64(n), durable)
	if err := l.d.o.OnLag(ctx, l.o.Name, from, to); err != nil {
		l.failed(TroubleLag, fmt.Errorf("retain records %d to %d: %w", from, to, err))
		return nil // the sink keeps lagging, and nothing is lost
	}
	l.recovered(TroubleLag)
	// No worker may be left when the cursor jumps: an item that fails afterwards would become a dead letter of its own,
	// beside the range that holds it.
	s.cancelWaits()
	s.cancelCalls()
	s.workers.Wait()
	if c, ok := l.o.Sink.(Collector); ok {
		c.Drop() // the range begins before it
	}
	if !l.saveAt(Cursor{Seq: to + 1}) {
		return errAgain
	}
	l.m.skipped.Add(int(to - from + 1))
	l.log.Warn("sink exceeded max_lag_bytes, records skipped", "from", from, "to", to)
	return errAgain
}

// end waits for the workers and saves the cursor. With drain, calls in flight have DrainTimeout to finish. Without
// save, an error has made the sink's content uncertain, so the cursor stays where it is.
//
// It returns when no worker is left. Batches that are unfinished by then are simply forgotten: they lie behind
// the cursor.
func (s *session) end(drain, save bool) {
	// First the waits: a worker that is between two calls returns at once, with its batch unfinished.
	s.cancelWaits()
	if drain {
		timer := time.AfterFunc(s.l.d.o.DrainTimeout, s.cancelCalls)
		defer timer.Stop()
	} else {
		s.cancelCalls()
	}
	s.workers.Wait()
	s.cancelCalls() // releases the context's resources; no call is left
	// The workers have put their batches into results, which has room for all. Batches that finished during the drain
	// still move the cursor, or they would be sent again after the restart.
	for len(s.results) > 0 {
		s.returned(<-s.results)
	}
	s.flying = nil
	s.count()
	// After an error of the log or a failed flush the cursor in memory may be ahead of the sink's durable position.
	if !drain || !save {
		return
	}
	if err := s.l.save(context.WithoutCancel(s.waits), s.since); err != nil {
		s.l.log.Error("save cursor at shutdown failed", "error", err)
	}
}
