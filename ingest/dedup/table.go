// Package dedup holds the deduplication table: the ids of the events that count already.
//
// Keys are 128-bit hashes in two generations. A generation that is full or old enough becomes the older one, and the
// one before it is dropped. So memory is bounded, and an id is recognised for at least half of [Options.MaxAge], unless
// [Options.Bytes] run out first.
//
// The content of the table follows from the records of the log, in their order and with their times. The package does
// not know the log, its records or files: the engine adds the ids of each record, a checkpoint saves the result of
// [Table.Capture], and [Restore] builds a table from that.
package dedup

import (
	"encoding/binary"
	"maps"
	"time"

	"github.com/zeebo/xxh3"
)

// Table is the set of keys that count already. It has no lock. During recovery it belongs to the goroutine that reads
// the log for it, and from then on to the committer.
type Table struct {
	// Set by New and never changed.
	bytes    int64 // of one generation
	capacity int   // keys after which a generation is full
	maxAge   int64 // ns after which a generation is old

	// Keys are added to newer only. A look-up asks both; older is nil until the first rotation.
	newer, older *generation
	next         uint64 // number of the next generation

	// epochs counts how often each service was forgotten. The map is replaced, never changed: captures that a
	// checkpoint is still writing share the old one.
	epochs map[string]uint64

	// Changes since Mark. Keys are added before their records are written, so that one group finds its own duplicates.
	// Rollback undoes them if the write fails: an id must not count as a duplicate of an event that is not in the log.
	added   []xxh3.Uint128
	rotated []idRotation
	start   int64 // start of the newer generation at Mark

	touched uint64 // sum of the reads of Touch: without a use the compiler would drop them
}

// generation is a set of keys that only grows until it is dropped as a whole. So its file in a checkpoint only grows,
// too, and a checkpoint writes only unsaved.
type generation struct {
	number  uint64
	start   int64 // receive time of its first record, Unix ns; 0 while empty
	table   *keySet
	unsaved keyChunks // not yet handed to a checkpoint
}

// keyChunks is a list of keys that grows without copying those in it.
type keyChunks [][]xxh3.Uint128

const keyChunk = 8192

func (c *keyChunks) add(key xxh3.Uint128) {
	last := len(*c) - 1
	if last < 0 || len((*c)[last]) == cap((*c)[last]) {
		*c = append(*c, make([]xxh3.Uint128, 0, keyChunk))
		last++
	}
	(*c)[last] = append((*c)[last], key)
}

// drop takes the last n keys off.
func (c *keyChunks) drop(n int) {
	for n > 0 {
		last := len(*c) - 1
		chunk := (*c)[last]
		k := min(n, len(chunk))
		(*c)[last] = chunk[:len(chunk)-k]
		if n -= k; k == len(chunk) {
			*c = (*c)[:last]
		}
	}
}

// Renew makes the next checkpoint write all keys to new files, which is how damaged files
// are replaced.
func (ids *Table) Renew() {
	for _, g := range []*generation{ids.older, ids.newer} {
		if g == nil {
			continue
		}
		ids.next++
		g.number, g.unsaved = ids.next, nil
		g.table.each(g.unsaved.add)
	}
}

// idRotation is a change of generations that Rollback may have to undo.
type idRotation struct {
	added   int // keys added before it
	dropped *generation
}

// New makes an empty table.
func New(opt Options) *Table {
	ids := &Table{bytes: opt.Bytes / 2, maxAge: int64(opt.MaxAge / 2)}
	ids.capacity = max(1, int(ids.bytes/KeyBytes*4/5))
	ids.older, ids.newer = nil, ids.generation()
	return ids
}

func (ids *Table) generation() *generation {
	ids.next++
	return &generation{number: ids.next, table: newKeySet(ids.bytes)}
}

// due reports whether a record of that time begins a new generation.
func (ids *Table) due(at int64) bool {
	newer := ids.newer
	return newer.table.count >= ids.capacity || newer.start != 0 && at-newer.start >= ids.maxAge
}

// Begin must be called before the first Add of every record that is, or will be, in the log, with its receive time.
// Generations change only here, so that reading the log again changes them at the same records. It reports whether one
// began.
func (ids *Table) Begin(at int64) (rotated bool) {
	if rotated = ids.due(at); rotated {
		ids.rotated = append(ids.rotated, idRotation{len(ids.added), ids.older})
		ids.older, ids.newer = ids.newer, ids.generation()
	}
	if ids.newer.start == 0 {
		ids.newer.start = at
	}
	return rotated
}

// TouchAhead is how many keys are touched before they are looked up: enough for the
// misses to overlap, few enough that their slots stay in the cache.
const TouchAhead = 64

// Touch brings the slots of up to TouchAhead keys into the cache.
func (ids *Table) Touch(keys []xxh3.Uint128) {
	sum := uint64(0)
	for _, key := range keys {
		sum += ids.newer.table.touch(key)
	}
	if ids.older != nil {
		for _, key := range keys {
			sum += ids.older.table.touch(key)
		}
	}
	ids.touched = sum
}

// Has reports whether the table holds key.
func (ids *Table) Has(key xxh3.Uint128) bool {
	return ids.older != nil && ids.older.table.has(key) || ids.newer.table.has(key)
}

// Since is the receive time from which on the table knows all ids, in Unix nanoseconds; 0 while it has dropped none.
// After a repair it may name a time although none was dropped.
func (ids *Table) Since() int64 {
	const dropping = 3 // the number of the generation whose beginning drops the first one
	if ids.older == nil || ids.newer.number < dropping {
		return 0
	}
	return ids.older.start + 1 // the dropped generation may have an id of the same time
}

// Add adds key and reports whether it was new.
func (ids *Table) Add(key xxh3.Uint128) bool {
	if ids.older != nil && ids.older.table.has(key) {
		return false
	}
	if !ids.newer.table.add(key) {
		return false
	}
	ids.newer.unsaved.add(key)
	ids.added = append(ids.added, key)
	return true
}

// Mark notes that the records of all keys added so far are durable: Rollback keeps them.
func (ids *Table) Mark() {
	ids.added = ids.added[:0]
	clear(ids.rotated)
	ids.rotated = ids.rotated[:0]
	ids.start = ids.newer.start
}

// Rollback undoes everything since Mark, the latest change first.
func (ids *Table) Rollback() {
	for {
		from := 0
		if n := len(ids.rotated); n > 0 {
			from = ids.rotated[n-1].added
		}
		newer := ids.newer
		for _, key := range ids.added[from:] {
			newer.table.remove(key)
		}
		newer.unsaved.drop(len(ids.added) - from)
		ids.added = ids.added[:from]
		n := len(ids.rotated)
		if n == 0 {
			newer.start = ids.start
			return
		}
		ids.newer, ids.older = ids.older, ids.rotated[n-1].dropped
		ids.next--
		ids.rotated = ids.rotated[:n-1]
	}
}

// Stats are the size of the table and how far back it reaches.
type Stats struct {
	Count  int
	Bytes  int64
	Start  int64 // of the older generation, Unix ns; 0 while the table is empty
	Window time.Duration
}

// Stats returns the figures at a time in Unix nanoseconds.
func (ids *Table) Stats(now int64) Stats {
	s := Stats{
		Count: ids.newer.table.count, Bytes: ids.newer.table.bytes(), Start: ids.newer.start,
	}
	if ids.older != nil {
		s.Count += ids.older.table.count
		s.Bytes += ids.older.table.bytes()
		s.Start = ids.older.start
	}
	s.Window = ids.window(s, now)
	return s
}

// window is how long an id that is added now is recognised, if ids keep arriving at the rate of those in the table.
func (ids *Table) window(s Stats, now int64) time.Duration {
	window := time.Duration(ids.maxAge)
	if s.Count > 0 && now > s.Start {
		// A rate over less than an hour, such as that of a backfill, would give an alarming value for nothing.
		perKey := float64(max(now-s.Start, int64(time.Hour))) / float64(s.Count)
		if full := perKey * float64(ids.capacity); full < float64(window) {
			window = time.Duration(full)
		}
	}
	return window
}

// Options bound the table.
type Options struct {
	Bytes  int64         `yaml:"memory" min:"1MiB" is:"size"` // of both generations; 512 MiB
	MaxAge time.Duration `yaml:"max_age" above:"0"`           // of both generations; 7 days
}

// Capture holds the additions to the table since the last capture.
type Capture struct {
	Seq         uint64               // the position of the log that it belongs to
	At          int64                // receive time of that record, Unix ns
	Next        uint64               // number of the next generation
	Generations []CapturedGeneration // the older first
	Epochs      map[string]uint64
}

// CapturedGeneration holds the additions to one generation.
type CapturedGeneration struct {
	Number uint64
	Start  int64
	Count  int // of all its keys
	Keys   keyChunks
}

// Capture returns the keys that no capture had before. The caller owns them.
func (ids *Table) Capture(seq uint64, at int64) *Capture {
	c := &Capture{Seq: seq, At: at, Next: ids.next, Epochs: ids.epochs}
	for _, g := range []*generation{ids.older, ids.newer} {
		if g != nil {
			c.Generations = append(c.Generations, CapturedGeneration{g.number, g.start, g.table.count, g.unsaved})
			g.unsaved = nil
		}
	}
	return c
}

// Key is the key by which an event of a service counts once: its own, and in a later
// epoch of the service another one.
func (ids *Table) Key(service []byte, key xxh3.Uint128) xxh3.Uint128 {
	epoch := ids.epochs[string(service)]
	if epoch == 0 {
		return key
	}
	var b [24]byte
	binary.LittleEndian.PutUint64(b[:], key.Hi)
	binary.LittleEndian.PutUint64(b[8:], key.Lo)
	binary.LittleEndian.PutUint64(b[16:], epoch)
	return xxh3.Hash128(b[:])
}

// Forget begins a new epoch of each service: ids that were added before are not recognised from here on.
func (ids *Table) Forget(services []string) {
	epochs := maps.Clone(ids.epochs) // captures share the old ones
	if epochs == nil {
		epochs = map[string]uint64{}
	}
	for _, s := range services {
		epochs[s]++
	}
	ids.epochs = epochs
}

// AnyForgotten reports whether the key of any service differs from the plain one.
func (ids *Table) AnyForgotten() bool { return len(ids.epochs) > 0 }

// Restore builds a table from a checkpoint.
type Restore struct {
	ids         *Table
	generations []*generation // the older first
}

// NewRestore begins with no generation. next is the number of the next one.
func NewRestore(opt Options, next uint64, epochs map[string]uint64) *Restore {
	ids := New(opt)
	ids.next, ids.epochs = next, epochs
	return &Restore{ids: ids}
}

// Generation adds a generation with room for that many keys, the older one first.
func (r *Restore) Generation(number uint64, start int64, keys uint64) {
	g := &generation{number: number, start: start, table: newKeySet(r.ids.bytes)}
	g.table.reserve(int(keys))
	r.generations = append(r.generations, g)
}

// Add puts a key into the generation at that place.
func (r *Restore) Add(generation int, key xxh3.Uint128) { r.generations[generation].table.add(key) }

// Table returns the table of the one or two generations.
func (r *Restore) Table() *Table {
	r.ids.newer = r.generations[len(r.generations)-1]
	if len(r.generations) == 2 {
		r.ids.older = r.generations[0]
	}
	r.ids.Mark()
	return r.ids
}
