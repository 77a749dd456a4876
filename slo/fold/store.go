package fold

import "time"

// This file holds the buckets of events. A store has three levels of leaves, from fine and recent to coarse and
// old, and hours and days that are sums of them. Leaves move from level to level as they age, and into the past
// when the retention ends.

// The three widths of bucket, in seconds. An event is kept in exactly one of
// them, by the age of its bucket against the record time. Ages move in whole
// segments, which are also the pieces that a snapshot is made of.
const (
	// Each width divides the next one, and each segment is a multiple of the next coarser width: so whole wide
	// buckets are made of whole narrow ones when a segment ages, and an edge that is on a wide boundary is on a
	// narrow one, too.
	fine, middle, coarse                      = 0, 1, 2
	fineWidth, middleWidth, coarseWidth int64 = 10, 60, 300
	fineSeg, middleSeg, coarseSeg       int64 = 600, 3600, 4 * 3600

	fineAge   int64 = 3600 + 60    // windows up to 1h are exact to 10s; a minute's slack for clocks
	middleAge int64 = 3*86400 + 60 // windows up to 3d are exact to 1m
	hourWidth int64 = 3600
	dayWidth  int64 = 86400
	maxAhead  int64 = 24 * hourWidth // how far ahead of the record time an event can be kept
)

var (
	widths   = [3]int64{fineWidth, middleWidth, coarseWidth}
	segments = [3]int64{fineSeg, middleSeg, coarseSeg}
)

// level is a run of buckets of one width, without gaps. Blocks that nothing was counted in have no cells and cost 40
// bytes.
//
// The blocks in front of the last level's start are gone. Together the levels cover, without gap or overlap, the
// time from the start of the coarsest to the end of the finest.
type level struct {
	start  int64 // second at which blocks[0] begins; a multiple of the segment
	first  int64 // number of blocks[0]: start / width
	blocks []block[uint16]
}

// store keeps the events of the indicators with one retention. Its times are
// Unix seconds.
//
// It holds no pointer to indicators or groups: those own ranges of columns and name them. So a block is one flat array
// of counters, and the sum over a window is an addition of arrays, whichever groups there are.
//
// hours begin where the coarsest level begins, and days with the day of that hour. A block grows to the columns
// in use when it is touched, so blocks of quiet times stay small.
type store struct {
	keep   int64    // retention
	cols   columns  // which columns are in use, the same for all blocks
	levels [3]level // each begins where the next coarser one ends

	// hours are sums of the blocks above and are kept up with every event; days
	// are sums of hours and made when asked for.
	hourFirst int64           // number of hours[0]: second / 3600
	hours     []block[uint32] // cells of 32 bits: an hour of a busy column does not fit into 16
	dayFirst  int64           // number of days[0]: second / 86400
	days      []daySum        // a cache, not part of the state

	past past // hours whose leaves are gone; not part of hours and days
}

// daySum is the sum of the hours of a day.
//
// It is stale if one of its 24 hours has a version above asOf. Once a day is over, only late events change its
// hours, so days are rarely made again.
type daySum struct {
	sums []uint64 // by column; nil until it is asked for
	asOf uint64   // clock; an hour changed after it makes the sum stale
}

// newStore makes the empty store of a retention at a record time in seconds. The coarser levels have all their blocks
// from the start. The finest grows with the events.
func newStore(keep time.Duration, rec int64) *store {
	s := &store{keep: int64(keep / time.Second)}
	b := s.bounds(rec)
	for i := range s.levels {
		s.levels[i] = level{start: b[i], first: b[i] / widths[i]}
	}
	s.levels[middle].blocks = make([]block[uint16], (b[fine]-b[middle])/middleWidth)
	s.levels[coarse].blocks = make([]block[uint16], (b[middle]-b[coarse])/coarseWidth)
	s.hourFirst = b[coarse] / hourWidth
	s.dayFirst = b[coarse] / dayWidth
	s.past = newPast(hourWidth, dayWidth)
	s.past.advance(s.pastAt(rec))
	return s
}

// pastAt is the second from which on hours are kept at a record time in seconds.
func (s *store) pastAt(rec int64) int64 {
	if s.keep < int64(minKeep/time.Second) {
		return rec + 2*maxAhead // the ring has no past
	}
	return rec - max(s.keep, int64(historyKeep/time.Second)) - 60
}

// bounds are the seconds at which the levels begin at a record time in seconds.
// All of them move at a minute past a multiple of the finest segment.
//
// The coarsest bound is retention plus a minute back, down to a multiple of four hours, so up to four hours more
// than the retention are kept.
func (s *store) bounds(rec int64) [3]int64 {
	oldest := max(0, floor(rec-s.keep-60, coarseSeg))
	return [3]int64{
		max(0, floor(rec-fineAge, fineSeg)),
		max(oldest, floor(rec-middleAge, middleSeg)), // the ring keeps nothing that long
		oldest,
	}
}

// floor is the greatest multiple of width up to t, also for negative t.
func floor(t, width int64) int64 {
	m := t % width
	if m < 0 {
		m += width
	}
	return t - m
}

// ceil is the least multiple of width from t on.
func ceil(t, width int64) int64 { return floor(t+width-1, width) }

// oldest is the second from which on events are kept.
func (s *store) oldest() int64 { return s.levels[coarse].start }

// end is the second up to which there are blocks.
func (s *store) end() int64 {
	l := &s.levels[fine]
	return l.start + int64(len(l.blocks))*fineWidth
}

// leaf is the block that an event of the second sec belongs to, nil if it is too
// old. sec must not be more than maxAhead after the record time.
//
// Only the finest level grows, at its end. The others have all their blocks, since each covers a time that is
// over.
func (s *store) leaf(sec int64) *block[uint16] {
	if l := &s.levels[fine]; sec >= l.start {
		i := sec/fineWidth - l.first
		for i >= int64(len(l.blocks)) {
			l.blocks = append(l.blocks, block[uint16]{})
		}
		return &l.blocks[i]
	}
	if l := &s.levels[middle]; sec >= l.start {
		return &l.blocks[sec/middleWidth-l.first]
	}
	if l := &s.levels[coarse]; sec >= l.start {
		return &l.blocks[sec/coarseWidth-l.first]
	}
	return nil
}

// hour is the hour block of a second that has a leaf.
//
// The caller has found a leaf, so the second is not before hourFirst.
func (s *store) hour(sec int64) *block[uint32] {
	i := sec/hourWidth - s.hourFirst
	for i >= int64(len(s.hours)) {
		s.hours = append(s.hours, block[uint32]{})
	}
	return &s.hours[i]
}

// advance moves the levels' bounds to the record time in seconds: what has aged
// is added up into wider buckets, of what is beyond the retention only the hours
// are kept.
//
// The levels go from fine to coarse, so that a long silence moves a bucket through several levels in one call.
// Hours are not touched by that: their leaves change their width and not their sum.
func (s *store) advance(rec int64, clock uint64) {
	b := s.bounds(rec)
	s.past.advance(s.pastAt(rec))
	s.age(fine, b[fine], clock)
	s.age(middle, b[middle], clock)
	if l := &s.levels[coarse]; b[coarse] > l.start {
		l.dropBefore(b[coarse], coarseWidth)
		for i := range min(b[coarse]/hourWidth-s.hourFirst, int64(len(s.hours))) {
			s.past.absorb((s.hourFirst+i)*hourWidth, s.hours[i:i+1], clock)
		}
		s.hours = dropFront(s.hours, b[coarse]/hourWidth-s.hourFirst)
		s.hourFirst = b[coarse] / hourWidth
		s.days = dropFront(s.days, b[coarse]/dayWidth-s.dayFirst)
		s.dayFirst = b[coarse] / dayWidth
	}
}

// age moves what a level has before the bound into the next coarser one.
//
// bound is a multiple of the finer level's segment, and segments are multiples of the wider width, so no wide
// bucket is made of half its leaves. Empty leaves make an empty bucket without a version, which no snapshot has
// to write.
func (s *store) age(i int, bound int64, clock uint64) {
	from, to := &s.levels[i], &s.levels[i+1]
	if bound <= from.start {
		return
	}
	ratio := int(widths[i+1] / widths[i])
	for at := from.start; at < bound; at += widths[i+1] {
		var wide block[uint16]
		lo := min(int((at-from.start)/widths[i]), len(from.blocks))
		wide.absorb(from.blocks[lo:min(lo+ratio, len(from.blocks))])
		if wide.cells != nil {
			wide.ver = clock
		}
		to.blocks = append(to.blocks, wide)
	}
	from.dropBefore(bound, widths[i])
}

// dropBefore forgets the blocks before a second, a multiple of width.
//
// start, first and blocks change together.
func (l *level) dropBefore(bound, width int64) {
	l.blocks = dropFront(l.blocks, (bound-l.start)/width)
	l.start, l.first = bound, bound/width
}

// dropFront removes the first n elements, or all, keeping the memory for later ones.
func dropFront[T any](s []T, n int64) []T {
	n = min(n, int64(len(s)))
	kept := copy(s, s[n:])
	clear(s[kept:])
	return s[:kept]
}

// free empties the columns everywhere and frees them.
//
// It visits every block, some ten thousand, so it is for evictions and changes of configuration. The columns must
// be zero before others get them.
func (s *store) free(col uint32, w int, clock uint64) {
	for i := range s.levels {
		blocks := s.levels[i].blocks
		for j := range blocks {
			if blocks[j].erase(col, w) {
				blocks[j].ver = clock
			}
		}
	}
	for i := range s.hours {
		if s.hours[i].erase(col, w) {
			s.hours[i].ver = clock
		}
	}
	s.past.erase(col, w, clock)
	s.cols.give(col, uint32(w))
}

// add adds n to one column at a second that has a leaf. It is for what is counted beside plans: squares and drops.
//
// The caller has checked that there is a leaf.
func (s *store) add(sec int64, col uint32, n uint64, clock uint64) {
	leaf, hour := s.leaf(sec), s.hour(sec)
	leaf.touch(col+1, s.cols.room(), clock)
	hour.touch(col+1, s.cols.room(), clock)
	leaf.bump1(col, n)
	hour.bump1(col, n)
}

// touch makes a block ready for a change of columns below top.
//
// room is above top, so that a few more columns do not copy the block again.
func (b *block[C]) touch(top uint32, room int, clock uint64) {
	if len(b.cells) < int(top) {
		b.grow(room)
	}
	b.ver = clock
}

// addUpHours makes the hours again from the blocks, after a restore.
//
// Hours and days are not in snapshots. The version of an hour becomes that of one of its leaves. It is only
// compared with days that are made afterwards.
func (s *store) addUpHours() {
	s.hours, s.days = nil, nil
	for i := range s.levels {
		l := &s.levels[i]
		for j := range l.blocks {
			b := &l.blocks[j]
			if b.cells == nil {
				continue
			}
			h := s.hour(l.start + int64(j)*widths[i])
			h.touch(uint32(len(b.cells)), max(len(b.cells), int(s.cols.n)), b.ver)
			for c, n := range b.cells {
				if n != 0 {
					h.bump1(uint32(c), uint64(n))
				}
			}
			for c, n := range b.carry {
				h.bump1(c, n)
			}
		}
	}
}

// bytes is about how much memory the store takes.
func (s *store) bytes() int64 {
	var n int64
	for i := range s.levels {
		n += blockBytes(s.levels[i].blocks)
	}
	n += blockBytes(s.hours) + s.past.bytes()
	for i := range s.days {
		n += int64(cap(s.days[i].sums)) * 8
	}
	return n
}

// blockBytes counts 40 bytes for each block itself, used or not.
//
// 40 bytes are the slice header, the map and the version.
func blockBytes[C cell](blocks []block[C]) int64 {
	n := int64(cap(blocks)) * 40
	for i := range blocks {
		n += blocks[i].bytes()
	}
	return n
}
