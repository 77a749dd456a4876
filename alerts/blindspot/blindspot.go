package blindspot

import (
	"math"
	"slices"
	"time"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/slo"
)

const (
	// HoursPerWeek is the length of a Week.
	HoursPerWeek = 7 * 24

	// Longest is how long an outage is followed.
	Longest = 24 * time.Hour

	// tick is how often an engine evaluates by default, and so the precision of an Outage. That of an ErrorRatio is within
	// precision: its search looks once a minute, which no window of a tier is shorter than.
	tick      = 10 * time.Second
	coarse    = time.Minute
	precision = 1.01

	// maxTiers is how many paging tiers are looked at, which is more than a spec has.
	maxTiers = 8
)

// Week is how many valid events each hour of the week brings, from Monday 00:00 UTC on.
type Week [HoursPerWeek]float64

// Flat is a week of steady traffic.
func Flat(perHour float64) *Week {
	var w Week
	for i := range w {
		w[i] = perHour
	}
	return &w
}

// Hour says what pages if it begins with an hour of the week, after a time without bad events.
type Hour struct {
	Events     float64       // expected in the hour
	Outage     time.Duration // the shortest time of only bad events that pages; 0 if no time up to Longest does
	ErrorRatio float64       // the smallest that pages if it lasts for an hour; 0 if none does
}

// Find gives all hours of a week. Events come evenly spread over each hour and the outage begins right after one, so
// that as many are bad as are on average. why says why an SLO has none.
func Find(s *slo.SLO, w *Week) (hours []Hour, why string) {
	if !rules.CountsEvents(s) {
		return nil, "it judges slices of time, so its alerts do not depend on the number of events"
	}
	p := newPlayer(s, w)
	if len(p.tiers) == 0 {
		return nil, "no burn-rate alert pages, so no outage is visible"
	}
	for i := range w {
		if i > 0 && p.flat {
			hours = append(hours, hours[0])
			continue
		}
		p.move(i)
		hours = append(hours, Hour{Events: w[i], Outage: p.outage(), ErrorRatio: p.ratio()})
	}
	return hours, ""
}

// player plays one outage after the other through the tiers of an SLO.
type player struct {
	tiers  []alerts.Tier // that page
	least  uint64        // min_events
	sums   [HoursPerWeek + 1]float64
	flat   bool
	after  time.Duration // how long after its end an outage may still begin to page
	near   time.Duration // how far from its end every tick matters
	lowest float64       // threshold of all tiers

	begin float64   // of the outage, in hours of the week
	base  float64   // events before begin
	known []float64 // whole by the tick, from reach before begin on; NaN if it was not asked for yet
	reach time.Duration
}

func newPlayer(s *slo.SLO, w *Week) *player {
	p := &player{least: s.Alerting.MinEvents, lowest: 1, near: 2 * coarse}
	all, _ := alerts.Tiers(s)
	for _, t := range all {
		if t.Page && len(p.tiers) < maxTiers {
			p.tiers = append(p.tiers, t)
			p.after = max(p.after, max(t.Short, t.Quiet.Window)+slo.Hold+t.For)
			p.reach = max(p.reach, t.Long.Truncate(tick)+tick)
			p.near = max(p.near, 2*coarse+t.For)
			p.lowest = min(p.lowest, t.Threshold)
		}
	}
	for i, n := range w {
		p.sums[i+1] = p.sums[i] + n
	}
	p.flat = slices.Min(w[:]) == slices.Max(w[:])
	return p
}

// sum is how many events come from the begin of a week up to an hour of it, which may be of another week.
func (p *player) sum(hour float64) float64 {
	week := math.Floor(hour / HoursPerWeek)
	hour -= week * HoursPerWeek
	i := min(int(hour), HoursPerWeek-1)
	return week*p.sums[HoursPerWeek] + p.sums[i] + (hour-float64(i))*(p.sums[i+1]-p.sums[i])
}

// move has outages begin with another hour of the week.
func (p *player) move(hour int) {
	p.begin = float64(hour)
	p.base = p.sum(p.begin)
	if p.known == nil {
		p.known = make([]float64, (p.reach+Longest+p.after)/tick+1)
	}
	for i := range p.known {
		p.known[i] = math.NaN()
	}
}

// whole is the number of the last event up to a time after the begin of the outage, where that of begin has number 0.
func (p *player) whole(at time.Duration) float64 {
	const rounding = 1e-6
	i := (at + p.reach) / tick
	if at%tick == 0 && i >= 0 && int(i) < len(p.known) && !math.IsNaN(p.known[i]) {
		return p.known[i]
	}
	n := math.Floor(p.sum(p.begin+at.Hours()) - p.base + rounding)
	if at%tick == 0 && i >= 0 && int(i) < len(p.known) {
		p.known[i] = n
	}
	return n
}

// outage finds the shortest outage that pages. A longer one has more bad events at any time, so it pages as well.
func (p *player) outage() time.Duration {
	high := p.pages(Longest, 1, false)
	if high == 0 {
		return 0
	}
	// With `for`, or as traffic falls, a page may begin after the end of its outage.
	low := max(0, high-coarse)
	if p.pages(low, 1, true) > 0 {
		low, high = 0, low
	}
	for high-low > tick {
		if probe := (low + (high-low)/2).Truncate(tick); p.pages(probe, 1, true) > 0 {
			high = probe
		} else {
			low = probe
		}
	}
	return high
}

// ratio finds the smallest error ratio of an hour that pages.
func (p *player) ratio() float64 {
	low, high := p.lowest, 1.0
	if p.pages(time.Hour, high, false) == 0 {
		return 0
	}
	for high/low > precision {
		if probe := math.Sqrt(low * high); p.pages(time.Hour, probe, false) > 0 {
			high = probe
		} else {
			low = probe
		}
	}
	return high
}

// pages is how long after the begin of an outage, of a length and an error ratio, the first page fires; 0 if none does.
// It looks once a minute and, with fine, at every tick around the end of the outage.
func (p *player) pages(length time.Duration, ratio float64, fine bool) time.Duration {
	last := p.whole(length)
	if bad(last, ratio) < slo.MinBad {
		return 0
	}
	var met [maxTiers]alerts.Met
	var since [maxTiers]time.Duration
	for at := tick; at <= length+p.after; {
		to := p.whole(at)
		failed := bad(min(to, last), ratio)
		for i := range p.tiers {
			t := &p.tiers[i]
			read := func(window time.Duration) alerts.Reading {
				from := p.whole(left(at, window))
				if to <= from {
					return alerts.Reading{Observed: 1}
				}
				n := to - from
				return alerts.Reading{Ratio: (failed - bad(min(from, last), ratio)) / n, Observed: 1, Events: n, HasData: true}
			}
			switch {
			case !t.Burns(read, p.least, false, epoch.Add(at), &met[i]):
				since[i] = 0
			case since[i] == 0:
				since[i] = at
			}
			if since[i] > 0 && at-since[i] >= t.For {
				return at
			}
		}
		if fine && at >= length-p.near && at < length+p.near {
			at += tick
		} else {
			at += coarse - (at-tick)%coarse // long windows have just moved on, see left
		}
	}
	return 0
}

// epoch is the begin of outages for conditions, which only look at differences.
var epoch = time.Unix(0, 0).Add(Longest)

// left is the left edge of a window, which an engine moves up to the next minute if it lies further back than an hour.
func left(at, window time.Duration) time.Duration {
	edge := at - window
	if window > time.Hour {
		if over := edge % time.Minute; over > 0 {
			edge += time.Minute - over
		} else {
			edge -= over
		}
	}
	return edge
}

// bad is how many of the events of an outage up to a number are bad.
func bad(number, ratio float64) float64 {
	const rounding = 1e-9
	return math.Floor(max(0, number)*ratio + rounding)
}
