package ingest

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
)

// Errors of reading a body.
var (
	errBodyTooLarge = errors.New("body too large")
	errNoMemory     = errors.New("no memory left for request bodies")
)

// budget bounds the bytes that all requests in flight hold together. It never waits: a request that
// gets nothing is throttled.
type budget struct {
	limit int64
	used  atomic.Int64
}

func (b *budget) take(n int64) bool {
	if b.used.Add(n) > b.limit {
		b.used.Add(-n)
		return false
	}
	return true
}

func (b *budget) give(n int64) { b.used.Add(-n) }

// Buffers come in sizes that double, each with its pool: a buffer grows
// only as bytes arrive, so a client that announces much and sends little holds
// little.
const (
	smallestBuffer = 4 << 10
	bufferSizes    = 15 // 4 KiB .. 64 MiB
	largestBuffer  = smallestBuffer << (bufferSizes - 1)
	eagerBuffer    = 1 << 19 // as much is taken at once when Content-Length asks for it
)

var bufferPools [bufferSizes]sync.Pool

// sizeFor is the class whose buffers hold n bytes, which are at most largestBuffer.
func sizeFor(n int) int {
	class := 0
	for size := smallestBuffer; size < n && class < bufferSizes-1; size *= 2 {
		class++
	}
	return class
}

// body is a growing pooled buffer charged to a budget. The zero body is empty;
// free must be called once it is no longer used.
type body struct {
	data   []byte
	holder *[]byte // buffer that returns to the pool
	class  int
	spare  [1]byte // to distinguish the end from a continuation

	budget  *budget
	charged int64 // by this body over all its buffers
}

// grow makes room for at least n bytes. The larger buffer is charged before
// the smaller is released: for a moment there are both.
func (b *body) grow(n int) error {
	class := sizeFor(n)
	size := smallestBuffer << class
	if !b.budget.take(int64(size)) {
		return errNoMemory
	}
	b.charged += int64(size)
	holder, _ := bufferPools[class].Get().(*[]byte)
	if holder == nil {
		buf := make([]byte, 0, size)
		holder = &buf
	}
	data := append((*holder)[:0], b.data...)
	b.release()
	b.budget.give(b.charged - int64(size))
	b.charged = int64(size)
	b.data, b.holder, b.class = data, holder, class
	return nil
}

// release gives the buffer back and leaves its charge: the decoded events take about the same
// memory until the request ends.
func (b *body) release() {
	if b.holder == nil {
		return
	}
	bufferPools[b.class].Put(b.holder)
	b.holder, b.data = nil, nil
}

// free gives the buffer and its charge back.
func (b *body) free() {
	b.release()
	if b.charged > 0 {
		b.budget.give(b.charged)
		b.charged = 0
	}
}

// readFrom reads r to its end. It fails with errBodyTooLarge beyond limit bytes,
// with errNoMemory, or with the error of r. limit is at most largestBuffer; expect is the announced
// length, or -1.
func (b *body) readFrom(r io.Reader, limit int, expect int64) error {
	first := smallestBuffer
	if expect > 0 {
		first = int(min(expect, eagerBuffer))
	}
	if err := b.grow(min(first, limit)); err != nil {
		return err
	}
	for {
		room := min(cap(b.data), limit) - len(b.data)
		if room == 0 {
			if len(b.data) >= limit || int64(len(b.data)) == expect {
				n, err := r.Read(b.spare[:])
				switch {
				case n > 0 && len(b.data) >= limit:
					return errBodyTooLarge
				case n > 0:
					if err := b.grow(len(b.data) + 1); err != nil {
						return err
					}
					b.data = append(b.data, b.spare[0])
				}
				if err == io.EOF {
					return nil
				}
				if err != nil {
					return err
				}
				continue
			}
			if err := b.grow(len(b.data) + 1); err != nil {
				return err
			}
			continue
		}
		n, err := r.Read(b.data[len(b.data) : len(b.data)+room])
		b.data = b.data[:len(b.data)+n]
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
