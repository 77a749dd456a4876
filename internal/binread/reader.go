// Package binread appends and reads the fields of binary formats: varints, texts and counts of entries. It does not
// know the meaning of the fields, and verifies no checksums.
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

// Fail makes the field invalid that was read last.
func (r *Reader) Fail() { r.Rest, r.bad = nil, true }

// Uint reads an unsigned varint. Most are below 128, so that case does not call encoding/binary.
func (r *Reader) Uint() uint64 {
	if len(r.Rest) > 0 && r.Rest[0] < 0x80 {
		v := uint64(r.Rest[0])
		r.Rest = r.Rest[1:]
		return v
	}
	v, n := binary.Uvarint(r.Rest)
	if n <= 0 {
		r.Fail()
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
		r.Fail()
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
		r.Fail()
		return 0
	}
	return int(n)
}

// Take reads n bytes, which refer to Rest.
func (r *Reader) Take(n int) []byte {
	if n > len(r.Rest) {
		r.Fail()
		return nil
	}
	b := r.Rest[:n:n]
	r.Rest = r.Rest[n:]
	return b
}

// Byte reads a byte.
func (r *Reader) Byte() byte {
	if b := r.Take(1); b != nil {
		return b[0]
	}
	return 0
}

// Fixed32 reads four bytes, the lowest first.
func (r *Reader) Fixed32() uint32 {
	if b := r.Take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

// Bytes reads a length and as many bytes, which refer to Rest.
func (r *Reader) Bytes() []byte { return r.Take(r.Count(1)) }

// Text reads a length and a text of as many bytes.
func (r *Reader) Text() string { return string(r.Bytes()) }

// AppendText appends a text in the form that Text reads.
func AppendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// Texts reads a count and as many texts. It is nil if there are none.
func (r *Reader) Texts() (out []string) {
	for range r.Count(1) {
		out = append(out, r.Text())
	}
	return out
}

// AppendTexts appends texts in the form that Texts reads.
func AppendTexts(b []byte, list []string) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, s := range list {
		b = AppendText(b, s)
	}
	return b
}

// Counts reads a count and as many unsigned varints. It is nil if there are none.
func (r *Reader) Counts() []uint64 {
	n := r.Count(1)
	if n == 0 {
		return nil
	}
	out := make([]uint64, n)
	for i := range out {
		out[i] = r.Uint()
	}
	return out
}

// AppendCounts appends counts in the form that Counts reads.
func AppendCounts(b []byte, counts []uint64) []byte {
	b = binary.AppendUvarint(b, uint64(len(counts)))
	for _, n := range counts {
		b = binary.AppendUvarint(b, n)
	}
	return b
}

// Bool reads whether a varint is 1.
func (r *Reader) Bool() bool { return r.Uint() == 1 }

// AppendBool appends a bool in the form that Bool reads.
func AppendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}
