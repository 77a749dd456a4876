package ratelimit

import (
	"cmp"
	"time"

	"github.com/sloengine/sloengine/internal/order"
)

// ruleState is the state of a rule in a Limiter, besides its counters in the Store.
type ruleState struct {
	series ruleSeries
	hits   uint64

	// The fullest counter seen, in the present period and in the one before.
	used, usedBefore uint32
	cap              uint32
	since            time.Time
}

// saw takes notice of a counter.
func (s *ruleState) saw(c *Charge) {
	if c.Cap != s.cap {
		s.cap, s.used, s.usedBefore = c.Cap, 0, 0
	}
	s.used = max(s.used, c.Cap-min(c.Left, c.Cap))
}

// period is how long an observation counts as recent: twice that at most.
func period(l *Limit) time.Duration { return min(max(l.Window/2, time.Second), 30*time.Second) }

func (s *ruleState) roll(now time.Time, p time.Duration) {
	age := now.Sub(s.since)
	if age >= 0 && age < p {
		return
	}
	s.usedBefore = s.used
	if age < 0 || age >= 2*p {
		s.usedBefore = 0
	}
	s.used, s.since = 0, now
}

// share of the rule's fullest counter that is in use, 0 to 1.
func (s *ruleState) share(now time.Time, p time.Duration) float64 {
	used := max(s.used, s.usedBefore)
	switch age := now.Sub(s.since); {
	case s.cap == 0 || age >= 2*p:
		return 0
	case age >= p:
		used = s.used
	}
	return float64(used) / float64(s.cap)
}

// roll begins new periods, at most once a second.
func (l *Limiter) roll(now time.Time) {
	if d := now.Sub(l.rolled); d >= 0 && d < time.Second {
		return
	}
	l.rolled = now
	for i, s := range l.bound.states {
		s.roll(now, period(&l.bound.policy.rules[i].limit))
	}
}

// Status returns the state of all rules: global, default, types, contexts. The admitted events are
// known if the Store reports how full its counters are. Unlimited rules are left out.
func (l *Limiter) Status() []Status {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]Status, 0, len(l.bound.states))
	for i, s := range l.bound.states {
		r := &l.bound.policy.rules[i]
		if r.limit.N == MaxLimit {
			continue
		}
		perSecond := float64(r.limit.N) / r.limit.Window.Seconds()
		out = append(out, Status{
			Layer: r.layer.String(), Rule: r.name, Hits: s.hits, PerSecond: perSecond,
			Current: perSecond * s.share(now, period(&r.limit)),
		})
	}
	return out
}

// Measure publishes the gauges, for each layer those of the rule that is used up
// most; the owner calls it every now and then.
func (l *Limiter) Measure() {
	worst := map[string]*Status{}
	status := l.Status()
	for i := range status {
		s := &status[i]
		if w := worst[s.Layer]; w == nil || s.Current/s.PerSecond > w.Current/w.PerSecond {
			worst[s.Layer] = s
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, g := range l.layers {
		if w := worst[Layer(i).String()]; w != nil && g.current != nil {
			g.current.Set(w.Current)
			g.threshold.Set(w.PerSecond)
		}
	}
}

// Offenders are the ten context values that exceeded their limits most often
// in the last half hour to hour.
func (l *Limiter) Offenders() []Offender {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []Offender
	for name, o := range l.offenders {
		o.roll(now)
		out = append(out, o.list(name)...)
	}
	order.By(out, func(a, b *Offender) int {
		return cmp.Or(cmp.Compare(b.Hits, a.Hits), cmp.Compare(a.Context, b.Context), cmp.Compare(a.Value, b.Value))
	})
	return out[:min(len(out), shown)]
}
