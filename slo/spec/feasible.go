package spec

import (
	"github.com/sloengine/sloengine/slo"
)

// feasible warns of what can be written but does not work: slices too long, and an
// objective that says how much may fail. Which alerts are left out is for the lint of
// package alerts, which makes them.
func (a *assembly) feasible(s *sloDraft) {
	if !s.ok {
		return
	}
	a.slices(s)
	if !s.Objective.IsZero() && s.Objective.Ratio() < 0.5 { // zero: it was not understood
		a.Warnf(s.objectiveAt, "an objective says how much is good, not how much may fail", "slo %s: with %s most may fail", s.ID.Name(), s.Objective)
	}
}

func (a *assembly) slices(s *sloDraft) {
	slice := s.Budgeting.Slice
	if s.Indicator.Kind == slo.KindThroughput {
		slice = s.Indicator.Per
	}
	if slice == 0 {
		return
	}
	if period := s.Window.Nominal(); slice > period/2 {
		a.Errorf(s.at, "take shorter slices or a longer window", "slo %s: slices of %s do not fit into the window (%s)", s.ID.Name(), slo.FormatDuration(slice), s.Window)
		return
	}
	for _, t := range tiers(s.Alerting) {
		if t.Page && !s.Alerting.Page.Disabled && slice > t.Short {
			a.Warnf(s.at, "take shorter slices, or `alerting: {page: {disabled: true}}`", "slo %s: slices of %s are longer than %s, the short window of the page alert, which would rarely see one", s.ID.Name(), slo.FormatDuration(slice), slo.FormatDuration(t.Short))
			return
		}
	}
}

// tiers are the burn-rate tiers of an SLO.
func tiers(a slo.Alerting) []slo.Tier {
	if len(a.Tiers) > 0 {
		return a.Tiers
	}
	return slo.Tiers
}
