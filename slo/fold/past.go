package fold

import (
	"fmt"
	"time"

	"github.com/sloengine/sloengine/slo"
)

// This file keeps counts by the hour after the retention. They are for Read only, so they cost no window any
// time.

// historyKeep is how far back Read reaches at least.
//
// Reports can look back that far, however short the windows are.
const historyKeep = 90 * 24 * time.Hour

// HistoryWidth is the length of the pieces in which Read has what windows do not reach, by the length of the indicator's
// slices, 0 without. They begin at multiples of it since 1970.
func HistoryWidth(slice time.Duration) time.Duration {
	if slice <= 0 {
		return time.Duration(hourWidth) * time.Second
	}
	return time.Duration(runFor(int64(slice))) * slice
}

// past keeps, by the hour, what is no longer kept in finer pieces and what comes
// too late for those. It is beside the counts of windows, never part of them:
// Read adds the two. Places are Unix seconds for events, and numbers
// of slices for slices.
//
// blocks begin with the first place of a part, so a part of a snapshot is dropped as a whole and never rewritten
// for that.
type past struct {
	width  int64 // of a block: an hour, or a run of slices
	part   int64 // of a part of a snapshot, about a day; a multiple of width
	first  int64 // number of blocks[0]: place / width; first place of a part
	blocks []block[uint32]
}

// newPast makes a past whose parts are the shortest multiples of width that are
// as long as day.
func newPast(width, day int64) past { return past{width: width, part: ceil(day, width)} }

// start is the place from which on it keeps counts.
func (p *past) start() int64 { return p.first * p.width }

// advance drops the parts that end before the place oldest.
//
// Whole parts go, so up to a part more than asked is kept.
func (p *past) advance(oldest int64) {
	first := floor(max(0, oldest), p.part) / p.width
	if first > p.first {
		p.blocks = dropFront(p.blocks, first-p.first)
		p.first = first
	}
}

// at is the block of a place, nil if it is too old.
//
// The list grows up to the place.
func (p *past) at(place int64) *block[uint32] {
	i := place/p.width - p.first
	if i < 0 {
		return nil
	}
	for i >= int64(len(p.blocks)) {
		p.blocks = append(p.blocks, block[uint32]{})
	}
	return &p.blocks[i]
}

// absorb adds what a block counted, no larger than needed.
func (p *past) absorb(place int64, b []block[uint32], clock uint64) {
	if b[0].cells == nil {
		return
	}
	if into := p.at(place); into != nil {
		into.absorb(b)
		into.ver = clock
	}
}

// add counts n in one column, unless the place is too old.
func (p *past) add(place int64, col uint32, n uint64, room int, clock uint64) {
	if b := p.at(place); b != nil && n > 0 {
		b.touch(col+1, room, clock)
		b.bump1(col, n)
	}
}

// erase empties columns.
func (p *past) erase(col uint32, w int, clock uint64) {
	for i := range p.blocks {
		if p.blocks[i].erase(col, w) {
			p.blocks[i].ver = clock
		}
	}
}

// sums adds up ranges of columns, which each sum holds side by side, over spans
// of places. A block belongs to the span that holds its start. It is nil if
// nothing is kept of any span.
//
// Spans may reach into what the leaves hold. Nothing is in both: a count comes here only when its leaves go, or
// when there are none.
func (p *past) sums(spans []edges, cols []colRange) [][]uint64 {
	end := p.first + int64(len(p.blocks))
	numbers := make([]edges, len(spans))
	reached := false
	for i, sp := range spans {
		from := min(max(ceil(sp.from, p.width)/p.width, p.first), end)
		numbers[i] = edges{from, min(max(ceil(sp.to, p.width)/p.width, from), end)}
		reached = reached || from < numbers[i].to
	}
	if !reached {
		return nil
	}
	width := 0
	for _, r := range cols {
		width += int(r.hi - r.lo)
	}
	return sumSpans(numbers, width, func(acc []uint64, from, to int64) {
		for n := from; n < to; n++ {
			addRanges(acc, cols, &p.blocks[n-p.first])
		}
	})
}

// bytes is about how much memory it takes.
func (p *past) bytes() int64 { return blockBytes(p.blocks) }

// hoursPart names the hours of a day by retention and start, in seconds.
func hoursPart(keep, start int64) string { return fmt.Sprintf("hours-%d-%d", keep, start) }

// judgedPart names runs of judged slices as slicesPart does.
func judgedPart(keep, per, first int64) string {
	return fmt.Sprintf("judged-%d-%d-%d", keep, per, first)
}

// appendParts adds a part for each day or so that has counts.
func (p *past) appendParts(parts []Part, name func(place int64) string) []Part {
	return appendSegments(parts, p.blocks, int(p.part/p.width), func(at int) string { return name((p.first + int64(at)) * p.width) })
}

// place puts blocks of at most so many columns from a place on, none as late as end.
func (p *past) place(seg segment, start, end int64, columns int) error {
	for at, b := range seg.past {
		place := start + int64(at)*p.width
		if place < p.start() || place >= end || place%p.width != 0 || len(b.cells) > columns {
			return fmt.Errorf("%w: block %d from %d on", errSnapshot, at, start)
		}
		*p.at(place) = b
	}
	return nil
}

// historySums are indicatorSums of the groups' bins, and what is kept of the
// spans by the hour beside that.
func (f *Fold) historySums(ind *indicator, groups []*group, spans []slo.Span) [][]uint64 {
	out := f.indicatorSums(ind, groups, spans)
	if s := ind.slices; s != nil {
		s.addJudged(out, ind, groups, spans)
		return out
	}
	cols := make([]colRange, len(groups))
	for i, g := range groups {
		cols[i] = colRange{g.col, g.col + uint32(ind.width)}
	}
	for i, sums := range ind.events.past.sums(snapAll(spans, seconds), cols) {
		addSums(out[i], sums)
	}
	return out
}

// seconds is the first full Unix second at or after a time.
func seconds(t time.Time) int64 { return ceil(nanos(t), int64(time.Second)) / int64(time.Second) }
