package fold

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sloengine/sloengine/internal/binread"
)

// This file parks generations that no indicator counts for, so that a configuration that comes back finds its
// counts, and drops them when their time or the byte budget is over. What to drop is proposed by Evictions and
// done by Forget, which a record calls: so a replay drops the same at the same place.

// parked is a generation that is not in use, because the config has no indicator
// with its definition any more. It counts nothing. Its counts are those of a fold
// of its own, which holds nothing else and stands still, in encoded form: that
// costs no time while others count, and its size is known. When its definition
// returns, that fold is brought to the present, so that its buckets age, and an
// indicator takes its counts over.
//
// A parked generation never changes, apart from being dropped or resumed as a whole. That is why its part of a snapshot
// is written once.
type parked struct {
	number    uint64 // of all that were ever parked, from 1 on
	at        int64  // record time at which it was parked
	gen       uint32
	former    []string // IDs that it had before
	id        string
	service   string
	key       string // see generationKey
	retention time.Duration
	groups    int

	version uint64 // clock of the call that parked it
	data    []byte // the parts of its fold
}

// parkedOverhead is what a parked generation costs beside its data, in bytes.
const parkedOverhead = 256

// bytes is what a parked generation costs of the byte budget.
func (p *parked) bytes() int64 { return int64(len(p.data)) + parkedOverhead }

// until is how long it is retained: for its longest window, and at least as long
// as ids are known, so that what was counted is known to be.
func (p *parked) until(dedup time.Duration) int64 { return p.at + int64(max(p.retention, dedup)) }

// alone makes a fold that holds an indicator and nothing else, at the present
// record time. It has no counts yet.
//
// It has a service of that name and no other part of the configuration.
func (f *Fold) alone(spec *Indicator) (*Fold, error) {
	sub, err := New(Options{})
	if err != nil {
		return nil, err
	}
	c, err := compile(
		&Config{Version: ConfigVersion, Indicators: []Indicator{*spec}, Services: []Service{{Name: spec.Service}}})
	if err != nil {
		return nil, err
	}
	sub.clock, sub.rec, sub.cfgVersion = f.clock, f.rec, f.clock
	sub.cfg, sub.cfgText, sub.inds = c.cfg, c.text, c.inds
	return sub, nil
}

// park moves all that was counted for o out of the fold's stores. Totals are not
// kept: exported counters begin at zero whenever an indicator begins to count.
//
// An error comes before the first change. Afterwards o has no columns.
func (f *Fold) park(o *indicator) error {
	sub, err := f.alone(o.spec)
	if err != nil {
		return fmt.Errorf("park %s: %w", o.spec.ID, err)
	}
	for _, s := range f.upFrom(o.era) {
		if s.to > o.era.start() {
			sub.up.spans = append(sub.up.spans, s)
		}
	}
	ind := sub.inds[0]
	sub.inherit(ind, o, map[moveKey]*era{})
	f.moveReceived(ind, sub)
	ind.unmeasured, ind.former = 0, nil
	if ind.flight != nil {
		ind.flight.land()
	}
	ind.era = &era{since: o.era.start(), spans: slices.Clone(o.era.spans), older: slices.Clone(o.era.older)}
	for _, g := range ind.sorted {
		clear(g.total)
		g.old = nil
	}
	sub.setServices()

	f.lastParked++
	p := &parked{number: f.lastParked, at: f.rec, gen: o.gen, former: o.former, groups: len(ind.sorted), version: f.clock}
	p.describe(ind)
	p.data = slices.Clone(sub.appendParts(nil)) // without the room to grow
	f.parked = append(f.parked, p)
	f.retired[p.id] = max(f.retired[p.id], p.gen)
	return nil
}

// appendParts encodes all parts, with their names.
func (f *Fold) appendParts(b []byte) []byte {
	var buf []byte
	for _, part := range f.Parts() {
		buf = part.Encode(buf[:0])
		b = binread.AppendText(b, part.Name)
		b = append(binary.AppendUvarint(b, uint64(len(buf))), buf...)
	}
	return b
}

// restoreParts is the inverse of appendParts, into a new fold.
func (f *Fold) restoreParts(r *reader) error {
	for len(r.Rest) > 0 {
		name := r.Text()
		if err := f.RestorePart(name, r.Bytes()); err != nil {
			return err
		}
	}
	if r.Bad() {
		return r.done()
	}
	return f.FinishRestore()
}

// describe copies what must be known of a parked generation without decoding it.
func (p *parked) describe(ind *indicator) {
	p.id, p.service, p.key, p.retention = ind.spec.ID, ind.spec.Service, ind.key, ind.spec.Retention
}

// thaw gives the fold of a parked generation, as it was.
//
// p is not changed, so an error leaves it parked.
func (p *parked) thaw() (*Fold, error) {
	sub, err := New(Options{})
	if err != nil {
		return nil, err
	}
	r := newReader(p.data)
	if err := sub.restoreParts(&r); err != nil {
		return nil, fmt.Errorf("parked generation %d: %w", p.number, err)
	}
	if len(sub.inds) != 1 {
		return nil, fmt.Errorf("%w: parked generation %d has %d indicators", errSnapshot, p.number, len(sub.inds))
	}
	return sub, nil
}

// resume brings the fold of a parked generation to the present and returns its
// indicator. The time in which it was parked is unobserved: what was observed
// before becomes spans before the moment at which it begins to count again.
//
// Generations that observed the same share an era again, by their source and encoded spans.
func (f *Fold) resume(p *parked, sub *Fold, resumed map[string]*era) *indicator {
	sub.moveTo(f.rec, Start)
	ind := sub.inds[0]
	for _, g := range ind.sorted {
		clear(g.total) // slices that closed only now were judged into it
	}
	ind.former = p.former
	e := f.before(ind.era, until(sub.up.spans, math.MinInt64, p.at))
	key := e.source + "\n" + string(appendSpans(appendSpans(nil, e.spans), e.older))
	if resumed[key] == nil {
		resumed[key] = e
	}
	ind.era = resumed[key]
	f.parked = slices.DeleteFunc(f.parked, func(x *parked) bool { return x == p })
	return ind
}

// before is an era that begins now. What another one observed, which was up in some spans, lies before it.
func (f *Fold) before(o *era, up []upSpan) *era {
	all := slices.Clone(o.spans)
	for _, s := range up {
		all = append(all, upSpan{max(s.from, o.since), s.to})
	}
	e := &era{since: f.rec, source: o.source, spans: merged(all), older: o.older}
	for len(e.spans) > maxBackfills {
		e.forgetShortest()
	}
	e.forget(f.known)
	return e
}

// Forget drops parked generations by their numbers, and everything that was
// counted for services: their parked generations are dropped, and those in use start
// from zero. It is what a record says, so that it happens at the same place of the
// log whenever that is read.
func (f *Fold) Forget(numbers []uint64, services []string) {
	f.clock++
	f.parked = slices.DeleteFunc(f.parked, func(p *parked) bool {
		return slices.Contains(numbers, p.number) || slices.Contains(services, p.service)
	})
	for _, s := range services {
		if f.services[s] == nil {
			delete(f.named, s)
		}
	}
	if !slices.ContainsFunc(f.inds, func(ind *indicator) bool { return slices.Contains(services, ind.spec.Service) }) {
		return
	}
	f.plans.clear()
	began := map[string]*era{}
	for _, ind := range f.inds {
		if !slices.Contains(services, ind.spec.Service) {
			continue
		}
		f.release(ind)
		ind.groups, ind.sorted, ind.dropped = map[string]*group{}, nil, nil
		ind.full, ind.unmeasured, ind.former = false, 0, nil
		f.retired[ind.spec.ID] = max(f.retired[ind.spec.ID], ind.gen)
		f.begin(ind, began)
		f.expect(ind)
	}
	f.sweep()
	f.setServices()
}

// Evictions proposes what a record should have Forget drop: parked generations
// whose time is over, and the oldest of the others while all of them have more
// bytes than the budget; and the services of which nothing is counted any more, so
// that nothing needs their ids. A service of the config is never among them.
//
// It changes nothing. The oldest go first, since parked is in the order of numbers.
func (f *Fold) Evictions(budget int64, dedup time.Duration) (numbers []uint64, services []string) {
	var bytes int64
	for _, p := range f.parked {
		bytes += p.bytes()
	}
	held := map[string]bool{}
	for _, p := range f.parked {
		if p.until(dedup) > f.rec && bytes <= budget {
			held[p.service] = true
			continue
		}
		numbers = append(numbers, p.number)
		bytes -= p.bytes()
	}
	for _, s := range sortedKeys(f.named) {
		if !held[s] && f.services[s] == nil {
			services = append(services, s)
		}
	}
	return numbers, services
}

// Watermark is the record time.
func (f *Fold) Watermark() time.Time { return unix(f.rec) }

// Holds reports whether anything was ever counted for a service that is not
// forgotten, and whether the config has it.
func (f *Fold) Holds(service string) (held, inUse bool) {
	_, held = f.named[service]
	return held, f.services[service] != nil
}

// Generation is what was counted for an SLO, or for something else of the spec, with one definition. It is in use, or
// parked: the spec does not have it any more.
type Generation struct {
	ID         string   `json:"id"`
	Former     []string `json:"former_ids,omitempty"` // that it had before it was renamed
	Service    string   `json:"service"`
	Definition string   `json:"definition"` // equal for generations that count the same
	Generation uint32   `json:"generation"`
	Groups     int      `json:"groups"`

	Number uint64    `json:"number"`             // of a parked one, from 1 on; 0 while it is in use
	Parked time.Time `json:"parked_at,omitzero"` // record time
	Until  time.Time `json:"retained_until"`     // within the budget; if it is in use: if it were parked now
	Bytes  int64     `json:"bytes"`              // of a parked one
}

// Generations lists all, those in use first. dedup is for how long ids are known.
func (f *Fold) Generations(dedup time.Duration) []Generation {
	out := make([]Generation, 0, len(f.inds)+len(f.parked))
	for _, ind := range f.inds {
		out = append(out, Generation{
			ID: ind.spec.ID, Former: slices.Clone(ind.former), Service: ind.spec.Service, Definition: definition(ind.key),
			Generation: ind.gen, Groups: len(ind.sorted), Until: time.Unix(0, f.rec+int64(max(ind.spec.Retention, dedup))).UTC(),
		})
	}
	for _, p := range f.parked {
		out = append(out, Generation{
			Number: p.number, ID: p.id, Former: slices.Clone(p.former), Service: p.service, Definition: definition(p.key),
			Generation: p.gen, Groups: p.groups, Parked: unix(p.at), Until: time.Unix(0, p.until(dedup)).UTC(), Bytes: p.bytes(),
		})
	}
	return out
}

// parkedPart names the part of a parked generation.
func parkedPart(number uint64) string { return fmt.Sprintf("parked-%d", number) }

// appendTo encodes the part of a parked generation.
func (p *parked) appendTo(b []byte) []byte {
	b = append(b, snapshotFormat)
	b = binary.AppendUvarint(b, p.version)
	b = binary.AppendVarint(b, p.at)
	b = binary.AppendUvarint(b, uint64(p.gen))
	b = binread.AppendTexts(b, p.former)
	return append(b, p.data...)
}

// readParked is the inverse of appendTo. It looks no further than it must to know
// the generation when it returns.
func readParked(r *reader) (*parked, error) {
	p := &parked{version: r.Uint(), at: r.Varint(), gen: uint32(r.Uint()), former: r.Texts()}
	p.data = slices.Clone(r.Rest)
	r.Rest = nil
	if r.Bad() {
		return nil, r.done()
	}
	sub, err := p.thaw()
	if err != nil {
		return nil, err
	}
	p.describe(sub.inds[0])
	p.groups = len(sub.inds[0].sorted)
	return p, nil
}

// restoreParked takes the parked generations that the state names, in their order.
func (f *Fold) restoreParked(numbers []uint64, parts map[uint64]*parked, lost map[uint64]bool) error {
	for _, n := range numbers {
		p := parts[n]
		if p == nil && lost[n] {
			continue
		}
		if p == nil {
			return fmt.Errorf("%w: part %q is missing", errSnapshot, parkedPart(n))
		}
		delete(parts, n)
		p.number = n
		f.parked = append(f.parked, p)
	}
	for n := range parts {
		return fmt.Errorf("part %s: %w: no place for it", parkedPart(n), errSnapshot)
	}
	return nil
}
