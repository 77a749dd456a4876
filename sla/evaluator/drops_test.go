package evaluator

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
)

// TestWhatLimitsDropLowersCoverage plays ten hours with an event a second, of
// which limits drop three in four for the last half hour but one, and looks at
// the coverage of everything that is reported.
func TestWhatLimitsDropLowersCoverage(t *testing.T) {
	product := []string{"product"}
	order := sel(t, "type", "order")
	window := slo.Window{Rolling: 8 * time.Hour}
	slos := []*slo.SLO{
		{ID: "shop/availability", Objective: percent(t, "99"), Window: window, GroupBy: product,
			Expect:    []slo.Group{{"later"}},
			Indicator: slo.Indicator{Kind: slo.KindEvents, Valid: order, Bad: sel(t, "outcome", "failure")},
			Alerting:  slo.Alerting{Tiers: []slo.Tier{{Page: true, Long: 3 * time.Hour, Short: 10 * time.Minute, Share: 0.02}}}},
		{ID: "shop/latency", Objective: percent(t, "99"), Window: window,
			Indicator: slo.Indicator{Kind: slo.KindLatency, Valid: order, Threshold: time.Second}},
		{ID: "shop/throughput", Objective: percent(t, "99"), Window: window,
			Indicator: slo.Indicator{Kind: slo.KindThroughput, Valid: order, AtLeast: 1, Per: time.Minute}},
		{ID: "shop/refunds", Objective: percent(t, "99"), Window: window,
			Indicator: slo.Indicator{Kind: slo.KindEvents, Valid: sel(t, "type", "refund"), Bad: sel(t, "outcome", "failure")}},
	}
	bands := []sla.Band{{Threshold: 500 * time.Millisecond, Score: 100}, {Score: 50}}
	in := Inputs{SLOs: slos, Agreements: []*sla.Agreement{{
		Service: "shop", Name: "gold", Method: sla.Bands, Window: window, AlertWindow: time.Hour, NoData: sla.NoDataExclude,
		Warning: 95, Critical: 90,
		Components: []sla.Component{
			{Name: "availability", SLO: "shop/availability", Weight: 1},
			{Name: "latency", SLO: "shop/latency", Weight: 1, Bands: bands},
			{Name: "throughput", SLO: "shop/throughput", Weight: 1}, {Name: "refunds", SLO: "shop/refunds", Weight: 1},
		},
	}}}
	cfg, err := Compile(in)
	require.NoError(t, err)
	f, err := fold.New(fold.Options{})
	require.NoError(t, err)
	began := noon.Add(-10 * time.Hour)
	f.Advance(began.UnixNano(), fold.Start)
	require.NoError(t, f.SetConfig(cfg, began.UnixNano()))
	dropping := slo.Span{From: noon.Add(-time.Hour), To: noon.Add(-30 * time.Minute)}
	for i := range 10 * 360 { // every ten seconds what came in them
		at := began.Add(time.Duration(i) * 10 * time.Second)
		f.Advance(at.UnixNano(), fold.Tick)
		n := uint32(10)
		if !at.Before(dropping.From) && at.Before(dropping.To) {
			n = 2 // and 6 of type order are dropped, in two calls
			f.Dropped(at.UnixNano(), []byte("shop"), []byte("order"), at.UnixNano(), 2, "rate_limited")
			f.Dropped(at.UnixNano(), []byte("shop"), []byte("order"), at.UnixNano(), 4, "rate_limited")
		}
		for _, typ := range []string{"order", "refund"} {
			e := event.Event{Service: "shop", Type: typ, Time: at, Count: n, Duration: time.Millisecond, HasDuration: true}
			e.Set("product", fmt.Sprint("p", i%2))
			var v event.View
			_, err := v.Parse(event.AppendBinary(nil, &e))
			require.NoError(t, err)
			require.NoError(t, f.Apply(at.UnixNano(), fold.Live, &v))
		}
	}
	f.Advance(noon.UnixNano(), fold.Tick)
	e, err := New(Options{Source: func(_ context.Context, req fold.Request) (*fold.Sums, error) {
		return f.Sums(req), nil
	}})
	require.NoError(t, err)
	require.NoError(t, e.SetSpec(in))
	r, err := e.Tick(t.Context(), noon)
	require.NoError(t, err)

	// Of the half hour 360 orders were counted and 1080 dropped.
	kept := func(w time.Duration) float64 {
		plain := float64(w/time.Second) - 1800
		return (plain + 360) / (plain + 1440)
	}
	want := map[time.Duration]float64{
		5 * time.Minute: 1, 10 * time.Minute: 1, 30 * time.Minute: 1, time.Hour: kept(time.Hour),
		2 * time.Hour: kept(2 * time.Hour),
		3 * time.Hour: kept(3 * time.Hour), 6 * time.Hour: kept(6 * time.Hour), 8 * time.Hour: kept(8 * time.Hour),
		day: kept(10*time.Hour) * 10 / 24, 3 * day: kept(10*time.Hour) * 10 / 72,
	}
	seen := map[string]int{}
	for i := range r.SLOs {
		s := &r.SLOs[i]
		seen[string(s.SLO.ID)]++
		tolerance := 1e-9
		if s.SLO.Indicator.Kind == slo.KindThroughput {
			tolerance = 0.015 // of the window's end, slices are still open
		}
		for _, b := range append(s.Burns, s.TierBurns...) {
			expected, ok := want[b.Window]
			require.True(t, ok, "%s", b.Window)
			if s.SLO.ID == "shop/refunds" {
				expected = min(1, 10*float64(time.Hour)/float64(b.Window))
			}
			require.InDelta(t, expected, b.Coverage, tolerance, "%s %q %s", s.SLO.ID, s.Group, b.Window)
			require.InDelta(t, min(1, float64(10*time.Hour)/float64(b.Window)), b.Observed, 1e-9,
				"a drop is no time that was not observed: %s %q %s", s.SLO.ID, s.Group, b.Window)
		}
		require.Equal(t, s.Burns[len(s.Burns)-1].Coverage, s.Coverage)
	}
	require.Equal(
		t, map[string]int{"shop/availability": 3, "shop/latency": 1, "shop/throughput": 1, "shop/refunds": 1}, seen)

	require.Len(t, r.SLAs, 1)
	for i, tolerance := range []float64{1e-9, 1e-9, 0.015, 0} {
		long, short := r.SLAs[0].Components[i], r.SLAs[0].Alert.Components[i]
		if long.Name == "refunds" {
			require.Equal(t, []float64{1, 1}, []float64{long.Coverage, short.Coverage})
			continue
		}
		require.InDelta(t, kept(8*time.Hour), long.Coverage, tolerance, long.Name)
		require.InDelta(t, kept(time.Hour), short.Coverage, tolerance, long.Name)
	}
}

// TestEffectiveEvents: a sampled window rests on fewer events than it counts, and
// on those only that the corrections leave.
func TestEffectiveEvents(t *testing.T) {
	s := &slo.SLO{
		ID: "shop/availability", Objective: percent(t, "99"), Window: slo.Window{Rolling: 30 * day},
		Indicator: slo.Indicator{Kind: slo.KindEvents, Valid: sel(t, "type", "order"), Bad: sel(t, "outcome", "failure")},
		Alerting: slo.Alerting{
			Tiers: []slo.Tier{{Page: true, Long: 15 * time.Minute, Short: 2 * time.Minute, Share: 0.01}}},
		Corrections: []slo.Correction{{Name: "now", Start: noon.Add(-30 * time.Minute), Duration: 10 * time.Minute}},
	}
	in := Inputs{SLOs: []*slo.SLO{s}}
	cfg, err := Compile(in)
	require.NoError(t, err)
	f, err := fold.New(fold.Options{})
	require.NoError(t, err)
	f.Advance(noon.Add(-time.Hour).UnixNano(), fold.Start)
	require.NoError(t, f.SetConfig(cfg, noon.Add(-time.Hour).UnixNano()))
	apply := func(ago time.Duration, count, weight uint32) {
		e := event.Event{Service: "shop", Type: "order", Time: noon.Add(-ago), Count: count, Weight: weight}
		var v event.View
		_, err := v.Parse(event.AppendBinary(nil, &e))
		require.NoError(t, err)
		require.NoError(t, f.Apply(noon.UnixNano(), fold.Live, &v))
	}
	apply(time.Minute, 7, 1)
	apply(time.Minute, 3, 10)
	apply(25*time.Minute, 5, 20) // within the correction
	apply(50*time.Minute, 2, 4)
	e, err := New(Options{Source: func(_ context.Context, req fold.Request) (*fold.Sums, error) {
		return f.Sums(req), nil
	}})
	require.NoError(t, err)
	require.NoError(t, e.SetSpec(in))
	r, err := e.Tick(t.Context(), noon)
	require.NoError(t, err)
	effective := func(sum, squares float64) float64 { return sum * sum / squares }
	check := func(b slo.Burn, valid uint64, want float64) {
		require.Equal(t, valid, b.Counts.Valid(), "%s", b.Window)
		require.InDelta(t, want, b.Effective, 1e-9, "%s", b.Window)
	}
	x := r.SLOs[0]
	check(x.Burns[0], 37, effective(37, 307))
	check(x.RawBurns[1], 137, effective(137, 307+2000))
	check(x.Burns[1], 37, effective(37, 307))
	check(x.RawBurns[2], 145, effective(145, 307+2000+32))
	check(x.Burns[2], 45, effective(45, 307+32))
	check(x.Burns[len(x.Burns)-1], 45, effective(45, 307+32))
	check(x.TierBurns[1], 37, effective(37, 307))
}
