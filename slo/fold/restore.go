package fold

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sloengine/sloengine/slo"
)

// This file reads snapshots back, and goes on without parts that were lost. Every value is checked before it is
// used: an error leaves a fold that must be thrown away, and never one that counts wrongly.

// sortedKeys is the order in which snapshots hold maps: equal state must give equal bytes.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// readState is the inverse of appendState, for indicators fresh from the config.
//
// The order is that of appendState. Fields that came with a later format are read only if the format has them,
// and have their zero value else.
func (f *Fold) readState(x *restoring) error {
	if x.state == nil {
		return fmt.Errorf("%w: part %q is missing", errSnapshot, partState)
	}
	r := newReader(x.state)
	f.clock = r.Uint()
	if f.cfgVersion = r.Uint(); f.cfgVersion != x.cfgVersion {
		return fmt.Errorf("%w: config %d with the state of config %d", errSnapshot, x.cfgVersion, f.cfgVersion)
	}
	if f.rec = r.Varint(); f.rec < 0 || f.rec > math.MaxInt64/2 {
		r.Fail()
	}
	for _, n := range f.stats.fields() {
		*n = r.Uint()
	}
	if r.Bad() {
		return r.done()
	}
	f.up.open = r.Bool()
	f.up.spans = r.spans()
	for range r.Count(1) {
		id := r.Text()
		f.retired[id] = uint32(r.Uint())
	}
	shared := make([]*era, r.Count(1))
	for i := range shared {
		shared[i] = &era{since: r.Varint(), spans: r.spans(), older: r.spans()}
		if x.format >= stateFormat {
			shared[i].began, shared[i].own = r.Varint(), r.spans()
		}
	}
	for _, ind := range f.inds {
		if n := r.Uint(); n < uint64(len(shared)) {
			ind.era = shared[n]
			ind.era.source = ind.spec.Source
		} else {
			return fmt.Errorf("%w: era %d of %s", errSnapshot, n, ind.spec.ID)
		}
		if err := f.readIndicator(&r, ind); err != nil {
			return fmt.Errorf("indicator %s: %w", ind.spec.ID, err)
		}
	}
	if err := f.useColumns(); err != nil {
		return err
	}
	if f.cfg != nil {
		f.setServices()
		for i := range f.cfg.Services {
			f.services[f.cfg.Services[i].Name].backfill = backfilling{r.Uint(), r.Varint(), r.Varint()}
		}
	}
	f.readCounters(&r, x.format)
	for range r.Count(1) {
		reason := r.Text()
		f.dropped[reason] = r.Uint()
	}
	numbers := f.readParked(&r)
	if x.format >= flightFormat {
		if err := f.readFlights(&r, x); err != nil {
			return err
		}
	}
	if x.format >= stateFormat {
		f.readReceived(&r)
	}
	if err := r.done(); err != nil {
		return err
	}
	return f.restoreParked(numbers, x.parked, x.lostParked)
}

// readParked reads what is told of parked generations. It gives their numbers.
func (f *Fold) readParked(r *reader) (numbers []uint64) {
	for _, ind := range f.inds {
		ind.former = r.Texts()
	}
	f.lastParked = r.Uint()
	for range r.Count(1) {
		numbers = append(numbers, r.Uint())
	}
	for _, s := range r.Texts() {
		f.named[s] = struct{}{}
	}
	return numbers
}

// readIndicator is the inverse of indicator.appendTo. It attaches the indicator to its store, which is still empty.
func (f *Fold) readIndicator(r *reader, ind *indicator) error {
	if id := r.Text(); id != ind.spec.ID {
		return fmt.Errorf("%w: state of %q", errSnapshot, id)
	}
	ind.gen = uint32(r.Uint())
	ind.unmeasured = r.Uint()
	ind.full = r.Bool()
	f.attach(ind)
	if ind.slices != nil {
		ind.slices.inds = append(ind.slices.inds, ind)
	}
	for range r.Count(1) {
		g := &group{ind: ind, values: make(slo.Group, len(ind.spec.GroupBy)), total: make([]uint64, ind.bins)}
		for i := range g.values {
			g.values[i] = r.Text()
		}
		g.col = uint32(min(r.Uint(), maxColumns))
		g.last, g.from = r.Varint(), r.Varint()
		for i := range g.total {
			g.total[i] = r.Uint()
		}
		g.squares = uint32(min(r.Uint(), maxColumns))
		if old := r.Counts(); len(old) == ind.bins {
			g.old = old
		} else if len(old) > 0 {
			r.Fail()
		}
		if ind.groups[g.values.Key()] != nil {
			return fmt.Errorf("%w: group %q twice", errSnapshot, g.values)
		}
		ind.insert(g)
	}
	if n := min(r.Uint(), maxColumns); n > 0 {
		ind.dropped = &group{ind: ind, from: always, col: uint32(n - 1)}
	}
	return nil
}

// useColumns tells the stores which columns the groups have.
//
// It is also a check: columns that overlap, or that do not fit the store, are damage.
func (f *Fold) useColumns() error {
	used := map[*columns][]colRange{}
	for _, ind := range f.inds {
		var cols *columns
		if ind.slices != nil {
			cols = &ind.slices.cols
		} else {
			cols = &ind.events.cols
		}
		for _, g := range ind.all() {
			if ind.slices != nil && (g.col%sliceColumns != 0 || g.squares > 0) {
				return fmt.Errorf("%w: columns of %s", errSnapshot, ind.spec.ID)
			}
			used[cols] = append(used[cols], colRange{g.col, g.col + uint32(ind.widthOf(g))})
			if g.squares > 0 {
				used[cols] = append(used[cols], colRange{g.squares - 1, g.squares})
			}
		}
	}
	for cols, ranges := range used {
		if !cols.use(ranges) {
			return fmt.Errorf("%w: columns overlap", errSnapshot)
		}
	}
	return nil
}

// readCounters reads traffic and duration series of services that the config has. Before format 7, histograms were by
// service and type only: these go on without outcome and dimensions until the config changes their buckets.
func (f *Fold) readCounters(r *reader, format byte) {
	for range r.Count(1) {
		t := &traffic{service: r.Text(), typ: r.Text(), outcome: r.Text(), severity: r.Text()}
		svc := f.services[t.service]
		if svc == nil {
			r.Fail()
			return
		}
		for range svc.spec.Dimensions {
			t.dims = append(t.dims, r.Text())
		}
		t.count, t.last = r.Uint(), r.Varint()
		f.addTraffic(svc, t)
	}
	for range r.Count(1) {
		d := &durationSeries{service: r.Text(), typ: r.Text()}
		if format >= flightFormat {
			d.outcome, d.dims = r.Text(), r.Texts()
		}
		d.counts, d.sec, d.ns = r.Counts(), r.Uint(), r.Uint()
		svc := f.services[d.service]
		if svc == nil || len(d.counts) != len(svc.buckets)+1 || d.ns >= uint64(time.Second) {
			r.Fail()
			return
		}
		if len(d.dims) != len(svc.spec.Dimensions) && (d.outcome != "" || len(d.dims) > 0) {
			r.Fail()
			return
		}
		if format < flightFormat && !slices.ContainsFunc(d.counts, func(n uint64) bool { return n > 0 }) {
			continue // of events without durations
		}
		d.edges = svc.buckets
		f.addSeries(svc, d)
	}
}

// partSpan is the time that a part of a snapshot holds, for the indicators of one store.
//
// keep is in seconds for events and in nanoseconds for slices, as in the names of the parts.
type partSpan struct {
	name     string
	slices   bool
	keep     int64 // as the store has it
	per      int64 // of a slice
	from, to int64 // Unix nanoseconds
}

// partSpanOf reads the name of a part with counts.
func partSpanOf(name string) (s partSpan, ok bool) {
	const second = int64(time.Second)
	s.name = name
	var width, start int64
	if n, _ := fmt.Sscanf(name, "events-%d-%d-%d", &s.keep, &width, &start); n == 3 {
		for i, w := range widths {
			if w == width {
				s.from, s.to = start*second, (start+segments[i])*second
				return s, true
			}
		}
	}
	if n, _ := fmt.Sscanf(name, "hours-%d-%d", &s.keep, &start); n == 2 {
		s.from, s.to = start*second, (start+dayWidth)*second
		return s, true
	}
	s.slices = true
	if n, _ := fmt.Sscanf(name, "slices-%d-%d-%d", &s.keep, &s.per, &start); n == 3 && s.per > 0 {
		s.from, s.to = start*s.per, (start+runFor(s.per))*s.per
		return s, true
	}
	if n, _ := fmt.Sscanf(name, "judged-%d-%d-%d", &s.keep, &s.per, &start); n == 3 && s.per > 0 {
		s.from, s.to = start*s.per, start*s.per+newPast(runFor(s.per), (int64(24*time.Hour)+s.per-1)/s.per).part*s.per
		return s, true
	}
	return s, false
}

// PartLoss says, for people, what it costs to go on without a part that cannot be read.
// ok is false if the other parts are worth nothing without it.
func PartLoss(name string) (what string, ok bool) {
	var number uint64
	if n, _ := fmt.Sscanf(name, "parked-%d", &number); n == 1 {
		return fmt.Sprintf("the counts of parked generation %d", number), true
	}
	if _, _, ok := flightPartOf(name); ok {
		return "a part of the work in flight of an SLO, whose end then counts nowhere", true
	}
	if name == partStreams {
		return "what sources observed, which lowers the coverage of the SLOs that they count", true
	}
	if strings.HasPrefix(name, "received-") {
		return "what alert conditions of the last six hours count of events that were received late or early", true
	}
	s, ok := partSpanOf(name)
	if !ok {
		return "", false
	}
	keep := s.keep * int64(time.Second)
	if s.slices {
		keep = s.keep
	}
	return fmt.Sprintf("the counts from %s to %s of the SLOs whose counts are retained for %s",
		unix(s.from).Format(time.RFC3339), unix(s.to).Format(time.RFC3339), time.Duration(keep)), true
}

// RestoreLost says, instead of RestorePart, that a part cannot be read. The time that it
// held counts as not observed for the indicators of its store; totals are not touched.
//
// A part without which nothing works is refused. The counts of a lost part are zero, and its time is unobserved,
// so that windows show less coverage and not a better value.
func (f *Fold) RestoreLost(name string) error {
	if f.clock != 0 {
		return fmt.Errorf("restore without part %s: the fold is not new", name)
	}
	if f.restored == nil {
		f.restored = new(restoring)
	}
	var number uint64
	if n, _ := fmt.Sscanf(name, "parked-%d", &number); n == 1 {
		if f.restored.lostParked == nil {
			f.restored.lostParked = map[uint64]bool{}
		}
		f.restored.lostParked[number] = true
		return nil
	}
	if _, _, ok := flightPartOf(name); ok {
		return nil // ends of this work are held and forgotten
	}
	if name == partStreams {
		return nil // what sources observed is unobserved
	}
	if strings.HasPrefix(name, "received-") {
		return nil // conditions count those events by their time
	}
	s, ok := partSpanOf(name)
	if !ok {
		return fmt.Errorf("restore without part %s: %w", name, errors.New("nothing can be restored without it"))
	}
	f.restored.lost = append(f.restored.lost, s)
	return nil
}

// Gap says that records right before the next one are lost: the engine does not count as
// up between the last record and the next.
func (f *Fold) Gap() { f.up.open = false }

// unobserve takes lost parts out of what the indicators of their stores observed.
// Indicators that shared an era go on sharing one where they lost the same.
func (f *Fold) unobserve(lost []partSpan) {
	for _, l := range lost {
		cut := map[*era]*era{}
		for _, ind := range f.inds {
			if s := ind.slices; s != nil && (!l.slices || s.keep != l.keep || s.per != l.per) {
				continue
			}
			if s := ind.events; s != nil && (l.slices || s.keep != l.keep) {
				continue
			}
			if cut[ind.era] == nil {
				cut[ind.era] = ind.era.without(l.from, min(l.to, f.rec), f.upFrom(ind.era))
			}
			ind.era = cut[ind.era]
		}
	}
	f.setEras()
}

// without is the era that did not observe [from, to): what it observed up to its end is
// told span by span.
//
// The result begins to count at to. What was observed before from becomes spans, as if it had been backfilled.
func (e *era) without(from, to int64, up []upSpan) *era {
	if from >= to {
		return e
	}
	cut := e.startingAt(to)
	cut.older = cutOut(e.older, from, to)
	spans := append([]upSpan(nil), e.spans...)
	for _, s := range up {
		spans = append(spans, upSpan{max(s.from, e.start()), min(s.to, cut.start())})
	}
	cut.spans = cutOut(merged(spans), from, to)
	return cut
}

// cutOut takes [from, to) out of rising spans.
func cutOut(spans []upSpan, from, to int64) []upSpan {
	var out []upSpan
	for _, s := range spans {
		if s.from < min(s.to, from) {
			out = append(out, upSpan{s.from, min(s.to, from)})
		}
		if max(s.from, to) < s.to {
			out = append(out, upSpan{max(s.from, to), s.to})
		}
	}
	return out
}
