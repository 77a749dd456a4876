package fold

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/sloengine/sloengine/slo"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// readState is the inverse of appendState, for indicators fresh from the config.
func (f *Fold) readState(x *restoring) error {
	if x.state == nil {
		return fmt.Errorf("%w: part %q is missing", errSnapshot, partState)
	}
	r := reader{b: x.state}
	f.clock = r.uvarint()
	if f.cfgVersion = r.uvarint(); f.cfgVersion != x.cfgVersion {
		return fmt.Errorf("%w: config %d with the state of config %d", errSnapshot, x.cfgVersion, f.cfgVersion)
	}
	if f.rec = r.varint(); f.rec < 0 || f.rec > math.MaxInt64/2 {
		r.fail()
	}
	for _, n := range f.stats.fields(x.format) {
		*n = r.uvarint()
	}
	if r.bad {
		return r.done()
	}
	f.up.open = r.bool()
	f.up.spans = r.spans()
	for range r.length() {
		id := r.string()
		f.retired[id] = uint32(r.uvarint())
	}
	shared := make([]*era, r.length())
	for i := range shared {
		shared[i] = &era{since: r.varint(), spans: r.spans()}
		if x.format >= historyFormat {
			shared[i].older = r.spans()
		}
	}
	for _, ind := range f.inds {
		if n := r.uvarint(); n < uint64(len(shared)) {
			ind.era = shared[n]
		} else {
			return fmt.Errorf("%w: era %d of %s", errSnapshot, n, ind.spec.ID)
		}
		if err := f.readIndicator(&r, ind, x.format); err != nil {
			return fmt.Errorf("indicator %s: %w", ind.spec.ID, err)
		}
	}
	if err := f.useColumns(); err != nil {
		return err
	}
	if f.cfg != nil {
		f.setServices()
		for i := range f.cfg.Services {
			f.services[f.cfg.Services[i].Name].backfill = backfilling{r.uvarint(), r.varint(), r.varint()}
		}
	}
	f.readCounters(&r)
	if x.format >= limitsFormat {
		for range r.length() {
			reason := r.string()
			f.dropped[reason] = r.uvarint()
		}
	}
	if x.format < stateFormat {
		for name := range f.services {
			f.named[name] = struct{}{}
		}
		return r.done()
	}
	return f.readParked(&r, x)
}

// readParked reads what is told of parked generations, and takes their parts.
func (f *Fold) readParked(r *reader, x *restoring) error {
	for _, ind := range f.inds {
		ind.former = r.strings()
	}
	f.lastParked = r.uvarint()
	var numbers []uint64
	for range r.length() {
		numbers = append(numbers, r.uvarint())
	}
	for _, s := range r.strings() {
		f.named[s] = struct{}{}
	}
	if err := r.done(); err != nil {
		return err
	}
	return f.restoreParked(numbers, x.parked, x.lostParked)
}

func (f *Fold) readIndicator(r *reader, ind *indicator, format byte) error {
	if id := r.string(); id != ind.spec.ID {
		return fmt.Errorf("%w: state of %q", errSnapshot, id)
	}
	ind.gen = uint32(r.uvarint())
	ind.unmeasured = r.uvarint()
	ind.full = r.bool()
	f.attach(ind)
	if ind.slices != nil {
		ind.slices.inds = append(ind.slices.inds, ind)
	}
	for range r.length() {
		g := &group{ind: ind, values: make(slo.Group, len(ind.spec.GroupBy)), total: make([]uint64, ind.bins)}
		for i := range g.values {
			g.values[i] = r.string()
		}
		g.col = uint32(min(r.uvarint(), maxColumns))
		g.last, g.from = r.varint(), r.varint()
		for i := range g.total {
			g.total[i] = r.uvarint()
		}
		if format >= limitsFormat {
			g.squares = uint32(min(r.uvarint(), maxColumns))
		}
		if format >= oldFormat {
			if old := r.counts(); len(old) == ind.bins {
				g.old = old
			} else if len(old) > 0 {
				r.fail()
			}
		}
		if ind.groups[g.values.Key()] != nil {
			return fmt.Errorf("%w: group %q twice", errSnapshot, g.values)
		}
		ind.insert(g)
	}
	if format >= limitsFormat {
		if n := min(r.uvarint(), maxColumns); n > 0 {
			ind.dropped = &group{ind: ind, from: always, col: uint32(n - 1)}
		}
	}
	return nil
}

// useColumns tells the stores which columns the groups have.
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

func (f *Fold) readCounters(r *reader) {
	for range r.length() {
		t := &traffic{service: r.string(), typ: r.string(), outcome: r.string(), severity: r.string()}
		svc := f.services[t.service]
		if svc == nil {
			r.fail()
			return
		}
		for range svc.spec.Dimensions {
			t.dims = append(t.dims, r.string())
		}
		t.count, t.last = r.uvarint(), r.varint()
		f.addTraffic(svc, t)
	}
	for range r.length() {
		d := &durationSeries{service: r.string(), typ: r.string(), counts: r.counts(), sec: r.uvarint(), ns: r.uvarint()}
		svc := f.services[d.service]
		if svc == nil || len(d.counts) != len(svc.buckets)+1 || d.ns >= uint64(time.Second) {
			r.fail()
			return
		}
		d.edges = svc.buckets
		f.addSeries(svc, d)
	}
}
