package counter

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/sloengine/sloengine/internal/binread"
)

// The bounds of a Table.
const (
	// MaxBytes is its memory, roughly: some 400,000 sums, or 250,000 histograms of 15 buckets.
	MaxBytes = 64 << 20
	// maxClasses is how many rules it remembers that no counter uses any more.
	maxClasses = 10_000
	// keep is how long a target is remembered that reports nothing while others of its class do, and keepClass how long
	// those of a class are of which none does: what was down for so long goes on.
	keep      = 25 * time.Hour
	keepClass = 40 * 24 * time.Hour
	// sweepEvery is how often they are looked for.
	sweepEvery = 10 * time.Minute
	// touch is how often a target is recorded though nothing is added.
	touch = time.Hour
)

// The lengths of an encoded Key, class.basis and Point.Series.
const (
	keyBytes    = 16
	basisBytes  = 8
	seriesBytes = 8
)

// format is that of positions and checkpoints. No release wrote format 1.
const format = 2

// Table has the last point of every counter. It is safe for concurrent use.
type Table struct {
	mu      sync.Mutex
	classes map[Key]*class
	notes   map[noteKey]string
	series  int
	bytes   int
	version uint64
	newest  int64 // time of a point
	swept   int64 // newest at that time
	partial bool  // records or a checkpoint were lost

	byBasis map[uint64]*class
	places  []int // the rest is reused
	buf     []byte
	now     decoded
}

// class has the counters of a rule.
type class struct {
	basis   uint64 // hash of all that it has come from, which no other class has
	since   int64  // what was added before does not count
	newest  int64  // time of a point
	swept   int64  // newest when its targets were swept
	touched int64  // Table.newest when the last point came
	targets map[targetKey]*target
	order   []*target     // in the order in which they were first seen
	runs    map[run]int   // the number of targets
	began   map[int64]int // the number of counters that began then, of those that say it in their tail
}

// run is a metric since its counters began. Start times have nanoseconds, so that hardly two sources have the same.
type run struct {
	metric Key
	start  int64
}

type targetKey struct {
	run
	source Key
}

func newClass() *class {
	return &class{targets: map[targetKey]*target{}, runs: map[run]int{}, began: map[int64]int{}}
}

func (c *class) countBegan(s *state, n int) {
	if began, _ := s.tail(); began != 0 {
		if c.began[began] += n; c.began[began] <= 0 {
			delete(c.began, began)
		}
	}
}

// target returns a target, which is new if need be.
func (c *class) target(at targetKey, first, last int64) *target {
	of := c.targets[at]
	if of == nil {
		of = &target{at: at, place: len(c.order), first: first, last: last, places: map[uint64]uint32{}}
		c.targets[at] = of
		c.order = append(c.order, of)
		c.runs[at.run]++
	}
	of.seen(first, last)
	return of
}

func (of *target) seen(first, last int64) {
	if last > of.last {
		of.before, of.last = of.last, last
	}
	of.first = min(of.first, first)
}

type target struct {
	at          targetKey
	place       int // in the order of its class
	first, last int64
	before      int64             // the last time before last, since the start; 0: unknown
	fell        int64             // when a counter of it began again last, since the start; 0: none did
	alive       int64             // the last time of a point that said nothing new, since the start
	places      map[uint64]uint32 // in states, by series
	states      []state           // in the order in which their counters were first seen
}

// put replaces the state of a counter.
func (of *target) put(s state) (had bool) {
	i, had := of.places[s.series]
	if had {
		of.states[i] = s
		return true
	}
	of.places[s.series] = uint32(len(of.states))
	of.states = append(of.states, s)
	return false
}

// state is the last point of a counter.
type state struct {
	series uint64
	time   int64
	alive  int64 // the last time of a point that said nothing new, since the start
	count  uint64
	form   string // Counts.appendForm, and appendTail; "" of one that has neither
}

// appendTail appends what few counters have: when they began, and whether the point is held, which is a first one of
// which the next one tells whether it counts.
func appendTail(dst []byte, began int64, held bool) []byte {
	if began != 0 || held {
		dst = binary.AppendVarint(dst, began)
	}
	if held {
		dst = append(dst, 1)
	}
	return dst
}

// decoded is a state as it is compared.
type decoded struct {
	Counts
	tail []byte
	form []byte
}

// read replaces d, which keeps its memory.
func (d *decoded) read(s *state) {
	d.Counts, d.tail = Counts{Count: s.count, Buckets: d.Buckets[:0]}, nil
	if s.form != "" {
		d.form = append(d.form[:0], s.form...)
		r := binread.New(d.form)
		d.readForm(&r)
		d.tail = r.Rest
	}
}

// readTail is the inverse of appendTail.
func (d *decoded) readTail() (began int64, held bool) {
	r := binread.New(d.tail)
	if len(r.Rest) > 0 {
		began, held = r.Varint(), len(r.Rest) > 0
	}
	return began, held
}

func (s *state) tail() (began int64, held bool) {
	if s.form == "" {
		return 0, false
	}
	r := binread.New([]byte(s.form))
	r.Uint()
	r.Varint()
	r.Varint()
	for range r.Count(1) {
		r.Uint()
	}
	return (&decoded{tail: r.Rest}).readTail()
}

// noteKey is where a text is noted.
type noteKey struct{ class, key Key }

// overhead is the memory of a state besides its counts.
const overhead = 120

// NewTable returns an empty Table.
func NewTable() *Table {
	return &Table{classes: map[Key]*class{}, byBasis: map[uint64]*class{}, notes: map[noteKey]string{}}
}

func (t *Table) add(key Key, basis uint64) *class {
	c := newClass()
	t.classes[key] = c
	t.rebase(c, basis)
	return c
}

func (t *Table) remove(key Key, c *class) {
	delete(t.classes, key)
	delete(t.byBasis, c.basis)
}

// change gives a class another basis, which follows from the one that it had and from what changed it.
func (t *Table) change(c *class, by uint64) {
	b := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, c.basis), by)
	t.rebase(c, xxh3.Hash(b))
}

func (t *Table) rebase(c *class, basis uint64) {
	delete(t.byBasis, c.basis)
	c.basis, t.byBasis[basis] = basis, c
}

// Lose says that the Table misses what the records in front of the next ones said. Counters whose next points depend on
// that begin again, so that what they added meanwhile does not count.
func (t *Table) Lose() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.partial = true
	t.version++
}

// Empty reports whether there is nothing to remember.
func (t *Table) Empty() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.bytes == 0 && !t.partial
}

// Notes hands out what was noted of a class.
func (t *Table) Notes(class Key, each func(key Key, text string)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for at, text := range t.notes {
		if at.class == class {
			each(at.key, text)
		}
	}
}

// Note is what was noted under a key of a class; "": nothing.
func (t *Table) Note(class, key Key) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.notes[noteKey{class, key}]
}

// Newest is the time of the newest point of a class; 0: it has none.
func (t *Table) Newest(class Key) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.classes[class]; c != nil {
		return c.newest
	}
	return 0
}

// Target is when the counters of a source without start times had their first and their last point.
func (t *Table) Target(class, metric, source Key) (first, last int64, known bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := find(t.classes, class, targetKey{run{metric: metric}, source})
	if of == nil {
		return 0, 0, false
	}
	return of.first, of.last, true
}

// Behind reports whether a target of a class has no point yet of the time when the same one of another class was first
// seen, or none after since, if that is unknown or after until.
func (t *Table) Behind(class, than Key, since, until int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.classes[class]
	if c == nil {
		return false
	}
	for at, of := range c.targets {
		first := since + 1
		if other := find(t.classes, than, at); other != nil && other.first <= until {
			first = other.first
		}
		if of.last < first {
			return true
		}
	}
	return false
}

// Version changes with every change of the Table.
func (t *Table) Version() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.version
}

// Size is the number of counters and about how many bytes they take.
func (t *Table) Size() (series, bytes int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.series, t.bytes
}

func (t *Table) readNotes(r *binread.Reader) {
	for range r.Count(2*keyBytes + 1) {
		at := noteKey{readKey(r), readKey(r)}
		if was, had := t.notes[at]; had {
			t.bytes -= overhead + len(was)
			delete(t.notes, at)
		}
		if text := r.Text(); text != "" {
			t.notes[at] = text
			t.bytes += overhead + len(text)
		}
	}
}

func appendNotes(dst []byte, notes map[noteKey]string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(notes)))
	for _, at := range slices.SortedFunc(maps.Keys(notes), func(a, b noteKey) int {
		return cmp.Or(compareKeys(a.class, b.class), compareKeys(a.key, b.key))
	}) {
		dst = binread.AppendText(appendKey(appendKey(dst, at.class), at.key), notes[at])
	}
	return dst
}

// forget removes the targets of a class that have reported nothing since a time. What one that comes back says may be
// counted already, so that its class begins behind its last point.
func (t *Table) forget(c *class, before int64) {
	kept := c.order[:0]
	for _, of := range c.order {
		if of.last >= before {
			of.place = len(kept)
			kept = append(kept, of)
			continue
		}
		for i := range of.states {
			t.bytes -= overhead + len(of.states[i].form)
			c.countBegan(&of.states[i], -1)
		}
		t.series -= len(of.states)
		c.since = max(c.since, of.last)
		delete(c.targets, of.at)
		if c.runs[of.at.run]--; c.runs[of.at.run] == 0 {
			delete(c.runs, of.at.run)
		}
	}
	if len(kept) < len(c.order) {
		t.change(c, 0)
	}
	clear(c.order[len(kept):])
	c.order = kept
}

// sweep forgets the targets of classes that have reported nothing for long, and sooner where room becomes scarce. One
// class may read the past while another one is long in the present.
func (t *Table) sweep() {
	if t.newest-t.swept < int64(sweepEvery) {
		return
	}
	t.swept = t.newest
	last := t.newest - int64(keepClass)
	if t.bytes > MaxBytes/2 {
		last = t.newest - int64(keep)
	}
	var idle []Key
	for key, c := range t.classes {
		if c.touched < last {
			t.forget(c, math.MaxInt64)
		}
		if len(c.targets) == 0 {
			idle = append(idle, key)
		}
	}
	if over := len(idle) - maxClasses; over > 0 {
		slices.SortFunc(idle, func(a, b Key) int {
			return cmpBy(t.classes[a].since, t.classes[b].since, a, b)
		})
		for _, key := range idle[:over] {
			t.remove(key, t.classes[key])
		}
	}
}

// Encode appends the Table as a part of a checkpoint. Equal Tables give equal bytes.
func (t *Table) Encode(dst []byte) []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	dst = append(dst, format)
	dst = binary.AppendVarint(dst, t.newest)
	dst = binary.AppendVarint(dst, t.swept)
	dst = binread.AppendBool(dst, t.partial)
	dst = binary.AppendUvarint(dst, uint64(len(t.classes)))
	for _, key := range slices.SortedFunc(maps.Keys(t.classes), compareKeys) {
		c := t.classes[key]
		dst = binary.LittleEndian.AppendUint64(appendKey(dst, key), c.basis)
		dst = binary.AppendVarint(dst, c.since)
		dst = binary.AppendVarint(dst, c.swept)
		dst = binary.AppendVarint(dst, c.touched)
		dst = appendTargets(dst, c.order)
	}
	if len(t.notes) > 0 {
		dst = appendNotes(dst, t.notes)
	}
	return dst
}

// Restore replaces the Table by an encoded one.
func (t *Table) Restore(data []byte) error {
	r := binread.New(data)
	if v := r.Take(1); len(v) == 1 && v[0] != format {
		return fmt.Errorf("counters have format %d, and this program reads format %d", v[0], format)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.version, t.series, t.bytes, t.classes = t.version+1, 0, 0, map[Key]*class{}
	t.byBasis, t.notes = map[uint64]*class{}, map[noteKey]string{}
	t.newest, t.swept, t.partial = r.Varint(), r.Varint(), r.Bool()
	for range r.Count(keyBytes + basisBytes + 4) {
		c := t.add(readKey(&r), readUint64(&r))
		c.since, c.swept, c.touched = r.Varint(), r.Varint(), r.Varint()
		t.readTargets(&r, c)
	}
	if len(r.Rest) > 0 {
		t.readNotes(&r)
	}
	if !r.Done() {
		return fmt.Errorf("invalid counters of %d bytes", len(data))
	}
	return nil
}
