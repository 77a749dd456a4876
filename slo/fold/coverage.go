package fold

import (
	"cmp"
	"slices"
	"time"

	"github.com/sloengine/sloengine/slo"
)

// This file holds the up-time of the engine as the records tell it. A clock is never asked: two records within
// maxSilence, with no start in between, prove that the engine was up from one to the other.

// Mark says what a record tells about the engine's up-time.
type Mark uint8

// The marks.
const (
	Tick  Mark = iota // an ordinary record: the engine was up
	Start             // the engine came up with this record
	Stop              // the engine shut down after this record
)

// maxSilence is the longest time between two records in which the engine is
// taken to have been up; when idle it writes one at least every 10 seconds.
//
// So two heartbeats in a row may be missing, as on an overloaded machine.
const maxSilence = 30 * time.Second

// uptime is when the engine was up, as the records tell. Times are Unix nanoseconds.
//
// The last span grows with each record while open. Spans never shrink, except that forget drops old ones.
type uptime struct {
	spans []upSpan // rising, no two touching
	open  bool     // the last span goes on with the next record
}

// upSpan is a time in which something was observed, in Unix nanoseconds. The end is the receive time of a record, so it is
// known to belong to it.
type upSpan struct{ from, to int64 }

// note extends the up-time by a record.
//
// at never goes back, since the fold passes its own record time.
func (u *uptime) note(at int64, mark Mark) {
	n := len(u.spans)
	goesOn := n > 0 && u.open && mark != Start && at-u.spans[n-1].to <= int64(maxSilence)
	switch {
	case goesOn:
		u.spans[n-1].to = max(u.spans[n-1].to, at)
	case n > 0 && at <= u.spans[n-1].to:
		// A restart within the same instant, or a clock that went back.
	default:
		u.spans = append(u.spans, upSpan{at, at})
	}
	u.open = mark != Stop
}

// forget drops what ended before t.
//
// A span that reaches over t stays whole.
func (u *uptime) forget(t int64) { u.spans = slices.Delete(u.spans, 0, before(u.spans, t)) }

// before is how many of the rising spans ended before t.
func before(spans []upSpan, t int64) int {
	n, _ := slices.BinarySearchFunc(spans, t, func(s upSpan, t int64) int {
		if s.to < t {
			return -1
		}
		return 1
	})
	return n
}

// merged joins spans that overlap or touch, in place, and drops empty ones.
func merged(all []upSpan) []upSpan {
	all = slices.DeleteFunc(all, func(s upSpan) bool { return s.from >= s.to })
	slices.SortFunc(all, func(a, b upSpan) int { return cmp.Compare(a.from, b.from) })
	out := all[:0]
	for _, s := range all {
		if n := len(out) - 1; n >= 0 && s.from <= out[n].to {
			out[n].to = max(out[n].to, s.to)
			continue
		}
		out = append(out, s)
	}
	return out
}

// covers reports whether the engine was up throughout [from, to).
func (u *uptime) covers(from, to int64) bool { return covers(u.spans, from, to) }

// covers reports whether one of the rising spans holds [from, to).
func covers(spans []upSpan, from, to int64) bool {
	i, _ := slices.BinarySearchFunc(spans, from, func(s upSpan, t int64) int {
		if s.to <= t {
			return -1
		}
		return 1
	})
	return i < len(spans) && spans[i].from <= from && to <= spans[i].to
}

// list gives the spans that do not end before kept.
func (u *uptime) list(kept int64) []slo.Span { return spanList(u.spans[before(u.spans, kept):]) }

// spanList is a copy for callers.
func spanList(spans []upSpan) []slo.Span {
	out := make([]slo.Span, len(spans))
	for i, s := range spans {
		out[i] = slo.Span{From: unix(s.from), To: unix(s.to)}
	}
	return out
}

// unix is the time of Unix nanoseconds, in UTC; the zero time for 0.
func unix(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}

// nanos is a time in Unix nanoseconds, kept away from the ends of int64 and from
// below zero, where nothing is counted.
func nanos(t time.Time) int64 {
	const most = 9_000_000_000
	return min(max(t.Unix(), 0), most)*int64(time.Second) + int64(t.Nanosecond())
}

func sloSpan(from, to int64) slo.Span { return slo.Span{From: unix(from), To: unix(to)} }
