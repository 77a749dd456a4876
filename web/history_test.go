package web

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/testkit/slotest"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/history"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/chart"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/site"
	"github.com/sloengine/sloengine/web/ui"
)

func between(from, to time.Duration) slo.Span {
	return slo.Span{From: noon.Add(from), To: noon.Add(to)}
}

func TestAttributes(t *testing.T) {
	rep := insurance(t)
	r := site.FindSLO(rep, "insurance-unpaid/availability", slo.Group{"TRVL10"})
	series := func(outcome, severity, kind, product string) history.TrafficSeries {
		return history.TrafficSeries{Service: "insurance-unpaid", Type: "application", Outcome: outcome, Severity: severity,
			Names: []string{"error_type", "product"}, Values: []string{kind, product}}
	}
	grown := []history.Growth{
		{TrafficSeries: series("failure", "critical", "timeout", "TRVL10"), Count: 6},
		{TrafficSeries: series("failure", "critical", "db", "TRVL10"), Count: 2},
		{TrafficSeries: series("failure", "business", "too old", "TRVL10"), Count: 90},
		{TrafficSeries: series("success", "", "", "TRVL10"), Count: 5000},
		{TrafficSeries: series("failure", "critical", "timeout", "SOMLT"), Count: 50},
	}
	b := &ui.Attribution{}
	b.Attribute(r, grown)
	require.Len(t, b.Attributes, 1, "product is the same for all, type and outcome were selected")
	a := b.Attributes[0]
	require.Equal(t, "error_type", a.Name)
	require.Equal(t, []string{"6", "2"}, []string{a.Values[0].Bad, a.Values[1].Bad})
	require.Equal(t, "75.0%", a.Values[0].Part)
	require.Equal(t, format.Percent(6/(96151*0.001), 1), a.Values[0].Consumed, "of the budget of the window")

	b = &ui.Attribution{}
	b.Attribute(r, grown[3:4])
	require.Contains(t, b.Why, "No bad event")

	// Counters without the label of the group say nothing of it.
	for i := range grown {
		grown[i].Names, grown[i].Values = []string{"error_type"}, grown[i].Values[:1]
	}
	b = &ui.Attribution{}
	b.Attribute(r, grown)
	require.Empty(t, b.Attributes)
	require.Contains(t, b.Why, "not split by product")

	for id, want := range map[slo.ID]string{"insurance-unpaid/latency": "without durations",
		"insurance-unpaid/throughput": "missing events have no attributes"} {
		b = &ui.Attribution{}
		b.Attribute(site.FindSLO(rep, id, slo.Group{"TRVL10"}), grown)
		require.Contains(t, b.Why, want)
		require.Empty(t, b.Attributes)
	}
	other := *r.SLO
	other.Indicator.Valid = slo.Selector{slotest.Matcher(t, "task", slo.OpEqual, "sign")}
	require.Contains(t, ui.Unattributable(&other, []string{"error_type"}), "by task")
	require.Empty(t, ui.Unattributable(&other, []string{"task"}))
}

func TestGroupShares(t *testing.T) {
	b := newBench(t)
	groups, total := ui.WorstGroups(b.rep, "insurance-unpaid/availability")
	require.Equal(t, 3, total)
	require.Equal(t, slo.Group{"MEDCARE"}, groups[0].Group, "most bad events over the window")
	tallies := map[string]history.Tally{"MEDCARE": {Counts: slo.Counts{Good: 900, Bad: 10}},
		"SOMLT": {Counts: slo.Counts{Good: 10, Bad: 30}}, "TRVL10": {}}
	var ps []history.Point
	for _, g := range groups {
		ps = append(ps, history.Point{Net: tallies[g.Group[0]]})
	}
	got := b.web.ui.GroupShares(groups[0], groups, ps)
	require.Equal(t, []string{"75.0%", "25.0%", "0.0%"}, []string{got[0].Part, got[1].Part, got[2].Part})
	require.True(t, got[1].Here)
	require.Equal(t, format.Percent(30/(411003*0.001), 1), got[0].Consumed)
	require.True(t, math.Abs(chart.Spent(groups[1], 411.003)-1) < 1e-9, "so many bad events are all of the budget")
}

func trafficReport(at time.Time, counts map[string]uint64) *sla.Report {
	rep := &sla.Report{Time: at}
	for kind, n := range counts {
		outcome, severity := "failure", "critical"
		if kind == "fine" {
			outcome, severity = "success", ""
		}
		rep.Traffic = append(rep.Traffic,
			sla.TrafficReport{Service: "insurance-unpaid", Type: "application", Outcome: outcome, Severity: severity,
				DimensionNames: []string{"error_type"}, DimensionValues: []string{kind}, Count: n})
	}
	return rep
}
