package send

import (
	"encoding/binary"
	"encoding/hex"

	"github.com/zeebo/xxh3"
)

// generationSize is the number of distinct records after which the older half of the remembered
// records is forgotten.
const generationSize = 1 << 18

// ids makes ids from a record's content and the number of identical records
// before it.
type ids struct {
	source  string
	size    int
	recent  map[xxh3.Uint128]uint32 // how often each record was seen
	older   map[xxh3.Uint128]uint32
	scratch []byte
}

func newIDs(source string, size int) *ids {
	return &ids{source: source, size: size, recent: make(map[xxh3.Uint128]uint32)}
}

// next returns the id of a record: 32 hex digits.
func (s *ids) next(line []byte) string {
	b := append(s.scratch[:0], s.source...)
	b = append(b, 0)
	b = append(b, line...)
	s.scratch = b
	hash := xxh3.Hash128(b)
	seen, ok := s.recent[hash]
	if !ok {
		seen = s.older[hash]
	}
	if len(s.recent) >= s.size {
		s.older, s.recent = s.recent, make(map[xxh3.Uint128]uint32, s.size)
	}
	s.recent[hash] = seen + 1
	if seen > 0 {
		bytes := hash.Bytes()
		hash = xxh3.Hash128(binary.LittleEndian.AppendUint32(bytes[:], seen))
	}
	bytes := hash.Bytes()
	return hex.EncodeToString(bytes[:])
}
