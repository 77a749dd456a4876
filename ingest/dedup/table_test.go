package dedup

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/zeebo/xxh3"
	"pgregory.net/rapid"
)

func testKey(i uint64) xxh3.Uint128 {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], i)
	return xxh3.Hash128(b[:])
}

func TestKeySetAgainstMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := newKeySet(int64(rapid.SampledFrom([]int{0, 256 * 16 * 9, 1 << 20}).Draw(t, "bytes")))
		if rapid.Bool().Draw(t, "reserve") {
			table.reserve(100)
		}
		model := map[xxh3.Uint128]bool{}
		// Few shards and few homes, so that keys push each other on and around.
		key := rapid.Custom(func(t *rapid.T) xxh3.Uint128 {
			return xxh3.Uint128{
				Hi: rapid.Uint64Range(0, 1).Draw(t, "shard")<<56 | rapid.Uint64Range(0, 20).Draw(t, "low"),
				Lo: rapid.SampledFrom([]uint64{0, 1, 1 << 62, 1<<64 - 2, 1<<64 - 1}).Draw(t, "home"),
			}
		})
		for range rapid.IntRange(0, 150).Draw(t, "steps") {
			k := key.Draw(t, "key")
			if k == (xxh3.Uint128{}) {
				k.Lo = 1 // the two are one to the table
			}
			switch rapid.SampledFrom([]string{"add", "add", "has", "remove"}).Draw(t, "op") {
			case "add":
				require.Equal(t, !model[k], table.add(k))
				model[k] = true
			case "has":
				require.Equal(t, model[k], table.has(k))
			case "remove":
				table.remove(k)
				delete(model, k)
			}
			require.Equal(t, len(model), table.count)
		}
		for k := range model {
			require.True(t, table.has(k))
		}
	})
}

func TestKeySetZeroKey(t *testing.T) {
	table := newKeySet(1 << 20)
	require.False(t, table.has(xxh3.Uint128{}))
	require.True(t, table.add(xxh3.Uint128{}))
	require.False(t, table.add(xxh3.Uint128{}))
	require.True(t, table.has(xxh3.Uint128{}))
}

func TestKeySetStaysInBudget(t *testing.T) {
	const budget = 4 << 20
	ids := New(Options{Bytes: 2 * budget, MaxAge: time.Hour})
	for i := range ids.capacity {
		ids.Add(testKey(uint64(i)))
	}
	require.LessOrEqual(t, ids.newer.table.bytes(), int64(budget))
	require.Greater(t, ids.capacity, budget/KeyBytes*7/10)
}

// A group that cannot be written leaves no trace, also where it began a new
// generation.
func TestTableRollback(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		build := func() *Table { // capacity of a few keys
			return New(Options{Bytes: 2 * 10 * KeyBytes, MaxAge: 100})
		}
		ids, model := build(), build()
		next, at := uint64(0), int64(1)
		for range rapid.IntRange(0, 12).Draw(t, "groups") {
			ids.Mark()
			model.Mark()
			fails := rapid.Bool().Draw(t, "fails")
			for range rapid.IntRange(0, 4).Draw(t, "records") {
				at += rapid.Int64Range(0, 30).Draw(t, "pass")
				ids.Begin(at)
				if !fails {
					model.Begin(at)
				}
				for range rapid.IntRange(1, 6).Draw(t, "keys") {
					key := testKey(next - min(next, rapid.Uint64Range(0, 8).Draw(t, "back")))
					next++
					isNew := ids.Add(key)
					if !fails {
						require.Equal(t, isNew, model.Add(key))
					}
				}
			}
			if fails {
				ids.Rollback()
			}
			require.Equal(t, model.contents(), ids.contents())
		}
	})
}

type idContents struct {
	Number  uint64
	Start   int64
	Keys    map[xxh3.Uint128]bool
	Unsaved []xxh3.Uint128
}

// contents holds the ids in the table, without the random parts.
func (ids *Table) contents() (all []idContents) {
	for _, g := range []*generation{ids.older, ids.newer} {
		if g == nil {
			continue
		}
		c := idContents{Number: g.number, Start: g.start, Keys: map[xxh3.Uint128]bool{},
			Unsaved: append([]xxh3.Uint128{}, slices.Concat(g.unsaved...)...)}
		for _, shard := range g.table.shards {
			for _, key := range shard.slots {
				if key != (xxh3.Uint128{}) {
					c.Keys[key] = true
				}
			}
		}
		all = append(all, c)
	}
	return all
}

func TestTableTurnOver(t *testing.T) {
	for _, test := range []struct {
		name  string
		bytes int64
		step  time.Duration
	}{
		{"by count", 2 * 100 * KeyBytes, 0},
		{"by age", 1 << 20, time.Minute},
	} {
		t.Run(test.name, func(t *testing.T) {
			ids := New(Options{Bytes: test.bytes, MaxAge: 160 * time.Minute})
			at := int64(time.Hour)
			for i := range uint64(400) {
				ids.Begin(at)
				require.True(t, ids.Add(testKey(i)))
				// Every id of a generation is known for at least as long again.
				for back := range min(i, 80) {
					require.True(t, ids.Has(testKey(i-back)), "%d back from %d", back, i)
				}
				if i >= 160 {
					require.False(t, ids.Has(testKey(i-160)))
				}
				at += int64(test.step)
			}
		})
	}
}

func TestWindow(t *testing.T) {
	ids := New(Options{Bytes: 2 * 1000 * KeyBytes, MaxAge: 48 * time.Hour})
	require.Equal(t, 24*time.Hour, ids.Stats(int64(time.Hour)).Window)
	ids.Begin(int64(time.Hour))
	for i := range uint64(100) {
		ids.Add(testKey(i))
	}
	// A hundred within a hundred seconds are a hundred an hour until more is known.
	require.Equal(t, 8*time.Hour, ids.Stats(int64(time.Hour+100*time.Second)).Window)
	require.Equal(t, 16*time.Hour, ids.Stats(int64(3*time.Hour)).Window)
}

// BenchmarkTable looks up and inserts with ten million keys known.
func BenchmarkTable(b *testing.B) {
	const known = 10_000_000
	ids := benchKnown(known)
	b.Run("new", func(b *testing.B) {
		i := uint64(known)
		for b.Loop() {
			if !ids.Add(testKey(i)) {
				b.Fatal("known")
			}
			if i++; i%1_000_000 == 0 { // the table has a bound
				b.StopTimer()
				ids.Rollback()
				b.StartTimer()
			}
		}
	})
	b.Run("touched", func(b *testing.B) {
		i := uint64(known)
		var keys [TouchAhead]xxh3.Uint128
		for b.Loop() {
			for k := range keys {
				keys[k] = testKey(i + uint64(k))
			}
			i += TouchAhead
			ids.Touch(keys[:])
			for _, key := range keys {
				if !ids.Add(key) {
					b.Fatal("known")
				}
			}
			if i > known+1_000_000 {
				b.StopTimer()
				ids.Rollback()
				i = known
				b.StartTimer()
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/TouchAhead, "ns/key")
	})
	b.Run("duplicate", func(b *testing.B) {
		i := uint64(0)
		for b.Loop() {
			if ids.Add(testKey(i)) {
				b.Fatal("new")
			}
			i = (i + 7_919_777) % known
		}
	})
}

// benchKnown has that many ids known, half of them in each generation.
func benchKnown(known uint64) *Table {
	ids := New(Options{Bytes: 512 << 20, MaxAge: 1000 * time.Hour})
	ids.Begin(1)
	for i := range known / 2 {
		ids.Add(testKey(i))
	}
	ids.older, ids.newer = ids.newer, ids.generation()
	for i := range known / 2 {
		ids.Add(testKey(known/2 + i))
	}
	ids.Mark()
	return ids
}

// The table knows every id that it was given since the time that it names.
func TestSince(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := New(Options{Bytes: 1, MaxAge: 100})
		ids.capacity = 5
		received := map[uint64]int64{}
		at := int64(1000)
		for i := range rapid.Uint64Range(0, 60).Draw(t, "ids") {
			at += rapid.Int64Range(0, 30).Draw(t, "wait")
			ids.Begin(at)
			require.True(t, ids.Add(testKey(i)))
			received[i] = at
			if rapid.IntRange(0, 5).Draw(t, "write") == 0 {
				ids.Mark()
			}
		}
		since, dropped := ids.Since(), false
		for i, at := range received {
			require.True(t, at < since || ids.Has(testKey(i)), "received at %d, known since %d", at, since)
			dropped = dropped || !ids.Has(testKey(i))
		}
		require.Equal(t, dropped, since != 0)
	})
}
