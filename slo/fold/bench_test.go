package fold

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/slo"
)

const day = 24 * time.Hour

// twenty indicators that match every event of the benchmark: fourteen of events,
// five latencies and one of throughput, over five attributes.
func twenty() *Config {
	var inds []Indicator
	attrs := []string{"product", "channel", "stage", "region", "error_type"}
	for i := range 20 {
		ind := Indicator{
			ID: fmt.Sprintf("shop/i%02d", i), Service: "shop", Kind: Events, Retention: 30 * day,
			Valid: []Matcher{ne(attrs[i%5], "none"), eq("type", "order")}, Bad: []Matcher{eq("outcome", "failure")},
			GroupBy: []string{attrs[i%3]},
		}
		switch {
		case i >= 14 && i < 19:
			ind.Kind, ind.Bad = Latency, nil
			ind.Edges = []time.Duration{100 * time.Millisecond, 300 * time.Millisecond, time.Second}
		case i == 19:
			ind.Slice = &Slice{Per: time.Minute, AtLeast: 100}
		}
		inds = append(inds, ind)
	}
	c := config(inds...)
	c.Services[0].Dimensions = []string{"error_type"}
	for _, ms := range []int{5, 10, 25, 50, 100, 250, 300, 500, 1000, 2500, 5000, 10_000, 30_000, 60_000, 120_000, 300_000,
		600_000, 900_000, 1_800_000} {
		c.Services[0].Buckets = append(c.Services[0].Buckets, time.Duration(ms)*time.Millisecond)
	}
	return c
}

// encoded makes events at the given times, all with five attributes.
func encoded(n int, at func(r *rand.Rand) time.Time) [][]byte {
	r := rand.New(rand.NewPCG(1, 2))
	out := make([][]byte, n)
	for i := range out {
		e := took(shop(at(r),
			"product", []string{"MEDCARE", "SOMLT", "TRVL10"}[r.IntN(3)],
			"channel", []string{"front", "partner"}[r.IntN(2)],
			"stage", fmt.Sprintf("STAGE_%d", r.IntN(6)),
			"region", []string{"north", "south"}[r.IntN(2)],
			"error_type", "MDM_ERROR"), time.Duration(r.IntN(2000))*time.Millisecond)
		e.ID = fmt.Sprintf("order-%d", i)
		if r.IntN(20) == 0 {
			e = failed(e)
		}
		out[i] = event.AppendBinary(nil, e)
	}
	return out
}

// cpu is the processor time of the process so far. Unlike the wall clock it says
// the same on a busy machine.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func reportCPU(b *testing.B, since time.Duration) {
	b.ReportMetric(float64(cpu()-since)/float64(b.N), "cpu-ns/op")
}

func benchmarkFold(b *testing.B, parse bool, at func(r *rand.Rand) time.Time) {
	f := newFold(b, twenty(), t0)
	events := encoded(1<<14, at)
	views := make([]event.View, len(events))
	for i := range events {
		_, err := views[i].Parse(events[i])
		require.NoError(b, err)
		require.NoError(b, f.Apply(t0.UnixNano(), Live, &views[i]))
	}
	var v event.View
	i := 0
	recv := t0.UnixNano()
	b.ReportAllocs()
	began := cpu()
	for b.Loop() {
		i = (i + 1) & (len(events) - 1)
		p := &views[i]
		if parse {
			if _, err := v.Parse(events[i]); err != nil {
				b.Fatal(err)
			}
			p = &v
		}
		if err := f.Apply(recv, Live, p); err != nil {
			b.Fatal(err)
		}
	}
	reportCPU(b, began)
}

func current(r *rand.Rand) time.Time { return t0.Add(-time.Duration(r.IntN(60000)) * time.Millisecond) }
func spread(r *rand.Rand) time.Time {
	return t0.Add(-time.Duration(r.IntN(int(30*day/time.Millisecond))) * time.Millisecond)
}

func BenchmarkFoldCurrent20(b *testing.B)        { benchmarkFold(b, true, current) }
func BenchmarkFoldSpread20(b *testing.B)         { benchmarkFold(b, true, spread) }
func BenchmarkFoldCurrent20NoParse(b *testing.B) { benchmarkFold(b, false, current) }
func BenchmarkFoldSpread20NoParse(b *testing.B)  { benchmarkFold(b, false, spread) }

// busy fills every bucket of 30 days for n groups of a latency indicator with
// four bins, as steady traffic would have left it.
func busy(b testing.TB, groups, perCell int) *Fold {
	var inds []Indicator
	const perInd = 500
	for i := range (groups + perInd - 1) / perInd {
		ind := Indicator{
			ID: fmt.Sprintf("shop/l%02d", i), Service: "shop", Kind: Latency, Retention: 30 * day,
			Edges: []time.Duration{time.Second, 2 * time.Second, 3 * time.Second}, GroupBy: []string{"g"},
		}
		for j := range min(perInd, groups-i*perInd) {
			ind.Expect = append(ind.Expect, []string{fmt.Sprintf("group-%03d", j)})
		}
		inds = append(inds, ind)
	}
	f := newFold(b, config(inds...), t0)
	fill(f, perCell)
	return f
}

// fill puts counts into all columns of all buckets up to now, and of all hours before.
func fill(f *Fold, perCell int) {
	f.clock++
	r := rand.New(rand.NewPCG(3, 4))
	now := f.rec / int64(time.Second)
	for _, s := range f.stores {
		for sec := s.oldest(); sec <= now; {
			_, width := s.leafAt(sec)
			leaf := s.leaf(sec)
			leaf.touch(s.cols.n, int(s.cols.n), f.clock)
			for c := range leaf.cells {
				leaf.bump1(uint32(c), 1+r.Uint64N(uint64(perCell)))
			}
			sec += width
		}
		for sec := s.past.start(); sec < s.oldest(); sec += hourWidth {
			for c := range s.cols.n {
				s.past.add(sec, c, 1+r.Uint64N(uint64(12*perCell)), int(s.cols.n), f.clock)
			}
		}
		s.addUpHours()
	}
}

func BenchmarkSums10k(b *testing.B) {
	f := busy(b, 10_000, 200)
	now := unix(f.rec).Add(7 * time.Second)
	req := Request{Now: now}
	for _, w := range append(slo.BurnWindows, 30*day) {
		req.Spans = append(req.Spans, last(now, w))
	}
	sum := f.Sums(req)
	require.Len(b, sum.Groups, 10_000)
	late := make([]event.View, 24)
	for i := range late {
		_, err := late[i].Parse(
			event.AppendBinary(nil, took(shop(now.Add(-time.Duration(i)*time.Hour), "g", "group-001"), time.Second)))
		require.NoError(b, err)
	}
	b.ReportAllocs()
	began := cpu()
	for b.Loop() {
		for i := range late { // keeps sums that were made beforehand from being all there is
			require.NoError(b, f.Apply(f.rec, Live, &late[i]))
		}
		f.Sums(req)
	}
	reportCPU(b, began)
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func BenchmarkMemoryPerGroup(b *testing.B) {
	const groups = 1000
	for b.Loop() {
		before := heap()
		f := busy(b, groups, 200)
		f.Sums(Request{Now: unix(f.rec), Spans: []slo.Span{last(unix(f.rec), 30*day)}})
		after := heap()
		b.ReportMetric(float64(after-before)/groups, "B/group")
		b.ReportMetric(float64(f.Stats().Bytes)/groups, "counted-B/group")
		runtime.KeepAlive(f)
	}
}

// BenchmarkSnapshotChanged measures how much of a snapshot is new after a minute
// of traffic, for 2,000 groups.
func BenchmarkSnapshotChanged(b *testing.B) {
	f := busy(b, 2000, 50)
	known := map[string]uint64{}
	var buf []byte
	total, changed := 0, 0
	write := func() {
		total, changed = 0, 0
		for _, p := range f.Parts() {
			if known[p.Name] == p.Version {
				continue
			}
			known[p.Name] = p.Version
			buf = p.Encode(buf[:0])
			changed += len(buf)
		}
	}
	write()
	total = changed
	whole := total
	for b.Loop() {
		for s := range 60 {
			at := unix(f.rec).Add(time.Second)
			f.Advance(at.UnixNano(), Tick)
			for g := range 100 {
				apply(b, f, at, took(shop(at, "g", fmt.Sprintf("group-%03d", (g*7+s)%500)), 2*time.Second))
			}
		}
		write()
		b.ReportMetric(float64(changed), "B/checkpoint")
		b.ReportMetric(100*float64(changed)/float64(whole), "%changed")
	}
}

func BenchmarkRestore(b *testing.B) {
	f := busy(b, 2000, 50)
	parts := map[string][]byte{}
	size := 0
	for _, p := range f.Parts() {
		parts[p.Name] = p.Encode(nil)
		size += len(parts[p.Name])
	}
	b.SetBytes(int64(size))
	began := cpu()
	for b.Loop() {
		g, err := New(Options{})
		require.NoError(b, err)
		for name, data := range parts {
			require.NoError(b, g.RestorePart(name, data))
		}
		require.NoError(b, g.FinishRestore())
	}
	reportCPU(b, began)
}

// BenchmarkPark parks 2,000 groups that were busy for 30 days, and resumes them. Counting
// stands still meanwhile.
func BenchmarkPark(b *testing.B) {
	f := busy(b, 2000, 50)
	cfg := f.cfg
	none := &Config{Version: ConfigVersion, Services: []Service{{Name: "shop"}}}
	at := f.rec
	var parked, resumed time.Duration
	for b.Loop() {
		at += int64(time.Minute)
		began := time.Now()
		require.NoError(b, f.SetConfig(none, at))
		parked += time.Since(began)
		began = time.Now()
		require.NoError(b, f.SetConfig(cfg, at))
		resumed += time.Since(began)
	}
	require.NoError(b, f.SetConfig(none, at))
	b.ReportMetric(float64(f.Stats().ParkedBytes)/(1<<20), "parked-MiB")
	b.ReportMetric(parked.Seconds()/float64(b.N), "s/park")
	b.ReportMetric(resumed.Seconds()/float64(b.N), "s/resume")
}

// BenchmarkMemoryPerHistogram measures a histogram with the bounds that services have unless their spec says otherwise.
func BenchmarkMemoryPerHistogram(b *testing.B) {
	const bounds = 20 // 18 and two thresholds
	cfg := config(availability())
	cfg.Services[0].Dimensions = []string{"task"}
	for i := range bounds {
		cfg.Services[0].Buckets = append(cfg.Services[0].Buckets, time.Duration(i+1)*time.Second)
	}
	for b.Loop() {
		f := newFold(b, cfg, t0)
		get := make([]func(string) string, maxSeries)
		for i := range get {
			task := fmt.Sprint("task ", i)
			get[i] = func(string) string { return task }
		}
		before := heap()
		for _, g := range get {
			f.seriesOf(f.services["shop"], g)
		}
		b.ReportMetric(float64(heap()-before)/maxSeries, "B/histogram")
		runtime.KeepAlive(f)
		runtime.KeepAlive(get)
	}
}

// BenchmarkCompare10000 previews a config of 10,000 SLOs in which one has changed, one is new and one is renamed.
func BenchmarkCompare10000(b *testing.B) {
	cfg := &Config{Version: ConfigVersion, Services: []Service{{Name: "shop"}}}
	for i := range 10_000 {
		ind := availability()
		ind.ID = fmt.Sprintf("shop/availability-%d", i)
		cfg.Indicators = append(cfg.Indicators, ind)
	}
	f := newFold(b, cfg, t0)
	held := f.Generations(0)
	cfg.Indicators[1].Bad = nil
	cfg.Indicators[2].ID = "shop/new"
	cfg.Indicators[3].ID, cfg.Indicators[3].Was = "shop/renamed", cfg.Indicators[3].ID
	b.ReportAllocs()
	for b.Loop() {
		c, err := Compare(held, cfg)
		if err != nil || len(c.Started) != 2 {
			b.Fatal(err, len(c.Started))
		}
	}
}
