package chart

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/internal/testkit/slotest"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/forecast"
	"github.com/sloengine/sloengine/sla/history"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
	"github.com/sloengine/sloengine/web/format"
)

func TestScale(t *testing.T) {
	s := Scale{min: -1, Max: 1, Height: 100}
	require.InDelta(t, 50, s.Y(0), 1e-9)
	require.InDelta(t, 0, s.Y(7), 1e-9, "nothing is drawn outside")
	require.InDelta(t, 100, s.Y(-7), 1e-9)
	asinh := Scale{Max: 100, Height: 100, Asinh: true}
	require.Less(t, asinh.Y(1), 90.0, "1 is well above the ground although 100 is in sight")
	require.Greater(t, asinh.Y(1), asinh.Y(14.4))
	require.InDelta(t, 40, Scale{Height: 40}.Y(0), 1e-9, "a scale without extent")
}

func TestTicks(t *testing.T) {
	require.Equal(t, []float64{0, 50, 100, 150}, roundTicks(180, 3))
	require.Equal(t, []float64{0, 0.5, 1}, roundTicks(1.05, 2))
	require.Equal(t, []float64{0}, roundTicks(0, 3))
	require.Equal(t, []float64{0}, roundTicks(math.NaN(), 3))
	require.Equal(t, []float64{0, 0.25, 0.5, 0.75, 1}, budgetTicks(0))
	require.Equal(t, []float64{-0.5, 0, 0.25, 0.5, 0.75, 1}, budgetTicks(-0.7))
	require.Equal(t, []float64{-4, -2, 0, 1}, budgetTicks(-4.4))

	texts := func(sp slo.Span, loc *time.Location) (out []string) {
		for _, k := range (timeline{sp}).xTicks(loc) {
			out = append(out, k.Text)
		}
		return out
	}
	require.Equal(t, []string{"20 Nov", "02:00", "04:00", "06:00"}, texts(between(-13*time.Hour, 0), time.UTC)[:4])
	moscow, err := time.LoadLocation("Europe/Moscow")
	require.NoError(t, err)
	require.Equal(t, "20 Nov", texts(between(-15*time.Hour-time.Minute, 0), moscow)[0], "midnight of the zone")
	for _, d := range []time.Duration{5 * time.Minute, time.Hour, 25 * time.Hour, 8 * 24 * time.Hour, 90 * 24 * time.Hour,
		400 * 24 * time.Hour} {
		n := len(texts(between(-d, 0), time.UTC))
		require.True(t, n >= 2 && n <= 8, "%s: %d", d, n)
	}
	crowded := Scale{Max: 1, Height: 10}.yTicks([]float64{0, 0.3, 0.6, 0.9}, format.WrittenPercent)
	require.Len(t, crowded, 1, "labels never touch")
}

func TestPlotData(t *testing.T) {
	g := history.NewGrid(between(-2*time.Minute, 0), time.Minute, nil)
	d := NewData(true, "count", &g)
	d.Series = []Series{{Name: "good", V: []Number{1.0 / 3, missing, Number(math.Inf(1))}}}
	var got map[string]any
	require.NoError(t, json.Unmarshal([]byte(d.json()), &got))
	require.Equal(t, []any{0.333333, nil, nil}, got["series"].([]any)[0].(map[string]any)["v"])
	require.Equal(t, float64(60), got["every"])
}

// counted makes points of an hour each that end at noon, oldest first.
func counted(of ...slo.Counts) []history.Point {
	var out []history.Point
	for i, c := range of {
		at := time.Duration(i-len(of)) * time.Hour
		out = append(out, history.Point{Span: between(at, at+time.Hour), Raw: history.Tally{Counts: c},
			Net: history.Tally{Counts: c}, Seen: 1, Kept: true})
	}
	return out
}

// The step that is running shows an outage as soon as it has enough events, and is drawn as one that is not over.
func TestRunningStep(t *testing.T) {
	draw := func(last slo.Counts, sofar time.Duration) Figure {
		points := counted(slo.Counts{Good: 1000, Bad: 1}, slo.Counts{Good: 999, Bad: 1}, last)
		points[2].To = points[2].From.Add(sofar)
		g := history.Grid{Span: slo.Span{From: points[0].From, To: points[2].To}, Step: time.Hour}
		r := &sla.SLOReport{SLO: &slo.SLO{ID: "shop/checkout", Objective: slotest.Objective(t, "99")}}
		return NewEvents(r, &g, points, Shades{}, points[2].To)
	}
	for name, c := range map[string]struct {
		last  slo.Counts
		sofar time.Duration
		worst string
	}{
		"outage":                       {slo.Counts{Good: 40, Bad: 40}, 5 * time.Minute, "Worst: 50.00% bad at 11:00 UTC."},
		"too little to tell":           {slo.Counts{Good: 4, Bad: 4}, 5 * time.Minute, "Worst: 0.10% bad at 10:00 UTC."},
		"little, but of half the step": {slo.Counts{Good: 4, Bad: 4}, 30 * time.Minute, "Worst: 50.00% bad at 11:00 UTC."},
	} {
		f := draw(c.last, c.sofar)
		require.Contains(t, f.Caption, c.worst, name)
		require.Contains(t, f.Keys, key{"running", "not over yet"}, name)
		require.Equal(t, []string{"good", "bad", "good running", "bad running"}, classes(f.Plots[0]), name)
		require.Equal(t, []string{"some", "bad running"}, classes(f.Plots[1]), name)
	}
	f := draw(slo.Counts{Good: 50, Bad: 50}, time.Hour)
	require.NotContains(t, f.Keys, key{"running", "not over yet"})
	require.Equal(t, []string{"good", "bad"}, classes(f.Plots[0]))
}

// classes are those of the fills that draw something.
func classes(p plot) (out []string) {
	for _, f := range p.Fills {
		if f.D != "" {
			out = append(out, f.Class)
		}
	}
	return out
}

func TestBurnDownEndsAtTheReport(t *testing.T) {
	s := &slo.SLO{Objective: slotest.Objective(t, "99"), Window: slo.Window{Rolling: 4 * time.Hour},
		Indicator: slo.Indicator{Kind: slo.KindEvents}}
	ps := counted(slo.Counts{Good: 1000}, slo.Counts{Good: 990, Bad: 10}, slo.Counts{Good: 1000},
		slo.Counts{Good: 990, Bad: 10})
	total := slo.Counts{Good: 3980, Bad: 20}
	r := &sla.SLOReport{SLO: s, Budget: slo.NewBudget(s.Objective, total), Period: between(-4*time.Hour, 0)}
	got := remaining(r, ps)
	require.InDeltaSlice(t, []float64{1, 0.75, 0.75, 0.5}, got, 1e-9)
	require.InDelta(t, r.Budget.Remaining, got[3], 0, "the last number is the report's, to the bit")
	require.Equal(t, 1, worstStep(s, ps))
	require.Equal(t, -1, worstStep(s, counted(slo.Counts{Good: 5})))

	backfilled := counted(slo.Counts{Good: 1000, Bad: 60}, slo.Counts{Good: 990, Bad: 10}, slo.Counts{Good: 1000},
		slo.Counts{Good: 990, Bad: 10})
	require.InDeltaSlice(t, []float64{0.625, 0.5625, 0.5625, 0.5}, remaining(r, backfilled), 1e-9,
		"counts that the report does not have yet change when it was spent, not how much")

	g := history.NewGrid(r.Period, time.Hour, nil)
	f := NewBurnDown(r, &g, ps, Shades{}, noon)
	require.Contains(t, f.Caption, "50.0% of the budget is left")
	require.Contains(t, f.Caption, "25.0% of the budget")
	require.Equal(t, "50.0%", f.Table.Rows[0].Cells[1].Text)
	require.Equal(t, "M0 0L1000 230", f.Plots[0].Lines[0].D, "even spending falls from all to nothing")
	require.Equal(t, "M0 0L250 0L500 57.5L750 57.5L1000 115", f.Plots[0].Lines[1].D)

	r.Budget = slo.Budget{}
	require.Empty(t, NewBurnDown(r, &g, ps, Shades{}, noon).Plots, "no data, no budget")

	// A calendar window says until when it lasts.
	s.Window = slo.Window{Calendar: slo.Month, Location: time.UTC}
	r.Budget = slo.NewBudget(s.Objective, total)
	require.Contains(t, NewBurnDown(r, &g, ps, Shades{}, noon).Caption, "ends at 2026-12-01 00:00 UTC")
}

func TestBurnLine(t *testing.T) {
	s := &slo.SLO{Objective: slotest.Objective(t, "99"), Indicator: slo.Indicator{Kind: slo.KindEvents}}
	ps := counted(slo.Counts{}, slo.Counts{Good: 100}, slo.Counts{Good: 90, Bad: 10}, slo.Counts{Good: 100},
		slo.Counts{Good: 100})
	got := burnLine(s, ps, 2*time.Hour, time.Hour, 0)
	require.True(t, math.IsNaN(got[0]), "no data is no rate")
	require.InDeltaSlice(t, []float64{0, 5, 5, 0}, got[1:], 1e-9)
	require.InDeltaSlice(t, []float64{5, 0}, burnLine(s, ps, 2*time.Hour, time.Hour, 3), 1e-9)

	// A window burns as the report says that it does.
	for _, window := range []time.Duration{time.Hour, 3 * time.Hour, 5 * time.Hour} {
		var sum slo.Counts
		for _, p := range ps[5-int(window/time.Hour):] {
			sum = sum.Add(p.Net.Counts)
		}
		line := burnLine(s, ps, window, time.Hour, 4)
		require.InDelta(t, slo.NewBudget(s.Objective, sum).Consumed, line[0], 1e-9)
	}
}

func TestBurnWindows(t *testing.T) {
	tiers, _ := alerts.Tiers(
		&slo.SLO{Objective: slotest.Objective(t, "99.9"), Window: slo.Window{Rolling: 30 * 24 * time.Hour}})
	names := func(d, step time.Duration) (out []string) {
		for _, x := range BurnWindows(tiers, between(-d, 0), step) {
			out = append(out, slo.FormatDuration(x.Long))
		}
		return out
	}
	require.Equal(t, []string{"1h", "6h"}, names(time.Hour, time.Minute))
	require.Equal(t, []string{"1h", "6h", "1d"}, names(24*time.Hour, 10*time.Minute))
	require.Equal(t, []string{"1d", "3d"}, names(30*24*time.Hour, 4*time.Hour), "only windows of whole steps")
	require.Empty(t, names(400*24*time.Hour, 7*24*time.Hour))
}

func TestShades(t *testing.T) {
	s := &slo.SLO{Corrections: []slo.Correction{{Start: noon.Add(-90 * time.Minute), Duration: 30 * time.Minute}}}
	a := &fold.ReadResult{Known: true, Oldest: noon.Add(-9 * time.Hour),
		Observed: []slo.Span{between(-20*time.Hour, -5*time.Hour), between(-4*time.Hour, 0)}}
	h := NewShades(s, between(-10*time.Hour, 0), 0, a)
	require.Equal(t, between(-10*time.Hour, -9*time.Hour), h.unkept)
	require.Equal(t, []slo.Span{between(-5*time.Hour, -4*time.Hour)}, h.unseen)
	require.Len(t, h.out, 1)
	require.Equal(t, 35*time.Minute, h.out[0].Duration(), "rounded outward as the engine does")
	var p plot
	h.draw(&p, timeline{between(-10*time.Hour, 0)}, 100)
	require.Len(t, p.Bands, 3)
	require.Equal(t, []string{"shade", "unseen", "unkept"},
		[]string{h.keys()[0].Class, h.keys()[1].Class, h.keys()[2].Class})
	require.Empty(t, NewShades(&slo.SLO{}, between(-time.Hour, 0), 0,
		&fold.ReadResult{Known: true, Observed: []slo.Span{between(-time.Hour, -20*time.Second)}}).keys(),
		"an engine that is up is not shown as down")
}

func TestCalendar(t *testing.T) {
	s := &slo.SLO{Objective: slotest.Objective(t, "99"), Indicator: slo.Indicator{Kind: slo.KindEvents}}
	r := &sla.SLOReport{SLO: s}
	g := history.DayGrid(noon, time.UTC, CalendarDays, func(slo.Span) []slo.Span { return nil })
	ps := make([]history.Point, len(g.Steps))
	for i, sp := range g.Steps {
		ps[i] = history.Point{Span: sp, Kept: i >= 10, Seen: 1}
	}
	set := func(i int, good, bad uint64) {
		ps[i].Net.Counts = slo.Counts{Good: good, Bad: bad}
		ps[i].Raw = ps[i].Net
	}
	set(0, 100, 0)
	set(89, 100, 0)
	set(88, 99, 1)
	set(87, 98, 2)
	set(86, 90, 10)
	c := NewCalendar(r, &g, ps, time.UTC)
	require.Equal(t, []string{"August 2026", "September 2026", "October 2026", "November 2026"},
		[]string{c.Months[0].Name, c.Months[1].Name, c.Months[2].Name, c.Months[3].Name})
	last := c.Months[3].Weeks[3]
	require.Equal(t, day{Day: "20", Value: "100", Class: "ok", Title: "Fri 20 Nov 2026: 100.00%, 0 bad of 100, met",
		ISO: "2026-11-20"}, last[4])
	require.Equal(t, []string{"bad", "risk", "ok"}, []string{last[1].Class, last[2].Class, last[3].Class})
	require.Equal(t, "98.0", last[2].Value)
	require.Empty(t, last[5].Day, "tomorrow is not shown")
	require.Equal(t,
		"3 days met the objective, 2 days missed it, 76 days had no data. Counts of the earliest 9 days are no longer "+
			"retained: the engine retains as much as the window of the SLO needs, so a longer window retains more.", c.Summary)
	require.Len(t, c.Table.Rows, 90)
	require.Equal(t, "Fri 20 Nov 2026", c.Table.Rows[0].Text)
	require.Equal(t, "missed by far", c.Table.Rows[3].Cells[4].Text)
	cells := 0
	for _, m := range c.Months {
		for _, w := range m.Weeks {
			for _, d := range w {
				if d.Day != "" {
					cells++
				}
			}
		}
	}
	require.Equal(t, 90, cells)

	// Every day names what was noted in it, the last one also what is ahead of the report.
	c.Mark(nil)
	require.Len(t, c.Table.Head, 6)
	marks := []Moment{{noon.AddDate(0, 0, -100), "before"}}
	for range maxDayTexts + 2 {
		marks = append(marks, Moment{noon.AddDate(0, 0, -2), "deployed"})
	}
	c.Mark(append(marks, Moment{g.Steps[88].From, "midnight"}, Moment{noon.Add(30 * time.Minute), "ahead"}))
	last = c.Months[3].Weeks[3]
	require.Equal(t, []bool{false, false, true, true, true, false, false},
		[]bool{last[0].Annotated, last[1].Annotated, last[2].Annotated, last[3].Annotated, last[4].Annotated,
			last[5].Annotated, last[6].Annotated})
	require.Equal(t, "Wed 18 Nov 2026: 98.00%, 2 bad of 100, missed"+strings.Repeat("\ndeployed", maxDayTexts)+
		"\nand 2 more", last[2].Title)
	require.Equal(t, "Annotations", c.Table.Head[6])
	require.Equal(t, []string{"ahead", "midnight", "deployed; deployed; deployed; deployed; deployed; and 2 more", ""},
		[]string{c.Table.Rows[0].Cells[5].Text, c.Table.Rows[1].Cells[5].Text, c.Table.Rows[2].Cells[5].Text,
			c.Table.Rows[3].Cells[5].Text})
	require.NotContains(t, fmt.Sprint(c), "before")
	require.Equal(t, "annotation", c.Keys[len(c.Keys)-1].Text)
}

func TestHeatLevels(t *testing.T) {
	require.Zero(t, heatLevel(0))
	last := 0
	for _, x := range []float64{0.0001, 0.005, 0.02, 0.05, 0.2, 1} {
		require.GreaterOrEqual(t, heatLevel(x), last)
		last = heatLevel(x)
	}
	require.Equal(t, 1, heatLevel(0.0001), "a few slow ones are in sight")
	require.Equal(t, heatLevels, heatLevel(1))
	lo, hi := rowBounds([]time.Duration{1, 2}, 2)
	require.Equal(t, []time.Duration{2, 0}, []time.Duration{lo, hi})
}

func TestThin(t *testing.T) {
	var tb table
	for i := range 150 {
		tb.Rows = append(tb.Rows, Row{Text: strings.Repeat("x", i)})
	}
	tb.thin()
	require.Len(t, tb.Rows, 50)
	require.Len(t, tb.Rows[49].Text, 149, "the last row stays")
	require.Equal(t, ", one row in 3", tb.Caption)
}

func TestQuantileTexts(t *testing.T) {
	for _, c := range []struct {
		q             history.Quantile
		within, about string
	}{
		{history.Quantile{}, format.NoValue, format.NoValue},
		{history.Quantile{Low: 0, High: time.Minute, Value: 30 * time.Second, OK: true}, "up to 1m", "≈ 30s"},
		{history.Quantile{Low: time.Minute, High: 5 * time.Minute, Value: 3 * time.Minute, OK: true}, "1m to 5m", "≈ 3m"},
		{history.Quantile{Low: 15 * time.Minute, High: 0, Value: 15 * time.Minute, OK: true}, "over 15m", "> 15m"},
	} {
		require.Equal(t, []string{c.within, c.about}, []string{within(c.q), about(c.q)})
	}
}

func TestAbsence(t *testing.T) {
	for want, p := range map[string]history.Point{"no longer retained": {Seen: 1}, "no data": {Kept: true, Seen: 1},
		"not observed": {Kept: true, Seen: 0.2}} {
		require.Equal(t, want, absence(p))
	}
}

// A gauge of nothing is drawn, and is no error in the console of a browser.
func TestEmptyGauge(t *testing.T) {
	require.Contains(t, string(Gauge{}.SVG()), ` width="0" height="6"/></svg>`)
}

func TestBurnDownGoesOnAsForecast(t *testing.T) {
	s := &slo.SLO{Objective: slotest.Objective(t, "99"), Window: slo.Window{Rolling: 4 * time.Hour},
		Indicator: slo.Indicator{Kind: slo.KindEvents}}
	ps := counted(slo.Counts{Good: 1000}, slo.Counts{Good: 990, Bad: 10}, slo.Counts{Good: 1000},
		slo.Counts{Good: 990, Bad: 10})
	r := &sla.SLOReport{SLO: s, Budget: slo.NewBudget(s.Objective, slo.Counts{Good: 3980, Bad: 20}),
		Period: between(-4*time.Hour, 0), Outlook: &sla.Outlook{}}
	r.Outlook.Forecast = forecast.Forecast{Time: noon, Points: []forecast.Point{
		{Ahead: time.Hour, Low: -0.5, Median: 0.25, High: 0.5}, {Ahead: 24 * time.Hour, Low: -9}}}
	g := history.NewGrid(r.Period, time.Hour, nil)
	f := NewBurnDown(r, &g, ps, Shades{}, noon)
	p := f.Plots[0]
	require.Equal(t, noon.Add(time.Hour).Unix(), p.To, "an hour fits beside four, a day does not")
	require.Equal(t, "M0 0L800 150.82", p.Lines[0].D, "a steady burn ends with the window")
	require.Equal(t, stroke{"middle", "M800 75.41L1000 113.11"}, p.Lines[2])
	require.Equal(t, stroke{"cone", "M800 75.41L1000 75.41L1000 226.23z"}, p.Fills[1])
	require.Contains(t, f.Caption, "By the forecast, −50% to 50% is left in 1h.")
	require.Contains(t, f.Keys, key{"cone", "forecast, 90% range"})

	r.Outlook.Forecast.TooLittle = "no valid event"
	f = NewBurnDown(r, &g, ps, Shades{}, noon)
	require.Equal(t, noon.Unix(), f.Plots[0].To)
	require.NotContains(t, f.Caption, "forecast")
}

func TestDailySpend(t *testing.T) {
	s := &slo.SLO{Objective: slotest.Objective(t, "99"), Window: slo.Window{Rolling: 4 * 24 * time.Hour},
		Indicator: slo.Indicator{Kind: slo.KindEvents}}
	var ps []history.Point
	for i, bad := range []uint64{90, 0, 4, 20, 1} { // the first day is before the window
		from := noon.Truncate(24*time.Hour).AddDate(0, 0, i-4)
		c := history.Tally{Counts: slo.Counts{Good: 1000 - bad, Bad: bad}}
		ps = append(ps, history.Point{Span: slo.Span{From: from, To: from.AddDate(0, 0, 1)}, Raw: c, Net: c, Seen: 1,
			Kept: true})
	}
	r := &sla.SLOReport{SLO: s, Budget: slo.NewBudget(s.Objective, slo.Counts{Good: 3975, Bad: 25}),
		Period: between(-4*24*time.Hour, 0)}
	g := history.Grid{Span: slo.Span{From: ps[0].From, To: ps[4].To}, Step: 24 * time.Hour}
	f := NewDailySpend(r, &g, ps, time.UTC, nil)
	require.Len(t, f.Table.Rows, 4)
	require.Equal(t, []Cell{{Text: "20"}, {"50.0%", true}}, f.Table.Rows[1].Cells, "20 of 40 that may be bad")
	require.Equal(t, "Most was spent on "+ps[3].From.Format("2 January")+": 50.0% of the budget.", f.Caption)
	require.Equal(t, []string{"good", "bad"}, classes(f.Plots[0]))
	r.Budget = slo.Budget{}
	require.Empty(t, NewDailySpend(r, &g, ps, time.UTC, nil).Plots)
}

// A few values that are much higher than all others do not flatten them: bars are cut, and the key says how high they
// are.
func TestAxisEndsBelowASpike(t *testing.T) {
	even := slices.Repeat([]float64{10, 12}, 20)
	top, clips := AxisTop(even)
	require.Equal(t, 12.0, top)
	require.False(t, clips)
	top, clips = AxisTop(append(slices.Clone(even), 5000, 0))
	require.Equal(t, 24.0, top)
	require.True(t, clips)
	top, clips = AxisTop(append(slices.Clone(even), slices.Repeat([]float64{5000}, 10)...))
	require.Equal(t, 5000.0, top, "a quarter of the time is no spike")
	require.False(t, clips)
	top, _ = AxisTop([]float64{1, 900})
	require.Equal(t, 900.0, top, "too few to tell")

	s := &slo.SLO{Objective: slotest.Objective(t, "99"), Indicator: slo.Indicator{Kind: slo.KindEvents}}
	counts := slices.Repeat([]slo.Counts{{Good: 100}}, 20)
	counts[7] = slo.Counts{Good: 90_000, Bad: 10}
	ps := counted(counts...)
	g := history.NewGrid(slo.Span{From: ps[0].From, To: ps[19].To}, time.Hour, nil)
	f := NewEvents(&sla.SLOReport{SLO: s}, &g, ps, Shades{}, noon)
	require.Contains(t, f.Keys, key{"cut", "higher than the axis, at most 90.0k at " + format.Minute(ps[7].From, noon)})
	require.Contains(t, classes(f.Plots[0]), "cut")
}
