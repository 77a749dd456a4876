package engine

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/fsys/fsystest"
	"github.com/sloengine/sloengine/reliability/wal"
)

const testParts = 8

// tally is a State that counts how often it saw each id.
type tally struct {
	counts   [testParts]map[string]uint64
	versions [testParts]uint64
	beats    []record.Beat
	config   string
	records  uint64 // applied, over all restarts
	encoded  int    // parts, in this process
	restored bool
	lost     []string // parts
}

func newTally() *tally {
	s := &tally{}
	for i := range s.counts {
		s.counts[i] = map[string]uint64{}
	}
	return s
}

func partOf(id string) int { return int(event.Key(nil, []byte(id)).Lo % testParts) }

func (s *tally) Apply(rec wal.Record, refuse Refuse) error {
	s.records++
	s.versions[0]++
	switch rec.Type {
	case record.TypeHeartbeat:
		beat, err := record.ParseBeat(rec.Payload)
		s.beats = append(s.beats, beat)
		return err
	case record.TypeConfig:
		if strings.Contains(string(rec.Payload), "panic") {
			panic("config is poison")
		}
		s.config = string(rec.Payload)
		return nil
	case record.TypeForget:
		f, err := record.ParseForget(rec.Payload)
		if slices.Contains(f.Services, "shop") {
			for i := range s.counts {
				clear(s.counts[i])
				s.versions[i]++
			}
		}
		return err
	}
	return EachEvent(rec.Payload, func(_ bool, v *event.View) error {
		id := string(v.ID)
		switch {
		case strings.HasPrefix(id, "panic"):
			var none []int
			_ = none[len(id)]
		case strings.HasPrefix(id, "refuse"):
			return errors.New("told to refuse")
		}
		s.counts[partOf(id)][id]++
		s.versions[partOf(id)]++
		return nil
	}, refuse)
}

func (s *tally) Parts() (parts []Part) {
	for i := range s.counts {
		parts = append(parts, Part{Name: fmt.Sprintf("counts-%d", i), Version: s.versions[i], Vital: i == 0,
			Encode: func(dst []byte) []byte {
				s.encoded++
				return s.encode(dst, i)
			}})
	}
	return parts
}

func (s *tally) encode(dst []byte, i int) []byte {
	if i == 0 {
		dst = binary.AppendUvarint(dst, s.records)
		dst = binary.AppendUvarint(dst, uint64(len(s.config)))
		dst = append(dst, s.config...)
	}
	for _, id := range slices.Sorted(maps.Keys(s.counts[i])) {
		dst = binary.AppendUvarint(dst, s.counts[i][id])
		dst = binary.AppendUvarint(dst, uint64(len(id)))
		dst = append(dst, id...)
	}
	return dst
}

func (s *tally) Restore(name string, data []byte) error {
	i := slices.IndexFunc(s.Parts(), func(p Part) bool { return p.Name == name })
	if i < 0 {
		return fmt.Errorf("no part %q", name)
	}
	if data == nil {
		s.lost = append(s.lost, name)
	}
	uvarint := func() uint64 {
		v, n := binary.Uvarint(data)
		data = data[n:]
		return v
	}
	text := func() string {
		n := uvarint()
		v := string(data[:n])
		data = data[n:]
		return v
	}
	if i == 0 {
		s.records, s.config = uvarint(), text()
	}
	for len(data) > 0 {
		n := uvarint()
		s.counts[i][text()] = n
	}
	return nil
}

func (s *tally) FinishRestore() error { s.restored = true; return nil }

// Loss says that all but the first part can be lost.
func (s *tally) Loss(name string) (string, bool) { return "the ids of " + name, name != "counts-0" }

// bytes is all that the state holds.
func (s *tally) bytes() (b []byte) {
	for i := range s.counts {
		b = s.encode(b, i)
	}
	return b
}

func (s *tally) all() map[string]uint64 {
	all := map[string]uint64{}
	for _, counts := range s.counts {
		maps.Copy(all, counts)
	}
	return all
}

// testBatch makes a batch of events with these ids; "" lets the server have
// given the id.
func testBatch(ids ...string) *event.Batch {
	b := &event.Batch{Received: len(ids)}
	for i, id := range ids {
		item := event.Item{Index: i, Start: len(b.Buf), Time: 1}
		e := event.Event{ID: id, Time: time.Unix(1, 0), Service: "shop", Type: "order"}
		if id != "" {
			item.HasKey, item.Key = true, event.Key([]byte("shop"), []byte(id))
		}
		b.Buf = event.AppendBinary(b.Buf, &e)
		item.End = len(b.Buf)
		if id == "" {
			b.Buf[item.Start+4] |= 1 << 5 // assigned
		}
		b.Events = append(b.Events, item)
	}
	return b
}

// running is an engine in a test.
type running struct {
	*Engine
	t     testing.TB
	state *tally
	stop  context.CancelFunc
	end   chan error
}

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

func testOptions(fs fsys.FS) Options {
	return Options{
		FS: fs, Dir: "/data", Logger: quiet, SegmentBytes: 4096,
		IDs:        IDOptions{Bytes: 1 << 20},
		Disk:       DiskOptions{LowWater: -1},
		Checkpoint: CheckpointOptions{Interval: time.Hour},
	}
}

// launch starts an engine and does not wait until it is ready. Where the data folder cannot be
// opened, the reason comes from end.
func launch(t testing.TB, opt Options, parts ...Parts) *running {
	t.Helper()
	state := newTally()
	if opt.State == nil {
		opt.State = state
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{t: t, state: state, stop: cancel, end: make(chan error, 1)}
	var err error
	if r.Engine, err = Open(opt); err != nil {
		r.Engine = &Engine{ready: make(chan struct{})} // never
		r.end <- err
		return r
	}
	go func() {
		err := r.Run(ctx, slices.Concat(parts, []Parts{{}})[0])
		r.end <- errors.Join(err, r.Close())
	}()
	return r
}

// start starts an engine and waits until it is ready.
func start(t testing.TB, opt Options, parts ...Parts) *running {
	t.Helper()
	r := launch(t, opt, parts...)
	select {
	case <-r.Ready():
	case err := <-r.end:
		require.NoError(t, err, "start")
		require.Fail(t, "ended at the start")
	}
	return r
}

// shutdown stops the engine cleanly. After that the state may be looked at.
func (r *running) shutdown() *tally {
	r.t.Helper()
	r.stop()
	require.NoError(r.t, <-r.end)
	return r.state
}

// kill stops the engine without looking at how it ends: its disk was lost.
func (r *running) kill() {
	r.stop()
	<-r.end
}

func (r *running) commit(ids ...string) Result {
	r.t.Helper()
	result, err := r.Commit(context.Background(), testBatch(ids...))
	require.NoError(r.t, err)
	return result
}

// counts waits for the fold and returns its counts.
func (r *running) counts() (all map[string]uint64) {
	r.t.Helper()
	require.NoError(r.t, r.read.wait(context.Background(), r.durable.Load()))
	require.NoError(r.t, r.Do(context.Background(), func() { all = r.state.all() }))
	return all
}

// checkpointNow makes one checkpoint of all that is durable, after the one that is under way, and waits for its
// outcome.
func (r *running) checkpointNow() {
	r.t.Helper()
	require.NoError(r.t, r.read.wait(context.Background(), r.durable.Load()))
	idle := func(then func()) {
		r.t.Helper()
		require.Eventually(r.t, func() (ok bool) {
			_ = r.Do(context.Background(), func() {
				if ok = !r.read.saving; ok {
					then()
				}
			})
			return ok
		}, testkit.Patience, time.Millisecond)
	}
	idle(r.read.checkpoint)
	idle(func() {})
}

func numbered(prefix string, from, to int) (ids []string) {
	for i := from; i < to; i++ {
		ids = append(ids, fmt.Sprintf("%s%d", prefix, i))
	}
	return ids
}

func requireOnce(t testing.TB, counts map[string]uint64, ids []string) {
	t.Helper()
	require.Len(t, counts, len(ids))
	for _, id := range ids {
		require.EqualValues(t, 1, counts[id], id)
	}
}

func TestCommit(t *testing.T) {
	r := start(t, testOptions(fsystest.New()))
	require.Equal(t, Result{Accepted: 3, Seq: 2}, r.commit("a", "b", "c"))
	require.Equal(t, Result{Duplicates: 3, DupIndexes: []int{0, 1, 2}}, r.commit("a", "b", "c"))
	require.Equal(t, Result{Accepted: 2, Duplicates: 3, DupIndexes: []int{1, 2, 4}, Seq: 3},
		r.commit("d", "a", "d", "e", "e"))
	require.Equal(t, Result{}, r.commit())
	requireOnce(t, r.counts(), []string{"a", "b", "c", "d", "e"})
	state := r.shutdown()
	require.Equal(t, []record.Beat{record.BeatStart, record.BeatStop}, state.beats)
	_, err := r.Commit(context.Background(), testBatch("f"))
	require.ErrorIs(t, err, ErrStopping)
}

// Events to which the server gave the id cannot be repeats.
func TestCommitAssigned(t *testing.T) {
	fs := fsystest.New()
	r := start(t, testOptions(fs))
	require.Equal(t, 2, r.commit("", "").Accepted)
	require.Equal(t, 1, r.commit("").Accepted)
	require.EqualValues(t, 3, r.counts()[""])
	require.Equal(t, 0, r.Health().IDs.Count)
	clone := fs.CrashClone(0, 1)
	r.shutdown()
	again := start(t, testOptions(clone))
	require.Equal(t, 0, again.Health().IDs.Count)
	require.EqualValues(t, 3, again.counts()[""])
	again.shutdown()
}

// A duplicate of an event that another request is about to store waits for its sync.
func TestRepeatsInFlight(t *testing.T) {
	r := start(t, testOptions(fsystest.New()))
	var wg sync.WaitGroup
	var mu sync.Mutex
	accepted := 0
	for range 32 {
		wg.Go(func() {
			for i := range 50 {
				result, err := r.Commit(context.Background(), testBatch(fmt.Sprint(i), fmt.Sprint(i+1)))
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				accepted += result.Accepted
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	require.Equal(t, 51, accepted)
	requireOnce(t, r.counts(), numbered("", 0, 51))
	r.shutdown()
}

func TestLargeRequestIsSeveralRecords(t *testing.T) {
	fs := fsystest.New()
	r := start(t, testOptions(fs))
	b := &event.Batch{}
	for i := range 300 {
		e := event.Event{ID: fmt.Sprint(i % 299), Time: time.Unix(1, 0), Service: "shop", Type: "order"}
		e.Set("text", strings.Repeat("x", 60_000))
		item := event.Item{Index: i, Start: len(b.Buf), HasKey: true, Key: event.Key([]byte("shop"), []byte(e.ID))}
		b.Buf = event.AppendBinary(b.Buf, &e)
		item.End = len(b.Buf)
		b.Events = append(b.Events, item)
	}
	require.Greater(t, len(b.Buf), wal.MaxPayload)
	result, err := r.Commit(context.Background(), b)
	require.NoError(t, err)
	require.Equal(t, Result{Accepted: 299, Duplicates: 1, DupIndexes: []int{299}, Seq: 4}, result)
	clone := fs.CrashClone(0, 1)
	r.shutdown()
	again := start(t, testOptions(clone))
	requireOnce(t, again.counts(), numbered("", 0, 299))
	require.Equal(t, 299, again.Health().IDs.Count)
	again.shutdown()
}

// A function that was given up must not run later: its writes belong to its caller.
func TestDoGivenUp(t *testing.T) {
	r := start(t, testOptions(fsystest.New()))
	busy, free := make(chan struct{}), make(chan struct{})
	go func() { _ = r.Do(context.Background(), func() { close(busy); <-free }) }()
	<-busy

	ctx, cancel := context.WithCancel(context.Background())
	returned, ran := make(chan error, 1), false
	go func() { returned <- r.Do(ctx, func() { ran = true }) }()
	require.Eventually(t, func() bool { return len(r.read.inbox) == 1 }, testkit.Patience, time.Millisecond)
	cancel()
	require.ErrorIs(t, <-returned, context.Canceled)
	close(free)
	require.NoError(t, r.Do(context.Background(), func() {}), "the reader is past it")
	require.False(t, ran)

	// One that runs already is waited for.
	ctx, cancel = context.WithCancel(context.Background())
	defer cancel()
	require.NoError(t, r.Do(ctx, func() { cancel(); testkit.Pause(10 * time.Millisecond); ran = true }))
	require.True(t, ran)
	r.shutdown()
}

func TestConfig(t *testing.T) {
	fs := fsystest.New()
	opt := testOptions(fs)
	opt.Config = func() []byte { return []byte("one") }
	r := start(t, opt)
	require.NoError(t, r.Do(context.Background(), func() { require.Equal(t, "one", r.state.config) }))
	require.NoError(t, r.SetConfig(context.Background(), []byte("two")))
	require.NoError(t, r.Do(context.Background(), func() { require.Equal(t, "two", r.state.config) }))
	require.ErrorContains(t, r.SetConfig(context.Background(), []byte("panic")), "config is poison")
	deadLetters := r.deadLetters(t)
	require.Len(t, deadLetters, 1)
	require.Equal(t, "panic", string(deadLetters[0].Raw))
	require.Equal(t, -1, deadLetters[0].Index)
	r.shutdown()
	require.ErrorIs(t, r.SetConfig(context.Background(), []byte("three")), ErrStopping)
	require.ErrorIs(t, r.Do(context.Background(), func() {}), ErrStopping)

	opt.Config = nil
	again := start(t, opt)
	require.NoError(t, again.Do(context.Background(), func() { require.Equal(t, "two", again.state.config) }))
	again.shutdown()
}

// retryAfter is how long a sender should wait after err, if err passes.
func retryAfter(err error) (time.Duration, bool) {
	var unavailable *UnavailableError
	if !errors.As(err, &unavailable) {
		return 0, false
	}
	return unavailable.RetryAfter, true
}

func TestNotReadyBeforeRun(t *testing.T) {
	opt := testOptions(fsystest.New())
	opt.State = newTally()
	e, err := Open(opt)
	require.NoError(t, err)
	_, err = e.Commit(context.Background(), testBatch("a"))
	require.ErrorIs(t, err, ErrNotReady)
	after, ok := retryAfter(fmt.Errorf("commit: %w", err))
	require.True(t, ok)
	require.Positive(t, after)
	require.ErrorIs(t, e.Do(context.Background(), func() {}), ErrNotReady)
	require.Equal(t, StatusStarting, e.Health().Status)
	_, err = Open(opt)
	require.ErrorIs(t, err, fsys.ErrLocked)
	require.NoError(t, e.Close())
	e, err = Open(opt)
	require.NoError(t, err, "an engine that is closed instead of run releases its folder")
	require.NoError(t, e.Close())
}

func TestOptions(t *testing.T) {
	_, err := Open(Options{State: newTally()})
	require.ErrorContains(t, err, "Options.Dir is required")
	_, err = Open(Options{Dir: "x"})
	require.ErrorContains(t, err, "Options.State is required")
	_, err = Open(Options{Dir: "x", State: newTally(), Heartbeat: -1})
	require.ErrorContains(t, err, "Heartbeat must not be negative")
}

func TestSecondEngineIsRefused(t *testing.T) {
	opt := testOptions(fsys.OS())
	opt.Dir = t.TempDir()
	r := start(t, opt)
	second := launch(t, opt)
	require.ErrorIs(t, <-second.end, fsys.ErrLocked)
	r.commit("a")
	r.shutdown()
	third := start(t, opt)
	requireOnce(t, third.counts(), []string{"a"})
	third.shutdown()
}

// Requests that wait at the shutdown get an answer, and acknowledged events are stored.
func TestGracefulShutdown(t *testing.T) {
	fs := fsystest.New()
	r := start(t, testOptions(fs))
	var wg sync.WaitGroup
	var mu sync.Mutex
	acknowledged := []string{}
	for c := range 16 {
		wg.Go(func() {
			for i := 0; ; i++ {
				id := fmt.Sprintf("%d-%d", c, i)
				_, err := r.Commit(context.Background(), testBatch(id))
				if err != nil {
					if !errors.Is(err, ErrStopping) {
						t.Error(err)
					}
					return
				}
				mu.Lock()
				acknowledged = append(acknowledged, id)
				mu.Unlock()
			}
		})
	}
	require.Eventually(t, func() bool { return r.Health().Log.Durable > 20 }, testkit.Patience, time.Millisecond)
	state := r.shutdown()
	wg.Wait()
	requireOnce(t, state.all(), acknowledged)
	require.Equal(t, record.BeatStop, state.beats[len(state.beats)-1])

	again := start(t, testOptions(fs))
	require.Zero(t, again.Health().Recovered, "the last checkpoint holds all")
	requireOnce(t, again.counts(), acknowledged)
	again.shutdown()
}

// A full queue refuses at once, and lets go of nothing that it took.
func TestOverload(t *testing.T) {
	fs := fsystest.New()
	opt := testOptions(fs)
	opt.QueueBytes = 4 * int64(requestOverhead+len(testBatch("0").Buf))
	r := start(t, opt)
	block, entered := make(chan struct{}), make(chan struct{})
	once := sync.OnceFunc(func() { close(entered); <-block })
	fs.Before(func(op fsystest.Op, _ string) {
		if op == fsystest.OpWrite {
			once()
		}
	})
	var wg sync.WaitGroup
	errs := make(chan error, 64)
	send := func(id string) {
		_, err := r.Commit(context.Background(), testBatch(id))
		errs <- err
	}
	wg.Go(func() { send("f") })
	<-entered
	for i := range 10 {
		wg.Go(func() { send(fmt.Sprint(i)) })
	}
	refused := 0
	for refused < 7 {
		err := <-errs
		require.ErrorIs(t, err, ErrOverloaded)
		after, _ := retryAfter(err)
		require.Equal(t, time.Second, after)
		refused++
	}
	close(block)
	wg.Wait()
	close(errs)
	accepted := 0
	for err := range errs {
		if err == nil {
			accepted++
		}
	}
	require.Equal(t, 11-refused, accepted)
	require.Len(t, r.counts(), accepted)
	require.Zero(t, r.Health().Queue.Bytes)
	r.shutdown()
}

// A sender that goes away leaves nothing behind, or all of it.
func TestSenderGoesAway(t *testing.T) {
	fs := fsystest.New()
	r := start(t, testOptions(fs))
	block, entered := make(chan struct{}), make(chan struct{})
	once := sync.OnceFunc(func() { close(entered); <-block })
	fs.Before(func(op fsystest.Op, _ string) {
		if op == fsystest.OpWrite {
			once()
		}
	})
	var wg sync.WaitGroup
	wg.Go(func() {
		ctx, cancel := context.WithCancel(context.Background())
		go func() { <-entered; cancel() }()
		_, err := r.Commit(ctx, testBatch("being written"))
		if err != nil {
			t.Error("was being written:", err)
		}
	})
	<-entered
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	_, err := r.Commit(ctx, testBatch("waiting"))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	close(block)
	wg.Wait()
	r.commit("later")
	requireOnce(t, r.counts(), []string{"being written", "later"})
	r.shutdown()
}

func TestHealth(t *testing.T) {
	opt := testOptions(fsystest.New())
	r := start(t, opt)
	r.commit(numbered("a", 0, 50)...)
	r.counts()
	r.checkpointNow()
	h := r.Health()
	require.Equal(t, StatusReady, h.Status)
	require.EqualValues(t, 1, h.Progress)
	require.Equal(t, 50, h.IDs.Count)
	require.Positive(t, h.IDs.Window)
	require.EqualValues(t, 2, h.Log.Durable)
	require.EqualValues(t, 2, h.Log.Folded)
	require.Zero(t, h.Log.Lag)
	require.EqualValues(t, 2, h.Checkpoint.Position)
	require.Positive(t, h.Checkpoint.Written)
	require.Positive(t, h.Checkpoint.State)
	require.WithinDuration(t, time.Now(), h.Watermark, time.Minute)
	_, err := json.Marshal(h)
	require.NoError(t, err)
	r.shutdown()
	require.Equal(t, StatusStopped, r.Health().Status)
}
