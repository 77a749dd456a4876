package counter

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sloengine/sloengine/internal/binread"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).UnixNano()

// place is where a counter is.
type place struct {
	class  Key
	at     targetKey
	series uint64
}

// known are the last points of counters, by other means than positions.
type known map[place]string

func text(s *state) string {
	var d decoded
	d.read(s)
	return fmt.Sprintf("%d %v %x", s.time, d.Counts, d.tail)
}

// add takes what a Batch records.
func (k known) add(classes map[Key]*class) {
	for key, c := range classes {
		for at, of := range c.targets {
			for i := range of.states {
				k[place{key, at, of.states[i].series}] = text(&of.states[i])
			}
		}
	}
}

// of are the last points of a Table.
func of(t *Table) known {
	k := known{}
	k.add(t.classes)
	return k
}

// scraper has counters that count, begin again, appear and disappear.
type scraper struct {
	rng    *rand.Rand
	class  Key
	now    int64
	counts map[uint64]*Point // by target and series
}

// poll reads the counters once or twice into a Batch.
func (s *scraper) poll(b *Batch) {
	r := s.rng
	for range 1 + r.IntN(2) {
		s.now += []int64{int64(15 * time.Second), int64(30 * time.Second), 15_001_000_000, 1_234_567_891}[r.IntN(4)]
		if r.IntN(30) == 0 {
			s.now += int64(26 * time.Hour)
		}
		for range r.IntN(4) {
			id := r.Uint64N(60)
			p := &Point{Class: s.class, Metric: Key{Lo: 1}, Source: Key{Lo: id % 3}, Series: id * 0x9e3779b97f4a7c15,
				Scraped: id%2 == 0, Always: r.IntN(9) == 0}
			p.Count = r.Uint64N(1 << r.IntN(40))
			switch id % 10 {
			case 0:
				p.Buckets, p.Layout = []uint64{r.Uint64N(5), 1 << 40, 0}, uint32(r.Uint64N(2))
			case 1:
				p.Buckets, p.Scale, p.Offset = []uint64{1, 2, 3}, 2, -1
			case 2:
				p.Began = s.now - int64(r.IntN(3))*int64(time.Minute)
			case 3:
				p.Start = s.now - int64(r.IntN(3))*int64(time.Minute)
			}
			s.counts[id] = p
		}
		for _, id := range slices.Sorted(maps.Keys(s.counts)) {
			p := s.counts[id]
			switch r.IntN(12) {
			case 0:
				p.Count = r.Uint64N(p.Count + 1) // it began again
			case 1, 2, 3, 4:
				p.Count += r.Uint64N(1 << r.IntN(16))
				if n := len(p.Buckets); n > 0 {
					p.Buckets[r.IntN(n)] += r.Uint64N(300)
				}
			case 5:
				if r.IntN(4) == 0 {
					delete(s.counts, id)
				}
			case 6:
				continue // it is not in this scrape
			}
			one := *p
			one.Time, one.Buckets = s.now+int64(id%3)*1_000_000, slices.Clone(p.Buckets)
			if r.IntN(20) == 0 {
				one.Time -= int64(time.Minute) // it came late
			}
			if b.Observe(&one) <= Baseline {
				b.Keep()
			}
		}
	}
}

// Two sources poll into one log. Batches are stored, or never are; a position is applied later than its caller got an
// answer, and the caller waits for it; the engine is killed at any record, and begins with the newest checkpoint, an
// older one or none. What the Table has is what the batches said, whatever happens.
func TestTableIsWhatWasPolled(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		type checkpoint struct {
			records int
			data    []byte
		}
		var log [][]byte
		checkpoints := []checkpoint{{}}
		table, want := NewTable(), known{}
		sources := []*scraper{{rng, Key{Lo: 1}, start, map[uint64]*Point{}}, {rng, Key{Lo: 2}, start, map[uint64]*Point{}}}
		batches := []*Batch{NewBatch(table), NewBatch(table)}
		apply := func(position []byte) {
			_, err := table.Apply(position)
			require.NoError(t, err)
		}
		for range 40 {
			i := rng.IntN(2)
			b := batches[i]
			b.Begin()
			sources[i].poll(b)
			var beside []byte // the other source stores something while this one polls
			if rng.IntN(3) == 0 {
				other := batches[1-i]
				other.Begin()
				sources[1-i].poll(other)
				beside = other.AppendPosition(nil, nil)
				if first := rng.IntN(2) == 0; first {
					apply(beside)
					log = append(log, beside)
					want.add(other.classes)
					beside = nil
				}
			}
			position := b.AppendPosition(nil, nil)
			if rng.IntN(4) > 0 {
				if beside != nil { // in front of it in the log
					log = append(log, beside)
					apply(beside)
					want.add(batches[1-i].classes)
				}
				log = append(log, position)
				apply(position)
				want.add(b.classes)
			}
			got := of(table)
			for at := range want { // what the Table forgot is forgotten
				if got[at] == "" {
					delete(want, at)
				}
			}
			require.Equal(t, want, got)
			switch rng.IntN(8) {
			case 0, 1:
				checkpoints = append(checkpoints, checkpoint{len(log), table.Encode(nil)})
			case 2:
				before := table.Encode(nil)
				for _, from := range checkpoints {
					table = NewTable()
					if from.data != nil {
						require.NoError(t, table.Restore(from.data))
					}
					for _, position := range log[from.records:] {
						apply(position)
					}
					require.Equal(t, before, table.Encode(nil))
				}
				batches = []*Batch{NewBatch(table), NewBatch(table)}
			}
		}
	})
}

// scrape is a Batch of two counters of one target.
func scrape(table *Table, n int, first, second uint64) *Batch {
	b := NewBatch(table)
	b.Begin()
	for i, count := range []uint64{first, second} {
		p := Point{Class: Key{Lo: 1}, Metric: Key{Lo: 1}, Source: Key{Lo: 1}, Series: uint64(i), Scraped: true,
			Time: start + int64(n)*int64(15*time.Second), Counts: Counts{Count: count}}
		if b.Observe(&p) <= Baseline {
			b.Keep()
		}
	}
	return b
}

// A caller that begins a Batch before the one before is applied, though it will be, breaks its promise. That is found
// whether or not the position was made before: it is refused, and the next one counts what it would have.
func TestOtherBasis(t *testing.T) {
	table := NewTable()
	add := func(b *Batch) {
		_, err := table.Apply(b.AppendPosition(nil, nil))
		require.NoError(t, err)
	}
	first, second := scrape(table, 0, 100, 200), scrape(table, 1, 100, 210)
	refuse := func(position func() []byte) {
		t.Helper()
		before := table.Encode(nil)
		seen, err := table.Apply(position())
		require.ErrorIs(t, err, errOtherBasis)
		require.Empty(t, seen)
		require.Equal(t, before, table.Encode(nil))
	}
	add(first)
	refuse(func() []byte { return second.AppendPosition(nil, nil) }) // its class was new
	add(scrape(table, 1, 101, 202))
	for i := range 2 {
		missed, b := scrape(table, 4*i+2, 110, 202), scrape(table, 4*i+3, 113, 210)
		position := b.AppendPosition(nil, nil)
		add(missed)
		refuse(func() []byte {
			if i == 0 {
				return position
			}
			return b.AppendPosition(nil, nil)
		})
		add(scrape(table, 4*i+4, 124, 231))
		require.Equal(t, []uint64{124, 231}, counts(table))
	}
}

// Where records or a checkpoint were lost, what is built on them is left out, and the counters begin again.
func TestLostBasis(t *testing.T) {
	table, lossy := NewTable(), NewTable()
	lossy.Lose()
	require.False(t, lossy.Empty())
	for i := range 20 {
		if i == 5 { // the class is new for the Table that lost something, and is not what it was
			table.classes[Key{Lo: 1}].touched -= int64(keep)
		}
		position := scrape(table, i, uint64(100+i), 200).AppendPosition(nil, nil)
		_, err := table.Apply(position)
		require.NoError(t, err)
		if i == 0 {
			continue
		}
		data := lossy.Encode(nil)
		lossy = NewTable()
		require.NoError(t, lossy.Restore(data))
		_, err = lossy.Apply(position)
		require.NoError(t, err)
		require.Equal(t, i == 5, len(lossy.classes) == 1, i)
	}
	b := NewBatch(lossy)
	b.Begin()
	p := Point{Class: Key{Lo: 1}, Metric: Key{Lo: 1}, Source: Key{Lo: 1}, Scraped: true, Time: start + int64(time.Hour),
		Counts: Counts{Count: 200}}
	require.Equal(t, Baseline, b.Observe(&p))
}

// The next class of a table is not taken for one that was removed.
func TestForgottenClass(t *testing.T) {
	table := NewTable()
	apply := func(b *Batch) {
		_, err := table.Apply(b.AppendPosition(nil, nil))
		require.NoError(t, err)
	}
	apply(scrape(table, 0, 100, 200))
	apply(scrape(table, 1, 101, 200))
	late := scrape(table, 2, 102, 200)
	position := late.AppendPosition(nil, nil)
	forget := NewBatch(table)
	forget.Begin()
	forget.Forget(Key{Lo: 1})
	apply(forget)
	apply(scrape(table, 1, 5, 6))
	apply(scrape(table, 2, 5, 7))
	before := table.Encode(nil)
	_, err := table.Apply(position)
	require.ErrorIs(t, err, errOtherBasis)
	require.Equal(t, before, table.Encode(nil))
	require.NoError(t, table.Restore(before))
	apply(scrape(table, 3, 9, 9))
	require.Equal(t, []uint64{9, 9}, counts(table))
}

func counts(t *Table) (out []uint64) {
	for _, s := range t.classes[Key{Lo: 1}].order[0].states {
		out = append(out, s.count)
	}
	return out
}

func TestDamagedChanges(t *testing.T) {
	table := NewTable()
	rng := rand.New(rand.NewPCG(1, 2))
	from := scraper{rng, Key{Lo: 1}, start, map[uint64]*Point{}}
	b := NewBatch(table)
	var data, position []byte
	for range 30 {
		b.Begin()
		from.poll(b)
		data, position = table.Encode(nil), b.AppendPosition(nil, nil)
		_, err := table.Apply(position)
		require.NoError(t, err)
	}
	damaged := func(position []byte) error {
		back := NewTable()
		require.NoError(t, back.Restore(data))
		_, err := back.Apply(position)
		return err
	}
	require.NoError(t, damaged(position))
	for n := range position {
		require.Error(t, damaged(position[:n]), n)
		other := slices.Clone(position)
		other[n] ^= byte(1 + rng.IntN(255))
		_ = damaged(other) // it must not panic
	}
}

func TestSpans(t *testing.T) {
	for span, want := range map[int64]int{0: 1, int64(15 * time.Second): 1, int64(-15 * time.Second): 1,
		int64(time.Minute): 2, int64(15_001 * time.Millisecond): 3, 1: 2, -1 << 63: 11, 1<<63 - 1: 11} {
		b := appendSpan(nil, span)
		require.Len(t, b, want, span)
		r := binread.New(b)
		require.Equal(t, span, readSpan(&r))
		require.True(t, r.Done())
	}
}

// A class that others make room for while its position is written is written as a whole.
func TestClassThatOthersRemove(t *testing.T) {
	table := NewTable()
	apply := func(b *Batch) {
		_, err := table.Apply(b.AppendPosition(nil, nil))
		require.NoError(t, err)
	}
	beside := func(minutes int) *Batch {
		b := NewBatch(table)
		b.Begin()
		p := Point{Class: Key{Lo: 2}, Metric: Key{Lo: 1}, Always: true, Time: start + int64(minutes)*int64(time.Minute)}
		b.Observe(&p)
		b.Keep()
		return b
	}
	apply(scrape(table, 0, 100, 200))
	apply(beside(0))
	table.bytes += MaxBytes // room is scarce
	apply(beside(24*60 + 30))
	b := scrape(table, 4*(24*60+40), 101, 202)
	position := b.AppendPosition(nil, nil)
	apply(beside(25*60 + 10))
	require.Empty(t, table.classes[Key{Lo: 1}].order)
	_, err := table.Apply(position)
	require.NoError(t, err)
	require.Equal(t, []uint64{101, 202}, counts(table))
}

// A poll takes at most 3 bytes for each series that it changes, and none for others.
func TestBytesOfAPoll(t *testing.T) {
	for name, tt := range map[string]struct {
		targets, series, unchanged int // of unchanged+1 series, one changes
		apart                      bool
		added                      uint64 // at most
		most                       float64
	}{
		"all of a large target":      {targets: 1, series: 5000, added: 100, most: 1.2},
		"some of large targets":      {targets: 20, series: 500, unchanged: 3, added: 100, most: 1.7},
		"few of large targets":       {targets: 20, series: 500, unchanged: 20, added: 100, most: 2.2},
		"many events":                {targets: 20, series: 500, unchanged: 3, added: 10_000, most: 2.7},
		"few of many events":         {targets: 20, series: 500, unchanged: 9, added: 10_000, most: 3},
		"some of small targets":      {targets: 20, series: 20, unchanged: 1, added: 100, most: 1.7},
		"few of small targets":       {targets: 20, series: 20, unchanged: 4, added: 100, most: 2.6},
		"of two scrapes":             {targets: 20, series: 100, unchanged: 2, apart: true, added: 100, most: 2.2},
		"small targets, two scrapes": {targets: 20, series: 20, unchanged: 1, apart: true, added: 100, most: 3},
	} {
		t.Run(name, func(t *testing.T) {
			table, rng := NewTable(), rand.New(rand.NewPCG(1, 1))
			b := NewBatch(table)
			var counts [20][5000]uint64
			poll := func(at time.Duration, changes bool) (position []byte, changed int) {
				b.Begin()
				for target := range tt.targets {
					for i := range tt.series {
						if changes && rng.IntN(tt.unchanged+1) > 0 {
							continue
						}
						changed++
						counts[target][i] += rng.Uint64N(tt.added)
						p := Point{Class: Key{Lo: 1}, Metric: Key{Lo: 1}, Source: Key{Lo: uint64(target)}, Scraped: true,
							Series: uint64(i) * 0x9e3779b97f4a7c15, Counts: Counts{Count: counts[target][i] + 1_000_000},
							Time: start + int64(at) + int64(target)*1_234_000_000}
						if tt.apart && rng.IntN(2) == 0 {
							p.Time -= int64(15 * time.Second)
						}
						if b.Observe(&p) <= Baseline {
							b.Keep()
						}
					}
				}
				return b.AppendPosition(nil, nil), changed
			}
			position, _ := poll(0, false)
			_, err := table.Apply(position)
			require.NoError(t, err)
			position, changed := poll(30*time.Second, true)
			bytes := float64(len(position)) / float64(changed)
			t.Logf("%.2f bytes", bytes)
			require.LessOrEqual(t, bytes, tt.most)
		})
	}
}
