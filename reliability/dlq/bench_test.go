package dlq

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Batched writes to a real disk: eight callers, batches of 1 and 100.
func BenchmarkFileSave(b *testing.B) {
	for _, size := range []int{1, 100} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) {
			f, err := OpenFile(FileOptions{Dir: b.TempDir()})
			require.NoError(b, err)
			defer func() { _ = f.Close() }()
			var seq atomic.Int64
			var mu sync.Mutex
			var took []time.Duration
			b.SetParallelism(4)
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					from := int(seq.Add(int64(size))) - size
					entries := testEntries(from, from+size)
					began := time.Now()
					if err := f.Save(context.Background(), entries); err != nil {
						b.Error(err)
					}
					d := time.Since(began)
					mu.Lock()
					took = append(took, d)
					mu.Unlock()
				}
			})
			slices.Sort(took)
			b.ReportMetric(float64(b.N*size)/b.Elapsed().Seconds(), "entries/s")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
		})
	}
}

// 10,000 entries a second in batches of 100 come in at their own pace: the time that one
// Save then takes.
func BenchmarkFileSaveAt10000(b *testing.B) {
	f, err := OpenFile(FileOptions{Dir: b.TempDir()})
	require.NoError(b, err)
	defer func() { _ = f.Close() }()
	var mu sync.Mutex
	var took []time.Duration
	var group sync.WaitGroup
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	began := time.Now()
	for i := range max(b.N, 200) {
		due := <-tick.C
		group.Go(func() {
			if err := f.Save(context.Background(), testEntries(i*100, i*100+100)); err != nil {
				b.Error(err)
			}
			mu.Lock()
			took = append(took, time.Since(due))
			mu.Unlock()
		})
	}
	group.Wait()
	slices.Sort(took)
	b.ReportMetric(float64(len(took)*100)/time.Since(began).Seconds(), "entries/s")
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
}

func BenchmarkFileOpen(b *testing.B) {
	dir := b.TempDir()
	f, err := OpenFile(FileOptions{Dir: dir})
	require.NoError(b, err)
	for i := range 100 {
		require.NoError(b, f.Save(context.Background(), testEntries(i*1000, i*1000+1000)))
	}
	stats, err := f.Stats(context.Background())
	require.NoError(b, err)
	require.NoError(b, f.Close())
	b.SetBytes(stats.DiskBytes)
	for b.Loop() {
		f, err := OpenFile(FileOptions{Dir: dir})
		require.NoError(b, err)
		require.NoError(b, f.Close())
	}
	b.ReportMetric(100_000*float64(b.N)/b.Elapsed().Seconds(), "entries/s")
}

func BenchmarkFileReplayCycle(b *testing.B) {
	f, err := OpenFile(FileOptions{Dir: b.TempDir()})
	require.NoError(b, err)
	defer func() { _ = f.Close() }()
	n := 0
	for b.Loop() {
		if n%50_000 == 0 {
			b.StopTimer()
			for i := range 50 {
				require.NoError(b, f.Save(context.Background(), testEntries(n+i*1000, n+i*1000+1000)))
			}
			b.StartTimer()
		}
		page, err := f.List(context.Background(), Query{})
		require.NoError(b, err)
		require.Len(b, page.Entries, 100)
		_, err = f.Replayed(context.Background(), idsOf(page.Entries))
		require.NoError(b, err)
		n += 100
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "entries/s")
}

func BenchmarkFilterExpression(b *testing.B) {
	f, err := NewFilter(FilterOptions{NeverSave: []string{"health*"}, AlwaysSave: []string{"audit*"},
		SaveIf: `event.severity == "critical" or number(event.attributes.amount, 0) > 100`})
	require.NoError(b, err)
	values := map[string]string{"amount": "250"}
	s := &Subject{Type: "payment", Reason: ReasonRateLimited, Attributes: func() map[string]string { return values }}
	b.ReportAllocs()
	for b.Loop() {
		f.Decide(s)
	}
}
