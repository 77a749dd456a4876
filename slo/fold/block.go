package fold

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/sloengine/sloengine/internal/binread"
)

// This file holds blocks, the flat arrays that counts are kept in, and columns, which hands out places in them. A
// block knows nothing of time, and columns know nothing of groups. It also encodes blocks and spans: every append has a
// read beside it, which does not panic whatever the bytes are, and bounds lengths before anything is allocated.

// cell is what a block keeps of a count. What does not fit goes to the block's
// carry, so that a busy column does not widen the quiet ones beside it.
//
// Leaves have 16 bits, which few columns exceed in ten seconds. Hours have 32.
type cell interface{ uint16 | uint32 }

// block holds the counts of all columns for one bucket of time. Columns beyond
// its end are zero; so is everything in a zero block. A block with cells has a
// count in it somewhere.
//
// Only the goroutine of the fold touches blocks, also while a snapshot is encoded: Part.Encode is called before the
// fold changes again. The zero value is empty and ready.
//
// A count is its cell plus its carry. A carry is a multiple of the cell's range, 1<<16 or 1<<32, and never 0.
// Counts are not bounded below 64 bits: maxCount bounds what one event adds.
type block[C cell] struct {
	cells []C               // by column; nil if the block is empty
	carry map[uint32]uint64 // column: what its cell is short of, in multiples of the cell's range
	ver   uint64            // clock of the last change
}

// bump adds n to each of the columns, which must lie inside cells.
//
// touch comes before it, with a top above the highest of the columns.
func (b *block[C]) bump(cols []uint32, n uint64) {
	cells := b.cells
	for _, c := range cols {
		sum := uint64(cells[c]) + n
		low := C(sum)
		cells[c] = low
		if uint64(low) != sum {
			b.overflow(c, sum-uint64(low))
		}
	}
}

// bump1 adds n to one column, which must lie inside cells.
func (b *block[C]) bump1(c uint32, n uint64) {
	sum := uint64(b.cells[c]) + n
	low := C(sum)
	b.cells[c] = low
	if uint64(low) != sum {
		b.overflow(c, sum-uint64(low))
	}
}

// lower takes one off a column and lets go of a block that is left empty. It reports whether there was one.
func (b *block[C]) lower(c uint32) bool {
	if b.at(c) == 0 {
		return false
	}
	if b.cells[c] == 0 {
		b.carry[c] -= uint64(^C(0)) + 1
		if b.carry[c] == 0 {
			delete(b.carry, c)
		}
	}
	b.cells[c]--
	if b.used() == 0 {
		b.cells, b.carry = nil, nil
	}
	return true
}

// overflow adds to a column what its cell cannot hold. excess is a multiple of the cell's range.
//
// The map is made with the first overflow, since most blocks never have one.
func (b *block[C]) overflow(c uint32, excess uint64) {
	if b.carry == nil {
		b.carry = make(map[uint32]uint64)
	}
	b.carry[c] += excess
}

// grow makes room for size columns.
func (b *block[C]) grow(size int) {
	if len(b.cells) >= size {
		return
	}
	cells := make([]C, size)
	copy(cells, b.cells)
	b.cells = cells
}

// at is the count of a column.
func (b *block[C]) at(c uint32) uint64 {
	if int(c) >= len(b.cells) {
		return 0
	}
	return uint64(b.cells[c]) + b.carry[c]
}

// addTo adds the counts of all columns that acc has.
//
// acc must reach to every column with a carry. It does, since it is as wide as the columns in use.
func (b *block[C]) addTo(acc []uint64) {
	cells := b.cells[:min(len(b.cells), len(acc))]
	sums := acc[:len(cells)]
	for i, c := range cells {
		sums[i] += uint64(c)
	}
	for c, n := range b.carry {
		acc[c] += n
	}
}

// used is the number of columns up to the last that is not zero.
//
// It is what encoding, absorbing and erasing go by, so zeros at the end never show in a snapshot.
func (b *block[C]) used() int {
	n := len(b.cells)
	for n > 0 && b.cells[n-1] == 0 && b.carry[uint32(n-1)] == 0 {
		n--
	}
	return n
}

// erase sets w columns from c on to zero and lets go of a block that is left
// empty. It reports whether anything changed.
//
// Letting go of an empty block keeps the rule that a block with cells has a count in it.
func (b *block[C]) erase(c uint32, w int) bool {
	changed := false
	for i := c; i < c+uint32(w) && int(i) < len(b.cells); i++ {
		if b.at(i) != 0 {
			b.cells[i] = 0
			delete(b.carry, i)
			changed = true
		}
	}
	if changed && b.used() == 0 {
		b.cells, b.carry = nil, nil
	}
	return changed
}

// absorb adds the counts of other blocks, and grows no more than needed.
//
// The parts are not changed. Their order does not matter, since counts are added.
func (b *block[C]) absorb(parts []block[C]) {
	size := 0
	for i := range parts {
		size = max(size, parts[i].used())
	}
	if size == 0 {
		return
	}
	b.grow(size)
	for i := range parts {
		p := &parts[i]
		for c := range min(size, len(p.cells)) {
			if n := p.cells[c]; n != 0 {
				b.bump1(uint32(c), uint64(n))
			}
		}
		for _, c := range p.carried() {
			b.overflow(c, p.carry[c])
		}
	}
}

// carried lists the columns with a carry, rising.
//
// The order of a map is random, and snapshots must be equal for equal states.
func (b *block[C]) carried() []uint32 {
	if len(b.carry) == 0 {
		return nil
	}
	cols := make([]uint32, 0, len(b.carry))
	for c := range b.carry {
		cols = append(cols, c)
	}
	slices.Sort(cols)
	return cols
}

// bytes is the block's memory beside the struct itself.
func (b *block[C]) bytes() int64 {
	var c C
	return int64(cap(b.cells))*int64(unsafe.Sizeof(c)) + int64(len(b.carry))*24
}

// columns hands out ranges of columns, the lowest that fit first. What is free
// depends only on what is in use, never on the order in which it was freed,
// so that a restored fold hands out the same columns as one that never stopped.
//
// Nothing of it is stored: useColumns makes it again from the columns that the groups say they have.
type columns struct {
	n    uint32     // columns up to the last in use
	free []colRange // below n, rising, no two touching
}

// colRange is the columns [lo, hi).
type colRange struct{ lo, hi uint32 }

// take hands out w neighbouring columns and returns the first. They are zero in every block.
func (a *columns) take(w uint32) uint32 {
	for i := range a.free {
		r := &a.free[i]
		if r.hi-r.lo < w {
			continue
		}
		lo := r.lo
		r.lo += w
		if r.lo == r.hi {
			a.free = slices.Delete(a.free, i, i+1)
		}
		return lo
	}
	// A free range never ends at n, so there is none to extend.
	lo := a.n
	a.n += w
	return lo
}

// give frees the columns of a range that take handed out. The caller has emptied the columns in every block.
func (a *columns) give(lo, w uint32) {
	i, _ := slices.BinarySearchFunc(a.free, lo, func(r colRange, lo uint32) int { return int(r.lo) - int(lo) })
	a.free = slices.Insert(a.free, i, colRange{lo, lo + w})
	if i+1 < len(a.free) && a.free[i].hi == a.free[i+1].lo {
		a.free[i].hi = a.free[i+1].hi
		a.free = slices.Delete(a.free, i+1, i+2)
	}
	if i > 0 && a.free[i-1].hi == a.free[i].lo {
		a.free[i-1].hi = a.free[i].hi
		a.free = slices.Delete(a.free, i, i+1)
	}
	if last := len(a.free) - 1; last >= 0 && a.free[last].hi == a.n {
		a.n = a.free[last].lo
		a.free = a.free[:last]
	}
}

// use marks the ranges, which must not overlap, as the only ones in use. It
// reports false if they do overlap.
//
// Overlapping ranges can only come from a damaged snapshot: two groups would share their counts.
func (a *columns) use(ranges []colRange) bool {
	slices.SortFunc(ranges, func(x, y colRange) int { return int(x.lo) - int(y.lo) })
	*a = columns{}
	for _, r := range ranges {
		if r.lo < a.n {
			return false
		}
		if r.lo > a.n {
			a.free = append(a.free, colRange{a.n, r.lo})
		}
		a.n = r.hi
	}
	return true
}

// room is how many columns a block gets when it must grow: some more than there
// are, so that groups that appear one by one do not copy it each time.
func (a *columns) room() int { return int(a.n) + int(a.n)/16 + 8 }

// errSnapshot is wrapped by the errors of reading a snapshot.
//
// The owner of the parts has verified checksums before, so it means another version of the program or a fault in
// it.
var errSnapshot = errors.New("snapshot does not fit")

// appendSpans encodes spans by their edges, each as the difference to the one before.
func appendSpans(b []byte, spans []upSpan) []byte {
	b = binary.AppendUvarint(b, uint64(len(spans)))
	var last int64
	for _, s := range spans {
		b = binary.AppendVarint(b, s.from-last)
		b = binary.AppendVarint(b, s.to-s.from)
		last = s.to
	}
	return b
}

// reader takes values off the front of a part.
type reader struct{ binread.Reader }

func newReader(b []byte) reader { return reader{binread.New(b)} }

// spans is the inverse of appendSpans. Spans that overlap, or end before they begin, are damage.
func (r *reader) spans() []upSpan {
	out := make([]upSpan, r.Count(1))
	var last int64
	for i := range out {
		from := last + r.Varint()
		out[i] = upSpan{from, from + r.Varint()}
		if i > 0 && from < last || out[i].to < from {
			r.Fail()
		}
		last = out[i].to
	}
	return out
}

// done is an error unless everything fitted and nothing is left.
func (r *reader) done() error {
	if !r.Done() {
		return fmt.Errorf("%w: cut short or too long", errSnapshot)
	}
	return nil
}

// maxColumns bounds what a damaged snapshot can make a restore allocate.
//
// It is far above what the groups of a real spec need.
const maxColumns = 1 << 24

// appendBlock encodes counts one after the other. A zero is followed by how many
// more zeros there are.
//
// Cell and carry are written as one number, so equal counts have equal bytes whatever the width of the cell.
func appendBlock[C cell](b []byte, x *block[C]) []byte {
	used := x.used()
	b = binary.AppendUvarint(b, uint64(used))
	for i := 0; i < used; {
		n := uint64(x.cells[i])
		if x.carry != nil {
			n += x.carry[uint32(i)]
		}
		i++
		if n != 0 {
			b = binary.AppendUvarint(b, n)
			continue
		}
		first := i
		for x.cells[i] == 0 && (x.carry == nil || x.carry[uint32(i)] == 0) {
			i++ // ends, for the last used count is not zero
		}
		b = append(b, 0)
		b = binary.AppendUvarint(b, uint64(i-first))
	}
	return b
}

// readBlock is the inverse of appendBlock. A number of columns beyond maxColumns is damage.
func readBlock[C cell](r *reader) block[C] {
	var x block[C]
	used := r.Uint()
	if used > maxColumns {
		r.Fail()
		return x
	}
	x.cells = make([]C, used)
	for i := uint64(0); i < used && !r.Bad(); i++ {
		n := r.Uint()
		if n == 0 {
			more := r.Uint()
			if more >= used-i {
				r.Fail()
			}
			i += more
			continue
		}
		low := C(n)
		x.cells[i] = low
		if uint64(low) != n {
			x.overflow(uint32(i), n-uint64(low))
		}
	}
	return x
}
