package wal

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/reliability/fsys/fsystest"
)

// Mistakes that others' logs shipped with, a test each.

// A request was acknowledged while the bytes were in memory only.
func TestFieldBugAckBeforeSync(t *testing.T) {
	m := fsystest.New()
	l := mustOpen(t, m, 64<<10)
	for seq := uint64(1); seq <= 20; seq++ {
		require.NoError(t, l.Append(batch(seq, 5000)))
		got, err := readAll(mustOpen(t, m.CrashClone(0, 1), 64<<10), 0)
		require.NoError(t, err)
		require.Len(t, got, int(seq))
	}
	// Nor does a reader see a record before it is durable.
	r, err := l.NewReader(21)
	require.NoError(t, err)
	defer func() { _ = r.Close() }()
	m.Before(func(op fsystest.Op, name string) {
		if op == fsystest.OpSync && filepath.Base(name) != markName {
			var rec Record
			ok, err := r.Next(&rec)
			require.NoError(t, err)
			require.False(t, ok)
			require.EqualValues(t, 20, l.DurableSeq())
		}
	})
	require.NoError(t, l.Append(batch(21, 10)))
	var rec Record
	ok, err := r.Next(&rec)
	require.NoError(t, err)
	require.True(t, ok)
}

// The bytes of a new segment were synced, its name in the folder was not.
func TestFieldBugNoFolderSyncForANewSegment(t *testing.T) {
	m := fsystest.New()
	l := mustOpen(t, m, 4096)
	for seq := uint64(1); seq <= 5; seq++ {
		require.NoError(t, l.Append(batch(seq, 3000)))
		clone := m.CrashClone(0, 1)
		require.Len(t, segmentFiles(t, clone), int(seq))
	}
}

// One bad length made the reader skip the rest of a chunk without a word.
func TestFieldBugBadLengthDropsAChunk(t *testing.T) {
	s := newSample(t, []int{50}, []int{60, 70}, []int{80}, []int{90})
	for _, length := range [][4]byte{{0}, {1}, {200}, {0, 0, 0, 1}, {255, 255, 255, 255}, {255, 255, 255, 0}} {
		data := append([]byte{}, s.segments[1]...)
		copy(data[s.places[1].Offset+8:], length[:])
		m := diskWith(t, map[uint64][]byte{1: data})
		requireCorrupt(t, m, 1, s.places[1].Offset, 2)

		// The same in a log that is open already.
		clean := diskWith(t, s.segments)
		l := mustOpen(t, clean, 4096)
		require.NoError(t, clean.WriteFile(segmentPath(1), data))
		got, err := readAll(l, 1)
		require.Len(t, got, 1)
		var c *CorruptError
		require.ErrorAs(t, err, &c)
		require.Equal(t, s.places[1].Offset, c.Offset)
	}
}

// A repair deleted everything after a corruption. Here nothing is touched without the
// override, and with it nothing is deleted.
func TestFieldBugRepairDeletesEverythingAfterACorruption(t *testing.T) {
	s := newSample(t, []int{50, 60}, []int{70}, []int{3900}, []int{3000}, []int{500})
	require.Equal(t, []uint64{1, 4, 5}, s.order)
	s.segments[1][s.places[1].Offset+frameHead] ^= 4
	m := diskWith(t, s.segments)
	for range 2 {
		requireCorrupt(t, m, 1, s.places[1].Offset, 2)
		for first, data := range s.segments {
			require.Equal(t, data, readFile(t, m, segmentPath(first)))
		}
	}

	l, err := Open(Options{FS: m, Dir: testDir, SegmentBytes: 4096, AcceptLoss: true})
	require.NoError(t, err)
	got, err := readAll(l, 1)
	require.NoError(t, err)
	requireRecords(t, s.recs[:1], 1, got[:1])
	requireRecords(t, s.recs[2:], 3, got[1:])
	require.Len(t, l.Losses(), 1)
	loss := l.Losses()[0]
	require.EqualValues(t, 2, loss.FirstSeq)
	require.EqualValues(t, 2, loss.LastSeq)
	require.Equal(t, s.places[1].Offset, loss.Cause.Offset)
	require.Equal(t, filepath.Join(testDir, "quarantine-00000000000000000002"), loss.Quarantine)
	for first, data := range s.segments {
		require.Equal(t, data, readFile(t, m, segmentPath(first)), "damaged or not, it stays as it is")
	}

	// A reader that has read up to a lost one continues behind it.
	more := batch(99, 10, 20)
	require.NoError(t, l.Append(more))
	for _, from := range []uint64{2, 3} {
		got, err = readAll(l, from)
		require.NoError(t, err)
		requireRecords(t, s.recs[2:], 3, got[:len(s.recs)-2])
		require.Equal(t, 3-from, got[0].Lost)
	}
	require.NoError(t, l.Close())

	// Damaged segments are not deleted with the rest of the log either.
	l = mustOpen(t, m, 4096)
	require.Len(t, l.Losses(), 1)
	require.NoError(t, l.Truncate(more[0].Seq))
	require.EqualValues(t, s.order[2], l.FirstSeq())
	require.Equal(t, s.segments[1], readFile(t, m, filepath.Join(loss.Quarantine, segmentName(1))))
}

// The override with the damage at any place of a segment, the last one too.
func TestAcceptLossAtAnyPlace(t *testing.T) {
	s := newSample(t, []int{50, 60}, []int{70}, []int{3000}, []int{3000}, []int{500}, []int{10})
	for i, p := range s.places[:len(s.places)-1] { // the last batch would be a torn tail
		for _, at := range []int64{2, 9, frameHead + 5} {
			data := append([]byte{}, s.segments[p.Segment]...)
			data[p.Offset+at] ^= 0x40
			m := s.with(t, p.Segment, data)
			_, err := openMem(m, 4096)
			require.Error(t, err)
			s.requireLost(t, m, uint64(i+1), uint64(i+1))
			more := batch(99, 10, 20)
			l := mustOpen(t, m, 4096)
			require.NoError(t, l.Append(more))
			require.EqualValues(t, len(s.recs)+1, more[0].Seq)
			require.NoError(t, l.Close())
		}
	}
}
