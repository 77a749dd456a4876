// Package binread reads the fields of binary formats: varints, texts and counts of entries. It does not know what the
// fields mean, and verifies no checksums.
package binread

import "encoding/binary"

// Reader takes fields off the front of Rest. After the first invalid field it is Bad, Rest is empty, and every further
// field is zero, so a caller checks once at the end.
type Reader struct {
	Rest []byte
	bad  bool
}

// New returns a Reader of b. Fields refer to b where they are not copied.
func New(b []byte) Reader { return Reader{Rest: b} }

// Bad reports whether a field was invalid.
func (r *Reader) Bad() bool { return r.bad }

// Done reports whether all fields were valid and nothing is left.
func (r *Reader) Done() bool { return !r.bad && len(r.Rest) == 0 }

func (r *Reader) fail() { r.Rest, r.bad = nil, true }

// Uint reads an unsigned varint.
func (r *Reader) Uint() uint64 {
	v, n := binary.Uvarint(r.Rest)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.Rest = r.Rest[n:]
	return v
}

// Int reads a number that was written as an unsigned varint of its 64-bit two's complement.
func (r *Reader) Int() int64 { return int64(r.Uint()) }

// Varint reads a signed varint.
func (r *Reader) Varint() int64 {
	v, n := binary.Varint(r.Rest)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.Rest = r.Rest[n:]
	return v
}

// Count reads the number of entries that follow. Each takes at least minBytes, so a count that cannot be true is
// invalid before memory is reserved for it.
func (r *Reader) Count(minBytes int) int {
	n := r.Uint()
	if n > uint64(len(r.Rest)/minBytes) {
		r.fail()
		return 0
	}
	return int(n)
}

// Take reads n bytes, which refer to Rest.
func (r *Reader) Take(n int) []byte {
	if n > len(r.Rest) {
		r.fail()
		return nil
	}
	b := r.Rest[:n:n]
	r.Rest = r.Rest[n:]
	return b
}

// Bytes reads a length and as many bytes, which refer to Rest.
func (r *Reader) Bytes() []byte { return r.Take(r.Count(1)) }

// Text reads a length and a text of as many bytes.
func (r *Reader) Text() string { return string(r.Bytes()) }
