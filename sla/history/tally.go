package history

import (
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
)

const sliceRatioBin = 4 // of a sliced counter

// Tally is what an SLO counted over a span, whatever it counts.
type Tally struct {
	slo.Counts
	ratio float64 // sum over slices of the share of good events
}

func NewTally(a *fold.ReadResult, bins []uint64) Tally {
	var t Tally
	if len(bins) > 1 {
		t.Good, t.Bad = bins[0], bins[1]
	}
	if a.Sliced && len(bins) > sliceRatioBin {
		t.ratio = float64(bins[sliceRatioBin]) / 1e9
	}
	return t
}

func (t Tally) Plus(u Tally) Tally { return Tally{t.Add(u.Counts), t.ratio + u.ratio} }

// Minus takes u out of t. What was counted between two looks must not make it wrap.
func (t Tally) Minus(u Tally) Tally {
	u.Good, u.Bad = min(u.Good, t.Good), min(u.Bad, t.Bad)
	return Tally{t.Sub(u.Counts), max(0, t.ratio-u.ratio)}
}

// byRatio reports whether the mean of the slices' ratios is what counts.
func byRatio(s *slo.SLO) bool {
	return s.Budgeting.Method == slo.RatioTimeslices && s.Indicator.Kind != slo.KindThroughput
}

// Loss is how much of the budget the tally cost, in events or slices.
func (t Tally) Loss(s *slo.SLO) float64 {
	if byRatio(s) {
		return float64(t.Valid()) - t.ratio
	}
	return float64(t.Bad)
}

// Budget is the budget as if the tally were all of the window.
func (t Tally) Budget(s *slo.SLO) slo.Budget {
	if n := t.Valid(); byRatio(s) && n > 0 {
		return slo.NewRatioBudget(s.Objective, t.Counts, t.ratio/float64(n), true)
	}
	return slo.NewBudget(s.Objective, t.Counts)
}

// AddBins puts the bins of an SLO's counter into the input of a component.
func AddBins(in *sla.ComponentInput, sliced bool, bins []uint64) {
	if len(bins) < 2 {
		return
	}
	in.Counts = in.Counts.Add(slo.Counts{Good: bins[0], Bad: bins[1]})
	if sliced && len(bins) > sliceRatioBin {
		in.Achieved += bins[2]
		in.Target += bins[3]
		in.RatioSum += bins[sliceRatioBin]
	}
}

// ComponentInput is the input of an SLO of which nothing is counted yet, as the engine
// scores it.
func ComponentInput(s *slo.SLO) sla.ComponentInput {
	in := sla.ComponentInput{Objective: s.Objective, Kind: s.Indicator.Kind, Method: s.Budgeting.Method}
	if in.Kind == slo.KindThroughput {
		in.Method = slo.Occurrences // its slices are good or bad, whatever else is said
	}
	return in
}
