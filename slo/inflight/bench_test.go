package inflight

import (
	"encoding/binary"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const million = 1_000_000

// cpu reports the processor time of an operation, which other work on the machine does not change much.
func cpu(b *testing.B) func() {
	used := func() int64 {
		var u syscall.Rusage
		require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
		return u.Utime.Nano() + u.Stime.Nano()
	}
	before := used()
	return func() { b.ReportMetric(float64(used()-before)/float64(b.N), "cpu-ns/op") }
}

// full is a table with a million entries, with keys of 16 bytes.
func full(b testing.TB) (*Table, []byte) {
	x := newTable(b, 2*million)
	k := []byte("application-0000")
	for i := range uint64(million) {
		binary.LittleEndian.PutUint64(k[8:], i)
		x.Start(at(0), k, t0, uint32(i%100), uint16(i%7), false)
	}
	return x, k
}

// BenchmarkTransitions starts and ends work while a million others are in flight. An operation is one transition.
func BenchmarkTransitions(b *testing.B) {
	x, k := full(b)
	b.ReportAllocs()
	next, first := uint64(million), uint64(0)
	m := at(1)
	defer cpu(b)()
	for i := 0; b.Loop(); i++ {
		m.Version++
		if i%2 == 0 {
			binary.LittleEndian.PutUint64(k[8:], next)
			x.Start(m, k, t0, uint32(next%100), uint16(next%7), false)
			next++
			continue
		}
		binary.LittleEndian.PutUint64(k[8:], first)
		x.End(m, k, t0+second, false, false)
		first++
	}
	b.ReportMetric(float64(x.Bytes())/1e6, "MB")
}

// BenchmarkMinute is what Advance costs once a minute with a million in flight.
func BenchmarkMinute(b *testing.B) {
	x, _ := full(b)
	b.ReportAllocs()
	defer cpu(b)()
	for b.Loop() {
		x.minute = 0
		x.Advance(at(1), func(Outcome) { b.Fatal("nothing is due") })
	}
}

// BenchmarkSnapshot encodes a million entries: the pause of a checkpoint in which all of them changed.
func BenchmarkSnapshot(b *testing.B) {
	x, _ := full(b)
	buf := make([]byte, 0, x.PartsBytes())
	defer cpu(b)()
	for b.Loop() {
		buf = buf[:0]
		for n := range x.Parts() {
			buf = x.AppendPart(buf, n)
		}
	}
	b.ReportMetric(float64(len(buf))/1e6, "MB")
}

// BenchmarkRestore is the inverse.
func BenchmarkRestore(b *testing.B) {
	x, _ := full(b)
	_, parts, versions := encode(x)
	defer cpu(b)()
	for b.Loop() {
		y := newTable(b, 2*million)
		for n, data := range parts {
			require.NoError(b, y.RestorePart(n, versions[n], data))
		}
		require.NoError(b, y.FinishRestore(100, 7))
	}
}

// BenchmarkOldest finds the oldest work of a million after each page changed.
func BenchmarkOldest(b *testing.B) {
	x, _ := full(b)
	defer cpu(b)()
	for b.Loop() {
		for _, p := range x.pages {
			p.known = false
		}
		x.Oldest()
	}
}

// BenchmarkList is the list of what is stuck.
func BenchmarkList(b *testing.B) {
	x, _ := full(b)
	defer cpu(b)()
	for b.Loop() {
		x.List(100, nil)
	}
}

// TestMillion: a million in flight take at most 200 MB, and transitions allocate nothing.
func TestMillion(t *testing.T) {
	x, k := full(t)
	require.Less(t, x.Bytes(), 200<<20)
	m, n := at(1), uint64(million)
	require.Zero(t, testing.AllocsPerRun(2000, func() {
		binary.LittleEndian.PutUint64(k[8:], n-million)
		x.End(m, k, t0+second, false, false)
		binary.LittleEndian.PutUint64(k[8:], n)
		x.Start(m, k, t0, uint32(n%100), uint16(n%7), false)
		n++
	}))
	require.Equal(t, million, x.Stats().Open)
	passed := 0
	x.Advance(Moment{Version: 1, Record: t0 + int64(time.Hour)}, func(Outcome) { passed++ })
	require.Equal(t, million, passed)
}
