package dispatch

import (
	"context"
	"time"

	"github.com/sloengine/sloengine/reliability/breaker"
	"github.com/sloengine/sloengine/reliability/retry"
)

// delivery brings one batch to its end: every item delivered, dropped by the user's
// wish, or safe among the dead letters.
type delivery struct {
	l            *lane
	waits, calls context.Context
	first        time.Time // first failure
	last         time.Time
}

// pending are the items that are still to be sent in a round, with their last errors.
// All have been sent equally often.
type pending struct {
	items []Item
	errs  []error // nil in the first round
}

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

// held takes out those that wait for somebody to change something: they are sent again
// until it is done, however often that is.
func (p *pending) held() (held pending) {
	var rest pending
	for i, it := range p.items {
		if p.errs != nil && retry.ClassOf(p.errs[i]) == retry.ClassBlocked {
			held.add(it, p.errs[i])
		} else if p.errs != nil {
			rest.add(it, p.errs[i])
		}
	}
	*p = rest
	return held
}

// cut takes the first n out.
func (p *pending) cut(n int) pending {
	head := pending{items: p.items[:n:n]}
	p.items = p.items[n:]
	if p.errs != nil {
		head.errs, p.errs = p.errs[:n:n], p.errs[n:]
	}
	return head
}

// deliver returns false if waits ended before the batch was done.
func (l *lane) deliver(waits, calls context.Context, b *batch) bool {
	d := &delivery{l: l, waits: waits, calls: calls}
	if len(b.unreadable) > 0 && !d.keep(b.unreadable) {
		return false
	}
	todo := pending{items: b.items}
	var delay time.Duration
	began := time.Now()
	for round := 0; len(todo.items) > 0; round++ {
		if round > 0 {
			delay = l.policy.Delay(round-1, delay)
			most := l.o.Retry.MaxElapsed
			if !l.policy.Allows(round) || most > 0 && time.Since(began)+delay > most {
				held := todo.held()
				if !d.bury(todo, ReasonExhausted, round) {
					return false
				}
				if todo = held; len(todo.items) == 0 {
					return true
				}
			}
			l.m.retryDelay.Update(delay.Seconds())
			if !retry.Sleep(waits, delay) || !d.pay() {
				return false
			}
		}
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

// pay waits until the budget has a retry left.
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
			wait = time.Second // traffic may earn it sooner
		}
		if !retry.Sleep(d.waits, wait) {
			return false
		}
	}
}

// step sends a part of todo, as much as may go at once. What fails and is worth
// another try goes to next. It returns false if waits ended.
func (d *delivery) step(todo, next *pending, round int) bool {
	l := d.l
	n, how, ok := d.admit(todo, round)
	switch {
	case !ok:
		return false
	case len(todo.items) == 0:
		return true // all of it expired while it waited
	case how == retry.Drop:
		l.m.dropped.Add(len(todo.items))
		l.count(func(t *tally) { t.dropped += uint64(len(todo.items)) })
		l.lose("events dropped", ReasonRateLimited, len(todo.items), todo.cause())
		*todo = pending{}
		return true
	case how == retry.DeadLetter:
		rest := *todo
		*todo = pending{}
		return d.bury(rest, ReasonRateLimited, round)
	}
	part := todo.cut(n)
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
	if result.Err != nil && notMade(result.Err) {
		if d.waits.Err() != nil {
			return false
		}
		// The breaker or the bulkhead was quicker: the same again, without counting it.
		todo.items = append(part.items, todo.items...)
		if part.errs != nil {
			todo.errs = append(part.errs, todo.errs...)
		}
		return retry.Sleep(d.waits, notMadePause)
	}
	if result.Err != nil && d.calls.Err() != nil {
		return false // it was cut off, so it says nothing
	}
	return d.settle(part, result, next, round+1)
}

// notMadePause keeps a lane whose bulkhead is full of hung calls from spinning.
const notMadePause = 20 * time.Millisecond

// settle sorts the items by what became of them.
func (d *delivery) settle(part pending, result Result, next *pending, attempts int) bool {
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
	return d.bury(refused, ReasonPermanent, attempts)
}

// bury makes dead letters.
func (d *delivery) bury(p pending, reason string, attempts int) bool {
	if len(p.items) == 0 {
		return true
	}
	now := time.Now()
	first, last := d.first, d.last
	if first.IsZero() {
		first, last = now, now
	}
	letters := make([]DeadLetter, len(p.items))
	for i, it := range p.items {
		letters[i] = DeadLetter{Item: it, Sink: d.l.o.Name, Reason: reason, Attempts: attempts, First: first, Last: last}
		if p.errs != nil && p.errs[i] != nil {
			letters[i].Class, letters[i].Err = retry.ClassOf(p.errs[i]), p.errs[i].Error()
		} else if reason == ReasonExpired {
			letters[i].Class = retry.ClassTimeout
		}
	}
	return d.keep(letters)
}

// keep has dead letters kept, however long it takes.
func (d *delivery) keep(letters []DeadLetter) bool {
	l := d.l
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		err := l.d.o.DeadLetter(d.calls, letters)
		if err == nil {
			break
		}
		l.m.letterErrors.Inc()
		l.ail(TroubleLetters, err)
		if !retry.Sleep(d.waits, pause) {
			return false
		}
	}
	l.mend(TroubleLetters)
	reason := letters[0].Reason
	l.lose("events became dead letters", reason, len(letters), letters[len(letters)-1].Err)
	l.m.letters[reason].Add(len(letters))
	switch reason {
	case ReasonExhausted:
		l.m.exhausted.Add(len(letters))
	case ReasonPermanent:
		l.m.permanent.Add(len(letters))
	}
	l.count(func(t *tally) {
		if t.letters == nil {
			t.letters = map[string]uint64{}
		}
		t.letters[reason] += uint64(len(letters))
	})
	return true
}

// breakerChanged runs when the breaker moves.
func (l *lane) breakerChanged(from, to breaker.State, reason string) {
	l.mu.Lock()
	cause := l.tally.lastError
	l.mu.Unlock()
	args := []any{"from", from.String(), "to", to.String(), "reason", reason}
	switch {
	case to == breaker.Closed:
		l.log.Info("breaker", args...)
	case from == breaker.Closed:
		l.log.Warn("breaker", append(args, "cause", cause)...)
	default: // probes come and go while an outage lasts
		if n, tell := l.sometimes("breaker", 1); tell {
			l.log.Warn("breaker", append(args, "cause", cause, "transitions", n)...)
		}
	}
	switch to {
	case breaker.Open:
		l.stages.breaker(false)
	case breaker.Closed:
		l.stages.breaker(true)
	}
}
