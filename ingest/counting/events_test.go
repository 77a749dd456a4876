package counting

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/retained"
	"github.com/sloengine/sloengine/reliability/wal"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
	"github.com/sloengine/sloengine/slo/spec"
)

var eventsBegin = time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)

// eventsWorld is a log with its history, and the events in it.
type eventsWorld struct {
	log    *wal.Log
	store  *retained.Store
	begin  time.Time
	events []event.Event
	seqs   []uint64
}

func newEventsWorld(t testing.TB, segment int64) (*eventsWorld, *EventLog) {
	t.Helper()
	dir := t.TempDir()
	log, err := wal.Open(wal.Options{FS: fsys.OS(), Dir: filepath.Join(dir, "wal"), SegmentBytes: segment,
		RuleType: record.TypeConfig})
	require.NoError(t, err)
	w := &eventsWorld{begin: eventsBegin, log: log,
		store: retained.New(retained.Options{FS: fsys.OS(), Dir: filepath.Join(dir, "history"),
			Log: log, Describe: record.Describe, Form: record.Form(), RuleType: record.TypeConfig,
			Now:     func() time.Time { return eventsBegin },
			Missing: func() int64 { return 0 }, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})}
	w.store.SetBounds(retained.Bounds{Age: time.Hour, Bytes: 1 << 40})
	stop, ended := make(chan struct{}), make(chan error)
	go func() { ended <- w.store.Run(stop) }()
	t.Cleanup(func() {
		close(stop)
		require.NoError(t, <-ended)
		require.NoError(t, log.Close())
	})
	specs := &Specs{}
	budget, err := slo.ParsePercent("99")
	require.NoError(t, err)
	sp := &spec.Spec{SLOs: []*slo.SLO{{ID: "shop/checkout", Objective: budget}}}
	specs.Use(&Spec{Spec: sp, config: &fold.Config{Version: fold.ConfigVersion, Services: []fold.Service{{Name: "shop"}},
		Indicators: []fold.Indicator{
			{ID: "shop/checkout", Service: "shop", Kind: fold.Events, GroupBy: []string{"product"},
				Bad: []fold.Matcher{{Name: "outcome", Op: slo.OpEqual, Value: "failure"}}},
			{ID: "shop/volume", Service: "shop", Kind: fold.Events},
		}}})
	return w, NewEventLog(w.store.Source(), specs)
}

// write appends records of some events each, one every step of time.
func (w *eventsWorld) write(t testing.TB, records, each int, step time.Duration, change func(i int, e *event.Event)) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, uint64(len(w.events))))
	batch := make([]wal.Pending, 0, 100)
	for k := range records {
		payload := record.AppendHead(nil, each, new(event.Batch), nil)
		at := w.begin.Add(time.Duration(k) * step)
		for i := range each {
			e := event.Event{ID: fmt.Sprintf("%d-%d-%x", k, i, r.Uint64()), Service: "shop", Type: "order", Count: 1, Weight: 1,
				Outcome: event.Success, Time: at.Add(-time.Duration(r.IntN(5000)) * time.Millisecond)}
			if len(w.events)%100 == 37 {
				e.Outcome = event.Failure
			}
			change(len(w.events), &e)
			payload = event.AppendBinary(payload, &e)
			w.events, w.seqs = append(w.events, e), append(w.seqs, w.log.NextSeq()+uint64(len(batch)))
		}
		batch = append(batch, wal.Pending{Time: at.UnixNano(), Type: record.TypeEvents, Payload: payload})
		if len(batch) == cap(batch) || k == records-1 {
			require.NoError(t, w.log.Append(batch))
			batch = batch[:0]
		}
	}
}

// move waits until all closed segments are in the history.
func (w *eventsWorld) move(t testing.TB) {
	t.Helper()
	w.store.Offer(w.log.NextSeq())
	testkit.Eventually(t, "closed segments are moved", func() bool {
		if _, _, waits := w.log.Closed(w.store.Floor()); waits {
			return false
		}
		return w.log.Truncate(w.store.Floor()) == nil
	})
}

// want is the latest events that a query finds, by hand.
func (w *eventsWorld) want(q *EventQuery, bad bool, from uint64) (ids []string) {
	type found struct {
		e   *event.Event
		seq uint64
	}
	var all []found
	for i := range w.events {
		e := &w.events[i]
		if (e.Outcome == event.Failure) == bad && !e.Time.Before(q.From) && e.Time.Before(q.To) && w.seqs[i] > from {
			all = append(all, found{e, w.seqs[i]})
		}
	}
	slices.SortStableFunc(all, func(a, b found) int {
		return later(FoundEvent{Event: *a.e, seq: a.seq}, FoundEvent{Event: *b.e, seq: b.seq})
	})
	for _, x := range all[:min(len(all), q.Bad)] {
		ids = append(ids, x.e.ID)
	}
	return ids
}

func foundIDs(list []FoundEvent) (ids []string) {
	for i := range list {
		ids = append(ids, list[i].ID)
	}
	return ids
}

// What is found in log and history is what a look at every event finds.
func TestFindEvents(t *testing.T) {
	w, log := newEventsWorld(t, 64<<10)
	w.write(t, 3000, 4, 10*time.Second, func(i int, e *event.Event) {
		e.Set("product", []string{"A", "B"}[i%2])
		e.Set("bank", fmt.Sprint("bank", i%7))
	})
	find := func(q *EventQuery) *EventAnswer {
		t.Helper()
		q.SLO = "shop/checkout"
		got, err := log.Find(t.Context(), q)
		require.NoError(t, err)
		require.Empty(t, got.Unread)
		require.Equal(t, eventsBegin, got.Since)
		return got
	}
	last := eventsBegin.Add(3000 * 10 * time.Second)
	for _, moved := range []bool{false, true} {
		if moved {
			w.move(t)
			require.Greater(t, w.store.Stats().Files, 5)
		}
		for _, d := range []time.Duration{time.Hour, 6 * time.Hour, 1000 * time.Hour} {
			q := &EventQuery{From: last.Add(-d), To: last, Bad: 20, Good: 20}
			got := find(q)
			require.Equal(t, w.want(q, true, 0), foundIDs(got.Bad))
			require.Equal(t, w.want(q, false, 0), foundIDs(got.Good))
		}
	}
	q := &EventQuery{From: eventsBegin.Add(2 * time.Hour), To: eventsBegin.Add(3 * time.Hour), Bad: 1000}
	got := find(q)
	require.Equal(t, w.want(q, true, 0), foundIDs(got.Bad))
	require.Empty(t, got.Good)
	require.Less(t, got.Records, uint64(1500), "the index skips the others")

	where, err := slo.NewMatcher("bank", slo.OpRegexp, "bank[12]")
	require.NoError(t, err)
	got = find(&EventQuery{From: eventsBegin.Add(-time.Hour), To: last, Bad: 1000, Where: slo.Selector{where},
		Group: slo.Group{"B"}})
	require.NotEmpty(t, got.Bad)
	for _, e := range got.Bad {
		require.Contains(t, []string{"bank1", "bank2"}, e.Attr("bank"))
		require.Equal(t, slo.Group{"B"}, e.Group)
	}

	forget := record.Forget{Services: []string{"shop"}}
	at := w.log.NextSeq()
	require.NoError(t, w.log.Append([]wal.Pending{{Time: last.UnixNano(), Type: record.TypeForget,
		Payload: forget.Append(nil)}}))
	w.write(t, 100, 4, 10*time.Second, func(_ int, e *event.Event) { e.Set("product", "A") })
	q = &EventQuery{From: eventsBegin.Add(-time.Hour), To: last, Bad: 1000}
	got = find(q)
	require.NotEmpty(t, got.Bad)
	require.Equal(t, w.want(q, true, at), foundIDs(got.Bad), "what was forgotten is not shown")
}

// TestFindEventsOfAServiceThatCameBack: the record that forgot it is among events of another service, which the index
// would skip.
func TestFindEventsOfAServiceThatCameBack(t *testing.T) {
	w, log := newEventsWorld(t, 64<<10)
	of := func(service string) func(int, *event.Event) {
		return func(_ int, e *event.Event) {
			if e.Service = service; service != "shop" {
				e.Outcome = event.Success
			}
		}
	}
	w.write(t, 1000, 4, 10*time.Second, of("shop"))
	w.write(t, 1000, 4, 10*time.Second, of("bank"))
	forget := record.Forget{Services: []string{"shop"}}
	at := w.log.NextSeq()
	require.NoError(t, w.log.Append([]wal.Pending{{Time: w.begin.UnixNano(), Type: record.TypeForget,
		Payload: forget.Append(nil)}}))
	w.write(t, 1000, 4, 10*time.Second, of("bank"))
	w.write(t, 1000, 4, 10*time.Second, of("shop"))
	for _, moved := range []bool{false, true} {
		if moved {
			w.move(t)
		}
		q := &EventQuery{SLO: "shop/checkout", From: w.begin.Add(-time.Hour), To: w.begin.Add(24 * time.Hour), Bad: MaxEvents}
		got, err := log.Find(t.Context(), q)
		require.NoError(t, err)
		want := w.want(q, true, at)
		require.NotEmpty(t, want)
		require.Equal(t, want, foundIDs(got.Bad), "moved %t", moved)
		q.Compare = true
		got, err = log.Find(t.Context(), q)
		require.NoError(t, err)
		require.Equal(t, want, foundIDs(got.Bad))
		require.InDelta(t, len(want), got.BadSum, 1e-9)
	}
	// One in the middle of a segment whose events were compared before it was found.
	forget = record.Forget{Services: []string{"shop"}}
	require.NoError(t, w.log.Append([]wal.Pending{{Time: w.begin.UnixNano(), Type: record.TypeForget,
		Payload: forget.Append(nil)}}))
	got, err := log.Find(t.Context(), &EventQuery{SLO: "shop/checkout", From: w.begin.Add(-time.Hour),
		To: w.begin.Add(24 * time.Hour), Bad: MaxEvents, Compare: true})
	require.NoError(t, err)
	require.Empty(t, got.Bad)
	require.Zero(t, got.BadSum)
}

func TestFindEventsRefuses(t *testing.T) {
	w, log := newEventsWorld(t, 64<<10)
	got, err := log.Find(t.Context(), &EventQuery{SLO: "shop/checkout", From: eventsBegin, To: eventsBegin.Add(1), Bad: 1})
	require.NoError(t, err)
	require.Zero(t, *got, "an empty log")
	w.write(t, 1, 1, time.Second, func(int, *event.Event) {})
	_, err = log.Find(t.Context(), &EventQuery{SLO: "shop/none"})
	require.ErrorIs(t, err, ErrNoSLO)
	_, err = log.Find(t.Context(), &EventQuery{SLO: "shop/volume"})
	require.ErrorIs(t, err, fold.ErrNotJudged)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(io.ErrClosedPipe)
	_, err = log.Find(ctx, &EventQuery{SLO: "shop/checkout", From: eventsBegin.Add(-time.Hour),
		To: eventsBegin.Add(time.Hour)})
	require.ErrorIs(t, err, io.ErrClosedPipe)
}

// What is different about the events of the last minutes is found in the background, once for many alerts.
func TestReasons(t *testing.T) {
	w, log := newEventsWorld(t, 1<<20)
	w.begin = time.Now().Add(-10 * time.Minute)
	w.write(t, 500, 4, time.Second, func(i int, e *event.Event) {
		e.Set("product", []string{"A", "B"}[i%2])
		e.Set("bank", fmt.Sprint("bank", i%10))
		if i%20 == 3 {
			e.Outcome = event.Failure
		}
	})
	var text testkit.Buffer
	r := NewReasons(log, slog.New(slog.NewTextHandler(&text, nil)))
	require.Empty(t, r.Of("shop/checkout", nil), "it does not wait")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- r.Run(ctx) }()
	testkit.Eventually(t, "a reason is found", func() bool { return r.Of("shop/checkout", nil) != "" })
	require.Equal(t, "Without bank=bank3 the burn rate would be 1.11 instead of 6.", r.Of("shop/checkout", nil))
	require.Empty(t, r.Of("shop/volume", nil))
	require.Empty(t, r.Of("shop/checkout", slo.Group{"B"}))
	testkit.Eventually(t, "of a group", func() bool { return r.Of("shop/checkout", slo.Group{"B"}) != "" })
	require.Empty(t, r.Of("shop/volume", nil), "no event of it is bad")
	require.Empty(t, text.String())
	for i := range 2 * maxReasons {
		require.Empty(t, r.Of(slo.ID(fmt.Sprint("shop/", i)), nil))
	}
	cancel()
	require.NoError(t, <-ended)
	require.LessOrEqual(t, len(r.known), maxQueued+3, "what is not asked is not known")
}

// withAttributes sets twelve attributes.
func withAttributes(i int, e *event.Event) {
	e.Set("product", []string{"A", "B"}[i%2])
	for k := range 11 {
		e.Set(fmt.Sprint("attribute", k), fmt.Sprint("value", (i*(k+7)/3)%(3+5*k)))
	}
}

// BenchmarkDifferences compares ten minutes at 1,000 events/s with 12 attributes.
func BenchmarkDifferences(b *testing.B) {
	w, log := newEventsWorld(b, 64<<20)
	w.write(b, 6000, 100, 100*time.Millisecond, withAttributes)
	w.move(b)
	for b.Loop() {
		got, err := log.Find(b.Context(), &EventQuery{SLO: "shop/checkout", From: eventsBegin.Add(-time.Hour),
			To: eventsBegin.Add(time.Hour), Bad: 50, Good: 50, Compare: true})
		require.NoError(b, err)
		require.Empty(b, got.Unread)
	}
}

// BenchmarkLatestBad finds the last 50 bad events of 6 h among a day of events, one in a hundred of them bad, at the
// pace of 100 M in 30 days.
func BenchmarkLatestBad(b *testing.B) {
	w, log := newEventsWorld(b, 64<<20)
	w.write(b, 33_000, 100, 2592*time.Millisecond,
		func(i int, e *event.Event) { e.Set("product", []string{"A", "B"}[i%2]) })
	w.move(b)
	last := eventsBegin.Add(33_000 * 2592 * time.Millisecond)
	for b.Loop() {
		got, err := log.Find(b.Context(), &EventQuery{SLO: "shop/checkout", From: last.Add(-6 * time.Hour),
			To: last, Bad: 50})
		require.NoError(b, err)
		require.Len(b, got.Bad, 50)
	}
}
