package dispatch

import (
	"context"
	"time"

	"github.com/sloengine/sloengine/reliability/breaker"
	"github.com/sloengine/sloengine/reliability/retry"
)

// This file is the life of a batch: rounds of attempts with backoff between them, until each item is delivered,
// dropped or a dead letter. The waits before a call, and the call itself, are in gate.go.

// delivery finishes one batch: every item is delivered, dropped by policy, or safe among the dead letters. It belongs
// to one worker, so its fields need no lock. The shared state of workers is in the lane: the policies, and the
// counters under lane.mu.
//
// Its methods return false for one reason only: the session is ending. The batch is then unfinished, and everything
// that was learned about it is forgotten. The next session sends all of it again, which sinks have to tolerate anyway.
type delivery struct {
	l            *lane
	waits, calls context.Context // see session
	first, last  time.Time       // of the failures; for dead letters
}

// pending are the items that are still to be sent in a round, with their last errors. All of them have been sent
// equally often, so one round number serves them all.
type pending struct {
	items []Item
	errs  []error // nil in the first round
}

// add appends an item with its last error. items and errs stay of equal length from the first error on.
func (p *pending) add(it Item, err error) {
	p.items = append(p.items, it)
	p.errs = append(p.errs, err)
}

// cause is the last error of one of them, "" if none has failed yet.
func (p *pending) cause() string {
	if len(p.errs) == 0 || p.errs[len(p.errs)-1] == nil {
		return ""
	}
	return p.errs[len(p.errs)-1].Error()
}

// takeBlocked takes out the items whose last error is of the class blocked. They are retried without a limit: wrong
// credentials or a missing folder say nothing about the items, and an operator has to act first.
//
// In the first round nothing has an error, and nothing is blocked.
func (p *pending) takeBlocked() (blocked pending) {
	var rest pending
	for i, it := range p.items {
		if p.errs != nil && retry.ClassOf(p.errs[i]) == retry.ClassBlocked {
			blocked.add(it, p.errs[i])
		} else if p.errs != nil {
			rest.add(it, p.errs[i])
		}
	}
	*p = rest
	return blocked
}

// cut takes the first n out.
//
// The capacity is cut, too, so that appending to the first part does not overwrite the rest.
func (p *pending) cut(n int) pending {
	head := pending{items: p.items[:n:n]}
	p.items = p.items[n:]
	if p.errs != nil {
		head.errs, p.errs = p.errs[:n:n], p.errs[n:]
	}
	return head
}

// deliver delivers a batch. It returns false if waits or calls ended first: then the cursor must not move over the
// batch, and the next session sends it again.
//
// MaxElapsed is counted from the first attempt of the batch, waits for the breaker included. Round 0 is the first
// attempt, so round n is the n-th retry.
func (l *lane) deliver(waits, calls context.Context, b *batch) bool {
	d := &delivery{l: l, waits: waits, calls: calls}
	// Records that could not be split need no call, so they are stored before anything waits for the sink.
	if len(b.unreadable) > 0 && !d.store(b.unreadable) {
		return false
	}
	todo := pending{items: b.items}
	var delay time.Duration
	began := time.Now()
	for round := 0; len(todo.items) > 0; round++ {
		if round > 0 {
			delay = l.policy.Delay(round-1, delay)
			most := l.o.Retry.MaxElapsed
			// The attempts are used up, or would be by the time of the next one. Blocked deliveries continue:
			// their failures say nothing about the items.
			if !l.policy.Allows(round) || most > 0 && time.Since(began)+delay > most {
				blocked := todo.takeBlocked()
				if !d.deadLetter(todo, ReasonExhausted, round) {
					return false
				}
				if todo = blocked; len(todo.items) == 0 {
					return true
				}
			}
			l.m.retryDelay.Update(delay.Seconds())
			if !retry.Sleep(waits, delay) || !d.pay() {
				return false
			}
		}
		// A round sends every item once, in as many calls as the permits allow. Items that fail wait in next for the round
		// after it, so that one bad item does not delay the first attempt of the others.
		var next pending
		for len(todo.items) > 0 {
			if !d.step(&todo, &next, round) {
				return false
			}
		}
		todo = next
	}
	return true
}

// pay waits until the retry budget permits a retry. The budget is of the lane: while a sink fails, retries of all
// batches together stay a share of its traffic.
//
// It is paid once per round of a batch and not per item.
func (d *delivery) pay() bool {
	for first := true; ; first = false {
		ok, wait := d.l.budget.Spend()
		if ok {
			return true
		}
		if first {
			d.l.m.overBudget.Inc()
		}
		if wait <= 0 || wait > time.Second {
			wait = time.Second // first attempts may earn a retry sooner
		}
		if !retry.Sleep(d.waits, wait) {
			return false
		}
	}
}

// step sends the first part of todo, as much as may go at once. Items that fail and may be retried go to next. It
// returns false if waits ended.
//
// An item leaves todo exactly once: into next, into the dead letters, as delivered, or as dropped. A call that
// was refused on this side puts its items back to the front, with their errors.
func (d *delivery) step(todo, next *pending, round int) bool {
	l := d.l
	n, how, ok := d.admit(todo, round)
	switch {
	case !ok:
		return false
	case len(todo.items) == 0:
		return true // every item expired during the wait
	// The only way to lose items on purpose. Counted and logged, because there is no other trace of
	// them.
	case how == retry.Drop:
		l.m.dropped.Add(len(todo.items))
		l.count(func(t *tally) { t.dropped += uint64(len(todo.items)) })
		l.logLost("events dropped", ReasonRateLimited, len(todo.items), todo.cause())
		*todo = pending{}
		return true
	case how == retry.DeadLetter:
		rest := *todo
		*todo = pending{}
		return d.deadLetter(rest, ReasonRateLimited, round)
	}
	part := todo.cut(n)
	// First attempts pay for retries: while few of them get through, few retries are made.
	if round == 0 {
		l.budget.Earn()
	} else {
		l.m.retries.Inc()
		l.m.again.Add(len(part.items))
		l.count(func(t *tally) { t.retries++ })
	}
	began := time.Now()
	result := l.call(d.waits, d.calls, part.items, l.past(part.items))
	if result.took > 0 {
		l.overhead(time.Since(began) - result.took)
	}
	if result.Err != nil && refusedHere(result.Err) {
		if d.waits.Err() != nil {
			return false
		}
		// Another batch took the permit between admit and call. No call was made, so no attempt is counted.
		todo.items = append(part.items, todo.items...)
		if part.errs != nil {
			todo.errs = append(part.errs, todo.errs...)
		}
		return retry.Sleep(d.waits, refusedHerePause)
	}
	if result.Err != nil && d.calls.Err() != nil {
		return false // the call was cut off, so its error says nothing about the items
	}
	return d.sortOutcome(part, result, next, round+1)
}

// refusedHerePause keeps a lane from spinning while its bulkhead is full of calls that hang.
const refusedHerePause = 20 * time.Millisecond

// sortOutcome counts delivered items, moves items that may be retried to next, and makes dead letters of the rest.
//
// It returns false if waits ended before the refused items were safe: the batch is then unfinished, although some
// of its items were counted as delivered. They are sent and counted again.
func (d *delivery) sortOutcome(part pending, result Result, next *pending, attempts int) bool {
	l := d.l
	failed := 0
	var refused pending
	sort := func(it Item, err error) {
		failed++
		if !l.retries(err) {
			refused.add(it, err)
		} else {
			next.add(it, err)
		}
	}
	if result.Err != nil {
		for _, it := range part.items {
			sort(it, result.Err)
		}
	} else {
		// The sink is foreign code: an index out of order or range is ignored, so that no item is counted twice. An item
		// without a failure counts as delivered.
		previous := -1
		for _, f := range result.Failed {
			if f.Index > previous && f.Index < len(part.items) && f.Err != nil {
				sort(part.items[f.Index], f.Err)
				previous = f.Index
			}
		}
	}
	if failed > 0 {
		d.last = time.Now()
		if d.first.IsZero() {
			d.first = d.last
		}
	}
	if good := len(part.items) - failed; good > 0 {
		l.m.delivered.Add(good)
		if attempts > 1 {
			l.m.retried.Add(good)
		}
		now := time.Now()
		l.count(func(t *tally) { t.delivered += uint64(good); t.lastDelivery = now })
	}
	return d.deadLetter(refused, ReasonPermanent, attempts)
}

// deadLetter makes dead letters of items, with their failures.
//
// An item that never failed has no class and no error, except that one that expired is a timeout.
func (d *delivery) deadLetter(p pending, reason string, attempts int) bool {
	if len(p.items) == 0 {
		return true
	}
	now := time.Now()
	first, last := d.first, d.last
	if first.IsZero() {
		first, last = now, now
	}
	list := make([]DeadLetter, len(p.items))
	for i, it := range p.items {
		list[i] = DeadLetter{Item: it, Sink: d.l.o.Name, Reason: reason, Attempts: attempts, First: first, Last: last}
		if p.errs != nil && p.errs[i] != nil {
			list[i].Class, list[i].Err = retry.ClassOf(p.errs[i]), p.errs[i].Error()
		} else if reason == ReasonExpired {
			list[i].Class = retry.ClassTimeout
		}
	}
	return d.store(list)
}

// store hands dead letters to Options.DeadLetter, again and again until they are safe. It returns false if waits ended.
// The lane stops meanwhile: moving on would lose them.
//
// The pause doubles from 0.1 to 5 s. All entries of a list have the same reason. After a crash the caller may get
// the list again, because the cursor is saved later.
func (d *delivery) store(list []DeadLetter) bool {
	l := d.l
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		// With calls, not waits: while the lane drains, a dead letter may still be stored, or all of its items would be
		// sent again after the restart.
		err := l.d.o.DeadLetter(d.calls, list)
		if err == nil {
			break
		}
		l.m.deadLetterErrors.Inc()
		l.failed(TroubleDeadLetters, err)
		if !retry.Sleep(d.waits, pause) {
			return false
		}
	}
	l.recovered(TroubleDeadLetters)
	reason := list[0].Reason
	l.logLost("events became dead letters", reason, len(list), list[len(list)-1].Err)
	l.m.deadLetters[reason].Add(len(list))
	switch reason {
	case ReasonExhausted:
		l.m.exhausted.Add(len(list))
	case ReasonPermanent:
		l.m.permanent.Add(len(list))
	}
	l.count(func(t *tally) {
		if t.deadLetters == nil {
			t.deadLetters = map[string]uint64{}
		}
		t.deadLetters[reason] += uint64(len(list))
	})
	return true
}

// breakerChanged is called by the breaker after a transition, without its lock.
//
// The stages begin when the breaker opens, before any call of the recovery, so that not even the first probe
// comes with the whole backlog behind it.
func (l *lane) breakerChanged(from, to breaker.State, reason string) {
	// lastError, not the breaker's reason alone: that says how many calls failed, and not why.
	l.mu.Lock()
	cause := l.tally.lastError
	l.mu.Unlock()
	args := []any{"from", from.String(), "to", to.String(), "reason", reason}
	switch {
	case to == breaker.Closed:
		l.log.Info("breaker changed state", args...)
	case from == breaker.Closed:
		l.log.Warn("breaker changed state", append(args, "cause", cause)...)
	default: // half-open and open alternate while an outage lasts
		if n, tell := l.sumUp("breaker", 1); tell {
			l.log.Warn("breaker changed state", append(args, "cause", cause, "transitions", n)...)
		}
	}
	switch to {
	case breaker.Open:
		l.stages.breaker(false)
	case breaker.Closed:
		l.stages.breaker(true)
	}
}
