package dlq

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/fsys/fsystest"
)

var testDay = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)

func openTest(t testing.TB, fs fsys.FS, now *time.Time) *File {
	t.Helper()
	f, err := OpenFile(FileOptions{FS: fs, Dir: "/dlq", SegmentBytes: 4 << 10, Now: func() time.Time {
		return *now
	}, later: func(f func()) { f() }})
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func testEntries(from, to int) (out []Entry) {
	for i := from; i < to; i++ {
		out = append(out, Entry{Origin: Fold, Reason: "panic", Seq: uint64(i + 1),
			Event: []byte(fmt.Sprintf(`{"id":"e-%d","fill":"%0100d"}`, i, i))})
	}
	return out
}

func listAll(t testing.TB, s Store) (out []Entry) {
	t.Helper()
	require.NoError(t, Each(context.Background(), s, Query{}, func(entries []Entry) error {
		out = append(out, entries...)
		return nil
	}))
	return out
}

// files are all segments by path.
func files(t testing.TB, m *fsystest.Mem) (paths []string) {
	t.Helper()
	days, err := m.List("/dlq")
	require.NoError(t, err)
	for _, day := range days {
		if names, err := m.List(filepath.Join("/dlq", day)); err == nil {
			for _, name := range names {
				paths = append(paths, filepath.Join("/dlq", day, name))
			}
		}
	}
	return paths
}

func TestOneStoreAtATime(t *testing.T) {
	m, now := fsystest.New(), testDay
	openTest(t, m, &now)
	_, err := OpenFile(FileOptions{FS: m, Dir: "/dlq"})
	require.ErrorIs(t, err, fsys.ErrLocked)
	for _, o := range []FileOptions{{}, {Dir: "x", SegmentBytes: 1}, {Dir: "x", MaxBytes: 1}, {Dir: "x", DedupIDs: -1}} {
		_, err := OpenFile(o)
		require.Error(t, err)
	}
}

func TestReopenKnowsEverything(t *testing.T) {
	ctx := context.Background()
	m, now := fsystest.New(), testDay
	f := openTest(t, m, &now)
	require.NoError(t, f.Save(ctx, testEntries(0, 60)))
	all := listAll(t, f)
	_, err := f.Discard(ctx, idsOf(all[5:25]))
	require.NoError(t, err)
	_, err = f.Failed(ctx, []Failure{{ID: all[0].ID, At: now}, {ID: all[40].ID, At: now}})
	require.NoError(t, err)
	now = now.Add(24 * time.Hour)
	require.NoError(t, f.Save(ctx, testEntries(60, 80)))
	for compacted := range 3 {
		if compacted == 1 {
			require.NoError(t, f.Compact(ctx))
		}
		want := listAll(t, f)
		stats, err := f.Stats(ctx)
		require.NoError(t, err)
		require.Len(t, want, 60)
		require.NoError(t, f.Close())
		f = openTest(t, m, &now)
		require.Equal(t, want, listAll(t, f))
		again, err := f.Stats(ctx)
		require.NoError(t, err)
		require.Equal(t, stats, again)
		if compacted == 0 {
			require.NoError(t, f.Save(ctx, testEntries(0, 80)))
		}
		require.NoError(t, f.Save(ctx, want))
		require.Equal(t, want, listAll(t, f), "what was saved before stays known")
	}
}

func TestClosed(t *testing.T) {
	ctx := context.Background()
	m, now := fsystest.New(), testDay
	f := openTest(t, m, &now)
	require.NoError(t, f.Close())
	require.NoError(t, f.Close())
	require.ErrorIs(t, f.Save(ctx, testEntries(0, 1)), ErrClosed)
	_, err := f.List(ctx, Query{})
	require.ErrorIs(t, err, ErrClosed)
	_, err = f.Discard(ctx, []string{"x"})
	require.ErrorIs(t, err, ErrClosed)
}

func TestCompactionGivesSpaceBack(t *testing.T) {
	ctx := context.Background()
	m, now := fsystest.New(), testDay
	f := openTest(t, m, &now)
	require.NoError(t, f.Save(ctx, testEntries(0, 200)))
	before, err := f.Stats(ctx)
	require.NoError(t, err)
	all := listAll(t, f)
	_, err = f.Replayed(ctx, idsOf(all[:199]))
	require.NoError(t, err)
	require.NoError(t, f.Compact(ctx))
	after, err := f.Stats(ctx)
	require.NoError(t, err)
	require.Less(t, after.DiskBytes, before.DiskBytes/20)
	require.Equal(t, all[199:], listAll(t, f))
	require.LessOrEqual(t, len(files(t, m)), 2)
	require.NoError(t, f.Compact(ctx))
	_, err = f.Purge(ctx, now.Add(time.Second))
	require.NoError(t, err)
	require.NoError(t, f.Close())
	f = openTest(t, m, &now)
	require.Empty(t, listAll(t, f))
	require.NoError(t, f.Save(ctx, testEntries(300, 301)))
	require.Len(t, listAll(t, f), 1)
	// The numbering continued: no cursor has another meaning now.
	require.Greater(t, f.next, uint64(200))
}

func TestFull(t *testing.T) {
	ctx := context.Background()
	f, err := OpenFile(FileOptions{FS: fsystest.New(), Dir: "/dlq", SegmentBytes: 4 << 10, MaxBytes: 20_000})
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	i := 0
	for ; err == nil; i++ {
		err = f.Save(ctx, testEntries(i, i+1))
	}
	require.ErrorIs(t, err, ErrFull)
	require.Greater(t, i, 40)
	all := listAll(t, f)
	require.Len(t, all, i-1)
	_, err = f.Discard(ctx, idsOf(all[:30]))
	require.NoError(t, err, "a full store can be emptied")
	require.NoError(t, f.Save(ctx, testEntries(i, i+20)), "compacted when needed")
}

// Cut and flipped at every byte: at most the damaged entry is lost, the loss is reported, and
// nothing is invented.
func TestEveryByte(t *testing.T) {
	const entries = 4
	ctx := context.Background()
	m, now := fsystest.New(), testDay
	f := openTest(t, m, &now)
	for i := range entries {
		require.NoError(t, f.Save(ctx, testEntries(i, i+1)))
	}
	want := listAll(t, f)
	require.NoError(t, f.Save(ctx, testEntries(entries, entries+28))) // more segments
	_, err := f.Discard(ctx, idsOf(listAll(t, f)[entries:]))
	require.NoError(t, err)
	require.NoError(t, f.Compact(ctx))
	require.NoError(t, f.Close())
	first := files(t, m)[0]
	data, err := m.ReadFile(first)
	require.NoError(t, err)
	byID := map[string]Entry{}
	for _, e := range want {
		byID[e.ID] = e
	}
	for at := range data {
		for _, flip := range []byte{1, 0x80, data[at] ^ '\n', data[at]} {
			if flip == 0 {
				continue
			}
			broken := bytes.Clone(data)
			broken[at] ^= flip
			require.NoError(t, m.WriteFile(first, broken))
			m := m.CrashClone(100, 0)
			f := openTest(t, m, &now)
			got := listAll(t, f)
			require.GreaterOrEqual(t, len(got), entries-1, "byte %d", at)
			mark := at >= len(data)-syncedLine // says only that all before it is durable
			if mark {
				require.Len(t, got, entries)
			}
			for _, e := range got {
				require.Equal(t, byID[e.ID], e)
			}
			_, n := f.Damage()
			require.Equal(t, !mark, n > 0, "byte %d", at)
			stats, err := f.Stats(ctx)
			require.NoError(t, err)
			if !mark {
				require.GreaterOrEqual(t, stats.Lost.Entries, int64(entries-len(got)), "byte %d", at)
				require.LessOrEqual(t, stats.Lost.Entries, int64(1), "byte %d", at)
				require.Positive(t, stats.Lost.Bytes)
			}
			require.EqualValues(t, len(got), stats.Count)
			require.EqualValues(t, n, stats.Damaged)
			if at%97 == 0 { // removal works on damaged ones; compaction lets them be
				_, err := f.Discard(ctx, idsOf(got[:2]))
				require.NoError(t, err)
				require.NoError(t, f.Compact(ctx))
				after, err := m.ReadFile(first)
				require.NoError(t, err)
				require.True(t, bytes.Equal(broken, after))
				require.Len(t, listAll(t, f), len(got)-2)
			}
			require.NoError(t, f.Close())
		}
	}
}

// A crash leaves a newest segment that can be cut at every byte: entries before the cut stay.
func TestTornTail(t *testing.T) {
	ctx := context.Background()
	m, now := fsystest.New(), testDay
	f := openTest(t, m, &now)
	var ends []int64
	for i := range 8 {
		require.NoError(t, f.Save(ctx, testEntries(i, i+1)))
		ends = append(ends, f.segments[0].size-syncedLine)
	}
	require.NoError(t, f.Close())
	path := files(t, m)[0]
	data, err := m.ReadFile(path)
	require.NoError(t, err)
	for cut := range data {
		m := fsystest.New()
		require.NoError(t, m.MkdirAll(filepath.Dir(path)))
		require.NoError(t, m.WriteFile(path, data[:cut]))
		f := openTest(t, m, &now)
		whole := 0
		for whole < len(ends) && ends[whole] <= int64(cut) {
			whole++
		}
		require.Len(t, listAll(t, f), whole, "cut at %d", cut)
		_, n := f.Damage()
		require.Zero(t, n)
		require.NoError(t, f.Save(ctx, testEntries(20, 22)))
		require.NoError(t, f.Close())
		f = openTest(t, m, &now)
		require.Len(t, listAll(t, f), whole+2)
		require.NoError(t, f.Close())
	}
}

func TestDamagedSegmentsGoWithTheirAge(t *testing.T) {
	ctx := context.Background()
	m, now := fsystest.New(), testDay
	f := openTest(t, m, &now)
	require.NoError(t, f.Save(ctx, testEntries(0, 10)))
	now = now.Add(24 * time.Hour)
	require.NoError(t, f.Save(ctx, testEntries(10, 12)))
	require.NoError(t, f.Close())
	path := files(t, m)[0]
	require.NoError(t, m.WriteFile(path, bytes.Repeat([]byte("x\n"), 1000)))
	f = openTest(t, m, &now)
	require.Len(t, listAll(t, f), 2)
	damages, n := f.Damage()
	require.Positive(t, n)
	require.Equal(t, path, damages[0].Path)
	_, err := f.Purge(ctx, testDay.Add(time.Hour))
	require.NoError(t, err)
	require.Contains(t, files(t, m), path, "its day is not over yet")
	_, err = f.Purge(ctx, testDay.Add(24*time.Hour))
	require.NoError(t, err)
	require.NotContains(t, files(t, m), path)
	require.Len(t, listAll(t, f), 2)
}

func TestOtherFormatsAreRefused(t *testing.T) {
	for _, format := range []string{"1", "3"} {
		m, now := fsystest.New(), testDay
		require.NoError(t, m.MkdirAll("/dlq/2026-11-20"))
		head := appendSegmentHead(nil, 3, 1)
		head[6] = format[0]
		sum := seal(3, head[:len(head)-9])
		head = append(appendHex(head[:len(head)-9], uint64(sum), 8), '\n')
		require.NoError(t, m.WriteFile("/dlq/2026-11-20/"+segmentName(3), head))
		_, err := OpenFile(FileOptions{FS: m, Dir: "/dlq", Now: func() time.Time { return now }})
		var version *VersionError
		require.ErrorAs(t, err, &version)
		require.Equal(t, format, version.Version)
		require.Contains(t, version.Path, segmentName(3))
	}
}

func TestDiskFaults(t *testing.T) {
	ctx := context.Background()
	t.Run("full", func(t *testing.T) {
		m, now := fsystest.New(), testDay
		f := openTest(t, m, &now)
		for _, op := range []fsystest.Op{fsystest.OpCreate, fsystest.OpWrite} {
			m.FailNext(op, syscall.ENOSPC)
			require.ErrorIs(t, f.Save(ctx, testEntries(0, 3)), ErrNoSpace)
		}
		require.NoError(t, f.Save(ctx, testEntries(0, 3)))
		m.FailNext(fsystest.OpWrite, syscall.ENOSPC)
		require.ErrorIs(t, f.Save(ctx, testEntries(3, 6)), ErrNoSpace)
		require.Len(t, listAll(t, f), 3)
		require.NoError(t, f.Save(ctx, testEntries(3, 6)))
		require.Len(t, listAll(t, f), 6)
		_, err := f.Discard(ctx, []string{"fold-1-0"})
		require.NoError(t, err)
		m.FailNext(fsystest.OpWrite, syscall.ENOSPC)
		require.ErrorIs(t, f.Compact(ctx), ErrNoSpace)
		require.Len(t, listAll(t, f), 5)
		require.NoError(t, f.Compact(ctx))
		require.NoError(t, f.Close())
		require.Len(t, listAll(t, openTest(t, m, &now)), 5)
	})
	// Short of a failed sync, a refused entry can be retried.
	for name, c := range map[string]struct {
		op    fsystest.Op
		fault error
	}{
		"no descriptor for the file":   {fsystest.OpCreate, syscall.EMFILE},
		"no descriptor for the folder": {fsystest.OpOpenDir, syscall.EMFILE},
		"the file cannot be opened":    {fsystest.OpCreate, syscall.EIO},
		"broken write":                 {fsystest.OpWrite, syscall.EIO},
	} {
		t.Run(name, func(t *testing.T) {
			m, now := fsystest.New(), testDay
			f := openTest(t, m, &now)
			require.NoError(t, f.Save(ctx, testEntries(0, 3)))
			now = now.Add(24 * time.Hour) // which begins a file
			m.FailAlways(c.op, c.fault)
			for range 2 {
				err := f.Save(ctx, testEntries(3, 6))
				require.ErrorIs(t, err, c.fault)
				require.NotErrorIs(t, err, ErrPoisoned)
			}
			if c.op == fsystest.OpOpenDir {
				_, err := f.Purge(ctx, now)
				require.ErrorIs(t, err, c.fault)
				require.NotErrorIs(t, err, ErrPoisoned)
			}
			m.ClearFaults()
			require.Len(t, listAll(t, f), 3)
			require.NoError(t, f.Save(ctx, testEntries(3, 6)))
			require.Len(t, listAll(t, openTest(t, m.CrashClone(0, 1), &now)), 6)
			_, err := f.Purge(ctx, now)
			require.NoError(t, err)
		})
	}
	for name, op := range map[string]fsystest.Op{"sync": fsystest.OpSync} {
		t.Run("broken "+name, func(t *testing.T) {
			m, now := fsystest.New(), testDay
			f := openTest(t, m, &now)
			require.NoError(t, f.Save(ctx, testEntries(0, 3)))
			m.FailNext(op, syscall.EIO)
			require.ErrorIs(t, f.Save(ctx, testEntries(3, 6)), ErrPoisoned)
			require.ErrorIs(t, f.Save(ctx, testEntries(3, 6)), ErrPoisoned, "never tried again")
			_, err := f.Discard(ctx, []string{"fold-1-0"})
			require.ErrorIs(t, err, ErrPoisoned)
			require.Len(t, listAll(t, f), 3, "can still be read")
			require.NoError(t, f.Close())
			require.GreaterOrEqual(t, len(listAll(t, openTest(t, m, &now))), 3)
		})
	}
	// An error at any operation: acknowledged entries are there, nothing else is.
	for n := int64(1); n < 60; n++ {
		m, now := fsystest.New(), testDay
		f := openTest(t, m, &now)
		m.FailAt(n, errors.New("broken"))
		acked := 0
		for i := range 12 {
			if f.Save(ctx, testEntries(i*3, i*3+3)) != nil {
				break
			}
			acked += 3
		}
		_ = f.Close()
		m.ClearFaults()
		got := len(listAll(t, openTest(t, m, &now)))
		require.GreaterOrEqual(t, got, acked)
		require.LessOrEqual(t, got, acked+3)
	}
}

// Calls at the same time share syncs.
func TestSyncsAreShared(t *testing.T) {
	m, now := fsystest.New(), testDay
	f, err := OpenFile(FileOptions{FS: m, Dir: "/dlq", Now: func() time.Time { return now }})
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	var mu sync.Mutex
	syncs := 0
	m.Before(func(op fsystest.Op, _ string) {
		if op == fsystest.OpSync {
			mu.Lock()
			syncs++
			mu.Unlock()
			testkit.Pause(time.Millisecond)
		}
	})
	var group sync.WaitGroup
	for w := range 50 {
		group.Go(func() {
			for i := range 4 {
				if err := f.Save(context.Background(), testEntries(w*4+i, w*4+i+1)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	require.Len(t, listAll(t, f), 200)
	require.Less(t, syncs, 60)
}

func TestIDsTellThePlace(t *testing.T) {
	for want, e := range map[string]Entry{
		"fold-7-2":        {Origin: Fold, Seq: 7, Index: 2},
		"fold-7--1":       {Origin: Fold, Seq: 7, Index: -1},
		"sink-hook-7-0":   {Origin: Sink, Sink: "hook", Seq: 7},
		"sink-hook-7~90":  {Origin: Sink, Sink: "hook", Seq: 7, SeqEnd: 90},
		"sink-~6120-7-0":  {Origin: Sink, Sink: "a ", Seq: 7},
		"sink-~7e61-7-0":  {Origin: Sink, Sink: "~a", Seq: 7},
		"sink-a-b.c-70-1": {Origin: Sink, Sink: "a-b.c", Seq: 70, Index: 1},
	} {
		require.Equal(t, want, e.DefaultID())
	}
	a, b := Entry{Origin: Admission}, Entry{Origin: Admission}
	require.NotEqual(t, a.DefaultID(), b.DefaultID())
	require.True(t, strings.HasPrefix(a.DefaultID(), "admission-"))
}

// A store whose last batch is large, as it is left by a clean end.
func lastBatch(t *testing.T, n int) (m *fsystest.Mem, path string, data []byte) {
	t.Helper()
	m = fsystest.New()
	f, err := OpenFile(FileOptions{FS: m, Dir: "/dlq", Now: func() time.Time { return testDay }})
	require.NoError(t, err)
	require.NoError(t, f.Save(context.Background(), testEntries(0, 1)))
	require.NoError(t, f.Save(context.Background(), testEntries(1, n)))
	require.NoError(t, f.Close())
	path = files(t, m)[0]
	data, err = m.ReadFile(path)
	require.NoError(t, err)
	return m, path, data
}

// One flipped byte in the last batch used to cost all of it from there on, without a line:
// it was taken for the rest of a write that a crash had cut short.
func TestAFlippedByteInTheLastBatchCostsOneEntry(t *testing.T) {
	ctx := context.Background()
	_, path, data := lastBatch(t, 2000)
	for _, at := range []int{segmentHead + 500, len(data) / 2, len(data) - syncedLine - 100} {
		m := fsystest.New()
		require.NoError(t, m.MkdirAll(filepath.Dir(path)))
		broken := bytes.Clone(data)
		broken[at] ^= 1
		require.NoError(t, m.WriteFile(path, broken))
		for range 2 { // the next start says the same
			f, err := OpenFile(FileOptions{FS: m, Dir: "/dlq", Now: func() time.Time { return testDay }})
			require.NoError(t, err)
			require.Len(t, listAll(t, f)[:1999], 1999)
			damages, n := f.Damage()
			require.EqualValues(t, 1, n)
			require.EqualValues(t, 1, damages[0].Lost)
			require.Equal(t, path, damages[0].Path)
			require.Equal(t, testDay, damages[0].From)
			require.Equal(t, testDay, damages[0].To)
			stats, err := f.Stats(ctx)
			require.NoError(t, err)
			require.EqualValues(t, 1, stats.Lost.Entries)
			require.Less(t, stats.Lost.Bytes, int64(500))
			kept, err := m.ReadFile(path)
			require.NoError(t, err)
			require.True(t, bytes.Equal(broken, kept), "nothing is cut off")
			require.NoError(t, f.Save(ctx, []Entry{{Origin: Fold, Reason: "new"}}))
			require.NoError(t, f.Close())
		}
	}
}

// A hole of several entries is reported by their number.
func TestAHoleIsCounted(t *testing.T) {
	_, path, data := lastBatch(t, 200)
	m := fsystest.New()
	require.NoError(t, m.MkdirAll(filepath.Dir(path)))
	broken := bytes.Clone(data)
	clear(broken[len(data)/2 : len(data)/2+4096])
	require.NoError(t, m.WriteFile(path, broken))
	f, err := OpenFile(FileOptions{FS: m, Dir: "/dlq", Now: func() time.Time { return testDay }})
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	got := len(listAll(t, f))
	stats, err := f.Stats(context.Background())
	require.NoError(t, err)
	require.EqualValues(t, 200-got, stats.Lost.Entries)
	require.Greater(t, stats.Lost.Entries, int64(10))
	require.GreaterOrEqual(t, stats.Lost.Bytes, int64(4096))
}

// A segment of which nothing can be read is not deleted.
func TestNothingIsDeletedByItself(t *testing.T) {
	_, path, data := lastBatch(t, 200)
	m := fsystest.New()
	require.NoError(t, m.MkdirAll(filepath.Dir(path)))
	require.NoError(t, m.WriteFile(path, make([]byte, len(data))))
	f, err := OpenFile(FileOptions{FS: m, Dir: "/dlq", Now: func() time.Time { return testDay }})
	require.NoError(t, err)
	stats, err := f.Stats(context.Background())
	require.NoError(t, err)
	require.EqualValues(t, len(data), stats.TornBytes)
	require.NoError(t, f.Save(context.Background(), testEntries(0, 3)))
	require.NoError(t, f.Close())
	kept, err := m.ReadFile(path + ".torn")
	require.NoError(t, err)
	require.Len(t, kept, len(data))
}

// The write that begins a new segment waits for one sync, like any other: the other steps for a new
// file were done before. So it was not: the folders up to the root were synced then.
func TestANewSegmentCostsNoMoreSyncs(t *testing.T) {
	m := fsystest.New()
	var later []func()
	f, err := OpenFile(FileOptions{FS: m, Dir: "/dlq", SegmentBytes: 4 << 10, Now: func() time.Time {
		return testDay
	}, later: func(f func()) { later = append(later, f) }})
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	syncs := 0
	m.Before(func(op fsystest.Op, _ string) {
		if op == fsystest.OpSync || op == fsystest.OpSyncDir {
			syncs++
		}
	})
	for i := range 200 {
		syncs = 0
		require.NoError(t, f.Save(context.Background(), testEntries(i, i+1)))
		if i > 0 { // the first makes the folder of the day
			require.Equal(t, 1, syncs, "save %d", i)
		}
		for _, f := range later {
			f()
		}
		later = nil
	}
	require.Greater(t, len(f.segments), 5)
}

// The file of the next segment is made beside the writes: a slow disk delays only operations that
// need it.
func TestNoWriteWaitsForTheFileOfTheNextSegment(t *testing.T) {
	m := fsystest.New()
	f, err := OpenFile(FileOptions{FS: m, Dir: "/dlq", SegmentBytes: 64 << 10, Now: func() time.Time { return testDay }})
	require.NoError(t, err)
	require.NoError(t, f.Save(context.Background(), testEntries(0, 1)))
	slow, began := make(chan struct{}), make(chan struct{}, 1)
	m.Before(func(op fsystest.Op, _ string) {
		if op == fsystest.OpSyncDir {
			began <- struct{}{}
			<-slow
		}
	})
	n := 1
	for preparing := false; !preparing; n++ {
		require.NoError(t, f.Save(context.Background(), testEntries(n, n+1)))
		f.turn <- struct{}{}
		preparing = f.making != nil
		<-f.turn
	}
	<-began
	size := f.total()
	for range 20 {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		require.NoError(t, f.Save(ctx, testEntries(n, n+1)), "while the folder is synced")
		cancel()
		n++
	}
	require.Greater(t, f.total(), size)
	saved := make(chan error)
	go func() { saved <- f.Save(context.Background(), testEntries(n, n+200)) }() // more than fits
	select {
	case err := <-saved:
		t.Fatalf("a segment was begun twice: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	close(slow)
	require.NoError(t, <-saved)
	m.Before(nil)
	require.NoError(t, f.Close())
	f, err = OpenFile(FileOptions{FS: m.CrashClone(0, 1), Dir: "/dlq", Now: func() time.Time { return testDay }})
	require.NoError(t, err)
	require.Len(t, listAll(t, f), n+200)
	require.NoError(t, f.Close())
}

// A folder that could not be synced is reported by the write that needs the file, and only then.
func TestAFileOfTheNextSegmentThatCannotBeMade(t *testing.T) {
	for name, c := range map[string]struct {
		op    fsystest.Op
		err   error
		wants error
	}{
		"no space":    {fsystest.OpCreate, syscall.ENOSPC, nil}, // made when it is needed
		"failed sync": {fsystest.OpSyncDir, syscall.EIO, ErrPoisoned},
	} {
		t.Run(name, func(t *testing.T) {
			m := fsystest.New()
			f, err := OpenFile(FileOptions{FS: m, Dir: "/dlq", SegmentBytes: 16 << 10, Now: func() time.Time {
				return testDay
			}, later: func(f func()) { f() }})
			require.NoError(t, err)
			require.NoError(t, f.Save(context.Background(), testEntries(0, 1)))
			m.FailNext(c.op, c.err)
			n := 1
			for ; len(f.segments) == 1 && err == nil; n++ {
				err = f.Save(context.Background(), testEntries(n, n+1))
			}
			require.ErrorIs(t, err, c.wants)
			if c.wants == nil {
				require.Len(t, listAll(t, f), n)
			}
			require.NoError(t, f.Close())
		})
	}
}
