package web

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
	"github.com/sloengine/sloengine/web/format"
)

func between(from, to time.Duration) slo.Span {
	return slo.Span{From: noon.Add(from), To: noon.Add(to)}
}

func TestGridTakesOutMaintenance(t *testing.T) {
	at := func(min int) time.Time { return time.Date(2026, 11, 20, 0, min, 0, 0, time.UTC) }
	g := newGrid(slo.Span{From: at(0), To: at(50)}, 20*time.Minute, []slo.Span{{From: at(10), To: at(30)}, {From: at(45), To: at(60)}})
	require.Equal(t, []slo.Span{{From: at(0), To: at(20)}, {From: at(20), To: at(40)}, {From: at(40), To: at(50)}}, g.steps, "the last step is shorter")
	require.Equal(t, []slo.Span{{From: at(10), To: at(20)}, {From: at(20), To: at(30)}, {From: at(45), To: at(50)}}, g.out)
	require.Equal(t, []int{0, 1, 2}, g.of)

	a := &fold.ReadResult{Oldest: at(20), Observed: []slo.Span{{From: at(30), To: at(50)}}}
	ps := g.points(a, [][]uint64{{0, 0}, {100, 7}, {50, 3}, {0, 0}, {40, 5}, {1, 1}})
	require.False(t, ps[0].kept)
	require.True(t, ps[1].kept)
	require.InDelta(t, 0.5, ps[1].seen, 1e-9)
	require.Equal(t, slo.Counts{Good: 100, Bad: 7}, ps[1].raw.Counts)
	require.Equal(t, slo.Counts{Good: 60, Bad: 2}, ps[1].net.Counts)
	require.Equal(t, slo.Counts{Good: 49, Bad: 2}, ps[2].net.Counts)
	require.Equal(t, []string{"not kept", "no data", "no data"}, []string{absence(ps[0]), absence(ps[1]), absence(ps[2])})
	require.Equal(t, "not observed", absence(point{kept: true, seen: 0.2}))

	// What came between two looks does not make a count wrap.
	require.Equal(t, tally{}, tally{Counts: slo.Counts{Good: 1}}.sub(tally{Counts: slo.Counts{Good: 5, Bad: 2}, ratio: 3}))
}

func TestTallyCountsAsTheEngineDoes(t *testing.T) {
	s := &slo.SLO{Objective: objective(t, "90"), Budgeting: slo.Budgeting{Method: slo.RatioTimeslices}, Indicator: slo.Indicator{Kind: slo.KindEvents}}
	sliced := newTally(&fold.ReadResult{Sliced: true}, []uint64{3, 1, 0, 0, 3_800_000_000})
	require.InDelta(t, 0.2, sliced.loss(s), 1e-9, "the mean of the slices' ratios counts")
	require.InDelta(t, 0.5, sliced.budget(s).Consumed, 1e-9)
	s.Budgeting.Method = slo.Timeslices
	require.InDelta(t, 1.0, sliced.loss(s), 1e-9)
	require.InDelta(t, 2.5, sliced.budget(s).Consumed, 1e-9)
	require.Equal(t, tally{}, newTally(&fold.ReadResult{}, nil))
}

func TestStepFor(t *testing.T) {
	for _, c := range []struct {
		span, ago, slice, want time.Duration
	}{
		{time.Hour, 0, 0, time.Minute},
		{6 * time.Hour, 0, 0, 2 * time.Minute},
		{24 * time.Hour, 0, 0, 10 * time.Minute},
		{7 * 24 * time.Hour, 0, 0, time.Hour},
		{30 * 24 * time.Hour, 0, 0, 4 * time.Hour},
		{90 * 24 * time.Hour, 0, 0, 12 * time.Hour},
		{time.Hour, 10 * 24 * time.Hour, 0, 5 * time.Minute}, // no finer than what is kept
		{time.Hour, 0, 7 * time.Minute, 0},
		{24 * time.Hour, 0, time.Minute, 10 * time.Minute},
		{400 * 24 * time.Hour, 0, 0, 48 * time.Hour},
	} {
		sp := slo.Span{From: noon.Add(-c.ago - c.span), To: noon.Add(-c.ago)}
		got := stepFor(sp, noon, c.slice)
		if c.want == 0 {
			require.Zero(t, got%c.slice, "whole slices")
		} else {
			require.Equal(t, c.want, got, "%s of slices of %s", c.span, c.slice)
		}
		require.LessOrEqual(t, sp.Duration(), mostSteps*got)
	}
}

func TestObservedShare(t *testing.T) {
	o := observed{between(-10*time.Hour, -8*time.Hour), between(-6*time.Hour, -5*time.Hour), between(-4*time.Hour, 0)}
	for _, c := range []struct {
		sp   slo.Span
		want float64
	}{
		{between(-12*time.Hour, -10*time.Hour), 0}, {between(-10*time.Hour, -8*time.Hour), 1}, {between(-8*time.Hour, -6*time.Hour), 0},
		{between(-9*time.Hour, -5*time.Hour), 0.5}, {between(-6*time.Hour, 0), 5.0 / 6}, {between(time.Hour, 2*time.Hour), 0}, {between(0, 0), 1},
	} {
		require.InDelta(t, c.want, o.share(c.sp), 1e-9, "%v", c.sp)
	}
}

func TestQuantiles(t *testing.T) {
	h := histogram{edges: []time.Duration{time.Minute, 5 * time.Minute, 15 * time.Minute}, below: []uint64{50, 90, 98}, total: 100}
	for _, c := range []struct {
		q         float64
		low, high time.Duration
		value     time.Duration
		within    string
		about     string
	}{
		{0.50, 0, time.Minute, time.Minute, "up to 1m", "≈ 1m"},
		{0.25, 0, time.Minute, 30 * time.Second, "up to 1m", "≈ 30s"},
		{0.70, time.Minute, 5 * time.Minute, 3 * time.Minute, "1m to 5m", "≈ 3m"},
		{0.94, 5 * time.Minute, 15 * time.Minute, 10 * time.Minute, "5m to 15m", "≈ 10m"},
		{0.99, 15 * time.Minute, 0, 15 * time.Minute, "over 15m", "> 15m"},
	} {
		got := h.quantile(c.q)
		require.Equal(t, quantile{c.low, c.high, got.Value, true}, got, "%g", c.q)
		require.InDelta(t, c.value.Seconds(), got.Value.Seconds(), 0.001, "%g: as histogram_quantile interpolates", c.q)
		require.Equal(t, c.within, got.within())
		require.Equal(t, c.about, got.about())
	}
	require.False(t, (&histogram{edges: h.edges, below: []uint64{0, 0, 0}}).quantile(0.5).OK)
	require.Equal(t, format.NoValue, quantile{}.within())

	// A quantile lies between the bounds that are given, whatever the counts.
	for n := range uint64(40) {
		h := histogram{edges: []time.Duration{time.Second, time.Minute}, below: []uint64{n / 3, n / 2}, total: n}
		for _, q := range []float64{0, 0.5, 0.95, 0.99, 1} {
			if got := h.quantile(q); got.OK {
				require.GreaterOrEqual(t, got.Value, got.Low)
				require.True(t, got.High == 0 && got.Value == got.Low || got.Value <= got.High)
			}
		}
	}
}

func TestMergeHistograms(t *testing.T) {
	min := func(n int) time.Duration { return time.Duration(n) * time.Minute }
	own := histogramSource{[]time.Duration{min(15)}, [][]uint64{{90, 10}, {40, 10}, {0, 0}}}
	bands := histogramSource{[]time.Duration{min(5), min(15), min(30)}, [][]uint64{{60, 30, 6, 4}, {1, 1, 1, 0}, {0, 0, 0, 0}}}
	edges, hs := mergeHistograms([]histogramSource{own, bands}, 3)
	require.Equal(t, []time.Duration{min(5), min(15), min(30)}, edges)
	require.Equal(t, histogram{[]time.Duration{min(5), min(15), min(30)}, []uint64{60, 90, 96}, 100}, hs[0])
	require.Equal(t, histogram{[]time.Duration{min(15)}, []uint64{40}, 50}, hs[1], "a counter that saw less is left out")
	x, ok := hs[0].share(min(5), min(15))
	require.True(t, ok)
	require.InDelta(t, 0.3, x, 1e-9)
	x, ok = hs[0].share(min(30), 0)
	require.True(t, ok)
	require.InDelta(t, 0.04, x, 1e-9)
	_, ok = hs[1].share(0, min(5))
	require.False(t, ok, "that threshold is not known in this step")
	_, ok = hs[2].share(0, min(5))
	require.False(t, ok, "no events")
	edges, hs = mergeHistograms(nil, 2)
	require.Empty(t, edges)
	require.Len(t, hs, 2)
}

func TestTook(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0", 250 * time.Microsecond: "250µs", 250 * time.Millisecond: "250ms", 1500 * time.Millisecond: "1.5s", 42 * time.Second: "42s", 90 * time.Second: "1m 30s", 15 * time.Minute: "15m", 26 * time.Hour: "1d 2h",
	} {
		require.Equal(t, want, format.Took(d))
	}
}

func trafficReport(at time.Time, counts map[string]uint64) *sla.Report {
	rep := &sla.Report{Time: at}
	for kind, n := range counts {
		outcome, severity := "failure", "critical"
		if kind == "fine" {
			outcome, severity = "success", ""
		}
		rep.Traffic = append(rep.Traffic, sla.TrafficReport{Service: "insurance-unpaid", Type: "application", Outcome: outcome, Severity: severity, DimensionNames: []string{"error_type"}, DimensionValues: []string{kind}, Count: n})
	}
	return rep
}

func TestTrafficLog(t *testing.T) {
	l := NewTrafficLog()
	grown, from, _ := l.between("insurance-unpaid", noon.Add(-time.Hour), noon)
	require.Empty(t, grown)
	require.True(t, from.IsZero())
	for i := range 121 {
		counts := map[string]uint64{"fine": uint64(1000 + 10*i)}
		if i >= 60 {
			counts["timeout"] = uint64(5 * (i - 59))
		}
		at := noon.Add(time.Duration(i-120) * time.Minute)
		l.Observe(trafficReport(at, counts))
		l.Observe(trafficReport(at.Add(10*time.Second), map[string]uint64{"fine": 1})) // within the minute: not looked at
	}
	got := func(from, to time.Duration) map[string]uint64 {
		out := map[string]uint64{}
		grown, _, _ := l.between("insurance-unpaid", noon.Add(from), noon.Add(to))
		for _, g := range grown {
			out[g.values[0]] = g.count
		}
		return out
	}
	require.Equal(t, map[string]uint64{"fine": 300, "timeout": 150}, got(-30*time.Minute, 0))
	require.Equal(t, map[string]uint64{"fine": 1200, "timeout": 305}, got(-24*time.Hour, 0), "as far back as it goes; a series that is new counts from nothing")
	require.Empty(t, got(-30*time.Hour, -20*time.Hour))
	grown, _, _ = l.between("other", noon.Add(-time.Hour), noon)
	require.Empty(t, grown)
	_, from, to := l.between("insurance-unpaid", noon.Add(-24*time.Hour), noon.Add(time.Hour))
	require.Equal(t, noon.Add(-2*time.Hour), from)
	require.Equal(t, noon, to)

	// A counter that fell began anew, and a clock that was set back starts over.
	l.Observe(trafficReport(noon.Add(time.Minute), map[string]uint64{"fine": 4}))
	require.Equal(t, uint64(4), got(-time.Minute, time.Minute)["fine"])
	l.Observe(trafficReport(noon.Add(-time.Hour), map[string]uint64{"fine": 4}))
	require.Len(t, l.samples, 1)
}

func TestTrafficLogIsBounded(t *testing.T) {
	l := NewTrafficLog()
	for i := range 30 * 24 * 60 {
		l.Observe(trafficReport(noon.Add(time.Duration(i)*time.Minute), map[string]uint64{"fine": uint64(i)}))
	}
	require.Less(t, len(l.samples), maxTrafficSamples)
	for i := 1; i < len(l.samples); i++ {
		gap, age := l.samples[i].at.Sub(l.samples[i-1].at), l.samples[len(l.samples)-1].at.Sub(l.samples[i].at)
		require.LessOrEqual(t, gap, spacing(age+gap)+time.Minute, "age %s", age)
	}
	grown, from, _ := l.between("insurance-unpaid", noon, noon.Add(31*24*time.Hour))
	require.Equal(t, noon, from)
	require.Equal(t, uint64(30*24*60-1), grown[0].count, "thinning loses no event")

	wide := map[string]uint64{}
	for i := range maxTrafficSeries + 500 {
		wide[fmt.Sprint("e", i)] = 1
	}
	m := NewTrafficLog()
	m.Observe(trafficReport(noon, wide))
	require.Len(t, m.series, maxTrafficSeries)
	require.LessOrEqual(t, len(m.samples[0].counts), maxTrafficSeries)
}

func TestAttributes(t *testing.T) {
	rep := insurance(t)
	r := find(rep, "insurance-unpaid/availability", slo.Group{"TRVL10"})
	series := func(outcome, severity, kind, product string) trafficSeries {
		return trafficSeries{"insurance-unpaid", "application", outcome, severity, []string{"error_type", "product"}, []string{kind, product}}
	}
	grown := []trafficGrowth{
		{series("failure", "critical", "timeout", "TRVL10"), 6}, {series("failure", "critical", "db", "TRVL10"), 2}, {series("failure", "business", "too old", "TRVL10"), 90},
		{series("success", "", "", "TRVL10"), 5000}, {series("failure", "critical", "timeout", "SOMLT"), 50},
	}
	b := &blame{}
	b.attributes(r, grown)
	require.False(t, b.Whole)
	require.Len(t, b.Attributes, 1, "product is the same for all, type and outcome were selected")
	a := b.Attributes[0]
	require.Equal(t, "error_type", a.Name)
	require.Equal(t, []string{"6", "2"}, []string{a.Values[0].Bad, a.Values[1].Bad})
	require.Equal(t, "75.0%", a.Values[0].Part)
	require.Equal(t, format.Percent(6/(96151*0.001), 1), a.Values[0].Consumed, "of the budget of the window")

	// Counters without the label of the group give the whole, and say so.
	for i := range grown {
		grown[i].names, grown[i].values = []string{"error_type"}, grown[i].values[:1]
	}
	b = &blame{}
	b.attributes(r, grown)
	require.True(t, b.Whole)
	require.Equal(t, "56", b.Attributes[0].Values[0].Bad)
	require.Equal(t, format.NoValue, b.Attributes[0].Values[0].Consumed)
	require.Contains(t, b.Why, "not split by product")

	for id, want := range map[slo.ID]string{"insurance-unpaid/latency": "without durations", "insurance-unpaid/throughput": "did not come"} {
		b = &blame{}
		b.attributes(find(rep, id, slo.Group{"TRVL10"}), grown)
		require.Contains(t, b.Why, want)
		require.Empty(t, b.Attributes)
	}
	other := *r.SLO
	other.Indicator.Valid = slo.Selector{matcher(t, "task", slo.OpEqual, "sign")}
	require.Contains(t, unattributable(&other, []string{"error_type"}), "by task")
	require.Empty(t, unattributable(&other, []string{"task"}))
	b = &blame{}
	b.attributes(r, grown[3:4])
	require.Contains(t, b.Why, "No bad event")
}

func TestGroupShares(t *testing.T) {
	b := newBench(t)
	groups, total := blamed(b.rep, "insurance-unpaid/availability")
	require.Equal(t, 3, total)
	require.Equal(t, slo.Group{"MEDCARE"}, groups[0].Group, "most bad events over the window")
	tallies := map[string]tally{"MEDCARE": {Counts: slo.Counts{Good: 900, Bad: 10}}, "SOMLT": {Counts: slo.Counts{Good: 10, Bad: 30}}, "TRVL10": {}}
	var ps []point
	for _, g := range groups {
		ps = append(ps, point{net: tallies[g.Group[0]]})
	}
	got := b.web.groupShares(groups[0], groups, ps)
	require.Equal(t, []string{"75.0%", "25.0%", "0.0%"}, []string{got[0].Part, got[1].Part, got[2].Part})
	require.True(t, got[1].Here)
	require.Equal(t, format.Percent(30/(411003*0.001), 1), got[0].Consumed)
	require.True(t, math.Abs(spent(groups[1], 411.003)-1) < 1e-9, "so many bad events are all of the budget")
}
