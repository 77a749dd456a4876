package dedup

import (
	"math/bits"

	"github.com/zeebo/xxh3"
)

// The form of a slot. Its first bits hold the tag in place of those of the key. The shard has eight of these, so that
// 116 bits of a key count: among 10^12 ids, the chance that one of them equals an id in a full table is below 10^-15.
const (
	keyShards  = 256
	tagBits    = 20
	tagShift   = 64 - tagBits
	tagMask    = 1<<tagBits - 1
	keptMask   = 1<<tagShift - 1 // of Hi
	slotBytes  = 16
	firstSlots = 8 // of a shard that holds anything
)

// keySet is a set of tagged keys in open addressing. It is cut into shards that grow one by one, so that no single
// insert pays for the whole table. The keys are hashes already.
//
// The keys of a shard stand in ascending order of Lo, and none before its home. So a search ends at the first larger
// key, and growing or sweeping a shard is one pass through it.
type keySet struct {
	shards   [keyShards]keyShard
	count    int
	slots    int // of all shards
	maxSlots int // of a shard, while chance spreads the keys evenly
}

type keyShard struct {
	slots []xxh3.Uint128 // the zero key is a free slot; the last one always is
	homes int            // slots at which a search can begin; the others take what is pushed past them
	count int
}

// newKeySet makes an empty table meant to stay within that many bytes.
func newKeySet(bytes int64) *keySet {
	return &keySet{maxSlots: max(firstSlots, int(bytes/slotBytes/keyShards))}
}

// place returns the shard of a key, and the key as a slot holds it, without a tag.
func (t *keySet) place(key xxh3.Uint128) (*keyShard, xxh3.Uint128) {
	shard := &t.shards[key.Hi>>56]
	key.Hi &= keptMask
	if key == (xxh3.Uint128{}) { // that is a free slot
		key.Lo = 1
	}
	return shard, key
}

func (t *keySet) bytes() int64 { return int64(t.slots) * slotBytes }

// home is the slot at which the search for a key begins. Multiplying spreads over
// any number of slots, so that a table can end at its budget exactly.
func (s *keyShard) home(lo uint64) int {
	high, _ := bits.Mul64(lo, uint64(s.homes))
	return int(high)
}

// find returns the slot that holds key, or the one where it belongs.
func (s *keyShard) find(key xxh3.Uint128) (slot int, found bool) {
	slots := s.slots
	for slot = s.home(key.Lo); slot < len(slots); slot++ {
		at := slots[slot]
		switch {
		case at.Lo == key.Lo && at.Hi&keptMask == key.Hi:
			return slot, true
		case at.Lo > key.Lo || at == (xxh3.Uint128{}):
			return slot, false
		}
	}
	return slot, false
}

// touch reads the slot at which the search for key begins. Reading those of many keys
// one after the other lets their cache misses overlap.
func (t *keySet) touch(key xxh3.Uint128) uint64 {
	s, key := t.place(key)
	if s.count == 0 {
		return 0
	}
	return s.slots[s.home(key.Lo)].Lo
}

// get returns the tag of key.
func (t *keySet) get(key xxh3.Uint128) (tag uint64, found bool) {
	s, key := t.place(key)
	if s.count == 0 {
		return 0, false
	}
	slot, found := s.find(key)
	if !found {
		return 0, false
	}
	return s.slots[slot].Hi >> tagShift, true
}

// slot returns the slot that holds key, to read or change its tag. A key that was missing is put in with the tag.
func (t *keySet) slot(key xxh3.Uint128, tag uint64) (at *xxh3.Uint128, found bool) {
	s, key := t.place(key)
	if s.slots == nil {
		t.resize(s, min(firstSlots, t.maxSlots))
	}
	slot, found := s.find(key)
	if found {
		return &s.slots[slot], true
	}
	key.Hi |= tag << tagShift
	for s.full(t.maxSlots) || !s.insert(slot, key) {
		next := 2 * s.homes
		if s.homes < t.maxSlots {
			next = min(next, t.maxSlots)
		}
		t.resize(s, next)
		slot, _ = s.find(xxh3.Uint128{Hi: key.Hi & keptMask, Lo: key.Lo})
	}
	s.count++
	t.count++
	return &s.slots[slot], false
}

// insert puts a key at a slot, and moves those from there on by one. It reports whether there was room.
func (s *keyShard) insert(slot int, key xxh3.Uint128) bool {
	free := slot
	for s.slots[free] != (xxh3.Uint128{}) {
		free++
	}
	if free == len(s.slots)-1 {
		return false
	}
	copy(s.slots[slot+1:free+1], s.slots[slot:free])
	s.slots[slot] = key
	return true
}

// full says whether the shard must grow before it takes one more. At its
// final size it is filled further, to make the most of the budget.
func (s *keyShard) full(maxSlots int) bool {
	if s.homes >= maxSlots {
		return (s.count+1)*16 > s.homes*15
	}
	return (s.count+1)*4 > s.homes*3
}

// resize gives the shard so many homes, or more if chance has put too many keys at its end.
func (t *keySet) resize(s *keyShard, homes int) {
	old := s.slots
	for ; ; homes *= 2 {
		s.homes, s.slots = homes, make([]xxh3.Uint128, homes+min(homes, 64)+1)
		free, ok := 0, true
		for _, key := range old {
			if key != (xxh3.Uint128{}) {
				slot := max(free, s.home(key.Lo))
				if ok = slot < len(s.slots)-1; !ok {
					break
				}
				s.slots[slot] = key
				free = slot + 1
			}
		}
		if ok {
			t.slots += len(s.slots) - len(old)
			return
		}
	}
}

// remove takes key out. The keys that were pushed past it move up, so that no
// search ends early.
func (t *keySet) remove(key xxh3.Uint128) {
	s, key := t.place(key)
	if s.count == 0 {
		return
	}
	hole, found := s.find(key)
	if !found {
		return
	}
	for next := hole + 1; ; next++ {
		if at := s.slots[next]; at == (xxh3.Uint128{}) || s.home(at.Lo) == next {
			break
		}
		s.slots[hole] = s.slots[next]
		hole = next
	}
	s.slots[hole] = xxh3.Uint128{}
	s.count--
	t.count--
}

// isDead reports whether a tag is that of a tick before the floor.
func isDead(tag, floor uint64) bool { return (tag-floor)&tagMask >= ringTicks }

// sweep takes the keys of a shard out whose ticks are before the floor.
func (t *keySet) sweep(shard int, floor uint64) {
	s := &t.shards[shard]
	before, free := s.count, 0
	for i, at := range s.slots {
		if at == (xxh3.Uint128{}) {
			continue
		}
		if isDead(at.Hi>>tagShift, floor) {
			s.slots[i] = xxh3.Uint128{}
			s.count--
			continue
		}
		if slot := max(free, s.home(at.Lo)); slot != i {
			s.slots[slot], s.slots[i] = at, xxh3.Uint128{}
			free = slot
		} else {
			free = i
		}
		free++
	}
	t.count -= before - s.count
}

// reserve makes room for that many keys at once, before a known number is put in.
func (t *keySet) reserve(count int) {
	slots := min(t.maxSlots, count/keyShards*4/3+64)
	for i := range t.shards {
		if s := &t.shards[i]; s.homes < slots {
			t.resize(s, slots)
		}
	}
}

// each calls f with every key as a slot holds it, and its shard.
func (t *keySet) each(f func(shard uint8, slot xxh3.Uint128)) {
	for i := range t.shards {
		for _, slot := range t.shards[i].slots {
			if slot != (xxh3.Uint128{}) {
				f(uint8(i), slot)
			}
		}
	}
}
