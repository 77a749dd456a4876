package forecast

import (
	"math"
	"slices"
	"time"
)

// CapacityAhead is how far ahead a trend of traffic is followed. Five weeks tell nothing about the time after that.
const CapacityAhead = 12 * week

const (
	// leastWeeks is how many whole weeks a trend needs.
	leastWeeks = 3

	// leastHours is how many hours of the week must have been observed in all of these weeks.
	leastHours = 24
)

// Reach says when the traffic of the busiest hour of the week will be at the capacity.
type Reach string

// The answers of a trend.
const (
	ReachedAlready Reach = "reached"                 // the busiest hour of the week is there
	ReachedWithin  Reach = "within"                  // between Capacity.Low and Capacity.High
	ReachedBeyond  Reach = "not within twelve weeks" // it falls, or grows too slowly
	ReachUnknown   Reach = "too little data"         // fewer than three whole weeks were observed
)

// Capacity compares the hours of the week with a capacity. Rates are events per second and means of an hour, so a peak
// of some minutes does not show.
type Capacity struct {
	Time  time.Time
	Limit float64 // the capacity, in events per second

	// Peak is the hour of the week that comes closest to the capacity, as it was last: the one with the greatest median
	// of the last five weeks, each brought to the level of today by the growth. HasPeak is false until an hour was
	// observed.
	HasPeak bool
	Peak    time.Time
	Rate    float64 // of that hour

	Growth    float64 // change of the traffic per week, 0.1 for a tenth more; 0 if Reached is ReachUnknown
	Reached   Reach
	Low, High time.Duration // of ReachedWithin; High is Beyond if the slowest growth of two weeks does not reach it
}

// Utilization is the share of the capacity that the busiest hour of the week uses.
func (c *Capacity) Utilization() float64 { return c.Rate / c.Limit }

// Capacity compares the full hours before now with a limit in events per second. Hours of which less than half was
// observed are left out.
func (p *Past) Capacity(now time.Time, limit float64) Capacity {
	out := Capacity{Time: now, Limit: limit, Reached: ReachUnknown}
	base := min(int(p.at(now)), len(p.hours))
	growth, slow, fast, known := p.growth(base)
	best := -1
	for k := 1; k <= min(hoursPerWeek, base); k++ {
		if rate, ok := p.medianRate(base-k, base, growth); ok && (best < 0 || rate > out.Rate) {
			best, out.Rate = base-k, rate
		}
	}
	if best < 0 {
		return out
	}
	out.HasPeak, out.Peak, out.Growth = true, p.when(float64(best)), math.Expm1(growth)
	switch {
	case out.Rate >= limit:
		out.Reached = ReachedAlready
		return out
	case !known:
		return out
	}
	out.Reached = ReachedBeyond
	reach := func(g float64) time.Duration {
		if g <= 0 {
			return Beyond
		}
		if weeks := math.Log(limit/out.Rate) / g; weeks <= CapacityAhead.Hours()/hoursPerWeek {
			return hours(weeks * hoursPerWeek)
		}
		return Beyond
	}
	if reach(growth) < Beyond {
		out.Reached, out.Low, out.High = ReachedWithin, reach(fast), reach(slow)
	}
	return out
}

// medianRate is the median of one hour of the week, of which i is the last, over the last weeks, as if the growth since
// had been in it.
func (p *Past) medianRate(i, base int, growth float64) (float64, bool) {
	rates := p.scratch.week[:0]
	for since := 0.0; i >= max(0, base-weeksBack*hoursPerWeek); i, since = i-hoursPerWeek, since+1 {
		if r, ok := p.rate(i); ok {
			rates = append(rates, r*math.Exp(growth*since))
		}
	}
	p.scratch.week = rates
	if len(rates) == 0 {
		return 0, false
	}
	slices.Sort(rates)
	n := len(rates)
	return (rates[(n-1)/2] + rates[n/2]) / 2, true
}

// rate is that of one hour in events per second. ok is false if too little of it was observed.
func (p *Past) rate(i int) (r float64, ok bool) {
	h := &p.hours[i]
	if h.Observed < enough {
		return 0, false
	}
	return h.Valid / h.Observed / time.Hour.Seconds(), true
}

// growth is the logarithm of how traffic changes per week: the median slope between any two of the last weeks (Theil
// and Sen), and the least and the greatest. Weeks are compared by the hours of the week that were observed in all of
// them.
func (p *Past) growth(base int) (median, slow, fast float64, ok bool) {
	weeks := min(base/hoursPerWeek, weeksBack)
	for ; weeks >= leastWeeks; weeks-- {
		sums := make([]float64, weeks) // the last week first
		common := 0
		for k := 1; k <= hoursPerWeek; k++ {
			all := true
			for w := range weeks {
				_, seen := p.rate(base - k - w*hoursPerWeek)
				all = all && seen
			}
			if !all {
				continue
			}
			common++
			for w := range weeks {
				r, _ := p.rate(base - k - w*hoursPerWeek)
				sums[w] += r
			}
		}
		if common < leastHours || slices.Min(sums) <= 0 {
			continue
		}
		var slopes []float64
		for a := range weeks {
			for b := a + 1; b < weeks; b++ {
				slopes = append(slopes, math.Log(sums[a]/sums[b])/float64(b-a))
			}
		}
		slices.Sort(slopes)
		n := len(slopes)
		return (slopes[(n-1)/2] + slopes[n/2]) / 2, slopes[0], slopes[n-1], true
	}
	return 0, 0, 0, false
}
