package counter

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/sloengine/sloengine/internal/binread"
	"github.com/sloengine/sloengine/internal/order"
)

// This file has the forms of a Batch in a record and of targets in a checkpoint, which ingest/record/FORMAT.md lists.
//
// A class that the Table knows is written as what changed: its targets and their counters by their places in the order
// in which the log had them first, and what they counted. Only the class that the Batch was built on gives that a
// meaning, which its basis tells. So from Begin until the position is applied or will never be in the log, no other
// position of the class may be written: a caller knows the outcome of each, and lets the Table catch up with the log
// before it begins the next one. If one does not, the position is refused together with its events: errOtherBasis.

// The flags of a target that changed.
const (
	sameStep  = uint64(1) << iota // from its last point before to this one it is as long as of the target in front of it
	hasFirst                      // its first point is earlier than was known
	hasOlder                      // counters follow whose last points are older than the target's
	hasOthers                     // counters follow that are new, or that did not only count
	flagBits  = iota
)

// change is a counter that only counted.
type change struct {
	age   int64 // nanoseconds before the last point of the target
	place uint32
	// what it added is between these places of Batch.sums
	from, to int
}

// errOtherBasis means that a position was built on a Table that missed another one. It is refused with its events: what
// they are of was added since the points that the Table has, so that the next position counts it.
var errOtherBasis = errors.New("counters changed while a position was built on them (what they added counts later)")

// IsPosition reports whether a position of a record is that of a Batch. Those of sources begin with a name.
func IsPosition(b []byte) bool { return len(b) > 1 && b[0] == 0 }

// AppendPosition appends what is to be recorded. It cannot leave events out: no limit may hold them back.
func (b *Batch) AppendPosition(dst []byte, _ []int32) []byte {
	dst = binary.AppendUvarint(append(dst, 0, format), uint64(len(b.observed)))
	for _, o := range b.observed {
		dst = binary.AppendVarint(binread.AppendText(dst, o.Source), o.From)
		dst = binary.AppendUvarint(dst, uint64(o.To-o.From))
	}
	t := b.table
	t.mu.Lock()
	defer t.mu.Unlock()
	var known, whole []Key
	for _, key := range slices.SortedFunc(maps.Keys(b.classes), compareKeys) {
		c := t.classes[key]
		if gone := c == nil || len(c.order) == 0; gone || c.basis == b.classes[key].basis && !c.stays(t) {
			whole = append(whole, key)
		} else {
			known = append(known, key)
		}
	}
	dst = binary.AppendUvarint(dst, uint64(len(known)))
	for _, key := range known {
		c, now := t.classes[key], b.classes[key]
		if b.body = b.body[:0]; c.basis == now.basis { // another one is refused
			b.body = b.appendChanges(b.body, c, now)
		}
		dst = binary.LittleEndian.AppendUint64(dst, now.basis)
		dst = append(binary.AppendUvarint(dst, uint64(len(b.body))), b.body...)
	}
	dst = binary.AppendUvarint(dst, uint64(len(whole)))
	for _, key := range whole {
		dst = appendTargets(appendKey(dst, key), b.classes[key].order)
	}
	dst = binary.AppendUvarint(appendNotes(dst, b.notes), uint64(len(b.forget)))
	for _, class := range b.forget {
		dst = appendKey(dst, class)
	}
	return dst
}

// stays reports whether the records in front of the next one of the class cannot remove its targets: Table.sweep.
func (c *class) stays(t *Table) bool {
	return t.newest-c.touched < int64(keep-time.Hour)
}

// Apply adds a position, and returns what it says was observed.
func (t *Table) Apply(position []byte) (seen []Observation, err error) {
	if err := checkFormat(position); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.version++
	r := binread.New(position[2:])
	seen = readObserved(&r)
	touched, err := t.readKnown(&r)
	if err != nil {
		return nil, err
	}
	for range r.Count(keyBytes + 1) {
		key := readKey(&r)
		c := t.classes[key]
		fresh := c == nil
		if fresh {
			c = t.add(key, key.Lo^key.Hi)
		}
		if t.readTargets(&r, c); fresh {
			for _, of := range c.order {
				c.since = max(c.since, of.last)
			}
		}
		touched = append(touched, c)
	}
	t.readNotes(&r)
	for range r.Count(keyBytes) {
		key := readKey(&r)
		if c := t.classes[key]; c != nil {
			t.forget(c, math.MaxInt64)
			t.remove(key, c)
		}
	}
	if !r.Done() {
		return nil, fmt.Errorf("invalid position of counters, of %d bytes", len(position))
	}
	by := xxh3.Hash(position)
	for _, c := range touched {
		t.change(c, by)
		if c.touched = t.newest; c.newest-c.swept >= int64(sweepEvery) {
			c.swept = c.newest
			t.forget(c, c.newest-int64(keep))
		}
	}
	t.sweep()
	return seen, nil
}

func checkFormat(position []byte) error {
	if !IsPosition(position) || position[1] != format {
		return fmt.Errorf("invalid position of counters, of %d bytes (want format %d)", len(position), format)
	}
	return nil
}

// Observed returns what a position says was observed, for who reads a part of a log and needs no Table.
func Observed(position []byte) ([]Observation, error) {
	if err := checkFormat(position); err != nil {
		return nil, err
	}
	r := binread.New(position[2:])
	seen := readObserved(&r)
	if r.Bad() {
		return nil, fmt.Errorf("invalid position of counters, of %d bytes", len(position))
	}
	return seen, nil
}

func readObserved(r *binread.Reader) (seen []Observation) {
	for range r.Count(3) {
		o := Observation{Source: r.Text(), From: r.Varint()}
		o.To = o.From + int64(r.Uint())
		seen = append(seen, o)
	}
	return seen
}

// readKnown adds what was written of classes that the Table had: all of it, or nothing.
func (t *Table) readKnown(r *binread.Reader) (touched []*class, err error) {
	bodies, missed := [][]byte(nil), false
	for range r.Count(basisBytes + 1) {
		basis, body := readUint64(r), r.Bytes()
		c := t.byBasis[basis]
		missed = missed || c == nil
		touched, bodies = append(touched, c), append(bodies, body)
	}
	switch {
	case r.Bad():
		return nil, nil
	case missed && !t.partial:
		return nil, errOtherBasis
	case missed: // nobody knows which classes lack it
		for key, c := range t.classes {
			t.forget(c, math.MaxInt64)
			t.remove(key, c)
		}
		return nil, nil
	}
	for i, c := range touched {
		in := binread.New(bodies[i])
		if t.readChanges(&in, c); !in.Done() {
			r.Fail()
		}
	}
	return touched, nil
}

// appendChanges appends what a Batch has of a class that the Table knows.
func (b *Batch) appendChanges(dst []byte, c, now *class) []byte {
	changed, added := make([]*target, 0, len(now.order)), []*target(nil)
	for _, of := range now.order {
		if c.targets[of.at] != nil {
			changed = append(changed, of)
		} else {
			added = append(added, of)
		}
	}
	slices.SortFunc(changed, func(x, y *target) int { return c.targets[x.at].place - c.targets[y.at].place })
	dst = binary.AppendUvarint(dst, uint64(len(changed)))
	next, step := 0, int64(0)
	for _, of := range changed {
		was := c.targets[of.at]
		dst = b.appendTarget(dst, was, of, was.place-next, step)
		next, step = was.place+1, of.last-was.last
	}
	return appendTargets(dst, added)
}

// readChanges is the inverse of appendChanges. The Table gets what it read.
func (t *Table) readChanges(r *binread.Reader, c *class) {
	next, step := uint64(0), int64(0)
	for range r.Count(2) {
		head := r.Uint()
		place := next + head>>flagBits
		if next = place + 1; place >= uint64(len(c.order)) {
			r.Fail()
			return
		}
		of := c.order[place]
		if head&sameStep == 0 {
			step = readSpan(r)
		}
		first, last := of.first, of.last+step
		if head&hasFirst != 0 {
			first -= int64(r.Uint())
		}
		t.seen(c, last)
		of.seen(first, last)
		t.readCounted(r, of, last)
		if head&hasOlder != 0 {
			for range r.Count(2) {
				t.readCounted(r, of, last-readSpan(r))
			}
		}
		if head&hasOthers != 0 {
			t.readStates(r, c, of, last)
		}
	}
	t.readTargets(r, c)
}

// appendTarget appends a target that the Table knows, so many places behind the one in front of it.
func (b *Batch) appendTarget(dst []byte, was, now *target, gap int, step int64) []byte {
	b.changed, b.sums = b.changed[:0], b.sums[:0]
	var others []*state
	for i := range now.states {
		s, from := &now.states[i], len(b.sums)
		if place, had := was.places[s.series]; had && b.sum(&was.states[place], s) {
			b.changed = append(b.changed, change{now.last - s.time, place, from, len(b.sums)})
		} else {
			others = append(others, s)
		}
	}
	order.By(b.changed, func(x, y *change) int {
		return cmp.Or(cmp.Compare(x.age, y.age), cmp.Compare(x.place, y.place))
	})
	var byAge [][]change
	for list := b.changed; len(list) > 0; {
		n := 1
		for n < len(list) && list[n].age == list[0].age {
			n++
		}
		byAge, list = append(byAge, list[:n]), list[n:]
	}
	current, older := []change(nil), byAge
	if len(byAge) > 0 && byAge[0][0].age == 0 {
		current, older = byAge[0], byAge[1:]
	}
	head := uint64(gap)<<flagBits | flag(sameStep, now.last-was.last == step) | flag(hasFirst, now.first < was.first) |
		flag(hasOlder, len(older) > 0) | flag(hasOthers, len(others) > 0)
	dst = binary.AppendUvarint(dst, head)
	if head&sameStep == 0 {
		dst = appendSpan(dst, now.last-was.last)
	}
	if head&hasFirst != 0 {
		dst = binary.AppendUvarint(dst, uint64(was.first-now.first))
	}
	dst = b.appendCounted(dst, was, current)
	if head&hasOlder != 0 {
		dst = binary.AppendUvarint(dst, uint64(len(older)))
		for _, list := range older {
			dst = b.appendCounted(appendSpan(dst, list[0].age), was, list)
		}
	}
	if head&hasOthers != 0 {
		dst = binary.AppendUvarint(dst, uint64(len(others)))
		for _, s := range others {
			dst = s.append(dst, now.last)
		}
	}
	return dst
}

func flag(bit uint64, is bool) uint64 {
	if is {
		return bit
	}
	return 0
}

// appendCounted appends counters of a target whose last points are of one time: how many, their places, and what they
// counted.
func (b *Batch) appendCounted(dst []byte, of *target, list []change) []byte {
	dst = appendPlaces(binary.AppendUvarint(dst, uint64(len(list))), list, len(of.states))
	for _, x := range list {
		dst = append(dst, b.sums[x.from:x.to]...)
	}
	return dst
}

// readCounted is the inverse of appendCounted. The Table gets what it read.
func (t *Table) readCounted(r *binread.Reader, of *target, at int64) {
	n := r.Uint()
	if n > uint64(len(of.states)) {
		r.Fail()
		return
	}
	t.places = readPlaces(t.places[:0], r, int(n), len(of.states))
	for _, place := range t.places {
		if r.Bad() {
			return
		}
		s := &of.states[place]
		s.time, s.alive = at, 0
		if s.count += r.Uint(); s.form == "" {
			continue
		}
		t.now.read(s)
		for i := range t.now.Buckets {
			t.now.Buckets[i] += r.Uint()
		}
		t.buf = append(t.now.appendForm(t.buf[:0]), t.now.tail...)
		t.bytes += len(t.buf) - len(s.form)
		s.form = string(t.buf)
	}
}

// sum appends to sums what a counter added to its count and its buckets. only is false if it did something else.
func (b *Batch) sum(was, now *state) (only bool) {
	if now.count < was.count {
		return false
	}
	b.sums = binary.AppendUvarint(b.sums, now.count-was.count)
	if now.form == "" || was.form == "" {
		return now.form == was.form
	}
	b.was.read(was)
	b.now.read(now)
	if b.was.Layout != b.now.Layout || b.was.Scale != b.now.Scale || b.was.Offset != b.now.Offset ||
		len(b.was.Buckets) != len(b.now.Buckets) || string(b.was.tail) != string(b.now.tail) {
		return false
	}
	for i, n := range b.now.Buckets {
		if n < b.was.Buckets[i] {
			return false
		}
		b.sums = binary.AppendUvarint(b.sums, n-b.was.Buckets[i])
	}
	return true
}

// appendTargets appends targets with all that they have.
func appendTargets(dst []byte, list []*target) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(list)))
	for _, of := range list {
		dst = binary.AppendVarint(appendKey(dst, of.at.metric), of.at.start)
		dst = binary.AppendVarint(appendKey(dst, of.at.source), of.first)
		dst = binary.AppendUvarint(dst, uint64(of.last-of.first))
		dst = binary.AppendUvarint(dst, uint64(len(of.states)))
		for i := range of.states {
			dst = of.states[i].append(dst, of.last)
		}
	}
	return dst
}

// readTargets is the inverse of appendTargets. The Table gets what it read.
func (t *Table) readTargets(r *binread.Reader, c *class) {
	for range r.Count(2*keyBytes + 4) {
		at := targetKey{run{readKey(r), r.Varint()}, readKey(r)}
		first := r.Varint()
		last := first + int64(r.Uint())
		t.seen(c, last)
		t.readStates(r, c, c.target(at, first, last), last)
	}
}

func (t *Table) seen(c *class, last int64) {
	c.newest = max(c.newest, last)
	t.newest = max(t.newest, last)
}

func (s *state) append(dst []byte, last int64) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, s.series)
	dst = binary.AppendUvarint(binary.AppendUvarint(dst, uint64(last-s.time)), s.count)
	return binread.AppendText(dst, s.form)
}

// readStates reads a number and so many states of a target.
func (t *Table) readStates(r *binread.Reader, c *class, of *target, last int64) {
	for range r.Count(seriesBytes + 3) {
		now := state{series: readUint64(r), time: last - int64(r.Uint()), count: r.Uint(), form: r.Text()}
		was, had := of.state(now.series)
		if t.bytes += len(now.form) - len(was.form); !had {
			t.series++
			t.bytes += overhead
		}
		if had && now.count < was.count {
			of.fell = max(of.fell, now.time)
		}
		of.put(now)
		c.countBegan(&was, -1)
		c.countBegan(&now, 1)
	}
}

// appendSpan appends a time between two points, which often are whole seconds or milliseconds.
func appendSpan(dst []byte, span int64) []byte {
	switch {
	case span%int64(time.Second) == 0:
		return binary.AppendVarint(dst, span/int64(time.Second)<<1)
	case span%int64(time.Millisecond) == 0:
		return binary.AppendVarint(dst, span/int64(time.Millisecond)<<2|1)
	}
	return binary.AppendVarint(binary.AppendVarint(dst, 3), span)
}

func readSpan(r *binread.Reader) int64 {
	switch n := r.Varint(); {
	case n&1 == 0:
		return n >> 1 * int64(time.Second)
	case n&2 == 0:
		return n >> 2 * int64(time.Millisecond)
	}
	return r.Varint()
}

func appendKey(dst []byte, k Key) []byte {
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(dst, k.Lo), k.Hi)
}

func readKey(r *binread.Reader) (k Key) {
	lo := readUint64(r)
	return Key{Lo: lo, Hi: readUint64(r)}
}

func readUint64(r *binread.Reader) uint64 {
	if b := r.Take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}
