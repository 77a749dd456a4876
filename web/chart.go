package web

import (
	"fmt"
	"time"

	"github.com/sloengine/sloengine/slo"
)

// Size of the history chart's view boxes.
const (
	chartW   = 720
	chartH   = 140
	trafficH = 36
)

// chart is the history of one SLO: the bad share over the traffic of each step.
type chart struct {
	Bad     []bar
	Traffic []bar
	Shades  []bar  // planned maintenance
	Line    string // y of the objective
	Top     string // the scale's upper end
	Target  string // the objective's own bad share
	Peak    string // the traffic's upper end
	Ticks   []string
	Label   string
	Step    string
	Rows    []chartRow // the same as a table, newest first
}

type chartRow struct {
	At                     stamp
	Good, Bad, Ratio, Burn string
	Fast                   bool
}

// newChart draws steps of counts. The scale of the bad share reaches at least to
// twice the objective's, so that the objective is always in sight.
func newChart(points []Point, s *slo.SLO, sp slo.Span, step time.Duration) *chart {
	c := &chart{Step: slo.FormatDuration(step)}
	length := float64(sp.Duration())
	x := func(t time.Time) float64 { return min(chartW, max(0, float64(t.Sub(sp.From))/length*chartW)) }

	top, worst, peak := 2*s.Objective.Budget(), 0.0, uint64(0)
	var at time.Time
	for _, p := range points {
		k := slo.Counts{Good: p.Good, Bad: p.Bad}
		peak = max(peak, k.Valid())
		if good, ok := k.Ratio(); ok && 1-good > worst {
			worst, at = 1-good, p.Start
		}
	}
	top = min(1, max(top, worst*1.05))
	for _, p := range points {
		k := slo.Counts{Good: p.Good, Bad: p.Bad}
		b := slo.NewBudget(s.Objective, k)
		left, right := x(p.Start), x(p.Start.Add(step))
		when := newStamp(p.Start, time.Time{})
		row := chartRow{At: when, Good: count(p.Good), Bad: count(p.Bad), Ratio: noValue, Burn: noValue}
		if b.HasData {
			row.Ratio, row.Burn, row.Fast = percent(b.SLI, sliDecimals(s.Objective)), times(b.Consumed), b.Consumed > 1
			h := (1 - b.SLI) / top * chartH
			if p.Bad > 0 {
				h = max(h, 1.5)
			}
			r := rect(left, chartH-h, right-left-1, h, burnClass(b.Consumed))
			r.Title = fmt.Sprintf("%s: %s bad of %s, %s", when.Text, row.Bad, count(k.Valid()), row.Burn)
			c.Bad = append(c.Bad, r)
			h = float64(k.Valid()) / float64(peak) * trafficH
			c.Traffic = append(c.Traffic, rect(left, trafficH-h, right-left-1, h, "traffic"))
		} else {
			r := rect(left, chartH-2, right-left-1, 2, "none")
			r.Title = when.Text + ": no data"
			c.Bad = append(c.Bad, r)
		}
		c.Rows = append([]chartRow{row}, c.Rows...)
	}
	for _, ex := range slo.TakenOut(s.Corrections, sp) {
		r := rect(x(ex.From), 0, x(ex.To)-x(ex.From), chartH, "shade")
		r.Title = "planned maintenance"
		c.Shades = append(c.Shades, r)
	}
	c.Line = coord(chartH - s.Objective.Budget()/top*chartH)
	c.Top, c.Target, c.Peak = percent(top, 2), trimPercent(s.Objective.Budget()), compact(peak)
	layout := "2 Jan"
	if sp.Duration() <= 2*24*time.Hour {
		layout = "15:04"
	}
	const ticks = 5
	for i := range ticks {
		c.Ticks = append(c.Ticks, sp.From.Add(sp.Duration()*time.Duration(i)/(ticks-1)).UTC().Format(layout))
	}
	c.Label = fmt.Sprintf("Share of bad events in steps of %s.", c.Step)
	if worst > 0 {
		c.Label += fmt.Sprintf(" Worst: %s at %s.", percent(worst, 2), newStamp(at, time.Time{}).Text)
	} else {
		c.Label += " Nothing was bad."
	}
	return c
}
