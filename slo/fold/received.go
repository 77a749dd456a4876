package fold

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/slo"
)

// This file counts events for alert conditions, which go by the time at which an event was received, as counters and
// rules do. Windows go by the event's own time. Within a minute of each other the two count as equal. Only for other
// events a group has columns in a second store, the ring: where windows have the event and conditions do not, and where
// conditions have it. So punctual events cost a comparison, and a ring that begins needs no seed, since there was no
// difference before.

// The sets of columns of a group in the ring: what windows count and conditions do not, by event time, and what
// conditions count, by receive time and lateness. What is no new traffic is in the first only.
const (
	setMoved    = 0
	setReceived = 1 // and one more for each further bound of Lateness
	sets        = setReceived + len(slo.Lateness)
)

// ring is a small store and what groups have in it. A group names its entry, so that it is no larger without one.
type ring struct {
	*store
	groups []received // by group.received - 1
	free   []uint32   // places in groups
}

// received says which columns of the ring a group has: one above the first of its bins, and one above that of squares;
// 0 for none yet.
type received struct{ bins, squares [sets]uint32 }

// of is what a group has in the ring; nil if nothing. It is valid until the next join.
func (r *ring) of(g *group) *received {
	if g.received == 0 {
		return nil
	}
	return &r.groups[g.received-1]
}

// join gives a group an entry, if it has none.
func (r *ring) join(g *group) *received {
	if g.received == 0 {
		i := uint32(len(r.groups))
		if last := len(r.free) - 1; last >= 0 {
			i, r.free = r.free[last], r.free[:last]
		} else {
			r.groups = append(r.groups, received{})
		}
		g.received = i + 1
	}
	return &r.groups[g.received-1]
}

// all lists the columns that there are, with their widths.
func (x *received) all(width int, each func(col *uint32, w uint32)) {
	for set := range sets {
		if x.bins[set] > 0 {
			each(&x.bins[set], uint32(width))
		}
		if x.squares[set] > 0 {
			each(&x.squares[set], 1)
		}
	}
}

// appendReceived encodes the columns of each group in the ring: none, or those of bins and then those of squares.
func (f *Fold) appendReceived(b []byte) []byte {
	for _, ind := range f.inds {
		for _, g := range ind.sorted {
			if g.received == 0 {
				b = append(b, 0)
				continue
			}
			b = append(b, 2*byte(sets))
			x := f.ring.of(g)
			for _, cols := range [2][sets]uint32{x.bins, x.squares} {
				for _, c := range cols {
					b = binary.AppendUvarint(b, uint64(c))
				}
			}
		}
	}
	return b
}

// readReceived is the inverse of appendReceived. It tells the ring which columns the groups have.
func (f *Fold) readReceived(r *reader) {
	var used []colRange
	for _, ind := range f.inds {
		for _, g := range ind.sorted {
			cols := r.Counts()
			if len(cols) == 0 {
				continue
			}
			if len(cols) != 2*sets || ind.events == nil {
				r.Fail()
				return
			}
			mine := f.needRing().join(g)
			for i, c := range cols {
				to := &mine.bins
				if i >= sets {
					to = &mine.squares
				}
				to[i%sets] = uint32(min(c, maxColumns))
			}
			mine.all(ind.width, func(col *uint32, w uint32) { used = append(used, colRange{*col - 1, *col - 1 + w}) })
		}
	}
	if f.ring != nil && !f.ring.cols.use(used) {
		r.Fail()
	}
}

// leave frees the entry of a group.
func (r *ring) leave(g *group) {
	r.groups[g.received-1] = received{}
	r.free = append(r.free, g.received-1)
	g.received = 0
}

// needRing makes the ring, if there is none.
func (f *Fold) needRing() *ring {
	if f.ring == nil {
		f.ring = &ring{store: newStore(slo.ReceivedWindow, f.rec/int64(time.Second))}
	}
	return f.ring
}

// shift counts an event, which is counted already, for alert conditions. It is called if the event was received more
// than a minute off its time or is no new traffic.
func (f *Fold) shift(p *plan, t int64, old bool, v *event.View) {
	const second = int64(time.Second)
	late, off := lateness(f.rec, t)
	if !off && !old {
		return
	}
	x := shifting{f: f, from: -1, set: -1}
	if sec := t / second; sec >= floor(f.rec/second-int64(slo.ReceivedWindow/time.Second)-60, coarseSeg) {
		x.from = sec
	}
	if !old {
		x.set = setReceived
		for late > int64(slo.Lateness[x.set-setReceived]) {
			x.set++
		}
	}
	aggregated := v.DurationCount() > 0
	measured := v.Duration >= 0 || aggregated
	weight := uint64(v.Weight)
	n, excess := weighed(uint64(v.Count), max(1, weight)), uint64(0)
	if weight > 1 {
		excess = weighed(n, weight-1)
	}
	if !x.reserve(p, measured, weight > 1) {
		return
	}
	for i := range p.fixed {
		e := &p.fixed[i]
		if e.bin < 0 {
			continue
		}
		x.add(e.g, uint32(e.bin), n)
		if e.g.ind.spec.Kind != Ratio || e.bin == RatioDenominator {
			x.addSquares(e.g, excess)
		}
	}
	for _, e := range p.timed {
		switch {
		case e.edges == nil || !measured:
			continue
		case aggregated:
			for d, k := range v.Durations {
				x.add(e.g, uint32(binOf(e.edges, d)), weighed(uint64(k), max(1, weight)))
			}
		default:
			x.add(e.g, uint32(binOf(e.edges, v.Duration)), n)
		}
		x.addSquares(e.g, excess)
	}
}

// lateness is how long after its time an event was received, and whether conditions count it then. Both go by the
// finest bucket of the time, rounded towards punctual, because events of one bucket may have been merged.
func lateness(rec, t int64) (late int64, off bool) {
	at := t - t%(fineWidth*int64(time.Second))
	late = rec - at - fineWidth*int64(time.Second)
	return late, late > punctual || at-rec > punctual
}

// shifting is the work of shift: from which second counts are moved, -1 if the ring does not reach back to it, and into
// which set of the record time, -1 if into none.
type shifting struct {
	f         *Fold
	from      int64
	set       int
	out, into ringCells
}

// ringCells are the blocks of one second; their blocks are nil if nothing is counted there.
type ringCells struct {
	leaf *block[uint16]
	hour *block[uint32]
}

func (c ringCells) bump(col uint32, n uint64) {
	c.leaf.bump1(col, n)
	c.hour.bump1(col, n)
}

// reserve gives the groups of a plan the columns that they need, and finds the blocks. It reports whether there is
// anything to count.
func (x *shifting) reserve(p *plan, measured, weighs bool) bool {
	if x.from < 0 && x.set < 0 {
		return false
	}
	var ring *ring
	need := func(g *group) {
		if ring == nil {
			ring = x.f.needRing()
		}
		cols := ring.join(g)
		for _, set := range [2]int{setMoved, x.set} {
			if set < 0 || set == setMoved && x.from < 0 {
				continue
			}
			ring.reserve(&cols.bins[set], g.ind.width)
			if weighs {
				ring.reserve(&cols.squares[set], 1)
			}
		}
	}
	for i := range p.fixed {
		if p.fixed[i].bin >= 0 {
			need(p.fixed[i].g)
		}
	}
	for _, e := range p.timed {
		if measured && e.edges != nil {
			need(e.g)
		}
	}
	if ring == nil {
		return false
	}
	cells := func(sec int64) ringCells {
		c := ringCells{ring.leaf(sec), ring.hour(sec)}
		c.leaf.touch(ring.cols.n, ring.cols.room(), x.f.clock)
		c.hour.touch(ring.cols.n, ring.cols.room(), x.f.clock)
		return c
	}
	if x.from >= 0 {
		x.out = cells(x.from)
	}
	if x.set >= 0 {
		x.into = cells(x.f.rec / int64(time.Second))
		if x.from >= 0 {
			x.out = cells(x.from) // the lists of blocks may have grown
		}
	}
	return true
}

// reserve takes columns, unless there are some.
func (r *ring) reserve(col *uint32, width int) {
	if *col == 0 {
		*col = r.cols.take(uint32(width)) + 1
	}
}

func (x *shifting) add(g *group, bin uint32, n uint64) {
	cols := x.f.ring.of(g)
	if x.from >= 0 {
		x.out.bump(cols.bins[setMoved]-1+bin, n)
	}
	if x.set >= 0 {
		x.into.bump(cols.bins[x.set]-1+bin, n)
	}
}

func (x *shifting) addSquares(g *group, excess uint64) {
	if excess == 0 {
		return
	}
	cols := x.f.ring.of(g)
	if x.from >= 0 {
		x.out.bump(cols.squares[setMoved]-1, excess)
	}
	if x.set >= 0 {
		x.into.bump(cols.squares[x.set]-1, excess)
	}
}

// ageRing moves the ring to the record time. Groups without a count in it have no columns any more, and a ring without
// groups is gone.
func (f *Fold) ageRing() {
	if f.ring == nil {
		return
	}
	f.ring.advance(f.rec/int64(time.Second), f.clock)
	sums := make([]uint64, f.ring.cols.n)
	for i := range f.ring.hours {
		f.ring.hours[i].addTo(sums)
	}
	used := false
	for _, ind := range f.inds {
		for _, g := range ind.sorted {
			if g.received == 0 {
				continue
			}
			mine := false
			f.ring.of(g).all(ind.width, func(col *uint32, w uint32) {
				mine = mine || slices.ContainsFunc(sums[*col-1:*col-1+w], func(n uint64) bool { return n > 0 })
			})
			if used = used || mine; !mine {
				f.releaseReceived(g)
			}
		}
	}
	if !used {
		f.ring = nil
	}
}

// releaseReceived empties and frees the columns of a group in the ring.
func (f *Fold) releaseReceived(g *group) {
	if g.received == 0 {
		return
	}
	f.ring.of(g).all(g.ind.width, func(col *uint32, w uint32) { f.ring.store.free(*col-1, int(w), f.clock) })
	f.ring.leave(g)
}

// moveReceived takes what the ring has of an indicator's groups to that of another fold.
func (f *Fold) moveReceived(ind *indicator, dst *Fold) {
	if f.ring == nil {
		return
	}
	var moves []columnMove
	for _, g := range ind.sorted {
		if g.received == 0 {
			continue
		}
		cols := *f.ring.of(g)
		f.ring.leave(g)
		cols.all(ind.width, func(col *uint32, w uint32) {
			from := *col - 1
			*col = dst.needRing().cols.take(w) + 1
			moves = append(moves, columnMove{from, *col - 1, w})
		})
		*dst.ring.join(g) = cols
	}
	if len(moves) > 0 {
		f.ring.moveAll(moves, dst.ring.store, dst.clock)
	}
}
