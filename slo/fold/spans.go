package fold

import (
	"cmp"
	"encoding/binary"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/sloengine/sloengine/internal/binread"
	"github.com/sloengine/sloengine/slo"
)

// This file adds up spans of time. Edges are moved onto bucket boundaries first, so that a span is a whole number
// of blocks, and the largest blocks that fit are added: days, then hours, then leaves.

// edges is a span whose edges have been moved onto bucket boundaries: seconds
// for stores of events, slice numbers for stores of slices.
type edges struct{ from, to int64 }

// snap moves an edge up to the next bucket boundary of the bucket's age, which
// is 10s for the last hour, 1m for three days and 5m beyond. Edges that lie
// beyond what is kept move to its end. Spans that meet at an edge therefore
// share no event and miss none.
//
// Moving up, and never to the nearest, is what makes spans that meet share an edge after the move, too.
func (s *store) snap(t time.Time) int64 {
	sec := seconds(t)
	end := s.end()
	switch {
	case sec >= end:
		return end
	case sec > s.levels[fine].start:
		return ceil(sec, fineWidth)
	case sec > s.levels[middle].start:
		return ceil(sec, middleWidth)
	}
	return max(ceil(sec, coarseWidth), s.levels[coarse].start)
}

// addAll adds what happened in [from, to), snapped seconds, for all columns of
// acc, from as few blocks as possible.
//
// p is always a boundary of the level that it lies in, since edges were snapped and every wider block begins at a
// boundary of the narrower ones.
func (s *store) addAll(acc []uint64, from, to int64, clock uint64) {
	for p := from; p < to; {
		switch {
		case p%dayWidth == 0 && p+dayWidth <= to:
			addSums(acc, s.day(p/dayWidth, clock))
			p += dayWidth
		case p%hourWidth == 0 && p+hourWidth <= to:
			if i := p/hourWidth - s.hourFirst; i < int64(len(s.hours)) {
				s.hours[i].addTo(acc)
			}
			p += hourWidth
		default:
			b, width := s.leafAt(p)
			if b != nil {
				b.addTo(acc)
			}
			p += width
		}
	}
}

// addColumns is addAll for some ranges of columns, which acc holds side by side.
func (s *store) addColumns(acc []uint64, cols []colRange, from, to int64) {
	for p := from; p < to; {
		if p%hourWidth == 0 && p+hourWidth <= to {
			if i := p/hourWidth - s.hourFirst; i < int64(len(s.hours)) {
				addRanges(acc, cols, &s.hours[i])
			}
			p += hourWidth
			continue
		}
		b, width := s.leafAt(p)
		if b != nil {
			addRanges(acc, cols, b)
		}
		p += width
	}
}

// addRanges adds ranges of columns of a block, which acc holds side by side.
func addRanges[C cell](acc []uint64, cols []colRange, b *block[C]) {
	if b.cells == nil {
		return
	}
	i := 0
	for _, r := range cols {
		for c := r.lo; c < r.hi; c++ {
			acc[i] += b.at(c)
			i++
		}
	}
}

// addSums adds sums to the beginning of acc, as far as both reach.
func addSums(acc, sums []uint64) {
	sums = sums[:min(len(sums), len(acc))]
	acc = acc[:len(sums)]
	for i, n := range sums {
		acc[i] += n
	}
}

// leafAt is the block at a boundary, nil if there is none, and its width.
func (s *store) leafAt(sec int64) (*block[uint16], int64) {
	i := coarse
	for i > fine && sec >= s.levels[i-1].start {
		i--
	}
	l := &s.levels[i]
	if j := (sec - l.start) / widths[i]; j >= 0 && j < int64(len(l.blocks)) {
		return &l.blocks[j], widths[i]
	}
	return nil, widths[i]
}

// day is the sum of the hours of a day that is kept as a whole.
//
// The result is a cache of the store and must not be changed.
func (s *store) day(number int64, clock uint64) []uint64 {
	i := number - s.dayFirst
	for i >= int64(len(s.days)) {
		s.days = append(s.days, daySum{})
	}
	d := &s.days[i]
	lo := min(max(0, number*24-s.hourFirst), int64(len(s.hours)))
	hours := s.hours[lo:min(lo+24, int64(len(s.hours)))]
	stale := d.asOf == 0
	size := 0
	for j := range hours {
		stale = stale || hours[j].ver > d.asOf
		size = max(size, len(hours[j].cells))
	}
	if stale {
		d.asOf = clock
		d.sums = resized(d.sums, min(size, int(s.cols.n)))
		for j := range hours {
			hours[j].addTo(d.sums)
		}
	}
	return d.sums
}

// resized is s with n zeros, in the same memory if it is large enough.
func resized(s []uint64, n int) []uint64 {
	if cap(s) < n {
		return make([]uint64, n)
	}
	s = s[:n]
	clear(s)
	return s
}

// sumSpans gives the sums of width columns over each span. Spans with the same
// right edge, as rolling windows are, are summed from the shortest on, so that
// the time they share is added once.
//
// Each result has memory of its own.
func sumSpans(spans []edges, width int, add func(acc []uint64, from, to int64)) [][]uint64 {
	order := make([]int, len(spans))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(spans[a].to, spans[b].to), cmp.Compare(spans[b].from, spans[a].from))
	})
	out := make([][]uint64, len(spans))
	var acc []uint64
	var reached int64 // acc covers [reached, to) of the spans at hand
	for k, i := range order {
		sp := spans[i]
		if k == 0 || spans[order[k-1]].to != sp.to {
			acc, reached = make([]uint64, width), sp.to
		} else {
			acc = slices.Clone(acc)
		}
		if sp.from < reached {
			add(acc, sp.from, reached)
			reached = sp.from
		}
		out[i] = acc
	}
	return out
}

// What follows is the observation of indicators that a source counts, such as counters that are read from Prometheus.
// The engine may be up while nothing is read, and the counters of a time in which it was down can be read afterwards,
// so that such an indicator has the times that its source observed in place of the engine's up-time.

// maxTail is how long after the last reading a source counts as observing: until the next one. Nothing that happens
// meanwhile is counted yet, so that windows up to now are taken to end with the last reading.
const maxTail = 2 * time.Minute

// maxGroupStreams bounds what is known of one stream by groups.
const maxGroupStreams = 256

// stream is what a source observed, in Unix nanoseconds.
type stream struct {
	spans []upSpan
	eras  []*era // of its indicators

	// A source of several servers observes those groups earlier that have all of their events from few of them: see
	// slo.PromGroupStream.
	groups []*stream
	values map[string]string // of one of them
}

// Observe says that a source read everything that happened from one time to another, in Unix nanoseconds. What it read
// of the time before an indicator began counts as backfilled. It changes nothing if no indicator has the source.
func (f *Fold) Observe(source string, from, to int64) {
	base, values := slo.PromStreamOf(source)
	of := f.streams[base]
	if from = max(from, f.known); of == nil || from >= to {
		return
	}
	f.clock++
	for _, e := range of.eras {
		if source == base && from < e.since {
			e.addBackfill(from, to)
		}
		if ss := e.slices; ss != nil {
			ss.stale(from/ss.per, to/ss.per+1) // some may have been closed without having been observed
		}
	}
	s := f.streams[source]
	if s == nil {
		s = &stream{values: values}
		f.streams[source] = s
		f.setGroupStreams()
	}
	if n := len(s.spans) - 1; n >= 0 && s.spans[n].from <= from && from <= s.spans[n].to {
		s.spans[n].to = max(s.spans[n].to, to) // it goes on
		return
	}
	s.spans = merged(append(s.spans, upSpan{from, to}))
	if over := len(s.spans) - maxBackfills; over > 0 {
		s.spans = slices.Delete(s.spans, 0, over)
	}
}

// Observed lists what a source observed.
func (f *Fold) Observed(source string) []slo.Span {
	if s := f.streams[source]; s != nil {
		return spanList(s.spans)
	}
	return nil
}

// ObservedUntil is the end of what a source observed last; zero if nothing was, or no indicator has the source. A
// generation that was parked meanwhile knows what its source had observed before.
func (f *Fold) ObservedUntil(source string) (last time.Time) {
	s := f.streams[source]
	if s == nil {
		return last
	}
	if n := len(s.spans); n > 0 {
		return unix(s.spans[n-1].to)
	}
	for _, e := range s.eras {
		if n := len(e.spans); n > 0 && unix(e.spans[n-1].to).After(last) {
			last = unix(e.spans[n-1].to)
		}
	}
	return last
}

// setStreams makes the streams of the sources that indicators have, and forgets those of others.
func (f *Fold) setStreams() {
	used := map[string]bool{}
	for _, ind := range f.inds {
		if source := ind.spec.Source; source != "" {
			if used[source] = true; f.streams[source] == nil {
				f.streams[source] = &stream{}
			}
		}
	}
	maps.DeleteFunc(f.streams, func(source string, _ *stream) bool {
		base, _ := slo.PromStreamOf(source)
		return !used[base]
	})
	f.setGroupStreams()
}

// setGroupStreams tells streams which groups they know apart. Beyond the bound, those that ended first are forgotten.
func (f *Fold) setGroupStreams() {
	for _, s := range f.streams {
		s.groups = nil
	}
	for _, name := range sortedKeys(f.streams) {
		base, values := slo.PromStreamOf(name)
		to, s := f.streams[base], f.streams[name]
		if values == nil || to == nil {
			continue
		}
		if s.values = values; len(to.groups) < maxGroupStreams {
			to.groups = append(to.groups, s)
			continue
		}
		end := func(s *stream) int64 {
			if n := len(s.spans); n > 0 {
				return s.spans[n-1].to
			}
			return math.MaxInt64 // it is new
		}
		oldest := 0
		for i := range to.groups {
			if end(to.groups[i]) < end(to.groups[oldest]) {
				oldest = i
			}
		}
		maps.DeleteFunc(f.streams, func(_ string, x *stream) bool { return x == to.groups[oldest] })
		to.groups[oldest] = s
	}
}

// groupStream is what the source of an indicator observed of a group alone; nil if nothing tells it from others.
func (f *Fold) groupStream(ind *indicator, g *group) *stream {
	s := f.streams[ind.era.source]
	if s == nil || g == nil || g == ind.dropped {
		return nil
	}
	i := slices.IndexFunc(s.groups, func(s *stream) bool {
		for name, value := range s.values {
			if at := slices.Index(ind.spec.GroupBy, name); at < 0 || g.values[at] != value {
				return false
			}
		}
		return true
	})
	if i < 0 {
		return nil
	}
	return s.groups[i]
}

// upOfGroup is upOf for a group.
func (f *Fold) upOfGroup(ind *indicator, g *group) []upSpan {
	if s := f.groupStream(ind, g); s != nil {
		return s.spans
	}
	return f.upOf(ind.era)
}

// byGroup reports whether the groups of an indicator were observed at different times.
func (f *Fold) byGroup(ind *indicator) bool {
	s := f.streams[ind.era.source]
	return s != nil && len(s.groups) > 0
}

// partStreams is the part of a snapshot that says what sources observed. It is there if there are any.
const partStreams = "streams"

func (f *Fold) appendStreams(b []byte) []byte {
	b = append(b, snapshotFormat)
	b = binary.AppendUvarint(b, f.clock)
	b = binary.AppendUvarint(b, uint64(len(f.streams)))
	for _, source := range sortedKeys(f.streams) {
		b = appendSpans(binread.AppendText(b, source), f.streams[source].spans)
	}
	return b
}

// readStreams is the inverse of appendStreams.
func (x *restoring) readStreams(r *reader) error {
	x.streams = map[string]*stream{}
	r.Uint()
	for range r.Count(1) {
		source := r.Text()
		x.streams[source] = &stream{spans: r.spans()}
	}
	return r.done()
}
