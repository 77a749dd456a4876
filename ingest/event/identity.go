package event

import "encoding/binary"

// Identity gives the id and the service of a binary event without reading the rest; ok
// is false for bytes that are no event.
func Identity(b []byte) (id, service []byte, ok bool) {
	if len(b) < lengthBytes+fixedBytes || uint64(binary.LittleEndian.Uint32(b)) > uint64(len(b)-lengthBytes) {
		return nil, nil, false
	}
	body := b[lengthBytes:]
	i := fixedBytes
	for _, flag := range []byte{flagDuration, flagCount, flagWeight} {
		if body[0]&flag != 0 {
			_, i = uvarintAt(body, i)
		}
	}
	id, i = textAt(body, i)
	service, i = textAt(body, i)
	return id, service, i <= len(body)
}
