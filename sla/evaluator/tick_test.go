package evaluator

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
)

// noon is the tick of the tests below.
var noon = monday.Add(40*day + 12*time.Hour)

// answer evaluates a spec on hand-made groups, whose Spans are left to fill:
// every asked span holds the same counts.
func answer(t *testing.T, in Inputs, sums fold.Sums, counts func(g *fold.Group) []uint64) *sla.Report {
	e, err := New(Options{Source: func(_ context.Context, req fold.Request) (*fold.Sums, error) {
		s := sums
		for i := range s.Groups {
			g := &s.Groups[i]
			g.Spans = nil
			for range len(req.Spans) + len(req.Extra[g.Indicator.ID]) {
				g.Spans = append(g.Spans, counts(g))
			}
		}
		return &s, nil
	}})
	require.NoError(t, err)
	require.NoError(t, e.SetSpec(in))
	r, err := e.Tick(t.Context(), noon)
	require.NoError(t, err)
	return r
}

func find(r *sla.Report, id slo.ID) (out []sla.SLOReport) {
	for _, s := range r.SLOs {
		if s.SLO.ID == id {
			out = append(out, s)
		}
	}
	return out
}

func TestAnEmptyEngineReportsNoDataAndNothingGood(t *testing.T) {
	r := answer(t, process(t), fold.Sums{}, nil)
	require.Equal(t, []string{"weights were normalised"}, r.Warnings)

	expected := find(r, "unpaid/availability")
	require.Len(t, expected, 1)
	require.Equal(t, slo.Group{"MEDCARE"}, expected[0].Group)
	require.Len(t, find(r, "unpaid/minutes"), 1, "an SLO without groups is always there")
	require.Empty(t, find(r, "unpaid/latency"), "unexpected groups are not")
	require.Empty(t, find(r, "unpaid/api"), "series of Prometheus are not measured here")
	for _, s := range r.SLOs {
		require.Equal(t, slo.StateNoData, s.State)
		require.False(t, s.Budget.HasData)
		require.Zero(t, s.Coverage)
		require.Len(t, s.Burns, len(slo.BurnWindows)+1)
		for _, b := range s.Burns {
			require.False(t, b.HasData)
		}
		require.Equal(t, s.SLO.Window.Rolling, s.Burns[len(slo.BurnWindows)].Window)
	}

	require.Len(t, r.SLAs, 1)
	require.Equal(t, slo.Group{"MEDCARE"}, r.SLAs[0].Group)
	require.Equal(t, sla.LevelNoData, r.SLAs[0].Level)
	require.Equal(t, 3, r.SLAs[0].Missing)
	require.Equal(t, []float64{0, 100}, []float64{r.SLAs[0].Low, r.SLAs[0].High})
	require.Len(t, r.Thresholds, 4)
}

func TestTheOtherGroupInformsAndComesLast(t *testing.T) {
	in := process(t)
	cfg, err := Compile(in)
	require.NoError(t, err)
	ind := &cfg.Indicators[0]
	require.Equal(t, "unpaid/availability", ind.ID)
	sums := fold.Sums{Groups: []fold.Group{
		{Indicator: ind, Values: slo.Group{"SOMLT"}, Total: []uint64{900, 100}, Since: monday},
		{Indicator: ind, Values: slo.Group{"~last"}, Total: []uint64{900, 100}, Since: monday},
		{Indicator: ind, Values: slo.Group{slo.OtherGroup}, Total: []uint64{900, 100}, Since: monday},
	}, Up: []slo.Span{{From: monday, To: noon}}}
	r := answer(t, in, sums, func(*fold.Group) []uint64 { return []uint64{90, 10} })

	var groups []string
	for _, s := range find(r, "unpaid/availability") {
		groups = append(groups, s.Group[0])
		require.Equal(t, s.Group[0] == slo.OtherGroup, s.Informative)
		require.Equal(t, 1.0, s.Coverage)
		if s.Group[0] != "MEDCARE" {
			require.Equal(t, slo.StateExhausted, s.State)
			require.Equal(t, slo.Counts{Good: 900, Bad: 100}, s.Total)
		}
	}
	require.Equal(t, []string{"MEDCARE", "SOMLT", "~last", slo.OtherGroup}, groups)

	groups = nil
	for _, s := range r.SLAs {
		groups = append(groups, s.Group[0])
		other := s.Group[0] == slo.OtherGroup
		require.Equal(t, other, s.Informative)
		if s.Group[0] != "MEDCARE" {
			require.Equal(t, !other, s.Breached, "%s", s.Group)
			require.Equal(t, r.SLAs[1].Score, s.Score)
		}
	}
	require.Equal(t, []string{"MEDCARE", "SOMLT", "~last", slo.OtherGroup}, groups)
}

func TestCountsOfAnotherShapeAreNoData(t *testing.T) {
	in := process(t)
	old := &fold.Indicator{ID: "unpaid/minutes", Service: "unpaid", Kind: fold.Latency, Edges: []time.Duration{time.Hour}}
	r := answer(t, in, fold.Sums{Groups: []fold.Group{{Indicator: old, Total: []uint64{1, 2}}}},
		func(*fold.Group) []uint64 { return []uint64{1, 2} })
	s := find(r, "unpaid/minutes")
	require.Len(t, s, 1)
	require.Equal(t, slo.StateNoData, s[0].State, "the spec of before is still counted")
}

func TestComponentsOnPrometheusSeriesAreMissing(t *testing.T) {
	in := process(t)
	in.Agreements[0].GroupBy = nil
	in.Agreements[0].Components = append(in.Agreements[0].Components,
		sla.Component{Name: "api", SLO: "unpaid/api", Weight: 30})
	r := answer(t, in, fold.Sums{}, nil)
	require.Len(t, r.SLAs, 1)
	require.Len(t, r.SLAs[0].Components, 4)
	require.Equal(t, "no data, left out of the score", r.SLAs[0].Components[3].Note)
	require.Equal(t, 0.995, r.SLAs[0].Components[3].Objective)
}

func TestAgreementsOnPrometheusSeriesAloneAreLeftOut(t *testing.T) {
	in := process(t)
	alone := *in.Agreements[0]
	alone.Name, alone.GroupBy, alone.NoData, alone.AlertWindow = "alone", nil, sla.NoDataGood, time.Hour
	alone.Components = []sla.Component{{Name: "api", SLO: "unpaid/api", Weight: 30}}
	in.Agreements = append(in.Agreements, &alone)
	r := answer(t, in, fold.Sums{}, nil)
	require.Len(t, r.SLAs, 1)
	require.Equal(t, in.Agreements[0].Name, r.SLAs[0].SLA.Name)
}

func TestTheFirstDayOfACalendarWindowIsJudgedByTheWholeOne(t *testing.T) {
	in := Inputs{SLOs: []*slo.SLO{{
		ID: "a/b", Objective: percent(t, "99.9"), Window: slo.Window{Calendar: slo.Month, Location: time.UTC},
		Indicator: slo.Indicator{Kind: slo.KindEvents, Bad: sel(t, "outcome", "failure")},
	}}}
	cfg, err := Compile(in)
	require.NoError(t, err)
	e, err := New(Options{Source: func(_ context.Context, req fold.Request) (*fold.Sums, error) {
		g := fold.Group{Indicator: &cfg.Indicators[0], Total: []uint64{1, 0}}
		for range req.Spans {
			g.Spans = append(g.Spans, []uint64{99_950, 50}) // burns at half speed
		}
		return &fold.Sums{Groups: []fold.Group{g}}, nil
	}})
	require.NoError(t, err)
	require.NoError(t, e.SetSpec(in))
	r, err := e.Tick(t.Context(), time.Date(2026, 3, 1, 2, 0, 0, 0, time.UTC))
	require.NoError(t, err)
	require.Equal(t, slo.StateOK, r.SLOs[0].State)
	require.Equal(t, 2*time.Hour, r.SLOs[0].Burns[len(slo.BurnWindows)].Window)
	require.InDelta(t, 0.5, r.SLOs[0].Budget.Remaining, 1e-9)
}

func TestTrafficAndDurationsArePassedOn(t *testing.T) {
	sums := fold.Sums{
		Traffic: []fold.Traffic{
			{Service: "unpaid", Type: "task", Outcome: "success", Dimensions: []string{""}, Count: 2},
			{Service: "unpaid", Type: "application", Outcome: "failure", Dimensions: []string{"MDM_ERROR"}, Count: 1},
			{Service: "idle", Type: "x", Outcome: "success", Dimensions: []string{"not known yet"}, Count: 3},
		},
		Durations: []fold.Durations{{Service: "unpaid", Type: "task", Outcome: "failure", Dimensions: []string{"MDM_ERROR"},
			Buckets: []time.Duration{time.Second}, Counts: []uint64{1, 2}, Sum: time.Minute, SumSeconds: 60}},
	}
	r := answer(t, process(t), sums, nil)
	require.Equal(t, []sla.TrafficReport{
		{Service: "idle", Type: "x", Outcome: "success", DimensionNames: nil, DimensionValues: []string{}, Count: 3},
		{Service: "unpaid", Type: "application", Outcome: "failure", DimensionNames: []string{"error_type"},
			DimensionValues: []string{"MDM_ERROR"}, Count: 1},
		{Service: "unpaid", Type: "task", Outcome: "success", DimensionNames: []string{"error_type"},
			DimensionValues: []string{""}, Count: 2},
	}, r.Traffic)
	require.Equal(t, []sla.DurationReport{{
		Service: "unpaid", Type: "task", Outcome: "failure", DimensionNames: []string{"error_type"},
		DimensionValues: []string{"MDM_ERROR"},
		Buckets:         []time.Duration{time.Second}, Counts: []uint64{1, 2}, Sum: time.Minute, SumSeconds: 60,
	}}, r.Durations)
}

func TestLimitsByLevel(t *testing.T) {
	in := process(t)
	cfg, err := Compile(in)
	require.NoError(t, err)
	var sums fold.Sums
	for i := range cfg.Indicators {
		if ind := &cfg.Indicators[i]; ind.Retention == thresholdMonth+retentionMargin {
			sums.Groups = append(sums.Groups, fold.Group{Indicator: ind, Total: []uint64{10, 3, 2}[:max(2, len(ind.Edges)+1)]})
		}
	}
	r := answer(t, in, sums, func(g *fold.Group) []uint64 { return []uint64{5, 2, 1}[:len(g.Total)] })
	want := map[string]sla.Violations{
		"anything":          {Within: 5, Warning: 2},
		"createApplication": {Within: 5, Warning: 2},
		"lost":              {Within: 5, Critical: 2},
		"processing":        {Within: 5, Warning: 2, Critical: 1},
	}
	for _, l := range r.Thresholds {
		require.Equal(t, want[l.Threshold.Name], l.Day, l.Threshold.Name)
		require.Equal(t, uint64(10), l.Total.Within, l.Threshold.Name)
		require.Nil(t, l.Groups)
	}
}
