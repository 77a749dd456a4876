package sla

import (
	"strconv"

	"github.com/sloengine/sloengine/slo"
)

// ComponentInput is what was counted for one component over the agreement's
// window, with corrections taken out.
type ComponentInput struct {
	Objective slo.Objective
	Kind      slo.IndicatorKind
	Method    slo.BudgetMethod

	// Counts are events, or slices where slices are judged. Nothing valid means
	// that the component has no data.
	Counts slo.Counts

	Numerator, Denominator uint64 // KindRatio: what Counts come from

	RatioSum         uint64 // RatioTimeslices: sum of the slices' ratios, in billionths
	Achieved, Target uint64 // KindThroughput: sums of min(count, target) and of target

	// For a component with bands: Measured events had a duration, Within[i] of
	// them one of at most Bands[i].Threshold. The entry of a band without
	// threshold is not read.
	Within   []uint64
	Measured uint64

	Bands []BandTotal // passed on to the report

	Observed, Coverage float64 // passed on to the report
}

// AddBins adds what was counted for one group of the SLO over some time: events by bin, or judged slices or periods.
// Numerators and denominators add up before they are compared.
func (in *ComponentInput) AddBins(bins []uint64) {
	if in.Kind == slo.KindRatio && len(bins) > 1 {
		in.Numerator += bins[0]
		in.Denominator += bins[1]
		in.Counts = slo.RatioCounts(in.Numerator, in.Denominator)
		return
	}
	in.Counts = in.Counts.Add(in.Kind.Counts(bins))
}

// ErrorRatio is the share of bad events (or slices, or the mean of the slices'
// shares) in [0,1]; ok is false when there is nothing to judge.
func (in *ComponentInput) ErrorRatio() (ratio float64, ok bool) {
	n := in.Counts.Valid()
	if n == 0 {
		return 0, false
	}
	if in.Method == slo.RatioTimeslices {
		all := n * billion
		return float64(all-min(in.RatioSum, all)) / float64(all), true
	}
	return float64(in.Counts.Bad) / float64(n), true
}

const billion = 1_000_000_000

// Attain is how far an objective is met: 1 if the errors are within the budget,
// else budget/errors, so that ten budgets burned is 0.1. Both arguments of the
// comparison are correctly rounded, so an objective that is met to the event is
// met exactly.
func Attain(o slo.Objective, errorRatio float64) float64 {
	if errorRatio <= o.Budget() {
		return 1
	}
	return o.Budget() / errorRatio
}

// Scorer scores one agreement over and over. It never changes and may be used
// by several goroutines.
type Scorer struct {
	a       *Agreement
	weights []float64 // normalised
	total   float64   // sum of the weights as written
	bands   [][]step  // per component; nil without bands
}

// step is a Band prepared for exact comparison.
type step struct {
	catchAll bool
	quantile fraction
	points   float64
	note     string
}

// NewScorer prepares the scoring of an agreement, whose weights are positive.
func NewScorer(a *Agreement) *Scorer {
	s := &Scorer{a: a, weights: make([]float64, len(a.Components)), bands: make([][]step, len(a.Components))}
	for _, c := range a.Components {
		s.total += c.Weight
	}
	for i, c := range a.Components {
		s.weights[i] = c.Weight / s.total
		if a.Method == Bands {
			s.bands[i] = steps(c.Bands)
		}
	}
	return s
}

func steps(bands []Band) []step {
	var out []step
	last := "outside every band"
	for _, b := range bands {
		st := step{catchAll: b.Threshold == 0, quantile: newFraction(b.Quantile), points: clamp(b.Score / 100)}
		if st.catchAll {
			st.note = last
		} else {
			p := "p" + slo.FormatRatio(b.Quantile*100)
			st.note = p + " within " + slo.FormatDuration(b.Threshold)
			last = p + " above " + slo.FormatDuration(b.Threshold)
		}
		out = append(out, st)
	}
	return out
}

// Score scores one group. The inputs are in the order of the agreement's
// components; the component reports are written into dst, which must be as long
// and belongs to the report from then on.
func (s *Scorer) Score(period slo.Span, in []ComponentInput, dst []ComponentReport) SLAReport {
	r := SLAReport{SLA: s.a, Period: period, Components: dst, Worst: -1}

	// Sums are kept in the weights as written and divided once, so that 40, 30,
	// 20 and 10 give 94 and not 93.99999999999999.
	var points, present, missing float64
	for i := range in {
		c := s.component(i, &in[i])
		dst[i] = c
		w := s.a.Components[i].Weight
		if !c.HasData {
			r.Missing++
			missing += w
			r.Breached = r.Breached || s.a.NoData == NoDataBad
		} else {
			points += w * c.Points
			present += w
		}
		if known, att := attained(&in[i]); known && att < 1 {
			r.Breached = true
		}
		if c.Lost > 0 && (r.Worst < 0 || c.Lost > dst[r.Worst].Lost) {
			r.Worst = i
		}
	}
	r.Low = 100 * points / s.total
	r.High = 100 * (points + missing) / s.total
	r.Score, r.HasData = s.a.compose(points, present, missing)
	r.Level = s.level(&r)
	return r
}

// compose makes a score of the points of the components that have data, times
// their weights, and of the weights of those that have data and of those without.
// ok is false if neither data nor the policy gives one.
func (a *Agreement) compose(points, present, missing float64) (score float64, ok bool) {
	switch {
	case a.NoData == NoDataGood:
		return 100 * (points + missing) / (present + missing), true
	case a.NoData == NoDataBad:
		return 100 * points / (present + missing), true
	case present > 0:
		return 100 * points / present, true
	}
	return 0, false
}

// ObservedScore is the score, 0 to 100, that the agreement would have if the time
// that was not observed had been good, at the rate of the observed time: a
// component of the method attainment has its errors spread over the whole window,
// any other gets full points for that time. Without data it is 0.
func (r *SLAReport) ObservedScore() float64 {
	var points, present, missing float64
	for i := range r.Components {
		c := &r.Components[i]
		w := c.Weight
		switch {
		case !c.HasData:
			missing += w
			continue
		case r.SLA.Method != Attainment:
			points += w * (1 - (1-c.Points)*c.Observed)
		case c.Observed > 0:
			points += w * min(1, c.Points/c.Observed)
		default:
			points += w
		}
		present += w
	}
	score, _ := r.SLA.compose(points, present, missing)
	return score
}

func attained(in *ComponentInput) (known bool, attainment float64) {
	e, ok := in.ErrorRatio()
	if !ok {
		return false, 0
	}
	return true, Attain(in.Objective, e)
}

// component scores one component before weighting.
func (s *Scorer) component(i int, in *ComponentInput) ComponentReport {
	c := &s.a.Components[i]
	r := ComponentReport{
		Name: c.Name, SLO: c.SLO, Weight: s.weights[i],
		Objective: in.Objective.Ratio(), Counts: in.Counts, Observed: in.Observed, Coverage: in.Coverage, Bands: in.Bands,
	}
	e, counted := in.ErrorRatio()
	if counted {
		r.Indicator, r.Attainment = 1-e, Attain(in.Objective, e)
	}
	steps := s.bands[i]
	r.HasData = counted && (steps == nil || in.Measured > 0)
	if !r.HasData {
		s.missing(&r)
		return r
	}
	switch {
	case s.a.Method == Attainment:
		r.Points = r.Attainment
	case steps != nil:
		r.Points, r.Note = pick(steps, in)
	case in.Kind == slo.KindThroughput && in.Target > 0:
		r.Points = clamp(float64(in.Achieved) / float64(in.Target))
		r.Note = strconv.FormatFloat(100*r.Points, 'f', 2, 64) + " % of the target volume"
	default:
		r.Points = r.Indicator
	}
	r.Lost = 100 * r.Weight * (1 - r.Points)
	return r
}

func (s *Scorer) missing(r *ComponentReport) {
	switch s.a.NoData {
	case NoDataGood:
		r.Points, r.Note = 1, "no data, counted as good"
	case NoDataBad:
		r.Lost, r.Note = 100*r.Weight, "no data, counted as bad"
	default:
		r.Note = "no data, left out of the score"
	}
}

// pick finds the first band that holds.
func pick(steps []step, in *ComponentInput) (points float64, note string) {
	for i := range steps {
		if st := &steps[i]; st.catchAll || st.quantile.reached(in.Within[i], in.Measured) {
			return st.points, st.note
		}
	}
	return 0, "outside every band"
}

// slack keeps the last bits of a sum from crossing a threshold that the score
// meets exactly.
const slack = 1e-9

func (s *Scorer) level(r *SLAReport) Level {
	switch {
	case !r.HasData:
		return LevelNoData
	case r.Score < s.a.Critical-slack:
		return LevelCritical
	case r.Score < s.a.Warning-slack:
		return LevelWarning
	}
	return LevelOK
}

func clamp(x float64) float64 { return max(0, min(1, x)) }
