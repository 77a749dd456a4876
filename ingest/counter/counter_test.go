package counter_test

import (
	"fmt"
	"maps"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sloengine/sloengine/ingest/counter"
)

var (
	rule     = counter.Key{Lo: 1}
	requests = counter.Key{Lo: 2}
	pod      = counter.Key{Lo: 3}
	began    = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).UnixNano()
)

func minutes(n int) int64 { return began + int64(n)*int64(time.Minute) }

// reading is a sum at a minute, of the process that began at another minute.
func reading(series uint64, start, at int, n uint64) counter.Point {
	p := counter.Point{Class: rule, Metric: requests, Source: pod, Series: series, Start: minutes(start),
		Time: minutes(at), Counts: counter.Counts{Count: n}}
	if start == unknown {
		p.Start = 0
	}
	return p
}

const unknown = -1 << 20

// send observes points as one request and applies their position, and returns what each added or its verdict.
func send(t require.TestingT, table *counter.Table, points ...counter.Point) (out []string) {
	b := counter.NewBatch(table)
	b.Begin()
	for _, p := range points {
		switch why := b.Observe(&p); why {
		case counter.Adds:
			out = append(out, fmt.Sprint(p.Total()))
			b.Keep()
		case counter.Baseline:
			out = append(out, "baseline")
			b.Keep()
		default:
			out = append(out, map[counter.Verdict]string{counter.Stale: "stale", counter.Decreased: "decreased",
				counter.Full: "full"}[why])
		}
	}
	if !b.Empty() {
		apply(t, table, b.AppendPosition(nil, nil))
	}
	return out
}

func apply(t require.TestingT, table *counter.Table, position []byte) {
	_, err := table.Apply(position)
	require.NoError(t, err)
}

func TestWhatAPointAdds(t *testing.T) {
	const large = 1e9
	for name, tt := range map[string]struct {
		requests [][]counter.Point
		want     [][]string
	}{
		"a process that ran before the engine": {
			[][]counter.Point{{reading(1, -60, 0, large)}, {reading(1, -60, 1, large+7)}, {reading(1, -60, 2, large+7)}},
			[][]string{{"baseline"}, {"7"}, {"0"}}},
		"one that begins later": {
			[][]counter.Point{{reading(1, -60, 0, large)}, {reading(1, 1, 2, 5)}, {reading(1, 1, 3, 6)}},
			[][]string{{"baseline"}, {"5"}, {"1"}}},
		"a resend and a late one": {
			[][]counter.Point{{reading(1, -60, 0, large)}, {reading(1, -60, 2, large+7)}, {reading(1, -60, 2, large+7)},
				{reading(1, -60, 1, large+3)}},
			[][]string{{"baseline"}, {"7"}, {"stale"}, {"stale"}}},
		"several points in one request": {
			[][]counter.Point{{reading(1, -60, 0, large)},
				{reading(1, -60, 1, large+1), reading(1, -60, 2, large+3), reading(1, -60, 2, large+3)}},
			[][]string{{"baseline"}, {"1", "2", "stale"}}},
		"attributes that appear while it runs": {
			[][]counter.Point{{reading(1, -60, 0, large), reading(2, -60, 0, large)}, {reading(3, -60, 1, 4)}},
			[][]string{{"baseline", "baseline"}, {"4"}}},
		"two processes that say they are one": {
			[][]counter.Point{{reading(1, -60, 0, large)}, {reading(1, 1, 2, 5)}, {reading(1, 2, 3, 8)}, {reading(1, 1, 4, 6)},
				{reading(1, 2, 5, 9)}},
			[][]string{{"baseline"}, {"5"}, {"8"}, {"1"}, {"1"}}},
		"a process whose resource changes": {
			[][]counter.Point{{reading(1, -60, 0, 1)}, {reading(1, 1, 2, large)}, {renamed(reading(1, 1, 3, large+2))},
				{renamed(reading(1, 1, 4, large+5))}},
			[][]string{{"baseline"}, {"1000000000"}, {"baseline"}, {"3"}}},
		"a counter that falls": {
			[][]counter.Point{{reading(1, -60, 0, large)}, {reading(1, -60, 1, 3)}, {reading(1, -60, 2, large+1)}},
			[][]string{{"baseline"}, {"decreased"}, {"1"}}},
		"a counter without a start": {
			[][]counter.Point{{reading(1, unknown, 0, large)}, {reading(1, unknown, 1, large+2)}, {reading(1, unknown, 2, 3)},
				{reading(2, unknown, 3, 4)}},
			[][]string{{"baseline"}, {"2"}, {"3"}, {"4"}}},
		"a start that is the time": {
			[][]counter.Point{{reading(1, 0, 0, large)}, {reading(1, 1, 1, large+2)}},
			[][]string{{"baseline"}, {"2"}}},
		"a rule that is new": {
			[][]counter.Point{{reading(1, -60, 0, 1)}, {reading(1, 1, 2, large)}, {ruled(reading(1, 1, 3, large))}},
			[][]string{{"baseline"}, {"1000000000"}, {"baseline"}}},
		"a process that was silent for two days": {
			[][]counter.Point{{reading(1, -60, 0, 1)}, {reading(1, 1, 2, 5)}, {reading(9, 1, 60*24*2, 1)},
				{reading(1, 1, 60*24*2+1, large)}, {reading(1, 60*24*2, 60*24*2+2, 3)}},
			[][]string{{"baseline"}, {"5"}, {"1"}, {"999999995"}, {"3"}}},
	} {
		t.Run(name, func(t *testing.T) {
			table := counter.NewTable()
			for i, points := range tt.requests {
				require.Equal(t, tt.want[i], send(t, table, points...), i)
				table = reopened(t, table)
			}
		})
	}
}

func renamed(p counter.Point) counter.Point {
	p.Source.Hi++
	return p
}

func ruled(p counter.Point) counter.Point {
	p.Class.Hi++
	return p
}

// A source that comes back after its points were forgotten begins at a baseline: what it says may be counted.
func TestForgottenSource(t *testing.T) {
	table := counter.NewTable()
	send(t, table, reading(1, -60, 0, 1))
	require.Equal(t, []string{"100"}, send(t, table, reading(1, 1, 2, 100)))
	require.Equal(t, []string{"1"}, send(t, table, renamed(reading(1, 3000, 3001, 1))))
	series, _ := table.Size()
	require.Equal(t, 1, series)
	require.Equal(t, []string{"baseline"}, send(t, table, reading(1, 1, 3002, 150)))
	require.Equal(t, []string{"2"}, send(t, table, reading(1, 1, 3003, 152)))
}

func TestBuckets(t *testing.T) {
	table := counter.NewTable()
	point := func(at int, scale, offset int32, layout uint32, buckets ...uint64) counter.Point {
		p := reading(1, -60, at, 0)
		p.Counts = counter.Counts{Layout: layout, Scale: scale, Offset: offset, Buckets: buckets}
		return p
	}
	observe := func(p counter.Point) (counter.Counts, counter.Verdict) {
		b := counter.NewBatch(table)
		b.Begin()
		why := b.Observe(&p)
		if why <= counter.Baseline {
			b.Keep()
			apply(t, table, b.AppendPosition(nil, nil))
		}
		return p.Counts, why
	}
	observe(point(0, 1, -2, 0, 1, 2, 3, 4)) // of indexes -2 to 1
	got, why := observe(point(1, 1, -3, 0, 5, 1, 2, 4, 4, 6))
	require.Equal(t, counter.Adds, why)
	require.Equal(t, counter.Counts{Scale: 1, Offset: -3, Buckets: []uint64{5, 0, 0, 1, 0, 6}}, got)
	// A coarser scale: index i is i/2, so that -3 to 2 are -2 to 1.
	got, why = observe(point(2, 0, -2, 0, 5, 3, 9, 6))
	require.Equal(t, counter.Adds, why)
	require.Equal(t, counter.Counts{Offset: -2, Buckets: []uint64{0, 0, 1, 0}}, got)
	// A finer one is compared at the scale of the earlier point.
	got, why = observe(point(3, 1, -4, 0, 0, 5, 1, 2, 5, 4, 7))
	require.Equal(t, counter.Adds, why)
	require.Equal(t, counter.Counts{Offset: -2, Buckets: []uint64{0, 0, 0, 1}}, got)
	_, why = observe(point(4, 1, -4, 7, 0, 5, 1, 2, 5, 4, 9)) // other bounds
	require.Equal(t, counter.Decreased, why)
	c := counter.Counts{Scale: 3, Offset: -5, Buckets: []uint64{1, 1, 1, 1, 1, 1, 1, 1, 1}}
	c.Shrink(3)
	require.Equal(t, counter.Counts{Scale: 1, Offset: -2, Buckets: []uint64{1, 4, 4}}, c)
}

// Beyond the bound, counters that are known go on, and others are refused.
func TestFullTable(t *testing.T) {
	table := counter.NewTable()
	big := reading(1, -60, 0, 0)
	for range 1000 {
		big.Buckets = append(big.Buckets, 1<<62)
	}
	refused := 0
	for i := range 200 {
		points := make([]counter.Point, 100)
		for j := range points {
			points[j] = big
			points[j].Series, points[j].Time = uint64(i*100+j), minutes(i)
		}
		for _, out := range send(t, table, points...) {
			if out == "full" {
				refused++
			}
		}
	}
	_, bytes := table.Size()
	require.LessOrEqual(t, bytes, counter.MaxBytes)
	require.Positive(t, refused)
	big.Time, big.Buckets[7] = minutes(300), big.Buckets[7]+3
	require.Equal(t, []string{"3"}, send(t, table, big))
}

// reopened is the table after a checkpoint and a start.
func reopened(t require.TestingT, table *counter.Table) *counter.Table {
	data := table.Encode(nil)
	out := counter.NewTable()
	require.NoError(t, out.Restore(data))
	require.Equal(t, data, out.Encode(nil))
	series, bytes := table.Size()
	backSeries, backBytes := out.Size()
	require.Equal(t, []int{series, bytes}, []int{backSeries, backBytes})
	return out
}

func TestDamage(t *testing.T) {
	table := counter.NewTable()
	b := counter.NewBatch(table)
	b.Begin()
	p := reading(1, -60, 0, 7)
	b.Observe(&p)
	b.Keep()
	seen := counter.Observation{Source: "a", From: began, To: minutes(3)}
	b.Observed(seen)
	position := b.AppendPosition(nil, nil)
	require.True(t, counter.IsPosition(position))
	got, err := counter.NewTable().Apply(position)
	require.NoError(t, err)
	require.Equal(t, []counter.Observation{seen}, got)
	apply(t, table, position)
	data := table.Encode(nil)
	for n := range position {
		_, err := counter.NewTable().Apply(position[:n])
		require.Error(t, err, n)
	}
	for n := range data {
		require.Error(t, counter.NewTable().Restore(data[:n]), n)
	}
	data[0]++
	require.ErrorContains(t, counter.NewTable().Restore(data), "format 2")
}

// Processes start, count, are killed, and export to an engine that is killed at any time; exports are lost before or
// after they were stored, and sent again. What was counted is what was recorded, and never more than what happened.
func TestEachAdditionCountsOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type process struct {
			start int
			sums  map[uint64]uint64
		}
		var log [][]byte // positions
		table := counter.NewTable()
		restart := func() {
			table = counter.NewTable()
			for _, position := range log {
				apply(t, table, position)
			}
		}
		now, counted, happened, recorded := 1, uint64(0), uint64(0), map[*process]map[uint64]uint64{}
		first := &process{start: -60, sums: map[uint64]uint64{1: 1e9}}
		export := func(p *process) (points []counter.Point) {
			for series, n := range p.sums {
				points = append(points, reading(series, p.start, now, n))
			}
			return points
		}
		store := func(p *process, sums map[uint64]uint64, points []counter.Point) {
			b := counter.NewBatch(table)
			b.Begin()
			for _, point := range points {
				if b.Observe(&point) == counter.Adds {
					counted += point.Total()
				}
				b.Keep()
			}
			if !b.Empty() {
				position := b.AppendPosition(nil, nil)
				log = append(log, position)
				apply(t, table, position)
			}
			recorded[p] = sums
		}
		store(first, maps.Clone(first.sums), export(first))
		processes := []*process{first}
		var old []counter.Point
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now++
			p := rapid.SampledFrom(processes).Draw(t, "process")
			switch rapid.IntRange(0, 6).Draw(t, "step") {
			case 0:
				processes = append(processes, &process{start: now, sums: map[uint64]uint64{}})
			case 1, 2:
				n := rapid.Uint64Range(0, 5).Draw(t, "n")
				p.sums[rapid.Uint64Range(1, 4).Draw(t, "series")] += n
				happened += n
			case 3:
				restart()
			case 4: // an export that is stored
				old = export(p)
				store(p, maps.Clone(p.sums), old)
			case 5: // one that is sent again, stored or not
				before := counted
				points := old
				b := counter.NewBatch(table)
				b.Begin()
				for _, point := range points {
					if b.Observe(&point) == counter.Adds {
						counted += point.Total()
					}
				}
				require.Equal(t, before, counted, "a resend adds nothing")
			}
		}
		want := uint64(0)
		for p, sums := range recorded {
			for series, n := range sums {
				if want += n; p == first && series == 1 {
					want -= 1e9
				}
			}
		}
		require.Equal(t, want, counted)
		require.LessOrEqual(t, counted, happened)
		reopened(t, table)
	})
}

func BenchmarkObserve(b *testing.B) {
	table := counter.NewTable()
	points := make([]counter.Point, 1000)
	for i := range points {
		points[i] = reading(uint64(i), -60, 0, 1)
		points[i].Buckets = []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0, 0, 0, 0, 1}
	}
	send(b, table, points...)
	batch := counter.NewBatch(table)
	var position []byte
	at := 0
	b.ReportAllocs()
	for b.Loop() {
		at++
		batch.Begin()
		for i := range points {
			p := points[i]
			p.Time, p.Buckets = minutes(at), append([]uint64(nil), p.Buckets...)
			points[i].Buckets[3] += 2
			p.Buckets[3] = points[i].Buckets[3]
			if batch.Observe(&p) != counter.Adds {
				b.Fatal("not added")
			}
			batch.Keep()
		}
		position = batch.AppendPosition(position[:0], nil)
		if _, err := table.Apply(position); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(position))/float64(len(points)), "bytes/point")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(points)), "ns/point")
}

// BenchmarkScraped: bytes in the log for each series that a poll changes, and memory.
func BenchmarkScraped(b *testing.B) {
	const targets, series = 20, 500
	points := make([]counter.Point, 0, targets*series)
	for target := range targets {
		for i := range series {
			points = append(points, counter.Point{Class: rule, Metric: requests, Source: counter.Key{Lo: uint64(target), Hi: 7},
				Series: uint64(i) * 0x9e3779b97f4a7c15, Time: began, Scraped: true, Counts: counter.Counts{Count: 1e6}})
		}
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	table := counter.NewTable()
	send(b, table, points...)
	runtime.GC()
	runtime.ReadMemStats(&after)
	batch := counter.NewBatch(table)
	for _, changed := range []int{1, 10} { // one of so many
		b.Run(fmt.Sprintf("1 of %d changed", changed), func(b *testing.B) {
			var position []byte
			for b.Loop() {
				batch.Begin()
				for i := range points {
					p := &points[i]
					if p.Time += int64(30 * time.Second); i%changed == 0 {
						p.Count += uint64(i % 200)
					}
					now := *p
					if batch.Observe(&now) == counter.Adds {
						batch.Keep()
					}
				}
				position = batch.AppendPosition(position[:0], nil)
				apply(b, table, position)
			}
			b.ReportMetric(float64(len(position))/float64(len(points)/changed), "bytes/changed")
			b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(len(points)), "memory/series")
		})
	}
}
