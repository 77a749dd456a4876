package oracle

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/rules/rulestest"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

// look compares all numbers of one report with what the rules say.
func (w *oracleWorld) look(p *rulestest.World, at time.Time, now time.Duration, r *sla.Report) {
	w.sum.looks++
	o := w.options.Options
	var s *slo.SLO
	var ratios map[time.Duration]map[string]float64
	var left map[string]float64
	for i := range r.SLOs {
		x := &r.SLOs[i]
		if x.SLO.Indicator.Kind == slo.KindThroughput || x.SLO.Indicator.Kind == slo.KindVolume {
			continue // the truth knows events and slices by their ratio only, and the rules no volumes
		}
		if x.SLO != s {
			s = x.SLO
			ratios = map[time.Duration]map[string]float64{}
			for _, window := range rules.Windows(s) {
				if o.Minimal() && rules.HeldOnly(s, window) {
					continue
				}
				ratios[window] = values(p, o.ErrorRatio(s, window), s.GroupBy, at)
			}
			left = values(p, o.PeriodRemaining(s), s.GroupBy, at)
		}
		key := x.Group.Key()
		burns := append(append([]slo.Burn(nil), x.Burns...), x.TierBurns...)
		for _, b := range burns {
			if !b.Period {
				b = *x.Condition(b.Window, b.Window)
			}
			if of := ratios[b.Window]; of != nil {
				got, ok := of[key]
				w.indicator(x, b, now, got, ok)
			}
		}
		if got, ok := left[key]; ok && x.Budget.HasData && x.Budget.Remaining >= 0 {
			w.budget(x, now, got)
		}
		w.cost(p, x, at, now)
	}
	for i := range r.SLAs {
		x := &r.SLAs[i]
		w.scored(x, now, x.SLA.Window.Rolling, values(p, o.Score(x.SLA), x.SLA.GroupBy, at))
		if x.Alert != nil {
			w.scored(x.Alert, now, x.SLA.AlertWindow, values(p, o.AlertScore(x.SLA), x.SLA.GroupBy, at))
		}
	}
}

// values are the samples of an expression by group.
func values(p *rulestest.World, expr string, groupBy []string, at time.Time) map[string]float64 {
	out := map[string]float64{}
	for _, v := range p.Query(expr, at) {
		var g slo.Group
		for _, l := range groupBy {
			g = append(g, v.Metric.Get(l))
		}
		out[g.Key()] = v.F
	}
	return out
}

// outside is how far x is out of [low, high].
func outside(x, low, high float64) float64 { return max(0, low-x, x-high) }

func (w *oracleWorld) indicator(x *sla.SLOReport, b slo.Burn, now time.Duration, got float64, ok bool) {
	if w.begun(x.SLO, now, b.Window) {
		return
	}
	band := w.band(x.SLO, x.Group, now, b.Window)
	low, high, sure := band.ratios()
	what := fmt.Sprintf("%s %s over %s at %s", x.SLO.ID, x.Group, b.Window, now)
	switch {
	case sure && (!ok || !b.HasData):
		w.differ("%s: the rules have data: %t, the engine: %t, but there were at least %v events", what,
			ok, b.HasData, band.valid)
		return
	case !ok || !b.HasData:
		// A recorded ratio of a long window is looked back for, over ten minutes.
		before := w.band(x.SLO, x.Group, max(0, now-2*w.options.LongEval), b.Window)
		if ok && w.rarely(x.SLO, b.Window) && before.most() > 0 {
			return
		}
		if ok != b.HasData && band.edgeGood+band.edgeBad == 0 {
			w.differ("%s: the rules have data: %t, the engine: %t, and there was none", what, ok, b.HasData)
		}
		return
	}
	w.sum.indicators++
	engine := b.Rate * x.SLO.Objective.Budget()
	if outside(engine, low, high) > 1e-9 {
		w.differ("%s: the engine's error ratio is %v and cannot be outside %v to %v", what, engine, low, high)
	}
	far := outside(got, min(low, engine), max(high, engine))
	w.sum.indicator = max(w.sum.indicator, far)
	if math.Abs(got-engine) <= 0.005 {
		w.sum.plain++
	}
	if far > w.slack {
		w.differ("%s: the engine's error ratio is %v, that of the rules %v; the events at the edges allow %v to %v",
			what, engine, got, low, high)
	}
}

func (w *oracleWorld) budget(x *sla.SLOReport, now time.Duration, got float64) {
	low, high, ok := w.band(x.SLO, x.Group, now, x.SLO.Window.Rolling).ratios()
	if !ok || w.begun(x.SLO, now, x.SLO.Window.Rolling) {
		return
	}
	w.sum.budgets++
	budget := x.SLO.Objective.Budget()
	far := outside(got, 1-high/budget, 1-low/budget)
	w.sum.budget = max(w.sum.budget, far)
	if far > w.slack {
		w.differ("%s %s at %s: remaining budget is %v by the engine, %v by the rules; the events at the edges allow %v to %v",
			x.SLO.ID, x.Group, now, x.Budget.Remaining, got, 1-high/budget, 1-low/budget)
	}
}

func (w *oracleWorld) scored(x *sla.SLAReport, now, window time.Duration, all map[string]float64) {
	got, ok := all[x.Group.Key()]
	low, high, sure := w.score(x.SLA, x.Group, now, window, 1)
	what := fmt.Sprintf("%s %s over %s at %s", x.SLA.Name, x.Group, window, now)
	if !sure || slices.ContainsFunc(x.SLA.Components, func(c sla.Component) bool {
		return w.begun(w.slo(c.SLO), now, window)
	}) {
		return
	}
	if !ok || !x.HasData {
		w.differ("%s: the rules have a score: %t, the engine: %t", what, ok, x.HasData)
		return
	}
	w.sum.scores++
	far := outside(got, low, high)
	w.sum.score = max(w.sum.score, far)
	if far > 100*w.slack || outside(x.Score, low, high) > 1e-6 {
		w.differ("%s: the engine's score is %v, that of the rules %v; the events at the edges allow %v to %v", what,
			x.Score, got, low, high)
	}
}
