package fold

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/inflight"
)

const within = 15 * time.Minute

// orders is an indicator of work by order_id.
func orders(groupBy ...string) Indicator {
	return Indicator{
		ID: "shop/orders", Service: "shop", Kind: Completion, GroupBy: groupBy, Retention: 30 * day,
		Work: &Work{
			Started: []Matcher{eq("type", "created")}, Finished: []Matcher{eq("type", "shipped")},
			Failed: []Matcher{eq("type", "dead_letter")},
			Key:    "order_id", Stage: "stage", Within: within, MaxInFlight: 1000,
		},
	}
}

func order(typ, id string, at time.Time, attrs ...string) *event.Event {
	e := shop(at, append([]string{"order_id", id}, attrs...)...)
	e.Type = typ
	return e
}

// happening is an event of work, and when it arrives.
type happening struct {
	recv time.Time
	e    *event.Event
}

// workload draws work: some finishes in time, some late, some fails, some is stuck. Events come late, in any order, and
// some twice. A second start does not come after the end, when it would begin new work with the same key: the ids of
// events are what keeps that from happening.
func workload(rnd *rand.Rand, n int) []happening {
	var out []happening
	for k := range n {
		id := fmt.Sprintf("order-%d-with-a-key-that-is-longer-than-the-table-shows", k)
		start := t0.Add(time.Duration(rnd.Int64N(3600)) * time.Second)
		delay := func() time.Duration { return time.Duration(rnd.Int64N(1+rnd.Int64N(6*3600))) * time.Second }
		until := t0.Add(100 * day)
		add := func(e *event.Event) {
			first, second := e.Time.Add(delay()), e.Time.Add(delay())
			if e.Type != "created" && e.Type != "moved" {
				if until = first; second.Before(until) {
					until = second
				}
			}
			out = append(out, happening{first, e})
			if rnd.IntN(5) == 0 && (e.Type != "created" || first.Before(until) && second.Before(until)) {
				out = append(out, happening{second, e})
			}
		}
		product := string(rune('A' + k%3))
		if rnd.IntN(2) == 0 {
			add(order("moved", id, start.Add(time.Minute), "stage", "PAID"))
		}
		end := start.Add(2*time.Minute + time.Duration(rnd.Int64N(int64(within))))
		switch rnd.IntN(4) {
		case 0: // stuck
		case 1:
			add(order("dead_letter", id, end))
		default:
			add(order("shipped", id, end))
		}
		add(order("created", id, start, "product", product, "stage", "INIT"))
	}
	slices.SortStableFunc(out, func(a, b happening) int { return a.recv.Compare(b.recv) })
	return out
}

// naive is what work counts by group and minute, whatever the order in which its events came: good and bad.
func naive(all []happening) map[string]map[int64][2]uint64 {
	type life struct {
		group      string
		start, end time.Time
		failed     bool
	}
	lives := map[string]*life{}
	of := func(e *event.Event) *life {
		id := e.Attr("order_id")
		if lives[id] == nil {
			lives[id] = &life{}
		}
		return lives[id]
	}
	for _, h := range all {
		switch l := of(h.e); h.e.Type {
		case "created":
			l.group, l.start = h.e.Attr("product"), h.e.Time
		case "shipped", "dead_letter":
			l.end, l.failed = h.e.Time, h.e.Type == "dead_letter"
		}
	}
	out := map[string]map[int64][2]uint64{}
	for _, l := range lives {
		at, bad := l.start.Add(within), true
		if !l.end.IsZero() && !l.end.After(at) {
			at, bad = l.end, l.failed
		}
		if out[l.group] == nil {
			out[l.group] = map[int64][2]uint64{}
		}
		n := out[l.group][at.Unix()/60]
		if bad {
			n[1]++
		} else {
			n[0]++
		}
		out[l.group][at.Unix()/60] = n
	}
	return out
}

// TestCompletionAgainstOracle: whatever the order and the delay in which events arrive, work counts once, where it
// would have counted had they come at once and in order. A fold that is stopped and restored at random places has the
// same bytes as one that reads everything.
func TestCompletionAgainstOracle(t *testing.T) {
	for seed := range uint64(12) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		all := workload(rnd, 300)
		cfg := config(orders("product"), availability())
		whole, cut := newFold(t, cfg, t0), newFold(t, cfg, t0)
		stops := 0
		for _, h := range all {
			apply(t, whole, h.recv, h.e)
			apply(t, cut, h.recv, h.e)
			if rnd.IntN(60) == 0 { // a kill, and a start some time later
				data, _ := encode(cut)
				cut = restored(t, data)
				again, _ := encode(cut)
				require.Equal(t, data, again)
				stops++
				if rnd.IntN(3) == 0 {
					down := h.recv.Add(time.Duration(rnd.IntN(300)) * time.Second)
					whole.Advance(down.UnixNano(), Start)
					cut.Advance(down.UnixNano(), Start)
				}
			}
		}
		require.Positive(t, stops)
		end := t0.Add(3*time.Hour + 8*time.Hour)
		for at := all[len(all)-1].recv; at.Before(end); at = at.Add(20 * time.Second) {
			whole.Advance(at.UnixNano(), Tick)
			cut.Advance(at.UnixNano(), Tick)
		}
		a, _ := encode(whole)
		b, _ := encode(cut)
		require.Equal(t, a, b, "seed %d", seed)

		want := naive(all)
		for product, minutes := range want {
			for at := t0; at.Before(t0.Add(2 * time.Hour)); at = at.Add(5 * time.Minute) {
				var n [2]uint64
				for m := range int64(5) {
					x := minutes[at.Unix()/60+m]
					n[0], n[1] = n[0]+x[0], n[1]+x[1]
				}
				got := sums(whole, "shop/orders", slo.Span{From: at, To: at.Add(5 * time.Minute)})[product][0]
				require.Equal(t, n[:], got, "seed %d product %s at %s", seed, product, at)
			}
		}
		s := whole.Sums(Request{Now: end})
		total := uint64(0)
		for _, g := range s.Groups {
			if g.Indicator.ID == "shop/orders" {
				total += g.Total[0] + g.Total[1]
			}
		}
		require.EqualValues(t, 300, total, "an exported counter has each piece of work once")
		require.Zero(t, s.InFlight[0].Untracked)
	}
}

// TestCompletionInFlight: what is in flight is shown by stage and group, the oldest first.
func TestCompletionInFlight(t *testing.T) {
	f := newFold(t, config(orders("product")), t0)
	apply(t, f, t0, order("created", "a", t0, "product", "A", "stage", "INIT"))
	apply(t, f, t0, order("created", "b", t0.Add(time.Second), "product", "A", "stage", "INIT"))
	apply(t, f, t0, order("created", "c", t0.Add(2*time.Second), "product", "B"))
	apply(t, f, t0, order("moved", "b", t0.Add(time.Minute), "stage", "PAID"))
	apply(t, f, t0, order("shipped", "", t0))
	in := f.Sums(Request{Now: t0}).InFlight[0]
	require.Equal(t, []slo.InFlightGroup{
		{Group: slo.Group{"A"}, Stages: []slo.InFlightStage{{Stage: "INIT", Open: 1}, {Stage: "PAID", Open: 1}}},
		{Group: slo.Group{"B"}, Stages: []slo.InFlightStage{{Open: 1}}},
	}, in.Groups)
	require.Equal(t, t0, in.Oldest)
	require.Len(t, in.Items, 3)
	require.Equal(t, slo.InFlightItem{Key: "b", Group: slo.Group{"A"}, Stage: "PAID", Start: t0.Add(time.Second),
		Since: t0.Add(time.Minute), Deadline: t0.Add(time.Second + within)}, in.Items[1])
	require.EqualValues(t, 1, f.Sums(Request{Now: t0}).Stats.Unmeasured["shop/orders"])

	tick(f, t0, t0.Add(within+4*time.Minute))
	in = f.Sums(Request{Now: t0}).InFlight[0]
	open, overdue := in.Total()
	require.Zero(t, open)
	require.EqualValues(t, 3, overdue)
	now := t0.Add(within + 4*time.Minute)
	require.Equal(t, []uint64{0, 2}, sums(f, "shop/orders", last(now, time.Hour))["A"][0])

	// A finish that was in time and comes late corrects the buckets and no total.
	apply(t, f, now, order("shipped", "a", t0.Add(5*time.Minute)))
	require.Equal(t, []uint64{1, 1}, sums(f, "shop/orders", last(now, time.Hour))["A"][0])
	require.Equal(t, []uint64{0, 2}, groupOf(t, f.Sums(Request{Now: now}), "shop/orders", "A").Total)
	require.EqualValues(t, 1, f.Sums(Request{Now: now}).InFlight[0].Corrected)
}

// TestCompletionEraseKey: only work that has its key from the attribute loses it, and counts as before.
func TestCompletionEraseKey(t *testing.T) {
	f := newFold(t, config(orders()), t0)
	for _, id := range []string{"a", "b"} {
		apply(t, f, t0, order("created", id, t0))
	}
	a := inflight.Hash([]byte("a"))
	require.Zero(t, f.ReadableKeys("customer", a))
	f.EraseKey("customer", a)
	require.Equal(t, 1, f.ReadableKeys("order_id", a))
	f.EraseKey("order_id", a)
	require.Zero(t, f.ReadableKeys("order_id", a))
	items := f.Sums(Request{Now: t0}).InFlight[0].Items
	require.Equal(t, []string{"(removed)", "b"}, []string{items[0].Key, items[1].Key})
	apply(t, f, t0, order("shipped", "a", t0.Add(time.Second)))
	require.Equal(t, []uint64{1, 0}, groupOf(t, f.Sums(Request{Now: t0}), "shop/orders").Total)
}

// TestCompletionUntracked: work beyond the bound lowers coverage.
func TestCompletionUntracked(t *testing.T) {
	ind := orders()
	ind.Work.MaxInFlight = 2
	f := newFold(t, config(ind), t0)
	for i := range 3 {
		apply(t, f, t0, order("created", fmt.Sprint(i), t0))
	}
	apply(t, f, t0, order("shipped", "0", t0.Add(time.Second)))
	s := f.Sums(Request{Now: t0.Add(time.Minute), Spans: []slo.Span{last(t0.Add(time.Minute), time.Hour)}})
	require.EqualValues(t, 1, s.InFlight[0].Untracked)
	require.InDelta(t, 0.5, groupOf(t, s, "shop/orders").Loss.Kept(0), 1e-9)
}

// TestCompletionAfterDowntime: a deadline that passes while the engine is down counts only after as long a time again.
func TestCompletionAfterDowntime(t *testing.T) {
	f := newFold(t, config(orders()), t0)
	apply(t, f, t0, order("created", "a", t0))
	down := t0.Add(time.Hour)
	f.Advance(down.UnixNano(), Start)
	expired := func() uint64 { return f.Sums(Request{Now: unix(f.rec)}).InFlight[0].Expired }
	tick(f, down, down.Add(within))
	require.Zero(t, expired())
	apply(t, f, down.Add(within), order("shipped", "a", t0.Add(time.Minute)))
	require.Equal(t, []uint64{1, 0}, groupOf(t, f.Sums(Request{Now: unix(f.rec)}), "shop/orders").Total)
	apply(t, f, down.Add(within), order("created", "b", down.Add(time.Second)))
	tick(f, down.Add(within), down.Add(2*time.Hour))
	require.EqualValues(t, 1, expired())
}

// TestCompletionGenerations: a rename and a new bound go on with what is in flight. A definition that is taken out
// forgets it and keeps its counts.
func TestCompletionGenerations(t *testing.T) {
	ind := orders("product")
	f := newFold(t, config(ind), t0)
	apply(t, f, t0, order("created", "a", t0, "product", "A"))
	apply(t, f, t0, order("created", "b", t0, "product", "B"))
	apply(t, f, t0, order("shipped", "b", t0.Add(time.Second)))
	renamed := orders("product")
	renamed.ID, renamed.Was, renamed.Work.MaxInFlight, renamed.Work.Stage, renamed.Retention = "shop/new",
		"shop/orders", 5, "phase", 10*day
	require.NoError(t, f.SetConfig(config(renamed), t0.Add(time.Second).UnixNano()))
	in := f.Sums(Request{Now: t0}).InFlight[0]
	require.Equal(t, slo.ID("shop/new"), in.SLO)
	require.Equal(t, 5, in.Max)
	require.Len(t, in.Items, 1)
	apply(t, f, t0.Add(time.Minute), order("shipped", "a", t0.Add(time.Minute)))
	now := t0.Add(2 * time.Minute)
	f.Advance(now.UnixNano(), Tick)
	require.Equal(t, []uint64{1, 0}, sums(f, "shop/new", last(now, time.Hour))["A"][0])

	apply(t, f, now, order("created", "c", now, "product", "B"))
	require.NoError(t, f.SetConfig(config(availability()), now.UnixNano()))
	data, _ := encode(f)
	f = restored(t, data)
	require.NoError(t, f.SetConfig(config(renamed), now.Add(time.Minute).UnixNano()))
	require.Len(t, f.LastChange().Resumed, 1)
	in = f.Sums(Request{Now: now}).InFlight[0]
	require.Empty(t, in.Items)
	require.Equal(t, []uint64{1, 0}, sums(f, "shop/new", last(now, time.Hour))["B"][0])
	apply(t, f, now.Add(time.Minute), order("created", "d", now.Add(time.Minute), "product", "B"))
	data, _ = encode(f)
	again, _ := encode(restored(t, data))
	require.Equal(t, data, again)

	f.Forget(nil, []string{"shop"})
	require.Empty(t, f.Sums(Request{Now: now}).InFlight[0].Items)
	apply(t, f, now.Add(time.Minute), order("shipped", "d", now.Add(time.Minute)))
	require.EqualValues(t, 0, f.Sums(Request{Now: now}).InFlight[0].Finished)
	data, _ = encode(f)
	restored(t, data)
}

// TestBackfilledWork: work of a backfill whose end is not in it is bad, in the minute of its deadline, although that is
// long past and the window is little longer than the work may take.
func TestBackfilledWork(t *testing.T) {
	ind := orders()
	ind.Work.Within, ind.Retention = 6*day, 7*day
	f := newFold(t, config(ind), t0)
	started := t0.Add(-6*day - 12*time.Hour)
	f.Advance(t0.UnixNano(), Tick)
	for i := range 60 {
		id := fmt.Sprint(i)
		require.NoError(t, tryApply(f, t0, Backfill, order("created", id, started)))
		if i < 20 {
			require.NoError(t, tryApply(f, t0, Backfill, order("shipped", id, started.Add(time.Hour))))
		}
	}
	counts := func(sp slo.Span) []uint64 { return sums(f, "shop/orders", sp)[""][0] }
	now := t0.Add(2*time.Minute + 59*time.Second)
	tick(f, t0, now)
	require.Equal(t, []uint64{20, 0}, counts(last(now, 7*day)))
	tick(f, now, t0.Add(4*time.Minute))
	now = t0.Add(4 * time.Minute)
	require.Equal(t, []uint64{20, 40}, counts(last(now, 7*day)))
	deadline := started.Add(6 * day)
	require.Equal(t, []uint64{0, 40}, counts(slo.Span{From: deadline, To: deadline.Add(time.Minute)}))
	g := groupOf(t, f.Sums(Request{}), "shop/orders")
	require.Equal(t, [][]uint64{{0, 0}, {20, 40}}, [][]uint64{g.Total, g.Old}, "no new traffic")

	// An end that comes after all is good, where it happened.
	require.NoError(t, tryApply(f, now, Backfill, order("shipped", "20", started.Add(day))))
	require.Equal(t, []uint64{21, 39}, counts(last(now, 7*day)))
}

// TestWorkWithTwoEnds: a failure that arrives after the finish and happened before it makes the work bad, in its
// minute, also if the fold is restored in between.
func TestWorkWithTwoEnds(t *testing.T) {
	f := newFold(t, config(orders("product")), t0)
	apply(t, f, t0, order("created", "a", t0, "product", "A"))
	apply(t, f, t0.Add(10*time.Minute), order("shipped", "a", t0.Add(10*time.Minute)))
	data, _ := encode(f)
	now := t0.Add(40 * time.Minute)
	for _, f := range []*Fold{f, restored(t, data)} {
		require.Equal(t, []uint64{1, 0}, sums(f, "shop/orders", last(now, time.Hour))["A"][0])
		require.Empty(t, f.Sums(Request{}).InFlight[0].Items)
		apply(t, f, now, order("dead_letter", "a", t0.Add(5*time.Minute)))
		require.Equal(t, []uint64{0, 1},
			sums(f, "shop/orders", slo.Span{From: t0.Add(5 * time.Minute), To: t0.Add(6 * time.Minute)})["A"][0])
		require.Equal(t, []uint64{0, 1}, sums(f, "shop/orders", last(now, time.Hour))["A"][0], "and no more as good")
		require.EqualValues(t, 1, f.Sums(Request{}).InFlight[0].Finished)
		apply(t, f, now.Add(2*time.Hour), order("shipped", "a", t0.Add(4*time.Minute)))
		require.Equal(t, []uint64{0, 1}, sums(f, "shop/orders", last(now, time.Hour))["A"][0],
			"it is forgotten after an hour")
	}
}

// TestCompletionKeepsGroups: a group with work in flight is never evicted, and one without makes room.
func TestCompletionKeepsGroups(t *testing.T) {
	ind := orders("product")
	ind.MaxGroups, ind.Work.Within, ind.Retention = 1, 10*day, time.Hour
	f := newFold(t, config(ind), t0)
	apply(t, f, t0, order("created", "a", t0, "product", "A"))
	late := t0.Add(5 * day)
	f.Advance(late.UnixNano(), Tick)
	apply(t, f, late, order("created", "b", late, "product", "B"))
	require.Len(t, sums(f, "shop/orders", last(late, time.Hour)), 2)
	require.Contains(t, sums(f, "shop/orders", last(late, time.Hour)), "A")
	apply(t, f, late, order("shipped", "a", late))
	f.Advance(late.Add(2*time.Hour).UnixNano(), Tick) // by then the end is forgotten, too
	f.Advance(late.Add(12*day).UnixNano(), Tick)
	require.NotContains(t, sums(f, "shop/orders", last(late, time.Hour)), "A")
}

// TestCompletionLostPart: without a part of the work in flight the rest goes on.
func TestCompletionLostPart(t *testing.T) {
	f := newFold(t, config(orders()), t0)
	apply(t, f, t0, order("created", "a", t0))
	data, _ := encode(f)
	what, ok := PartLoss("inflight-1-0")
	require.True(t, ok)
	require.NotEmpty(t, what)
	require.Contains(t, data, "inflight-1-0")
	f, err := New(Options{})
	require.NoError(t, err)
	for name, part := range data {
		if name == "inflight-1-0" {
			require.NoError(t, f.RestoreLost(name))
			continue
		}
		require.NoError(t, f.RestorePart(name, []byte(part)))
	}
	require.NoError(t, f.FinishRestore())
	require.Empty(t, f.Sums(Request{Now: t0}).InFlight[0].Items)
}

// workFold is a fold with work in flight, and an event to change.
func workFold(t testing.TB, n int) (*Fold, []byte) {
	ind := orders("product")
	ind.Work.MaxInFlight = 2_000_000
	f := newFold(t, config(ind), t0)
	raw := event.AppendBinary(nil, order("created", "0000000000000000", t0, "product", "A", "stage", "INIT"))
	for i := range n {
		put(t, f, raw, uint64(i))
	}
	return f, raw
}

var workKey = []byte("0000000000000000")

// put applies an event with another key.
func put(t testing.TB, f *Fold, raw []byte, key uint64) {
	var v event.View
	if _, err := v.Parse(raw); err != nil {
		t.Fatal(err)
	}
	id, _ := v.Attr("order_id")
	copy(id, workKey)
	binary.LittleEndian.PutUint64(id[8:], key|1<<63)
	if err := f.Apply(t0.UnixNano(), Live, &v); err != nil {
		t.Fatal(err)
	}
}

// BenchmarkCompletion applies events while a million pieces of work are in flight. An operation is one transition:
// every second one starts work, and the others end it.
func BenchmarkCompletion(b *testing.B) {
	f, start := workFold(b, 1_000_000)
	end := event.AppendBinary(nil, order("shipped", "0000000000000000", t0, "product", "A", "stage", "DONE"))
	b.ReportAllocs()
	next, first := uint64(1_000_000), uint64(0)
	began := cpu()
	for i := 0; b.Loop(); i++ {
		if i%2 == 0 {
			put(b, f, start, next)
			next++
		} else {
			put(b, f, end, first)
			first++
		}
	}
	reportCPU(b, began)
	b.ReportMetric(float64(f.inFlight()[0].Bytes)/1e6, "MB")
}

// BenchmarkCompletionParts encodes a snapshot with a million pieces of work of which all parts changed: what a
// checkpoint holds up the fold for.
func BenchmarkCompletionParts(b *testing.B) {
	f, _ := workFold(b, 1_000_000)
	buf := make([]byte, 0, 100<<20)
	began := cpu()
	for b.Loop() {
		buf = buf[:0]
		for _, p := range f.Parts() {
			buf = p.Encode(buf)
		}
	}
	reportCPU(b, began)
	b.ReportMetric(float64(len(buf))/1e6, "MB")
}

// BenchmarkCompletionSums is what a tick asks of the fold with a million pieces of work.
func BenchmarkCompletionSums(b *testing.B) {
	f, _ := workFold(b, 1_000_000)
	began := cpu()
	for b.Loop() {
		f.Sums(Request{Now: t0})
	}
	reportCPU(b, began)
}

// TestCompletionAllocatesNothing holds for events of work, in flight or not.
func TestCompletionAllocatesNothing(t *testing.T) {
	f, start := workFold(t, 2000)
	end := event.AppendBinary(nil, order("shipped", "0000000000000000", t0, "product", "A", "stage", "DONE"))
	put(t, f, end, 1)
	n := uint64(2)
	require.Zero(t, testing.AllocsPerRun(500, func() {
		put(t, f, end, n)
		put(t, f, start, n+10_000)
		n++
	}))
}
