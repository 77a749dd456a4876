package ratelimit

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
)

// Options of a Limiter.
type Options struct {
	Policy  *Policy  // nil: nothing is limited, until SetPolicy
	Store   Store    // nil: a Table with its defaults
	Metrics *Metrics // nil: counted, but not exported
}

// Limiter decides about tickets. It is safe for concurrent use.
type Limiter struct {
	m     *Metrics
	force atomic.Pointer[force]

	mu        sync.Mutex
	bound     binding // of the present policy
	older     binding // of one before: its tickets may still come
	layers    [Context + 1]layerSeries
	states    map[ruleID]*ruleState
	offenders map[string]*offenders // by context
	rolled    time.Time
}

// force is the active policy and its state.
type force struct {
	policy *Policy // nil: nothing is limited
	store  Store
}

// binding is a policy with the states of its rules.
type binding struct {
	policy *Policy
	states []*ruleState
}

type ruleID struct {
	layer Layer
	name  string
}

// New checks the options and fills in the defaults.
func New(o Options) (*Limiter, error) {
	o.Metrics = cmp.Or(o.Metrics, NewMetrics(metrics.NewSet()))
	if o.Store == nil {
		t, err := NewTable(TableOptions{Metrics: o.Metrics})
		if err != nil {
			return nil, err
		}
		o.Store = t
	}
	l := &Limiter{m: o.Metrics, states: map[ruleID]*ruleState{}, offenders: map[string]*offenders{}}
	l.Change(o.Policy, o.Store)
	return l, nil
}

// Policy is the present one, by which tickets are to be made; nil if nothing is limited.
func (l *Limiter) Policy() *Policy { return l.force.Load().policy }

// SetPolicy activates another policy; nil limits nothing. Rules with the names of former ones keep
// their counts. Tickets of the former policy are still decided by that.
func (l *Limiter) SetPolicy(p *Policy) { l.Change(p, l.force.Load().store) }

// Change puts another policy into force, and another store, which begins with its own
// counters.
func (l *Limiter) Change(p *Policy, s Store) {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := &force{p, s}
	if p == nil {
		p = &Policy{}
		l.m.contexts.Set(0)
	}
	series, layers := l.m.bind(p)
	l.older, l.bound, l.layers = l.bound, l.bind(p), layers
	for i, s := range l.bound.states {
		s.series = series[i]
	}
	present := map[ruleID]bool{}
	for _, b := range []binding{l.older, l.bound} {
		if b.policy == nil {
			continue
		}
		for i := range b.policy.rules {
			present[b.policy.rules[i].id()] = true
		}
	}
	for id := range l.states {
		if !present[id] {
			delete(l.states, id)
		}
	}
	for name := range l.offenders {
		if !present[ruleID{Context, name}] {
			delete(l.offenders, name)
		}
	}
	l.force.Store(next)
}

func (r *rule) id() ruleID { return ruleID{r.layer, r.name} }

func (l *Limiter) bind(p *Policy) binding {
	b := binding{p, make([]*ruleState, len(p.rules))}
	for i := range p.rules {
		id := p.rules[i].id()
		s := l.states[id]
		if s == nil {
			s = &ruleState{}
			l.states[id] = s
		}
		b.states[i] = s
	}
	return b
}

// of finds the states that a ticket counts in.
func (l *Limiter) of(p *Policy) *binding {
	switch p {
	case l.bound.policy:
		return &l.bound
	case l.older.policy:
	default: // two reloads while it waited
		l.older = l.bind(p)
	}
	return &l.older
}

// Decide charges the tickets and sets the verdict of each that is not Skip. It may be
// called again for those with a verdict to Throttle, with Skip set on the others. The
// error is the store's; then no verdict was set and nothing counted.
func (l *Limiter) Decide(ctx context.Context, now time.Time, batches []*Tickets) error {
	if err := l.force.Load().store.Take(ctx, now, batches); err != nil {
		return fmt.Errorf("rate limits: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.roll(now)
	for _, t := range batches {
		for i := range t.List {
			k := &t.List[i]
			switch {
			case k.Skip:
			case k.Exempt:
				l.m.bypassed[k.reason].Inc()
				k.Verdict = Verdict{Weight: 1}
			default:
				b := &l.bound
				if k.policy != b.policy {
					b = l.of(k.policy)
				}
				charges := t.charges[k.first:k.end]
				for j := range charges {
					b.states[charges[j].Rule].saw(&charges[j])
				}
				if k.Over == 0 {
					k.Verdict = Verdict{Weight: 1}
					continue
				}
				l.exceeded(now, b, t, k, charges)
			}
		}
	}
	return nil
}

// Judge sets the verdicts that Decide would come to now, and charges and counts nothing.
func (l *Limiter) Judge(ctx context.Context, now time.Time, t *Tickets) error {
	if err := l.force.Load().store.Peek(ctx, now, t); err != nil {
		return fmt.Errorf("rate limits: %w", err)
	}
	for i := range t.List {
		k := &t.List[i]
		k.Verdict = Verdict{Weight: 1}
		if c := k.worst(t); c != nil && !k.Skip && !k.Exempt {
			k.Verdict = Verdict{Weight: 1, Layer: c.Layer, Rule: c.Rule}
			k.treat()
		}
	}
	return nil
}

// exceeded decides about a ticket over some limit: the most specific of them counts.
func (l *Limiter) exceeded(now time.Time, b *binding, t *Tickets, k *Ticket, charges []Charge) {
	again := k.Verdict.Action == Throttle // it has been counted
	var decides *Charge
	for j := range charges {
		c := &charges[j]
		if k.Over&(1<<j) == 0 {
			continue
		}
		if decides == nil || c.Layer > decides.Layer {
			decides = c
		}
		if again {
			continue
		}
		s := b.states[c.Rule]
		s.hits++
		s.series.hit()
		if c.Layer == Context {
			l.noteOffender(now, b.policy.rules[c.Rule].name, c.Key, t.valueAt(c.value))
		}
	}
	k.Verdict = Verdict{Weight: 1, Layer: decides.Layer, Rule: decides.Rule}
	k.treat()
	switch k.Verdict.Action {
	case Throttle:
		if !again {
			l.m.throttled.Inc()
		}
	case SampleOut:
		l.m.sampledOut.Inc()
	case Keep:
		l.m.kept.Inc()
	}
}

// treat sets the treatment of a ticket over the limit that its verdict names.
func (k *Ticket) treat() {
	p := k.plan()
	switch p.strategy {
	case OnExceededDrop:
		k.Verdict.Action = Drop
	case OnExceededThrottle:
		k.Verdict.Action = Throttle
	case OnExceededAggregate:
		k.Verdict.Action = Aggregate
	default:
		k.Verdict.Action, k.Verdict.Weight = Keep, p.weight
		if mix(k.sample)%uint64(p.weight) != 0 {
			k.Verdict.Action, k.Verdict.Weight = SampleOut, 1
		}
	}
}

// mix spreads a hash over all bits (the finaliser of SplitMix64): others may have
// chosen events by the low ones before.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

func (l *Limiter) noteOffender(now time.Time, context string, key Key, value []byte) {
	o := l.offenders[context]
	if o == nil {
		o = &offenders{}
		l.offenders[context] = o
	}
	o.roll(now)
	o.now.note(key, value)
}

// CountDropped counts an event that was really lost after a verdict to Drop. Decide
// leaves that to the caller, who may keep it as a dead letter and then calls
// CountCritical instead. The label is the rule of the event's type.
func (l *Limiter) CountDropped(k *Ticket) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.of(k.policy).states[k.rule].series.dropped; c != nil {
		c.Inc()
	}
}

// CountAggregated counts events that the caller merged with others after a verdict to
// Aggregate.
func (l *Limiter) CountAggregated(n int) { l.m.aggregated.Add(n) }

// CountCritical counts an event over a limit that the caller kept as a dead letter.
func (l *Limiter) CountCritical(k *Ticket) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.of(k.policy).states[k.rule].series.critical; c != nil {
		c.Inc()
	}
}

func (s *ruleSeries) hit() {
	if s.hits != nil { // else the rule is of a policy that was never active here
		s.hits.Inc()
	}
}
