package rules

import (
	"slices"
	"time"

	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/slo"
)

// engineMemory is how long an engine that counts no longer is still expected back.
const engineMemory = time.Hour

// watch makes the rules record the share of a window that was observed.
func (r *sloRules) watch(w slo.Window) {
	if !slices.ContainsFunc(r.watched, func(x slo.Window) bool { return x.String() == w.String() }) {
		r.watched = append(r.watched, w)
	}
}

// presence records at each evaluation which share of the time since the one before
// the SLO was counted: none if it was not at either of them.
//
// slo_info exists exactly while an engine counts, so that gaps of the engine, of
// the scrapes and of Prometheus itself all leave evaluations without a sample. What
// Prometheus counts itself has the samples of its own rules; those of a ratio are
// missing in quiet times, too, so there only the evaluations tell.
func (r *sloRules) presence() []Rule {
	switch r.s.Indicator.PromForm() {
	case slo.PromNone:
	case slo.PromRatio:
		return []Rule{{Record: series.Observed, Expr: "vector(1)", Labels: r.labels}}
	default:
		valid := r.series(series.ValidEvents)
		return []Rule{
			{Record: series.Observed, Expr: "count(" + valid + " and " + valid + r.before() + ") > bool 0", Labels: r.labels}}
	}
	engines := r.series(series.Engines)
	return []Rule{
		{Record: series.Engines, Expr: "count(" + series.Info.Name + "{" + series.LabelSLOID + `="` + string(r.s.ID) + `"})`,
			Labels: r.labels},
		{Record: series.Observed, Expr: "(" + engines + " + " + engines + r.before() + ") / 2 / max_over_time(" + engines +
			"[" + dur(engineMemory) + "])"},
	}
}

// before looks back to the evaluation before.
func (r *sloRules) before() string { return " offset " + dur(r.g.Eval) }

// observed records the share of a window in which the SLO was counted; it is 0 and
// not absent where it was not. Windows up to an hour count evaluations, those up to
// six hours are joined from hours, longer ones add up the observed seconds of every
// five minutes.
func (r *sloRules) observed(w slo.Window) Rule {
	rule := Rule{Record: series.ObservedRatio(w.String()), Labels: r.labels}
	share := func(sum, full string) string { return "clamp_max((sum(" + sum + ") or vector(0)) / " + full + ", 1)" }
	length := w.Rolling
	switch {
	case w.Calendar != "":
		rule.Record = series.ObservedRatio(string(w.Calendar))
		p := r.g.services[r.s.ID.Service()].periods[w.String()]
		seen := r.long(r.series(series.ObservedRatio("5m"))+" * 300", "", w, mask{})
		rule.Expr = share(seen, "(time() - sum("+p.series(series.PeriodStart)+") > 0)")
	case length > shortLimit:
		rule.Expr = share("sum_over_time("+r.series(series.ObservedIncrease)+"["+dur(length)+"])",
			num(evaluations(length, r.g.LongEval)*base.Seconds()))
	default:
		if length > time.Hour {
			hour := func(part time.Duration) string { return r.series(series.ObservedRatio(dur(part))) }
			if rule.Expr = tiles(hour, "vector(0)", length); rule.Expr != "" {
				return rule
			}
		}
		rule.Expr = share("sum_over_time("+r.series(series.Observed)+"["+dur(length)+"])", num(evaluations(length, r.g.Eval)))
	}
	return rule
}

// evaluations is how many of a group there are in a window.
func evaluations(w, interval time.Duration) float64 { return max(1, float64(w)/float64(interval)) }

// Observed is the recorded share of a window, 0 to 1, in which the SLO was counted.
// The window must be one of Windows.
func (o Options) Observed(s *slo.SLO, w time.Duration) string {
	return o.fresh(o.bare().Series(s, series.ObservedRatio(slo.FormatDuration(w))), w)
}

// PeriodObserved is Observed over the SLO's own window.
func (o Options) PeriodObserved(s *slo.SLO) string { return o.observedOver(s, s.Window) }

func (o Options) observedOver(s *slo.SLO, w slo.Window) string {
	switch {
	case o.Minimal() && w.Calendar != "":
		return "vector(1)"
	case o.Minimal():
		return "max(" + o.bare().Covered(s, w.Rolling) + ")"
	}
	if w.Calendar == "" {
		return o.Observed(s, w.Rolling)
	}
	return o.fresh(o.bare().Series(s, series.ObservedRatio(string(w.Calendar))), w.Longest())
}

// countedWindows are the windows whose number of valid events is recorded exactly,
// besides those that every SLO has: the long windows of tiers up to six hours.
func countedWindows(s *slo.SLO) []time.Duration {
	tiers := s.Alerting.Tiers
	if len(tiers) == 0 {
		tiers = slo.Tiers
	}
	var out []time.Duration
	for _, t := range tiers {
		if t.Long > 0 && t.Long <= shortLimit && validSeries.over(t.Long) == "" && !slices.Contains(out, t.Long) {
			out = append(out, t.Long)
		}
	}
	slices.Sort(out)
	return out
}
