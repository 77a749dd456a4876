package fold

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sloengine/sloengine/internal/binread"
	"github.com/sloengine/sloengine/slo/inflight"
)

// This file encodes the fold into parts and puts it together again. Parts are cut by time, so that a checkpoint
// writes what changed and leaves the rest.

// Part is a named piece of a fold's state. FORMAT.md describes the bytes.
type Part struct {
	Name string // letters, digits and dashes

	// Version is part of the bytes. The same part with the same version has the
	// same bytes, in this process and after a restore.
	Version uint64

	// Encode appends the bytes to dst. It must be called before the fold changes.
	Encode func(dst []byte) []byte

	// Vital means that the other parts are worth nothing without this one.
	Vital bool
}

// The first byte of every part. States from that of version 0.1.0 on are read.
const (
	snapshotFormat = 2 // all parts but the state
	oldestFormat   = 6 // the state of version 0.1.0
	flightFormat   = 7 // the state from histograms by outcome and dimension, and work in flight, on
	stateFormat    = 8 // the state from receive times on
)

// Names of the parts that every snapshot has.
const (
	partConfig = "config"
	partState  = "state"
)

// Parts gives the state in pieces. The counts of buckets are split by time, so
// that only those of recent or changed times have a new version.
//
// It changes nothing but flushes pending totals and normalises sums. Empty blocks are in no part. The order of
// the parts follows from the state.
func (f *Fold) Parts() []Part {
	f.plans.flush()
	for _, s := range f.series {
		s.normal()
	}
	parts := []Part{{Name: partState, Version: f.clock, Encode: f.appendState, Vital: true}}
	if f.cfg != nil {
		parts = append(parts, Part{Name: partConfig, Version: f.cfgVersion, Encode: f.appendConfig, Vital: true})
	}
	if len(f.streams) > 0 {
		parts = append(parts, Part{Name: partStreams, Version: f.clock, Encode: f.appendStreams})
	}
	for _, p := range f.parked {
		parts = append(parts, Part{Name: parkedPart(p.number), Version: p.version, Encode: p.appendTo})
	}
	for _, ind := range f.inds {
		if ind.flight != nil {
			parts = ind.flight.appendParts(parts)
		}
	}
	for _, s := range f.stores {
		parts = s.appendParts(parts, func(width, start int64) string { return eventsPart(s.keep, width, start) })
		parts = s.past.appendParts(parts, func(second int64) string { return hoursPart(s.keep, second) })
	}
	if f.ring != nil {
		parts = f.ring.appendParts(parts, receivedPart)
	}
	for _, s := range f.slices {
		parts = appendSegments(parts, s.blocks, int(s.runLen), func(at int) string {
			return slicesPart(s.keep, s.per, s.first+int64(at))
		})
		parts = s.past.appendParts(parts, func(number int64) string { return judgedPart(s.keep, s.per, number) })
	}
	return parts
}

// appendParts adds a part for each segment that has counts.
func (s *store) appendParts(parts []Part, name func(width, start int64) string) []Part {
	for i := range s.levels {
		l := &s.levels[i]
		parts = appendSegments(parts, l.blocks, int(segments[i]/widths[i]), func(at int) string {
			return name(widths[i], l.start+int64(at)*widths[i])
		})
	}
	return parts
}

// receivedPart names a segment of the ring as eventsPart does.
func receivedPart(width, start int64) string { return fmt.Sprintf("received-%d-%d", width, start) }

// eventsPart names a segment by retention and width in seconds and its start.
func eventsPart(keep, width, start int64) string {
	return fmt.Sprintf("events-%d-%d-%d", keep, width, start)
}

// slicesPart names a run of slices by retention and slice length in nanoseconds
// and its first slice.
func slicesPart(keep, per, first int64) string {
	return fmt.Sprintf("slices-%d-%d-%d", keep, per, first)
}

// appendSegments adds a part for each run of n blocks that has counts.
//
// The version of a part is the highest of its blocks, since any change raises one of them to the present clock.
func appendSegments[C cell](parts []Part, blocks []block[C], n int, name func(at int) string) []Part {
	for at := 0; at < len(blocks); at += n {
		seg := blocks[at:min(at+n, len(blocks))]
		var version uint64
		used := false
		for i := range seg {
			version = max(version, seg[i].ver)
			used = used || seg[i].cells != nil
		}
		if used {
			parts = append(parts, Part{Name: name(at), Version: version, Encode: func(dst []byte) []byte {
				return appendSegment(dst, version, seg)
			}})
		}
	}
	return parts
}

// appendSegment encodes the blocks that have counts, each with its place in the segment.
func appendSegment[C cell](b []byte, version uint64, seg []block[C]) []byte {
	b = append(b, snapshotFormat)
	b = binary.AppendUvarint(b, version)
	used := 0
	for i := range seg {
		if seg[i].cells != nil {
			used++
		}
	}
	b = binary.AppendUvarint(b, uint64(used))
	for i := range seg {
		if seg[i].cells != nil {
			b = binary.AppendUvarint(b, uint64(i))
			b = appendBlock(b, &seg[i])
		}
	}
	return b
}

// appendConfig encodes the config as it was given.
func (f *Fold) appendConfig(b []byte) []byte {
	b = append(b, snapshotFormat)
	b = binary.AppendUvarint(b, f.cfgVersion)
	return append(b, f.cfgText...)
}

// appendState encodes everything but the config and the buckets. Stores follow
// from the indicators and the record time.
//
// It grows with the number of groups and not with time, and every checkpoint has it. Plans were flushed by Parts,
// so totals are complete.
func (f *Fold) appendState(b []byte) []byte {
	b = append(b, stateFormat)
	b = binary.AppendUvarint(b, f.clock)
	b = binary.AppendUvarint(b, f.cfgVersion)
	b = binary.AppendVarint(b, f.rec)
	for _, n := range f.stats.fields() {
		b = binary.AppendUvarint(b, *n)
	}
	b = binread.AppendBool(b, f.up.open)
	b = appendSpans(b, f.up.spans)
	b = binary.AppendUvarint(b, uint64(len(f.retired)))
	for _, id := range sortedKeys(f.retired) {
		b = binread.AppendText(b, id)
		b = binary.AppendUvarint(b, uint64(f.retired[id]))
	}
	shared := eras(f.inds)
	b = binary.AppendUvarint(b, uint64(len(shared)))
	for _, e := range shared {
		b = binary.AppendVarint(b, e.since)
		b = appendSpans(b, e.spans)
		b = appendSpans(b, e.older)
		b = appendSpans(binary.AppendVarint(b, e.began), e.own)
	}
	for _, ind := range f.inds {
		b = binary.AppendUvarint(b, uint64(slices.Index(shared, ind.era)))
		b = ind.appendTo(b)
	}
	if f.cfg != nil {
		for i := range f.cfg.Services {
			x := &f.services[f.cfg.Services[i].Name].backfill
			b = binary.AppendUvarint(b, x.record)
			b = binary.AppendVarint(b, x.from)
			b = binary.AppendVarint(b, x.to)
		}
	}
	b = binary.AppendUvarint(b, uint64(len(f.traffic)))
	for _, t := range f.traffic {
		for _, s := range []string{t.service, t.typ, t.outcome, t.severity} {
			b = binread.AppendText(b, s)
		}
		for _, s := range t.dims {
			b = binread.AppendText(b, s)
		}
		b = binary.AppendUvarint(b, t.count)
		b = binary.AppendVarint(b, t.last)
	}
	b = binary.AppendUvarint(b, uint64(len(f.series)))
	for _, s := range f.series {
		b = binread.AppendText(b, s.service)
		b = binread.AppendText(b, s.typ)
		b = binread.AppendText(b, s.outcome)
		b = binread.AppendTexts(b, s.dims)
		b = binread.AppendCounts(b, s.counts)
		b = binary.AppendUvarint(b, s.sec)
		b = binary.AppendUvarint(b, s.ns)
	}
	b = binary.AppendUvarint(b, uint64(len(f.dropped)))
	for _, reason := range sortedKeys(f.dropped) {
		b = binread.AppendText(b, reason)
		b = binary.AppendUvarint(b, f.dropped[reason])
	}
	for _, ind := range f.inds {
		b = binread.AppendTexts(b, ind.former)
	}
	b = binary.AppendUvarint(b, f.lastParked)
	b = binary.AppendUvarint(b, uint64(len(f.parked)))
	for _, p := range f.parked {
		b = binary.AppendUvarint(b, p.number)
	}
	b = binread.AppendTexts(b, sortedKeys(f.named))
	return f.appendReceived(f.appendFlights(b))
}

// fields are the counters in their order.
func (c *counters) fields() []*uint64 {
	return []*uint64{&c.records, &c.events, &c.late, &c.tooOld, &c.refused, &c.replayed, &c.backfilled, &c.evicted}
}

// appendTo encodes the state of an indicator. FORMAT.md has the order, and readIndicator is the inverse.
func (ind *indicator) appendTo(b []byte) []byte {
	b = binread.AppendText(b, ind.spec.ID)
	b = binary.AppendUvarint(b, uint64(ind.gen))
	b = binary.AppendUvarint(b, ind.unmeasured)
	b = binread.AppendBool(b, ind.full)
	b = binary.AppendUvarint(b, uint64(len(ind.sorted)))
	for _, g := range ind.sorted {
		for _, v := range g.values {
			b = binread.AppendText(b, v)
		}
		b = binary.AppendUvarint(b, uint64(g.col))
		b = binary.AppendVarint(b, g.last)
		b = binary.AppendVarint(b, g.from)
		for _, n := range g.total {
			b = binary.AppendUvarint(b, n)
		}
		b = binary.AppendUvarint(b, uint64(g.squares))
		b = binread.AppendCounts(b, g.old)
	}
	if ind.dropped == nil {
		return append(b, 0)
	}
	return binary.AppendUvarint(b, uint64(ind.dropped.col)+1)
}

// restoring is what RestorePart has read and FinishRestore has yet to put together.
//
// It copies what it keeps, because the bytes of a part belong to the caller.
type restoring struct {
	config, state []byte
	format        byte // of the state
	cfgVersion    uint64
	segments      []segment
	lost          []partSpan      // of parts that could not be read
	lostParked    map[uint64]bool // likewise, parked generations
	parked        map[uint64]*parked
	streams       map[string]*stream
	tables        map[uint64]*inflight.Table // by number of the flight
}

// segment is a part with blocks, by place in the segment. One of the maps is set.
type segment struct {
	name   string
	blocks map[int]block[uint16]
	past   map[int]block[uint32]
}

// RestorePart restores one part that Parts gave, in any order, into a new
// Fold. data is not kept.
//
// The bytes are decoded as far as that works without the config. FinishRestore does the rest.
func (f *Fold) RestorePart(name string, data []byte) error {
	if f.clock != 0 {
		return fmt.Errorf("restore part %s: the fold is not new", name)
	}
	if f.restored == nil {
		f.restored = new(restoring)
	}
	if err := f.restored.read(name, data); err != nil {
		return fmt.Errorf("restore part %s: %w", name, err)
	}
	return nil
}

// read decodes what can be decoded without the config. The bytes of the state wait for it.
func (x *restoring) read(name string, data []byte) error {
	if len(data) == 0 {
		return fmt.Errorf("%w: empty", errSnapshot)
	}
	oldest, newest := byte(snapshotFormat), byte(snapshotFormat)
	if name == partState {
		oldest, newest = oldestFormat, stateFormat
	}
	if data[0] < oldest || data[0] > newest {
		return fmt.Errorf("%w: format %d, this program reads formats %d to %d", errSnapshot, data[0], oldest, newest)
	}
	r := newReader(data[1:])
	var number uint64
	switch name {
	case partState:
		x.format, x.state = data[0], append([]byte(nil), r.Rest...)
		return nil
	case partConfig:
		x.cfgVersion = r.Uint()
		x.config = append([]byte(nil), r.Rest...)
		if r.Bad() {
			return r.done()
		}
		return nil
	}
	if n, _ := fmt.Sscanf(name, "parked-%d", &number); n == 1 {
		p, err := readParked(&r)
		if x.parked == nil {
			x.parked = map[uint64]*parked{}
		}
		x.parked[number] = p
		return err
	}
	if name == partStreams {
		return x.readStreams(&r)
	}
	if number, part, ok := flightPartOf(name); ok {
		return x.readFlight(number, part, &r)
	}
	seg := segment{name: name}
	if strings.HasPrefix(name, "hours-") || strings.HasPrefix(name, "judged-") {
		seg.past = readSegment[uint32](&r)
	} else {
		seg.blocks = readSegment[uint16](&r)
	}
	x.segments = append(x.segments, seg)
	return r.done()
}

// readSegment is the inverse of appendSegment: blocks by their place.
func readSegment[C cell](r *reader) map[int]block[C] {
	blocks := map[int]block[C]{}
	version := r.Uint()
	for range r.Count(1) {
		at := int(r.Uint())
		b := readBlock[C](r)
		b.ver = version
		blocks[at] = b
	}
	return blocks
}

// FinishRestore puts the restored parts together. On an error the fold must not
// be used. Without any part it leaves a new fold as it is.
//
// The lost parts take effect last, when it is known which indicators used their stores.
func (f *Fold) FinishRestore() error {
	x := f.restored
	f.restored = nil
	if x == nil {
		return nil
	}
	if err := f.restore(x); err != nil {
		return fmt.Errorf("restore fold: %w", err)
	}
	return nil
}

// restore puts parts together in the one order that works: the config makes indicators, the state gives them groups and
// columns, and then the stores are there for the blocks. Hours, days and runs are made from those.
func (f *Fold) restore(x *restoring) error {
	c := &compiled{}
	if x.config != nil {
		var err error
		if c, err = compileJSON(x.config); err != nil {
			return err
		}
	}
	f.cfg, f.cfgText, f.inds = c.cfg, c.text, c.inds
	maps.Copy(f.streams, x.streams)
	f.setGroupStreams()
	if err := f.readState(x); err != nil {
		return err
	}
	for _, seg := range x.segments {
		if err := f.place(seg); err != nil {
			return fmt.Errorf("part %s: %w", seg.name, err)
		}
	}
	for _, s := range f.stores {
		s.addUpHours()
	}
	if f.ring != nil {
		f.ring.addUpHours()
	}
	f.unobserve(x.lost)
	f.setAges()
	f.nextClose = f.nextClosing()
	f.nextDue = f.nextDeadlines()
	return nil
}

// place puts a segment's blocks where its name says.
func (f *Fold) place(seg segment) error {
	var keep, width, start int64
	if n, _ := fmt.Sscanf(seg.name, "events-%d-%d-%d", &keep, &width, &start); n == 3 {
		for _, s := range f.stores {
			if s.keep == keep {
				return s.place(seg, width, start)
			}
		}
	}
	if n, _ := fmt.Sscanf(seg.name, "received-%d-%d", &width, &start); n == 2 && f.ring != nil {
		return f.ring.place(seg, width, start)
	}
	if n, _ := fmt.Sscanf(seg.name, "slices-%d-%d-%d", &keep, &width, &start); n == 3 {
		for _, s := range f.slices {
			if s.keep == keep && s.per == width {
				return s.place(seg, start)
			}
		}
	}
	if n, _ := fmt.Sscanf(seg.name, "hours-%d-%d", &keep, &start); n == 2 {
		for _, s := range f.stores {
			if s.keep == keep {
				return s.past.place(seg, start, s.levels[fine].start, int(s.cols.n))
			}
		}
	}
	if n, _ := fmt.Sscanf(seg.name, "judged-%d-%d-%d", &keep, &width, &start); n == 3 {
		for _, s := range f.slices {
			if s.keep == keep && s.per == width {
				return s.past.place(seg, start, s.next, s.judgedRoom())
			}
		}
	}
	return fmt.Errorf("%w: no place for it", errSnapshot)
}

// place puts blocks of one width from a second on. Blocks where none can be, or with columns that no group has, are
// damage.
//
// The levels are where the record time of the state puts them, and so are the blocks of a snapshot of that time.
func (s *store) place(seg segment, width, start int64) error {
	for at, b := range seg.blocks {
		sec := start + int64(at)*width
		into, w := s.leafAt(sec)
		if w == width && sec >= s.levels[fine].start && sec < s.levels[fine].start+2*maxAhead {
			into = s.leaf(sec)
		}
		if into == nil || w != width || len(b.cells) > int(s.cols.n) {
			return fmt.Errorf("%w: block at %s", errSnapshot, time.Unix(sec, 0).UTC())
		}
		*into = b
	}
	return nil
}

// place puts blocks of slices from a number on, as the method of store does.
func (s *sliceStore) place(seg segment, first int64) error {
	for at, b := range seg.blocks {
		n := first + int64(at)
		if n < s.first || n > s.next+s.runLen+2*maxAhead*int64(time.Second)/s.per || len(b.cells) > int(s.cols.n) {
			return fmt.Errorf("%w: slice %d", errSnapshot, n)
		}
		*s.slice(n) = b
	}
	return nil
}
