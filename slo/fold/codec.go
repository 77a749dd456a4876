package fold

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/sloengine/sloengine/ingest/binread"
)

// This file holds what snapshots have besides the fields of binread: spans and blocks. Every append has a read beside
// it. Reading does not panic, whatever the bytes are, and lengths are bounded before anything is allocated.
// FORMAT.md has the layout of the parts.

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
