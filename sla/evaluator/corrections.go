package evaluator

import (
	"time"

	"github.com/sloengine/sloengine/slo"
)

// ahead is how far into the future occurrences are expanded, so that a
// recurrence rule runs about once a day and not at every tick.
const ahead = 24 * time.Hour

// exclusion is the time that a set of corrections takes out, expanded once for
// all SLOs that share the set.
type exclusion struct {
	corrections []slo.Correction
	reach       time.Duration // longest window asked of it
	slice       time.Duration // > 0: whole slices only, for a slice that is touched cannot be judged

	known slo.Span   // what the spans below cover
	spans []slo.Span // rounded, sorted, apart
}

func (e *exclusion) at(now time.Time) []slo.Span {
	need := slo.Span{From: now.Add(-e.reach), To: now}
	if need.From.Before(e.known.From) || need.To.After(e.known.To) {
		e.known = slo.Span{From: need.From, To: need.To.Add(ahead)}
		// Old counts are stored in steps of five minutes. Rounding newer ones the same way keeps
		// numbers from jumping when a maintenance turns three days old.
		e.spans = slo.TakenOut(e.corrections, e.known)
		if e.slice > 0 {
			e.spans = slo.MergeSpans(wholeSlices(e.spans, e.slice))
		}
	}
	return e.spans
}

// wholeSlices widens spans to the borders of the slices that they touch.
func wholeSlices(spans []slo.Span, per time.Duration) []slo.Span {
	for i, s := range spans {
		spans[i] = s.RoundOut(per)
	}
	return spans
}

// correction says which further spans to ask for so that the corrections can be
// taken out of several windows that all end now. It is made at every tick and
// shared by all indicators with the same corrections and windows.
type correction struct {
	exclusion *exclusion
	windows   []int // indexes into the plan's windows

	extra []slo.Span // whole ones first, oldest first; then those cut by a window's left edge
	whole int
	uses  []use // by index into the plan's windows
}

// use is what to take out of one window: the whole spans from first on, and the
// one that its left edge cuts.
type use struct {
	first int
	cut   int // index into extra; -1 if none
	taken time.Duration
}

func (c *correction) update(now time.Time, spans []slo.Span) {
	all := slo.Span{From: now, To: now}
	for _, w := range c.windows {
		if spans[w].From.Before(all.From) {
			all.From = spans[w].From
		}
	}
	c.extra = nil // the last tick's request owns the old one
	for _, s := range c.exclusion.at(now) {
		if s = s.Intersect(all); s.Duration() > 0 {
			c.extra = append(c.extra, s)
		}
	}
	c.whole = len(c.extra)
	if c.uses == nil {
		c.uses = make([]use, len(spans))
	}
	for _, w := range c.windows {
		c.uses[w] = c.use(spans[w].From)
	}
}

func (c *correction) use(from time.Time) use {
	u := use{cut: -1}
	for u.first < c.whole && !c.extra[u.first].To.After(from) {
		u.first++
	}
	for _, s := range c.extra[u.first:c.whole] {
		u.taken += s.Duration()
	}
	if u.first == c.whole || !c.extra[u.first].From.Before(from) {
		return u
	}
	cut := slo.Span{From: from, To: c.extra[u.first].To}
	u.taken -= from.Sub(c.extra[u.first].From)
	u.first++
	for i, s := range c.extra[c.whole:] {
		if s == cut {
			u.cut = c.whole + i
			return u
		}
	}
	u.cut = len(c.extra)
	c.extra = append(c.extra, cut)
	return u
}
