package fold

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// This file holds the primitives of snapshots: numbers, strings, spans and blocks. Every append has a read beside
// it. Reading does not panic, whatever the bytes are, and lengths are bounded before anything is allocated.
// FORMAT.md has the layout of the parts.

// errSnapshot is wrapped by the errors of reading a snapshot.
//
// The owner of the parts has verified checksums before, so it means another version of the program or a fault in
// it.
var errSnapshot = errors.New("snapshot does not fit")

// appendString encodes a string: its length as uvarint, then its bytes.
func appendString(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

// appendStrings encodes how many strings there are, then each.
func appendStrings(b []byte, list []string) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, s := range list {
		b = appendString(b, s)
	}
	return b
}

// appendCounts encodes how many counts there are, then each as uvarint.
func appendCounts(b []byte, counts []uint64) []byte {
	b = binary.AppendUvarint(b, uint64(len(counts)))
	for _, n := range counts {
		b = binary.AppendUvarint(b, n)
	}
	return b
}

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

// appendBool encodes a bool as one byte.
func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

// reader takes values off the front of b. The first that does not fit sets bad,
// and every later one is zero.
//
// After bad all values are zero and b is empty, so loops over lengths end.
type reader struct {
	b   []byte
	bad bool
}

// uvarint takes one number. Most counts are below 128, so that case does not call encoding/binary.
func (r *reader) uvarint() uint64 {
	if len(r.b) > 0 && r.b[0] < 0x80 {
		v := uint64(r.b[0])
		r.b = r.b[1:]
		return v
	}
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

// varint takes one signed number, such as a time.
func (r *reader) varint() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

// length reads the number of things that follow, each at least a byte long.
//
// The bound keeps a damaged length from allocating memory.
func (r *reader) length() int {
	n := r.uvarint()
	if n > uint64(len(r.b)) {
		r.fail()
		return 0
	}
	return int(n)
}

// string takes a string and copies it, since the bytes of a part belong to the caller.
func (r *reader) string() string {
	n := r.length()
	s := string(r.b[:n])
	r.b = r.b[n:]
	return s
}

// bytes is string without a copy.
func (r *reader) bytes() []byte {
	n := r.length()
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

// strings is the inverse of appendStrings. It is nil if there are none.
func (r *reader) strings() []string {
	var out []string
	for range r.length() {
		out = append(out, r.string())
	}
	return out
}

// counts is the inverse of appendCounts.
func (r *reader) counts() []uint64 {
	out := make([]uint64, r.length())
	for i := range out {
		out[i] = r.uvarint()
	}
	return out
}

// spans is the inverse of appendSpans. Spans that overlap, or end before they begin, are damage.
func (r *reader) spans() []upSpan {
	out := make([]upSpan, r.length())
	var last int64
	for i := range out {
		from := last + r.varint()
		out[i] = upSpan{from, from + r.varint()}
		if i > 0 && from < last || out[i].to < from {
			r.fail()
		}
		last = out[i].to
	}
	return out
}

// bool is the inverse of appendBool.
func (r *reader) bool() bool { return r.uvarint() == 1 }

// fail makes this value and all that follow zero, so that callers check once, with done.
func (r *reader) fail() { r.b, r.bad = nil, true }

// done is an error unless everything fitted and nothing is left.
func (r *reader) done() error {
	if r.bad || len(r.b) > 0 {
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
	used := r.uvarint()
	if used > maxColumns {
		r.fail()
		return x
	}
	x.cells = make([]C, used)
	for i := uint64(0); i < used && !r.bad; i++ {
		n := r.uvarint()
		if n == 0 {
			more := r.uvarint()
			if more >= used-i {
				r.fail()
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
