package fold

import (
	"math/bits"
	"time"

	"github.com/sloengine/sloengine/slo"
)

// This file counts events that rate limits dropped, and those that stand for others by their weight. Dropped ones have
// no attributes any more, so they lower the coverage of every indicator that may have counted them, and never move a
// count.

const (
	// maxReasons is how many reasons of dropped events are told apart; the rest
	// become slo.OtherGroup.
	maxReasons = 32
	// maxDropTypes is for how many types of a service it is remembered whose
	// events they may be; more are looked up each time.
	maxDropTypes = 1000
)

// Dropped notes that n events of a service and type were not let in, for a
// reason, by a record received at recvNs; they happened about timeNs (both Unix
// nanoseconds). They count nowhere. Which indicators they would have counted for
// depends on attributes that are gone too, so it is every one of the service
// that takes the type with some attributes: their coverage is lower for it, see
// Loss. An unknown service or type, and a time that Apply would refuse, only
// raise Stats.Dropped.
//
// service and typ are not kept.
func (f *Fold) Dropped(recvNs int64, service, typ []byte, timeNs int64, n uint64, reason string) {
	f.clock++
	if recvNs > f.rec {
		f.moveTo(recvNs, Tick)
	}
	if n = min(n, maxCount); n == 0 {
		return
	}
	if _, ok := f.dropped[reason]; !ok && len(f.dropped) >= maxReasons-1 {
		reason = slo.OtherGroup
	}
	f.dropped[reason] += n
	svc := f.services[string(service)]
	if svc == nil || !plausible(timeNs, f.rec) {
		return
	}
	for _, ind := range svc.takes(typ) {
		f.drop(ind, timeNs, n)
	}
}

// takes lists the indicators that may count events of a type.
//
// The answer follows from the configuration alone, so it is remembered until that changes: setServices makes new
// services.
func (s *service) takes(typ []byte) []*indicator {
	if inds, ok := s.drops[string(typ)]; ok {
		return inds
	}
	var inds []*indicator
	if s.knows(string(typ)) {
		for _, ind := range s.inds {
			if ind.mayTake(string(typ)) {
				inds = append(inds, ind)
			}
		}
	}
	if len(s.drops) < maxDropTypes {
		s.drops[string(typ)] = inds
	}
	return inds
}

// mayTake reports whether some event of the type is valid for the indicator.
//
// Matchers of attributes are taken as matching, since some event may have had them.
func (ind *indicator) mayTake(typ string) bool {
	if fl := ind.flight; fl != nil {
		return ind.maySelect(fl.started, typ) || ind.maySelect(fl.finished, typ) ||
			len(fl.failed) > 0 && ind.maySelect(fl.failed, typ)
	}
	return ind.maySelect(ind.valid, typ) || ind.spec.Kind == Ratio && ind.maySelect(ind.numerator, typ)
}

// maySelect is mayTake of one selector.
func (ind *indicator) maySelect(sel slo.Selector, typ string) bool {
	for _, m := range sel {
		if m.Name == labelType && !m.Matches(typ) || m.Name == labelService && !m.Matches(ind.spec.Service) {
			return false
		}
	}
	return true
}

// drop counts dropped events of the time t, unless that is too old.
//
// The column is taken with the first drop of the indicator. The group dropped is in no list of groups, so it is
// never evicted, shown or alerted on.
func (f *Fold) drop(ind *indicator, t int64, n uint64) {
	if s := ind.slices; s != nil {
		b := s.slice(t / s.per)
		if b == nil {
			return
		}
		if ind.dropped == nil {
			ind.dropped = &group{ind: ind, from: always, col: s.cols.take(sliceColumns)}
		}
		b.touch(ind.dropped.col+1, s.cols.room(), f.clock)
		b.bump1(ind.dropped.col, n)
		return
	}
	s, sec := ind.events, t/int64(time.Second)
	if s.leaf(sec) == nil {
		return
	}
	if ind.dropped == nil {
		ind.dropped = &group{ind: ind, from: always, col: s.cols.take(1)}
	}
	s.add(sec, ind.dropped.col, n, f.clock)
}

// all are the indicator's groups, and what stands for its dropped events.
//
// The capacity is cut, so that append copies and does not write into sorted's memory.
func (ind *indicator) all() []*group {
	if ind.dropped == nil {
		return ind.sorted
	}
	return append(ind.sorted[:len(ind.sorted):len(ind.sorted)], ind.dropped)
}

// widthOf is how many columns a group has beside its squares.
func (ind *indicator) widthOf(g *group) int {
	if g == ind.dropped && ind.slices == nil {
		return 1
	}
	return ind.width
}

// loss works out what was dropped in each span, from the sums of the indicator's
// whole store over them.
//
// Offered is dropped plus the valid events of all groups, other included.
func (ind *indicator) loss(sums [][]uint64) *Loss {
	if ind.dropped == nil {
		return nil
	}
	l := &Loss{Dropped: make([]uint64, len(sums)), Offered: make([]uint64, len(sums))}
	lost := false
	for i, s := range sums {
		if o := ind.offer(s); o.Dropped > 0 {
			lost = true
			l.Dropped[i], l.Offered[i] = o.Dropped, o.Offered
		}
	}
	if !lost {
		return nil
	}
	return l
}

// offer is what was offered and dropped, from the sums of the indicator's whole store over a span.
func (ind *indicator) offer(s []uint64) (o Offer) {
	valid := func(g *group) (n uint64) {
		if ind.slices != nil {
			return s[runAt(0, g)+sliceEvents]
		}
		for _, x := range s[g.col : int(g.col)+ind.widthOf(g)] {
			n += x
		}
		return n
	}
	if ind.dropped != nil {
		o.Dropped = valid(ind.dropped)
	}
	o.Offered = o.Dropped
	for _, g := range ind.sorted {
		o.Offered += valid(g)
	}
	return o
}

// maxCount is the most that one event counts, however large its count and
// weight. It leaves room for tens of thousands of such events in 64 bits.
//
// A hostile count then cannot overflow a counter within any time that matters.
const maxCount = 1 << 48

// weighed is n events of a weight, maxCount at most.
func weighed(n, weight uint64) uint64 {
	hi, lo := bits.Mul64(n, weight)
	if hi != 0 || lo > maxCount {
		return maxCount
	}
	return lo
}

// countWeight remembers what a weighted event adds to the sum of the squared
// weights of each group that it counts for, beyond what it counts.
//
// The effective number of events is (sum of weights)^2 / (sum of squared weights), see slo.Effective. An event of
// weight w and count n adds n*w to the first sum and n*w*w to the second. The count holds n*w already, so
// n*w*(w-1) is what is missing.
func (f *Fold) countWeight(p *plan, sec int64, excess uint64, measured bool) {
	for i := range p.fixed {
		// How much a ratio rests on is told by its denominator.
		if x := &p.fixed[i]; x.g.ind.spec.Kind != Ratio || x.bin == RatioDenominator {
			f.addSquares(x.g, sec, excess)
		}
	}
	if measured {
		for _, x := range p.timed {
			f.addSquares(x.g, sec, excess)
		}
	}
}

// addSquares adds to the column of squares of a group, which it gets with its first weight above 1. Slices have none:
// they are judged by counts.
func (f *Fold) addSquares(g *group, sec int64, excess uint64) {
	s := g.ind.events
	if s == nil || s.leaf(sec) == nil {
		return
	}
	if g.squares == 0 {
		g.squares = s.cols.take(1) + 1
	}
	s.add(sec, g.squares-1, excess, f.clock)
}

// squaresAt gives where the squares of an indicator's groups lie in
// indicatorSums of all groups.
func squaresAt(ind *indicator) map[*group]int {
	var at map[*group]int
	next := len(ind.sorted) * ind.bins
	for _, g := range ind.sorted {
		if g.squares > 0 {
			if at == nil {
				at = map[*group]int{}
			}
			at[g] = next
			next++
		}
	}
	return at
}
