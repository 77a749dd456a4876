package history

import (
	"slices"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
)

const sliceRatioBin = 4 // of a sliced counter

// Tally is what an SLO counted over a span, whatever it counts.
type Tally struct {
	slo.Counts
	ratio float64 // sum over slices of the share of good events

	// Of a ratio, what its counts come from: they add up, and the counts do not.
	numerator, denominator uint64
}

// NewTally makes a tally of the bins of an SLO's counter, except of a volume, whose periods a Reader judges.
func NewTally(s *slo.SLO, a *fold.ReadResult, bins []uint64) Tally {
	var t Tally
	if len(bins) < 2 {
		return t
	}
	switch s.Indicator.Kind {
	case slo.KindVolume:
		return t
	case slo.KindRatio:
		return ratioTally(bins[0], bins[1])
	}
	t.Counts = s.Indicator.Kind.Counts(bins)
	if a.Sliced && len(bins) > sliceRatioBin {
		t.ratio = float64(bins[sliceRatioBin]) / 1e9
	}
	return t
}

func ratioTally(numerator, denominator uint64) Tally {
	return Tally{Counts: slo.RatioCounts(numerator, denominator), numerator: numerator, denominator: denominator}
}

func (t Tally) Plus(u Tally) Tally {
	if t.isRatio() || u.isRatio() {
		return ratioTally(t.numerator+u.numerator, t.denominator+u.denominator)
	}
	return Tally{Counts: t.Add(u.Counts), ratio: t.ratio + u.ratio}
}

func (t Tally) isRatio() bool { return t.numerator > 0 || t.denominator > 0 }

// Minus takes u out of t. What was counted between two looks must not make it wrap.
func (t Tally) Minus(u Tally) Tally {
	if t.isRatio() {
		return ratioTally(t.numerator-min(u.numerator, t.numerator), t.denominator-min(u.denominator, t.denominator))
	}
	u.Good, u.Bad = min(u.Good, t.Good), min(u.Bad, t.Bad)
	return Tally{Counts: t.Sub(u.Counts), ratio: max(0, t.ratio-u.ratio)}
}

// Reader makes tallies of the steps of one group of an SLO, which it is given in their order. It judges a volume by the
// rule of the engine: a group begins with its first event unless it is expected, and what is not a whole period is not
// judged.
type Reader struct {
	slo   *slo.SLO
	a     *fold.ReadResult
	begun bool
}

// NewReader reads an answer about a group.
func NewReader(s *slo.SLO, g slo.Group, a *fold.ReadResult) Reader {
	begun := len(g) == 0 || slices.ContainsFunc(s.Expect, func(e slo.Group) bool { return slices.Equal(e, g) })
	return Reader{s, a, begun}
}

// Tallies are what a step counted: everything, and without planned maintenance.
func (r *Reader) Tallies(sp slo.Span, raw, net []uint64) (all, left Tally) {
	in := &r.slo.Indicator
	if in.Kind != slo.KindVolume {
		return NewTally(r.slo, r.a, raw), NewTally(r.slo, r.a, net)
	}
	var n uint64
	for _, x := range raw {
		n += x
	}
	r.begun = r.begun || n > 0
	whole, ok := in.Period(sp.From.Add(1))
	if !r.begun || !ok || !whole.From.Equal(sp.From) || !whole.To.Equal(sp.To) {
		return Tally{}, Tally{}
	}
	seen := Seen(r.a, sp)
	excused := len(r.slo.Corrections) > 0 && len(slo.TakenOut(r.slo.Corrections, sp)) > 0
	return Tally{Counts: in.JudgeVolume(n, seen, false)}, Tally{Counts: in.JudgeVolume(n, seen, excused)}
}

// Loss is how much of the budget the tally cost, in events (half events of an apdex), slices or periods.
func (t Tally) Loss(s *slo.SLO) float64 {
	if s.ByRatio() {
		return float64(t.Valid()) - t.ratio
	}
	return float64(t.Bad)
}

// Budget is the budget as if the tally were all of the window.
func (t Tally) Budget(s *slo.SLO) slo.Budget {
	if n := t.Valid(); s.ByRatio() && n > 0 {
		return slo.NewRatioBudget(s.Objective, t.Counts, t.ratio/float64(n), true)
	}
	return slo.NewBudget(s.Objective, t.Counts)
}

// AddBins puts the bins of an SLO's counter, or the tally of a volume, into the input of a component.
func AddBins(in *sla.ComponentInput, sliced bool, bins []uint64, t Tally) {
	if in.Kind == slo.KindVolume {
		in.Counts = in.Counts.Add(t.Counts)
		return
	}
	if len(bins) < 2 {
		return
	}
	in.AddBins(bins)
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
