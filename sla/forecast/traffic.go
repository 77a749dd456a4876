package forecast

import (
	"math"
	"slices"
	"time"
)

const (
	hoursPerDay  = 24
	hoursPerWeek = 7 * hoursPerDay
	weeksBack    = 5

	// enough is the share of an hour that must have been observed for its traffic to tell anything.
	enough = 0.5
)

// traffic is how many valid events are expected, as sums over hours of the clock from the one of now on.
type traffic struct {
	ahead  []float64 // ahead[i] is what comes in the first i hours
	usual  []float64 // the same by the usual week alone, for two weeks
	spread float64   // standard deviation of the logarithm of what a day brings against what was expected
}

// expect fills in the hours ahead. base is the full hours before now, and n how many hours ahead are needed. share is
// the part of each of them that planned maintenance leaves.
//
// An hour is expected to be the median of the same hour of the last five weeks, so that one odd week does not show,
// times a factor: how the last days compare with the same days a week before. Without such an hour it is that of the
// last days, and without these the mean of all.
func (p *Past) expect(base, n int, share []float64) {
	s := &p.scratch
	t := &s.traffic
	mean := p.meanHour(base)
	s.week = s.week[:0]
	for k := range hoursPerWeek {
		s.week = append(s.week, p.usual(base, base+k, mean))
	}
	t.usual = append(t.usual[:0], 0)
	for k := range 2 * hoursPerWeek {
		t.usual = append(t.usual, t.usual[k]+s.week[k%hoursPerWeek])
	}
	factor, spread := p.trend(base)
	t.spread = spread
	t.ahead = append(t.ahead[:0], 0)
	for k := range n {
		v := s.week[k%hoursPerWeek] * factor
		if k < len(share) {
			v *= share[k]
		}
		t.ahead = append(t.ahead, t.ahead[k]+v)
	}
}

// Week is how many valid events each hour of the week brings, from Monday 00:00 UTC on.
type Week [hoursPerWeek]float64

// Week gives the usual week before now: of each hour the median of the same hour of the last five weeks. nil if less
// than a day was observed.
func (p *Past) Week(now time.Time) *Week {
	base := min(int(p.at(now)), len(p.hours))
	seen := 0
	for i := 0; i < base && seen < hoursPerDay; i++ {
		if p.hours[i].Observed >= enough {
			seen++
		}
	}
	if seen < hoursPerDay {
		return nil
	}
	monday := time.Date(1970, 1, 5, 0, 0, 0, 0, time.UTC)
	first := int(p.start.Sub(monday)/time.Hour) + base
	mean := p.meanHour(base)
	var w Week
	for k := range hoursPerWeek {
		w[((first+k)%hoursPerWeek+hoursPerWeek)%hoursPerWeek] = p.usual(base, base+k, mean)
	}
	return &w
}

// between is what is expected from one number of hours after x to another.
func (t *traffic) between(x float64, from, to int) float64 {
	part := x - math.Floor(x)
	return interpolate(t.ahead, part+float64(to)) - interpolate(t.ahead, part+float64(from))
}

// forever is what is expected in some hours after x, also beyond those that expect filled in: there weeks repeat.
func (t *traffic) forever(x, hours float64) float64 {
	part := x - math.Floor(x)
	known := float64(len(t.ahead) - 1)
	sum := -interpolate(t.ahead, part)
	hours += part
	if hours > known {
		last := t.ahead[len(t.ahead)-1] - t.ahead[len(t.ahead)-1-hoursPerWeek]
		weeks := math.Ceil((hours - known) / hoursPerWeek)
		sum, hours = sum+weeks*last, hours-weeks*hoursPerWeek
	}
	return sum + interpolate(t.ahead, hours)
}

func interpolate(sums []float64, x float64) float64 {
	i := min(int(x), len(sums)-2)
	return sums[i] + (x-float64(i))*(sums[i+1]-sums[i])
}

// was is the usual traffic of some hours of the past. from counts from the hour of now on and is negative.
func (t *traffic) was(from, length int) float64 {
	from = (from%hoursPerWeek + hoursPerWeek) % hoursPerWeek
	return t.usual[from+length] - t.usual[from]
}

// usual is the traffic of an hour by what the same hour was before base.
func (p *Past) usual(base, hour int, mean float64) float64 {
	var same [weeksBack]float64
	n := 0
	first := hour - hoursPerWeek
	for ; first >= base; first -= hoursPerWeek {
	}
	for i := first; i >= 0 && n < weeksBack && i >= base-weeksBack*hoursPerWeek; i -= hoursPerWeek {
		if h := &p.hours[i]; h.Observed >= enough {
			same[n] = h.Valid / h.Observed
			n++
		}
	}
	if n == 0 { // less than a week
		first = hour - hoursPerDay
		for ; first >= base; first -= hoursPerDay {
		}
		for i := first; i >= 0 && n < weeksBack; i -= hoursPerDay {
			if h := &p.hours[i]; h.Observed >= enough {
				same[n] = h.Valid / h.Observed
				n++
			}
		}
	}
	return median(same[:n], mean)
}

// median sorts a few values. It is otherwise if there are none.
func median(values []float64, otherwise float64) float64 {
	for i := 1; i < len(values); i++ {
		for k := i; k > 0 && values[k] < values[k-1]; k-- {
			values[k], values[k-1] = values[k-1], values[k]
		}
	}
	switch n := len(values); {
	case n == 0:
		return otherwise
	case n%2 == 1:
		return values[n/2]
	default:
		return (values[n/2-1] + values[n/2]) / 2
	}
}

// meanHour is the mean of the observed hours before base.
func (p *Past) meanHour(base int) float64 {
	sum, seen := 0.0, 0.0
	for i := max(0, base-weeksBack*hoursPerWeek); i < base; i++ {
		if h := &p.hours[i]; h.Observed >= enough {
			sum, seen = sum+h.Valid, seen+h.Observed
		}
	}
	if seen == 0 {
		return 0
	}
	return sum / seen
}

const (
	// trendDays is how many of the last days tell the factor of the traffic, and trendMost the greatest factor.
	trendDays = 3
	trendMost = 3

	// leastSpread is the spread of a day's traffic where one week is known. More weeks tell more of it.
	leastSpread = 0.2
)

// trend compares days with the same days a week before: how much more comes in the last ones, and how much a day
// differs from what was expected.
func (p *Past) trend(base int) (factor, spread float64) {
	var logs [2 * 7]float64
	n := 0
	for d := 1; d <= len(logs); d++ {
		from := base - d*hoursPerDay
		if from < hoursPerWeek {
			break
		}
		was, is := 0.0, 0.0
		for i := from; i < from+hoursPerDay; i++ {
			if a, b := &p.hours[i-hoursPerWeek], &p.hours[i]; a.Observed >= enough && b.Observed >= enough {
				was, is = was+a.Valid/a.Observed, is+b.Valid/b.Observed
			}
		}
		if was > 0 && is > 0 {
			logs[n] = math.Log(is / was)
			n++
		} else if d <= trendDays {
			break
		}
	}
	if n < trendDays {
		return 1, leastSpread
	}
	recent := median(slices.Clone(logs[:trendDays]), 0)
	middle := median(slices.Clone(logs[:n]), 0)
	for i := range n {
		logs[i] = math.Abs(logs[i] - middle)
	}
	// 1.4826 times the median of the differences estimates their standard deviation. Each is of two days.
	spread = min(1, 1.4826*median(logs[:n], 0)/math.Sqrt2)
	spread = max(spread, leastSpread*hoursPerWeek/float64(base))
	// The median of five weeks lags behind a level that changed in the last one. A change that is no more than usual is
	// none.
	if math.Abs(recent) < max(2*spread, 0.1) {
		return 1, spread
	}
	most := math.Log(trendMost)
	return math.Exp(max(-most, min(most, recent))), spread
}
