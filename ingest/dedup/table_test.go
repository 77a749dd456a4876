package dedup

import (
	"encoding/binary"
	"math/rand/v2"
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
		model := map[xxh3.Uint128]uint64{} // tags
		// Few shards and few homes, so that keys push each other on, also past the last home.
		key := rapid.Custom(func(t *rapid.T) xxh3.Uint128 {
			return xxh3.Uint128{
				Hi: rapid.Uint64Range(0, 1).Draw(t, "shard")<<56 | rapid.Uint64Range(0, 20).Draw(t, "low"),
				Lo: rapid.SampledFrom([]uint64{0, 1, 1 << 62, 1<<64 - 2, 1<<64 - 1}).Draw(t, "home"),
			}
		})
		floor := uint64(1<<tagBits - 3) // so that tags go around
		for range rapid.IntRange(0, 150).Draw(t, "steps") {
			k := key.Draw(t, "key")
			if k.Hi&keptMask == 0 && k.Lo == 0 {
				k.Lo = 1 // the two are one to the table
			}
			tag, known := model[k]
			switch rapid.SampledFrom([]string{"add", "add", "add", "get", "remove", "sweep"}).Draw(t, "op") {
			case "add":
				as := (floor + rapid.Uint64Range(0, 4).Draw(t, "tag")) & tagMask
				slot, found := table.slot(k, as)
				require.Equal(t, known, found)
				if !known {
					tag = as
				}
				require.Equal(t, tag, slot.Hi>>tagShift)
				model[k] = tag
			case "get":
				got, found := table.get(k)
				require.Equal(t, known, found)
				require.Equal(t, tag, got)
			case "remove":
				table.remove(k)
				delete(model, k)
			case "sweep":
				floor++
				for shard := range keyShards {
					table.sweep(shard, floor)
				}
				for k, tag := range model {
					if isDead(tag, floor) {
						delete(model, k)
					}
				}
			}
			require.Equal(t, len(model), table.count)
		}
		for k, tag := range model {
			got, found := table.get(k)
			require.True(t, found)
			require.Equal(t, tag, got)
		}
		slots := 0
		for i := range table.shards {
			slots += len(table.shards[i].slots)
		}
		require.Equal(t, slots, table.slots)
	})
}

func TestKeySetZeroKey(t *testing.T) {
	table := newKeySet(1 << 20)
	_, found := table.get(xxh3.Uint128{})
	require.False(t, found)
	for _, want := range []bool{false, true} {
		_, found = table.slot(xxh3.Uint128{}, 0)
		require.Equal(t, want, found)
	}
}

// A full table stays within its budget, and holds an id for 20 bytes.
func TestTableStaysInBudget(t *testing.T) {
	const budget = 16 << 20
	ids := New(Options{Bytes: budget, MaxAge: time.Hour})
	at, most := int64(time.Hour), 0
	for i := range uint64(3 * ids.capacity) {
		if i%1000 == 0 {
			at += int64(10 * time.Millisecond)
			ids.Mark()
			ids.Begin(at)
		}
		ids.Add(testKey(i))
		most = max(most, ids.live)
	}
	require.LessOrEqual(t, most, ids.capacity+1000)
	require.LessOrEqual(t, ids.set.bytes(), int64(budget*102/100))
	require.Greater(t, ids.live, ids.capacity*(evictShare-1)/evictShare)
	require.InDelta(t, 20, float64(budget)/float64(ids.capacity), 0.1)
}

// A group that cannot be written leaves no trace, also where it evicted ids, or all of them.
func TestTableRollback(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		build := func() *Table { // capacity of a few keys, ticks of 2 ns
			ids := New(Options{Bytes: 20 * slotBytes, MaxAge: 100})
			ids.floor = 0
			ids.Mark()
			return ids
		}
		ids, model := build(), build()
		next, at := uint64(0), int64(1000)
		for range rapid.IntRange(0, 12).Draw(t, "groups") {
			ids.Mark()
			model.Mark()
			fails := rapid.Bool().Draw(t, "fails")
			for range rapid.IntRange(0, 4).Draw(t, "records") {
				at += rapid.SampledFrom([]int64{0, 1, 5, 30, 200}).Draw(t, "pass")
				require.Equal(t, ids.Since(at), max(ids.Since(at), ids.floor<<ids.shift))
				since := ids.Since(at)
				ids.Begin(at)
				require.Equal(t, since, ids.floor<<ids.shift)
				if !fails {
					model.Begin(at)
				}
				for range rapid.IntRange(1, 6).Draw(t, "keys") {
					key := testKey(next - min(next, rapid.Uint64Range(0, 8).Draw(t, "back")))
					next++
					ended := at - rapid.Int64Range(-10, 120).Draw(t, "ended")
					isNew := ids.AddAt(key, ended)
					if !fails {
						require.Equal(t, isNew, model.AddAt(key, ended))
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
	Floor, First int64
	Live         int
	Counts       map[int64]uint32
	Keys         map[xxh3.Uint128]uint64
	Unsaved      []xxh3.Uint128
}

// contents holds the ids in the table, without those that wait to be swept.
func (ids *Table) contents() idContents {
	c := idContents{Floor: ids.floor, First: ids.first, Live: ids.live, Counts: map[int64]uint32{},
		Keys: map[xxh3.Uint128]uint64{}}
	for tick, n := range ids.counts {
		if n > 0 {
			c.Counts[int64(tick)] = n
		}
	}
	ids.set.each(func(shard uint8, slot xxh3.Uint128) {
		if !ids.dead(slot.Hi >> tagShift) {
			c.Keys[xxh3.Uint128{Hi: uint64(shard)<<56 | slot.Hi&keptMask, Lo: slot.Lo}] = slot.Hi >> tagShift
		}
	})
	for _, k := range ids.unsaved {
		c.Unsaved = append(c.Unsaved, k.Slots...)
	}
	return c
}

// TestAgainstModel: the table knows an id exactly if its time is not before the floor, in whatever order ids come. The
// floor passes by age and by number only, and both as far as is needed.
func TestAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := New(Options{Bytes: 20 * slotBytes, MaxAge: 1000}) // 16 ids, ticks of 2 ns
		known := map[uint64]int64{}                              // ticks
		at, floor := int64(1_000_000), int64(0)
		for range rapid.IntRange(0, 80).Draw(t, "records") {
			at += rapid.SampledFrom([]int64{0, 2, 10, 10, 300, 5000}).Draw(t, "pass")
			full := ids.Begin(at)
			require.GreaterOrEqual(t, ids.floor, floor)
			floor = ids.floor
			live := 0
			for i, tick := range known {
				if tick < floor {
					delete(known, i)
				} else if live++; tick < at>>1-1 && !full {
					require.Less(t, ids.live, ids.capacity)
				}
			}
			require.Equal(t, live, ids.live)
			require.GreaterOrEqual(t, floor, (at-1000)>>1)
			if !full && floor > (at-1000)>>1 {
				require.NotZero(t, ids.live, "evicted while there was room")
			}
			for range rapid.IntRange(0, 6).Draw(t, "keys") {
				i := rapid.Uint64Range(0, 60).Draw(t, "key")
				ended := at - rapid.SampledFrom([]int64{0, 0, 3, 50, 400, 999, 5000, -3, -1 << 40}).Draw(t, "ended")
				_, dup := known[i]
				require.Equal(t, dup, ids.Has(testKey(i)))
				require.Equal(t, !dup, ids.AddAt(testKey(i), ended))
				if !dup {
					known[i] = min(max(ended>>1, floor), at>>1)
				}
			}
			if rapid.Bool().Draw(t, "written") {
				ids.Mark()
			}
		}
	})
}

// TestSweep: evicted ids leave the memory, and none of them is taken for one of a later time, however long the table
// was idle.
func TestSweep(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, pass := range []time.Duration{time.Second, time.Hour, 3 * 24 * time.Hour, 6 * 24 * time.Hour,
		8 * 24 * time.Hour, 300 * 24 * time.Hour} {
		ids := New(Options{Bytes: 1 << 20, MaxAge: 7 * 24 * time.Hour})
		at := time.Now().UnixNano()
		for i := range uint64(200_000) {
			if i%1000 == 0 {
				at += 1 + rng.Int64N(int64(pass))
				ids.Begin(at)
			}
			ids.AddAt(testKey(i), at-rng.Int64N(int64(10*time.Minute)))
			if i%1000 == 999 {
				ids.Mark()
				live, last := 0, int64(0)
				ids.set.each(func(_ uint8, slot xxh3.Uint128) {
					if tick := Tick(slot, ids.floor); tick >= ids.floor {
						live, last = live+1, max(last, tick)
					}
				})
				require.Equal(t, ids.live, live)
				require.LessOrEqual(t, last, ids.now)
				require.LessOrEqual(t, ids.set.count, ids.live+ids.capacity/4)
			}
		}
	}
}

// TestHostileTimes: whatever times ids have, the memory is bounded, and an id of the last seconds is known.
func TestHostileTimes(t *testing.T) {
	now := time.Now().UnixNano()
	for _, time := range []func(i uint64) int64{
		func(uint64) int64 { return 0 },
		func(uint64) int64 { return now + 1<<60 },
		func(i uint64) int64 { return now - int64(i)*int64(3*time.Second) },
		func(i uint64) int64 { return now - int64(testKey(i).Lo%uint64(8*24*time.Hour)) },
		func(i uint64) int64 { return int64(testKey(i).Lo) },
	} {
		ids := New(Options{Bytes: 1 << 20, MaxAge: 7 * 24 * 3600e9})
		for i := range uint64(400_000) {
			if i%100 == 0 {
				ids.Mark()
				ids.Begin(now + int64(i)*100_000)
			}
			if !ids.AddAt(testKey(i), time(i)) || !ids.Add(testKey(1<<40+i)) || !ids.Has(testKey(1<<40+i-min(i, 10_000))) {
				require.Fail(t, "an id is not known", "%d", i)
			}
		}
		require.Less(t, ids.set.bytes(), int64(3<<20))
	}
}

func TestWindow(t *testing.T) {
	ids := New(Options{Bytes: 1000 * slotBytes, MaxAge: 24 * time.Hour})
	require.Equal(t, 24*time.Hour, ids.Stats(int64(time.Hour)).Window)
	ids.Begin(int64(time.Hour))
	for i := range uint64(100) {
		ids.Add(testKey(i))
	}
	// A hundred within a hundred seconds are a hundred an hour until more is known.
	require.Equal(t, 7*time.Hour, ids.Stats(int64(time.Hour+100*time.Second)).Window)
	require.InDelta(t, 14*time.Hour, ids.Stats(int64(3*time.Hour)).Window, float64(time.Minute))
}

// Short says how far back ids are known where the memory evicts those of events with times of their own, and only then.
func TestShort(t *testing.T) {
	ids := New(Options{Bytes: 1000 * slotBytes, MaxAge: 7 * 24 * time.Hour})
	at := time.Now().UnixNano()
	short := func(add func(i uint64)) time.Duration {
		for i := range uint64(2000) {
			at += int64(time.Minute)
			ids.Begin(at)
			add(i)
			ids.Mark()
		}
		return ids.Stats(at).Short
	}
	require.Zero(t, short(func(i uint64) { ids.Add(testKey(i)) }), "their senders may name another time")
	got := short(func(i uint64) { ids.AddAt(testKey(1<<20+i), at) })
	require.InDelta(t, 750*time.Minute, got, float64(51*time.Minute))
	require.Zero(t, ids.Stats(at+int64(time.Hour)).Short, "none came lately")
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
		ids.Rollback() // of the benchmark before
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
	// In a full table the ids of the earliest ticks are evicted and swept.
	b.Run("full", func(b *testing.B) {
		const all = 40_000_000 // of 27 million
		i, at := uint64(1_000_000_000), ids.now<<ids.shift
		group := func() {
			at += int64(time.Millisecond)
			ids.Begin(at)
			var keys [1000]xxh3.Uint128
			for k := range keys {
				keys[k] = testKey(i + uint64(k))
			}
			for chunk := range slices.Chunk(keys[:], TouchAhead) {
				ids.Touch(chunk)
				for _, key := range chunk {
					ids.Add(key)
				}
			}
			i += 1000
			ids.Mark()
			ids.unsaved = nil
		}
		for range all / 1000 {
			group()
		}
		for b.Loop() {
			group()
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/key")
	})
}

// benchKnown has that many ids known.
func benchKnown(known uint64) *Table {
	ids := New(Options{Bytes: 512 << 20, MaxAge: 1000 * time.Hour})
	ids.Begin(1)
	for i := range known {
		ids.Add(testKey(i))
	}
	ids.Mark()
	return ids
}
