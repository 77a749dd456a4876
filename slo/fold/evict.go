package fold

import (
	"slices"
	"time"

	"github.com/sloengine/sloengine/slo"
)

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
		if !flushed { // the times of the last events are owed, too
			f.plans.flush()
			flushed = true
		}
		if f.evict(ind) {
			f.plans.clear()
		}
	}
}

// evict evicts the silent groups of one indicator and reports whether anything changed.
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
	ind.full = ind.full && ind.groups[otherGroup(len(ind.spec.GroupBy)).Key()] != nil && ind.named() >= ind.spec.maxGroups()
	return len(ind.sorted) != before || ind.full != full
}

// silent reports whether the buckets hold no valid event of a group.
func (f *Fold) silent(g *group) bool {
	if s := g.ind.slices; s != nil {
		return g.last < s.first*s.per
	}
	return g.last/int64(time.Second) < g.ind.events.oldest()
}

// named is how many groups have a name of their own, those that are expected among them.
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
