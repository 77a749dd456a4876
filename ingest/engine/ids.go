package engine

import (
	"time"

	"github.com/zeebo/xxh3"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/reliability/wal"
)

// knownIDs are the ids of the events that count already. What it knows is a
// function of the log: it follows from the records in their order and from
// their times. One goroutine owns it.
type knownIDs struct {
	bytes    int64 // of one generation
	capacity int   // keys after which a generation is full
	maxAge   int64 // ns after which a generation is old

	young, old *idGeneration
	next       uint64 // number of the next generation

	// epochs are how often each service was forgotten. Never changed, but replaced.
	epochs map[string]uint64

	// What the records since mark changed, to be taken back if they cannot be
	// written.
	added  []xxh3.Uint128
	turned []idTurn
	start  int64 // of the generation that was young at mark

	touched uint64 // what touch read, so that it is read at all
}

// idGeneration is a set of keys that only grows, until it is forgotten whole.
type idGeneration struct {
	number  uint64
	start   int64 // receive time of its first record, Unix ns; 0 while empty
	table   *idTable
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

// renew has the next checkpoint write all keys to new files.
func (ids *knownIDs) renew() {
	for _, g := range []*idGeneration{ids.old, ids.young} {
		if g == nil {
			continue
		}
		ids.next++
		g.number, g.unsaved = ids.next, nil
		g.table.each(g.unsaved.add)
	}
}

type idTurn struct {
	added   int // keys added before it
	dropped *idGeneration
}

func newKnownIDs(opt IDOptions) *knownIDs {
	ids := &knownIDs{bytes: opt.Bytes / 2, maxAge: int64(opt.MaxAge / 2)}
	ids.capacity = max(1, int(ids.bytes/idKeyBytes*4/5))
	ids.old, ids.young = nil, ids.generation()
	return ids
}

func (ids *knownIDs) generation() *idGeneration {
	ids.next++
	return &idGeneration{number: ids.next, table: newIDTable(ids.bytes)}
}

// due says whether a record of that time begins a new generation.
func (ids *knownIDs) due(at int64) bool {
	young := ids.young
	return young.table.count >= ids.capacity || young.start != 0 && at-young.start >= ids.maxAge
}

// begin must be called before the first add of every record that is, or will
// be, in the log. It says whether the record began a new generation.
func (ids *knownIDs) begin(at int64) (turned bool) {
	if turned = ids.due(at); turned {
		ids.turned = append(ids.turned, idTurn{len(ids.added), ids.old})
		ids.old, ids.young = ids.young, ids.generation()
	}
	if ids.young.start == 0 {
		ids.young.start = at
	}
	return turned
}

// touchAhead is how many keys are touched before they are looked up: enough for the
// misses to overlap, few enough that their slots stay in the cache.
const touchAhead = 64

// touch brings the slots of up to touchAhead keys into the cache.
func (ids *knownIDs) touch(keys []xxh3.Uint128) {
	sum := uint64(0)
	for _, key := range keys {
		sum += ids.young.table.touch(key)
	}
	if ids.old != nil {
		for _, key := range keys {
			sum += ids.old.table.touch(key)
		}
	}
	ids.touched = sum
}

func (ids *knownIDs) has(key xxh3.Uint128) bool {
	return ids.old != nil && ids.old.table.has(key) || ids.young.table.has(key)
}

// add makes key known and says whether it was not.
func (ids *knownIDs) add(key xxh3.Uint128) bool {
	if ids.old != nil && ids.old.table.has(key) {
		return false
	}
	if !ids.young.table.add(key) {
		return false
	}
	ids.young.unsaved.add(key)
	ids.added = append(ids.added, key)
	return true
}

// mark makes what was added so far final.
func (ids *knownIDs) mark() {
	ids.added = ids.added[:0]
	clear(ids.turned)
	ids.turned = ids.turned[:0]
	ids.start = ids.young.start
}

// rollback takes back everything since mark.
func (ids *knownIDs) rollback() {
	for {
		from := 0
		if n := len(ids.turned); n > 0 {
			from = ids.turned[n-1].added
		}
		young := ids.young
		for _, key := range ids.added[from:] {
			young.table.remove(key)
		}
		young.unsaved.drop(len(ids.added) - from)
		ids.added = ids.added[:from]
		n := len(ids.turned)
		if n == 0 {
			young.start = ids.start
			return
		}
		ids.young, ids.old = ids.old, ids.turned[n-1].dropped
		ids.next--
		ids.turned = ids.turned[:n-1]
	}
}

// idStats are the figures of the known ids that others may see.
type idStats struct {
	count   int
	bytes   int64
	start   int64 // of the older generation, Unix ns; 0 if nothing is known
	horizon time.Duration
}

func (ids *knownIDs) stats(now int64) idStats {
	s := idStats{
		count: ids.young.table.count, bytes: ids.young.table.bytes(), start: ids.young.start,
	}
	if ids.old != nil {
		s.count += ids.old.table.count
		s.bytes += ids.old.table.bytes()
		s.start = ids.old.start
	}
	s.horizon = ids.horizon(s, now)
	return s
}

// horizon is how long an id that comes in now stays known, if ids go on coming
// in at the rate of what is known.
func (ids *knownIDs) horizon(s idStats, now int64) time.Duration {
	horizon := time.Duration(ids.maxAge)
	if s.count > 0 && now > s.start {
		// The rate of less than an hour, a backfill's say, would scare for nothing.
		perKey := float64(max(now-s.start, int64(time.Hour))) / float64(s.count)
		if full := perKey * float64(ids.capacity); full < float64(horizon) {
			horizon = time.Duration(full)
		}
	}
	return horizon
}

// replay makes the ids of a record known again.
func (ids *knownIDs) replay(rec *wal.Record, view *event.View) error {
	if rec.Type == RecordForget {
		return ids.forget(rec.Payload)
	}
	if rec.Type != RecordEvents && rec.Type != RecordReplay {
		return nil
	}
	events, err := ParseEvents(rec.Payload)
	if err != nil {
		return err
	}
	ids.begin(rec.Time)
	for body := events.Body; len(body) > 0 && rec.Type == RecordEvents; {
		n, err := view.Parse(body)
		if err != nil {
			return err
		}
		if !view.Assigned {
			ids.add(ids.key(view.Service, event.Key(view.Service, view.ID)))
		}
		body = body[n:]
	}
	events.EachKey(func(key xxh3.Uint128) { ids.add(key) })
	ids.mark()
	return nil
}
