package shared

import (
	"encoding/binary"
	"fmt"
	"math"
)

// The scripts read MessagePack, which Redis decodes in C: arrays of numbers, nothing else.

func appendArray(b []byte, n int) []byte {
	switch {
	case n < 16:
		return append(b, 0x90|byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(b, 0xdc), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(b, 0xdd), uint32(n))
}

func appendUint(b []byte, v uint64) []byte {
	switch {
	case v < 128:
		return append(b, byte(v))
	case v <= math.MaxUint8:
		return append(b, 0xcc, byte(v))
	case v <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(b, 0xcd), uint16(v))
	case v <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(b, 0xce), uint32(v))
	}
	return binary.BigEndian.AppendUint64(append(b, 0xcf), v)
}

func appendFloat(b []byte, v float64) []byte {
	return binary.BigEndian.AppendUint64(append(b, 0xcb), math.Float64bits(v))
}

// parseUints appends the numbers of an array to dst. Redis' encoder writes whole numbers
// of either sign kind; negative ones are refused.
func parseUints(dst []uint64, s string) ([]uint64, error) {
	b := []byte(s)
	bad := func() ([]uint64, error) { return dst, fmt.Errorf("%w: %d bytes of MessagePack", errAnswer, len(s)) }
	take := func(n int) (v uint64, ok bool) {
		if len(b) < n {
			return 0, false
		}
		for _, c := range b[:n] {
			v = v<<8 | uint64(c)
		}
		b = b[n:]
		return v, true
	}
	head, ok := take(1)
	if !ok {
		return bad()
	}
	n := head & 0x0f
	switch {
	case head>>4 == 0x9:
	case head == 0xdc:
		n, ok = take(2)
	case head == 0xdd:
		n, ok = take(4)
	default:
		return bad()
	}
	if !ok || n > uint64(len(b)) {
		return bad()
	}
	for range n {
		kind, ok := take(1)
		v := kind
		switch {
		case !ok:
			return bad()
		case kind < 0x80:
		case kind >= 0xcc && kind <= 0xcf: // unsigned
			v, ok = take(1 << (kind - 0xcc))
		case kind >= 0xd0 && kind <= 0xd3: // signed
			width := 1 << (kind - 0xd0)
			v, ok = take(width)
			ok = ok && v>>(8*width-1) == 0
		default:
			return bad()
		}
		if !ok {
			return bad()
		}
		dst = append(dst, v)
	}
	if len(b) > 0 {
		return bad()
	}
	return dst, nil
}
