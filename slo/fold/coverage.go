package fold

import (
	"cmp"
	"slices"
	"time"

	"github.com/sloengine/sloengine/slo"
)

// This file holds the up-time of the engine as the records tell it. A clock is never asked: two records within
// maxSilence, with no start in between, prove that the engine was up from one to the other. Coverage is made of it and
// of eras: since when an indicator counts, and which time before that was observed all the same. An era never claims
// time in which events may have been missed.

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

// upSpan is a time in which something was observed, in Unix nanoseconds. The end is the receive time of a record, so it
// is known to belong to it.
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

// Backfilled spans that are no further apart than backfillGap are one: between
// two requests of a backfill there is hardly ever an event at the very border.
// An era keeps maxBackfills of them; beyond that the shortest are forgotten.
const (
	backfillGap  = int64(5 * time.Minute)
	maxBackfills = 10_000
)

// era is the time from which on some indicators of one service were counted, and
// what was backfilled of the time before. Indicators that began together share
// one, so that they observed the same: those that count events, and those of each store of slices. Times are Unix
// nanoseconds.
//
// The pointer is shared by indicators. An era is changed in place by backfills, which concern all who share it,
// and replaced where one indicator's view changes.
type era struct {
	slices *sliceStore // of its indicators; nil of those that count events. See setEras

	since  int64    // record time
	source string   // of its indicators: see stream; "": the engine
	spans  []upSpan // rising, further apart than backfillGap, none after since

	// older is what else was observed before since, for Read: what from cut off.
	older []upSpan // rising, no two touching

	// began and own are of counts that took over at since: they begin at began, and from there to since they were
	// observed at other times than the engine was up. began is 0 otherwise. As everywhere, no backfill adds to what was
	// observed after the counts began.
	began int64
	own   []upSpan // rising, no two touching, up to since

	before []upSpan   // spans and own as one; nil after a change
	listed []slo.Span // likewise, for Sums; never changed
}

// start is since when the counts of an era are complete.
func (e *era) start() int64 {
	if e.began != 0 {
		return e.began
	}
	return e.since
}

// earlier is what was observed before since.
func (e *era) earlier() []upSpan {
	if e.began == 0 {
		return e.spans
	}
	if e.before == nil {
		all := slices.Clone(e.spans)
		for _, s := range e.own {
			all = append(all, upSpan{max(s.from, e.began), s.to})
		}
		e.before = merged(all)
	}
	return e.before
}

// changed drops what was derived of spans and own.
func (e *era) changed() { e.before, e.listed = nil, nil }

// copied is an era of its own that observed the same.
func (e *era) copied() *era {
	return &era{since: e.since, source: e.source, began: e.began, spans: slices.Clone(e.spans),
		own: slices.Clone(e.own), older: slices.Clone(e.older)}
}

// add notes that [from, to] was backfilled. It returns the borders between which
// time is newly observed; they are empty if none is.
//
// The borders may contain time that was observed before, in the middle, and time that is forgotten. Callers use them to
// drop cached sums, where too much costs only work.
func (e *era) add(from, to int64) (lo, hi int64) {
	start := e.start()
	if to = min(to, start); start-to <= backfillGap {
		to = start // what comes after was counted as it happened
	}
	if from >= start || from > to {
		return 0, 0
	}
	near := func(s upSpan, t int64) int {
		if s.to < t-backfillGap {
			return -1
		}
		return 1
	}
	i, _ := slices.BinarySearchFunc(e.spans, from, near)
	j := i
	lo, hi = from, to
	for j < len(e.spans) && e.spans[j].from <= to+backfillGap {
		j++
	}
	if i < j {
		first, last := e.spans[i], e.spans[j-1]
		if first.from <= from {
			lo, from = first.to, first.from
		}
		if last.to >= to {
			hi, to = last.from, last.to
		}
		if first == last && lo >= hi {
			return 0, 0
		}
	}
	e.spans = slices.Replace(e.spans, i, j, upSpan{from, to})
	e.changed()
	if len(e.spans) > maxBackfills {
		a, b := e.forgetShortest()
		lo, hi = min(lo, a), max(hi, b)
	}
	return lo, hi
}

// forgetShortest drops the shortest span, the earliest such, and returns its borders: an era claims too little rather
// than too much.
func (e *era) forgetShortest() (lo, hi int64) {
	best := 0
	for i := range e.spans {
		if e.spans[i].to-e.spans[i].from < e.spans[best].to-e.spans[best].from {
			best = i
		}
	}
	lo, hi = e.spans[best].from, e.spans[best].to
	e.spans = slices.Delete(e.spans, best, best+1)
	return lo, hi
}

// forget drops what ended before t.
//
// A span that reaches over t stays whole.
func (e *era) forget(t int64) {
	if n := before(e.spans, t); n > 0 {
		e.spans = slices.Delete(e.spans, 0, n)
		e.changed()
	}
	if n := min(before(e.own, t), len(e.own)-1); n > 0 { // the last one may go on after since
		e.own = slices.Delete(e.own, 0, n)
		e.changed()
	}
	e.older = slices.Delete(e.older, 0, before(e.older, t))
}

// from is the era without what lies before t: itself if that is nothing. What it
// cuts off of the up-time and of backfills is still told to Read.
//
// e itself is not changed, since others may share it. up is all that was observed from its start on.
func (e *era) from(t int64, up []upSpan) *era {
	if t <= e.start() && (len(e.spans) == 0 || e.spans[0].from >= t) {
		return e
	}
	cut := e.startingAt(t)
	older := slices.Clone(e.older)
	for _, s := range e.spans {
		if s.to > t {
			cut.spans = append(cut.spans, upSpan{max(s.from, t), s.to})
		}
		older = append(older, upSpan{s.from, min(s.to, t)})
	}
	for _, s := range up {
		older = append(older, upSpan{max(s.from, e.start()), min(s.to, t)})
	}
	cut.older = merged(older)
	return cut
}

// startingAt is an era that starts as e does, but not before t, and has observed nothing before.
func (e *era) startingAt(t int64) *era {
	cut := &era{since: max(e.since, t), source: e.source}
	if e.began != 0 && t < e.since {
		cut.began, cut.own = max(e.began, t), slices.Clone(e.own)
	}
	return cut
}

// list gives the backfilled spans that do not end before kept.
func (e *era) list(kept int64) []slo.Span {
	spans := e.earlier()
	n := before(spans, kept)
	if n == len(spans) {
		return nil
	}
	if e.listed == nil {
		e.listed = spanList(spans)
	}
	return e.listed[n:]
}

// observed are the times in which something was seen, oldest first, none touching. up is as in from.
func (e *era) observed(up []upSpan) []slo.Span {
	all := slices.Concat(e.older, e.spans)
	for _, s := range up {
		all = append(all, upSpan{max(s.from, e.start()), s.to})
	}
	return spanList(merged(all))
}

// setEras tells the services which eras they have. The indicators of each store of slices get one of their own: a slice
// whose counts are dropped is judged for good, so a backfill of a time before those that are kept observes nothing of
// slices, while events are still counted by the hour.
func (f *Fold) setEras() {
	type part struct {
		era    *era
		slices *sliceStore
	}
	taken, own := map[*era]bool{}, map[part]*era{}
	for _, ind := range f.inds {
		p := part{ind.era, ind.slices}
		if own[p] == nil {
			e := p.era
			if taken[e] {
				e = e.copied()
			}
			e.slices, taken[p.era], own[p] = p.slices, true, e
		}
		ind.era = own[p]
	}
	for _, s := range f.services {
		s.eras = eras(s.inds)
	}
	for _, s := range f.streams {
		s.eras = nil
	}
	for _, e := range eras(f.inds) {
		if s := f.streams[e.source]; s != nil {
			s.eras = append(s.eras, e)
		}
	}
}

// eras are those of the indicators, each once, in the indicators' order.
func eras(inds []*indicator) []*era {
	var out []*era
	for _, ind := range inds {
		if !slices.Contains(out, ind.era) {
			out = append(out, ind.era)
		}
	}
	return out
}

// backfilling is what one record has backfilled of a service.
//
// It is part of the state, like everything that follows from the log.
type backfilling struct {
	record   uint64 // number of the record, from 1 on; 0 for none
	from, to int64  // earliest and latest event time around the last event without a gap, Unix nanoseconds
}

// covered is what the record at hand says of its backfilled events.
type covered struct {
	spans []slo.Span
	whole bool
}

// Covers says what the backfilled events of a record cover beside the times around them: spans in which there were no
// other events of their services, or, if whole, everything between the earliest and the latest event of a service. Call
// it between Advance and Apply.
func (f *Fold) Covers(spans []slo.Span, whole bool) { f.covered = covered{spans, whole} }

// noteBackfill remembers that the record at hand backfilled an event of the
// service: the time from one event to the next was observed if it is no longer than backfillGap, or if the record
// covers it.
//
// Events of one record need not be in order.
func (f *Fold) noteBackfill(s *service, t int64) {
	if len(s.eras) > 0 && s.eras[0].source != "" {
		return // Observe says what was read
	}
	b, record := &s.backfill, f.stats.records+1
	switch {
	case b.record != record:
		for _, sp := range f.covered.spans {
			f.addBackfill(s, nanos(sp.From), nanos(sp.To))
		}
		*b = backfilling{record, t, t}
	case b.from <= t && t <= b.to:
		return
	case f.covered.whole || b.from-backfillGap <= t && t <= b.to+backfillGap:
		b.from, b.to = min(b.from, t), max(b.to, t)
	default:
		*b = backfilling{record, t, t}
	}
	f.addBackfill(s, b.from, b.to)
}

// addBackfill remembers that [from, to] was observed of a service, of slices as far back as they are kept. Runs of
// slices in the newly observed time are judged again.
func (f *Fold) addBackfill(s *service, from, to int64) {
	from = max(from, f.known)
	for _, e := range s.eras {
		e.addBackfill(from, to)
	}
}

func (e *era) addBackfill(from, to int64) {
	ss := e.slices
	if ss == nil {
		e.add(from, to)
		return
	}
	// What ends less than a gap before the first slice ends with it, so that the order of events does not matter.
	first := ss.first * ss.per
	if to >= first-backfillGap {
		to = max(to, first)
	}
	if lo, hi := e.add(max(from, first), to); lo < hi {
		ss.stale(lo/ss.per, hi/ss.per+1)
	}
}

// observed reports whether the events of [from, to) of the indicator's group were seen: since its era began the engine
// was up, and what lies before was backfilled.
func (f *Fold) observed(ind *indicator, g *group, from, to int64) bool {
	e := ind.era
	if from < e.since {
		if !covers(e.earlier(), from, min(to, e.since)) {
			return false
		}
		from = e.since
	}
	return from >= to || covers(f.upOfGroup(ind, g), from, to)
}

// until are spans between two times.
func until(spans []upSpan, from, to int64) (out []upSpan) {
	for _, s := range spans {
		if from, to := max(s.from, from), min(s.to, to); from < to {
			out = append(out, upSpan{from, to})
		}
	}
	return out
}

// upFrom is when the indicators of an era were observed, from its start on.
func (f *Fold) upFrom(e *era) []upSpan {
	up := f.upOf(e)
	if e.began == 0 {
		return up
	}
	out := slices.Clone(e.own)
	for _, s := range up[before(up, e.since):] {
		if n := len(out) - 1; n >= 0 && s.from <= e.since && out[n].to == e.since {
			out[n].to = s.to
			continue
		}
		out = append(out, upSpan{max(s.from, e.since), s.to})
	}
	return slices.Delete(out, 0, before(out, f.known))
}

// upOf is when the indicators of an era were observed after its since.
func (f *Fold) upOf(e *era) []upSpan {
	if e.source == "" {
		return f.up.spans
	}
	if s := f.streams[e.source]; s != nil {
		return s.spans
	}
	return nil
}
