package ratelimit

import (
	"fmt"
	"math/big"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// charged makes a batch with one ticket that is charged to the limits given, each of a
// rule and counter of its own, or of the keys given.
func charged(limits []*Limit, keys ...uint64) *Tickets {
	b := &Tickets{List: make([]Ticket, 1)}
	for i, l := range limits {
		k := Key{Hi: uint64(i) + 1, Lo: 7}
		if len(keys) > 0 {
			k = Key{Hi: keys[i], Lo: uint64(i)}
		}
		b.charges = append(b.charges, Charge{Key: k, Limit: l, Rule: uint16(i), Layer: Layer(min(i, 2))})
	}
	b.List[0].end = int32(len(limits))
	return b
}

func take(t require.TestingT, table *Table, now time.Time, b *Tickets) *Ticket {
	require.NoError(t, table.Take(nil, now, []*Tickets{b})) //nolint:staticcheck // it has no use for a context
	return &b.List[0]
}

// The sliding window against a log of all that it granted: never more than N in any
// span of the window, yet at least as many as a limiter that knows every event and whose window is
// an eighth longer.
func TestSlidingWindowModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		window := time.Duration(rapid.Int64Range(1, int64(2*time.Minute)).Draw(t, "window"))
		if rapid.Bool().Draw(t, "short") {
			window = window%200 + 1
		}
		n := rapid.Int64Range(1, 20).Draw(t, "n")
		part := (window + buckets - 1) / buckets
		longer := (buckets + 1) * part
		limit := &Limit{N: n, Window: window}
		table := mustTestTable(t)
		now := start
		var granted []time.Time
		within := func(span time.Duration) (c int64) {
			for _, g := range granted {
				if now.Sub(g) < span {
					c++
				}
			}
			return c
		}
		for range rapid.IntRange(1, 200).Draw(t, "events") {
			now = now.Add(steps(t, window))
			k := take(t, table, now, charged([]*Limit{limit}))
			if k.Over == 0 {
				granted = append(granted, now)
				require.LessOrEqual(t, within(window), n, "too many within a window")
				continue
			}
			require.GreaterOrEqual(t, within(longer), n, "refused with room in a window that is 1/8 longer")
			require.Positive(t, k.Wait)
			require.LessOrEqual(t, k.Wait, longer)
			// Wait is exact: a moment earlier there is no room, then there is.
			saved := *table.index.at(0)
			if k.Wait > 1 {
				require.NotZero(t, take(t, table, now.Add(k.Wait-1), charged([]*Limit{limit})).Over)
				table.at, table.prev = now.UnixNano(), now
			}
			require.Zero(t, take(t, table, now.Add(k.Wait), charged([]*Limit{limit})).Over)
			*table.index.at(0) = saved
			table.at, table.prev = now.UnixNano(), now
		}
	})
}

// steps are now none, now small against the window, now larger than it.
func steps(t *rapid.T, window time.Duration) time.Duration {
	switch rapid.IntRange(0, 4).Draw(t, "kind") {
	case 0:
		return 0
	case 1, 2:
		return time.Duration(rapid.Int64Range(0, int64(window)/8).Draw(t, "small"))
	case 3:
		return time.Duration(rapid.Int64Range(0, int64(window)).Draw(t, "middle"))
	default:
		return time.Duration(rapid.Int64Range(0, 3*int64(window)).Draw(t, "large"))
	}
}

func mustTestTable(t require.TestingT) *Table {
	table, err := NewTable(TableOptions{})
	require.NoError(t, err)
	return table
}

// The token bucket against one of exact fractions.
func TestTokenBucketModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		window := time.Duration(rapid.Int64Range(1, int64(MaxWindow)).Draw(t, "window"))
		n := rapid.Int64Range(1, 50).Draw(t, "n")
		burst := rapid.Int64Range(1, 50).Draw(t, "burst")
		if rapid.Bool().Draw(t, "huge") {
			n = rapid.Int64Range(1, MaxLimit).Draw(t, "N")
		}
		limit := &Limit{N: n, Window: window, Algorithm: TokenBucket, Burst: burst}
		table := mustTestTable(t)
		now := start
		one, full := big.NewRat(1, 1), big.NewRat(burst, 1)
		tokens := new(big.Rat).Set(full)
		perNano := big.NewRat(n, int64(window))
		flow := func(from *big.Rat, d time.Duration) *big.Rat {
			r := new(big.Rat).Add(from, new(big.Rat).Mul(perNano, big.NewRat(int64(d), 1)))
			if r.Cmp(full) > 0 {
				r.Set(full)
			}
			return r
		}
		for range rapid.IntRange(1, 200).Draw(t, "events") {
			d := steps(t, min(window/time.Duration(n)+1, window))
			now = now.Add(d)
			tokens = flow(tokens, d)
			k := take(t, table, now, charged([]*Limit{limit}))
			if tokens.Cmp(one) >= 0 {
				require.Zero(t, k.Over, "refused with %s tokens", tokens)
				tokens.Sub(tokens, one)
				continue
			}
			require.NotZero(t, k.Over, "granted with %s tokens", tokens)
			require.GreaterOrEqual(t, flow(tokens, k.Wait).Cmp(one), 0, "no token after the wait of %s", k.Wait)
			require.Negative(t, flow(tokens, k.Wait-1).Cmp(one), "a token before the end of the wait of %s", k.Wait)
		}
	})
}

func TestFixedWindowModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		window := time.Duration(rapid.Int64Range(1, int64(MaxWindow)).Draw(t, "window"))
		n := rapid.Int64Range(1, 20).Draw(t, "n")
		limit := &Limit{N: n, Window: window, Algorithm: FixedWindow}
		table := mustTestTable(t)
		now := start
		counts := map[int64]int64{}
		for range rapid.IntRange(1, 200).Draw(t, "events") {
			now = now.Add(steps(t, window))
			w := now.UnixNano() / int64(window)
			k := take(t, table, now, charged([]*Limit{limit}))
			require.Equal(t, counts[w] < n, k.Over == 0)
			if k.Over == 0 {
				counts[w]++
			} else {
				require.Equal(t, time.Duration((w+1)*int64(window)-now.UnixNano()), k.Wait)
			}
		}
	})
}

// Many counters with several charges each, against one exact fixed-window count per
// key: all or none, and the index keeps every counter apart.
func TestAllOrNoneModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := []*Limit{
			{N: 40, Window: time.Hour, Algorithm: FixedWindow},
			{N: 9, Window: time.Hour, Algorithm: FixedWindow},
			{N: 3, Window: time.Hour, Algorithm: FixedWindow},
		}
		table := mustTestTable(t)
		counts := map[Key]int64{}
		for range rapid.IntRange(1, 300).Draw(t, "events") {
			b := charged(limits, 1, rapid.Uint64Range(0, 5).Draw(t, "type"), rapid.Uint64Range(0, 40).Draw(t, "context"))
			k := take(t, table, start, b)
			var over uint16
			for i := range b.charges {
				if counts[b.charges[i].Key] >= limits[i].N {
					over |= 1 << i
				}
			}
			require.Equal(t, over, k.Over)
			for i := range b.charges {
				c := &b.charges[i]
				if over == 0 {
					counts[c.Key]++
				}
				require.EqualValues(t, limits[i].N, c.Cap)
				require.EqualValues(t, limits[i].N-counts[c.Key], c.Left)
			}
		}
	})
}

// The index with few counters, so that sweeps and evictions move entries all the time,
// against a map.
func TestIndexModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := newIndex(300)
		model := map[Key]int32{}
		keys := []Key{}
		for range rapid.IntRange(1, 1500).Draw(t, "steps") {
			k := Key{rapid.Uint64Range(0, 600).Draw(t, "key"), 5}
			n := x.find(k)
			want, ok := model[k]
			if !ok {
				want = -1
			}
			require.Equal(t, want, n)
			switch {
			case ok && rapid.IntRange(0, 2).Draw(t, "remove") == 0:
				x.remove(n)
				delete(model, k)
			case !ok && len(model) < 300:
				n = x.insert(k, 0)
				*x.at(n) = counter{key: k, expire: 1}
				model[k] = n
				keys = append(keys, k)
			}
			require.Equal(t, len(model), x.count)
		}
		for _, k := range keys {
			want, ok := model[k]
			if !ok {
				want = -1
			}
			require.Equal(t, want, x.find(k))
		}
	})
}

func TestTableSkipsAndClears(t *testing.T) {
	table := mustTable(t, TableOptions{})
	limit := []*Limit{{N: 1, Window: time.Minute}}
	b := charged(limit)
	b.List[0].Skip = true
	take(t, table, start, b)
	b.List[0].Skip, b.List[0].Exempt = false, true
	take(t, table, start, b)
	require.Zero(t, table.index.count, "neither a duplicate nor an exempt event is charged")

	b = charged(limit)
	require.Zero(t, take(t, table, start, b).Over)
	require.NotZero(t, take(t, table, start, b).Over)
	require.NotZero(t, b.List[0].Wait)
	k := take(t, table, start.Add(2*time.Minute), b)
	require.Zero(t, k.Over)
	require.Zero(t, k.Wait, "what an earlier call set is gone")
}

func TestTableOptions(t *testing.T) {
	for _, o := range []TableOptions{{MaxCounters: 3}, {MaxCounters: -1}, {MaxCounters: 1 << 40},
		{Scale: -1}, {Scale: 1.5}} {
		_, err := NewTable(o)
		require.Error(t, err, "%+v", o)
	}
}

func TestScale(t *testing.T) {
	for name, c := range map[string]struct {
		limit Limit
		want  int
	}{
		"sliding": {Limit{N: 60, Window: time.Minute}, 10},
		"fixed":   {Limit{N: 60, Window: time.Minute, Algorithm: FixedWindow}, 10},
		"bucket":  {Limit{N: 60, Window: time.Minute, Algorithm: TokenBucket, Burst: 120}, 20},
		"least":   {Limit{N: 3, Window: time.Minute}, 1},
	} {
		table := mustTable(t, TableOptions{Scale: 1.0 / 6})
		granted := 0
		for range 200 {
			if take(t, table, start, charged([]*Limit{&c.limit})).Over == 0 {
				granted++
			}
		}
		require.Equal(t, c.want, granted, name)
	}
}

// A clock that goes back neither frees a limit nor blocks it for longer than it
// would have been.
func TestClockBack(t *testing.T) {
	for _, a := range []Algorithm{SlidingWindow, TokenBucket, FixedWindow} {
		for _, back := range []time.Duration{time.Millisecond, 3 * time.Second, time.Hour, 1000 * time.Hour} {
			t.Run(fmt.Sprintf("%s back %s", a, back), func(t *testing.T) {
				limit := []*Limit{{N: 10, Window: time.Minute, Algorithm: a, Burst: 10}}
				table := mustTable(t, TableOptions{})
				for range 10 {
					require.Zero(t, take(t, table, start, charged(limit)).Over)
				}
				now := start.Add(-back)
				require.NotZero(t, take(t, table, now, charged(limit)).Over)
				require.NotZero(t, take(t, table, now, charged(limit)).Over)
				granted := 0
				for range 59 { // a token bucket has had 10 more by then, the others none
					now = now.Add(time.Second)
					if take(t, table, now, charged(limit)).Over == 0 {
						granted++
					}
				}
				require.LessOrEqual(t, granted, 10)
				now = now.Add(time.Minute + clockSlack + 8*time.Second)
				granted = 0
				for range 20 {
					if take(t, table, now, charged(limit)).Over == 0 {
						granted++
					}
				}
				require.Equal(t, 10, granted)
			})
		}
	}
}

// Callers whose clocks were read a moment apart must not make the time run faster.
func TestClockOfSeveralCallers(t *testing.T) {
	limit := []*Limit{{N: 10, Window: time.Minute, Algorithm: TokenBucket, Burst: 1}}
	table := mustTable(t, TableOptions{})
	granted := 0
	for i := range 1000 {
		if take(t, table, start.Add(time.Duration(i%2)*100*time.Millisecond), charged(limit)).Over == 0 {
			granted++
		}
	}
	require.Equal(t, 1, granted)
}

// A reload that changes a window or algorithm keeps the counts.
func TestConvert(t *testing.T) {
	algorithms := []Algorithm{SlidingWindow, TokenBucket, FixedWindow}
	for _, from := range algorithms {
		for _, to := range algorithms {
			for _, window := range []time.Duration{time.Second, time.Minute, time.Hour} {
				table := mustTable(t, TableOptions{})
				before := []*Limit{{N: 10, Window: time.Minute, Algorithm: from, Burst: 10}}
				after := []*Limit{{N: 10, Window: window, Algorithm: to, Burst: 10}}
				for range 8 {
					take(t, table, start, charged(before))
				}
				granted := 0
				for range 10 {
					if take(t, table, start, charged(after)).Over == 0 {
						granted++
					}
				}
				require.Equal(t, 2, granted, "%s to %s of %s", from, to, window)
				k := take(t, table, start, charged(after))
				require.LessOrEqual(t, k.Wait, window*9/8)
				require.Zero(t, take(t, table, start.Add(window*9/8), charged(after)).Over)
			}
		}
	}
}

func TestTableConcurrent(t *testing.T) {
	table := mustTable(t, TableOptions{})
	limits := []*Limit{{N: 1000, Window: time.Hour}, {N: 600, Window: time.Hour}}
	var wg sync.WaitGroup
	var granted [4]int
	for g := range granted {
		wg.Go(func() {
			b := charged(limits)
			for range 500 {
				if take(t, table, start, b).Over == 0 {
					granted[g]++
				}
			}
		})
	}
	wg.Wait()
	require.Equal(t, 600, granted[0]+granted[1]+granted[2]+granted[3])
}
