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

// Ratio is good/valid in [0,1]; ok is false when nothing is valid (no data).
func (c Counts) Ratio() (ratio float64, ok bool) {
	v := c.Valid()
	if v == 0 {
		return 0, false
	}
	return float64(c.Good) / float64(v), true
}
