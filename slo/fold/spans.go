package fold

import (
	"cmp"
	"slices"
	"time"
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
