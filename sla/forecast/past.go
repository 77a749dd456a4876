package forecast

import (
	"math"
	"time"
)

// Past is what was counted by the hour, prepared for questions. It can be loaded again, which saves its memory. It is
// not safe for use by several goroutines.
type Past struct {
	start    time.Time
	hours    []Hour
	valid    []float64 // sums of the hours before each index
	bad      []float64
	observed []float64

	scratch scratch
}

// Load takes over hours of the clock, oldest first and without gaps, the first of which begins at start. The last one
// may still be running. The hours must not change until the next Load.
func (p *Past) Load(start time.Time, hours []Hour) {
	p.start, p.hours = start, hours
	p.valid, p.bad, p.observed = append(p.valid[:0], 0), append(p.bad[:0], 0), append(p.observed[:0], 0)
	for i, h := range hours {
		p.valid = append(p.valid, p.valid[i]+h.Valid)
		p.bad = append(p.bad, p.bad[i]+h.Bad)
		p.observed = append(p.observed, p.observed[i]+h.Observed)
	}
}

// at is where a time lies among the hours: 1.5 is in the middle of the second.
func (p *Past) at(t time.Time) float64 { return float64(t.Sub(p.start)) / float64(time.Hour) }

// when is the opposite of at.
func (p *Past) when(x float64) time.Time {
	return p.start.Add(time.Duration(math.Round(x * float64(time.Hour))))
}

// between is what was counted from x to y. A part of an hour counts in proportion.
//
// now is the right edge of all that is asked: the hour that it lies in has counted up to it only.
func (p *Past) between(x, y, now float64) (valid, bad float64) {
	xv, xb := p.before(x, now)
	yv, yb := p.before(y, now)
	return max(0, yv-xv), max(0, yb-xb)
}

func (p *Past) before(x, now float64) (valid, bad float64) {
	n := len(p.hours)
	if x <= 0 || n == 0 {
		return 0, 0
	}
	x = min(x, now, float64(n))
	i := min(int(x), n-1)
	part := x - float64(i)
	if i == n-1 && now < float64(n) {
		part /= max(now-float64(i), 1e-9) // the running hour
	}
	part = min(part, 1)
	return p.valid[i] + part*p.hours[i].Valid, p.bad[i] + part*p.hours[i].Bad
}
