package inflight

import "math/bits"

// index finds slots by hashes. It is an open-addressed table, a power of two and at most half full, of the low half of
// a hash's low word and one above the slot. Where a key lies in it is no part of the state.
type index struct {
	slots []uint64
	mask  uint64
	n     int
}

const minIndex = 1 << 10

// reset makes it empty, with room for n slots.
func (x *index) reset(n int) {
	size := max(minIndex, 1<<bits.Len(uint(2*n)))
	x.slots, x.mask, x.n = make([]uint64, size), uint64(size-1), 0
}

// put adds a slot that is not there.
func (x *index) put(tag, slot uint32) {
	if 2*(x.n+1) > len(x.slots) {
		x.resize(x.n + 1)
	}
	x.place(uint64(tag)<<32 | uint64(slot+1))
	x.n++
}

// resize moves all to a table with room for n.
func (x *index) resize(n int) {
	old, count := x.slots, x.n
	x.reset(n)
	for _, s := range old {
		if s != 0 {
			x.place(s)
		}
	}
	x.n = count
}

func (x *index) place(s uint64) {
	i := s >> 32 & x.mask
	for x.slots[i] != 0 {
		i = (i + 1) & x.mask
	}
	x.slots[i] = s
}

// remove takes a slot out that is there, and closes the gap, so that there are no marks of what was removed.
func (x *index) remove(tag, slot uint32) {
	want := uint64(tag)<<32 | uint64(slot+1)
	i := uint64(tag) & x.mask
	for x.slots[i] != want {
		i = (i + 1) & x.mask
	}
	x.n--
	for j := i; ; {
		j = (j + 1) & x.mask
		s := x.slots[j]
		if s == 0 {
			x.slots[i] = 0
			return
		}
		// What lies between its home and j may move to i only if i is not before its home.
		if home := s >> 32 & x.mask; (j-home)&x.mask >= (j-i)&x.mask {
			x.slots[i] = s
			i = j
		}
	}
}
