package ratelimit

import (
	"math/bits"
	"math/rand/v2"
)

// index finds counters by key: open addressing with linear probing over small
// entries, which hold enough of the hash to be moved without a look at the counters.
// Those lie in chunks and never move.
type index struct {
	max     int
	seed    [2]uint64 // random, so that keys that collide cannot be chosen
	entries []uint64  // low half: number of the counter + 1, 0 if empty; high half: hash
	chunks  [][]counter
	made    int      // counters in chunks that were ever used
	free    []uint32 // used before, not now
	count   int
	hand    int // where the next look for idle counters begins
	random  uint64

	inserted, evicted uint64
}

const (
	chunkBits = 12
	chunkLen  = 1 << chunkBits
	// sample is how many counters are compared when one must be evicted.
	sample = 8
)

func newIndex(maxCounters int) index {
	return index{max: maxCounters, seed: [2]uint64{rand.Uint64(), rand.Uint64()}, random: rand.Uint64(),
		entries: make([]uint64, 256)}
}

func (x *index) at(n int32) *counter { return &x.chunks[n>>chunkBits][n&(chunkLen-1)] }

func (x *index) hash(k Key) uint32 {
	hi, lo := bits.Mul64(k.Hi^x.seed[0], k.Lo^x.seed[1])
	return uint32(hi ^ lo)
}

// find returns the number of a key's counter, -1 if there is none.
func (x *index) find(k Key) int32 {
	h := x.hash(k)
	mask := uint32(len(x.entries) - 1)
	for i := h & mask; ; i = (i + 1) & mask {
		e := x.entries[i]
		if uint32(e) == 0 {
			return -1
		}
		if uint32(e>>32) == h {
			if n := int32(uint32(e) - 1); x.at(n).key == k {
				return n
			}
		}
	}
}

// insert makes room for a key that is not there. The caller fills the counter.
func (x *index) insert(k Key, at int64) int32 {
	x.inserted++
	if x.count >= x.max {
		x.evict(at)
	}
	if x.count*4 >= len(x.entries)*3 {
		x.grow()
	}
	var n uint32
	if last := len(x.free) - 1; last >= 0 {
		n, x.free = x.free[last], x.free[:last]
	} else {
		n = uint32(x.made)
		if x.made++; int(n>>chunkBits) == len(x.chunks) {
			x.chunks = append(x.chunks, make([]counter, min(chunkLen, x.max-int(n))))
		}
	}
	x.put(uint64(x.hash(k))<<32 | uint64(n+1))
	x.count++
	return int32(n)
}

func (x *index) put(e uint64) {
	mask := uint32(len(x.entries) - 1)
	i := uint32(e>>32) & mask
	for uint32(x.entries[i]) != 0 {
		i = (i + 1) & mask
	}
	x.entries[i] = e
}

func (x *index) grow() {
	old := x.entries
	x.entries = make([]uint64, 2*len(old))
	for _, e := range old {
		if uint32(e) != 0 {
			x.put(e)
		}
	}
}

// remove forgets the n-th counter.
func (x *index) remove(n int32) {
	s := x.at(n)
	mask := uint32(len(x.entries) - 1)
	hole := x.hash(s.key) & mask
	for uint32(x.entries[hole]) != uint32(n)+1 {
		hole = (hole + 1) & mask
	}
	// Move up those behind the hole that may be there, so that find needs no gravestones.
	for i := (hole + 1) & mask; uint32(x.entries[i]) != 0; i = (i + 1) & mask {
		home := uint32(x.entries[i]>>32) & mask
		if (i-home)&mask >= (i-hole)&mask {
			x.entries[hole] = x.entries[i]
			hole = i
		}
	}
	x.entries[hole] = 0
	s.shape = unused
	x.free = append(x.free, uint32(n))
	x.count--
}

// evict removes the one of a few counters that remembers the fewest events, so that a client cannot
// escape a used-up limit by inventing contexts.
func (x *index) evict(at int64) {
	best, least := int32(-1), uint64(0)
	for range sample { // at random: counters made at the same time are similar
		x.random += 0x9E3779B97F4A7C15
		hi, _ := bits.Mul64(mix(x.random), uint64(x.made)) // all of them are in use now
		n := int32(hi)
		s := x.at(n)
		live := s.live(at)
		if best < 0 || live < least || live == least && s.expire < x.at(best).expire {
			best, least = n, live
		}
	}
	if least > 0 {
		x.evicted++
	}
	x.remove(best)
}

// sweep looks at n counters and removes those that are as good as new.
func (x *index) sweep(at int64, n int) {
	for range min(n, x.made) {
		i := x.next()
		if s := x.at(i); s.shape != unused && at >= s.expire {
			x.remove(i)
		}
	}
}

func (x *index) next() int32 {
	if x.hand >= x.made {
		x.hand = 0
	}
	x.hand++
	return int32(x.hand - 1)
}
