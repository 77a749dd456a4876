package slo

import "time"

// Budget is how much of an error budget is spent.
type Budget struct {
	Counts Counts // what was counted: events, or slices for the timeslice methods

	// HasData is false when nothing was valid; the ratios are then 0 and mean nothing.
	HasData bool

	SLI       float64 // indicator, good/valid, in [0,1]
	Consumed  float64 // share of the error budget spent: (1-SLI)/(1-objective); >1 when overspent
	Remaining float64 // 1 - Consumed; negative when overspent
}

// NewBudget computes the budget of an objective from counts. Bad events are
// weighed against all valid events of the same window, so that busy hours count
// for more than quiet ones (Google SRE workbook, chapter 5).
func NewBudget(o Objective, c Counts) Budget {
	b := Budget{Counts: c}
	v := c.Valid()
	if v == 0 {
		return b
	}
	return b.with(o, float64(c.Bad)/float64(v))
}

// NewRatioBudget computes the budget from a mean ratio of good events, as the
// method RatioTimeslices needs it. The counts are kept for show.
func NewRatioBudget(o Objective, c Counts, mean float64, ok bool) Budget {
	b := Budget{Counts: c}
	if !ok {
		return b
	}
	return b.with(o, 1-mean)
}

func (b Budget) with(o Objective, errorRatio float64) Budget {
	b.HasData = true
	b.SLI = 1 - errorRatio
	b.Consumed = errorRatio / o.Budget()
	b.Remaining = 1 - b.Consumed
	return b
}

// Burn is how fast the budget was spent over a window: 1 spends exactly the
// whole budget in one period.
type Burn struct {
	Window  time.Duration // nominal length; for the period of a calendar window its length so far
	Period  bool          // the SLO's own window
	Rate    float64       // error ratio / error budget
	Counts  Counts
	HasData bool

	// Effective is how many events the rate rests on, at most Counts.Valid(): less
	// where some were sampled, see Effective. Minimum numbers of events and
	// confidence bounds go by it. Of slices it is their number.
	Effective float64

	// Observed is the share of Window, in [0,1], in which the engine was running and
	// counting the present generation, or that was backfilled.
	Observed float64

	// Coverage is Observed times the share of the events offered in Window that no
	// limit dropped, in [0,1].
	Coverage float64
}

// NewBurn computes a burn rate from the budget of the same window.
func NewBurn(w time.Duration, b Budget) Burn {
	return Burn{Window: w, Rate: b.Consumed, Counts: b.Counts, HasData: b.HasData, Effective: float64(b.Counts.Valid())}
}

// BurnWindows are the windows over which burn rates are always known, in order.
// The SLO's own period follows them.
var BurnWindows = []time.Duration{
	5 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 6 * time.Hour, 24 * time.Hour, 3 * 24 * time.Hour,
}
