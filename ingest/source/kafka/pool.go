package kafka

import (
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// pool keeps the memory of messages for the next ones. It is safe for concurrent use. The reader of a message calls
// Recycle on it when nothing refers to it any more.
type pool struct{ bytes, records sync.Pool }

// The most that a pool retains of one fetch; the rest is left to the garbage collector.
const (
	keptBytes   = 8 << 20
	keptRecords = 64 << 10
)

// GetDecompressBytes implements kgo.PoolDecompressBytes.
func (p *pool) GetDecompressBytes(compressed []byte, _ kgo.CompressionCodecType) []byte {
	if b, ok := p.bytes.Get().(*[]byte); ok {
		return *b
	}
	return make([]byte, 0, 4*len(compressed))
}

// PutDecompressBytes implements kgo.PoolDecompressBytes.
func (p *pool) PutDecompressBytes(b []byte) {
	if cap(b) <= keptBytes {
		p.bytes.Put(&b)
	}
}

// GetRecords implements kgo.PoolRecords.
func (p *pool) GetRecords(n int) []kgo.Record {
	if r, ok := p.records.Get().(*[]kgo.Record); ok && cap(*r) >= n {
		return *r
	}
	return make([]kgo.Record, n, n+n/4)
}

// PutRecords implements kgo.PoolRecords.
func (p *pool) PutRecords(r []kgo.Record) {
	if cap(r) <= keptRecords {
		p.records.Put(&r)
	}
}
