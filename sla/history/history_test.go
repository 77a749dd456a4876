package history

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/testkit/slotest"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
)

var noon = time.Date(2026, 11, 20, 12, 0, 7, 0, time.UTC)

func between(from, to time.Duration) slo.Span {
	return slo.Span{From: noon.Add(from), To: noon.Add(to)}
}

func TestDayGrid(t *testing.T) {
	none := func(slo.Span) []slo.Span { return nil }
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	g := DayGrid(noon, berlin, 90, none)
	require.Len(t, g.Steps, 90)
	require.Equal(t, noon, g.Steps[89].To.UTC(), "today ends now")
	for i, sp := range g.Steps[:89] {
		want := 24 * time.Hour
		if sp.From.In(berlin).Format(time.DateOnly) == "2026-10-25" {
			want = 25 * time.Hour // the clocks are set back
		}
		require.Equal(t, want, sp.Duration(), "%s", sp.From)
		require.Equal(t, g.Steps[i+1].From, sp.To, "no time is left out")
		require.Equal(t, "00:00", sp.From.In(berlin).Format("15:04"))
	}
}

func TestGridTakesOutMaintenance(t *testing.T) {
	at := func(min int) time.Time { return time.Date(2026, 11, 20, 0, min, 0, 0, time.UTC) }
	g := NewGrid(slo.Span{From: at(0), To: at(50)}, 20*time.Minute,
		[]slo.Span{{From: at(10), To: at(30)}, {From: at(45), To: at(60)}})
	require.Equal(t, []slo.Span{{From: at(0), To: at(20)}, {From: at(20), To: at(40)}, {From: at(40), To: at(50)}},
		g.Steps, "the last step is shorter")
	require.Equal(t, []slo.Span{{From: at(10), To: at(20)}, {From: at(20), To: at(30)}, {From: at(45), To: at(50)}}, g.Out)
	require.Equal(t, []int{0, 1, 2}, g.of)

	a := &fold.ReadResult{Oldest: at(20), Observed: []slo.Span{{From: at(30), To: at(50)}}}
	ps := g.Points(&slo.SLO{Indicator: slo.Indicator{Kind: slo.KindEvents}}, nil, a,
		[][]uint64{{0, 0}, {100, 7}, {50, 3}, {0, 0}, {40, 5}, {1, 1}})
	require.False(t, ps[0].Kept)
	require.True(t, ps[1].Kept)
	require.InDelta(t, 0.5, ps[1].Seen, 1e-9)
	require.Equal(t, slo.Counts{Good: 100, Bad: 7}, ps[1].Raw.Counts)
	require.Equal(t, slo.Counts{Good: 60, Bad: 2}, ps[1].Net.Counts)
	require.Equal(t, slo.Counts{Good: 49, Bad: 2}, ps[2].Net.Counts)

	kept := func(oldest time.Time, good uint64) bool {
		a, g := &fold.ReadResult{Oldest: oldest}, NewGrid(slo.Span{From: at(0), To: at(20)}, 20*time.Minute, nil)
		return g.Points(&slo.SLO{Indicator: slo.Indicator{Kind: slo.KindEvents}}, nil, a, [][]uint64{{good, 0}})[0].Kept
	}
	require.Equal(t, []bool{true, true, false}, []bool{kept(at(0), 0), kept(at(10), 1), kept(at(10), 0)})

	// What came between two looks does not make a count wrap.
	require.Equal(
		t, Tally{}, Tally{Counts: slo.Counts{Good: 1}}.Minus(Tally{Counts: slo.Counts{Good: 5, Bad: 2}, ratio: 3}))
}

func TestTallyCountsAsTheEngineDoes(t *testing.T) {
	s := &slo.SLO{Objective: slotest.Objective(t, "90"), Budgeting: slo.Budgeting{Method: slo.RatioTimeslices},
		Indicator: slo.Indicator{Kind: slo.KindEvents}}
	sliced := NewTally(s, &fold.ReadResult{Sliced: true}, []uint64{3, 1, 0, 0, 3_800_000_000})
	require.InDelta(t, 0.2, sliced.Loss(s), 1e-9, "the mean of the slices' ratios counts")
	require.InDelta(t, 0.5, sliced.Budget(s).Consumed, 1e-9)
	s.Budgeting.Method = slo.Timeslices
	require.InDelta(t, 1.0, sliced.Loss(s), 1e-9)
	require.InDelta(t, 2.5, sliced.Budget(s).Consumed, 1e-9)
	require.Equal(t, Tally{}, NewTally(s, &fold.ReadResult{}, nil))
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
		got := StepFor(sp, noon, c.slice)
		if c.want == 0 {
			require.Zero(t, got%c.slice, "whole slices")
		} else {
			require.Equal(t, c.want, got, "%s of slices of %s", c.span, c.slice)
		}
		require.LessOrEqual(t, sp.Duration(), MaxSteps*got)
	}
}

func TestObservedShare(t *testing.T) {
	o := Observed{between(-10*time.Hour, -8*time.Hour), between(-6*time.Hour, -5*time.Hour), between(-4*time.Hour, 0)}
	for _, c := range []struct {
		sp   slo.Span
		want float64
	}{
		{between(-12*time.Hour, -10*time.Hour), 0}, {between(-10*time.Hour, -8*time.Hour), 1},
		{between(-8*time.Hour, -6*time.Hour), 0},
		{between(-9*time.Hour, -5*time.Hour), 0.5}, {between(-6*time.Hour, 0), 5.0 / 6}, {between(time.Hour, 2*time.Hour), 0},
		{between(0, 0), 1},
	} {
		require.InDelta(t, c.want, o.Share(c.sp), 1e-9, "%v", c.sp)
	}
}

func TestQuantiles(t *testing.T) {
	h := Histogram{edges: []time.Duration{time.Minute, 5 * time.Minute, 15 * time.Minute},
		below: []uint64{50, 90, 98}, Total: 100}
	for _, c := range []struct {
		q         float64
		low, high time.Duration
		value     time.Duration
	}{
		{0.50, 0, time.Minute, time.Minute},
		{0.25, 0, time.Minute, 30 * time.Second},
		{0.70, time.Minute, 5 * time.Minute, 3 * time.Minute},
		{0.94, 5 * time.Minute, 15 * time.Minute, 10 * time.Minute},
		{0.99, 15 * time.Minute, 0, 15 * time.Minute},
	} {
		got := h.Quantile(c.q)
		require.Equal(t, Quantile{c.low, c.high, got.Value, true}, got, "%g", c.q)
		require.InDelta(t, c.value.Seconds(), got.Value.Seconds(), 0.001, "%g: as histogram_quantile interpolates", c.q)
	}
	require.False(t, (&Histogram{edges: h.edges, below: []uint64{0, 0, 0}}).Quantile(0.5).OK)
	h.below[0] = 55
	require.Equal(t, time.Minute, h.Quantile(0.55).High, "0.55 x 100 is 55, though not in floats")

	// A quantile lies between the bounds that are given, whatever the counts.
	for n := range uint64(40) {
		h := Histogram{edges: []time.Duration{time.Second, time.Minute}, below: []uint64{n / 3, n / 2}, Total: n}
		for _, q := range []float64{0, 0.5, 0.95, 0.99, 1} {
			if got := h.Quantile(q); got.OK {
				require.GreaterOrEqual(t, got.Value, got.Low)
				require.True(t, got.High == 0 && got.Value == got.Low || got.Value <= got.High)
			}
		}
	}
}

func TestMergeHistograms(t *testing.T) {
	min := func(n int) time.Duration { return time.Duration(n) * time.Minute }
	own := HistogramSource{[]time.Duration{min(15)}, [][]uint64{{90, 10}, {40, 10}, {0, 0}}}
	bands := HistogramSource{
		[]time.Duration{min(5), min(15), min(30)}, [][]uint64{{60, 30, 6, 4}, {1, 1, 1, 0}, {0, 0, 0, 0}}}
	edges, hs := MergeHistograms([]HistogramSource{own, bands}, 3)
	require.Equal(t, []time.Duration{min(5), min(15), min(30)}, edges)
	require.Equal(t, Histogram{[]time.Duration{min(5), min(15), min(30)}, []uint64{60, 90, 96}, 100}, hs[0])
	require.Equal(t, Histogram{[]time.Duration{min(15)}, []uint64{40}, 50}, hs[1], "a counter that saw less is left out")
	x, ok := hs[0].Share(min(5), min(15))
	require.True(t, ok)
	require.InDelta(t, 0.3, x, 1e-9)
	x, ok = hs[0].Share(min(30), 0)
	require.True(t, ok)
	require.InDelta(t, 0.04, x, 1e-9)
	_, ok = hs[1].Share(0, min(5))
	require.False(t, ok, "that threshold is not known in this step")
	_, ok = hs[2].Share(0, min(5))
	require.False(t, ok, "no events")
	edges, hs = MergeHistograms(nil, 2)
	require.Empty(t, edges)
	require.Len(t, hs, 2)
}

func TestTrafficLog(t *testing.T) {
	l := NewTrafficLog()
	grown, from, _ := l.Between("insurance-unpaid", noon.Add(-time.Hour), noon)
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
		grown, _, _ := l.Between("insurance-unpaid", noon.Add(from), noon.Add(to))
		for _, g := range grown {
			out[g.Values[0]] = g.Count
		}
		return out
	}
	require.Equal(t, map[string]uint64{"fine": 300, "timeout": 150}, got(-30*time.Minute, 0))
	require.Equal(t, map[string]uint64{"fine": 1200, "timeout": 305}, got(-24*time.Hour, 0),
		"as far back as it goes; a series that is new counts from nothing")
	require.Empty(t, got(-30*time.Hour, -20*time.Hour))
	grown, _, _ = l.Between("other", noon.Add(-time.Hour), noon)
	require.Empty(t, grown)
	_, from, to := l.Between("insurance-unpaid", noon.Add(-24*time.Hour), noon.Add(time.Hour))
	require.Equal(t, noon.Add(-2*time.Hour), from)
	require.Equal(t, noon, to)

	// A counter that fell was reset, and a clock that was set back starts over.
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
	grown, from, _ := l.Between("insurance-unpaid", noon, noon.Add(31*24*time.Hour))
	require.Equal(t, noon, from)
	require.Equal(t, uint64(30*24*60-1), grown[0].Count, "thinning loses no event")

	wide := map[string]uint64{}
	for i := range maxTrafficSeries + 500 {
		wide[fmt.Sprint("e", i)] = 1
	}
	m := NewTrafficLog()
	m.Observe(trafficReport(noon, wide))
	require.Len(t, m.series, maxTrafficSeries)
	require.LessOrEqual(t, len(m.samples[0].counts), maxTrafficSeries)
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
