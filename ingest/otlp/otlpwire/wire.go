package otlpwire

import (
	"encoding/binary"
	"math"
)

// The wire types of protobuf.
const (
	wireVarint     = 0
	wireFixed64    = 1
	wireBytes      = 2
	wireStartGroup = 3
	wireEndGroup   = 4
	wireFixed32    = 5
)

// maxGroups is how deep groups may nest. Messages of OTLP have none, so they are in unknown fields only.
const maxGroups = 100

// fields reads the fields of a message one after another:
//
//	f := fields{next: from}
//	for f.more(b) {
//		switch f.tag { ... }
//	}
//	return f.err
//
// A case that finds a mistake sets err, which ends the loop.
type fields struct {
	next     int // where the next field begins
	err      *Error
	tag      uint32 // number<<3 | wire type
	val      uint64 // of a varint or fixed field
	from, to int    // of a field of bytes
}

// short reads the next field if it is short bytes, as most are; else it leaves all as it was, for more. It does not
// look at err, so that it can be inlined.
func (f *fields) short(b []byte) bool {
	i := f.next + 2
	if i > len(b) || b[i-2]&0x87 != wireBytes || b[i-2] < 1<<3 || b[i-1] >= 0x80 {
		return false
	}
	to := i + int(b[i-1])
	if to > len(b) {
		return false
	}
	f.tag, f.from, f.to, f.next = uint32(b[i-2]), i, to, to
	return true
}

// more reads the next field, if there is one. The message ends with b.
func (f *fields) more(b []byte) bool {
	i := f.next
	if i >= len(b) || f.err != nil {
		return false
	}
	tag, n := uint64(b[i]), i+1
	if tag >= 0x80 {
		if tag, n = varint(b, i); n < 0 {
			return f.fail(i, "the number of a field does not end, or is too large")
		}
	}
	if tag < 1<<3 || tag > math.MaxUint32 {
		return f.fail(i, "%d is not the number of a field", tag>>3)
	}
	f.tag = uint32(tag)
	switch tag & 7 {
	case wireVarint:
		if f.val, n = varint(b, n); n < 0 {
			return f.fail(i, "a number does not end, or is too large")
		}
	case wireFixed64:
		if len(b)-n < 8 {
			return f.fail(i, "8 bytes are expected, %d are left", len(b)-n)
		}
		f.val = binary.LittleEndian.Uint64(b[n:])
		n += 8
	case wireFixed32:
		if len(b)-n < 4 {
			return f.fail(i, "4 bytes are expected, %d are left", len(b)-n)
		}
		f.val = uint64(binary.LittleEndian.Uint32(b[n:]))
		n += 4
	case wireBytes:
		length, from := varint(b, n)
		if from < 0 {
			return f.fail(i, "a length does not end, or is too large")
		}
		if length > uint64(len(b)-from) {
			return f.fail(i, "%d bytes are expected, %d are left", length, len(b)-from)
		}
		n = from + int(length)
		f.from, f.to = from, n
	case wireStartGroup:
		f.next, f.err = skipGroup(b, n, f.tag>>3, 1)
		return f.err == nil
	default:
		return f.fail(i, "a field of wire type %d is not expected here", tag&7)
	}
	f.next = n
	return true
}

func (f *fields) fail(i int, reason string, args ...any) bool {
	f.err = errorAt(i, reason, args...)
	return false
}

// skipGroup returns the end of a group. Its fields begin at byte i.
func skipGroup(b []byte, i int, number uint32, depth int) (int, *Error) {
	if depth > maxGroups {
		return 0, errorAt(i, "groups nest deeper than %d", maxGroups)
	}
	f := fields{next: i}
	for f.err == nil && f.next < len(b) {
		tag, n := varint(b, f.next)
		switch {
		case n > 0 && tag&7 == wireEndGroup:
			if tag>>3 != uint64(number) {
				return 0, errorAt(f.next, "group %d ends inside group %d", tag>>3, number)
			}
			return n, nil
		case n > 0 && tag&7 == wireStartGroup && tag>>3 > 0 && tag <= math.MaxUint32:
			f.next, f.err = skipGroup(b, n, uint32(tag>>3), depth+1)
		default:
			f.more(b)
		}
	}
	if f.err != nil {
		return 0, f.err
	}
	return 0, errorAt(len(b), "group %d does not end", number)
}

// varint returns the number at byte i and where it ends, which is negative if it does not end or has more than 64 bits.
func varint(b []byte, i int) (uint64, int) {
	if i < len(b) && b[i] < 0x80 {
		return uint64(b[i]), i + 1
	}
	v, n := binary.Uvarint(b[min(i, len(b)):])
	if n <= 0 {
		return 0, -1
	}
	return v, i + n
}
