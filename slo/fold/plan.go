package fold

import (
	"fmt"
	"math"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/slo"
)

// This file holds plans, the reason that an event costs a hash and a few additions however many indicators its
// service has. Matching selectors and finding groups is done once per combination of labels, in makePlan.

// plan says what events with the same labels add to. Labels that no indicator
// and no counter of the service looks at make no difference.
//
// A plan points into groups, stores and columns of the present configuration. Whatever frees or moves those (SetConfig,
// an eviction) clears the cache, so no plan is ever stale.
//
// The first fields are fixed when the plan is made. The pending ones change with every event of the plan, until
// flush adds them to the groups. Buckets are never pending.
type plan struct {
	svc    *service
	key    string // projected labels, see service.project
	hash   uint64 // of key, so that the table grows without hashing again
	reason string // why such events are refused; "" if they are not

	uncounted bool // events of a type that the service admits and does not know

	events  []eventPlan     // one per store of events, so that its leaf is looked up once per event
	slices  []slicePlan     // one per group of an indicator of slices
	works   []workPlan      // one per indicator of completion that they start, move or end work of
	bad     []badPlan       // groups that count them, or slow ones, as bad; only with a witness
	suspect int64           // some group counts an event as bad if it lasts longer, nanoseconds
	traffic *traffic        // never nil in a plan without a reason
	series  *durationSeries // of the same labels but the severity; nil until live traffic of the plan has a duration

	// What is pending for totals. Keeping it here until somebody looks makes the totals
	// of twenty indicators cost one addition per event. flush zeroes these fields.
	n            uint64 // events
	old          uint64 // of them those that are no new traffic
	measured     uint64 // of them with a duration
	last         int64  // latest time
	lastMeasured int64
	pending      bool // listed in planCache.pending

	fixed []fixedPlan    // totals that every event moves
	timed []*latencyPlan // those that only events with a duration move
}

// eventPlan is what an event adds to in one store.
//
// fixed and timed are disjoint: an indicator of events has fixed columns, a latency timed ones.
type eventPlan struct {
	store *store
	top   uint32   // one above the highest column
	fixed []uint32 // columns that every event moves
	timed []latencyPlan
}

// fixedPlan is a total that every event of a plan moves.
type fixedPlan struct {
	g   *group
	bin int // -1: only the time of the last event
}

// latencyPlan picks one of a group's bins by duration.
//
// base is 0 for slices, where only the group is needed.
type latencyPlan struct {
	g     *group
	base  uint32  // first column of the group
	edges []int64 // nanoseconds, ascending; shared with the indicator
}

// slicePlan is what an event adds to in one store of slices: the good or the bad column of its slice.
type slicePlan struct {
	store *sliceStore
	g     *group
	bin   uint32  // for indicators of events: 0 good, 1 bad
	edges []int64 // of a latency, whose bin follows from the duration; else nil
}

// planCache finds plans by label values. It is bounded: a full cache is emptied
// and fills again, which is slower and nothing else.
//
// It is a table of its own and not a map because the key is projected into scratch memory: a map would need an
// allocation or a conversion for each service and event, and this look-up is the hottest of the fold.
//
// Whether it is full decides about speed only: a plan that is made again finds the same groups and adds to the
// same columns.
type planCache struct {
	maxPlans, maxBytes int // Options; never 0

	slots   []planSlot // open addressing, a power of two, at most half full
	n       int        // plans in slots
	bytes   int        // about what they take, see plan.size
	pending []*plan    // those with totals to flush, each once; clear flushes before it forgets them

	hits, misses uint64 // since the start of the process, for Stats
}

// planSlot keeps the hash beside the plan, so that a probe that misses touches no plan.
type planSlot struct {
	hash uint64
	plan *plan
}

// minPlanSlots is the size of an empty table: enough for a small spec, little to clear.
const minPlanSlots = 256

// find is the plan of the projected labels, nil if there is none. It allocates nothing.
//
// It ends, because at least half of the slots are empty. Comparing the whole key makes a collision of hashes
// harmless.
func (c *planCache) find(svc *service, key []byte, hash uint64) *plan {
	mask := uint64(len(c.slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		s := &c.slots[i]
		if s.plan == nil {
			return nil
		}
		if s.hash == hash && s.plan.svc == svc && s.plan.key == string(key) {
			return s.plan
		}
	}
}

// put adds a plan that find did not give, and doubles a table that is half full.
//
// At most half full keeps probes short. clear goes back to minPlanSlots.
func (c *planCache) put(p *plan) {
	if 2*(c.n+1) > len(c.slots) {
		old := c.slots
		c.slots = make([]planSlot, 2*len(old))
		for _, s := range old {
			if s.plan != nil {
				c.place(s.plan)
			}
		}
	}
	c.place(p)
	c.n++
	c.bytes += p.size()
}

// place puts a plan into the first free slot from its hash on. There is one.
func (c *planCache) place(p *plan) {
	mask := uint64(len(c.slots) - 1)
	i := p.hash & mask
	for c.slots[i].plan != nil {
		i = (i + 1) & mask
	}
	c.slots[i] = planSlot{p.hash, p}
}

// clear flushes all plans and forgets them. Plans are never removed one by one: which of them are still good is not
// worth knowing, since making one costs microseconds.
func (c *planCache) clear() {
	c.flush()
	c.slots = make([]planSlot, minPlanSlots)
	c.n, c.bytes = 0, 0
}

// flush adds to the totals what the plans hold for them.
//
// Whoever looks at totals calls it first: Sums, Parts, an eviction, and whatever replaces groups.
func (c *planCache) flush() {
	for _, p := range c.pending {
		p.flush()
	}
	clear(c.pending)
	c.pending = c.pending[:0]
}

// flush adds what is pending to the groups and the traffic that the plan names.
//
// unmeasured gets the events that matched a latency and had no duration.
func (p *plan) flush() {
	for _, x := range p.fixed {
		if x.bin >= 0 {
			x.g.total[x.bin] += p.n - p.old
			if p.old > 0 {
				x.g.backfilled()[x.bin] += p.old
			}
		}
		x.g.last = max(x.g.last, p.last)
	}
	for _, x := range p.timed {
		x.g.last = max(x.g.last, p.lastMeasured)
		x.g.ind.unmeasured += p.n - p.measured
	}
	p.traffic.count += p.n - p.old
	p.traffic.last = max(p.traffic.last, p.last)
	p.n, p.old, p.measured, p.last, p.lastMeasured, p.pending = 0, 0, 0, 0, 0, false
}

// size is about how much memory a plan takes.
func (p *plan) size() int {
	n := 256 + len(p.key) + 16*len(p.fixed) + 32*len(p.bad) + 8*len(p.timed) + 64*len(p.slices) + 24*len(p.works)
	for i := range p.events {
		n += 64 + 4*len(p.events[i].fixed) + 40*len(p.events[i].timed)
	}
	return n
}

// plan finds or makes the plan of an event.
func (f *Fold) plan(svc *service, v *event.View) *plan {
	f.key = svc.project(f.key[:0], v)
	hash := xxh3.Hash(f.key)
	if p := f.plans.find(svc, f.key, hash); p != nil {
		f.plans.hits++
		return p
	}
	f.plans.misses++
	p := f.makePlan(svc, v)
	p.hash = hash
	if f.plans.n >= f.plans.maxPlans || f.plans.bytes+p.size() > f.plans.maxBytes {
		f.plans.clear()
	}
	f.plans.put(p)
	return p
}

// makePlan matches an event with every indicator of its service and makes the groups and counters that it is the first
// to need. Its key is f.key.
//
// A plan with a reason adds to nothing. It is cached like the others, so that a flood of refused events costs no
// matching.
func (f *Fold) makePlan(svc *service, v *event.View) *plan {
	p := &plan{svc: svc, key: string(f.key), suspect: math.MaxInt64}
	if typ := string(v.Type); !svc.knows(typ) {
		if p.uncounted = svc.spec.AdmitUnknown; p.uncounted {
			return p
		}
		p.reason = fmt.Sprintf("service %q has no events of type %q", svc.spec.Name, typ)
		return p
	}
	get := svc.labels(v)
	p.traffic = f.trafficOf(svc, get)
	groupOf := func(ind *indicator) *group {
		values := make(slo.Group, len(ind.spec.GroupBy))
		for i, name := range ind.spec.GroupBy {
			values[i] = get(name)
		}
		return f.group(ind, values)
	}
	for _, ind := range svc.inds {
		valid := ind.valid.Matches(get)
		switch {
		case ind.flight != nil:
			if w, ok := ind.flight.plan(ind, get); ok {
				if w.starts {
					w.g = groupOf(ind)
				}
				p.works = append(p.works, w)
			}
		case ind.spec.Kind == Ratio:
			if part := ind.numerator.Matches(get); part || valid {
				p.addRatio(groupOf(ind), part, valid)
			}
		case valid:
			g, bad := groupOf(ind), ind.bad.Matches(get)
			p.add(g, bad)
			if f.witness != nil && f.witness.Wants(ind.spec.ID) {
				p.watch(g, bad)
			}
		}
	}
	for i := range p.events {
		for j := range p.events[i].timed {
			p.timed = append(p.timed, &p.events[i].timed[j])
		}
	}
	for i := range p.slices {
		if s := &p.slices[i]; s.edges != nil {
			p.timed = append(p.timed, &latencyPlan{g: s.g})
		}
	}
	return p
}

// add makes the plan move a group's counts.
//
// Columns are the group's first column plus the bin. A latency's bin is known only with the duration.
func (p *plan) add(g *group, bad bool) {
	ind := g.ind
	bin := uint32(0)
	if bad {
		bin = 1
	}
	if ind.slices != nil {
		s := slicePlan{store: ind.slices, g: g, bin: bin}
		if ind.spec.Kind == Latency {
			s.edges = ind.edges
		} else {
			p.fixed = append(p.fixed, fixedPlan{g, -1})
		}
		p.slices = append(p.slices, s)
		return
	}
	e := p.in(g)
	if ind.spec.Kind == Latency {
		e.timed = append(e.timed, latencyPlan{g, g.col, ind.edges})
		return
	}
	e.fixed = append(e.fixed, g.col+bin)
	p.fixed = append(p.fixed, fixedPlan{g, int(bin)})
}

// in is what the plan adds to in the store of a group's events, with room for the group's columns.
func (p *plan) in(g *group) *eventPlan {
	i := slices.IndexFunc(p.events, func(e eventPlan) bool { return e.store == g.ind.events })
	if i < 0 {
		i = len(p.events)
		p.events = append(p.events, eventPlan{store: g.ind.events})
	}
	e := &p.events[i]
	e.top = max(e.top, g.col+uint32(g.ind.width))
	return e
}

// Bins of a ratio.
const (
	RatioNumerator = iota
	RatioDenominator
)

// addRatio makes the plan move the counts of a ratio that the event is in, at least one of the two.
func (p *plan) addRatio(g *group, numerator, denominator bool) {
	e := p.in(g)
	for bin, counts := range [...]bool{RatioNumerator: numerator, RatioDenominator: denominator} {
		if counts {
			e.fixed = append(e.fixed, g.col+uint32(bin))
			p.fixed = append(p.fixed, fixedPlan{g, bin})
		}
	}
}
