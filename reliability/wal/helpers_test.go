package wal

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/reliability/fsys/fsystest"
)

const testDir = "/data/wal"

func openMem(m *fsystest.Mem, segmentBytes int64) (*Log, error) {
	return Open(Options{FS: m, Dir: testDir, SegmentBytes: segmentBytes})
}

func mustOpen(t testing.TB, m *fsystest.Mem, segmentBytes int64) *Log {
	t.Helper()
	l, err := openMem(m, segmentBytes)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// payload is size bytes that no other number has (from 8 bytes on), mostly not zero.
func payload(number uint64, size int) []byte {
	b := make([]byte, size)
	rng := rand.New(rand.NewPCG(number, 7))
	for i := 0; i+8 <= len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], rng.Uint64())
	}
	if size >= 8 {
		binary.LittleEndian.PutUint64(b, number)
	}
	return b
}

func batch(from uint64, sizes ...int) []Pending {
	out := make([]Pending, len(sizes))
	for i, size := range sizes {
		n := from + uint64(i)
		out[i] = Pending{Time: int64(n) * 1000, Type: byte(n), Payload: payload(n, size)}
	}
	return out
}

// kept is a record with its own memory.
func kept(r Record) Record {
	r.Payload = append([]byte{}, r.Payload...)
	return r
}

func readAll(l *Log, from uint64) ([]Record, error) {
	r, err := l.NewReader(from)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	var out []Record
	for {
		var rec Record
		ok, err := r.Next(&rec)
		if err != nil || !ok {
			return out, err
		}
		out = append(out, kept(rec))
	}
}

// same compares the appended record seq with the one read.
func same(p Pending, seq uint64, r Record) error {
	if r.Seq != seq || r.Time != p.Time || r.Type != p.Type || string(r.Payload) != string(p.Payload) {
		return fmt.Errorf("record %d is not what was appended as %d (time %d, type %d, %d bytes; got %d, %d, %d bytes)",
			r.Seq, seq, p.Time, p.Type, len(p.Payload), r.Time, r.Type, len(r.Payload))
	}
	return nil
}

func requireRecords(t testing.TB, want []Pending, firstSeq uint64, got []Record) {
	t.Helper()
	require.Len(t, got, len(want))
	for i := range want {
		require.NoError(t, same(want[i], firstSeq+uint64(i), got[i]))
	}
}

func segmentPath(first uint64) string { return filepath.Join(testDir, segmentName(first)) }

func readFile(t testing.TB, m *fsystest.Mem, name string) []byte {
	t.Helper()
	data, err := m.ReadFile(name)
	require.NoError(t, err)
	return data
}

// diskWith is a disk that holds these segments only.
func diskWith(t testing.TB, segments map[uint64][]byte) *fsystest.Mem {
	t.Helper()
	m := fsystest.New()
	require.NoError(t, m.MkdirAll(testDir))
	for first, data := range segments {
		require.NoError(t, m.WriteFile(segmentPath(first), data))
	}
	return m
}

// segmentFiles are the names of the segments on a disk.
func segmentFiles(t testing.TB, m *fsystest.Mem) []string {
	t.Helper()
	names, err := m.List(testDir)
	require.NoError(t, err)
	return slices.DeleteFunc(names, func(name string) bool {
		_, ok := parseSegmentName(name)
		return !ok
	})
}
