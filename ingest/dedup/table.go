// Package dedup holds the deduplication table: the ids of the events that count already.
//
// Each id belongs to a time: that of its event if the sender gives an event the same time whenever it sends it, such as
// the end of a span, else the receive time. When the table is full, the ids of the earliest times are evicted. So there
// is a floor: the ids of all times behind it are known, whatever order they came in.
//
// The content of the table follows from the records of the log, in their order and with their times. The package does
// not know the log, its records or files: the engine adds the ids of each record, a checkpoint saves the result of
// [Table.Capture], and [Restore] builds a table from that.
package dedup

import (
	"encoding/binary"
	"maps"
	"math"
	"time"

	"github.com/zeebo/xxh3"
)

// Times are counted in ticks: the fewest nanoseconds, a power of two, of which MaxAge has at most maxTicks. For 7 days
// that is 2.1 s. A slot holds the last tagBits of its tick. With these bounds they tell a tick that is known from one
// that is evicted and not swept yet.
const (
	maxTicks   = 400_000
	sweepTicks = 1 << 15 // that the floor may move before all shards are swept
	ringTicks  = 1 << 19
)

// ringTicks live ticks, and as many evicted ones, have tags of their own.
const _ = uint(ringTicks - maxTicks - 2*sweepTicks - 2)
const _ = uint(1<<tagBits - 2*ringTicks)

// evictShare of a full table is evicted at once, the earliest times first.
const evictShare = 8

// Table is the set of keys that count already. It has no lock. During recovery it belongs to the goroutine that reads
// the log for it, and from then on to the committer.
type Table struct {
	// Set by New and never changed.
	bytes    int64
	capacity int // keys after which the table is full
	maxAge   int64
	shift    uint8 // a tick has 2^shift ns

	// The set also has keys of evicted ticks, until they are swept. live is the number of the others, and counts that of
	// each tick.
	set    *keySet
	counts []uint32 // of a tick in its last bits
	live   int
	now    int64 // tick of the last record
	floor  int64 // ids of earlier ticks are not known
	first  int64 // no key is of an earlier tick
	timed  int64 // tick of the last record whose ids have times of their own

	sweep sweeping

	unsaved keyChunks // not yet handed to a checkpoint

	// epochs counts how often each service was forgotten. The map is replaced, never changed: captures that a
	// checkpoint is still writing share the old one.
	epochs map[string]uint64

	// Changes since Mark. Keys are added before their records are written, so that one group finds its own duplicates.
	// Rollback undoes them if the write fails: an id must not count as a duplicate of an event that is not in the log.
	added   []addedKey
	evicted []evictedTick
	marked  mark

	touched uint64 // sum of the reads of Touch: without a use the compiler would drop them
}

// addedKey is a change that Rollback may have to undo.
type addedKey struct {
	key  xxh3.Uint128
	tick int64
	// The set has an evicted key until it is swept. Adding it again gives it another tag.
	was     uint64
	revived bool
}

type evictedTick struct {
	tick  int64
	count uint32
}

// mark is what Rollback restores.
type mark struct {
	floor, first, now int64
	// set is that of Mark if all its keys were evicted since, with keys added to it before; else nil.
	set   *keySet
	added int
}

// sweeping is a pass through the shards that takes out evicted keys. It moves on with every Mark, so that no group pays
// for the whole table.
type sweeping struct {
	left  int   // shards
	from  int64 // floor at its beginning
	done  int64 // all shards are swept up to this floor
	added int   // keys since the last shard, times the pace
}

// sweepPace: a pass takes the time in which the live keys divided by this number are added.
const sweepPace = 2 * evictShare

// Keys are ids as a checkpoint stores them: 16 bytes with the tag of their tick, and the shard.
type Keys struct {
	Slots  []xxh3.Uint128
	Shards []uint8
}

// KeyBytes is the size of a stored id.
const KeyBytes = slotBytes + 1

// keyChunks is a list of keys that grows without copying those in it.
type keyChunks []Keys

const keyChunk = 8192

func (c *keyChunks) add(shard uint8, slot xxh3.Uint128) {
	last := len(*c) - 1
	if last < 0 || len((*c)[last].Slots) == keyChunk {
		*c = append(*c, Keys{make([]xxh3.Uint128, 0, keyChunk), make([]uint8, 0, keyChunk)})
		last++
	}
	k := &(*c)[last]
	k.Slots, k.Shards = append(k.Slots, slot), append(k.Shards, shard)
}

// drop takes the last n keys off.
func (c *keyChunks) drop(n int) {
	for n > 0 {
		last := len(*c) - 1
		chunk := &(*c)[last]
		left := len(chunk.Slots) - min(n, len(chunk.Slots))
		n -= len(chunk.Slots) - left
		chunk.Slots, chunk.Shards = chunk.Slots[:left], chunk.Shards[:left]
		if left == 0 {
			*c = (*c)[:last]
		}
	}
}

// New makes an empty table.
func New(opt Options) *Table {
	ids := &Table{bytes: opt.Bytes, capacity: opt.Capacity(), maxAge: int64(opt.MaxAge), shift: opt.Shift(),
		counts: make([]uint32, ringTicks), first: math.MaxInt64}
	ids.set = newKeySet(ids.bytes)
	ids.floor = math.MinInt64 >> ids.shift
	ids.Mark()
	return ids
}

// Renew makes the next checkpoint write all keys to new files, which is how damaged files and those with other ticks
// are replaced.
func (ids *Table) Renew() {
	ids.unsaved = nil
	ids.set.each(func(shard uint8, slot xxh3.Uint128) {
		if !ids.dead(slot.Hi >> tagShift) {
			ids.unsaved.add(shard, slot)
		}
	})
}

// dead reports whether a tag is that of an evicted tick.
func (ids *Table) dead(tag uint64) bool { return isDead(tag, uint64(ids.floor)) }

// floorAt is the floor of a record of that time, which its Begin sets, and whether it makes room.
func (ids *Table) floorAt(at int64) (floor int64, full bool) {
	floor = max(ids.floor, (at-ids.maxAge)>>ids.shift)
	tick, live := max(ids.first, ids.floor), ids.live
	for ; tick < floor && live > 0; tick++ {
		live -= int(ids.counts[tick&(ringTicks-1)])
	}
	if live < ids.capacity {
		return floor, false
	}
	// The ids of the last ticks stay, whatever the budget: without them nothing would be recognised.
	for end := at>>ids.shift - 1; tick < end && live > ids.capacity-max(1, ids.capacity/evictShare); tick++ {
		live -= int(ids.counts[tick&(ringTicks-1)])
		floor, full = tick+1, true
	}
	return floor, full
}

// Since is the time from which on a record of the time at finds all ids, in Unix nanoseconds.
func (ids *Table) Since(at int64) int64 {
	floor, _ := ids.floorAt(at)
	return floor << ids.shift
}

// Begin must be called before the first Add of every record that is, or will be, in the log, with its receive time.
// Ids are evicted only here, so that reading the log again evicts them at the same records. It reports whether the
// table was full.
func (ids *Table) Begin(at int64) (full bool) {
	floor, full := ids.floorAt(at)
	ids.now = at >> ids.shift
	for tick := max(ids.first, ids.floor); tick < floor && ids.live > 0; tick++ {
		if n := &ids.counts[tick&(ringTicks-1)]; *n > 0 {
			ids.live -= int(*n)
			ids.evicted = append(ids.evicted, evictedTick{tick, *n})
			*n = 0
		}
	}
	ids.floor, ids.first = floor, max(ids.first, floor)
	if ids.live == 0 && ids.set.count > 0 {
		// Nobody can say how far the floor has moved, and tags would mean other ticks.
		if ids.marked.set == nil {
			ids.marked.set, ids.marked.added = ids.set, len(ids.added)
		}
		ids.set, ids.first = newKeySet(ids.bytes), math.MaxInt64
	}
	return full
}

// TouchAhead is how many keys are touched before they are looked up: enough for the
// misses to overlap, few enough that their slots stay in the cache.
const TouchAhead = 64

// Touch brings the slots of up to TouchAhead keys into the cache.
func (ids *Table) Touch(keys []xxh3.Uint128) {
	sum := uint64(0)
	for _, key := range keys {
		sum += ids.set.touch(key)
	}
	ids.touched = sum
}

// Has reports whether the table holds key.
func (ids *Table) Has(key xxh3.Uint128) bool {
	tag, found := ids.set.get(key)
	return found && !ids.dead(tag)
}

// Add adds key with the time of its record, and reports whether it was new.
func (ids *Table) Add(key xxh3.Uint128) bool { return ids.add(key, ids.now) }

// AddAt adds key with a time of its own, and reports whether it was new. A time before the floor becomes that, and
// one after its record the record's.
func (ids *Table) AddAt(key xxh3.Uint128, at int64) bool {
	ids.timed = ids.now
	return ids.add(key, min(max(at>>ids.shift, ids.floor), ids.now))
}

func (ids *Table) add(key xxh3.Uint128, tick int64) bool {
	change := addedKey{key: key, tick: tick}
	slot, found := ids.set.slot(key, uint64(tick)&tagMask)
	if found {
		change.was = slot.Hi >> tagShift
		if !ids.dead(change.was) {
			return false
		}
		change.revived = true
		slot.Hi = slot.Hi&keptMask | uint64(tick)<<tagShift
	}
	ids.counts[tick&(ringTicks-1)]++
	ids.live++
	ids.first = min(ids.first, tick)
	ids.unsaved.add(uint8(key.Hi>>56), *slot)
	ids.added = append(ids.added, change)
	return true
}

// Mark notes that the records of all keys added so far are durable: Rollback keeps them.
func (ids *Table) Mark() {
	added := len(ids.added)
	ids.added, ids.evicted = ids.added[:0], ids.evicted[:0]
	ids.marked = mark{floor: ids.floor, first: ids.first, now: ids.now}
	ids.sweepSome(added)
}

// sweepSome takes out evicted keys, as many as so many added ones call for.
func (ids *Table) sweepSome(added int) {
	s := &ids.sweep
	evicted := ids.set.count - ids.live
	if evicted == 0 {
		*s = sweeping{done: ids.floor}
		return
	}
	if s.left == 0 {
		if evicted*evictShare < ids.set.count && ids.floor-s.done < sweepTicks {
			return
		}
		*s = sweeping{left: keyShards, from: ids.floor, done: s.done}
	}
	late := ids.floor-s.done >= 2*sweepTicks
	for s.added += added * keyShards * sweepPace; s.left > 0 && (late || s.added > ids.live); s.added -= ids.live {
		s.left--
		ids.set.sweep(s.left, uint64(ids.floor))
	}
	if s.left == 0 {
		s.done = s.from
	}
}

// Rollback undoes everything since Mark, the latest change first.
func (ids *Table) Rollback() {
	for _, e := range ids.evicted {
		ids.counts[e.tick&(ringTicks-1)] += e.count
		ids.live += int(e.count)
	}
	inSet := len(ids.added)
	if ids.marked.set != nil { // the present set is dropped, with the keys added since
		ids.set, inSet = ids.marked.set, ids.marked.added
	}
	for i := len(ids.added) - 1; i >= 0; i-- {
		a := &ids.added[i]
		ids.counts[a.tick&(ringTicks-1)]--
		ids.live--
		switch {
		case i >= inSet:
		case a.revived:
			slot, _ := ids.set.slot(a.key, 0)
			slot.Hi = slot.Hi&keptMask | a.was<<tagShift
		default:
			ids.set.remove(a.key)
		}
	}
	ids.unsaved.drop(len(ids.added))
	ids.floor, ids.first, ids.now = ids.marked.floor, ids.marked.first, ids.marked.now
	ids.Mark()
}

// Stats are the size of the table and how far back it reaches.
type Stats struct {
	Count  int
	Bytes  int64
	Window time.Duration

	// Short is how far back ids are known if events with times of their own have come lately and the memory evicts their
	// ids; else 0.
	Short time.Duration
}

// Stats returns the figures at a time in Unix nanoseconds.
func (ids *Table) Stats(now int64) Stats {
	s := Stats{Count: ids.live, Bytes: ids.set.bytes(), Window: ids.window(now)}
	if ids.timed > 0 && now-ids.timed<<ids.shift < int64(time.Hour) && ids.floor > (now-ids.maxAge)>>ids.shift {
		s.Short = time.Duration(now - ids.floor<<ids.shift)
	}
	return s
}

// window is how long an id that is added now is recognised, if ids keep arriving at the rate of those in the table.
func (ids *Table) window(now int64) time.Duration {
	window := time.Duration(ids.maxAge)
	if start := ids.first << ids.shift; ids.live > 0 && now > start {
		// A rate over less than an hour, such as that of a backfill, would give an alarming value for nothing.
		perKey := float64(max(now-start, int64(time.Hour))) / float64(ids.live)
		if full := perKey * float64(ids.capacity-ids.capacity/evictShare); full < float64(window) {
			window = time.Duration(full)
		}
	}
	return window
}

// Options bound the table.
type Options struct {
	Bytes  int64         `yaml:"memory" min:"1MiB" is:"size"` // 512 MiB
	MaxAge time.Duration `yaml:"max_age" above:"0"`           // 7 days
}

// Capacity is the number of ids after which a table is full.
func (o *Options) Capacity() int { return max(1, int(o.Bytes/slotBytes*4/5)) }

// Shift is the number of bits of a time that are within its tick.
func (o *Options) Shift() (shift uint8) {
	for shift = 1; int64(o.MaxAge)>>shift > maxTicks; shift++ {
	}
	return shift
}

// Capture holds the additions to the table since the last capture.
type Capture struct {
	Seq    uint64 // the position of the log that it belongs to
	At     int64  // receive time of that record, Unix ns
	Shift  uint8  // a tick has 2^Shift ns
	Floor  int64  // ids of earlier ticks are not known
	Count  int    // of ids
	Keys   []Keys
	Epochs map[string]uint64
}

// Capture returns the keys that no capture had before. The caller owns them.
func (ids *Table) Capture(seq uint64, at int64) *Capture {
	c := &Capture{Seq: seq, At: at, Shift: ids.shift, Floor: ids.floor, Count: ids.live, Keys: ids.unsaved,
		Epochs: ids.epochs}
	ids.unsaved = nil
	return c
}

// Tick is the tick of a stored id in a table with that floor.
func Tick(slot xxh3.Uint128, floor int64) int64 {
	ahead := (slot.Hi>>tagShift - uint64(floor)) & tagMask
	return floor + int64(ahead<<tagShift)>>tagShift // with the sign of the tag
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
	ids   *Table
	shift uint8 // of the stored ticks
	floor int64 // in stored ticks
}

// NewRestore begins with an empty table that has room for so many keys. The floor, and the ticks of keys, are in
// ticks of 2^shift ns.
func NewRestore(opt Options, keys uint64, shift uint8, floor int64, epochs map[string]uint64) *Restore {
	ids := New(opt)
	ids.epochs = epochs
	ids.set.reserve(int(min(keys, uint64(ids.capacity))))
	ids.floor = floor << shift >> ids.shift
	ids.now = ids.floor
	return &Restore{ids, shift, floor}
}

// AddSaved adds a stored id, unless it was evicted.
func (r *Restore) AddSaved(shard uint8, slot xxh3.Uint128) {
	if tick := Tick(slot, r.floor); tick >= r.floor {
		r.Add(xxh3.Uint128{Hi: uint64(shard)<<56 | slot.Hi&keptMask, Lo: slot.Lo}, tick)
	}
}

// Add adds a key with its tick.
func (r *Restore) Add(key xxh3.Uint128, tick int64) {
	ids := r.ids
	tick = max(tick<<r.shift>>ids.shift, ids.floor)
	if _, found := ids.set.slot(key, uint64(tick)&tagMask); !found {
		ids.counts[tick&(ringTicks-1)]++
		ids.live++
		ids.first = min(ids.first, tick)
	}
}

// Table returns the table of the keys.
func (r *Restore) Table() *Table {
	r.ids.Mark()
	return r.ids
}
