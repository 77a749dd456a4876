package fold

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/inflight"
)

// This file counts work: events start it, move it from stage to stage and end it, and deadlines pass by record time.
// What is in flight is kept by package inflight. The counts go into the buckets that events have.

// Work says which events start and end the work of an indicator of completion. An event that matches several selectors
// starts work first. One that matches Failed and Finished fails it. Count and weight of an event are not looked at.
type Work struct {
	Started  []Matcher `json:"started"`
	Finished []Matcher `json:"finished"`
	Failed   []Matcher `json:"failed,omitempty"` // none: only the deadline fails work

	Key   string `json:"key"`             // attribute that tells work apart
	Stage string `json:"stage,omitempty"` // attribute; every event of the service that has both moves work

	Within      time.Duration `json:"within"`                  // how long work may take; at least a second
	MaxInFlight int           `json:"max_in_flight,omitempty"` // 0 = DefaultMaxInFlight
}

const (
	// DefaultMaxInFlight is how much work of an indicator is tracked, of about 100 bytes each.
	DefaultMaxInFlight = 100_000
	// maxStages is how many stages have a name of their own. The rest share slo.OtherGroup.
	maxStages = 100
)

// flight is the work of an indicator.
//
// groups and stages only grow while the generation counts, but for groups that are evicted. The table names both by
// their places.
type flight struct {
	started, finished, failed slo.Selector // failed may be empty, which then matches nothing

	table  *inflight.Table
	number uint64 // names its parts of snapshots; unique in the fold, 0 in a parked one

	groups  []*group // by group.number; nil is free
	stages  []string // by number; the first is ""
	stageOf map[string]uint16
}

// newFlight checks what is told of work. It has nothing in flight, and no number yet.
func newFlight(spec *Indicator) (*flight, error) {
	w := spec.Work
	switch {
	case w == nil:
		return nil, errors.New("an indicator of completion needs work")
	case len(w.Started) == 0 || len(w.Finished) == 0:
		return nil, errors.New("work needs matchers of what starts and what finishes it")
	case w.Key == "" || isField(w.Key) || isField(w.Stage):
		return nil, errors.New("work needs a key, and key and stage must be attributes")
	case w.Within < time.Second || w.Within > maxWithin:
		return nil, fmt.Errorf("within %s is not between 1s and %s", w.Within, maxWithin)
	}
	fl := new(flight)
	var err error
	for _, x := range []struct {
		to *slo.Selector
		of []Matcher
	}{{&fl.started, w.Started}, {&fl.finished, w.Finished}, {&fl.failed, w.Failed}} {
		if *x.to, err = matchers(x.of); err != nil {
			return nil, err
		}
	}
	if fl.table, err = inflight.New(w.options()); err != nil {
		return nil, fmt.Errorf("max_in_flight: %w", err)
	}
	fl.setStages([]string{""})
	return fl, nil
}

// maxWithin is the longest time that work may take: its deadline must count in a bucket, not by the hour.
const maxWithin = 30 * keepUnit

func (w *Work) options() inflight.Options {
	o := inflight.Options{Within: w.Within, Max: w.MaxInFlight, Ambiguous: len(w.Failed) > 0}
	if o.Max == 0 {
		o.Max = DefaultMaxInFlight
	}
	return o
}

func (fl *flight) setStages(names []string) {
	fl.stages, fl.stageOf = names, make(map[string]uint16, len(names))
	for i, s := range names {
		fl.stageOf[s] = uint16(i)
	}
}

// empty is a flight with the same selectors and nothing else.
func (fl *flight) empty() *flight {
	out := &flight{started: fl.started, finished: fl.finished, failed: fl.failed, table: fl.table.Empty()}
	out.setStages([]string{""})
	return out
}

// take goes on with what another flight, with the same selectors, has in flight.
func (fl *flight) take(o *flight, spec *Indicator) {
	fl.table, fl.number, fl.groups, fl.stages, fl.stageOf = o.table, o.number, o.groups, o.stages, o.stageOf
	_ = fl.table.Configure(spec.Work.options()) // they were checked when the table of fl was made
}

// register gives a flight without a number the next one.
func (f *Fold) register(ind *indicator) {
	if ind.flight.number == 0 {
		f.lastFlight++
		ind.flight.number = f.lastFlight
	}
}

// land forgets all work, since nobody will see its end, and keeps the groups. Counters begin at zero.
func (fl *flight) land() {
	fl.table, fl.number = fl.table.Empty(), 0
	fl.setStages([]string{""})
}

// join gives a new group the lowest free number.
func (fl *flight) join(g *group) {
	i := slices.Index(fl.groups, nil)
	if i < 0 {
		i = len(fl.groups)
		fl.groups = append(fl.groups, nil)
	}
	fl.groups[i], g.number = g, uint32(i)
}

// workPlan is what events with the same labels do to the work of one indicator.
type workPlan struct {
	ind           *indicator
	g             *group // of what it starts
	starts, moves bool
	ends, fails   bool
}

// plan says what an event does. ok is false if it does nothing.
func (fl *flight) plan(ind *indicator, get func(string) string) (p workPlan, ok bool) {
	p = workPlan{ind: ind, starts: fl.started.Matches(get), moves: ind.spec.Work.Stage != ""}
	p.fails = len(fl.failed) > 0 && fl.failed.Matches(get)
	p.ends = p.fails || fl.finished.Matches(get)
	return p, p.starts || p.moves || p.ends
}

// work applies an event of the time t to all work that its plan names.
func (f *Fold) work(p *plan, t int64, old bool, v *event.View) {
	m := f.moment()
	for i := range p.works {
		x := &p.works[i]
		ind, fl, spec := x.ind, x.ind.flight, x.ind.spec.Work
		key, _ := v.Attr(spec.Key)
		if len(key) == 0 {
			if x.starts || x.ends {
				ind.unmeasured++
			}
			continue
		}
		stage := uint16(0)
		if x.moves && (x.starts || !x.ends) {
			name, _ := v.Attr(spec.Stage)
			stage = fl.stage(name)
		}
		if x.starts {
			x.g.last = max(x.g.last, t)
			out := fl.table.Start(m, key, t, x.g.number, stage, old)
			if out.Untracked {
				f.drop(ind, t, 1)
			}
			f.outcome(ind, out)
		} else if stage != 0 {
			fl.table.Stage(m, key, t, stage)
		}
		if x.ends {
			out := fl.table.End(m, key, t, x.fails, old)
			if g := f.outcome(ind, out); g != nil && out.Bad && f.witness != nil && f.witness.Wants(ind.spec.ID) {
				f.tell(p, g, v)
			}
		}
	}
}

// stage is the number of a stage.
func (fl *flight) stage(name []byte) uint16 {
	if n, ok := fl.stageOf[string(name)]; ok {
		return n
	}
	if len(fl.stages) > maxStages {
		name = []byte(slo.OtherGroup)
		if n, ok := fl.stageOf[slo.OtherGroup]; ok {
			return n
		}
	}
	n := uint16(len(fl.stages))
	fl.stages = append(fl.stages, string(name))
	fl.stageOf[string(name)] = n
	return n
}

// outcome counts work that ended, or whose deadline passed. Work that was bad by its deadline and had finished in time,
// and work that had ended before by another event, moves in the buckets. Totals stay as they are: each piece of work
// counts in them once.
// It returns the group, nil if nothing counts.
func (f *Fold) outcome(ind *indicator, out inflight.Outcome) *group {
	if !out.Counted || int(out.Group) >= len(ind.flight.groups) {
		return nil
	}
	g := ind.flight.groups[out.Group]
	if g == nil {
		return nil
	}
	bin := binOfWork(out.Bad)
	switch {
	case out.Undo:
		f.undo(g, binOfWork(out.UndoBad), max(0, out.UndoAt)/int64(time.Second))
	case out.Old:
		g.backfilled()[bin]++
	default:
		g.total[bin]++
	}
	s, sec := ind.events, max(0, out.At)/int64(time.Second)
	if s.leaf(sec) != nil {
		s.add(sec, g.col+bin, 1, f.clock)
	} else {
		s.past.add(sec, g.col+bin, 1, s.cols.room(), f.clock)
	}
	return g
}

func binOfWork(bad bool) uint32 {
	if bad {
		return 1
	}
	return 0
}

// undo takes one piece of work out of its bucket, wherever that has moved since.
func (f *Fold) undo(g *group, bin uint32, sec int64) {
	s := g.ind.events
	leaf := s.leaf(sec)
	if leaf == nil {
		if b := s.past.at(sec); b != nil && b.lower(g.col+bin) {
			b.ver = f.clock
		}
		return
	}
	if leaf.lower(g.col + bin) {
		leaf.ver = f.clock
		hour := s.hour(sec)
		hour.lower(g.col + bin)
		hour.ver = f.clock
	}
}

// moment is the place in the log of the call at hand.
func (f *Fold) moment() inflight.Moment {
	return inflight.Moment{Version: f.clock, Record: f.rec, Lag: f.delay.at(f.rec)}
}

// delay is by how much deadlines pass later after the engine was down: who had an end to tell meanwhile has as long for
// it as the engine was down.
type delay struct{ by, until int64 } // nanoseconds; until is a record time

func (d *delay) at(rec int64) int64 {
	if rec < d.until {
		return d.by
	}
	return 0
}

// restart takes note of a start at a record time, after the last record.
func (d *delay) restart(last, at int64) {
	if last == 0 || at <= last {
		return
	}
	d.by = min(d.at(last)+at-last, int64(inflight.Memory))
	d.until = at + d.by
}

// passDeadlines counts the work whose deadline passed.
func (f *Fold) passDeadlines() {
	f.nextDue = f.nextDeadlines()
	m := f.moment()
	for _, ind := range f.inds {
		if ind.flight != nil {
			ind.flight.table.Advance(m, func(out inflight.Outcome) { f.outcome(ind, out) })
		}
	}
}

// nextDeadlines is the begin of the next minute, never if there is no work. It follows from the record time alone, so
// that a restored fold looks at deadlines at the same records.
func (f *Fold) nextDeadlines() int64 {
	if !slices.ContainsFunc(f.inds, func(ind *indicator) bool { return ind.flight != nil }) {
		return math.MaxInt64
	}
	return (f.rec/int64(time.Minute) + 1) * int64(time.Minute)
}

// ReadableKeys counts the work whose key, the value of an attribute, has a hash, and can be read by people.
func (f *Fold) ReadableKeys(attribute string, hash xxh3.Uint128) (n int) {
	for _, ind := range f.inds {
		if ind.flight != nil && ind.spec.Work.Key == attribute && ind.flight.table.Readable(hash) {
			n++
		}
	}
	return n
}

// EraseKey removes what people can read of such keys. The work goes on and counts as it would have. It is what a record
// says, so that it happens at the same place of the log whenever that is read.
func (f *Fold) EraseKey(attribute string, hash xxh3.Uint128) {
	f.clock++
	m := f.moment()
	for _, ind := range f.inds {
		if ind.flight != nil && ind.spec.Work.Key == attribute {
			ind.flight.table.Erase(m, hash)
		}
	}
}

// erasedKey stands where a key was erased.
const erasedKey = "(removed)"

// inFlight gives the work of all indicators to people.
func (f *Fold) inFlight() (out []slo.InFlight) {
	for _, ind := range f.inds {
		fl := ind.flight
		if fl == nil {
			continue
		}
		st := fl.table.Stats()
		x := slo.InFlight{
			SLO: slo.ID(ind.spec.ID), GroupBy: ind.spec.GroupBy, Max: ind.spec.Work.options().Max,
			Finished: st.Ended, Expired: st.Expired, Corrected: st.Corrected, Repeated: st.Repeated,
			Unmatched: st.Unmatched, Untracked: st.Untracked, Displaced: st.Displaced, Held: st.Held, Bytes: st.Bytes,
		}
		if at, ok := fl.table.Oldest(); ok {
			x.Oldest = unix(at)
		}
		for _, g := range ind.sorted {
			if row := fl.byStage(g); len(row.Stages) > 0 {
				x.Groups = append(x.Groups, row)
			}
		}
		for _, i := range fl.table.List(slo.MaxInFlightItems, nil) {
			item := slo.InFlightItem{
				Key: cmp.Or(i.Key, erasedKey), Cut: i.Cut, Stage: fl.stages[i.Stage], Overdue: i.Overdue,
				Start: unix(i.Start), Since: unix(i.StageFrom), Deadline: unix(i.Deadline),
			}
			if g := fl.groups[i.Group]; g != nil {
				item.Group = slices.Clone(g.values)
			}
			x.Items = append(x.Items, item)
		}
		out = append(out, x)
	}
	return out
}

// Crowded is an indicator of completion that tracks as much work as it may.
type Crowded struct {
	Indicator   string // its ID
	MaxInFlight int
	Untracked   uint64 // start events that there was no room for
}

// addWork adds the work of an indicator to the figures.
func (s *Stats) addWork(ind *indicator) {
	st, most := ind.flight.table.Stats(), ind.spec.Work.options().Max
	s.Bytes += int64(st.Bytes)
	s.Untracked += st.Untracked
	if st.Untracked > 0 && st.Open >= most {
		s.Crowded = append(s.Crowded, Crowded{ind.spec.ID, most, st.Untracked})
	}
}

// byStage is the work of a group.
func (fl *flight) byStage(g *group) slo.InFlightGroup {
	row := slo.InFlightGroup{Group: slices.Clone(g.values)}
	for n, c := range fl.table.ByStage(g.number) {
		if c.Open+c.Overdue > 0 {
			row.Stages = append(
				row.Stages, slo.InFlightStage{Stage: fl.stages[n], Open: uint64(c.Open), Overdue: uint64(c.Overdue)})
		}
	}
	slices.SortFunc(row.Stages, func(a, b slo.InFlightStage) int { return strings.Compare(a.Stage, b.Stage) })
	return row
}
