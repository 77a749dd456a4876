package slo

import "time"

// State is what an SLO's budget says at a glance.
type State string

// The states. NoData is its own state and never good.
const (
	StateOK        State = "ok"
	StateAtRisk    State = "at_risk"
	StateExhausted State = "exhausted"
	StateNoData    State = "no_data"
)

// AtRiskRemaining is the share of the budget below which an SLO is at risk
// even when nothing burns now.
const AtRiskRemaining = 0.2

// Tier is a pair of windows that must both burn faster than a factor: the long
// one proves that it matters, the short one that it still goes on.
type Tier struct {
	Page        bool // page, else ticket
	Long, Short time.Duration
	Share       float64 // share of the period's budget that the long window may spend
}

// Factor is the burn rate at which the tier's share of the budget is spent
// within its long window, for a period of the given length.
func (t Tier) Factor(period time.Duration) float64 {
	return t.Share * float64(period) / float64(t.Long)
}

// Tiers are the multiwindow, multi-burn-rate tiers of the Google SRE workbook,
// chapter 5: 2, 5, 10 and 10 % of the budget.
var Tiers = []Tier{
	{Page: true, Long: time.Hour, Short: 5 * time.Minute, Share: 0.02},
	{Page: true, Long: 6 * time.Hour, Short: 30 * time.Minute, Share: 0.05},
	{Page: false, Long: 24 * time.Hour, Short: 2 * time.Hour, Share: 0.10},
	{Page: false, Long: 3 * 24 * time.Hour, Short: 6 * time.Hour, Share: 0.10},
}

// Judge gives the state of a budget. At risk means that little of it is left,
// or that some tier burns now; a tier whose long window is longer than the
// period is left out, for it would look past it.
func Judge(period time.Duration, b Budget, burns []Burn) State {
	switch {
	case !b.HasData:
		return StateNoData
	case b.Remaining <= 0:
		return StateExhausted
	case b.Remaining < AtRiskRemaining:
		return StateAtRisk
	}
	rate := func(w time.Duration) float64 {
		for _, br := range burns {
			if br.Window == w && !br.Period && br.HasData {
				return br.Rate
			}
		}
		return 0
	}
	for _, t := range Tiers {
		if f := t.Factor(period); t.Long < period && rate(t.Long) > f && rate(t.Short) > f {
			return StateAtRisk
		}
	}
	return StateOK
}
