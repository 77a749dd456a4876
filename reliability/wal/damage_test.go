package wal

import (
	"encoding/binary"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/reliability/fsys/fsystest"
)

// marked is a disk with the sample and its marker, as it was last written.
func (s *sample) marked(t *testing.T, segments map[uint64][]byte) *fsystest.Mem {
	m := diskWith(t, segments)
	require.NoError(t, m.WriteFile(filepath.Join(testDir, markName), s.mark))
	return m
}

// A log whose end is cut, zeroed, damaged or missing is refused with the number of the
// records; under the override all others are there, and no number is used twice.
func TestEveryLossAtTheEndIsNoticed(t *testing.T) {
	s := newSample(t, []int{100, 1500, 40}, []int{2200}, []int{9, 700, 255, 31}, []int{1, 90}, []int{400, 64, 200})
	require.Equal(t, []uint64{1, 5}, s.order)
	last := s.segments[5]
	records := uint64(len(s.recs))
	check := func(at int, m *fsystest.Mem, whole int) {
		t.Helper()
		l, err := openMem(m, 4096)
		if uint64(whole) == records {
			require.NoError(t, err, "byte %d", at)
			require.NoError(t, l.Close())
			return
		}
		var c *CorruptError
		require.ErrorAs(t, err, &c, "byte %d", at)
		require.Equal(t, []uint64{uint64(whole) + 1, records}, []uint64{c.Seq, c.LastSeq}, "byte %d", at)
		require.Empty(t, c.More)
		for _, accept := range []bool{true, false} {
			l, err = Open(Options{FS: m, Dir: testDir, SegmentBytes: 4096, AcceptLoss: accept})
			require.NoError(t, err)
			got, err := readAll(l, 0)
			require.NoError(t, err)
			requireRecords(t, s.recs[:whole], 1, got)
			require.Len(t, l.Losses(), 1)
			require.EqualValues(t, whole+1, l.Losses()[0].FirstSeq)
			require.Greater(t, l.NextSeq(), records)
			require.EqualValues(t, whole, l.DurableSeq())
			require.NoError(t, l.Close())
		}
	}
	wholeAt := func(at int) int {
		n := 4
		for n < len(s.recs) && s.end(n) <= int64(at) {
			n++
		}
		return n
	}
	for at := 0; at < len(last); at += 1 + at/97 {
		cut := map[uint64][]byte{1: s.segments[1], 5: slices.Clone(last[:at])}
		check(at, s.marked(t, cut), wholeAt(at))
		zeroed := slices.Clone(last)
		clear(zeroed[at:])
		for at < len(last) && last[at] == 0 { // zeros over zeros change nothing
			at++
		}
		check(at, s.marked(t, map[uint64][]byte{1: s.segments[1], 5: zeroed}), wholeAt(at))
	}
	check(-1, s.marked(t, map[uint64][]byte{1: s.segments[1]}), 4)
	check(-2, s.marked(t, nil), 0)

	// The last batch, without any bytes behind it that show that it was synced.
	for i := len(s.recs) - 3; i < len(s.recs); i++ {
		data := slices.Clone(last)
		data[s.places[i].Offset+frameHead] ^= 1
		m := s.marked(t, map[uint64][]byte{1: s.segments[1], 5: data})
		_, err := openMem(m, 4096)
		var c *CorruptError
		require.ErrorAs(t, err, &c)
		require.EqualValues(t, i+1, c.Seq)
		l, err := Open(Options{FS: m, Dir: testDir, SegmentBytes: 4096, AcceptLoss: true})
		require.NoError(t, err)
		got, err := readAll(l, 0)
		require.NoError(t, err)
		require.Len(t, got, len(s.recs)-1, "all but the damaged one")
		require.NoError(t, l.Close())
	}
}

// A record behind the marker was acknowledged within the last second; its loss cannot be
// distinguished from a torn write.
func TestMarkerIsOlderThanTheEnd(t *testing.T) {
	m := fsystest.New()
	l := mustOpen(t, m, 4096)
	require.NoError(t, l.Append(batch(1, 10)))
	require.NoError(t, l.SyncMark())
	older := readFile(t, m, filepath.Join(testDir, markName))
	require.NoError(t, l.Append(batch(2, 10)))
	data := readFile(t, m, segmentPath(1))
	data[segmentHead+frameHead+10] ^= 1
	disk := diskWith(t, map[uint64][]byte{1: data})
	require.NoError(t, disk.WriteFile(filepath.Join(testDir, markName), older))
	l = mustOpen(t, disk, 4096)
	require.EqualValues(t, 1, l.DurableSeq())
}

// A damaged marker costs no record: with one slot gone the other one is good, with both
// the log opens and says that its end is not known.
func TestEveryByteOfTheMarker(t *testing.T) {
	s := newSample(t, []int{100}, []int{200}, []int{300})
	for at := range s.mark {
		for _, more := range []int{0, markBytes} {
			broken := slices.Clone(s.mark)
			broken[at] ^= 0x20
			broken[(at+more)%len(broken)] ^= 0x10
			m := diskWith(t, s.segments)
			require.NoError(t, m.WriteFile(filepath.Join(testDir, markName), broken))
			l, err := openMem(m, 4096)
			require.NoError(t, err)
			require.Len(t, l.Repairs(), 1)
			got, err := readAll(l, 1)
			require.NoError(t, err)
			requireRecords(t, s.recs, 1, got)
			if more == 0 {
				require.GreaterOrEqual(t, l.mark.found.seq, uint64(2))
			}
			require.NoError(t, l.Close())
			l = mustOpen(t, m, 4096)
			require.Empty(t, l.Repairs())
			require.EqualValues(t, 3, l.mark.found.seq)
		}
	}
	newer := slices.Clone(s.mark)
	for b := newer; len(b) > 0; b = b[markBytes:] {
		b[8] = 9
		binary.LittleEndian.PutUint32(b[36:], checksum(0, b[:36]))
	}
	m := diskWith(t, s.segments)
	require.NoError(t, m.WriteFile(filepath.Join(testDir, markName), newer))
	var version *VersionError
	_, err := openMem(m, 4096)
	require.ErrorAs(t, err, &version)
}

// A segment without its head, and without its first records, is read by the salt that its
// neighbour or the marker names.
func TestHeadAndFirstRecordsAreDamaged(t *testing.T) {
	s := newSample(t, []int{100}, []int{3800}, []int{50, 60}, []int{1800, 20}, []int{1800},
		[]int{100}, []int{200}, []int{30})
	require.Len(t, s.order, 3)
	for i, first := range s.order {
		data := slices.Clone(s.segments[first])
		clear(data[:s.end(int(first)-1)-5])
		segments := map[uint64][]byte{}
		for k, v := range s.segments {
			segments[k] = v
		}
		segments[first] = data
		m := s.marked(t, segments)
		requireCorrupt(t, m, first, segmentHead, first)
		s.requireLost(t, m, first, first)
		if i == 1 {
			// Neither the neighbour nor the marker, only the frame at the start.
			data := slices.Clone(s.segments[first])
			clear(data[:segmentHead])
			m := s.with(t, first, data)
			l := mustOpen(t, m, 4096)
			require.Len(t, l.Repairs(), 1)
			require.Empty(t, mustOpen(t, m, 4096).Repairs())
		}
	}
}

const ruleType = 200

// rules are records of which some say how to read those behind them.
func rules(types ...byte) []Pending {
	recs := batch(1, slices.Repeat([]int{40}, len(types))...)
	for i, typ := range types {
		recs[i].Type = typ
	}
	return recs
}

// Behind damage, records count only as far as it is proven by which rule: the one in
// force before, or one of their own.
func TestRecordsBehindDamageNeedTheirRule(t *testing.T) {
	for _, test := range []struct {
		name    string
		types   []byte
		damaged []int // index
		covered uint64
		kept    []uint64
		lost    [2]uint64
	}{
		{"no rule is lost", []byte{ruleType, 1, 1, 1, 1}, []int{2}, 0, []uint64{1, 2, 4, 5}, [2]uint64{3, 3}},
		{"a rule is lost", []byte{ruleType, 1, ruleType, 1, 1}, []int{2}, 0, []uint64{1, 2}, [2]uint64{3, 5}},
		{"a rule is lost, and another follows", []byte{ruleType, 1, ruleType, 1, ruleType, 1}, []int{2}, 0,
			[]uint64{1, 2, 5, 6}, [2]uint64{3, 4}},
		{"the owner has the rule", []byte{ruleType, 1, ruleType, 1, 1}, []int{2}, 3, []uint64{1, 2, 4, 5}, [2]uint64{3, 3}},
		{"the owner has an older rule", []byte{ruleType, 1, ruleType, 1, 1}, []int{2}, 2, []uint64{1, 2}, [2]uint64{3, 5}},
		{"the first rule is lost", []byte{ruleType, 1, 1, ruleType, 1}, []int{0}, 0, []uint64{4, 5}, [2]uint64{1, 3}},
		{"two places", []byte{ruleType, 1, 1, ruleType, 1}, []int{1, 3}, 0, []uint64{1, 3}, [2]uint64{2, 2}},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := fsystest.New()
			open := func(accept bool, covered uint64) (*Log, error) {
				return Open(
					Options{FS: m, Dir: testDir, SegmentBytes: 4096, RuleType: ruleType, AcceptLoss: accept, Covered: covered})
			}
			l, err := open(false, 0)
			require.NoError(t, err)
			recs := rules(test.types...)
			for i := range recs {
				require.NoError(t, l.Append(recs[i:i+1]))
			}
			require.NoError(t, l.Close())
			data := readFile(t, m, segmentPath(1))
			for _, i := range test.damaged {
				data[segmentHead+i*(frameHead+40)+frameHead] ^= 1
			}
			require.NoError(t, m.WriteFile(segmentPath(1), data))
			_, err = open(false, test.covered)
			var c *CorruptError
			require.ErrorAs(t, err, &c)
			require.Equal(t, test.lost, [2]uint64{c.Seq, max(c.LastSeq, c.Unproven)})
			l, err = open(true, test.covered)
			require.NoError(t, err)
			require.NoError(t, l.Close())
			l, err = open(false, 0)
			require.NoError(t, err)
			got, err := readAll(l, 0)
			require.NoError(t, err)
			var kept []uint64
			for _, r := range got {
				require.NoError(t, same(recs[r.Seq-1], r.Seq, r))
				kept = append(kept, r.Seq)
			}
			require.Equal(t, test.kept, kept)
			more := rules(1)
			require.NoError(t, l.Append(more))
			require.Greater(t, more[0].Seq, uint64(len(recs)))
			require.NoError(t, l.Close())
		})
	}
}

// older makes a segment of format version 2, as version 0.1.0 wrote it, of one whose payloads have 40 bytes.
func older(data []byte, records int) {
	salt := binary.LittleEndian.Uint32(data[12:])
	data[8] = oldestVersion
	binary.LittleEndian.PutUint32(data[36:], checksum(0, data[:36]))
	for i := range records {
		h := data[segmentHead+i*(frameHead+40):][:frameHead]
		clear(h[14:16])
		binary.LittleEndian.PutUint32(h, checksum(salt, h[4:]))
	}
}

// A log of version 2 is read, and continues in a segment of the present version.
func TestVersion2(t *testing.T) {
	m := fsystest.New()
	l := mustOpen(t, m, 4096)
	recs := rules(1, 2, 3)
	require.NoError(t, l.Append(recs))
	require.NoError(t, l.Close())
	data := readFile(t, m, segmentPath(1))
	older(data, 3)
	m = diskWith(t, map[uint64][]byte{1: data})
	l = mustOpen(t, m, 4096)
	more := append(rules(1), batch(5, 3990)...)
	require.NoError(t, l.Append(more[:1]))
	require.NoError(t, l.Append(more[1:]))
	require.NoError(t, l.Close())
	require.EqualValues(t, oldestVersion, readFile(t, m, segmentPath(1))[8])
	require.EqualValues(t, formatVersion, readFile(t, m, segmentPath(4))[8])
	require.EqualValues(t, formatVersion, readFile(t, m, segmentPath(5))[8])
	got, err := readAll(mustOpen(t, m, 4096), 1)
	require.NoError(t, err)
	requireRecords(t, append(recs, more...), 1, got)
}

// A kept range is read across a place that was given up.
func TestKeepAcrossALoss(t *testing.T) {
	s := newSample(t, []int{100}, []int{110}, []int{120}, []int{130})
	data := slices.Clone(s.segments[1])
	data[s.places[1].Offset] ^= 1
	m := s.with(t, 1, data)
	l, err := Open(Options{FS: m, Dir: testDir, SegmentBytes: 4096, AcceptLoss: true})
	require.NoError(t, err)
	defer l.Close()
	require.NoError(t, l.Archive(1, 4, "/data/kept/a"))
	k, err := OpenArchive(m, "/data/kept/a", 1, 4)
	require.NoError(t, err)
	defer k.Close()
	var rec Record
	for _, seq := range []uint64{1, 3, 4} {
		ok, err := k.Next(&rec)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, seq, rec.Seq)
	}
	ok, err := k.Next(&rec)
	require.NoError(t, err)
	require.False(t, ok)
}

// A batch whose end is missing is dropped as a whole behind a gap, too, once the loss of the gap is accepted.
func TestPartialBatchBehindAGap(t *testing.T) {
	s := newSample(t, []int{100}, []int{110}, []int{120}, []int{130, 140, 150})
	data := slices.Clone(s.segments[1])
	data[s.places[1].Offset] ^= 1
	clear(data[s.places[5].Offset:])
	for _, gapAt := range []int{1, 2} { // behind it: another batch and the partial one, or that one alone
		data := slices.Clone(data)
		data[s.places[gapAt].Offset] ^= 1
		m := s.with(t, 1, data)
		for _, accept := range []bool{true, false} {
			l, err := Open(Options{FS: m, Dir: testDir, SegmentBytes: 4096, AcceptLoss: accept})
			require.NoError(t, err)
			require.EqualValues(t, 4, l.NextSeq())
			require.NoError(t, l.Close())
		}
	}
}

// A batch is limited to the size that a frame can state.
func TestBatchOfTooManyRecords(t *testing.T) {
	l := mustOpen(t, fsystest.New(), 64<<20)
	defer l.Close()
	require.ErrorIs(t, l.Append(make([]Pending, maxBatch+1)), ErrTooLarge)
	require.NoError(t, l.Append(make([]Pending, maxBatch)))
	require.EqualValues(t, maxBatch, l.DurableSeq())
}
