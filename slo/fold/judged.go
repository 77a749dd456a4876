package fold

import (
	"time"

	"github.com/sloengine/sloengine/slo"
)

// What is kept of a group's closed slices by the run, once their counts are
// dropped: the good and bad ones, and two sums. Those are SliceAchieved and
// SliceTarget of a throughput, else SliceRatio in whole slices and billionths.
const judgedColumns = 4

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
