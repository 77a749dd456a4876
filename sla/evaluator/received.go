package evaluator

import (
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
)

// This file says what alert conditions go by where events came more than a minute off their time, or are no new
// traffic. Windows of more than slo.ReceivedWindow count by event time in conditions, too.

// conditional reports whether conditions over one of the plan's windows count by receive time.
func (p *plan) conditional(window int) bool {
	w := &p.windows[window]
	return w.Calendar == "" && w.Rolling <= slo.ReceivedWindow
}

// received are the burns that conditions go by, by the place of their longest window in slo.Lateness.
func (t *tick) received(p *sloPlan, g *fold.Group) []sla.ReceivedBurns {
	// What was backfilled was not received then: like a new engine, this one has not seen that time.
	g = withoutBackfills(g)
	out := make([]sla.ReceivedBurns, len(slo.Lateness)-1)
	for late := range out {
		if late > 0 && len(g.Moved) > 0 && g.Moved[1+late].Spans == nil { // no event was that late
			out[late] = out[late-1]
			continue
		}
		x := &out[late]
		x.Raw = t.receivedBurns(p, g, nil, late)
		x.Burns = x.Raw
		if c := p.correction; c != nil && len(c.extra) > 0 {
			x.Burns = t.receivedBurns(p, g, c, late)
		}
		if p.trend != nil {
			now, _ := t.receivedCounts(p.correction, g, p.trend[0], late)
			both, _ := t.receivedCounts(p.correction, g, p.trend[1], late)
			x.Trend = trendOf(p.slo, load(now), load(both))
		}
		later := load(g.Later(t.longest, late))
		x.Later = later.counts(p.slo.Indicator.Kind).Valid() / p.slo.Indicator.Kind.Unit()
	}
	return out
}

func withoutBackfills(g *fold.Group) *fold.Group {
	seen := *g
	seen.Backfilled = nil
	if g.Live != nil {
		seen.Observed = g.Live
	}
	return &seen
}

// receivedBurns are those of the burn windows and the SLO's own, as far as they count by receive time.
func (t *tick) receivedBurns(p *sloPlan, g *fold.Group, c *correction, late int) (out []slo.Burn) {
	unit := p.slo.Indicator.Kind.Unit()
	for _, list := range [2][]int{t.plan.burns, p.tiers} {
		for _, w := range list {
			if !t.conditional(w) {
				continue
			}
			counts, excess := t.receivedCounts(c, g, w, late)
			b := burn(unit, t.plan.windows[w].Rolling, budget(p.slo, load(counts)), excess, excess > 0)
			known := t.cover(g, w)
			b.Observed, b.Coverage = known.observed, known.coverage
			out = append(out, b)
		}
	}
	return out
}

// receivedCounts are the counts of a window as conditions take them, with what weights add to them, without what was
// received in planned maintenance.
func (t *tick) receivedCounts(c *correction, g *fold.Group, window, late int) (counts []uint64, excess uint64) {
	counts, excess = g.Received(window, late)
	if c == nil || len(c.extra) == 0 {
		return counts, excess
	}
	minus := func(i int) {
		out, n := g.Received(len(t.spans)+i, late)
		for bin := range counts {
			counts[bin] -= min(counts[bin], out[bin])
		}
		excess -= min(excess, n)
	}
	u := c.uses[window]
	for i := u.first; i < c.whole; i++ {
		minus(i)
	}
	if u.cut >= 0 {
		minus(u.cut)
	}
	return counts, excess
}

// trendOf are the burns of ten minutes and of the ten before, which are what twenty had before.
func trendOf(s *slo.SLO, now, both bins) []slo.Burn {
	return []slo.Burn{slo.NewBurn(trendWindow, budget(s, now)), slo.NewBurn(trendWindow, budget(s, both.minus(now)))}
}

// alertCounts are the counts of a window of an agreement, which its alerts go by if the window is that of the alerts.
func (t *tick) alertCounts(u usage, c *correction, g *fold.Group) bins {
	if u.sla.late < 0 || g.Moved == nil {
		return t.corrected(c, g, u.window)
	}
	counts, _ := t.receivedCounts(c, g, u.window, u.sla.late)
	return load(counts)
}

// lateOf is what an agreement's alerts leave out of a window by its lateness: a place in slo.Lateness, or -1 if they
// count by event time.
func (p *plan) lateOf(window int, alerts bool) int {
	if !alerts || !p.conditional(window) {
		return -1
	}
	return slo.LatenessOf(p.windows[window].Rolling)
}

// arrivals is the rate at which valid events were received over the last rateWindow.
func (t *tick) arrivals(k slo.IndicatorKind, g *fold.Group) float64 {
	counts, _ := g.Received(t.rate, len(slo.Lateness)-1)
	return float64(events(k, counts).Valid()) / rateWindow.Seconds()
}
