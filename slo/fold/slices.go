package fold

import (
	"math/bits"
	"time"

	"github.com/sloengine/sloengine/slo"
)

// This file counts slices of time for indicators such as "99 % of minutes are good". Raw counts are kept per
// slice and judged when they are read, so that a late event can still turn a judgement.

// judgeDelay is how long after its end, in record time, a slice is closed.
//
// It is above punctual, so an event that is not late is in its slice before that is judged into the totals.
const judgeDelay = int64(2 * time.Minute)

// sliceStore keeps raw good and bad counts per slice, for the sliced indicators
// of one slice length and retention. What slices are judged to be is made from
// the counts when asked for, so late events change past judgements. Slices are
// numbered from the Unix epoch; times are Unix nanoseconds.
//
// Invariants: first <= next, slices before next are closed, and runs[i] is about the slices from first + i*runLen
// on.
type sliceStore struct {
	per, keep int64 // slice length and retention
	runLen    int64 // slices of a run, whose judgements are added up and kept

	inds   []*indicator // by ID
	cols   columns      // two per group: good and bad
	first  int64        // number of blocks[0], a multiple of runLen
	blocks []block[uint16]
	runs   []run // of the blocks from first on; a cache, not part of the state
	next   int64 // first slice that is not closed

	past past // runs whose blocks are gone, judgedColumns per group
}

// run is the sum of the judgements of runLen slices, sliceSums per group: those
// of the group with columns 2i and 2i+1 begin at sliceSums*i.
type run struct {
	sums []uint64
	asOf uint64 // clock; 0 or a slice changed after it makes the sums stale
}

// What a group has: columns in a block, and sums in a run.
const (
	sliceColumns = 2 // good and bad events of a slice

	// sliceSums is how many sums there are of a group's slices: the bins, and
	// behind them the events in the slices that were judged.
	sliceEvents = SliceBins
	sliceSums   = SliceBins + 1
)

// runFor is the shortest multiple of a slice's length that is an hour or more.
func runFor(per int64) int64 { return (int64(time.Hour) + per - 1) / per }

// newSliceStore makes the empty store of a slice length and retention at a record time, all in nanoseconds.
func newSliceStore(per, keep, rec int64) *sliceStore {
	s := &sliceStore{per: per, keep: keep, runLen: runFor(per)}
	s.first = s.oldestAt(rec)
	s.next = max(s.first, s.openAt(rec))
	s.past = newPast(s.runLen, (int64(24*time.Hour)+per-1)/per)
	s.past.advance(s.pastAt(rec))
	return s
}

// oldestAt is the first slice that is kept at a record time. It moves when a
// slice closes.
func (s *sliceStore) oldestAt(rec int64) int64 {
	return max(0, floor(s.openAt(rec)-(s.keep+s.per-1)/s.per, s.runLen))
}

// openAt is the first slice that is not closed at a record time.
func (s *sliceStore) openAt(rec int64) int64 { return max(0, (rec-judgeDelay)/s.per) }

// slice is the block of a slice, nil if it is too old.
//
// The list grows up to the slice, also into the future by what Apply admits, which is a day.
func (s *sliceStore) slice(number int64) *block[uint16] {
	i := number - s.first
	if i < 0 {
		return nil
	}
	for i >= int64(len(s.blocks)) {
		s.blocks = append(s.blocks, block[uint16]{})
	}
	return &s.blocks[i]
}

// stale forgets the sums of the runs that hold the slices [from, to).
//
// It is for changes that no block's version shows: a group that exists from earlier on, or time that was observed
// after all.
func (s *sliceStore) stale(from, to int64) {
	for i := max(0, from-s.first) / s.runLen; i < int64(len(s.runs)) && s.first+i*s.runLen < to; i++ {
		s.runs[i].asOf = 0
	}
}

// close judges the slices that have closed by the record time, once, into the
// groups' totals.
//
// Totals are judged once and never corrected: they must not fall. Sums over windows are judged again each time.
// Blocks that are too old go into the past before they are dropped.
func (f *Fold) closeSlices(s *sliceStore, rec int64) {
	s.past.advance(s.pastAt(rec))
	if first := s.oldestAt(rec); first > s.first {
		s.next = max(s.next, first)
		f.keepJudged(s, first)
		n := first - s.first
		s.blocks = dropFront(s.blocks, n)
		s.runs = dropFront(s.runs, n/s.runLen)
		s.first = first
	}
	// next moves slice by slice, so each is judged into the totals exactly once.
	open := s.openAt(rec)
	if open <= s.next {
		return
	}
	for ; s.next < open; s.next++ {
		for _, ind := range s.inds {
			judged := f.judges(s, ind, nil, s.next)
			if !judged && !f.byGroup(ind) {
				continue
			}
			for _, g := range ind.sorted {
				if g.from <= s.next*s.per && (judged || f.judges(s, ind, g, s.next)) {
					var sums [sliceSums]uint64
					s.judge(ind, g, s.next, sums[:])
					addSums(g.total, sums[:])
				}
			}
		}
	}
}

// judges reports whether a closed slice counts for a group of the indicator, or for all of them if that is nil: it lies
// inside the open hours and its events were seen.
//
// A slice that was observed in part is not judged: an empty one would look bad, and one with half of its events
// could look either way.
func (f *Fold) judges(s *sliceStore, ind *indicator, g *group, number int64) bool {
	from := number * s.per
	return f.observed(ind, g, from, from+s.per) && s.inside(ind, number, 1)
}

// inside reports whether n slices from a number on lie within the open hours of an indicator.
func (s *sliceStore) inside(ind *indicator, number, n int64) bool {
	return ind.sched.Always() || ind.sched.Covers(sloSpan(number*s.per, (number+n)*s.per))
}

// judge adds the judgement of a group's slice to acc, sliceSums long.
//
// A slice of a throughput is bad without events. Any other slice without events is left out.
func (s *sliceStore) judge(ind *indicator, g *group, number int64, acc []uint64) {
	var good, bad uint64
	if i := number - s.first; i < int64(len(s.blocks)) && s.blocks[i].cells != nil {
		b := &s.blocks[i]
		good, bad = b.at(g.col), b.at(g.col+1)
	}
	valid := good + bad
	acc = acc[:sliceSums]
	acc[sliceEvents] += valid
	if g == ind.dropped {
		return
	}
	if want := ind.spec.Slice.AtLeast; want > 0 {
		acc[SliceAchieved] += min(valid, want)
		acc[SliceTarget] += want
		if valid >= want {
			acc[SliceGood]++
		} else {
			acc[SliceBad]++
		}
		return
	}
	if valid == 0 {
		return
	}
	acc[SliceRatio] += billionths(good, valid)
	if float64(good)/float64(valid) >= ind.spec.Slice.Target {
		acc[SliceGood]++
	} else {
		acc[SliceBad]++
	}
}

// billionths is good/valid in billionths, to the nearest.
//
// The product needs 128 bits. Integers make the sum of ratios independent of the order in which slices are added.
func billionths(good, valid uint64) uint64 {
	hi, lo := bits.Mul64(good, 1e9)
	lo, carry := bits.Add64(lo, valid/2, 0)
	q, _ := bits.Div64(hi+carry, lo, valid)
	return q
}

// addSlices adds the judgements of the closed slices [from, to) for some groups
// of one indicator. at gives where in acc a group's sums begin.
func (f *Fold) addSlices(s *sliceStore, ind *indicator, groups []*group, from, to int64, acc []uint64,
	at func(i int, g *group) int) {
	to = min(to, s.next)
	from = max(from, s.first)
	if from >= to || len(groups) == 0 {
		return
	}
	byGroup := f.byGroup(ind)
	whole := s.inside(ind, from, to-from) && f.observed(ind, nil, from*s.per, to*s.per)
	for n := from; n < to; n++ {
		judged := whole || f.judges(s, ind, nil, n)
		if !judged && !byGroup {
			continue
		}
		for i, g := range groups {
			if g.from <= n*s.per && (judged || f.judges(s, ind, g, n)) {
				s.judge(ind, g, n, acc[at(i, g):])
			}
		}
	}
}

// runAt is where the sums of a group begin in those of all groups.
func runAt(_ int, g *group) int { return int(g.col) / sliceColumns * sliceSums }

// run gives the sums of the run of slices that begins at a number.
//
// The run must be closed as a whole. A late event, a backfill or a new group makes its sums stale.
func (f *Fold) run(s *sliceStore, number int64) []uint64 {
	if sums := s.cached(number); sums != nil {
		return sums
	}
	i := (number - s.first) / s.runLen
	for i >= int64(len(s.runs)) {
		s.runs = append(s.runs, run{})
	}
	r := &s.runs[i]
	r.asOf = f.clock
	r.sums = resized(r.sums, s.sumWidth())
	for _, ind := range s.inds {
		f.addSlices(s, ind, ind.all(), number, number+s.runLen, r.sums, runAt)
	}
	return r.sums
}

// cached gives the sums of a run if they were made and still hold, else nil.
func (s *sliceStore) cached(number int64) []uint64 {
	i := (number - s.first) / s.runLen
	if i >= int64(len(s.runs)) || s.runs[i].asOf == 0 {
		return nil
	}
	r := &s.runs[i]
	for j := number - s.first; j < min(number-s.first+s.runLen, int64(len(s.blocks))); j++ {
		if s.blocks[j].ver > r.asOf {
			return nil
		}
	}
	return r.sums
}

// sumWidth is how many sums there are, for all groups.
func (s *sliceStore) sumWidth() int { return int(s.cols.n) / sliceColumns * sliceSums }

// addRuns adds the judgements of the slices [from, to) for all groups.
func (f *Fold) addRuns(s *sliceStore, acc []uint64, from, to int64) {
	to = min(to, s.next)
	for n := max(from, s.first); n < to; {
		if n%s.runLen == 0 && n+s.runLen <= to {
			addSums(acc, f.run(s, n))
			n += s.runLen
			continue
		}
		end := min(to, floor(n, s.runLen)+s.runLen)
		for _, ind := range s.inds {
			f.addSlices(s, ind, ind.all(), n, end, acc, runAt)
		}
		n = end
	}
}

// addIndicator is addRuns for some groups of one indicator, whose sums acc holds
// side by side.
func (f *Fold) addIndicator(s *sliceStore, ind *indicator, groups []*group, acc []uint64, from, to int64) {
	to = min(to, s.next)
	for n := max(from, s.first); n < to; {
		if n%s.runLen == 0 && n+s.runLen <= to {
			sums := f.run(s, n)
			for i, g := range groups {
				// A group that is newer than the sums has nothing in them.
				if at := runAt(i, g); at < len(sums) {
					addSums(acc[i*sliceSums:(i+1)*sliceSums], sums[at:])
				}
			}
			n += s.runLen
			continue
		}
		end := min(to, floor(n, s.runLen)+s.runLen)
		f.addSlices(s, ind, groups, n, end, acc, func(i int, _ *group) int { return i * sliceSums })
		n = end
	}
}

// snap moves an edge up to the next slice that begins at or after it. A slice
// belongs to the span that holds its start.
//
// An edge behind the last closed slice moves back to its end: open slices are in no sum.
func (s *sliceStore) snap(t time.Time) int64 {
	return min(max(ceil(nanos(t), s.per)/s.per, s.first), s.next)
}

// free empties a group's columns and frees them.
func (s *sliceStore) free(col uint32, clock uint64) {
	for i := range s.blocks {
		if s.blocks[i].erase(col, sliceColumns) {
			s.blocks[i].ver = clock
		}
	}
	s.past.erase(judgedAt(col), judgedColumns, clock)
	s.cols.give(col, sliceColumns)
}

// bytes is about how much memory the store takes.
func (s *sliceStore) bytes() int64 {
	n := blockBytes(s.blocks) + s.past.bytes()
	for i := range s.runs {
		n += int64(cap(s.runs[i].sums)) * 8
	}
	return n
}

// What is kept of a group's closed slices by the run, once their counts are
// dropped: the good and bad ones, and two sums. Those are SliceAchieved and
// SliceTarget of a throughput, else SliceRatio in whole slices and billionths.
const judgedColumns = 4

// billion is the unit of SliceRatio: good/valid of a slice is counted in billionths.
const billion = 1_000_000_000

// judgedAt is the first column of a group in sliceStore.past.
func judgedAt(col uint32) uint32 { return col / sliceColumns * judgedColumns }

// judgedRoom is how many columns sliceStore.past has.
func (s *sliceStore) judgedRoom() int { return int(s.cols.n) / sliceColumns * judgedColumns }

// pastAt is the first slice that is kept by the run at a record time.
func (s *sliceStore) pastAt(rec int64) int64 {
	keep := max(s.keep, int64(historyKeep))
	return s.openAt(rec) - (keep+s.per-1)/s.per
}

// keepJudged adds up the judgements of the runs of closed slices before a number,
// whose counts are about to be dropped.
func (f *Fold) keepJudged(s *sliceStore, before int64) {
	var scratch []uint64
	for n := max(s.first, ceil(s.past.start(), s.runLen)); n < before; n += s.runLen {
		sums := s.cached(n)
		if sums == nil {
			scratch = resized(scratch, s.sumWidth())
			sums = scratch
			for _, ind := range s.inds {
				f.addSlices(s, ind, ind.sorted, n, n+s.runLen, sums, runAt)
			}
		}
		for _, ind := range s.inds {
			for _, g := range ind.sorted {
				// A group that is newer than the sums has nothing in them.
				if at := runAt(0, g); at < len(sums) {
					s.past.addJudged(ind, n, judgedAt(g.col), sums[at:], s.judgedRoom(), f.clock)
				}
			}
		}
	}
}

// addJudged adds the sums of a group's slices in a run.
func (p *past) addJudged(ind *indicator, number int64, col uint32, sums []uint64, room int, clock uint64) {
	x, y := sums[SliceAchieved], sums[SliceTarget]
	if ind.spec.Slice.AtLeast == 0 {
		x, y = sums[SliceRatio]/billion, sums[SliceRatio]%billion
	}
	for i, n := range [judgedColumns]uint64{sums[SliceGood], sums[SliceBad], x, y} {
		p.add(number, col+uint32(i), n, room, clock)
	}
}

// addJudged adds to sums of the groups' bins what is kept by the run of the spans.
func (s *sliceStore) addJudged(out [][]uint64, ind *indicator, groups []*group, spans []slo.Span) {
	cols := make([]colRange, len(groups))
	for i, g := range groups {
		cols[i] = colRange{judgedAt(g.col), judgedAt(g.col) + judgedColumns}
	}
	number := func(t time.Time) int64 { return ceil(nanos(t), s.per) / s.per }
	for i, sums := range s.past.sums(snapAll(spans, number), cols) {
		for k := range groups {
			bins, kept := out[i][k*SliceBins:(k+1)*SliceBins], sums[k*judgedColumns:]
			bins[SliceGood] += kept[0]
			bins[SliceBad] += kept[1]
			if ind.spec.Slice.AtLeast > 0 {
				bins[SliceAchieved] += kept[2]
				bins[SliceTarget] += kept[3]
			} else {
				bins[SliceRatio] += kept[2]*billion + kept[3]
			}
		}
	}
}

// moveJudged gives the past of another retention what dst is too short to keep the
// counts of, of a group of o that was at col and has its columns in dst by now.
func (f *Fold) moveJudged(o *indicator, g *group, col uint32, dst *sliceStore) {
	s, was := o.slices, *g
	was.col = col
	for n := s.first; n < min(dst.first, s.next); n += s.runLen {
		var sums [sliceSums]uint64
		f.addSlices(s, o, []*group{&was}, n, n+s.runLen, sums[:], func(int, *group) int { return 0 })
		dst.past.addJudged(o, n, judgedAt(g.col), sums[:], dst.judgedRoom(), f.clock)
	}
}
