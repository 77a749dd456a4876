package fold

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/sloengine/sloengine/slo"
)

// This file changes what is counted. A generation is a set of counts with one definition. With a new
// configuration, each indicator either goes on with a generation or begins one, and generations without an
// indicator are parked.

// SetConfig makes cfg what is counted from the record time at (Unix nanoseconds)
// on. Indicators that count what they counted before go on with their counts, also
// after a time in which they were not in the config; others begin a new generation,
// from zero. The generations that no indicator goes on with are parked, see parked.
// cfg is copied. On an error, which lists all that is wrong, nothing has changed but
// the record time.
func (f *Fold) SetConfig(cfg *Config, at int64) error {
	f.clock++
	f.moveTo(max(at, 1), Tick)
	c, err := compile(cfg)
	if err != nil {
		return err
	}
	active := len(f.inds)
	held := make([]candidate, 0, active+len(f.parked))
	for _, ind := range f.inds {
		held = append(held, candidate{ind.spec.ID, ind.former, ind.key, false})
	}
	for _, p := range f.parked {
		held = append(held, candidate{p.id, p.former, p.key, true})
	}
	from := match(c.inds, func(ind *indicator) string { return ind.key }, held)

	// Whatever can fail comes before the first change: parked generations are decoded, and nothing is moved.
	thawed := map[int]*Fold{}
	for _, j := range from {
		if j >= active {
			if thawed[j], err = f.parked[j-active].thaw(); err != nil {
				return fmt.Errorf("resume %s: %w", f.parked[j-active].id, err)
			}
		}
	}
	f.change = changeOf(c.inds, from, f.Generations(0))
	f.plans.clear() // their totals belong to the old generations, and they point into what moves now

	// Generations that nothing continues free their columns before others take some, so that a config which is changed
	// back and forth does not make blocks wider each time.
	olds, parkeds := f.inds, slices.Clone(f.parked)
	for j, ind := range olds {
		if !slices.Contains(from, j) {
			if err := f.park(ind); err != nil {
				return err // cannot happen: the definition was compiled before
			}
		}
	}
	f.inds, f.cfg, f.cfgText, f.cfgVersion = c.inds, c.cfg, c.text, f.clock
	moved, resumed := map[moveKey]*era{}, map[string]*era{}
	for i, ind := range f.inds {
		switch j := from[i]; {
		case j >= active:
			f.inherit(ind, f.resume(parkeds[j-active], thawed[j], resumed), moved)
			thawed[j].moveReceived(ind, f)
		case j >= 0:
			f.inherit(ind, olds[j], moved)
		}
	}
	began := map[string]*era{}
	for i, ind := range f.inds {
		if from[i] < 0 {
			f.attach(ind)
			f.begin(ind, began)
		}
		if f.retired[ind.spec.ID] <= ind.gen {
			delete(f.retired, ind.spec.ID)
		}
		f.expect(ind)
	}
	f.sweep()
	f.setStreams()
	f.setServices()
	for i := range f.cfg.Services {
		f.named[f.cfg.Services[i].Name] = struct{}{}
	}
	return nil
}

// begin makes an indicator begin a generation now. Those of a service and source that begin
// together share their era: began has it, by both.
//
// The number is above that of every earlier generation of the ID, which retired remembers.
func (f *Fold) begin(ind *indicator, began map[string]*era) {
	key := ind.spec.Service + "\n" + ind.spec.Source
	if began[key] == nil {
		began[key] = &era{since: f.rec, source: ind.spec.Source}
	}
	ind.era = began[key]
	ind.gen = f.retired[ind.spec.ID] + 1
	if ind.flight != nil {
		ind.flight = ind.flight.empty()
		f.register(ind)
	}
}

// LastChange is what the last SetConfig did to the generations, since the process
// began. Their Until is not set.
func (f *Fold) LastChange() Change { return f.change }

// attach gives an indicator the store for its retention or slices, making it if needed.
//
// Indicators with the same retention share a store, so that one block holds the counts of all of them.
func (f *Fold) attach(ind *indicator) {
	keep := keepOf(ind.spec)
	if ind.spec.Slice != nil {
		ind.slices = f.sliceStore(int64(ind.spec.Slice.Per), int64(keep))
	} else {
		ind.events = f.store(keep)
	}
}

// store finds or makes the store of a retention.
func (f *Fold) store(keep time.Duration) *store {
	i, ok := slices.BinarySearchFunc(f.stores, keep, func(s *store, k time.Duration) int {
		return cmp.Compare(s.keep, int64(k/time.Second))
	})
	if !ok {
		f.stores = slices.Insert(f.stores, i, newStore(keep, f.rec/int64(time.Second)))
	}
	return f.stores[i]
}

// sliceStore finds or makes the store of a slice length and retention, both in nanoseconds.
func (f *Fold) sliceStore(per, keep int64) *sliceStore {
	i, ok := slices.BinarySearchFunc(f.slices, per, func(s *sliceStore, per int64) int {
		return cmp.Or(cmp.Compare(s.per, per), cmp.Compare(s.keep, keep))
	})
	if !ok {
		f.slices = slices.Insert(f.slices, i, newSliceStore(per, keep, f.rec))
	}
	return f.slices[i]
}

// release frees everything that an indicator has in its store.
//
// Its groups must not be used any more: their columns go to others.
func (f *Fold) release(ind *indicator) {
	for _, g := range ind.sorted {
		f.releaseReceived(g)
	}
	if moves := ind.moves(nowhere); ind.slices != nil {
		ind.slices.moveAll(moves, nil, f.clock)
	} else {
		ind.events.moveAll(moves, nil, f.clock)
	}
}

// releaseGroup frees a group's columns.
func (f *Fold) releaseGroup(g *group) {
	if g.ind.slices != nil {
		g.ind.slices.free(g.col, f.clock)
		return
	}
	if g.ind.flight != nil {
		g.ind.flight.groups[g.number] = nil
	}
	f.releaseReceived(g)
	g.ind.events.free(g.col, g.ind.width, f.clock)
	if g.squares > 0 {
		g.ind.events.free(g.squares-1, 1, f.clock)
	}
}

// moveKey is an era that loses what lies before kept.
type moveKey struct {
	era  *era
	kept int64
}

// inherit moves all that was counted for o to ind, which counts the same. moved
// are the eras that were cut, so that indicators go on sharing them.
//
// o must not be used afterwards. If both have the same store, no count is moved. A longer retention does not
// bring back what the shorter one has dropped, so the generation then begins later.
func (f *Fold) inherit(ind, o *indicator, moved map[moveKey]*era) {
	f.attach(ind)
	ind.gen, ind.era, ind.unmeasured, ind.full = o.gen, o.era, o.unmeasured, o.full
	ind.former = o.former
	if ind.spec.ID != o.spec.ID {
		ind.gen = max(ind.gen, f.retired[ind.spec.ID]+1)
		if !slices.Contains(ind.former, o.spec.ID) {
			ind.former = append(slices.Clone(ind.former), o.spec.ID)
		}
	}
	for _, g := range o.sorted {
		g.ind = ind
		ind.insert(g)
	}
	if ind.dropped = o.dropped; ind.dropped != nil {
		ind.dropped.ind = ind
	}
	if o.flight != nil {
		ind.flight.take(o.flight, ind.spec)
		f.register(ind)
	}
	if ind.events == o.events && ind.slices == o.slices {
		return
	}
	// The retention changed. What the old one has dropped cannot come back, so
	// the generation begins no earlier than what is left.
	var kept int64
	if ind.slices != nil {
		kept = o.slices.first * o.slices.per
	} else {
		kept = o.events.oldest() * int64(time.Second)
	}
	key := moveKey{o.era, kept}
	if moved[key] == nil {
		moved[key] = o.era.from(kept, f.upFrom(o.era))
	}
	ind.era = moved[key]
	if ind.slices == nil {
		o.events.moveAll(ind.moves(ind.events.cols.take), ind.events, f.clock)
		return
	}
	moves := ind.moves(ind.slices.cols.take)
	for i, g := range ind.sorted {
		f.moveJudged(o, g, moves[i].from, ind.slices)
	}
	o.slices.moveAll(moves, ind.slices, f.clock)
}

// expect makes the groups that exist without an event. An indicator that is not
// grouped has one group, and that always exists.
//
// An expected group exists always, so slices without events are judged for it from the beginning.
func (f *Fold) expect(ind *indicator) {
	want := ind.spec.Expect
	if len(ind.spec.GroupBy) == 0 {
		want = [][]string{{}}
	}
	for _, values := range want {
		g := ind.groups[slo.Group(values).Key()]
		if g == nil {
			g = f.newGroup(ind, values, always)
		}
		g.from = always
	}
	ind.full = ind.full && ind.named() >= ind.spec.maxGroups()
}

// sweep releases unused stores and tells the slice stores whose they are. Stores may be new or have other columns now,
// so it also finds again when buckets age and slices close.
func (f *Fold) sweep() {
	used := map[any]bool{}
	for _, s := range f.slices {
		s.inds, s.runs = nil, nil
	}
	for _, ind := range f.inds {
		if ind.slices != nil {
			ind.slices.inds = append(ind.slices.inds, ind)
			used[ind.slices] = true
		} else {
			used[ind.events] = true
		}
	}
	f.stores = slices.DeleteFunc(f.stores, func(s *store) bool { return !used[s] })
	f.slices = slices.DeleteFunc(f.slices, func(s *sliceStore) bool { return !used[s] })
	f.age()
	f.closeDueSlices()
	f.nextDue = f.nextDeadlines()
}

// setServices makes the services of the config. A service's own counters go on
// if they are still split in the same way. The maps of a service and the lists of
// the fold hold the same counters, so both are made again.
func (f *Fold) setServices() {
	old := f.services
	f.services, f.lastSvc = map[string]*service{}, nil
	f.traffic, f.series = nil, nil
	for i := range f.cfg.Services {
		spec := &f.cfg.Services[i]
		var inds []*indicator
		for _, ind := range f.inds {
			if ind.spec.Service == spec.Name {
				inds = append(inds, ind)
			}
		}
		svc := newService(spec, inds)
		f.services[spec.Name] = svc
		was := old[spec.Name]
		if was == nil || !slices.Equal(was.spec.Dimensions, spec.Dimensions) {
			continue
		}
		for _, t := range was.traffic {
			f.addTraffic(svc, t)
		}
		if slices.Equal(was.buckets, svc.buckets) {
			for _, d := range was.series {
				d.edges = svc.buckets
				f.addSeries(svc, d)
			}
		}
	}
	f.setEras()
}

// candidate is a generation that an indicator of a new config may go on with.
type candidate struct {
	id     string
	former []string
	key    string
	parked bool
}

// match finds, for each indicator of a new config, the generation whose counts it
// goes on with: its place in held, or -1 if it starts from zero. That is one with the
// same definition: in use under the same ID, or under the one that it was; parked
// under its ID; in use under an ID that is gone, and before under this one, so that a
// rename can be undone; parked under the ID that it was; parked, and before under
// this ID. Of parked ones the last is the newest.
//
// The passes run in this order for all indicators, so a weaker claim never takes a generation from a stronger
// one. No generation goes to two indicators.
func match(inds []*indicator, key func(*indicator) string, held []candidate) []int {
	type claim struct{ key, id string }
	named, renamed := map[claim][]int{}, map[claim][]int{} // places in held, by the present ID and by former ones
	inUse := map[string]bool{}
	for j, h := range held {
		named[claim{h.key, h.id}] = append(named[claim{h.key, h.id}], j)
		for _, id := range h.former {
			renamed[claim{h.key, id}] = append(renamed[claim{h.key, id}], j)
		}
		inUse[h.id] = inUse[h.id] || !h.parked
	}
	from, keys := make([]int, len(inds)), make([]string, len(inds))
	ids, taken := map[string]bool{}, make([]bool, len(held))
	for i, ind := range inds {
		ids[ind.spec.ID], from[i], keys[i] = true, -1, key(ind)
	}
	pass := func(by map[claim][]int, parked bool, id func(*indicator) string, fits func(*indicator, *candidate) bool) {
		for i, ind := range inds {
			for _, j := range slices.Backward(by[claim{keys[i], id(ind)}]) {
				if h := &held[j]; from[i] < 0 && !taken[j] && h.parked == parked && fits(ind, h) {
					from[i], taken[j] = j, true
				}
			}
		}
	}
	own := func(ind *indicator) string { return ind.spec.ID }
	was := func(ind *indicator) string { return ind.spec.Was }
	whatever := func(*indicator, *candidate) bool { return true }
	gone := func(_ *indicator, h *candidate) bool { return !ids[h.id] }
	pass(named, false, own, whatever)
	pass(named, false, was, func(ind *indicator, h *candidate) bool { return gone(ind, h) && !inUse[ind.spec.ID] })
	pass(named, true, own, whatever)
	pass(renamed, false, own, gone)
	pass(named, true, was, gone)
	pass(renamed, true, own, gone)
	return from
}

// Change is what a config does to the generations. IDs are those of indicators,
// rising.
type Change struct {
	// Started are those that start from zero.
	Started []string
	// Resumed are those that go on with a parked generation, and Parked those that
	// are not in use any more. A definition that changed is in Started or Resumed
	// under the new one and in Parked under the old one.
	Resumed, Parked []Generation
}

// Compare says what a config would do to generations, as Generations lists them.
//
// It changes nothing and needs no Fold, so a change can be previewed by any process that has the list.
func Compare(held []Generation, cfg *Config) (Change, error) {
	if cfg == nil {
		return Change{}, errors.New("no config")
	}
	c, err := compile(cfg)
	if err != nil {
		return Change{}, err
	}
	all := make([]candidate, len(held))
	for i, h := range held {
		all[i] = candidate{h.ID, h.Former, h.Definition, h.Number > 0}
	}
	return changeOf(c.inds, match(c.inds, func(ind *indicator) string { return definition(ind.key) }, all), held), nil
}

// changeOf describes the outcome of match. held is in the order of match: in use first, then parked.
func changeOf(inds []*indicator, from []int, held []Generation) Change {
	var c Change
	used := make([]bool, len(held))
	for i, ind := range inds {
		switch j := from[i]; {
		case j < 0:
			c.Started = append(c.Started, ind.spec.ID)
		case held[j].Number > 0:
			resumed := held[j]
			resumed.ID = ind.spec.ID
			c.Resumed = append(c.Resumed, resumed)
			fallthrough
		default:
			used[j] = true
		}
	}
	for j, h := range held {
		if !used[j] && h.Number == 0 {
			c.Parked = append(c.Parked, h)
		}
	}
	return c
}

// definition is a short form of a generation's key.
//
// It is a hash, so equal definitions have equal forms, and the form says nothing else.
func definition(key string) string {
	sum := xxh3.HashString128(key).Bytes()
	return hex.EncodeToString(sum[:])
}
