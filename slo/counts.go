package slo

// Counts are the good and bad events (or slices) of an indicator over some time.
type Counts struct {
	Good, Bad uint64
}

// Valid is how many events count at all.
func (c Counts) Valid() uint64 { return c.Good + c.Bad }

// Add returns the counts of both.
func (c Counts) Add(d Counts) Counts { return Counts{c.Good + d.Good, c.Bad + d.Bad} }

// Sub returns c without d; d must be part of c.
func (c Counts) Sub(d Counts) Counts { return Counts{c.Good - d.Good, c.Bad - d.Bad} }

// Effective is the effective number of events behind n counted ones, some of
// which stand for others that sampling left out: (sum of w)^2 / (sum of w^2) over
// their weights w (Kish, Survey Sampling, 1965). n is the sum of the weights, and
// excess what they add to the sum of their squares: the sum of w^2 - w. Without
// sampling it is n.
func Effective(n, excess uint64) float64 {
	sum := float64(n)
	if excess == 0 {
		return sum
	}
	return sum * sum / (sum + float64(excess))
}

// Ratio is good/valid in [0,1]; ok is false when nothing is valid (no data).
func (c Counts) Ratio() (ratio float64, ok bool) {
	v := c.Valid()
	if v == 0 {
		return 0, false
	}
	return float64(c.Good) / float64(v), true
}

// RatioCounts are the counts of an indicator of KindRatio over some time. What the numerator is short of the
// denominator is bad, and what it is above counts for nothing, so the ratio is at most 1. Without a denominator nothing
// is valid. The counts of two times do not add up to those of both: add numerators and denominators instead.
func RatioCounts(numerator, denominator uint64) Counts {
	good := min(numerator, denominator)
	return Counts{Good: good, Bad: denominator - good}
}

// ApdexCounts are the counts of an indicator of KindApdex, in half events: a satisfied event is two good halves, a
// tolerated one a good and a bad half, a frustrated one two bad halves. Their ratio is the Apdex score,
// (satisfied + tolerated/2) / all (Apdex Technical Specification 1.1, section 3), and exact.
func ApdexCounts(satisfied, tolerated, frustrated uint64) Counts {
	return Counts{Good: 2*satisfied + tolerated, Bad: tolerated + 2*frustrated}
}

// Unit is how many counts one event makes: 2 for KindApdex, whose counts are in half events, else 1.
func (k IndicatorKind) Unit() uint64 {
	if k == KindApdex {
		return 2
	}
	return 1
}

// Counts makes counts of the bins that are counted for an indicator: numerator and denominator of KindRatio, the
// satisfied, tolerated and frustrated events of KindApdex, good and bad ones of all others. Missing bins are zero.
func (k IndicatorKind) Counts(bins []uint64) Counts {
	at := func(i int) uint64 { // a tick asks some hundred thousand times, so nothing is copied
		if i < len(bins) {
			return bins[i]
		}
		return 0
	}
	switch k {
	case KindRatio:
		return RatioCounts(at(0), at(1))
	case KindApdex:
		return ApdexCounts(at(0), at(1), at(2))
	}
	return Counts{Good: at(0), Bad: at(1)}
}

// PartNames name the bins that the counts of an indicator are made of, in their order; nil where those are the good and
// the bad events themselves.
func (k IndicatorKind) PartNames() []string {
	switch k {
	case KindRatio:
		return ratioParts
	case KindApdex:
		return apdexParts
	}
	return nil
}

var (
	ratioParts = []string{"numerator", "denominator"}
	apdexParts = []string{"satisfied", "tolerated", "frustrated"}
)
