package wal

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/fsys/fsystest"
)

func TestAppendThenRead(t *testing.T) {
	m := fsystest.New()
	l := mustOpen(t, m, 4096)
	require.EqualValues(t, 1, l.NextSeq())
	require.EqualValues(t, 0, l.DurableSeq())
	require.EqualValues(t, 1, l.FirstSeq())

	var all []Pending
	for i, sizes := range [][]int{{10}, {0, 1, 2000}, {3000}, {9000, 20}, {5}} {
		recs := batch(uint64(len(all)+1), sizes...)
		require.NoError(t, l.Append(recs), "batch %d", i)
		for j := range recs {
			require.EqualValues(t, len(all)+1+j, recs[j].Seq)
		}
		all = append(all, recs...)
		require.EqualValues(t, len(all), l.DurableSeq())
		require.EqualValues(t, len(all)+1, l.NextSeq())
	}
	require.NoError(t, l.Append(nil))

	got, err := readAll(l, 1)
	require.NoError(t, err)
	requireRecords(t, all, 1, got)
	_, segments := l.Size()
	require.Equal(t, 4, segments) // the batch of 9020 bytes has its own
	require.NoError(t, l.Close())
	require.NoError(t, l.Close())

	l = mustOpen(t, m, 4096)
	require.EqualValues(t, len(all), l.DurableSeq())
	for from := 0; from <= len(all)+1; from++ {
		got, err = readAll(l, uint64(from))
		require.NoError(t, err)
		requireRecords(t, all[max(0, from-1):], uint64(max(1, from)), got)
	}
	_, err = l.NewReader(uint64(len(all) + 2))
	require.ErrorIs(t, err, ErrAhead)
}

func TestOptions(t *testing.T) {
	for name, o := range map[string]Options{
		"no file system": {Dir: "/x"},
		"no folder":      {FS: fsystest.New()},
		"small segments": {FS: fsystest.New(), Dir: "/x", SegmentBytes: 511},
	} {
		_, err := Open(o)
		require.Error(t, err, name)
	}
}

func TestPayloadLimit(t *testing.T) {
	l := mustOpen(t, fsystest.New(), 0)
	big := make([]byte, MaxPayload+1)
	recs := []Pending{{Payload: []byte("fits")}, {Payload: big}}
	require.ErrorIs(t, l.Append(recs), ErrTooLarge)
	require.Zero(t, recs[0].Seq)
	require.NoError(t, l.Append([]Pending{{Payload: big[1:]}}))
	got, err := readAll(l, 1)
	require.NoError(t, err)
	require.Len(t, got, 1)
	require.Len(t, got[0].Payload, MaxPayload)
}

func TestPayloadInParts(t *testing.T) {
	l := mustOpen(t, fsystest.New(), 0)
	half := make([]byte, MaxPayload/2)
	require.ErrorIs(t, l.Append([]Pending{{Payload: half, Parts: [][]byte{half, []byte("x")}}}), ErrTooLarge)
	recs := []Pending{
		{Payload: []byte("a"), Parts: [][]byte{[]byte("b"), nil, []byte("cd")}},
		{Parts: [][]byte{[]byte("e")}},
		{Payload: []byte("f")},
	}
	require.NoError(t, l.Append(recs))
	got, err := readAll(l, 1)
	require.NoError(t, err)
	require.Len(t, got, 3)
	for i, want := range []string{"abcd", "e", "f"} {
		require.Equal(t, want, string(got[i].Payload))
	}
}

func TestWaitAndConcurrentReaders(t *testing.T) {
	l := mustOpen(t, fsystest.New(), 4096)
	const total = 300
	var wg sync.WaitGroup
	errs := make(chan error, 3)
	for range 3 {
		wg.Go(func() {
			r, err := l.NewReader(1)
			if err != nil {
				errs <- err
				return
			}
			defer func() { _ = r.Close() }()
			for seq := uint64(1); seq <= total; {
				var rec Record
				ok, err := r.Next(&rec)
				if err == nil && !ok {
					err = l.Wait(context.Background(), seq-1)
				} else if err == nil {
					err = same(batch(seq, int(seq%97))[0], seq, rec)
					seq++
				}
				if err != nil {
					errs <- err
					return
				}
			}
		})
	}
	for seq := uint64(1); seq <= total; seq++ {
		require.NoError(t, l.Append(batch(seq, int(seq%97))))
	}
	wg.Wait()
	close(errs)
	require.NoError(t, <-errs)

	// Truncation, sizes and a late reader beside the appender.
	wg.Go(func() {
		for l.DurableSeq() < 2*total {
			_ = l.Truncate(l.DurableSeq())
			_, _ = l.Size()
			if r, err := l.NewReader(0); err == nil {
				var rec Record
				_, _ = r.Next(&rec)
				_ = r.Close()
			}
		}
	})
	for seq := uint64(total + 1); seq <= 2*total; seq++ {
		require.NoError(t, l.Append(batch(seq, int(seq%97))))
	}
	wg.Wait()

	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	require.ErrorIs(t, l.Wait(ctx, 2*total), context.DeadlineExceeded)
	closed := make(chan error)
	go func() { closed <- l.Wait(context.Background(), 2*total) }()
	require.NoError(t, l.Close())
	require.ErrorIs(t, <-closed, ErrClosed)
	require.ErrorIs(t, l.Append(batch(1, 1)), ErrClosed)
	require.ErrorIs(t, l.Truncate(5), ErrClosed)
}

func TestTruncate(t *testing.T) {
	m := fsystest.New()
	l := mustOpen(t, m, 4096)
	for seq := uint64(1); seq <= 10; seq++ {
		require.NoError(t, l.Append(batch(seq, 3000))) // one a segment
	}
	inside, err := l.NewReader(2)
	require.NoError(t, err)
	defer func() { _ = inside.Close() }()

	require.NoError(t, l.Truncate(1))
	require.EqualValues(t, 1, l.FirstSeq())
	require.NoError(t, l.Truncate(5))
	require.EqualValues(t, 5, l.FirstSeq())
	_, err = l.NewReader(4)
	require.ErrorIs(t, err, ErrTruncated)

	var rec Record
	ok, err := inside.Next(&rec)
	require.NoError(t, err)
	require.True(t, ok)
	require.EqualValues(t, 2, rec.Seq)
	_, err = inside.Next(&rec)
	require.ErrorIs(t, err, ErrTruncated)

	require.NoError(t, l.Truncate(1000))
	require.EqualValues(t, 10, l.FirstSeq(), "the last segment stays")
	require.NoError(t, l.Close())
	l = mustOpen(t, m, 4096)
	require.EqualValues(t, 10, l.FirstSeq())
	require.NoError(t, l.Append(batch(11, 10)))
	got, err := readAll(l, 0)
	require.NoError(t, err)
	requireRecords(t, batch(10, 3000, 10), 10, got)
}

func TestNextDoesNotAllocate(t *testing.T) {
	l := mustOpen(t, fsystest.New(), 0)
	sizes := make([]int, 2000)
	for i := range sizes {
		sizes[i] = 255
	}
	require.NoError(t, l.Append(batch(1, sizes...)))
	r, err := l.NewReader(1)
	require.NoError(t, err)
	defer func() { _ = r.Close() }()
	var rec Record
	_, err = r.Next(&rec) // the window
	require.NoError(t, err)
	require.Zero(t, testing.AllocsPerRun(1500, func() {
		if ok, err := r.Next(&rec); !ok || err != nil {
			t.Error("no record", err)
		}
	}))
}

func TestAppendDoesNotAllocate(t *testing.T) {
	l, err := Open(Options{FS: fsys.OS(), Dir: t.TempDir()})
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	recs := batch(1, 255, 255)
	require.NoError(t, l.Append(recs)) // the segment and the buffer
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if err := l.Append(recs); err != nil {
			t.Error(err)
		}
	}))
}

func TestNewerFormatIsRefusedAndNotCorrupt(t *testing.T) {
	m := fsystest.New()
	l := mustOpen(t, m, 4096)
	require.NoError(t, l.Append(batch(1, 10)))
	require.NoError(t, l.Close())
	data := readFile(t, m, segmentPath(1))
	data[8] = formatVersion + 1
	sum := checksum(0, data[:36])
	copy(data[36:], []byte{byte(sum), byte(sum >> 8), byte(sum >> 16), byte(sum >> 24)})
	m = diskWith(t, map[uint64][]byte{1: data})
	_, err := Open(Options{FS: m, Dir: testDir, AcceptLoss: true})
	var version *VersionError
	require.ErrorAs(t, err, &version)
	require.EqualValues(t, formatVersion+1, version.Version)
	require.Equal(t, data, readFile(t, m, segmentPath(1)))
}

func TestMetrics(t *testing.T) {
	set := metrics.NewSet()
	m := fsystest.New()
	l, err := Open(Options{FS: m, Dir: testDir, SegmentBytes: 4096, Metrics: NewMetrics(set)})
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	require.NoError(t, l.Append(batch(1, 10, 20)))
	require.NoError(t, l.Append(batch(3, 4000)))
	require.NoError(t, l.Truncate(3))
	var out bytes.Buffer
	set.WritePrometheus(&out)
	for _, line := range []string{
		"sloengine_wal_appended_records_total 3\n", "sloengine_wal_appended_batches_total 2\n",
		"sloengine_wal_segments_created_total 2\n", "sloengine_wal_segments_removed_total 1\n",
		"sloengine_wal_segments 1\n", "sloengine_wal_bytes 4096\n", "sloengine_wal_sync_seconds_count 2\n",
		"sloengine_wal_poisoned 0\n",
	} {
		require.Contains(t, out.String(), line)
	}
}

func TestOnRealDisk(t *testing.T) {
	dir := t.TempDir() + "/a/b"
	var all []Pending
	for range 3 {
		l, err := Open(Options{FS: fsys.OS(), Dir: dir, SegmentBytes: 64 << 10})
		require.NoError(t, err)
		for range 10 {
			recs := batch(uint64(len(all)+1), 100, 7000, 0, 33)
			require.NoError(t, l.Append(recs))
			all = append(all, recs...)
		}
		got, err := readAll(l, 1)
		require.NoError(t, err)
		requireRecords(t, all, 1, got)
		require.NoError(t, l.Close())
	}
	l, err := Open(Options{FS: fsys.OS(), Dir: dir, SegmentBytes: 64 << 10})
	require.NoError(t, err)
	require.NoError(t, l.Truncate(l.NextSeq()))
	bytes, segments := l.Size()
	require.EqualValues(t, 64<<10, bytes)
	require.Equal(t, 1, segments)
	require.NoError(t, errors.Join(l.Close()))
}
