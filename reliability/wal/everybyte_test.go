package wal

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/reliability/fsys/fsystest"
)

// sample is a log of 4 KiB segments, with where each record lies.
type sample struct {
	recs     []Pending
	places   []Record // payload left out
	batchEnd []int    // index behind the last record of the batch of record i
	segments map[uint64][]byte
	order    []uint64
	mark     []byte // the marker
}

func newSample(t *testing.T, batches ...[]int) sample { return newSampleIn(t, 4096, batches...) }

// newSampleIn is newSample with segments of a size.
func newSampleIn(t *testing.T, segment int64, batches ...[]int) sample {
	m := fsystest.New()
	l := mustOpen(t, m, segment)
	var s sample
	for _, sizes := range batches {
		recs := batch(uint64(len(s.recs)+1), sizes...)
		require.NoError(t, l.Append(recs))
		s.recs = append(s.recs, recs...)
		for range sizes {
			s.batchEnd = append(s.batchEnd, len(s.recs))
		}
	}
	got, err := readAll(l, 1)
	require.NoError(t, err)
	requireRecords(t, s.recs, 1, got)
	s.places = got
	s.segments = map[uint64][]byte{}
	for _, seg := range l.segments {
		s.order = append(s.order, seg.first)
		s.segments[seg.first] = readFile(t, m, seg.path)
	}
	require.NoError(t, l.Close())
	s.mark = readFile(t, m, filepath.Join(testDir, markName))
	return s
}

func (s *sample) end(i int) int64 {
	return s.places[i].Offset + frameHead + int64(len(s.recs[i].Payload))
}

// last is the index behind the last record of a segment.
func (s *sample) last(segment uint64) int {
	n := 0
	for i := range s.places {
		if s.places[i].Segment <= segment {
			n = i + 1
		}
	}
	return n
}

// with is the sample's disk with one segment changed.
func (s *sample) with(t *testing.T, first uint64, data []byte) *fsystest.Mem {
	segments := map[uint64][]byte{}
	for k, v := range s.segments {
		segments[k] = v
	}
	segments[first] = data
	return diskWith(t, segments)
}

// survivors opens the log, which must work, checks every record, appends one more and
// returns how many records there were.
func (s *sample) survivors(t *testing.T, m *fsystest.Mem) int {
	l, err := openMem(m, 4096)
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	got, err := readAll(l, 1)
	require.NoError(t, err)
	requireRecords(t, s.recs[:len(got)], 1, got)
	more := batch(9999, 50)
	require.NoError(t, l.Append(more))
	require.EqualValues(t, len(got)+1, more[0].Seq)
	again, err := readAll(l, more[0].Seq)
	require.NoError(t, err)
	requireRecords(t, more, more[0].Seq, again)
	return len(got)
}

func requireCorrupt(t *testing.T, m *fsystest.Mem, segment uint64, offset int64, seq uint64) {
	t.Helper()
	_, err := openMem(m, 4096)
	var c *CorruptError
	require.ErrorAs(t, err, &c)
	require.Equal(t, segmentPath(segment), c.Segment)
	require.Equal(t, offset, c.Offset)
	require.Equal(t, seq, c.Seq)
	require.NotEmpty(t, c.Reason)
}

// requireLost opens the log under the override, which must keep all but some records,
// and then without it.
func (s *sample) requireLost(t *testing.T, m *fsystest.Mem, from, to uint64) {
	t.Helper()
	for _, accept := range []bool{true, false} {
		l, err := Open(Options{FS: m, Dir: testDir, SegmentBytes: 4096, AcceptLoss: accept})
		require.NoError(t, err)
		require.Len(t, l.Losses(), 1)
		require.Equal(t, []uint64{from, to}, []uint64{l.Losses()[0].FirstSeq, l.Losses()[0].LastSeq})
		got, err := readAll(l, 0)
		require.NoError(t, err)
		requireRecords(t, s.recs[:from-1], 1, got[:from-1])
		requireRecords(t, s.recs[to:], to+1, got[from-1:])
		for i, r := range got {
			if r.Seq == to+1 && i > 0 {
				require.Equal(t, to-from+1, r.Lost)
			} else {
				require.Zero(t, r.Lost)
			}
		}
		require.EqualValues(t, max(to+1, uint64(len(s.recs)+1)), l.NextSeq())
		require.NoError(t, l.Close())
	}
}

// batchStart is the index of the first record of the batch of record i.
func (s *sample) batchStart(i int) int {
	return slices.Index(s.batchEnd, s.batchEnd[i])
}

func TestCutAtEveryByte(t *testing.T) {
	s := newSample(t, []int{100, 0, 40}, []int{300}, []int{9, 700, 255, 31}, []int{1, 90}, []int{400, 64, 200})
	require.Len(t, s.order, 1)
	data := s.segments[1]
	for cut := range len(data) {
		n := s.survivors(t, s.with(t, 1, slices.Clone(data[:cut])))
		want := 0
		for i := range s.recs {
			if last := s.batchEnd[i]; last == i+1 && s.end(i) <= int64(cut) { // a batch is there as a whole or not at all
				want = last
			}
		}
		require.Equal(t, want, n, "cut at %d", cut)
	}
}

func TestFlipEveryByte(t *testing.T) {
	s := newSample(t, []int{100, 0, 40}, []int{300}, []int{9, 700, 255, 31}, []int{1, 90}, []int{400, 64, 200})
	data := s.segments[1]
	for _, mask := range []byte{0x01, 0x80, 0xff} {
		for at := range data {
			flipped := slices.Clone(data)
			flipped[at] ^= mask
			m := s.with(t, 1, flipped)
			if at < segmentHead { // the first frame repeats the head
				require.Equal(t, len(s.recs), s.survivors(t, m), "byte %d", at)
				continue
			}
			i := slices.IndexFunc(s.places, func(r Record) bool { return int64(at) < s.end(int(r.Seq)-1) })
			switch {
			case i < 0: // behind the records
				require.Equal(t, len(s.recs), s.survivors(t, m), "byte %d", at)
			case s.batchEnd[i] < len(s.recs): // a later batch says that this one was synced
				requireCorrupt(t, m, 1, s.places[i].Offset, uint64(i+1))
				s.requireLost(t, m, uint64(i+1), uint64(i+1))
			default: // cannot be distinguished from a batch that was never synced
				require.Equal(t, s.batchStart(i), s.survivors(t, m), "byte %d", at)
			}
		}
	}
}

func TestCutAndFlipEveryByteOfASegmentBeforeTheLast(t *testing.T) {
	s := newSampleIn(t, 1024, []int{350, 30}, []int{400}, []int{300, 10}, []int{40, 50})
	require.Len(t, s.order, 2)
	data, records := s.segments[1], s.last(1)
	end := s.end(records - 1)
	for at := range data {
		i := slices.IndexFunc(s.places[:records], func(r Record) bool { return int64(at) < s.end(int(r.Seq)-1) })
		flipped := slices.Clone(data)
		flipped[at] ^= 0x10
		m, cut := s.with(t, 1, flipped), s.with(t, 1, slices.Clone(data[:at]))
		switch {
		case at < segmentHead:
			require.Equal(t, len(s.recs), s.survivors(t, m))
			requireCorrupt(t, cut, 1, 0, 1)
			s.requireLost(t, cut, 1, uint64(records))
		case int64(at) < end:
			requireCorrupt(t, m, 1, s.places[i].Offset, uint64(i+1))
			s.requireLost(t, m, uint64(i+1), uint64(i+1))
			requireCorrupt(t, cut, 1, s.places[i].Offset, uint64(i+1))
			s.requireLost(t, cut, uint64(i+1), uint64(records))
		default:
			require.Equal(t, len(s.recs), s.survivors(t, m))
			require.Equal(t, len(s.recs), s.survivors(t, cut))
		}
	}
}

func TestMissingSegment(t *testing.T) {
	s := newSample(t, []int{3000}, []int{3000}, []int{3000}, []int{100})
	require.Equal(t, []uint64{1, 2, 3}, s.order)
	delete(s.segments, 2)
	m := diskWith(t, s.segments)
	requireCorrupt(t, m, 1, s.end(0), 2)

	// A tail of zeros is the end of a segment only where the next one begins there.
	s = newSample(t, []int{1000}, []int{1000}, []int{3000})
	data := s.segments[1]
	clear(data[s.places[1].Offset:])
	m = diskWith(t, s.segments)
	requireCorrupt(t, m, 1, s.places[1].Offset, 2)
	_, err := openMem(m, 4096)
	require.ErrorContains(t, err, "the next one begins with record 3")
}

// A sender chooses payloads. One that holds the bytes of a frame must not be taken for a
// frame when the tail is torn.
func TestForgedFrameInATornBatch(t *testing.T) {
	forged := appendFrame(nil, 0, &Pending{Seq: 3, Payload: []byte("forged")}, 0, 1, 0)
	m := fsystest.New()
	l := mustOpen(t, m, 4096)
	require.NoError(t, l.Append(batch(1, 10)))
	require.NoError(t, l.Append([]Pending{{Payload: forged}}))
	got, err := readAll(l, 1)
	require.NoError(t, err)
	require.NoError(t, l.Close())
	data := readFile(t, m, segmentPath(1))
	data[got[1].Offset] ^= 1
	l = mustOpen(t, diskWith(t, map[uint64][]byte{1: data}), 4096)
	require.EqualValues(t, 1, l.DurableSeq())
}

func TestReaderReportsDamageWhileRunning(t *testing.T) {
	m := fsystest.New()
	l := mustOpen(t, m, 4096)
	require.NoError(t, l.Append(batch(1, 10, 20)))
	f, err := m.OpenReadWrite(segmentPath(1))
	require.NoError(t, err)
	_, err = f.WriteAt([]byte{0xee, 0xee}, segmentHead+frameHead+10+frameHead)
	require.NoError(t, errors.Join(err, f.Close()))
	got, err := readAll(l, 1)
	require.Len(t, got, 1)
	var c *CorruptError
	require.ErrorAs(t, err, &c)
	require.EqualValues(t, segmentHead+frameHead+10, c.Offset)
	require.EqualValues(t, 2, c.Seq)
}
