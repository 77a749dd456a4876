package forecast

import (
	"math"
	"sort"
	"time"
)

// model is what the past says about the future, beside the traffic and the pieces.
type model struct {
	x    float64 // where now is among the hours
	base int     // the full hours before now
	days int     // full days of the past to draw from, at most five weeks

	mean      float64 // bad ratio of all of them, where nothing else is known
	threshold float64 // bad ratio of an hour from which on it belongs to an incident
	runs      []run   // incidents
	now       *present
	level     *level
	usual     usual
	short     float64 // hours of a rolling window that is shorter than the first week ahead; 0 if it is not
}

// leastDays is how many days must have been observed for a forecast.
const leastDays = 7

// At answers a question from the past that was loaded.
func (p *Past) At(q Question) Forecast {
	out := Forecast{Time: q.Now}
	m, why := p.fit(&q)
	if why != "" {
		out.TooLittle = why
		return out
	}
	points := make([]int, 0, len(LeadTimes)+1)
	for _, ahead := range LeadTimes {
		points = append(points, int(ahead/time.Hour))
	}
	farthest := hoursPerWeek
	if q.Window.Calendar != "" {
		end := hoursUntil(q.Now, q.Window.End(q.Now))
		farthest = max(farthest, end)
		points = append(points, end)
	}
	p.expect(m.base, farthest+1, q.Ahead)
	p.plan(&q, m, points, farthest)
	p.walk(&q, m)
	p.collect(&out, &q, points, farthest)
	out.Pace = p.pace(&q, m)
	out.Relief = p.relief(&q, m)
	if m.level != nil {
		out.Level = &Level{Since: p.when(float64(m.level.first)), Before: m.level.before, After: m.level.after}
	}
	if m.now != nil {
		burn := m.now.ratio / q.Budget
		out.Running = &Running{Since: p.when(float64(m.now.first)), Burn: burn, Empty: p.emptyAt(&q, m.x, burn)}
	}
	return out
}

// Exhausted is the probability, in [0,1], that the budget is empty at some time within a period ahead, which ends with
// a calendar window at the latest. why says why it is not known; "" if it is.
func (p *Past) Exhausted(q Question, ahead time.Duration) (probability float64, why string) {
	m, why := p.fit(&q)
	if why != "" {
		return 0, why
	}
	if q.Window.Calendar != "" {
		ahead = min(ahead, q.Window.End(q.Now).Sub(q.Now))
	} else if q.Window.Rolling < ahead {
		m.short = q.Window.Rolling.Hours()
	}
	if q.Bad > 0 && q.Bad >= q.Budget*q.Valid {
		return 1, ""
	}
	farthest := int((ahead + time.Hour - 1) / time.Hour)
	p.expect(m.base, farthest+1, q.Ahead)
	p.plan(&q, m, nil, farthest)
	p.walk(&q, m)
	return p.scratch.emptyWithin(float64(farthest)), ""
}

// fit looks at the past of a question. why says why that is too little.
func (p *Past) fit(q *Question) (m *model, why string) {
	x := p.at(q.Now)
	if x < 0 || int(math.Ceil(x)) > len(p.hours) {
		return nil, "the hours do not reach to now"
	}
	m = &model{x: x, base: int(x)}
	if q.Valid == 0 {
		q.Valid, q.Bad = p.between(p.at(q.Window.Start(q.Now)), x, x)
	}
	m.days = min(m.base, weeksBack*hoursPerWeek) / hoursPerDay
	first := max(0, m.base-weeksBack*hoursPerWeek)
	valid, bad := p.valid[m.base]-p.valid[first], p.bad[m.base]-p.bad[first]
	// Hours before the first event say nothing: the service, or this group of it, was not there yet.
	began := first + sort.Search(m.base-first, func(i int) bool { return p.valid[first+i+1] > p.valid[first] })
	const least = leastDays * hoursPerDay
	switch {
	case p.observed[m.base]-p.observed[first] < least:
		return nil, "less than a week was observed"
	case valid == 0:
		return nil, "no valid event in five weeks"
	case p.observed[m.base]-p.observed[began] < least:
		return nil, "the first valid event came less than a week ago"
	case bad < leastBad:
		return nil, "no bad event in five weeks"
	}
	m.mean = bad / valid
	m.threshold = max(incidentBurn*q.Budget, incidentFactor*p.medianRatio(first, m.base))
	p.scratch.runs = p.incidents(p.scratch.runs[:0], first, m.base, m.threshold)
	m.runs = p.scratch.runs
	m.now = p.running(m)
	if m.level = p.changed(m, first); m.level != nil && m.now != nil && m.now.first <= m.base-leastLevel/2 {
		m.now = nil // it is the level
	}
	m.usual = p.usualRatio(m, first)
	if q.Window.Calendar == "" && q.Window.Rolling < week {
		m.short = q.Window.Rolling.Hours()
	}
	return m, ""
}

// collect turns paths into ranges.
func (p *Past) collect(out *Forecast, q *Question, points []int, farthest int) {
	s := &p.scratch
	out.Points = make([]Point, len(points))
	for i, ahead := range points {
		values := s.remaining[i]
		out.Points[i] = Point{
			Ahead: time.Duration(ahead) * time.Hour,
			Low:   quantile(values, low), Median: quantile(values, 0.5), High: quantile(values, high),
			Exhausted: s.emptyWithin(float64(ahead)),
		}
		if i == len(LeadTimes) {
			out.Points[i].Ahead, out.Points[i].WindowEnd = q.Window.End(q.Now).Sub(q.Now), true
		}
	}
	e := &out.Exhaustion
	e.Within = time.Duration(farthest) * time.Hour
	e.Already = q.Bad > 0 && q.Bad >= q.Budget*q.Valid
	e.Probability, e.Soon = s.emptyWithin(float64(farthest)), s.emptyWithin(q.Soon.Hours())
	e.Low, e.Median, e.High = hours(quantile(s.empty, low)), hours(quantile(s.empty, 0.5)), hours(quantile(s.empty, high))
	if e.Already {
		e.Probability, e.Soon, e.Low, e.Median, e.High = 1, 1, 0, 0, 0
	}
}

const (
	low  = (1 - Probability) / 2
	high = 1 - low
)

// emptyWithin is the share of the paths on which the budget is empty within some hours.
func (s *scratch) emptyWithin(hours float64) float64 {
	n := 0
	for _, h := range s.empty {
		if h <= hours {
			n++
		}
	}
	return float64(n) / float64(len(s.empty))
}

// hours is Beyond for infinity.
func hours(h float64) time.Duration {
	if math.IsInf(h, 1) {
		return Beyond
	}
	return time.Duration(h * float64(time.Hour))
}
