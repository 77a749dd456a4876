package wal

import (
	"fmt"
	"slices"
	"testing"

	"github.com/sloengine/sloengine/reliability/fsys"
)

func benchLog(b *testing.B) *Log {
	l, err := Open(Options{FS: fsys.OS(), Dir: b.TempDir() + "/wal"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = l.Close() })
	return l
}

func sameSize(n, size int) []Pending {
	sizes := make([]int, n)
	for i := range sizes {
		sizes[i] = size
	}
	return batch(1, sizes...)
}

// The disk decides about this one: compare within one machine only.
func BenchmarkAppend(b *testing.B) {
	for _, n := range []int{1, 100, 1000} {
		b.Run(fmt.Sprintf("records=%d", n), func(b *testing.B) {
			l := benchLog(b)
			recs := sameSize(n, 255)
			b.SetBytes(int64(n) * 255)
			b.ReportAllocs()
			for b.Loop() {
				if err := l.Append(recs); err != nil {
					b.Fatal(err)
				}
				if _, segments := l.Size(); segments > 4 {
					if err := l.Truncate(l.NextSeq()); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "records/s")
		})
	}
}

func BenchmarkRead(b *testing.B) {
	const total = 32 << 20
	for _, size := range []int{255, 64 << 10} {
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			l := benchLog(b)
			n := total / size
			for batch := range slices.Chunk(sameSize(n, size), 10_000) {
				if err := l.Append(batch); err != nil {
					b.Fatal(err)
				}
			}
			b.SetBytes(int64(n) * int64(size))
			b.ReportAllocs()
			for b.Loop() {
				r, err := l.NewReader(1)
				if err != nil {
					b.Fatal(err)
				}
				var rec Record
				read := 0
				for {
					ok, err := r.Next(&rec)
					if err != nil {
						b.Fatal(err)
					}
					if !ok {
						break
					}
					read++
				}
				if read != n {
					b.Fatalf("%d records, not %d", read, n)
				}
				_ = r.Close()
			}
		})
	}
}

func BenchmarkOpen(b *testing.B) {
	l := benchLog(b)
	for range 3 {
		if err := l.Append(sameSize(900, 64<<10)); err != nil {
			b.Fatal(err)
		}
	}
	o := l.o
	_ = l.Close()
	b.SetBytes(3 * 900 * 64 << 10)
	for b.Loop() {
		l, err := Open(o)
		if err != nil {
			b.Fatal(err)
		}
		_ = l.Close()
	}
}
