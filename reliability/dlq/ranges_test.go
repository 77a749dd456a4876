package dlq

import (
	"context"
	"errors"
	"io/fs"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/fsys/fsystest"
	"github.com/sloengine/sloengine/reliability/wal"
)

func openRanges(t *testing.T, disk fsys.FS, storage Store, maxBytes int64) *RangeStore {
	t.Helper()
	log, err := wal.Open(wal.Options{FS: disk, Dir: "/data/wal", SegmentBytes: 4096})
	require.NoError(t, err)
	t.Cleanup(func() { _ = log.Close() })
	for seq := log.NextSeq(); seq <= 10; seq++ {
		require.NoError(t, log.Append([]wal.Pending{{Type: 1, Time: int64(seq), Payload: []byte("payload")}}))
	}
	s := NewRangeStore(RangeOptions{FS: disk, Dir: "/data/kept", Log: log, Store: storage, Owned: "me-sink",
		MaxBytes: maxBytes})
	require.NoError(t, s.Recover(context.Background()))
	return s
}

func rangeOf(id string) Entry {
	return Entry{ID: id, Origin: Sink, Sink: "hook", Reason: "lagging", Seq: 3, SeqEnd: 5, Index: -1,
		First: time.Unix(1, 0), Last: time.Unix(1, 0)}
}

func ranges(t *testing.T, disk fsys.FS) []string {
	t.Helper()
	names, err := disk.List("/data/kept")
	require.NoError(t, err)
	return names
}

// A range exists as long as its dead letter, however that is removed.
func TestARangeGoesWithItsDeadLetter(t *testing.T) {
	ctx := context.Background()
	for name, remove := range map[string]func(s *RangeStore) (int, error){
		"discarded":  func(s *RangeStore) (int, error) { return s.Discard(ctx, []string{"me-sink-a"}) },
		"replayed":   func(s *RangeStore) (int, error) { return s.Replayed(ctx, []string{"me-sink-a"}) },
		"purged":     func(s *RangeStore) (int, error) { return s.Purge(ctx, time.Now().Add(time.Hour)) },
		"by a query": func(s *RangeStore) (int, error) { return DiscardMatching(ctx, s, Query{}, false) },
		"by somebody": func(s *RangeStore) (int, error) {
			n, err := s.Store.Discard(ctx, []string{"me-sink-a"})
			return n, errors.Join(err, s.Sweep(ctx))
		},
	} {
		t.Run(name, func(t *testing.T) {
			disk := fsystest.New()
			storage, err := NewMemory(MemoryOptions{})
			require.NoError(t, err)
			s := openRanges(t, disk, storage, 1<<20)
			e := rangeOf("me-sink-a")
			require.NoError(t, s.Archive(ctx, e))
			require.Equal(t, []string{"me-sink-a"}, ranges(t, disk))
			records, err := s.Open(&e)
			require.NoError(t, err)
			var rec wal.Record
			var seqs []uint64
			for ok := true; ok; {
				if ok, err = records.Next(&rec); ok {
					seqs = append(seqs, rec.Seq)
				}
				require.NoError(t, err)
			}
			require.Equal(t, []uint64{3, 4, 5}, seqs)
			require.NoError(t, records.Close())
			n, err := remove(s)
			require.NoError(t, err)
			require.Equal(t, 1, n)
			require.Empty(t, ranges(t, disk))
		})
	}
}

// A range that a crash left without a dead letter is removed at the next start, for every owner.
// While others archive, only owned ranges go.
func TestOnlyRecoverRemovesWhatOthersArchive(t *testing.T) {
	ctx := context.Background()
	disk := fsystest.New()
	storage, err := NewMemory(MemoryOptions{})
	require.NoError(t, err)
	s := openRanges(t, disk, storage, 1<<20)
	for _, id := range []string{"me-fold-b", "me-sink-c"} {
		require.NoError(t, s.o.Log.Archive(3, 5, s.path(id))) // and then it crashed
	}
	require.NoError(t, s.Sweep(ctx))
	require.Equal(t, []string{"me-fold-b"}, ranges(t, disk))
	require.NoError(t, s.Recover(ctx))
	require.Empty(t, ranges(t, disk))
}

func TestAFullStorageSavesNothing(t *testing.T) {
	ctx := context.Background()
	disk := fsystest.New()
	storage, err := NewMemory(MemoryOptions{})
	require.NoError(t, err)
	s := openRanges(t, disk, storage, 1)
	require.NoError(t, s.Archive(ctx, rangeOf("me-sink-a")), "the first one fits, however large")
	require.ErrorIs(t, s.Archive(ctx, rangeOf("me-sink-b")), ErrRangesFull)
	require.Equal(t, []string{"me-sink-a"}, ranges(t, disk))
	_, err = s.Get(ctx, "me-sink-b")
	require.ErrorIs(t, err, ErrNotFound)
}

func TestSnapshotHoldsAllRanges(t *testing.T) {
	disk := fsystest.New()
	storage, err := NewMemory(MemoryOptions{})
	require.NoError(t, err)
	s := openRanges(t, disk, storage, 1<<20)
	require.NoError(t, s.Archive(context.Background(), rangeOf("me-sink-a")))
	var names []string
	var before bool
	err = s.Snapshot(func() error { before = true; return nil }, func(name string, size int64, file fsys.File) {
		require.True(t, before)
		require.Positive(t, size)
		require.NoError(t, file.Close())
		names = append(names, name)
	})
	require.NoError(t, err)
	require.NotEmpty(t, names)
	for _, name := range names {
		require.True(t, fs.ValidPath(name))
		require.Regexp(t, `^me-sink-a/`, name)
	}
}
