package dispatch

import (
	"context"
	"fmt"
	"sort"
	"sync"
	"time"
)

// session reads the log from the cursor on disk and keeps batches on their way, until
// ctx ends or something makes it start again. It owns the cursor in memory.
type session struct {
	l       *lane
	feed    feed
	waiter  waiter
	flying  []*batch // in the order of the log
	results chan *batch
	// waits is cancelled to end everything but calls under way, calls to end those too.
	waits, calls             context.Context
	cancelWaits, cancelCalls context.CancelFunc
	workers                  sync.WaitGroup
	since                    uint64 // failed flushes before it began
}

func (l *lane) session(ctx context.Context) (err error) {
	r, at, err := l.open()
	if err != nil {
		return err
	}
	s := &session{
		l: l, feed: feed{l: l, r: r, pos: at, last: max(at.Seq, 1) - 1}, results: make(chan *batch, l.o.Bulkhead.Concurrency),
		waiter: waiter{ask: make(chan uint64, 1), grew: make(chan error, 1)}, since: l.failedFlushes(),
	}
	l.mu.Lock()
	l.next = at
	l.mu.Unlock()
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
		if wait > 0 {
			linger.Reset(wait)
		}
		select {
		case b := <-s.results:
			s.landed(b)
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

// feedAll starts batches while there is room. wait is when the next one is due.
func (s *session) feedAll() (wait time.Duration, err error) {
	for s.waits.Err() == nil {
		if err := s.feed.fill(); err != nil {
			return 0, err
		}
		if len(s.flying) == 0 && len(s.feed.batch) == 0 && len(s.feed.unreadable) == 0 {
			s.advance(s.feed.pos) // over records that hold nothing for sinks
		}
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

func (s *session) fly(b *batch) {
	s.flying = append(s.flying, b)
	s.count()
	s.workers.Go(func() {
		b.done = s.l.deliver(s.waits, s.calls, b)
		s.results <- b // it has room for all of them
	})
}

// landed takes up a batch that is done, and moves the cursor over all that are.
func (s *session) landed(b *batch) {
	b.landed = b.done
	at := 0
	for at < len(s.flying) && s.flying[at].landed {
		at++
	}
	if at > 0 {
		s.advance(s.flying[at-1].end)
		clear(s.flying[:at])
		s.flying = append(s.flying[:0], s.flying[at:]...)
	}
	s.count()
}

func (s *session) advance(to Cursor) {
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	if s.l.next.before(to) {
		s.l.next = to
	}
}

func (s *session) count() {
	s.l.mu.Lock()
	s.l.inFlight = len(s.flying)
	s.l.mu.Unlock()
}

// tick saves the cursor and looks after the lag.
func (s *session) tick(ctx context.Context) error {
	l := s.l
	if err := l.save(ctx, s.since); err != nil {
		return err // what was not flushed is sent again
	}
	s.measure()
	return s.jump(ctx)
}

// jump skips what the sink lags behind too far.
func (s *session) jump(ctx context.Context) error {
	l, src := s.l, s.l.d.o.Source
	l.mu.Lock()
	from := l.next.Seq
	l.mu.Unlock()
	most := l.o.MaxLagBytes
	if most == 0 || src.SizeFrom(from) <= most {
		return nil
	}
	durable := src.DurableSeq()
	if durable < from {
		return nil
	}
	// The first record from which on what is left fits into half of what is allowed.
	n := sort.Search(int(durable-from), func(i int) bool { return src.SizeFrom(from+uint64(i)+1) <= most/2 })
	to := min(from+uint64(n), durable)
	if err := l.d.o.OnLag(ctx, l.o.Name, from, to); err != nil {
		l.ail(TroubleLag, fmt.Errorf("keep records %d to %d, which the sink skips: %w", from, to, err))
		return nil // it lags on, and nothing is lost
	}
	l.mend(TroubleLag)
	s.stop()
	s.cancelCalls()
	s.workers.Wait()
	if !l.saveAt(Cursor{Seq: to + 1}) {
		return errAgain
	}
	l.m.skipped.Add(int(to - from + 1))
	l.log.Warn("sink lags too far behind and skips records", "from", from, "to", to)
	return errAgain
}

// stop ends all that only waits.
func (s *session) stop() { s.cancelWaits() }

// end lets calls finish, for a while if the lane drains, and saves what was reached,
// unless an error has put that in doubt.
func (s *session) end(drain, save bool) {
	s.stop()
	if drain {
		timer := time.AfterFunc(s.l.d.o.DrainTimeout, s.cancelCalls)
		defer timer.Stop()
	} else {
		s.cancelCalls()
	}
	s.workers.Wait()
	s.cancelCalls()
	for len(s.results) > 0 {
		s.landed(<-s.results)
	}
	s.flying = nil
	s.count()
	if !drain || !save {
		return
	}
	if err := s.l.save(context.WithoutCancel(s.waits), s.since); err != nil {
		s.l.log.Error("save at the end", "error", err)
	}
}
