package fold

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/slo"
)

func dropAt(f *Fold, at time.Time, typ string, n uint64) {
	f.Dropped(f.rec, []byte("shop"), []byte(typ), at.UnixNano(), n, "limit")
}

// TestDropsReachWhatMayTakeThem: matchers on type and service decide, those on
// what is not known of a dropped event do not.
func TestDropsReachWhatMayTakeThem(t *testing.T) {
	ind := func(id string, valid ...Matcher) Indicator {
		i := availability()
		i.ID, i.Valid = id, valid
		return i
	}
	cfg := config(
		ind("shop/all"), ind("shop/orders", eq("type", "order")),
		ind("shop/paid", eq("type", "order"), eq("product", "A"), eq("outcome", "success")),
		ind("shop/refunds", Matcher{"type", slo.OpRegexp, "re.*"}), ind("shop/bank", eq("service", "bank")),
		ind("shop/own", eq("service", "shop"), ne("severity", "")),
	)
	cfg.Services[0].Types = []string{"order", "refund"}
	f := newFold(t, cfg, t0)
	apply(t, f, t0, times(shop(t0, "product", "A"), 60))
	dropAt(f, t0, "order", 40)
	dropAt(f, t0, "cancel", 7) // unknown types would have been refused
	f.Dropped(f.rec, []byte("bank"), []byte("order"), t0.UnixNano(), 5, "limit")
	f.Dropped(f.rec, []byte("shop"), []byte("order"), t0.Add(25*time.Hour).UnixNano(), 3, "limit")
	f.Dropped(f.rec, []byte("shop"), []byte("order"), -1, 2, "limit")
	f.Dropped(f.rec, []byte("shop"), []byte("order"), t0.Add(-40*day).UnixNano(), 1, "old")
	f.Dropped(f.rec, []byte("shop"), []byte("order"), t0.UnixNano(), 0, "none")
	f.Advance(t0.Add(10*time.Second).UnixNano(), Tick)
	s := f.Sums(Request{Now: unix(f.rec), Spans: []slo.Span{last(unix(f.rec), time.Hour), ago(2*day, day)}})
	for id, kept := range map[string]float64{
		"shop/all": 0.6, "shop/orders": 0.6, "shop/paid": 0.6, "shop/own": 0, "shop/refunds": 1, "shop/bank": 1,
	} {
		g := groupOf(t, s, id)
		require.Equal(t, kept, g.Loss.Kept(0), id)
		require.Equal(t, 1.0, g.Loss.Kept(1), id)
		require.Equal(t, kept == 1, g.Loss == nil, id)
	}
	require.Equal(t, map[string]uint64{"limit": 57, "old": 1}, s.Stats.Dropped)
	require.EqualValues(t, 1, s.Stats.Events)
	require.Equal(t, []uint64{60, 0}, groupOf(t, s, "shop/all").Total)
}

func TestDropsAreBounded(t *testing.T) {
	f := newFold(t, config(availability()), t0)
	for i := range 100 {
		f.Dropped(f.rec, []byte("shop"), fmt.Appendf(nil, "type-%d", i*50), t0.UnixNano(), 1, fmt.Sprint("reason-", i))
	}
	for i := range 5000 {
		dropAt(f, t0, fmt.Sprint("type-", i), 1)
	}
	require.LessOrEqual(t, len(f.services["shop"].drops), maxDropTypes)
	s := f.Sums(Request{Now: t0, Spans: []slo.Span{last(t0.Add(time.Minute), time.Hour)}})
	require.Len(t, s.Stats.Dropped, maxReasons)
	require.EqualValues(t, 100-(maxReasons-1)+5000, s.Stats.Dropped[slo.OtherGroup])
	require.EqualValues(t, 5100, groupOf(t, s, "shop/availability").Loss.Dropped[0])
	s.Stats.Dropped["mine"] = 1
	require.NotContains(t, f.Sums(Request{}).Stats.Dropped, "mine")
}

// TestExtraColumnsFollowTheConfig: what is known of weights and drops moves with
// an indicator's counts, and goes with them.
func TestExtraColumnsFollowTheConfig(t *testing.T) {
	a, b := availability("product"), perMinute(1, "")
	a.Retention, b.Retention = 5*day, 5*day
	f := newFold(t, config(a, b), t0)
	now := t0.Add(time.Hour)
	tick(f, t0, now)
	e := times(shop(t0.Add(30*time.Minute), "product", "A"), 3)
	e.Weight = 10
	apply(t, f, now, e)
	dropAt(f, t0.Add(30*time.Minute), "order", 5)
	check := func(f *Fold, ids ...string) {
		s := f.Sums(Request{Now: unix(f.rec), Spans: []slo.Span{last(unix(f.rec), day)}})
		for _, g := range s.Groups {
			require.Equal(t, []uint64{5}, g.Loss.Dropped, g.Indicator.ID)
			require.Equal(t, []uint64{35}, g.Loss.Offered, g.Indicator.ID)
			if g.Indicator.Slice == nil {
				require.Equal(t, []uint64{270}, g.Excess)
			} else {
				require.Nil(t, g.Excess)
			}
		}
	}
	check(f)
	a.Retention, b.Retention = 30*day, 20*day // other stores
	require.NoError(t, f.SetConfig(config(a, b), now.UnixNano()))
	check(f)
	a.ID, a.Was, b.ID, b.Was = "shop/a", a.ID, "shop/b", b.ID
	require.NoError(t, f.SetConfig(config(a, b), now.UnixNano()))
	check(f)
	data, _ := encode(f)
	f = restored(t, data)
	check(f)

	used := func() (n uint32) {
		for _, s := range f.stores {
			n += s.cols.n
		}
		for _, s := range f.slices {
			n += s.cols.n
		}
		return n
	}
	require.EqualValues(t, 2+1+1+2+2, used())
	a.Valid, b.Valid = []Matcher{eq("type", "order")}, []Matcher{eq("type", "order")} // counted from zero
	a.Was, b.Was = "", ""
	require.NoError(t, f.SetConfig(config(a, b), now.UnixNano()))
	for _, g := range f.Sums(everything(now)).Groups {
		require.Nil(t, g.Loss)
		require.Nil(t, g.Excess)
	}
	require.EqualValues(t, 2, used(), "of the slices' only group")
}

func TestReplays(t *testing.T) {
	f := newFold(t, config(availability(), perMinute(1, "")), t0)
	now := t0.Add(2 * time.Hour)
	tick(f, t0, now)
	for _, at := range []time.Time{t0.Add(30 * time.Minute), t0.Add(-5 * day), t0.Add(-40 * day)} {
		require.NoError(t, tryApply(f, now, Replay, failed(shop(at))))
	}
	require.ErrorIs(t, tryApply(f, now, Replay, shop(now.Add(48*time.Hour))), ErrRefused)
	s := f.Sums(Request{Now: now, Spans: []slo.Span{last(now, 2*time.Hour), last(now, 10*day)}})
	g := groupOf(t, s, "shop/availability")
	require.Equal(t, [][]uint64{{0, 1}, {0, 2}}, g.Spans, "in its own time, if that is kept")
	require.Equal(t, []uint64{0, 3}, g.Old)
	require.Empty(t, g.Backfilled, "it does not tell what else happened")
	require.Zero(t, s.Stats.Late)
	require.EqualValues(t, 1, s.Stats.TooOld)
	require.EqualValues(t, 3, s.Stats.Replayed)
}

// TestHugeWeights: the most that an event can weigh neither wraps around nor panics.
func TestHugeWeights(t *testing.T) {
	l := Indicator{ID: "shop/latency", Service: "shop", Kind: Latency, Edges: []time.Duration{time.Second}, Retention: day}
	f := newFold(t, config(availability(), l, perMinute(1, "")), t0)
	for range 100 {
		e := took(times(shop(t0), math.MaxUint32), event.MaxDuration)
		e.Weight = math.MaxUint32
		apply(t, f, t0, e)
		e.HasDuration, e.Durations = false, []event.DurationCount{{Duration: event.MaxDuration, Count: math.MaxUint32}}
		apply(t, f, t0, e)
	}
	f.Advance(t0.Add(5*time.Minute).UnixNano(), Tick)
	s := f.Sums(everything(unix(f.rec)))
	for _, id := range []string{"shop/availability", "shop/latency"} {
		g := groupOf(t, s, id)
		require.EqualValues(t, 200*uint64(maxCount), g.Total[0]+g.Total[1], id)
		require.EqualValues(t, 200*uint64(maxCount), g.Spans[1][0]+g.Spans[1][1], id)
		require.EqualValues(t, 200*uint64(maxCount), g.Excess[1], id)
	}
	require.Equal(t, time.Duration(math.MaxInt64), s.Durations[0].Sum)
	require.Greater(t, s.Durations[0].SumSeconds, 1e19)
	data, _ := encode(f)
	require.Equal(t, plain(s), plain(restored(t, data).Sums(everything(unix(f.rec)))))
}

func TestWeightedAndDroppedAllocateNothing(t *testing.T) {
	cfg := twenty()
	cfg.Services[0].Types = []string{"order"}
	f := newFold(t, cfg, t0)
	e := took(shop(t0, "product", "A", "channel", "web"), time.Second)
	e.Weight = 10
	var v event.View
	_, err := v.Parse(event.AppendBinary(nil, e))
	require.NoError(t, err)
	service, typ := []byte("shop"), []byte("order")
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if err := f.Apply(t0.UnixNano(), Live, &v); err != nil {
			t.Fatal(err)
		}
		f.Dropped(t0.UnixNano(), service, typ, t0.UnixNano(), 3, "limit")
	}))
}

func BenchmarkFoldWeighted20(b *testing.B) {
	f := newFold(b, twenty(), t0)
	events := encoded(1<<14, current)
	views := make([]event.View, len(events))
	for i := range events {
		heavy, err := event.AppendWeighted(nil, events[i], 10)
		require.NoError(b, err)
		_, err = views[i].Parse(heavy)
		require.NoError(b, err)
		require.NoError(b, f.Apply(t0.UnixNano(), Live, &views[i]))
	}
	i, recv := 0, t0.UnixNano()
	b.ReportAllocs()
	began := cpu()
	for b.Loop() {
		i = (i + 1) & (len(views) - 1)
		if err := f.Apply(recv, Live, &views[i]); err != nil {
			b.Fatal(err)
		}
	}
	reportCPU(b, began)
}

func BenchmarkDropped20(b *testing.B) {
	f := newFold(b, twenty(), t0)
	service, typ, recv := []byte("shop"), []byte("order"), t0.UnixNano()
	b.ReportAllocs()
	for b.Loop() {
		f.Dropped(recv, service, typ, recv, 3, "limit")
	}
}
