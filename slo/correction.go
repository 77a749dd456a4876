package slo

import (
	"slices"
	"time"
)

// Correction is planned maintenance: time that is taken out of the budgets of
// the SLOs that it names. Who did it and why stays on record.
type Correction struct {
	Name, Author, Reason string

	Start    time.Time
	Duration time.Duration
	RRule    string // RFC 5545 recurrence as written; "" for a one-off

	// SLOs names the SLOs of the service; empty means all of them.
	SLOs []string

	// Between lists the occurrences that touch the span, oldest first. Nil for a
	// one-off, which Start and Duration already describe.
	Between func(Span) []Span
}

// Occurrences lists the correction's spans that touch sp, cut to sp.
func (c Correction) Occurrences(sp Span) []Span {
	all := []Span{{c.Start, c.Start.Add(c.Duration)}}
	if c.Between != nil {
		all = c.Between(sp)
	}
	var out []Span
	for _, o := range all {
		if o = o.Intersect(sp); o.Duration() > 0 {
			out = append(out, o)
		}
	}
	return out
}

// Excluded is the time that the corrections take out of sp: sorted spans that
// do not overlap or touch, so that no event is taken out twice.
func Excluded(cs []Correction, sp Span) []Span {
	var all []Span
	for _, c := range cs {
		all = append(all, c.Occurrences(sp)...)
	}
	return MergeSpans(all)
}

// CorrectionStep is what the engine rounds the edges of corrections to. It is the
// width of the oldest counts, so that what a correction takes out stays the same
// as it ages.
const CorrectionStep = 5 * time.Minute

// TakenOut is Excluded with every occurrence rounded outward first: its start
// down and its end up to a multiple of CorrectionStep since the Unix epoch. It is
// the time that the engine leaves out of budgets.
func TakenOut(cs []Correction, sp Span) []Span {
	// An occurrence just outside of sp may reach into it once it is rounded.
	near := Span{sp.From.Add(-CorrectionStep), sp.To.Add(CorrectionStep)}
	var all []Span
	for _, c := range cs {
		for _, o := range c.Occurrences(near) {
			all = append(all, o.RoundOut(CorrectionStep).Intersect(sp))
		}
	}
	return MergeSpans(all)
}

// RoundOut widens the span to multiples of step since the Unix epoch.
func (s Span) RoundOut(step time.Duration) Span {
	s.From = s.From.Add(-sinceStep(s.From, step))
	if over := sinceStep(s.To, step); over > 0 {
		s.To = s.To.Add(step - over)
	}
	return s
}

// sinceStep is the time since the last multiple of step.
func sinceStep(t time.Time, step time.Duration) time.Duration {
	return time.Duration((t.UnixNano()%int64(step) + int64(step)) % int64(step))
}

// MergeSpans joins spans that overlap or touch and drops empty ones. It sorts
// all in place.
func MergeSpans(all []Span) []Span {
	slices.SortFunc(all, func(a, b Span) int { return a.From.Compare(b.From) })
	var out []Span
	for _, s := range all {
		if s.Duration() == 0 {
			continue
		}
		if n := len(out); n > 0 && !s.From.After(out[n-1].To) {
			if s.To.After(out[n-1].To) {
				out[n-1].To = s.To
			}
			continue
		}
		out = append(out, s)
	}
	return out
}
