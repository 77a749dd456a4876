package dedup

import (
	"math/bits"

	"github.com/zeebo/xxh3"
)

const (
	keyShards  = 256
	KeyBytes   = 16
	firstSlots = 8 // slots of a shard that holds anything
)

// keySet is a set of keys in open addressing, 16 bytes a slot. It is cut into
// shards that grow one by one, so that no single insert pays for the whole
// table. The keys are hashes already.
type keySet struct {
	shards   [keyShards]keyShard
	count    int
	slots    int // of all shards
	maxSlots int // of a shard, while chance spreads the keys evenly
}

type keyShard struct {
	slots []xxh3.Uint128 // the zero key is a free slot
	count int
}

// newKeySet makes an empty table meant to stay within that many bytes.
func newKeySet(bytes int64) *keySet {
	return &keySet{maxSlots: max(firstSlots, int(bytes/KeyBytes/keyShards))}
}

// nonZero keeps clear of the key that means a free slot.
func nonZero(key xxh3.Uint128) xxh3.Uint128 {
	if key == (xxh3.Uint128{}) {
		key.Lo = 1
	}
	return key
}

func (t *keySet) bytes() int64 { return int64(t.slots) * KeyBytes }

func (t *keySet) shard(key xxh3.Uint128) *keyShard { return &t.shards[key.Hi>>56] }

// home is the slot at which the search for key begins. Multiplying spreads over
// any number of slots, so that a table can end at its budget exactly.
func (s *keyShard) home(key xxh3.Uint128) int {
	high, _ := bits.Mul64(key.Lo, uint64(len(s.slots)))
	return int(high)
}

// find returns the slot that holds key, or the free one where it belongs.
func (s *keyShard) find(key xxh3.Uint128) (slot int, found bool) {
	slots := s.slots
	for slot = s.home(key); ; {
		at := slots[slot]
		if at == key {
			return slot, true
		}
		if at == (xxh3.Uint128{}) {
			return slot, false
		}
		if slot++; slot == len(slots) {
			slot = 0
		}
	}
}

// touch reads the slot at which the search for key begins. Reading those of many keys
// one after the other lets their cache misses overlap.
func (t *keySet) touch(key xxh3.Uint128) uint64 {
	key = nonZero(key)
	s := t.shard(key)
	if len(s.slots) == 0 {
		return 0
	}
	return s.slots[s.home(key)].Lo
}

func (t *keySet) has(key xxh3.Uint128) bool {
	key = nonZero(key)
	s := t.shard(key)
	if s.count == 0 {
		return false
	}
	_, found := s.find(key)
	return found
}

// add puts key in and says whether it was missing.
func (t *keySet) add(key xxh3.Uint128) bool {
	key = nonZero(key)
	s := t.shard(key)
	if s.slots == nil {
		t.resize(s, min(firstSlots, t.maxSlots))
	}
	slot, found := s.find(key)
	if found {
		return false
	}
	if s.full(t.maxSlots) {
		next := 2 * len(s.slots)
		if len(s.slots) < t.maxSlots {
			next = min(next, t.maxSlots)
		}
		t.resize(s, next)
		slot, _ = s.find(key)
	}
	s.slots[slot] = key
	s.count++
	t.count++
	return true
}

// full says whether the shard must grow before it takes one more. At its
// final size it is filled further, to make the most of the budget.
func (s *keyShard) full(maxSlots int) bool {
	if len(s.slots) >= maxSlots {
		return (s.count+1)*16 > len(s.slots)*15
	}
	return (s.count+1)*4 > len(s.slots)*3
}

func (t *keySet) resize(s *keyShard, slots int) {
	old := s.slots
	s.slots = make([]xxh3.Uint128, slots)
	t.slots += slots - len(old)
	for _, key := range old {
		if key != (xxh3.Uint128{}) {
			slot, _ := s.find(key)
			s.slots[slot] = key
		}
	}
}

// remove takes key out. The keys that were pushed past it move up, so that no
// search ends early.
func (t *keySet) remove(key xxh3.Uint128) {
	key = nonZero(key)
	s := t.shard(key)
	if s.count == 0 {
		return
	}
	hole, found := s.find(key)
	if !found {
		return
	}
	n := len(s.slots)
	for next := hole; ; {
		if next++; next == n {
			next = 0
		}
		at := s.slots[next]
		if at == (xxh3.Uint128{}) {
			break
		}
		// at may move into the hole if its home does not lie between the two.
		if (next-s.home(at)+n)%n >= (next-hole+n)%n {
			s.slots[hole] = at
			hole = next
		}
	}
	s.slots[hole] = xxh3.Uint128{}
	s.count--
	t.count--
}

// reserve makes room for that many keys at once, before a known number is put in.
func (t *keySet) reserve(count int) {
	slots := min(t.maxSlots, count/keyShards*4/3+64)
	for i := range t.shards {
		if s := &t.shards[i]; len(s.slots) < slots {
			t.resize(s, slots)
		}
	}
}

// each calls f with every key.
func (t *keySet) each(f func(key xxh3.Uint128)) {
	for i := range t.shards {
		for _, key := range t.shards[i].slots {
			if key != (xxh3.Uint128{}) {
				f(key)
			}
		}
	}
}
