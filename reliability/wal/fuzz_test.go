package wal

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"
)

// sealed is data with the checksums made right where data looks like a segment, so that
// the fuzzer gets behind them.
func sealed(data []byte) []byte {
	if len(data) < segmentHead {
		return data
	}
	data = slices.Clone(data)
	binary.LittleEndian.PutUint32(data[36:], checksum(0, data[:36]))
	salt := binary.LittleEndian.Uint32(data[12:])
	for at := segmentHead; at+frameHead <= len(data); {
		end := at + frameHead + int(binary.LittleEndian.Uint32(data[at+8:]))
		if end <= len(data) {
			binary.LittleEndian.PutUint32(data[at+4:], checksum(salt, data[at+frameHead:end]))
		}
		binary.LittleEndian.PutUint32(data[at:], checksum(salt, data[at+4:at+frameHead]))
		at = end
	}
	return data
}

// Recovery of any two files: no panic, no endless work, numbers without holes, and a log
// that works afterwards, or an error that says where.
func FuzzRecover(f *testing.F) {
	build := func(first, lostFrom uint64, batches ...[]int) []byte {
		s := &segment{first: first, lostFrom: lostFrom, salt: 7}
		data := s.head()
		for _, sizes := range batches {
			recs := batch(first, sizes...)
			for i := range recs {
				recs[i].Seq = first + uint64(i)
				data = appendFrame(data, s.salt, &recs[i], uint16(i), uint16(len(recs)), 0)
			}
			first += uint64(len(sizes))
		}
		return data
	}
	first, second := build(1, 0, []int{10, 0}, []int{30}), build(4, 0, []int{60}, []int{5, 5, 5})
	f.Add(first, second, false)
	f.Add(first, append(second, make([]byte, 100)...), true)
	f.Add(first, second[:segmentHead+20], false)
	f.Add(first[:segmentHead+frameHead+9], []byte{}, false)
	f.Add(second, first, false)
	f.Add(first, build(4, 2, []int{10}), true)
	f.Add([]byte(segmentMagic), make([]byte, 100), false)
	f.Fuzz(func(t *testing.T, a, b []byte, seal bool) {
		if seal {
			a, b = sealed(a), sealed(b)
		}
		m := diskWith(t, map[uint64][]byte{1: a, 4: b})
		l, err := openMem(m, 1024)
		if err != nil {
			var c *CorruptError
			var v *VersionError
			if !errors.As(err, &c) && !errors.As(err, &v) {
				t.Fatalf("open: %v", err)
			}
			if l, err = Open(Options{FS: m, Dir: testDir, SegmentBytes: 1024, AcceptLoss: true}); err != nil {
				if c != nil && !errors.As(err, &v) {
					t.Fatalf("override: %v", err)
				}
				return
			}
		}
		defer func() { _ = l.Close() }()
		before, err := readAll(l, 0)
		if err != nil {
			t.Fatalf("read: %v", err)
		}
		for i := 1; i < len(before); i++ {
			if before[i].Seq != before[i-1].Seq+1 && len(l.Losses()) == 0 {
				t.Fatalf("record %d after %d", before[i].Seq, before[i-1].Seq)
			}
		}
		more := batch(1, 20)
		if err := l.Append(more); err != nil {
			t.Fatal(err)
		}
		if n := len(before); n > 0 && more[0].Seq <= before[n-1].Seq {
			t.Fatalf("number %d was used before", more[0].Seq)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if l, err = openMem(m, 1024); err != nil {
			t.Fatalf("open again: %v", err)
		}
		after, err := readAll(l, 0)
		if err != nil || len(after) != len(before)+1 {
			t.Fatalf("%d records became %d: %v", len(before), len(after), err)
		}
	})
}
