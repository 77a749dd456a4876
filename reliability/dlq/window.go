package dlq

import "github.com/zeebo/xxh3"

// goneIDs is how many IDs of removed entries the storages remember, so that a failure
// that is reported once more after its entry was replayed is not kept again.
const goneIDs = 1 << 17

func hashID(id string) xxh3.Uint128 { return xxh3.HashString128(id) }

// window remembers the last of the hashes that were added, up to a bound.
type window struct {
	max  int
	set  map[xxh3.Uint128]struct{}
	ring []xxh3.Uint128
	at   int // the oldest in ring, once it is full
}

func newWindow(limit int) *window { return &window{max: limit, set: map[xxh3.Uint128]struct{}{}} }

func (w *window) has(h xxh3.Uint128) bool {
	_, ok := w.set[h]
	return ok
}

func (w *window) add(h xxh3.Uint128) {
	if w.has(h) {
		return
	}
	w.set[h] = struct{}{}
	if len(w.ring) < w.max {
		w.ring = append(w.ring, h)
		return
	}
	delete(w.set, w.ring[w.at])
	w.ring[w.at] = h
	w.at = (w.at + 1) % w.max
}

// bloom shows for most IDs that they are not in a segment: 32 KiB, so that 17,000 entries give one
// false answer in a thousand.
type bloom [4096]uint64

func (b *bloom) places(h xxh3.Uint128, f func(word, bit uint64) bool) bool {
	for i := range uint64(5) {
		place := (h.Lo + i*(h.Hi|1)) % (4096 * 64)
		if !f(place/64, place%64) {
			return false
		}
	}
	return true
}

func (b *bloom) add(h xxh3.Uint128) {
	b.places(h, func(word, bit uint64) bool { b[word] |= 1 << bit; return true })
}

func (b *bloom) may(h xxh3.Uint128) bool {
	return b.places(h, func(word, bit uint64) bool { return b[word]&(1<<bit) != 0 })
}

// bits is a set of small numbers.
type bits []uint64

func (b *bits) set(i uint64) {
	for uint64(len(*b)) <= i/64 {
		*b = append(*b, 0)
	}
	(*b)[i/64] |= 1 << (i % 64)
}

func (b bits) has(i uint64) bool { return i/64 < uint64(len(b)) && b[i/64]&(1<<(i%64)) != 0 }
