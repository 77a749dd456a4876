package spec

import (
	"fmt"
	"strings"

	"github.com/sloengine/sloengine/slo"
)

// feasible warns of what can be written but does not work: alerts that can never
// fire, windows too short for them, slices too long.
func (a *assembly) feasible(s *sloDraft) {
	if !s.ok {
		return
	}
	name, period := s.ID.Name(), nominal(s.Window)
	var tooShort, never []string
	for _, t := range tiers(s.Alerting) {
		settings, kind := s.Alerting.Ticket, "ticket"
		if t.Page {
			settings, kind = s.Alerting.Page, "page"
		}
		if settings.Disabled {
			continue
		}
		if t.Long >= period {
			tooShort = append(tooShort, fmt.Sprintf("%s over %s", kind, slo.FormatDuration(t.Long)))
			continue
		}
		// Nothing burns faster than everything being bad.
		if need := t.Factor(period) * s.Objective.Budget(); need >= 1 {
			never = append(never, fmt.Sprintf("%s over %s would need %s %% of all events to be bad", kind, slo.FormatDuration(t.Long), percent(need)))
		}
	}
	if len(never) > 0 {
		a.warnf(s.objectiveAt, "raise the objective or shorten the window", "slo %s: alerts that can never fire: %s", name, strings.Join(never, "; "))
	}
	if len(tooShort) > 0 {
		a.warnf(s.at, "a longer window gives these alerts", "slo %s: the window (%s) is too short for some alerts, they are left out: %s", name, s.Window, strings.Join(tooShort, ", "))
	}
	a.slices(s)
	if s.Objective.Ratio() < 0.5 {
		a.warnf(s.objectiveAt, "an objective says how much is good, not how much may fail", "slo %s: with %s most may fail", name, s.Objective)
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
	if period := nominal(s.Window); slice > period/2 {
		a.errorf(s.at, "take shorter slices or a longer window", "slo %s: slices of %s do not fit into the window (%s)", s.ID.Name(), slo.FormatDuration(slice), s.Window)
		return
	}
	for _, t := range tiers(s.Alerting) {
		if t.Page && !s.Alerting.Page.Disabled && slice > t.Short {
			a.warnf(s.at, "take shorter slices, or `alerting: {page: {disabled: true}}`", "slo %s: slices of %s are longer than %s, the short window of the page alert, which would rarely see one", s.ID.Name(), slo.FormatDuration(slice), slo.FormatDuration(t.Short))
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

func percent(x float64) string { return fmt.Sprintf("%.4g", 100*x) }
