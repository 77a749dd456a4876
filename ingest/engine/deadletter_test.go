package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/deadletter"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/reliability/fsys/fsystest"
	"github.com/sloengine/sloengine/reliability/wal"
)

// deadLetters lists the dead letters that the engine's own files hold, oldest first.
func (r *running) deadLetters(t testing.TB) (all []dlq.Entry) {
	t.Helper()
	_ = r.read.wait(context.Background(), r.durable.Load()) // all is folded; a refused record is no error here
	require.NoError(t, r.dead.flush())
	require.NoError(t, dlq.Each(context.Background(), r.dead.own, dlq.Query{}, func(page []dlq.Entry) error {
		all = append(all, page...)
		return nil
	}))
	return all
}

// Poison: an event that makes the fold panic, or that it refuses, becomes a
// dead entry, its neighbours count, and the reader continues.
func TestPoison(t *testing.T) {
	disk := fsystest.New()
	opt := testOptions(disk)
	r := start(t, opt)
	r.commit("a", "panic-1", "b", "refuse-1", "panic-2")
	r.commit("c")
	requireOnce(t, r.counts(), []string{"a", "b", "c"})
	require.EqualValues(t, 3, r.Health().DeadLetters)
	// A crash before they are on disk: they come again, and once.
	opt.FS = disk.CrashClone(0, 1)
	again := start(t, opt)
	require.EqualValues(t, 3, again.Health().DeadLetters)
	deadLetters := again.deadLetters(t)
	require.Len(t, deadLetters, 3)
	for i, index := range []int{1, 3, 4} {
		require.EqualValues(t, 2, deadLetters[i].Seq)
		require.Equal(t, index, deadLetters[i].Index)
		require.Equal(t, dlq.Fold, deadLetters[i].Origin)
		require.Equal(t, "shop", deadLetters[i].Service)
	}
	require.Equal(t, deadletter.ReasonRefused, deadLetters[1].Reason)
	require.Equal(t, "told to refuse", deadLetters[1].Error)
	require.Equal(t, deadletter.ReasonPanic, deadLetters[2].Reason)
	require.Regexp(t, `^panic: runtime error: index out of range .* in .*tally.*Apply`, deadLetters[2].Error)
	var e struct{ ID string }
	require.NoError(t, json.Unmarshal(deadLetters[0].Event, &e))
	require.Equal(t, "panic-1", e.ID)

	// A crash after they are on disk, but in no checkpoint: they are not written twice.
	opt.FS = opt.FS.(*fsystest.Mem).CrashClone(0, 1)
	third := start(t, opt)
	require.EqualValues(t, 3, third.Health().DeadLetters)
	require.Len(t, third.deadLetters(t), 3)
	third.checkpointNow()
	require.Zero(t, third.dead.waiting())
	r.shutdown()
	again.shutdown()
	third.shutdown()
	fourth := start(t, opt)
	require.EqualValues(t, 3, fourth.Health().DeadLetters, "from the checkpoint")
	fourth.shutdown()
}

// A whole record that is refused and too large for a dead letter is kept as its
// log range.
func TestLargeRefusedRecordIsKept(t *testing.T) {
	disk := fsystest.New()
	opt := testOptions(disk)
	r := start(t, opt)
	large := append([]byte("panic"), make([]byte, deadletter.WholeRecordBytes)...)
	require.Error(t, r.SetConfig(context.Background(), large))
	deadLetters := r.deadLetters(t)
	require.Len(t, deadLetters, 1)
	require.EqualValues(t, -1, deadLetters[0].Index)
	require.Equal(t, deadLetters[0].Seq, deadLetters[0].SeqEnd)
	kept, err := wal.OpenArchive(disk, filepath.Join("/data", LogRangeDir, deadLetters[0].ID), deadLetters[0].Seq,
		deadLetters[0].SeqEnd)
	require.NoError(t, err)
	var rec wal.Record
	ok, err := kept.Next(&rec)
	require.NoError(t, err)
	require.True(t, ok)
	require.Len(t, rec.Payload, len(large))
	require.NoError(t, kept.Close())
	r.shutdown()
}

// A store of dead letters that fails holds up checkpoints, and with them the log, but
// neither the fold nor the senders; entries that it did not take are stored later.
func TestDeadLetterStoreIsAway(t *testing.T) {
	memory, err := dlq.NewMemory(dlq.MemoryOptions{})
	require.NoError(t, err)
	store := &shakyStore{Memory: memory}
	store.down.Store(true)
	opt := testOptions(fsystest.New())
	r := start(t, opt, Parts{DeadLetters: store})
	r.commit("a", "refuse-1", "b")
	requireOnce(t, r.counts(), []string{"a", "b"})
	require.NoError(t, r.Do(context.Background(), r.read.checkpoint))
	require.Eventually(t, func() bool { return r.Health().Checkpoint.Failures > 0 }, testkit.Patience, time.Millisecond)
	r.commit("c")
	store.down.Store(false)
	r.checkpointNow()
	page, err := memory.List(context.Background(), dlq.Query{})
	require.NoError(t, err)
	require.Len(t, page.Entries, 1)
	r.shutdown()
}

type shakyStore struct {
	*dlq.Memory
	down atomic.Bool
}

func (s *shakyStore) Save(ctx context.Context, entries []dlq.Entry) error {
	if s.down.Load() {
		return errors.New("store is unavailable")
	}
	return s.Memory.Save(ctx, entries)
}

func TestEachEvent(t *testing.T) {
	b := testBatch("a", "b", "c", "d")
	payload := append(record.AppendHead(nil, 4, &event.Batch{Backfill: true}, nil), b.Buf...)
	var seen, refused []string
	refuse := func(index int, _ []byte, reason string) { refused = append(refused, fmt.Sprint(index, " ", reason)) }
	visit := func(backfill bool, v *event.View) error {
		require.True(t, backfill)
		switch string(v.ID) {
		case "a":
			panic("at a")
		case "c":
			return errors.New("at c")
		}
		seen = append(seen, string(v.ID))
		return nil
	}
	require.NoError(t, EachEvent(payload, visit, refuse))
	require.Equal(t, []string{"b", "d"}, seen)
	require.Len(t, refused, 2)
	require.Regexp(t, `^0 panic: at a in .*TestEachEvent`, refused[0])
	require.Equal(t, "2 at c", refused[1])

	for cut := range payload {
		seen = nil
		require.Error(t, EachEvent(payload[:cut], visit, refuse))
	}
	require.Error(t, EachEvent(append(payload, 0), visit, refuse))
}

// Calls from outside cannot take the fold down.
func TestDoPanics(t *testing.T) {
	r := start(t, testOptions(fsystest.New()))
	require.ErrorContains(t, r.Do(context.Background(), func() { panic("no") }), "panic: no in ")
	r.commit("a")
	requireOnce(t, r.counts(), []string{"a"})
	r.shutdown()
}

// refusingStore keeps nothing.
type refusingStore struct{ calls atomic.Int64 }

func (s *refusingStore) Save(context.Context, []dlq.Entry) error {
	s.calls.Add(1)
	return fmt.Errorf("entry 0: %w: unknown origin", dlq.ErrInvalid)
}

func (s *refusingStore) Failed(context.Context, []dlq.Failure) (int, error) { return 0, nil }

// A dead letter that no store takes does not keep the others, and the checkpoint, waiting.
func TestInvalidDeadLetterIsNotRetried(t *testing.T) {
	s := &refusingStore{}
	r := start(t, testOptions(fsystest.New()), Parts{DeadLetters: s})
	r.commit("a", "refuse-1")
	_ = r.read.wait(context.Background(), r.durable.Load())
	require.NoError(t, r.dead.flush())
	require.NoError(t, r.dead.flush())
	require.EqualValues(t, 1, s.calls.Load())
	r.shutdown()
}
