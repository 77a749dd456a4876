package breaker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/sloengine/sloengine/reliability/retry"
)

// State of a Breaker; the numbers are those of its gauge.
type State int

// The states.
const (
	Closed   State = 0 // calls go through and are counted
	HalfOpen State = 1 // a few probes go through
	Open     State = 2 // nothing goes through
)

func (s State) String() string {
	switch s {
	case Closed:
		return "closed"
	case HalfOpen:
		return "half_open"
	default:
		return "open"
	}
}

// Outcome is the evidence of a call about the target.
type Outcome int

// The outcomes.
const (
	Ignored Outcome = iota // nothing
	Success
	Failure
)

// OpenError is returned for calls that are not let through. Its class is
// retry.ClassBreakerOpen.
type OpenError struct {
	Name string
	// RetryAfter is when probes begin, or when the probes in progress must have ended.
	RetryAfter time.Duration
}

func (e *OpenError) Error() string {
	return fmt.Sprintf("breaker %q is open for another %s", e.Name, e.RetryAfter.Round(time.Millisecond))
}

// RetryClass makes retry.ClassOf know it.
func (e *OpenError) RetryClass() retry.Class { return retry.ClassBreakerOpen }

// Breaker is safe for concurrent use.
type Breaker struct {
	o Options
	m *series

	mu    sync.Mutex
	state State
	// gen counts the transitions; a permit of an earlier one is out of date.
	gen     uint64
	row     int       // failures in a row while closed
	rate    window    // calls while closed
	until   time.Time // end of the open state
	probes  probes
	since   time.Time
	reason  string // of the last transition
	wake    chan struct{}
	events  []change // not yet passed to OnChange
	telling bool
}

type change struct {
	from, to State
	reason   string
}

// New checks the options and makes a closed breaker.
func New(o Options) (*Breaker, error) {
	o.applyDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	b := &Breaker{o: o, m: o.Metrics.Of(o.Name), since: time.Now()}
	b.forget()
	b.m.state.Set(float64(Closed))
	return b, nil
}

// Permit allows one call. Done must be called once, for every outcome of the call.
type Permit struct {
	b    *Breaker
	gen  uint64
	slot int // of the probe + 1, 0 if it is not a probe
}

// Acquire asks for a call. The error is an *OpenError.
func (b *Breaker) Acquire() (Permit, error) {
	b.mu.Lock()
	if b.state == Closed {
		p := Permit{b: b, gen: b.gen}
		b.mu.Unlock()
		return p, nil
	}
	defer b.unlock()
	now := time.Now()
	b.advance(now)
	switch b.state {
	case Closed:
		return Permit{b: b, gen: b.gen}, nil
	case HalfOpen:
		if slot, ok := b.probes.begin(now.Add(b.o.ProbeTimeout)); ok {
			return Permit{b: b, gen: b.gen, slot: slot + 1}, nil
		}
	}
	b.m.rejected.Inc()
	return Permit{}, &OpenError{b.o.Name, b.remaining(now)}
}

// Ready reports whether Acquire would succeed, without taking anything. If not, wait
// is when to look again, and changed is closed if the state changes before.
func (b *Breaker) Ready() (ok bool, wait time.Duration, changed <-chan struct{}) {
	b.mu.Lock()
	defer b.unlock()
	if b.state == Closed {
		return true, 0, nil
	}
	now := time.Now()
	b.advance(now)
	if b.state == Closed || b.state == HalfOpen && b.probes.free() {
		return true, 0, nil
	}
	if b.wake == nil {
		b.wake = make(chan struct{})
	}
	return false, b.remaining(now), b.wake
}

// Context limits a probe's context to its time; other calls get ctx back.
func (p Permit) Context(ctx context.Context) (context.Context, context.CancelFunc) {
	if p.slot == 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, p.b.o.ProbeTimeout)
}

// Done reports the outcome of the call.
func (p Permit) Done(o Outcome) {
	b := p.b
	if b == nil {
		return
	}
	b.mu.Lock()
	if o == Failure {
		b.m.failures.Inc()
	}
	if p.gen != b.gen {
		b.mu.Unlock() // it began before the present state
		return
	}
	switch {
	case p.slot > 0:
		b.probed(p.slot-1, o)
	case o != Ignored:
		b.count(o == Success)
	}
	b.unlock()
}

// count counts a call of the closed state. b.mu is held.
func (b *Breaker) count(success bool) {
	if b.o.Off {
		return
	}
	if b.row++; success {
		b.row = 0
	}
	if c := b.o.Consecutive; !c.Off && b.row >= c.Failures {
		b.open(c.Open, c.Probes, c.Probes, fmt.Sprintf("%d failures in a row", c.Failures))
		return
	}
	r := b.o.Rate
	if r.Off {
		return
	}
	// A success may bring the number of calls to the least that is judged.
	calls, failed := b.rate.add(time.Now(), !success)
	if ratio := float64(failed) / float64(calls); calls >= r.MinCalls && ratio >= r.Threshold {
		b.open(r.Open, r.Probes, r.Successes, fmt.Sprintf("%.0f %% of %d calls failed", 100*ratio, calls))
	}
}

// forget begins to count again.
func (b *Breaker) forget() {
	b.row, b.rate = 0, window{began: time.Now(), width: b.o.Rate.Window / slots}
}

func (b *Breaker) open(d time.Duration, probes, successes int, reason string) {
	b.until = time.Now().Add(d)
	b.probes = newProbes(probes, successes, d)
	b.move(Open, reason)
}

// advance applies the effects of time: probes after the open state, failures of probes that did not
// return.
func (b *Breaker) advance(now time.Time) {
	if b.state == Open && !now.Before(b.until) {
		b.halfOpen("the open time is over")
	}
	if b.state == HalfOpen && b.probes.expire(now) > 0 {
		b.judgeProbes("a probe did not come back in time")
	}
}

func (b *Breaker) halfOpen(reason string) {
	b.probes = newProbes(len(b.probes.slots), b.probes.needed, b.probes.again)
	b.move(HalfOpen, reason)
}

func (b *Breaker) probed(slot int, o Outcome) {
	b.probes.end(slot, o)
	b.judgeProbes("a probe failed")
	if o == Ignored {
		b.wakeAll() // its place is free again
	}
}

func (b *Breaker) judgeProbes(failed string) {
	switch {
	case b.probes.succeeded >= b.probes.needed:
		b.forget()
		b.move(Closed, "probes succeeded")
	case b.probes.failed > len(b.probes.slots)-b.probes.needed:
		b.until = time.Now().Add(b.probes.again)
		b.move(Open, failed)
	}
}

func (b *Breaker) move(to State, reason string) {
	b.events = append(b.events, change{b.state, to, reason})
	b.state, b.reason, b.since = to, reason, time.Now()
	b.gen++
	b.m.state.Set(float64(to))
	b.m.transitions[to].Inc()
	b.wakeAll()
}

func (b *Breaker) wakeAll() {
	if b.wake != nil {
		close(b.wake)
		b.wake = nil
	}
}

// unlock reports the transitions, one goroutine at a time so that they stay in order.
func (b *Breaker) unlock() {
	for len(b.events) > 0 && !b.telling && b.o.OnChange != nil {
		events := b.events
		b.events, b.telling = nil, true
		b.mu.Unlock()
		for _, e := range events {
			b.o.OnChange(e.from, e.to, e.reason)
		}
		b.mu.Lock()
		b.telling = false
	}
	if b.o.OnChange == nil {
		b.events = b.events[:0]
	}
	b.mu.Unlock()
}

func (b *Breaker) remaining(now time.Time) time.Duration {
	at := b.until
	if b.state == HalfOpen {
		at = b.probes.firstEnd()
	}
	return max(at.Sub(now), time.Millisecond)
}

// Status is a breaker's present state.
type Status struct {
	Off        bool // it never opens
	State      State
	Since      time.Time     // of the last transition
	Reason     string        // of the last transition; "" if there was none
	RetryAfter time.Duration // 0 while calls may go through
}

// Status returns the current state.
func (b *Breaker) Status() Status {
	b.mu.Lock()
	defer b.unlock()
	now := time.Now()
	b.advance(now)
	s := Status{Off: b.o.Off, State: b.state, Since: b.since, Reason: b.reason}
	if b.state == Open || b.state == HalfOpen && !b.probes.free() {
		s.RetryAfter = b.remaining(now)
	}
	return s
}

// State is Status().State.
func (b *Breaker) State() State { return b.Status().State }
