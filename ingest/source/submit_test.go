package source

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/deadletter"
	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/mapping"
	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/reliability/ratelimit"
)

func valueOf(id string) string {
	return fmt.Sprintf(`{"id":%q,"service":"shop","type":"order"}`, id)
}

// offsets is a position that lists the decided messages.
type offsets struct{ b *Batch }

func (p offsets) AppendPosition(dst []byte, undecided []int32) []byte {
	open := map[int64]string{}
	p.b.Undecided(undecided, func(stream int, offset int64, done []int32) {
		open[offset] = fmt.Sprintf("%d%v", stream, done)
	})
	for i := range p.b.messages {
		m := &p.b.messages[i]
		if o, ok := open[m.offset]; ok {
			dst = fmt.Appendf(dst, "(%d:%s)", m.offset, o)
		} else {
			dst = fmt.Appendf(dst, "%d ", m.offset)
		}
	}
	return dst
}

func limiter(t *testing.T, strategy ratelimit.Strategy) *ratelimit.Limiter {
	limit, window := int64(1), time.Second
	policy, err := ratelimit.Compile(
		ratelimit.Config{Default: ratelimit.Values{Limit: &limit, Window: &window, OnExceeded: &strategy}})
	require.NoError(t, err)
	l, err := ratelimit.New(ratelimit.Options{Policy: policy})
	require.NoError(t, err)
	return l
}

// Throttled events stay out of the position until they are taken, and critical ones until their dead letters are safe.
func TestUndecidedEventsAreNotInThePosition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, func(o *Options) { o.Limiter = limiter(t, ratelimit.OnExceededThrottle) })
		f.engine.script = []func(*event.Batch, []int32) (engine.Result, error){
			func(*event.Batch, []int32) (engine.Result, error) {
				return engine.Result{Throttled: []int32{1, 4}, Critical: []int32{2}}, nil
			},
			func(_ *event.Batch, todo []int32) (engine.Result, error) {
				require.Equal(t, []int32{1, 4}, todo)
				require.Len(t, f.saved, 1)
				return engine.Result{Throttled: []int32{4}}, nil
			},
		}
		b := f.Batch(false)
		b.Add(&Message{Topic: "orders", Offset: 10, Value: []byte(valueOf("a"))})
		b.Add(&Message{Topic: "orders", Offset: 11, Value: nil})
		b.Add(&Message{
			Topic: "orders", Offset: 12, Value: []byte("[" + valueOf("b") + "," + valueOf("c") + "," + valueOf("d") + "]")})
		b.Add(&Message{Topic: "orders", Offset: 13, Value: []byte(valueOf("e"))})
		require.NoError(t, f.Submit(t.Context(), b, offsets{b}))
		require.Equal(t, []string{
			"10 11 (12:0[2])(13:0[])", // b is throttled, c critical
			"10 11 12 (13:0[])",
			"10 11 12 13 ",
		}, f.engine.positions)
		require.Len(t, f.engine.admitted, 4)
		require.Equal(t, "admission-orders-"+f.saved[0].ID[len("admission-orders-"):len(f.saved[0].ID)-len("-0-12-1")]+
			"-0-12-1", f.saved[0].ID)
		require.Equal(t, "c", idOf(t, &f.saved[0]))
		require.Empty(t, f.Troubles())
		require.Positive(t, f.counts.paused[TroubleRateLimit].Get()+1)
	})
}

func idOf(t *testing.T, e *dlq.Entry) string {
	_, v, err := deadletter.Event(e)
	require.NoError(t, err)
	return string(v.ID)
}

// With critical events only, a position of its own follows their dead letters.
func TestPositionOfCriticalEvents(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Limiter = limiter(t, ratelimit.OnExceededDrop) })
	f.engine.script = []func(*event.Batch, []int32) (engine.Result, error){
		func(*event.Batch, []int32) (engine.Result, error) { return engine.Result{Critical: []int32{0}}, nil },
		func(b *event.Batch, _ []int32) (engine.Result, error) {
			require.Empty(t, b.Events)
			require.Len(t, f.saved, 1)
			return engine.Result{}, nil
		},
	}
	b := f.Batch(false)
	b.Add(&Message{Topic: "orders", Offset: 10, Value: []byte(valueOf("a"))})
	require.NoError(t, f.Submit(t.Context(), b, offsets{b}))
	require.Equal(t, []string{"(10:0[])", "10 "}, f.engine.positions)
}

// A source waits for the engine and for its dead letters, in order, and reports it until it
// continues.
func TestSubmitWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, func(o *Options) { o.Now = time.Now })
		f.refuse = []error{dlq.ErrFull, errors.New("disk")}
		refuse := func(err error) func(*event.Batch, []int32) (engine.Result, error) {
			return func(*event.Batch, []int32) (engine.Result, error) { return engine.Result{}, err }
		}
		f.engine.script = append(f.engine.script, refuse(engine.ErrDiskFull), refuse(engine.ErrOverloaded))
		b := f.Batch(false)
		b.Add(&Message{Topic: "orders", Value: []byte(valueOf("a"))})
		b.Add(&Message{Topic: "orders", Offset: 1, Value: []byte(`{"service":"shop"`)})
		done := make(chan error)
		go func() { done <- f.Submit(t.Context(), b, nil) }()
		synctest.Wait()
		require.Equal(t, TroubleDeadLetters, f.Troubles()[0].Kind)
		require.Contains(t, f.Troubles()[0].Brief, "dead_letters.max_bytes")
		require.Zero(t, f.engine.called())
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Len(t, f.saved, 1)
		require.Len(t, f.Troubles(), 1)
		require.Equal(t, TroubleEngine, f.Troubles()[0].Kind)
		require.NoError(t, <-done)
		require.Empty(t, f.Troubles())
		require.InDelta(t, 11, f.counts.paused[TroubleEngine].Get(), 1)
		require.InDelta(t, 1.5, f.counts.paused[TroubleDeadLetters].Get(), .1)
		require.EqualValues(t, 1, f.Totals().Accepted)
		require.EqualValues(t, 1, f.Totals().DeadLetters)

		// An engine that stops is not waited for, and neither is one whose log is lost.
		for _, why := range []error{engine.ErrStopping, engine.ErrPoisoned, context.Canceled} {
			f.engine.script = append(f.engine.script, refuse(why))
			b := f.Batch(false)
			b.Add(&Message{Topic: "orders", Value: []byte(valueOf("b"))})
			require.ErrorIs(t, f.Submit(t.Context(), b, nil), why)
		}
	})
}

// A message that was taken in part is taken for the rest, both events and dead letters.
func TestDoneEventsAreSkipped(t *testing.T) {
	f := newFixture(t, nil)
	value := []byte("[" + valueOf("a") + `,{"service":"shop"},` + valueOf("c") + `,{"type":"order"}]`)
	got := f.take(t, Message{Value: value, Offset: 7, Done: []int32{0, 1}})
	require.Len(t, got, 1)
	require.Equal(t, "c", got[0]["id"])
	require.Len(t, f.saved, 1)
	require.Equal(t, 3, f.saved[0].From.Item)
}

func TestLargestMessage(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Settings.MaxMessage = int64(len(valueOf("a"))) })
	require.Len(t, f.take(t, Message{Value: []byte(valueOf("a"))}), 1)
	require.Empty(t, f.take(t, Message{Value: []byte(valueOf("ab")), Offset: 1}))
	require.Equal(t, ReasonOversized, f.saved[0].Reason)
}

func TestDeadLetters(t *testing.T) {
	f := newFixture(t, func(o *Options) {
		o.Settings.MaxMessage = 1 << 20
		o.Catalog = func() event.Catalog { return event.NewCatalog(map[string][]string{"shop": {"order"}}) }
	})
	big := strings.Repeat("x", 1<<20+1)
	f.take(t,
		Message{Value: []byte("\x00\x01garbage"), Offset: 1, Partition: 2, Generation: "0a"},
		Message{Value: []byte(big), Offset: 2, Generation: "0a"},
		Message{Value: []byte(`[` + valueOf("a") + `, {"id":"b","service":"other","type":"x"} ]`), Offset: 3,
			Generation: "0a", Time: now},
		Message{Value: []byte(`"` + strings.Repeat("y", 600<<10)), Offset: 4, Generation: "0a"},
	)
	require.Len(t, f.saved, 4)
	garbage, over, unknown, long := f.saved[0], f.saved[1], f.saved[2], f.saved[3]
	require.Equal(t, "admission-orders-0a-2-1", garbage.ID)
	require.Equal(
		t, dlq.Place{Source: "orders", Topic: "orders", Partition: 2, Offset: 1, Item: -1, Bytes: 9}, *garbage.From)
	require.Equal(t, "\x00\x01garbage", string(garbage.Raw))
	require.Equal(t, ReasonUnreadable, garbage.Reason)
	require.Equal(t, ReasonOversized, over.Reason)
	require.Equal(t, len(big), over.From.Bytes)
	require.Len(t, over.Raw, maxOversized)
	require.Len(t, long.Raw, maxRaw)
	require.Equal(t, "admission-orders-0a-0-3-1", unknown.ID)
	require.Equal(t, "unknown_service", unknown.Class)
	require.Equal(t, "other", unknown.Service)
	require.Empty(t, unknown.Raw)
	require.Equal(t, "b", idOf(t, &unknown))

	// Once more after a crash: the storage knows them by their IDs.
	f.take(t, Message{Value: []byte("\x00\x01garbage"), Offset: 1, Partition: 2, Generation: "0a"})
	require.Len(t, f.dead, 4)
}

// noValues is a redactor with rules.
type noValues struct{}

func (noValues) Apply(*event.Batch) error     { return nil }
func (noValues) ItemError(e *event.ItemError) { e.Detail = "redacted" }
func (noValues) BodyError(e *event.BodyError) { e.Reason = "redacted" }
func (noValues) Active() bool                 { return true }

// Where personal data must be taken out, a dead letter holds nothing that it cannot be taken out of.
func TestDeadLettersAreRedacted(t *testing.T) {
	f := newFixture(t, func(o *Options) {
		o.Redact = noValues{}
		o.Settings.Headers = map[string]string{"mail": "mail"}
		o.Catalog = func() event.Catalog { return event.NewCatalog(map[string][]string{"shop": nil}) }
	})
	f.take(t, Message{Value: []byte("secret"), Headers: headerList{{"mail", "a@b"}}},
		Message{Value: []byte(`{"service":"shop","x":"secret"}`)},
		Message{Value: []byte(`{"id":"q","service":"other","type":"x"}`)})
	require.Empty(t, f.saved[0].Raw)
	require.Empty(t, f.saved[0].From.Headers)
	require.Contains(t, f.saved[0].Error, "redacted (the content is not kept")
	require.Empty(t, f.saved[1].Raw)
	require.Contains(t, f.saved[1].Error, "redacted (the content is not kept")
	require.Equal(t, "q", idOf(t, &f.saved[2]))
}

// replayed is an engine that counts replays by key.
type replayed struct {
	keys map[string]int
	ids  []string
	fail error
}

func (r *replayed) Replay(_ context.Context, events []engine.Replay, _ bool) []error {
	errs := make([]error, len(events))
	for i, e := range events {
		if errs[i] = r.fail; r.fail == nil {
			r.keys[fmt.Sprint(e.Key)]++
			var v event.View
			_, errs[i] = v.Parse(e.Event)
			r.ids = append(r.ids, string(v.ID))
		}
	}
	return errs
}

func (r *replayed) ReplayTarget(ctx context.Context, entries []dlq.Entry) []error {
	errs := make([]error, len(entries))
	for i := range entries {
		bin, view, err := deadletter.Event(&entries[i])
		if err == nil {
			err = r.Replay(ctx, []engine.Replay{{Key: deadletter.ReplayKey(&entries[i], &view), Event: bin}}, false)[0]
		}
		errs[i] = err
	}
	return errs
}

// After the spec or the mapping was fixed, a replay reads the messages again.
func TestReplay(t *testing.T) {
	known := map[string][]string{"shop": nil}
	settings := Defaults()
	settings.Map = &mapping.Settings{Service: "shop", Type: ".kind", ID: ".id"}
	catalog := func() event.Catalog { return event.NewCatalog(known) }
	f := newFixture(t, func(o *Options) { o.Settings, o.Catalog = settings, catalog })
	plain := newFixture(t, func(o *Options) { o.Catalog = catalog })
	f.take(t, Message{Value: []byte(`[{"id":"1","was":"paid"},{"was":"paid"}]`), Offset: 5, Time: now.Add(-time.Minute)})
	plain.take(t, Message{Value: []byte(`{"id":"9","service":"other","type":"x"}`), Offset: 6},
		Message{Value: []byte(`{"service`), Offset: 7})
	require.Len(t, f.saved, 2)
	entries := append(f.saved, plain.saved...)

	eng := &replayed{keys: map[string]int{}}
	intakes := map[string]*Intake{"orders": f.Intake}
	r := &Replayer{Engine: eng, Catalog: catalog, Of: func(name string) *Intake { return intakes[name] }}
	for i, want := range []string{`Field "type" is required.`, `Field "type" is required.`, `still has no service "other"`,
		"decode the message again"} {
		require.ErrorContains(t, r.Target(t.Context(), entries)[i], want)
	}
	require.Empty(t, eng.ids)

	settings.Map.Type = ".was"
	known["other"] = nil
	fixed := newFixture(t, func(o *Options) { o.Settings, o.Catalog = settings, catalog })
	intakes["orders"] = fixed.Intake
	for range 2 { // twice, as after a crash
		errs := r.Target(t.Context(), entries)
		require.NoError(t, errors.Join(errs[:3]...))
	}
	require.Equal(t, []string{"1", "orders/0/5/1", "9"}, eng.ids[:3])
	require.Len(t, eng.keys, 3)

	intakes["orders"] = nil
	require.ErrorContains(t, r.Target(t.Context(), entries)[0], "not in engine.yaml any more")
	require.ErrorContains(t, r.Target(
		t.Context(), []dlq.Entry{{Origin: dlq.Admission, From: &dlq.Place{Source: "orders"}}})[0], "not in engine.yaml")
	intakes["orders"] = fixed.Intake
	require.ErrorIs(t, r.Target(t.Context(), []dlq.Entry{{Origin: dlq.Admission, From: &dlq.Place{Source: "orders"}}})[0],
		deadletter.ErrNoEvent)
	require.ErrorContains(t, r.Target(t.Context(),
		[]dlq.Entry{{Origin: dlq.Admission, Raw: []byte("x"), From: &dlq.Place{Source: "orders", Bytes: 9}}})[0],
		"only the first 1 of 9 bytes")
}

// Without ids of their own, the events of a message have its id, the first one as it is.
func TestReplayByTheIDOfTheMessage(t *testing.T) {
	settings := Defaults()
	settings.Map = &mapping.Settings{Service: "shop", Type: ".kind"}
	f := newFixture(t, func(o *Options) { o.Settings = settings })
	f.take(
		t, Message{Value: []byte(`[{"was":"paid"},{"was":"paid"}]`), Offset: 5, MessageID: "m", Time: now.Add(-time.Minute)})
	settings.Map.Type = ".was"
	fixed := newFixture(t, func(o *Options) { o.Settings = settings })
	eng := &replayed{keys: map[string]int{}}
	r := &Replayer{Engine: eng, Catalog: func() event.Catalog {
		return nil
	}, Of: func(string) *Intake { return fixed.Intake }}
	require.NoError(t, errors.Join(r.Target(t.Context(), f.saved)...))
	require.Equal(t, []string{"m", "m/1"}, eng.ids)
}

// Messages that are gone are missing of each kind that came from the topic, or of each that may come.
func TestLose(t *testing.T) {
	f := newFixture(t, func(o *Options) {
		o.Kinds = func() []ServiceType { return []ServiceType{{"shop", "order"}, {"shop", "refund"}} }
	})
	lost := func() (out []string) {
		for _, d := range f.engine.lost {
			out = append(out, fmt.Sprintf("%s/%s %s %d", d.Service, d.Type, d.Reason, d.N))
		}
		f.engine.lost = nil
		return out
	}
	b := f.Batch(false)
	defer b.Release()
	require.NoError(t, f.Lose(t.Context(), offsets{b}, "orders", 7))
	require.Equal(t, []string{"shop/order lost_in_broker 7", "shop/refund lost_in_broker 7"}, lost())
	f.take(t, Message{Value: []byte(valueOf("a")), Topic: "orders"})
	require.NoError(t, f.Lose(t.Context(), offsets{b}, "orders", 3))
	require.Equal(t, []string{"shop/order lost_in_broker 3"}, lost())
}

// A dead letter can be stored for any time of its message. One that cannot be is not tried again.
func TestNoContentStopsASource(t *testing.T) {
	store, err := dlq.NewMemory(dlq.MemoryOptions{})
	require.NoError(t, err)
	f := newFixture(t, func(o *Options) { o.Save = store.Save })
	value := []byte(`{"service":"shop","type":"order"}`)
	times := []time.Time{
		time.Unix(1<<40, 0), time.Unix(1<<62, 0), time.Unix(math.MaxInt64, 0), time.Unix(math.MinInt64, 0),
		time.Unix(-1<<40, 0), time.UnixMilli(math.MaxInt64),
		time.UnixMilli(math.MinInt64), time.Date(99999, 1, 1, 0, 0, 0, 0, time.UTC),
		time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC),
		now.Add(-1 << 63), time.Unix(now.Unix()+1<<64/1_000_000_000, 709_551_616), // its nanoseconds overflow to now
	}
	for i, at := range times {
		require.Empty(t, f.take(t, Message{Value: value, Time: at, Offset: int64(i)}), "%v", at)
		require.Empty(t, f.take(t, Message{Value: []byte("garbage"), Time: at, Offset: int64(i), Partition: 1}), "%v", at)
	}
	page, err := store.List(t.Context(), dlq.Query{})
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(page.Entries)+int(f.Totals().Expired), 2*len(times))
	b := f.again(nil)
	for i := range page.Entries {
		_ = b.addAgain(&page.Entries[i])
	}
	require.Empty(t, b.events.Events, "nor is one replayed with another time")
	b.close()

	f = newFixture(t, nil)
	f.refuse = []error{fmt.Errorf("entry 0: %w: as it is", dlq.ErrInvalid)}
	require.Empty(t, f.take(t, Message{Value: []byte("garbage")}), "it returns")
	require.Empty(t, f.Troubles())
}
