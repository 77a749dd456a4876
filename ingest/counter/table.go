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

	"github.com/sloengine/sloengine/ingest/binread"
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

// The lengths of an encoded Key and Point.Series.
const (
	keyBytes    = 16
	seriesBytes = 8
)

// format is that of positions and checkpoints.
const format = 1

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
}

type class struct {
	since   int64 // what was added before does not count
	newest  int64 // time of a point
	swept   int64 // newest when its targets were swept
	touched int64 // Table.newest when the last point came
	targets map[targetKey]*target
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

func (c *class) countBegan(s state, n int) {
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
		of = &target{first: first, last: last, series: map[uint64]state{}}
		c.targets[at] = of
		c.runs[at.run]++
	}
	if last > of.last {
		of.before, of.last = of.last, last
	}
	of.first = min(of.first, first)
	return of
}

type target struct {
	first, last int64
	before      int64 // the last time before last, since the start; 0: unknown
	fell        int64 // when a counter of it began again last, since the start; 0: none did
	alive       int64 // the last time of a point that said nothing new, since the start
	series      map[uint64]state
}

// state is the last point of a counter.
type state struct {
	time   int64
	alive  int64  // the last time of a point that said nothing new, since the start
	counts string // Counts.append, and appendTail
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

func (s state) tail() (began int64, held bool) {
	if s.counts == "" {
		return 0, false
	}
	r := binread.New([]byte(s.counts))
	r.Uint()
	r.Uint()
	r.Varint()
	r.Varint()
	for range r.Count(1) {
		r.Uint()
	}
	if len(r.Rest) > 0 {
		began, held = r.Varint(), len(r.Rest) > 0
	}
	return began, held
}

// first is the first count.
func (s state) first() uint64 {
	r := binread.New([]byte(s.counts))
	return r.Uint()
}

// noteKey is where a text is noted.
type noteKey struct{ class, key Key }

// overhead is the memory of a state besides its counts.
const overhead = 120

// NewTable returns an empty Table.
func NewTable() *Table { return &Table{classes: map[Key]*class{}, notes: map[noteKey]string{}} }

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

// IsPosition reports whether a position of a record is that of a Batch. Those of sources begin with a name.
func IsPosition(b []byte) bool { return len(b) > 1 && b[0] == 0 && b[1] == format }

// Apply adds a position, and returns what it says was observed.
func (t *Table) Apply(position []byte) (seen []Observation, err error) {
	if !IsPosition(position) {
		return nil, fmt.Errorf("invalid position of counters, of %d bytes", len(position))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.version++
	r := binread.New(position[2:])
	if o := (Observation{Source: r.Text()}); o.Source != "" {
		o.readTimes(&r)
		seen = append(seen, o)
	}
	known := make(map[Key]bool, 1)
	t.read(&r, func(r *binread.Reader, key Key) *class {
		c := t.classes[key]
		known[key] = c != nil
		if c == nil {
			c = newClass()
			t.classes[key] = c
		}
		return c
	})
	if len(r.Rest) > 0 {
		for range r.Count(3) {
			o := Observation{Source: r.Text()}
			o.readTimes(&r)
			seen = append(seen, o)
		}
		t.readNotes(&r)
	}
	if len(r.Rest) > 0 {
		for range r.Count(keyBytes) {
			key := readKey(&r)
			if c := t.classes[key]; c != nil {
				t.forget(c, math.MaxInt64)
				delete(t.classes, key)
				delete(known, key)
			}
		}
	}
	if !r.Done() {
		return nil, fmt.Errorf("invalid position of counters, of %d bytes", len(position))
	}
	for key, was := range known {
		if c := t.classes[key]; !was {
			for _, of := range c.targets {
				c.since = max(c.since, of.last)
			}
		}
		c := t.classes[key]
		if c.touched = t.newest; c.newest-c.swept >= int64(sweepEvery) {
			c.swept = c.newest
			t.forget(c, c.newest-int64(keep))
		}
	}
	t.sweep()
	return seen, nil
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

// read adds what Batch.AppendPosition or Table.Encode wrote to the class that enter returns.
func (t *Table) read(r *binread.Reader, enter func(*binread.Reader, Key) *class) {
	for range r.Count(keyBytes + 1) {
		c := enter(r, readKey(r))
		for range r.Count(2*keyBytes + 4) {
			at := targetKey{run{readKey(r), r.Varint()}, readKey(r)}
			first := r.Varint()
			last := first + int64(r.Uint())
			of := c.target(at, first, last)
			c.newest = max(c.newest, last)
			t.newest = max(t.newest, last)
			for range r.Count(seriesBytes + 2) {
				key, when := readSeries(r), last-int64(r.Uint())
				counts := r.Bytes()
				was, had := of.series[key]
				if t.bytes += len(counts) - len(was.counts); !had {
					t.series++
					t.bytes += overhead
				}
				now := state{time: when, counts: string(counts)}
				if had && now.first() < was.first() {
					of.fell = max(of.fell, when)
				}
				of.series[key] = now
				c.countBegan(was, -1)
				c.countBegan(now, 1)
			}
		}
	}
}

// forget removes the targets of a class that have reported nothing since a time. What one that comes back says may be
// counted already, so that its class begins behind its last point.
func (t *Table) forget(c *class, before int64) {
	for at, of := range c.targets {
		if of.last >= before {
			continue
		}
		for _, s := range of.series {
			t.bytes -= overhead + len(s.counts)
			c.countBegan(s, -1)
		}
		t.series -= len(of.series)
		c.since = max(c.since, of.last)
		delete(c.targets, at)
		if c.runs[at.run]--; c.runs[at.run] == 0 {
			delete(c.runs, at.run)
		}
	}
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
			delete(t.classes, key)
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
	dst = binary.AppendUvarint(dst, uint64(len(t.classes)))
	for _, key := range slices.SortedFunc(maps.Keys(t.classes), compareKeys) {
		c := t.classes[key]
		dst = appendKey(dst, key)
		dst = binary.AppendVarint(dst, c.since)
		dst = binary.AppendVarint(dst, c.swept)
		dst = binary.AppendVarint(dst, c.touched)
		dst = c.append(dst)
	}
	if len(t.notes) > 0 {
		dst = appendNotes(dst, t.notes)
	}
	return dst
}

func (c *class) append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(c.targets)))
	for _, at := range slices.SortedFunc(maps.Keys(c.targets), func(a, b targetKey) int {
		return cmp.Or(cmpBy(a.start, b.start, a.metric, b.metric), compareKeys(a.source, b.source))
	}) {
		of := c.targets[at]
		dst = binary.AppendVarint(appendKey(dst, at.metric), at.start)
		dst = appendKey(dst, at.source)
		dst = binary.AppendVarint(dst, of.first)
		dst = binary.AppendUvarint(dst, uint64(of.last-of.first))
		dst = binary.AppendUvarint(dst, uint64(len(of.series)))
		for _, key := range slices.Sorted(maps.Keys(of.series)) {
			s := of.series[key]
			dst = binary.LittleEndian.AppendUint64(dst, key)
			dst = binary.AppendUvarint(dst, uint64(of.last-s.time))
			dst = binread.AppendText(dst, s.counts)
		}
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
	t.notes = map[noteKey]string{}
	t.newest, t.swept = r.Varint(), r.Varint()
	t.read(&r, func(r *binread.Reader, key Key) *class {
		c := newClass()
		c.since, c.swept, c.touched = r.Varint(), r.Varint(), r.Varint()
		t.classes[key] = c
		return c
	})
	if len(r.Rest) > 0 {
		t.readNotes(&r)
	}
	if !r.Done() {
		return fmt.Errorf("invalid counters of %d bytes", len(data))
	}
	return nil
}
