package wal

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/reliability/fsys/fsystest"
)

// If any operation fails, once: acknowledged records are there, others are not read, the log stays
// usable unless the failure was a sync's, and the next process can use it.
func TestEveryOperationFailsOnce(t *testing.T) {
	for _, fault := range []error{syscall.ENOSPC, syscall.EIO} {
		for n := int64(1); ; n++ {
			m := fsystest.New()
			m.FailAt(n, fault)
			hit, err := appendThrough(m, fault)
			require.NoError(t, err, "%v at operation %d", fault, n)
			if !hit {
				break
			}
		}
	}
}

func appendThrough(m *fsystest.Mem, fault error) (hit bool, err error) {
	var acked []Pending
	open := func() (*Log, error) {
		l, err := openMem(m, 8192)
		if err != nil {
			hit = true
			if !errors.Is(err, fault) || errors.Is(err, ErrNoSpace) != (fault == syscall.ENOSPC) {
				return nil, fmt.Errorf("open failed with another error: %w", err)
			}
			l, err = openMem(m, 8192)
		}
		return l, err
	}
	l, err := open()
	if err != nil {
		return hit, err
	}
	defer func() { _ = l.Close() }()
	for i := range 12 {
		recs := batch(uint64(len(acked)+1), []int{100, 2000, 6000, 40}[i%4], 30)
		err := l.Append(recs)
		switch {
		case err == nil:
			acked = append(acked, recs...)
		case errors.Is(err, ErrPoisoned):
			hit = true
			if !errors.Is(err, fault) {
				return hit, fmt.Errorf("poison does not say why: %w", err)
			}
			if err := l.Append(recs); !errors.Is(err, ErrPoisoned) {
				return hit, fmt.Errorf("poisoned log goes on: %w", err)
			}
			if got, err := readAll(l, 0); !errors.Is(err, ErrPoisoned) || len(got) != 0 {
				return hit, fmt.Errorf("poisoned log is read: %w", err)
			}
			_ = l.Close()
			// The batch whose sync failed may be there or not, as a whole.
			if l, err = open(); err != nil {
				return hit, err
			}
			if n := int(l.DurableSeq()) - len(acked); n > 0 {
				if n != len(recs) {
					return hit, fmt.Errorf("%d of %d records of a batch are left", n, len(recs))
				}
				acked = append(acked, recs[:n]...)
			}
		default:
			hit = true
			if !errors.Is(err, fault) || errors.Is(err, ErrNoSpace) != (fault == syscall.ENOSPC) || recs[0].Seq != 0 {
				return hit, fmt.Errorf("wrong error of Append: %w", err)
			}
		}
		if want := uint64(len(acked)); l.DurableSeq() != want || l.NextSeq() != want+1 {
			return hit, fmt.Errorf("durable up to %d, acknowledged up to %d", l.DurableSeq(), want)
		}
	}
	for range 2 {
		got, err := readAll(l, 1)
		if err == nil && len(got) != len(acked) {
			err = fmt.Errorf("%d records, not %d", len(got), len(acked))
		}
		for i := 0; err == nil && i < len(got); i++ {
			err = same(acked[i], uint64(i+1), got[i])
		}
		if err == nil {
			err = l.Close()
		}
		if err != nil {
			return hit, err
		}
		if l, err = open(); err != nil {
			return hit, err
		}
	}
	return hit, nil
}

func TestDiskStaysFullThenHasRoomAgain(t *testing.T) {
	m := fsystest.New()
	l := mustOpen(t, m, 8192)
	var acked []Pending
	add := func(sizes ...int) error {
		recs := batch(uint64(len(acked)+1), sizes...)
		err := l.Append(recs)
		if err == nil {
			acked = append(acked, recs...)
		}
		return err
	}
	for range 3 {
		require.NoError(t, add(3000))
	}
	for _, op := range []fsystest.Op{fsystest.OpPreallocate, fsystest.OpWrite, fsystest.OpCreate} {
		m.FailAlways(op, syscall.ENOSPC)
	}
	for range 3 {
		require.ErrorIs(t, add(100), ErrNoSpace)
		require.ErrorIs(t, add(7000), ErrNoSpace, "needs a new segment")
		require.ErrorIs(t, add(10), ErrNoSpace, "fits into the old segment, which is closed")
	}
	// The next process can read on the full disk.
	require.NoError(t, l.Close())
	l = mustOpen(t, m, 8192)
	got, err := readAll(l, 1)
	require.NoError(t, err)
	requireRecords(t, acked, 1, got)
	require.ErrorIs(t, add(100), ErrNoSpace)

	m.ClearFaults()
	require.NoError(t, add(100))
	require.NoError(t, add(7000))
	require.NoError(t, add(10))
	require.NoError(t, l.Close())
	l = mustOpen(t, m, 8192)
	got, err = readAll(l, 1)
	require.NoError(t, err)
	requireRecords(t, acked, 1, got)
}

func TestFailedSyncPoisons(t *testing.T) {
	m := fsystest.New()
	l := mustOpen(t, m, 8192)
	require.NoError(t, l.Append(batch(1, 10, 20)))
	r, err := l.NewReader(1)
	require.NoError(t, err)
	defer func() { _ = r.Close() }()
	waiter := make(chan error)
	go func() { waiter <- l.Wait(context.Background(), 2) }()

	m.FailNext(fsystest.OpSync, syscall.EIO)
	for _, err := range []error{l.Append(batch(3, 5)), <-waiter, l.Append(nil), l.Append(batch(3, 5)), l.Truncate(2)} {
		require.ErrorIs(t, err, ErrPoisoned)
		require.ErrorIs(t, err, syscall.EIO)
	}
	_, err = l.NewReader(1)
	require.ErrorIs(t, err, ErrPoisoned)
	require.EqualValues(t, 2, l.DurableSeq())

	// A reader finishes the durable records, and no more.
	var rec Record
	for range 2 {
		ok, err := r.Next(&rec)
		require.NoError(t, err)
		require.True(t, ok)
	}
	ok, err := r.Next(&rec)
	require.ErrorIs(t, err, ErrPoisoned)
	require.False(t, ok)
	require.NoError(t, l.Close())
	require.ErrorIs(t, l.Append(batch(3, 5)), ErrPoisoned)
}

// A failed write that cannot be cut back costs the rest of its segment, and nothing else.
func TestAFailedWriteThatCannotBeCutBack(t *testing.T) {
	m := fsystest.New()
	l := mustOpen(t, m, 8192)
	first, second := batch(1, 10), batch(2, 60)
	require.NoError(t, l.Append(first))
	m.FailNext(fsystest.OpWrite, syscall.ENOSPC)
	m.FailNext(fsystest.OpTruncate, syscall.EIO)
	err := l.Append(batch(2, 6000))
	require.NotErrorIs(t, err, ErrPoisoned)
	require.ErrorIs(t, err, syscall.EIO)
	require.ErrorIs(t, err, ErrNoSpace)
	crashed := m.CrashClone(100, 1)
	require.NoError(t, l.Append(second))
	_, segments := l.Size()
	require.Equal(t, 2, segments)
	for _, disk := range []*fsystest.Mem{crashed, m.CrashClone(0, 1), m.CrashClone(100, 2)} {
		again := mustOpen(t, disk, 8192)
		got, err := readAll(again, 1)
		require.NoError(t, err)
		want := first
		if disk != crashed {
			want = append(first, second...)
		}
		requireRecords(t, want, 1, got)
	}
}

func TestFailedUnlinkIsTriedAgain(t *testing.T) {
	m := fsystest.New()
	l := mustOpen(t, m, 4096)
	for seq := uint64(1); seq <= 4; seq++ {
		require.NoError(t, l.Append(batch(seq, 3000)))
	}
	m.FailNext(fsystest.OpRemove, syscall.EIO)
	require.ErrorIs(t, l.Truncate(3), syscall.EIO)
	require.EqualValues(t, 1, l.FirstSeq())
	require.NoError(t, l.Truncate(3))
	require.EqualValues(t, 3, l.FirstSeq())
	m.FailNext(fsystest.OpOpenDir, syscall.EMFILE)
	require.ErrorIs(t, l.Truncate(4), ErrNoFiles)
	require.EqualValues(t, 3, l.FirstSeq(), "nothing was removed")
	m.FailNext(fsystest.OpSyncDir, syscall.EIO)
	require.ErrorIs(t, l.Truncate(4), ErrPoisoned)
}

// Every failure to make a segment, short of a failed sync, is temporary: the batch is refused, its
// numbers are used again, and nothing of it is found later.
func TestASegmentThatCannotBeMadeNow(t *testing.T) {
	for name, c := range map[string]struct {
		op    fsystest.Op
		fault error
		want  error
	}{
		"no descriptor for the segment":            {fsystest.OpCreate, syscall.EMFILE, ErrNoFiles},
		"no descriptor for the folder":             {fsystest.OpOpenDir, syscall.EMFILE, ErrNoFiles},
		"the system is out of descriptors":         {fsystest.OpOpenDir, syscall.ENFILE, ErrNoFiles},
		"the folder cannot be opened":              {fsystest.OpOpenDir, syscall.EIO, syscall.EIO},
		"the segment cannot be opened":             {fsystest.OpCreate, syscall.EIO, syscall.EIO},
		"interrupted":                              {fsystest.OpCreate, syscall.EINTR, syscall.EINTR},
		"no room for the user":                     {fsystest.OpPreallocate, syscall.EDQUOT, ErrNoSpace},
		"the head cannot be written":               {fsystest.OpWrite, syscall.EIO, syscall.EIO},
		"no memory for the folder (ENOMEM passes)": {fsystest.OpOpenDir, syscall.ENOMEM, syscall.ENOMEM},
	} {
		t.Run(name, func(t *testing.T) {
			m := fsystest.New()
			l := mustOpen(t, m, 4096)
			first, second := batch(1, 3000), batch(2, 3000)
			require.NoError(t, l.Append(first))
			m.FailAlways(c.op, c.fault)
			for range 3 {
				err := l.Append(second)
				require.ErrorIs(t, err, c.want)
				require.NotErrorIs(t, err, ErrPoisoned)
				require.Zero(t, second[0].Seq)
			}
			m.ClearFaults()
			require.NoError(t, l.Append(second))
			got, err := readAll(mustOpen(t, m.CrashClone(0, 1), 4096), 1)
			require.NoError(t, err)
			requireRecords(t, append(first, second...), 1, got)
		})
	}
}

// A reader that finds no descriptor for the next segment continues where it was.
func TestAReaderWithoutADescriptor(t *testing.T) {
	m := fsystest.New()
	l := mustOpen(t, m, 4096)
	recs := append(batch(1, 3000), batch(2, 3000)...)
	for i := range recs {
		require.NoError(t, l.Append(recs[i:i+1]))
	}
	r, err := l.NewReader(1)
	require.NoError(t, err)
	defer func() { _ = r.Close() }()
	var rec Record
	_, err = r.Next(&rec)
	require.NoError(t, err)
	m.FailNext(fsystest.OpOpen, syscall.EMFILE)
	_, err = r.Next(&rec)
	require.ErrorIs(t, err, ErrNoFiles)
	ok, err := r.Next(&rec)
	require.NoError(t, err)
	require.True(t, ok)
	require.NoError(t, same(recs[1], 2, rec))
}

// After a failed sync the system may take unwritten pages for written, so that a further
// sync does nothing. The next start must write the records before it calls them durable.
func TestLastBatchIsWrittenAgainAtStart(t *testing.T) {
	m := fsystest.New()
	l := mustOpen(t, m, 32<<10)
	require.NoError(t, l.Append(batch(1, 100)))
	require.NoError(t, l.Append(batch(2, 9000, 9000)))
	require.NoError(t, l.Close())
	before := readFile(t, m, segmentPath(1))
	m.FailNext(fsystest.OpWrite, syscall.EIO)
	_, err := openMem(m, 32<<10)
	require.ErrorIs(t, err, syscall.EIO)
	l = mustOpen(t, m, 32<<10)
	require.EqualValues(t, 3, l.DurableSeq())
	require.Equal(t, before, readFile(t, m, segmentPath(1)))
}
