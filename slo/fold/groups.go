package fold

import (
	"math"
	"slices"
	"time"

	"github.com/sloengine/sloengine/slo"
)

// This file holds indicators and their groups, the bound on their number, and the eviction of groups that fell
// silent.

// indicator is an Indicator and what was counted for it. The first fields are compiled from the config and never
// change. The rest moves on to the next indicator with the same definition when the config changes.
//
// groups and sorted hold the same groups. gen, era, former, unmeasured, full and dropped belong to the generation
// and go with it.
type indicator struct {
	spec       *Indicator   // part of Fold.cfg
	valid, bad slo.Selector // bad matters among valid events only, and not for latencies
	numerator  slo.Selector // of a ratio
	edges      []int64      // nanoseconds
	width      int          // columns of a group
	bins       int          // of a group's Total
	sched      slo.Schedule // of slices; always, if there is none
	key        string       // what is counted; see generationKey

	gen        uint32   // number of the generation of its ID; Group.Generation
	former     []string // IDs that the generation had before
	era        *era     // since when it counts; shared with those that began together
	unmeasured uint64   // events without a duration, which a latency cannot count
	full       bool     // a value was refused a group since there was room: it shares other
	dropped    *group   // where dropped events are counted; nil before the first
	flight     *flight  // of Completion, whose table belongs to the generation; nil for others

	groups map[string]*group // by slo.Group.Key
	sorted []*group          // the same, by values, other last

	// Exactly one of these is set, by attach. Other indicators share the store. The groups own their columns in it.
	events *store
	slices *sliceStore
}

// group is one group of an indicator. Plans point at groups, so one that goes away takes the plans with it.
//
// Its counts are in the columns [col, col+width) of the indicator's store. total and old are sums since the
// generation began and do not age.
type group struct {
	ind    *indicator
	values slo.Group // never changed
	col    uint32    // its first column in the indicator's store

	received uint32 // one above its entry in the ring; 0 without one

	total []uint64 // per bin; without what is no new traffic
	old   []uint64 // per bin: what was backfilled, or replayed late; nil before the first
	last  int64    // latest time of a valid event, nanoseconds; 0 if none

	// squares is one above the column of what weights add to the sum of squared
	// weights, in the store of events; 0 while no weight above 1 was seen.
	squares uint32

	number uint32 // of Completion: how the flight names it

	// from is the first moment at which the group counts as existing, for empty
	// slices: the start of the slice of its earliest event, or always.
	from int64
}

// Values of group.from besides times.
const (
	always = math.MinInt64 // the group is expected, or the indicator is not grouped
	never  = math.MaxInt64 // no event has made it exist yet
)

// group finds or makes the group of the values. Past MaxGroups, and for values
// that pretend to be the other group, that is the other group.
//
// full is set when a value is refused for want of room, and tells evictSilent where room is needed.
func (f *Fold) group(ind *indicator, values slo.Group) *group {
	if g := ind.groups[values.Key()]; g != nil {
		return g
	}
	if len(values) > 0 {
		room := ind.named() < ind.spec.maxGroups()
		if !room && !values.IsOther() {
			ind.full = true
		}
		if !room || values.IsOther() {
			values = otherGroup(len(values))
			if g := ind.groups[values.Key()]; g != nil {
				return g
			}
		}
	}
	return f.newGroup(ind, values, never)
}

// newGroup adds a group that does not exist yet and gives it columns.
//
// Columns that were freed are zero, so the group begins without counts.
func (f *Fold) newGroup(ind *indicator, values slo.Group, from int64) *group {
	g := &group{ind: ind, values: slices.Clone(values), from: from, total: make([]uint64, ind.bins)}
	if ind.slices != nil {
		g.col = ind.slices.cols.take(uint32(ind.width))
	} else {
		g.col = ind.events.cols.take(uint32(ind.width))
	}
	if ind.flight != nil {
		ind.flight.join(g)
	}
	ind.insert(g)
	return g
}

// insert puts a group into the map, and into the list at its place in the order of Sums.
func (ind *indicator) insert(g *group) {
	ind.groups[g.values.Key()] = g
	i, _ := slices.BinarySearchFunc(ind.sorted, g, compareGroups)
	ind.sorted = slices.Insert(ind.sorted, i, g)
}

// compareGroups orders by values, the other group last.
func compareGroups(a, b *group) int {
	if x, y := a.values.IsOther(), b.values.IsOther(); x != y {
		if x {
			return 1
		}
		return -1
	}
	return slices.Compare(a.values, b.values)
}

// backfilled are the totals of what is no new traffic, by bin.
func (g *group) backfilled() []uint64 {
	if g.old == nil {
		g.old = make([]uint64, g.ind.bins)
	}
	return g.old
}

// binOf is the index of the first edge that d does not exceed, len(edges) if it
// exceeds all.
//
// There are few edges, so it does not search by halves.
func binOf(edges []int64, d int64) int {
	i := 0
	for i < len(edges) && d > edges[i] {
		i++
	}
	return i
}

// maxGroups is the bound on groups with a name of their own, with its default.
func (i *Indicator) maxGroups() int {
	if i.MaxGroups > 0 {
		return i.MaxGroups
	}
	return DefaultMaxGroups
}

// An indicator that has MaxGroups groups gets room as groups fall silent: one without
// a valid event in any bucket is evicted, with all that was counted for it. That is
// decided when buckets age, which follows from the times of records alone, and before
// anything else that the record brings. So a replay evicts the same groups at the same
// places of the log, whatever the cache of plans remembers. Values that shared the
// other group meanwhile get a name at their next event; what they counted there stays.

// evictSilent evicts the silent groups of indicators without room. A group that is
// expected is never evicted.
func (f *Fold) evictSilent() {
	flushed := false
	for _, ind := range f.inds {
		if len(ind.spec.GroupBy) == 0 || !ind.full && ind.named() < ind.spec.maxGroups() {
			continue
		}
		if !flushed { // the times of the last events are pending, too
			f.plans.flush()
			flushed = true
		}
		if f.evict(ind) {
			f.plans.clear()
		}
	}
}

// evict evicts the silent groups of one indicator and reports whether anything changed.
//
// The caller clears the plans afterwards: some may point at groups that are gone.
func (f *Fold) evict(ind *indicator) bool {
	before, full := len(ind.sorted), ind.full
	expected := map[string]bool{}
	for _, values := range ind.spec.Expect {
		expected[slo.Group(values).Key()] = true
	}
	ind.sorted = slices.DeleteFunc(ind.sorted, func(g *group) bool {
		key := g.values.Key()
		if expected[key] || !f.silent(g) {
			return false
		}
		delete(ind.groups, key)
		f.releaseGroup(g)
		f.stats.evicted++
		return true
	})
	if len(ind.sorted) < before && ind.slices != nil {
		ind.slices.runs = nil // they hold judgements of columns that others get now
	}
	ind.full = ind.full && ind.groups[otherGroup(len(ind.spec.GroupBy)).Key()] != nil &&
		ind.named() >= ind.spec.maxGroups()
	return len(ind.sorted) != before || ind.full != full
}

// silent reports whether the buckets hold no valid event of a group.
//
// It goes by the latest event ever, so a group with anything in a bucket is never silent.
func (f *Fold) silent(g *group) bool {
	if s := g.ind.slices; s != nil {
		return g.last < s.first*s.per
	}
	return g.last/int64(time.Second) < g.ind.events.oldest() && (g.ind.flight == nil || !g.ind.flight.table.Has(g.number))
}

// named is how many groups have a name of their own, those that are expected among them.
//
// The other group is the last in sorted, so one look is enough.
func (ind *indicator) named() int {
	n := len(ind.sorted)
	if n > 0 && ind.sorted[n-1].values.IsOther() {
		n--
	}
	return n
}

// Full is an indicator whose groups are all taken.
type Full struct {
	Indicator string // its ID
	MaxGroups int
	Other     uint64 // valid events that the other group counted since it began
}

// fulls lists the indicators that refused a value a group of its own, by ID.
func (f *Fold) fulls() (out []Full) {
	for _, ind := range f.inds {
		if !ind.full {
			continue
		}
		x := Full{Indicator: ind.spec.ID, MaxGroups: ind.spec.maxGroups()}
		if g := ind.groups[otherGroup(len(ind.spec.GroupBy)).Key()]; g != nil {
			for _, n := range slices.Concat(g.total, g.old) {
				x.Other += n
			}
		}
		out = append(out, x)
	}
	return out
}

// otherGroup is the group that values without one of their own share.
func otherGroup(n int) slo.Group {
	return slices.Repeat(slo.Group{slo.OtherGroup}, n)
}
