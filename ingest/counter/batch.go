package counter

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"

	"github.com/sloengine/sloengine/ingest/binread"
)

// Batch is the points of one request. From Begin until its position is applied to the Table, or dropped, no other Batch
// of the Table may be in use. It is for one goroutine.
type Batch struct {
	table    *Table
	classes  map[Key]*class // what is to be recorded
	added    int            // bytes
	last     Point
	record   bool // last is to be recorded
	earlier  Counts
	buf      []byte
	observed Observation
}

// Observation is a time in which a source read everything that its counters said, in Unix nanoseconds.
type Observation struct {
	Source   string // "": there is none
	From, To int64
}

// Observed says what the request observed. It is recorded with the points.
func (b *Batch) Observed(o Observation) { b.observed = o }

// NewBatch returns an empty Batch.
func NewBatch(t *Table) *Batch { return &Batch{table: t, classes: map[Key]*class{}} }

// Begin starts another request.
func (b *Batch) Begin() {
	clear(b.classes)
	b.added, b.record, b.observed = 0, false, Observation{}
}

// Observe replaces the counts of a point by what they add. Keep must follow if that is stored, or refused for good.
func (b *Batch) Observe(p *Point) Verdict {
	b.record, p.Reset = false, false
	if p.Start >= p.Time {
		p.Start = 0
	}
	b.buf = p.append(b.buf[:0])
	before, why := b.before(p)
	switch why {
	case Stale, Full:
		return why
	case Baseline:
	case Adds:
		if before == "" {
			break // all of it
		}
		r := binread.New([]byte(before))
		b.earlier.read(&r)
		if p.subtract(&b.earlier) {
			break
		}
		if p.Start != 0 {
			return Decreased
		}
		r = binread.New(b.buf)
		p.read(&r)
		p.Reset = true // it began again
	}
	b.last = *p
	return why
}

// before is the encoded counts of the point before, "" if there is none, and what that means for p.
func (b *Batch) before(p *Point) (string, Verdict) {
	t := b.table
	t.mu.Lock()
	defer t.mu.Unlock()
	at := p.target()
	known, recorded := find(t.classes, p.Class, at), find(b.classes, p.Class, at)
	s, had := recorded.state(p.Series)
	if !had {
		s, had = known.state(p.Series)
	}
	b.record = true
	switch {
	case had && p.Time <= s.time:
		return "", Stale
	case had:
		p.Before = s.time
		b.record = string(b.buf) != s.counts || p.Time-known.seen() > int64(touch)
		return s.counts, Adds
	case t.bytes+b.added+overhead+len(b.buf) > MaxBytes:
		return "", Full
	case known != nil && known.first < p.Time || recorded != nil && recorded.first < p.Time:
		return "", Adds
	}
	c, now := t.classes[p.Class], b.classes[p.Class]
	renamed := known == nil && recorded == nil && (c != nil && c.runs[at.run] > 0 || now != nil && now.runs[at.run] > 0)
	if c != nil && p.Start != 0 && p.Start >= c.since && !renamed {
		return "", Adds
	}
	return "", Baseline
}

func (p *Point) target() targetKey { return targetKey{run{p.Metric, p.Start}, p.Source} }

func find(in map[Key]*class, key Key, at targetKey) *target {
	if c := in[key]; c != nil {
		return c.targets[at]
	}
	return nil
}

func (of *target) state(key uint64) (s state, ok bool) {
	if of != nil {
		s, ok = of.series[key]
	}
	return s, ok
}

// seen is the time of the last point.
func (of *target) seen() int64 {
	if of == nil {
		return 0
	}
	return of.last
}

// Keep records the point that was observed last.
func (b *Batch) Keep() {
	if !b.record {
		return
	}
	p := &b.last
	c := b.classes[p.Class]
	if c == nil {
		c = newClass()
		b.classes[p.Class] = c
	}
	of := c.target(p.target(), p.Time, p.Time)
	if _, had := of.series[p.Series]; !had {
		b.added += overhead + len(b.buf)
	}
	of.series[p.Series] = state{p.Time, string(b.buf)}
}

// Empty reports whether there is nothing to record.
func (b *Batch) Empty() bool { return len(b.classes) == 0 && b.observed.Source == "" }

// AppendPosition appends what is to be recorded. It cannot leave events out: no limit may hold them back.
func (b *Batch) AppendPosition(dst []byte, _ []int32) []byte {
	dst = binread.AppendText(append(dst, 0, format), b.observed.Source)
	if o := b.observed; o.Source != "" {
		dst = binary.AppendUvarint(binary.AppendVarint(dst, o.From), uint64(o.To-o.From))
	}
	dst = binary.AppendUvarint(dst, uint64(len(b.classes)))
	for _, key := range slices.SortedFunc(maps.Keys(b.classes), compareKeys) {
		dst = b.classes[key].append(appendKey(dst, key))
	}
	return dst
}

func compareKeys(a, b Key) int { return cmp.Or(cmp.Compare(a.Hi, b.Hi), cmp.Compare(a.Lo, b.Lo)) }

func cmpBy(a, b int64, keyA, keyB Key) int { return cmp.Or(cmp.Compare(a, b), compareKeys(keyA, keyB)) }

func appendKey(dst []byte, k Key) []byte {
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(dst, k.Lo), k.Hi)
}

func readKey(r *binread.Reader) (k Key) {
	if b := r.Take(keyBytes); b != nil {
		k.Lo, k.Hi = binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
	}
	return k
}

func readSeries(r *binread.Reader) uint64 {
	if b := r.Take(seriesBytes); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}
