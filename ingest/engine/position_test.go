package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/position"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/reliability/fsys/fsystest"
	"github.com/sloengine/sloengine/reliability/ratelimit"
	"github.com/sloengine/sloengine/reliability/wal"
)

// followed is a State that counts events and keeps the positions of sources.
type followed struct {
	*tally
	book    *position.Book
	dropped uint64
}

func newFollowed() *followed { return &followed{tally: newTally(), book: position.NewBook()} }

func (s *followed) Apply(rec wal.Record, refuse Refuse) error {
	switch rec.Type {
	case record.TypeDropped:
		return record.ParseDropped(rec.Payload, func(d *record.Dropped) { s.dropped += d.N })
	case record.TypeEvents:
		if events, err := record.ParseEvents(rec.Payload); err != nil {
			return err
		} else if events.Position != nil {
			if err := s.book.Apply(events.Position); err != nil {
				return err
			}
		}
	}
	return s.tally.Apply(rec, refuse)
}

func (s *followed) Parts() []Part {
	return append(s.tally.Parts(),
		Part{Name: "positions", Version: s.book.Version(), Vital: true, Encode: s.book.Encode},
		Part{Name: "dropped", Version: s.dropped, Vital: true, Encode: func(dst []byte) []byte {
			return fmt.Append(dst, s.dropped)
		}})
}

func (s *followed) Restore(name string, data []byte) (err error) {
	switch name {
	case "positions":
		return s.book.Restore(data)
	case "dropped":
		_, err = fmt.Sscan(string(data), &s.dropped)
		return err
	}
	return s.tally.Restore(name, data)
}

// topic is a stream of messages that hold one to three events without an id, and a source that reads it.
type topic struct {
	t        *testing.T
	r        *running
	state    *followed
	limiter  *ratelimit.Limiter
	progress position.Progress // the engine's positions at the start
	kept     map[string]int    // events that became dead letters outside of the log
}

var topicStream = position.Stream{Name: "orders", ID: [16]byte{7}}

func eventsOf(offset int64) int { return 1 + int(offset%3) }

// fetch is the position of a batch: the messages from From to To-1, and the message and index of each event.
type fetch struct {
	position.Range
	of []place
}

type place struct {
	offset int64
	index  int32
}

// AppendPosition leaves out the messages of which an event is not in the log. Their part in the log is Partial.
func (f *fetch) AppendPosition(dst []byte, undecided []int32) []byte {
	p := position.Progress{Stream: topicStream, Ranges: []position.Range{{From: f.From}}}
	open := map[int64]bool{}
	for _, i := range undecided {
		open[f.of[i].offset] = true
	}
	for i, at := range f.of {
		if !open[at.offset] || slices.Contains(undecided, int32(i)) {
			continue
		}
		if n := len(p.Partial); n == 0 || p.Partial[n-1].Offset != at.offset {
			p.Partial = append(p.Partial, position.Partial{Offset: at.offset})
		}
		m := &p.Partial[len(p.Partial)-1]
		m.Done = append(m.Done, at.index)
	}
	for offset := f.From; offset < f.To; offset++ {
		last := &p.Ranges[len(p.Ranges)-1]
		if open[offset] {
			p.Ranges = append(p.Ranges, position.Range{From: offset + 1, To: offset + 1})
		} else {
			last.To = offset + 1
		}
	}
	p.Ranges = slices.DeleteFunc(p.Ranges, func(r position.Range) bool { return r.To <= r.From })
	return position.Append(dst, "kafka", []position.Progress{p})
}

// open starts an engine on the disk and asks it where to continue.
func openTopic(t *testing.T, disk *fsystest.Mem, limit *ratelimit.Limiter, kept map[string]int) *topic {
	x := &topic{t: t, state: newFollowed(), limiter: limit, kept: kept}
	opt := crashOptions(disk)
	opt.State = x.state
	if limit != nil {
		opt.Limiter = limit
		opt.Critical = func(v *event.View) bool { return strings.HasPrefix(string(v.ID), "refuse") }
	}
	x.r = start(t, opt)
	x.progress.Stream = topicStream
	require.NoError(t, x.r.Do(context.Background(), func() {
		if all := x.state.book.Of("kafka"); len(all) > 0 {
			x.progress = all[0]
		}
	}))
	return x
}

// read submits the messages [from, to) that are not in the log. It returns with the first error.
func (x *topic) read(ctx context.Context, from, to int64) error {
	f := fetch{Range: position.Range{From: from, To: to}}
	var ids []string
	for offset := from; offset < to; offset++ {
		if x.progress.Has(offset) {
			continue
		}
		var done []int32
		for _, m := range x.progress.Partial {
			if m.Offset == offset {
				done = m.Done
			}
		}
		for k := range int32(eventsOf(offset)) {
			if !slices.Contains(done, k) {
				kind := []string{"id", "id", "refuse", "panic"}[(offset+int64(k))%4]
				ids = append(ids, fmt.Sprintf("%s-%d-%d", kind, offset, k))
				f.of = append(f.of, place{offset, k})
			}
		}
	}
	b := testBatch(ids...)
	for i := range b.Events { // as if the server had given the ids
		b.Events[i].HasKey = false
	}
	var tickets *ratelimit.Tickets
	if x.limiter != nil {
		tickets = ticketsOf(x.t, x.limiter, b)
	}
	result, err := x.r.AdmitAt(ctx, b, tickets, nil, &f)
	if err != nil {
		return err
	}
	for _, i := range result.Critical {
		x.kept[ids[i]]++ // a dead letter, stored before the position says so
	}
	for _, i := range result.Critical {
		at := f.of[i].offset
		if _, err := x.r.AdmitAt(ctx, &event.Batch{}, nil, nil,
			&fetch{Range: position.Range{From: at, To: at + 1}}); err != nil {
			return err
		}
	}
	return nil
}

// A source whose events have no ids loses none and counts none twice, wherever the power goes: its position and its
// events are in the log together, or neither is.
func TestPositionsSurvivePowerLoss(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	disk := fsystest.New()
	const messages, batch = 1500, 10
	next, cycles := int64(0), 0
	for ; next < messages; cycles++ {
		x := openTopic(t, disk, nil, nil)
		if at, ok := x.progress.Next(); ok {
			require.Len(t, x.progress.Ranges, 1)
			require.GreaterOrEqual(t, at, next, "an acknowledged position is gone")
			next = at
		}
		var mu sync.Mutex
		var clone *fsystest.Mem
		ops, crashAt, survive, seed := 0, 1+rng.IntN(120), []int{0, 20, 50, 80, 100}[rng.IntN(5)], rng.Int64()
		ctx, cancel := context.WithCancel(context.Background())
		disk.Before(func(fsystest.Op, string) {
			mu.Lock()
			defer mu.Unlock()
			if ops++; ops == crashAt {
				clone = disk.CrashClone(survive, seed)
				cancel()
			}
		})
		for next < messages && ctx.Err() == nil {
			to := min(next+batch, messages)
			if err := x.read(context.WithoutCancel(ctx), next, to); err != nil {
				break
			}
			mu.Lock()
			if clone == nil { // acknowledged before the power went
				next = to
			}
			mu.Unlock()
		}
		x.r.kill()
		disk.Before(nil)
		cancel()
		if clone != nil {
			disk = clone
		}
	}
	require.Greater(t, cycles, 10)
	requireEachOnce(t, disk, messages)
}

// A position is written for a batch of duplicates and for an empty one. On a full disk neither is answered.
func TestPositionWithoutNewEvents(t *testing.T) {
	disk := fsystest.New()
	x := openTopic(t, disk, nil, nil)
	ctx := context.Background()
	x.r.commit("a", "b")
	result, err := x.r.AdmitAt(ctx, testBatch("a", "b"), nil, nil, &fetch{Range: position.Range{From: 0, To: 2}})
	require.NoError(t, err)
	require.Equal(t, 2, result.Duplicates)
	require.NotZero(t, result.Seq)
	_, err = x.r.AdmitAt(ctx, &event.Batch{}, nil, nil, &fetch{Range: position.Range{From: 2, To: 9}})
	require.NoError(t, err)
	require.NoError(t, x.r.Lose(ctx, &fetch{Range: position.Range{From: 9, To: 14}},
		[]record.Dropped{{Service: []byte("shop"), Type: []byte("order"), Reason: []byte("retention"), Time: 1, N: 5}}))
	x.r.disk.low.Store(true)
	_, err = x.r.AdmitAt(ctx, testBatch("a"), nil, nil, &fetch{Range: position.Range{From: 14, To: 15}})
	require.ErrorIs(t, err, ErrDiskFull)
	x.r.disk.low.Store(false)
	x.r.checkpointNow()
	x.r.shutdown()

	again := openTopic(t, disk, nil, nil)
	require.Equal(t, []position.Range{{From: 0, To: 14}}, again.progress.Ranges)
	require.EqualValues(t, 5, again.state.dropped)
	requireOnce(t, again.state.all(), []string{"a", "b"})
	again.r.shutdown()
}

// Throttled events are not in the position, and a restart brings exactly them again.
// manyStreams is a position of so many streams.
type manyStreams int

func (n manyStreams) AppendPosition(dst []byte, _ []int32) []byte {
	list := make([]position.Progress, n)
	for i := range list {
		list[i].Stream = position.Stream{Name: strings.Repeat("x", 1000), Partition: int32(i)}
		list[i].Ranges = []position.Range{{From: 0, To: 1}}
	}
	return position.Append(dst, "many", list)
}

// A position that has no room beside the last events of a batch has a record of its own.
func TestLargePosition(t *testing.T) {
	state := newFollowed()
	opt := crashOptions(fsystest.New())
	opt.State = state
	r := start(t, opt)
	ids := make([]string, 30_000)
	for i := range ids {
		ids[i] = fmt.Sprintf("%0240d", i)
	}
	result, err := r.AdmitAt(context.Background(), testBatch(ids...), nil, nil, manyStreams(9000))
	require.NoError(t, err)
	require.Equal(t, len(ids), result.Accepted)
	require.NoError(t, r.CatchUp(context.Background()))
	require.NoError(t, r.Do(context.Background(), func() { require.Len(t, state.book.Of("many"), 9000) }))
	r.shutdown()
}

func TestPositionLeavesOutThrottledEvents(t *testing.T) {
	disk := fsystest.New()
	const messages = 60
	restarts := 0
	for ; ; restarts++ {
		require.Less(t, restarts, messages)
		x := openTopic(t, disk, limiter(t, 7, ratelimit.OnExceededThrottle, 0.5), nil) // 7 events in each life
		if slices.Equal(x.progress.Ranges, []position.Range{{From: 0, To: messages}}) {
			require.Empty(t, x.progress.Partial)
			x.r.shutdown()
			break
		}
		require.NoError(t, x.read(context.Background(), 0, messages))
		x.r.shutdown()
	}
	require.Greater(t, restarts, 10)
	requireEachOnce(t, disk, messages)
}

// Critical events over a limit that drops are not in the position until the source has made dead letters of them.
// Dropped events are in it, and are counted as dropped once.
func TestPositionLeavesOutCriticalEvents(t *testing.T) {
	disk := fsystest.New()
	kept := map[string]int{}
	const messages = 60
	x := openTopic(t, disk, limiter(t, 7, ratelimit.OnExceededDrop, 0.5), kept)
	require.NoError(t, x.read(context.Background(), 0, messages))
	require.NotEmpty(t, kept)
	x.r.shutdown()
	dropped := int(x.state.dropped)
	require.NotZero(t, dropped)
	x = openTopic(t, disk, nil, kept)
	require.Equal(t, []position.Range{{From: 0, To: messages}}, x.progress.Ranges)
	require.Empty(t, x.progress.Partial)
	total, counted := 0, 0
	for offset := range int64(messages) {
		total += eventsOf(offset)
	}
	for _, n := range x.state.all() {
		counted += int(n)
	}
	require.Equal(t, 7, counted+refusedBelow(7))
	require.Equal(t, total-7, dropped+len(kept))
	x.r.shutdown()
}

// refusedBelow is how many of the first n events of the topic the State refuses.
func refusedBelow(n int) (refused int) {
	for offset := int64(0); n > 0; offset++ {
		for k := 0; k < eventsOf(offset) && n > 0; k++ {
			if (offset+int64(k))%4 >= 2 {
				refused++
			}
			n--
		}
	}
	return refused
}

// requireEachOnce opens the engine and compares its counts with the topic.
func requireEachOnce(t *testing.T, disk *fsystest.Mem, messages int64) {
	t.Helper()
	x := openTopic(t, disk, nil, nil)
	require.Equal(t, []position.Range{{From: 0, To: messages}}, x.progress.Ranges)
	seen := x.state.all()
	for offset := range messages {
		for k := range eventsOf(offset) {
			if (offset+int64(k))%4 >= 2 {
				continue // the State refused it: a dead letter
			}
			id := fmt.Sprintf("id-%d-%d", offset, k)
			require.EqualValues(t, 1, seen[id], id)
			delete(seen, id)
		}
	}
	require.Empty(t, seen)
	x.r.shutdown()
}

// A source reads messages that an accepted loss took again: the positions of lost records are lost with
// their events.
func TestPositionsOfLostRecords(t *testing.T) {
	disk := fsystest.New()
	x := &topic{t: t, state: newFollowed()}
	opt := testOptions(disk) // no checkpoint
	opt.State = x.state
	x.r = start(t, opt)
	var third uint64
	for i := range int64(5) {
		require.NoError(t, x.read(context.Background(), i*10, i*10+10))
		if i == 2 {
			third = x.r.durable.Load()
		}
	}
	require.NoError(t, x.r.read.wait(context.Background(), x.r.durable.Load()))
	reader, err := x.r.Log().NewReader(third)
	require.NoError(t, err)
	var rec wal.Record
	_, err = reader.Next(&rec)
	require.NoError(t, err)
	name := fmt.Sprintf("/data/wal/%020d.wal", rec.Segment)
	at := rec.Offset + 60 // within the payload
	require.NoError(t, reader.Close())
	disk = disk.CrashClone(100, 1) // killed before a checkpoint
	x.r.kill()
	data, err := disk.ReadFile(name)
	require.NoError(t, err)
	data[at] ^= 1
	require.NoError(t, disk.WriteFile(name, data))
	x = &topic{t: t, state: newFollowed()}
	opt.FS, opt.State = disk, x.state
	require.Error(t, <-launch(t, opt).end)
	opt.State, opt.AcceptLoss = newFollowed(), true
	x.state = opt.State.(*followed)
	x.r = start(t, opt)
	x.progress = x.state.book.Of("kafka")[0]
	require.Equal(t, []position.Range{{From: 0, To: 20}, {From: 30, To: 50}}, x.progress.Ranges)
	require.NoError(t, x.read(context.Background(), 0, 50))
	x.r.shutdown()
	requireEachOnce(t, disk, 50)
}
