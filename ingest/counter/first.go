package counter

import "time"

const (
	// fresh is how long ago a counter of an unknown target may have begun whose first point counts.
	fresh = int64(5 * time.Minute)
	// maxFirstRate is how many events a second a first point may say that were added since the scrape before.
	maxFirstRate = 100_000
)

// firstOfSeries says what the first point of a counter means that is scraped. All of it counts if the counter began
// after the last scrape, or was not there in an earlier one of the same target. It may have been there under another
// name, which another label, or another rule for labels, gave it: then a counter of the target ends that had counted no
// more. The point is held until the next one if such a counter has no point of this time yet.
func (b *Batch) firstOfSeries(p *Point, known, recorded *target) Verdict {
	c := b.table.classes[p.Class]
	if known == nil && recorded == nil {
		if c != nil && p.Began != 0 && p.Began >= c.since && p.Time-p.Began <= fresh && c.began[p.Began] == 0 {
			return Adds
		}
		return Baseline
	}
	first, last := p.Time, max(known.lastBefore(p.Time), recorded.lastBefore(p.Time))
	for _, of := range [...]*target{known, recorded} {
		if of != nil {
			first = min(first, of.first)
		}
	}
	from := first
	if p.Warmup > 0 {
		if c == nil {
			return Baseline
		}
		from = max(first, c.since+p.Warmup)
	}
	switch gap := max(p.Time-last, int64(time.Second)); {
	case p.Began != 0 && last != 0 && p.Began > last:
		return Adds
	case p.Began != 0 && p.Began < first:
		return Baseline // it was there and nobody sent it
	case from >= p.Time:
		return Baseline
	case float64(p.Count) > maxFirstRate*float64(gap)/float64(time.Second):
		return Baseline
	case b.vanished(known, recorded, p.Time, p.Began, p.Count):
		b.say(p, true)
		return Baseline
	}
	return Adds
}

// vanished reports whether a counter of the target had counted something, but no more than n, and has no point of that
// time or a later one, though the target did not begin again since.
func (b *Batch) vanished(known, recorded *target, at, began int64, n uint64) bool {
	if known == nil {
		return false
	}
	for i := range known.states {
		s := &known.states[i]
		if max(s.time, s.alive) >= at || max(known.fell, recorded.begunAgain()) > s.time {
			continue
		}
		if now, had := recorded.state(s.series); had && now.time >= at {
			continue
		}
		if s.count == 0 || s.count > n {
			continue
		}
		if its, _ := s.tail(); its == 0 || began == 0 || its == began {
			return true
		}
	}
	return false
}

func (of *target) begunAgain() int64 {
	if of == nil {
		return 0
	}
	return of.fell
}

// note remembers a point that is not recorded, since it says nothing new.
func (of *target) note(p *Point) {
	if of == nil {
		return
	}
	of.alive = max(of.alive, p.Time)
	if i, had := of.places[p.Series]; had {
		s := &of.states[i]
		s.alive = max(s.alive, p.Time)
	}
}

// lastBefore is when the target had a point last, as far as is known; 0: it is not.
func (of *target) lastBefore(at int64) (last int64) {
	if of == nil {
		return 0
	}
	for _, t := range [...]int64{of.before, of.last, of.alive} {
		if t < at {
			last = max(last, t)
		}
	}
	return last
}
