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
