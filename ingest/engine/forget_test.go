package engine

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/internal/testkit"
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
		}, testkit.Patience, time.Millisecond)
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
	opt.Config = func() []byte { return []byte("first") }
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

// TestHeldSpans: a Collector holds the spans of an outage, sends them when the engine is back, and then sends all of
// them again. Whatever their order, none counts twice, and each that does not count is named. It is a two-thousandth of
// 2,000 spans/s and of 512 MiB.
func TestHeldSpans(t *testing.T) {
	const rate, batch = 1, 100
	for _, held := range []int{6, 30} { // hours
		for _, order := range []string{"oldest first", "newest first", "shuffled"} {
			t.Run(fmt.Sprint(held, "h, ", order), func(t *testing.T) {
				t.Parallel()
				s := &heldSpans{T: t, disk: fsystest.New(), why: map[uint64]string{}}
				began := time.Date(2026, 11, 27, 9, 0, 0, 0, time.UTC)
				s.pass(began.Sub(s.now()))
				s.start()
				for from := range uint64(8 * 3600 * rate / batch) {
					s.pass(batch * time.Second / rate)
					s.send(batch, func(i uint64) (uint64, time.Time) {
						return from*batch + i, began.Add(time.Duration(from*batch+i) * time.Second / rate)
					})
				}
				s.kill()
				first, down := uint64(8*3600*rate), s.now()
				queue := make([]uint64, held*3600*rate)
				for i := range queue {
					queue[i] = first + uint64(i)
				}
				switch order {
				case "newest first":
					slices.Reverse(queue)
				case "shuffled":
					rand.New(rand.NewPCG(1, 1)).Shuffle(len(queue), func(i, j int) { queue[i], queue[j] = queue[j], queue[i] })
				}
				s.pass(time.Duration(held) * time.Hour)
				s.start()
				for pass := range 2 {
					for n, some := range slices.Collect(slices.Chunk(queue, batch)) {
						s.pass(batch * time.Second / rate / 20)
						s.send(len(some), func(i uint64) (uint64, time.Time) {
							return some[i], down.Add(time.Duration(some[i]-first) * time.Second / rate)
						})
						if n%300 == 100 {
							s.checkpointNow()
						}
						if n%400 == 250 {
							s.kill()
							s.start()
						}
					}
					counts, refused := s.counts(), map[string]int{}
					for _, id := range queue {
						n := counts[strconv.FormatUint(id, 10)]
						require.LessOrEqual(t, n, uint64(1), "%d counts twice", id)
						if n == 0 {
							require.NotEmpty(t, s.why[id], "%d is lost", id)
							refused[s.why[id]]++
						}
					}
					if pass == 0 && held == 6 && order == "oldest first" {
						require.Empty(t, refused, "all count")
					}
					// A full table at least counts, and half of six hours.
					counted := len(queue) - refused[dlq.ReasonForgotten] - refused[string(event.CodeTimeTooOld)]
					require.Greater(t, counted, min(10_000, len(queue)/2))
					require.Equal(t, held == 30, refused[string(event.CodeTimeTooOld)] > 0)
				}
				requireOnce(t, s.counts(), slices.Collect(maps.Keys(s.counts())))
				s.shutdown()
			})
		}
	}
}

// heldSpans is an engine that takes spans, with a clock of its own.
type heldSpans struct {
	*testing.T
	*running
	disk *fsystest.Mem
	at   atomic.Int64 // Unix ns
	d    event.Decoder
	why  map[uint64]string // a span does not count
}

func (s *heldSpans) now() time.Time          { return time.Unix(0, s.at.Load()) }
func (s *heldSpans) pass(time time.Duration) { s.at.Add(int64(time)) }

func (s *heldSpans) start() {
	opt := testOptions(s.disk)
	opt.SegmentBytes = 1 << 20
	opt.IDs = IDOptions{Bytes: 256 << 10, MaxAge: 7 * 24 * time.Hour}
	opt.Now = s.now
	opt.Uptime = func() time.Duration { return time.Duration(s.at.Load()) }
	s.running = start(s.T, opt)
}

func (s *heldSpans) kill() {
	s.disk = s.disk.CrashClone(0, 1)
	s.running.kill()
}

// send sends spans as a resend does: with the same ids and times.
func (s *heldSpans) send(n int, span func(i uint64) (id uint64, end time.Time)) {
	var b event.Batch
	s.d.Begin(event.DecodeOptions{Now: s.now()}, &b)
	var ids []uint64
	for i := range uint64(n) {
		id, end := span(i)
		code := s.d.Add(&event.Draft{ID: strconv.AppendUint(nil, id, 10), Service: []byte("shop"), Type: []byte("server"),
			Time: end.UnixNano(), Duration: event.NoDuration})
		if code == "" {
			ids = append(ids, id)
		} else if s.why[id] == "" {
			s.why[id] = string(code)
		}
	}
	s.d.End()
	if len(ids) == 0 {
		return
	}
	result, err := s.Commit(context.Background(), &b)
	require.NoError(s.T, err)
	require.Equal(s.T, len(ids), result.Accepted+result.Duplicates+len(result.Forgotten))
	for _, i := range result.Forgotten {
		s.why[ids[i]] = dlq.ReasonForgotten
		require.Less(s.T, b.Events[i].Earliest, result.KnownSince)
	}
}
