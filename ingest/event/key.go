package event

import "github.com/zeebo/xxh3"

// Key is the identity under which an event is counted once: a 128-bit hash of
// its service and id, which hold no zero byte.
func Key(service, id []byte) xxh3.Uint128 {
	var buf [128 + 1 + maxIDBytes]byte
	return xxh3.Hash128(appendIdentity(buf[:0], service, id))
}

func appendIdentity(dst, service, id []byte) []byte {
	dst = append(dst, service...)
	dst = append(dst, 0)
	return append(dst, id...)
}
