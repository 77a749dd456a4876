package engine

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/reliability/fsys/fsystest"
)

func (r *running) forget(services ...string) {
	r.t.Helper()
	require.NoError(
		r.t, r.Forget(context.Background(), record.Forget{Generations: []uint64{7}, Services: services}, r.Position()))
}

// TestForgottenIDsCountAgain: an id is a duplicate until its service is forgotten, and
// then counts once more, exactly, with any kill, checkpoint and replay in between.
func TestForgottenIDsCountAgain(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		disk := fsystest.New()
		r := start(t, testOptions(disk))
		counted := map[string]bool{}
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			switch rapid.IntRange(0, 9).Draw(rt, "step") {
			case 0, 1:
				service := rapid.SampledFrom([]string{"shop", "bank"}).Draw(rt, "service")
				r.forget(service)
				if service == "shop" {
					clear(counted)
				}
			case 2:
				r.forget("bank") // a checkpoint needs something new
				r.checkpointNow()
			case 3:
				disk = disk.CrashClone(rapid.IntRange(0, 100).Draw(rt, "survive"), 1)
				r.kill()
				r = start(t, testOptions(disk))
			case 4:
				require.NoError(rt, r.SetConfig(context.Background(), []byte("x")))
			default:
				ids := rapid.SliceOfN(rapid.SampledFrom(numbered("e", 0, 6)), 1, 4).Draw(rt, "ids")
				want := Result{}
				for i, id := range ids {
					if counted[id] {
						want.Duplicates++
						want.DupIndexes = append(want.DupIndexes, i)
						continue
					}
					counted[id] = true
					want.Accepted++
				}
				got := r.commit(ids...)
				got.Seq = 0
				require.Equal(rt, want, got)
			}
		}
		requireOnce(t, r.counts(), slices.Collect(maps.Keys(counted)))
		r.kill()
	})
}

// TestForgetHoldsItsPlace: requests of one commit group are before or after the forgetting in the
// order of arrival, and a replay of the log agrees.
func TestForgetHoldsItsPlace(t *testing.T) {
	disk := fsystest.New()
	opt := testOptions(disk)
	var hold atomic.Pointer[chan struct{}]
	entered := make(chan struct{}, 1)
	opt.CrashPoint = func(p CrashPoint) {
		if ch := hold.Load(); p == CrashBeforeAppend && ch != nil {
			hold.Store(nil)
			entered <- struct{}{}
			<-*ch
		}
	}
	r := start(t, opt)
	basis := r.Position()
	gate := make(chan struct{})
	hold.Store(&gate)
	results := make(chan Result, 4)
	queued := func(n int, f func()) {
		go f()
		require.Eventually(t, func() bool {
			requests, _ := r.queue.size()
			return requests == n
		}, 60*time.Second, time.Millisecond)
	}
	commit := func(ids ...string) func() { return func() { results <- r.commit(ids...) } }
	go commit("first")()
	<-entered
	queued(2, commit("a", "b"))
	failed := make(chan error, 1)
	queued(3, func() { failed <- r.Forget(context.Background(), record.Forget{Services: []string{"shop"}}, basis) })
	queued(4, commit("a"))
	close(gate)
	require.NoError(t, <-failed)
	accepted := 0
	for range 3 {
		got := <-results
		require.Zero(t, got.Duplicates)
		accepted += got.Accepted
	}
	require.Equal(t, 4, accepted)
	require.Equal(t, 1, r.commit("a").Duplicates)
	require.Equal(t, 1, r.commit("b").Accepted)
	requireOnce(t, r.counts(), []string{"a", "b"})
	r.kill()
	r = start(t, testOptions(disk))
	require.Equal(t, 2, r.commit("a", "b").Duplicates)
	requireOnce(t, r.counts(), []string{"a", "b"})
	r.shutdown()
}

// TestForgetNeedsTheConfigOfItsBasis: a part that was unused when it was chosen may be in use under
// a later configuration.
func TestForgetNeedsTheConfigOfItsBasis(t *testing.T) {
	opt := testOptions(fsystest.New())
	opt.Config = []byte("first")
	r := start(t, opt)
	r.commit("a")
	basis := r.Position()
	require.NoError(t, r.SetConfig(context.Background(), []byte("other")))
	f := record.Forget{Services: []string{"shop"}}
	require.ErrorIs(t, r.Forget(context.Background(), f, basis), ErrConfigChanged)
	require.Equal(t, 1, r.commit("a").Duplicates)
	require.NoError(t, r.Forget(context.Background(), f, r.Position()))
	require.Equal(t, 1, r.commit("a").Accepted)
	r.shutdown()
}

// TestReplayAfterForget: a dead letter of admission counts as the event that it is, in
// the epoch of its service.
func TestReplayAfterForget(t *testing.T) {
	r := start(t, testOptions(fsystest.New()))
	entry := func(id string) dlq.Entry {
		return dlq.Entry{ID: "dead-" + id, Origin: dlq.Admission,
			Event: []byte(`{"id":"` + id + `","time":"2026-11-20T09:00:00Z","service":"shop","type":"order"}`)}
	}
	replay := func(id string) { require.NoError(t, r.ReplayTarget(context.Background(), []dlq.Entry{entry(id)})[0]) }
	replay("a")
	require.Equal(t, 1, r.commit("a").Duplicates)
	r.forget("shop")
	replay("a")
	require.Equal(t, 1, r.commit("a").Duplicates, "it counts as the event")
	require.Equal(t, 1, r.commit("b").Accepted)
	replay("b")
	requireOnce(t, r.counts(), []string{"a", "b"})
	r.shutdown()
}
