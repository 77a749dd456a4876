package event

import (
	"encoding/binary"
	"fmt"
	"math"
)

// AppendWeighted appends the event that bin holds, and nothing else, with its
// weight multiplied by weight, which is 1 or more. The other bytes do not change; fields behind the
// weight are not inspected. bin and the capacity behind dst must not overlap. The error wraps
// ErrShort, ErrNewer or ErrMalformed, or says that the weight is 0 or would pass 4294967295; dst is
// then returned as it was.
func AppendWeighted(dst, bin []byte, weight uint32) ([]byte, error) {
	if weight == 0 {
		return dst, fmt.Errorf("multiply weight: the factor must be at least 1")
	}
	if len(bin) < lengthBytes {
		return dst, ErrShort
	}
	switch size := uint64(binary.LittleEndian.Uint32(bin)); {
	case size > uint64(len(bin)-lengthBytes):
		return dst, fmt.Errorf("%w: %d bytes of %d", ErrShort, len(bin)-lengthBytes, size)
	case size < uint64(len(bin)-lengthBytes):
		return dst, fmt.Errorf("%w: %d bytes follow the event", ErrMalformed, uint64(len(bin)-lengthBytes)-size)
	}
	body := bin[lengthBytes:]
	if len(body) < fixedBytes {
		return dst, fmt.Errorf("%w: a body of %d bytes", ErrMalformed, len(body))
	}
	flags := body[0]
	if flags&^byte(knownFlags) != 0 {
		return dst, fmt.Errorf("%w: flags %#x", ErrNewer, flags)
	}
	at := fixedBytes // of the weight, or where it belongs
	if flags&flagDuration != 0 {
		_, at = uvarintAt(body, at)
	}
	if flags&flagCount != 0 {
		_, at = uvarintAt(body, at)
	}
	rest := at
	product := uint64(weight)
	if flags&flagWeight != 0 {
		var had uint64
		if had, rest = uvarintAt(body, at); had > math.MaxUint32 {
			rest = len(body) + 1
		}
		product *= had
	}
	if rest > len(body) {
		return dst, fmt.Errorf("%w: fields do not fit its %d bytes", ErrMalformed, len(body))
	}
	if product > math.MaxUint32 {
		return dst, fmt.Errorf("multiply weight: %d exceeds the maximum of %d (sample a larger share)", product,
			uint32(math.MaxUint32))
	}
	if product > 1 {
		flags |= flagWeight
	}
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0, flags)
	dst = append(dst, body[1:at]...)
	if product > 1 {
		dst = binary.AppendUvarint(dst, product)
	}
	dst = append(dst, body[rest:]...)
	return closeBinary(dst, start), nil
}
