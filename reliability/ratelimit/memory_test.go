package ratelimit

import (
	"encoding/binary"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func contextBatch(b *Tickets, from, n uint64, limit *Limit) *Tickets {
	b.Reset()
	for i := from; i < from+n; i++ {
		var text [8]byte
		binary.LittleEndian.PutUint64(text[:], i)
		b.charges = append(b.charges, Charge{Key: hashKey(text[:]), Limit: limit, Layer: Context, Rule: 2})
		b.List = append(b.List, Ticket{first: int32(len(b.charges) - 1), end: int32(len(b.charges))})
	}
	return b
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// A million contexts, and then another: memory stays where it is, and the counters
// that remember most stay as well.
func TestMemoryBound(t *testing.T) {
	limit := &Limit{N: 100, Window: time.Hour}
	before := heap()
	table := mustTable(t, TableOptions{})
	var b Tickets
	worst := contextBatch(&Tickets{}, 0, 50, limit)
	for range 100 {
		take(t, table, start, worst)
	}
	for at := uint64(50); at < 1_000_000; at += 1000 {
		take(t, table, start.Add(time.Minute), contextBatch(&b, at, min(1000, 1_000_000-at), limit))
	}
	b = Tickets{}
	full := heap() - before
	require.Equal(t, 1_000_000, table.index.count)
	require.Zero(t, table.index.evicted)
	t.Logf("a million counters take %.1f MB", float64(full)/1e6)
	require.Less(t, full, uint64(100_000_000))

	for at := uint64(1_000_000); at < 2_000_000; at += 1000 {
		take(t, table, start.Add(2*time.Minute), contextBatch(&b, at, 1000, limit))
	}
	b = Tickets{}
	require.Equal(t, 1_000_000, table.index.count)
	require.EqualValues(t, 1_000_000, table.index.evicted)
	require.Less(t, heap()-before, uint64(100_000_000))
	take(t, table, start.Add(2*time.Minute), worst)
	for i := range worst.List {
		require.NotZero(t, worst.List[i].Over, "a used-up limit was forgotten")
	}

	// An idle one goes before a live one, and is not called an eviction.
	take(t, table, start.Add(3*time.Hour), contextBatch(&b, 3_000_000, 1000, limit))
	require.EqualValues(t, 1_000_000, table.index.evicted)
	runtime.KeepAlive(table)
}

// Counters of the past are swept away while others are used.
func TestSweep(t *testing.T) {
	limit := &Limit{N: 100, Window: time.Minute}
	table := mustTable(t, TableOptions{})
	var b Tickets
	take(t, table, start, contextBatch(&b, 0, 5000, limit))
	require.Equal(t, 5000, table.index.count)
	for range 1000 {
		take(t, table, start.Add(time.Hour), contextBatch(&b, 0, 1, limit))
	}
	require.Equal(t, 1, table.index.count)
	require.Zero(t, table.index.evicted)
	take(t, table, start.Add(time.Hour), contextBatch(&b, 0, 5000, limit))
	require.Equal(t, 5000, table.index.count)
	require.Equal(t, 5000, table.index.made, "their places are used again")
}
