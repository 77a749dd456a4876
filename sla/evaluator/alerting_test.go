package evaluator

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
)

// TestWhatAlertsNeed checks the parts of a report that only alerts read: the
// coverage of each window, the windows of own tiers, and the score over the alert
// window.
func TestWhatAlertsNeed(t *testing.T) {
	s := &slo.SLO{
		ID: "shop/availability", Objective: percent(t, "99"), Window: slo.Window{Rolling: 30 * day},
		GroupBy: []string{"product"}, Expect: []slo.Group{{"later"}},
		Indicator: slo.Indicator{Kind: slo.KindEvents, Valid: sel(t, "type", "order"), Bad: sel(t, "outcome", "failure")},
		Alerting: slo.Alerting{Tiers: []slo.Tier{
			{Page: true, Long: 15 * time.Minute, Short: 2 * time.Minute, Share: 0.01},
			{Page: true, Long: time.Hour, Short: 15 * time.Minute, Share: 0.02},
		}},
		Corrections: []slo.Correction{{Name: "now", Start: noon.Add(-10 * time.Minute), Duration: 5 * time.Minute}},
	}
	a := &sla.Agreement{
		Service: "shop", Name: "gold", Method: sla.Ratio, Window: slo.Window{Rolling: 30 * day}, AlertWindow: time.Hour,
		GroupBy: []string{"product"},
		NoData:  sla.NoDataExclude, Warning: 95, Critical: 90,
		Components: []sla.Component{{Name: "availability", SLO: s.ID, Weight: 1}},
		Catalogue:  []sla.CatalogueAlert{{Name: sla.CatalogueErrorTrend}},
	}
	in := Inputs{SLOs: []*slo.SLO{s}, Agreements: []*sla.Agreement{a}}
	p, err := newPlan(in)
	require.NoError(t, err)
	ind := p.slos[0].indicator
	req := p.request(noon)
	g := fold.Group{Indicator: ind, Values: slo.Group{"A"}, Total: []uint64{1, 1}, Since: noon.Add(-2 * time.Hour)}
	at := func(w time.Duration) []uint64 { // a fifth is bad in the last hour, nothing before
		bad := uint64(min(w, time.Hour) / time.Minute)
		return []uint64{4*bad + uint64((w-min(w, time.Hour))/time.Minute), bad}
	}
	for _, span := range req.Spans {
		g.Spans = append(g.Spans, at(span.Duration()))
	}
	for range req.Extra[ind.ID] {
		g.Spans = append(g.Spans, []uint64{20, 5}) // all of the correction
	}
	up := []slo.Span{{From: noon.Add(-30 * day), To: noon.Add(-30 * time.Minute)},
		{From: noon.Add(-15 * time.Minute), To: noon}}
	r, err := p.report(req, &fold.Sums{Groups: []fold.Group{g}, Up: up})
	require.NoError(t, err)

	seen := r.SLOs[0]
	require.Len(t, seen.Trend, 2)
	require.Equal(t, slo.Counts{Good: 20, Bad: 5}, seen.Trend[0].Counts, "half of the ten minutes are corrected")
	require.Equal(t, slo.Counts{Good: 40, Bad: 10}, seen.Trend[1].Counts)
	require.Equal(t, slo.Group{"A"}, seen.Group)
	coverage := map[time.Duration]float64{5 * time.Minute: 1, 30 * time.Minute: 0.5, time.Hour: 0.75, 2 * time.Hour: 0.875,
		6 * time.Hour: 1.75 / 6}
	for _, burns := range [][]slo.Burn{seen.Burns, seen.RawBurns, r.SLOs[1].Burns} {
		for _, b := range burns {
			if want, ok := coverage[b.Window]; ok {
				require.InDelta(t, want, b.Coverage, 1e-12, "%s", b.Window)
				require.Equal(t, b.Coverage, b.Observed, "nothing was dropped in %s", b.Window)
			}
		}
		require.Equal(t, seen.Coverage, burns[len(burns)-1].Coverage)
	}
	require.Equal(t, slo.Group{"later"}, r.SLOs[1].Group, "a group that has not come is observed as its siblings are")

	require.Len(t, seen.TierBurns, 2, "an hour is among the burn windows already")
	require.Equal(t, []time.Duration{2 * time.Minute, 15 * time.Minute},
		[]time.Duration{seen.TierBurns[0].Window, seen.TierBurns[1].Window})
	require.Equal(t, slo.Counts{Good: 60 - 20, Bad: 15 - 5}, seen.TierBurns[1].Counts, "without the maintenance")
	require.InDelta(t, 20, seen.TierBurns[1].Rate, 1e-9)
	require.Equal(t, 1.0, seen.TierBurns[1].Coverage)

	require.Equal(t, slo.Group{"A"}, r.SLAs[0].Group)
	require.Greater(t, r.SLAs[0].Score, 99.0)
	alert := r.SLAs[0].Alert
	require.NotNil(t, alert)
	require.Nil(t, alert.Alert)
	require.Equal(t, r.SLAs[0].Group, alert.Group)
	require.InDelta(t, 80, alert.Score, 1e-9, "over the last hour")
	require.Equal(t, sla.LevelCritical, alert.Level)
	require.Equal(t, noon.Add(-time.Hour), alert.Period.From)
	require.InDelta(t, 0.75, alert.Components[0].Coverage, 1e-12)
	require.InDelta(t, 0.75, alert.Components[0].Observed, 1e-12)
	require.InDelta(t, 85, alert.ObservedScore(), 1e-9, "a quarter of the hour counts as good")
	require.Equal(t, slo.Group{"later"}, r.SLAs[1].Alert.Group)
	require.Equal(t, sla.LevelNoData, r.SLAs[1].Alert.Level)
}

// TestBandsOfAnAlertWindow: an agreement and its alert window read one counter of bands, over windows of their own.
// Planned maintenance must be taken out of both.
func TestBandsOfAnAlertWindow(t *testing.T) {
	s := &slo.SLO{
		ID: "shop/latency", Objective: percent(t, "90"), Window: slo.Window{Rolling: 30 * day},
		Indicator: slo.Indicator{Kind: slo.KindLatency, Valid: sel(t, "type", "order"), Threshold: time.Second},
		Corrections: []slo.Correction{
			{Name: "old", Start: noon.Add(-3 * day), Duration: time.Hour},
			{Name: "new", Start: noon.Add(-90 * time.Minute), Duration: time.Hour},
		},
	}
	a := &sla.Agreement{
		Service: "shop", Name: "gold", Method: sla.Bands, Window: slo.Window{Rolling: 7 * day}, AlertWindow: time.Hour,
		NoData: sla.NoDataExclude, Warning: 95, Critical: 90,
		Components: []sla.Component{{Name: "latency", SLO: s.ID, Weight: 1,
			Bands: []sla.Band{{Quantile: .9, Threshold: time.Second, Score: 100}, {Score: 10}}}},
	}
	p, err := newPlan(Inputs{SLOs: []*slo.SLO{s}, Agreements: []*sla.Agreement{a}})
	require.NoError(t, err)
	req := p.request(noon)
	var groups []fold.Group
	for _, ind := range []*fold.Indicator{p.slos[0].indicator, p.slos[0].usages[0].bands.indicator} {
		g := fold.Group{Indicator: ind, Total: []uint64{1, 1}, Since: noon.Add(-30 * day)}
		for _, span := range append(append([]slo.Span{}, req.Spans...), req.Extra[ind.ID]...) { // one a minute
			g.Spans = append(g.Spans, []uint64{uint64(span.Duration() / time.Minute), 0})
		}
		groups = append(groups, g)
	}
	r, err := p.report(req, &fold.Sums{Groups: groups, Up: []slo.Span{{From: noon.Add(-30 * day), To: noon}}})
	require.NoError(t, err)
	require.Equal(t, "p90 within 1s", r.SLAs[0].Components[0].Note)
	made := tick{plan: p, spans: req.Spans}
	out := map[time.Duration]uint64{}
	for _, u := range p.slos[0].usages {
		out[p.windows[u.window].Rolling] = made.takenOut(u.bands.correction, &groups[1], u.window, 0)
	}
	require.Equal(t, map[time.Duration]uint64{7 * day: 120, time.Hour: 30}, out)
}
