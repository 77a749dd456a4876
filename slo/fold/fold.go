// Package fold turns events into event-time counts: it matches each event to
// the indicators of a Config, adds it to the bucket of its own time, and gives
// the sums over any span of time that the evaluator asks for.
//
// Counts are kept time-major. Every group of an indicator owns a few
// neighbouring columns, one per bin; a block holds the counts of all columns for
// one bucket of time. Buckets are 10 seconds wide for the last hour, a minute
// for three days and five minutes beyond, so window sums of every group are
// additions of a few hundred blocks, with hours and days added up beforehand.
// Indicators that count slices of time keep raw counts per slice beside that.
// What is older than the longest window of an indicator is kept by the hour, for
// ninety days in all and for Read only.
//
// What an event adds to is decided once per combination of the labels that some
// indicator looks at, and remembered in a plan.
//
// The fold is a pure function of the records it was given: it reads no clock and
// draws no random numbers. One goroutine owns it, and it locks nothing. It does
// not know where records are stored, who sent them, how events travel over HTTP,
// what an objective or a budget is, or what its sums are used for.
package fold

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sloengine/sloengine/ingest/event"
)

// This file holds the Fold and the way of an event through it: find its service and its plan, then add it to
// totals, buckets and slices. Time moves here, too: moveTo lets buckets age and slices close, and nothing else
// does.

// ErrRefused is wrapped by the error of an event that cannot be counted; the
// rest of the error says why.
var ErrRefused = errors.New("event refused")

// ErrUncounted is the error of an event that is not counted on purpose: its service admits types that it does not know.
var ErrUncounted = errors.New("event of a type that the service admits and does not count")

// Options bound a Fold's caches. A zero field takes the default given with it.
// They change how fast it is, never what it counts.
type Options struct {
	MaxPlans     int // combinations of label values remembered; 65536
	MaxPlanBytes int // memory for them; 64 MiB

	Witness Witness // nil: none
}

// setDefaults fills zero fields and refuses negative ones.
func (o *Options) setDefaults() error {
	if o.MaxPlans < 0 || o.MaxPlanBytes < 0 {
		return fmt.Errorf("fold options: negative limit")
	}
	if o.MaxPlans == 0 {
		o.MaxPlans = 1 << 16
	}
	if o.MaxPlanBytes == 0 {
		o.MaxPlanBytes = 64 << 20
	}
	return nil
}

// Fold counts events. One goroutine owns it and all that it reaches: the reader of the log calls every method, also
// those that only look, because they flush pending totals and fill caches. There is no lock. What methods return is
// copied or never changes afterwards, so other goroutines may have it.
//
// Record times never go back: an earlier one than the last is taken as the last.
//
// Between two calls it is always true that
//
//   - every event that was applied is in the totals or pending in exactly one plan, and in the buckets already,
//   - an hour block is the sum of the leaves below it, so that either gives the same sums,
//   - a group's columns belong to it alone, and free columns are zero in every block,
//   - what a call changed has the clock of that call as its version, so that Parts can tell what is new.
//
// A call that refuses an event changes nothing but clock, record time with what follows from it, and the counter
// of refusals.
type Fold struct {
	// The position in the log. These fields change with every call.

	// clock numbers the calls that change the fold. It follows from the log alone
	// and is the version of what a call touches.
	clock uint64
	rec   int64 // record time, Unix nanoseconds; 0 before the first record
	up    uptime
	delay delay
	stats counters

	// The configuration and what was compiled from it. SetConfig and restore replace these fields as a whole.

	cfg        *Config // deep copy, never changed
	cfgText    []byte  // its JSON
	cfgVersion uint64
	inds       []*indicator // by ID
	services   map[string]*service
	lastSvc    *service          // of the last event, most often that of the next
	retired    map[string]uint32 // the last generation of IDs, unless that is in use

	// Generations out of use, and which service names are still known. SetConfig parks and resumes. Forget removes.

	parked     []*parked           // by number
	lastParked uint64              // number of the last one ever
	lastFlight uint64              // number of the last flight ever
	named      map[string]struct{} // services of this config and earlier ones, unless forgotten
	change     Change              // of the last config; not part of the state

	// The counts. Indicators with the same retention share a store, because neighbouring columns share cache lines.
	// The times below are derived from the stores by setAges, so that Advance compares two numbers when nothing is due.

	stores    []*store      // by retention
	slices    []*sliceStore // by slice length and retention
	ring      *ring         // of what alert conditions count at another time than windows; nil until there is something
	oldest    int64         // second from which on some store keeps events
	kept      int64         // time from which on windows may ask what was observed
	known     int64         // time from which on it is remembered what was observed, for Read
	reach     int64         // of a Lone: the longest retention of the engine; else 0
	nextAge   int64         // record time at which some bucket ages
	nextClose int64         // record time at which some slice closes
	nextDue   int64         // record time at which deadlines may pass; a minute's begin

	// Counters beside the indicators. The maps in service find the same values by their labels. These lists have the
	// order in which Sums and snapshots give them, so that nothing is sorted later.

	traffic []*traffic        // in the order of Sums
	series  []*durationSeries // in the order of Sums

	dropped map[string]uint64  // events by reason
	streams map[string]*stream // what sources observed, by the Source of indicators

	covered covered // of the record at hand; no part of the state, since snapshots are between records

	// Caches and scratch memory. They are no part of the state: a restored fold begins without.

	plans    planCache
	witness  Witness
	told     event.View // what witness is told of
	key      []byte     // scratch for plan: the projected labels of the event at hand
	restored *restoring // parts read so far; nil but between RestorePart or RestoreLost and FinishRestore
}

// counters are the part of Stats that follows from the log.
type counters struct {
	records, events, late, tooOld, refused, replayed, backfilled, evicted uint64
}

// New makes an empty Fold. It refuses every event until it has a config.
func New(o Options) (*Fold, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	f := &Fold{services: map[string]*service{}, retired: map[string]uint32{}, named: map[string]struct{}{},
		dropped: map[string]uint64{}, streams: map[string]*stream{}}
	f.plans.maxPlans, f.plans.maxBytes, f.witness = o.MaxPlans, o.MaxPlanBytes, o.Witness
	f.plans.clear()
	return f, nil
}

// Advance takes note of a record: its receive time in Unix nanoseconds, and
// whether the engine started or stopped with it. Call it once per record, before
// the record's events are applied. Buckets age and slices close by it.
//
// The order matters: buckets age and silent groups are evicted before an event of the record is applied, wherever
// a restart begins.
func (f *Fold) Advance(recvNs int64, mark Mark) {
	f.clock++
	f.stats.records++
	f.covered = covered{}
	f.moveTo(recvNs, mark)
}

// Mode says how an event came to be applied.
type Mode uint8

// The modes. Whatever it is, an event counts in its own time if that is still
// kept, be it by the hour, and else in totals only.
const (
	// Live is an event as it happened. More than a minute after its time it is late.
	Live Mode = iota
	// Backfill is an event of a time before. The time between two such events of a
	// service that are at most five minutes apart, and what Covers says, counts as
	// observed for the service's indicators, as far as they did not count yet. It is
	// never late. It is no new traffic: it moves Group.Old and no other total.
	Backfill
	// Replay is an event that was put aside when it came, and comes back. It is
	// never late, and says nothing of what else was observed. More than a minute
	// after its time it is no new traffic either.
	Replay
)

// punctual is how long after its time an event is neither late nor, if it is
// replayed, old traffic. As long before or after it, alert conditions take it for received at its time.
const punctual = int64(time.Minute)

// Apply counts one event of a record that was received at recvNs (Unix
// nanoseconds), its count times its weight. The event's bytes are not kept. The
// error, if any, wraps ErrRefused or is ErrUncounted, and the event then counts nowhere.
//
// Whether an event is refused depends on the configuration and the record time only, so a replay refuses the same
// ones. An event that is too old for every bucket is not refused: it counts in totals, and Stats.TooOld says so.
func (f *Fold) Apply(recvNs int64, mode Mode, v *event.View) error {
	f.clock++
	if recvNs > f.rec {
		f.moveTo(recvNs, Tick)
	}
	svc := f.lastSvc
	if svc == nil || svc.spec.Name != string(v.Service) {
		if svc = f.services[string(v.Service)]; svc == nil {
			return f.refuse(fmt.Sprintf("unknown service %q", v.Service))
		}
		f.lastSvc = svc
	}
	// From here on everything is decided before anything is counted, so a refused event leaves no trace in the
	// counts.
	t := v.Time
	if !plausible(t, f.rec) {
		return f.refuse(fmt.Sprintf("time %s is before 1970 or more than a day ahead of its record",
			time.Unix(0, t).UTC().Format(time.RFC3339Nano)))
	}
	p := f.plan(svc, v)
	switch {
	case p.uncounted:
		return ErrUncounted
	case p.reason != "":
		return f.refuse(p.reason)
	}
	f.stats.events++
	switch {
	case mode == Backfill:
		f.noteBackfill(svc, t)
	case mode == Replay:
		f.stats.replayed++
	case f.rec-t > punctual:
		f.stats.late++
	}
	old := mode == Backfill || mode == Replay && f.rec-t > punctual
	if old {
		f.stats.backfilled++
	}
	// Only a figure: the event still counts in totals, and by the hour if that is kept.
	if t/int64(time.Second) < f.oldest {
		f.stats.tooOld++
	}
	f.count(p, t, old, v)
	if late := f.rec - t; late > punctual || late < -punctual || old {
		f.shift(p, t, old, v)
	}
	if len(p.works) > 0 {
		f.work(p, t, old, v)
	}
	if v.Duration > p.suspect {
		f.testify(p, v)
	}
	return nil
}

// plausible reports whether there can be a bucket for the time of an event, at a record time.
func plausible(t, rec int64) bool {
	return t > 0 && t/int64(time.Second) <= rec/int64(time.Second)+maxAhead
}

// refuse counts a refused event and wraps the reason. The caller of Apply makes a dead letter of it.
func (f *Fold) refuse(reason string) error {
	f.stats.refused++
	return fmt.Errorf("%w: %s", ErrRefused, reason)
}

// count adds an event of the time t to everything that its plan names. An old one
// is no new traffic.
func (f *Fold) count(p *plan, t int64, old bool, v *event.View) {
	n, weight := uint64(v.Count), uint64(v.Weight)
	if weight > 1 {
		n = weighed(n, weight)
	}
	aggregated := v.DurationCount() > 0
	measured := v.Duration >= 0 || aggregated

	// Totals of groups and traffic wait in the plan. Buckets do not: a snapshot or a sum may be asked for any time.
	if !p.pending {
		p.pending = true
		f.plans.pending = append(f.plans.pending, p)
	}
	p.n += n
	if old {
		p.old += n
	}
	p.last = max(p.last, t)
	if measured {
		p.measured += n
		p.lastMeasured = max(p.lastMeasured, t)
		if p.series == nil && !old {
			p.series = f.seriesOf(p.svc, p.svc.labels(v))
		}
		switch {
		case old:
		case aggregated:
			for d, n := range v.Durations {
				p.series.observe(d, weighed(uint64(n), weight))
			}
		default:
			p.series.observe(v.Duration, n)
		}
	}
	sec := t / int64(time.Second)
	for i := range p.events {
		f.countEvent(&p.events[i], sec, n, old, v, measured, aggregated)
	}
	for i := range p.slices {
		f.countSlice(&p.slices[i], t, n, v, measured, aggregated)
	}
	if weight > 1 {
		f.countWeight(p, sec, weighed(n, weight-1), measured)
	}
}

// countEvent adds an event of the second sec to one store: to its leaf and the hour above it, which are both kept up,
// or to the hour alone if the leaves of that time are gone. Days are sums of hours and are made on request.
func (f *Fold) countEvent(e *eventPlan, sec int64, n uint64, old bool, v *event.View, measured, aggregated bool) {
	timed := measured && len(e.timed) > 0
	if !timed && len(e.fixed) == 0 {
		return
	}
	s := e.store
	var hour *block[uint32]
	// The leaf and the hour get the same addition. A sum over a whole hour may then be taken from one block.
	leaf := s.leaf(sec)
	if leaf != nil {
		hour = s.hour(sec)
		leaf.touch(e.top, s.cols.room(), f.clock)
		leaf.bump(e.fixed, n)
	} else {
		hour = s.past.at(sec)
	}
	if hour != nil {
		hour.touch(e.top, s.cols.room(), f.clock)
		hour.bump(e.fixed, n)
	}
	switch {
	case !timed:
	case aggregated:
		for d, n := range v.Durations {
			e.observe(leaf, hour, d, weighed(uint64(n), uint64(v.Weight)), old)
		}
	default:
		e.observe(leaf, hour, v.Duration, n, old)
	}
}

// observe counts n durations; leaf and hour are nil if they are too old for them.
//
// Totals of latencies are moved here and do not wait in the plan: the bin differs from event to event.
func (e *eventPlan) observe(leaf *block[uint16], hour *block[uint32], d int64, n uint64, old bool) {
	for i := range e.timed {
		x := &e.timed[i]
		bin := binOf(x.edges, d)
		if old {
			x.g.backfilled()[bin] += n
		} else {
			x.g.total[bin] += n
		}
		if leaf != nil {
			leaf.bump1(x.base+uint32(bin), n)
		}
		if hour != nil {
			hour.bump1(x.base+uint32(bin), n)
		}
	}
}

// countSlice adds an event to its slice. Nothing is judged here: a slice is judged when it closes, and again whenever a
// sum is asked for, from the counts of that moment.
//
// An event before g.from makes the group exist from its slice on. Runs that were summed without the group are
// then stale.
func (f *Fold) countSlice(x *slicePlan, t int64, n uint64, v *event.View, measured, aggregated bool) {
	if x.edges != nil && !measured {
		return
	}
	s := x.store
	number := t / s.per
	b := s.slice(number)
	if b == nil {
		return
	}
	if start := number * s.per; start < x.g.from {
		s.stale(number, min(x.g.from/s.per, s.next)+1)
		x.g.from = start
	}
	b.touch(x.g.col+sliceColumns, s.cols.room(), f.clock)
	switch {
	case x.edges == nil:
		b.bump1(x.g.col+x.bin, n)
	case aggregated:
		for d, n := range v.Durations {
			b.bump1(x.g.col+uint32(binOf(x.edges, d)), weighed(uint64(n), uint64(v.Weight)))
		}
	default:
		b.bump1(x.g.col+uint32(binOf(x.edges, v.Duration)), n)
	}
}

// moveTo moves the record time forward, with all that follows from it.
//
// A record time that goes back is taken as the last one, so time in the fold never does.
func (f *Fold) moveTo(recvNs int64, mark Mark) {
	if mark == Start {
		f.delay.restart(f.rec, recvNs)
	}
	f.rec = max(f.rec, recvNs)
	f.up.note(f.rec, mark)
	if f.rec >= f.nextAge {
		f.age()
	}
	if f.rec >= f.nextClose {
		f.closeDueSlices()
	}
	if f.rec >= f.nextDue {
		f.passDeadlines()
	}
}

// age moves buckets into wider ones and drops those that are no longer kept.
//
// It runs about every ten minutes of record time, the length of the finest segment. Eviction comes last, when the
// buckets say who is silent.
func (f *Fold) age() {
	for _, s := range f.stores {
		s.advance(f.rec/int64(time.Second), f.clock)
	}
	f.ageRing()
	f.setAges()
	f.up.forget(f.known)
	for _, e := range eras(f.inds) {
		e.forget(f.known)
	}
	for _, s := range f.streams {
		s.spans = slices.Delete(s.spans, 0, before(s.spans, f.known))
	}
	f.evictSilent()
}

// setAges computes what age leaves behind from the record time alone.
//
// It needs no memory of earlier calls, so a restored fold ages at the same records as one that never stopped.
func (f *Fold) setAges() {
	// The bounds of all stores move at a minute past a multiple of the finest segment.
	bound := floor(f.rec/int64(time.Second)-fineAge, fineSeg)
	f.nextAge = (bound + fineSeg + fineAge) * int64(time.Second)
	// An hour of slack, so that a window that is as long as the retention still sees what was observed at its
	// left edge.
	f.kept = f.nextAge - f.longest() - int64(time.Hour)
	// The past begins with a whole part, and takes in slices that begin up to two
	// of their lengths before what is kept of them.
	f.known = f.nextAge - max(f.longest(), int64(historyKeep)) - int64(25*time.Hour) - 2*int64(maxSlice)
	f.oldest = never
	for _, s := range f.stores {
		f.oldest = min(f.oldest, s.oldest())
	}
	for _, s := range f.slices {
		f.oldest = min(f.oldest, bound-s.keep/int64(time.Second))
	}
	if f.oldest == never {
		f.oldest = 0
	}
}

// longest is the longest retention of any store, in nanoseconds.
func (f *Fold) longest() int64 {
	longest := max(f.reach, int64(minKeep))
	for _, s := range f.stores {
		longest = max(longest, s.keep*int64(time.Second))
	}
	for _, s := range f.slices {
		longest = max(longest, s.keep)
	}
	return longest
}

// closeDueSlices closes the slices whose time has come.
func (f *Fold) closeDueSlices() {
	for _, s := range f.slices {
		f.closeSlices(s, f.rec)
	}
	f.nextClose = f.nextClosing()
}

// nextClosing is the record time at which the next slice closes.
//
// It is never if no indicator counts slices.
func (f *Fold) nextClosing() int64 {
	at := int64(never)
	for _, s := range f.slices {
		at = min(at, (s.next+1)*s.per+judgeDelay)
	}
	return at
}
