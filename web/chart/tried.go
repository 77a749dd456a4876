package chart

import (
	"math"
	"slices"
	"time"

	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/format"
)

// TriedLine is what was left of an error budget by one of two specs.
type TriedLine struct {
	Name string
	Left []TriedPoint // in the order of their times
}

// TriedPoint is what was left at a time; NaN without data.
type TriedPoint struct {
	At   time.Time
	Left float64
}

// TriedSpan is a time with what happened in it.
type TriedSpan struct {
	slo.Span
	Title string
	Page  bool // of an alert
}

// TriedLane are the times of one alert by one spec.
type TriedLane struct {
	Name, Spec string
	Spans      []TriedSpan
}

// NewTried draws the error budgets of two specs over the same hours, and the incidents of that time.
func NewTried(sp slo.Span, lines []TriedLine, incidents []TriedSpan, now time.Time) Figure {
	hours := int(sp.Duration()/time.Hour) + 1
	first := sp.From.Truncate(time.Hour).Add(time.Hour)
	t := timeline{sp}
	low, any := 0.0, false
	values := make([][]float64, len(lines))
	for i, l := range lines {
		values[i] = slices.Repeat([]float64{math.NaN()}, hours)
		for _, p := range l.Left {
			n := int(p.At.Truncate(time.Hour).Add(time.Hour).Sub(first) / time.Hour)
			if n < 0 || n >= hours || math.IsNaN(p.Left) {
				continue
			}
			values[i][n], low, any = p.Left, min(low, p.Left), true
		}
	}
	if !any {
		return Figure{Note: "No event was valid in this time."}
	}
	sc := Scale{min: max(low, -deepest) * 1.05, Max: 1, Height: PlotHeight + 60}
	p := newPlot("tried", "Budget left, by spec", sc.Height, t)
	d := &Data{Unit: "percent", From: sp.From.Unix(), To: sp.To.Unix(), Own: true, First: first.Unix(), Every: 3600}
	f := Figure{Table: table{Caption: "Budget left each day, newest first", Head: []string{"At"}},
		Caption: "The budget left in the window that ends at each time."}
	for i, l := range lines {
		class := []string{"c1", "c2", "c3"}[i%3]
		var pen Pen
		s := Series{Name: l.Name}
		for n, v := range values[i] {
			if s.V = append(s.V, Number(v)); math.IsNaN(v) {
				pen.up()
				continue
			}
			pen.to(t.x(first.Add(time.Duration(n)*time.Hour)), sc.Y(v))
		}
		d.Series = append(d.Series, s)
		p.Lines = append(p.Lines, stroke{class, pen.b.String()})
		f.Keys = append(f.Keys, key{class, l.Name})
		f.Table.Head = append(f.Table.Head, l.Name)
	}
	for n := 0; n < hours; n += 24 {
		row := Row{At: format.NewStamp(first.Add(time.Duration(n)*time.Hour), now)}
		for i := range lines {
			row.Cells = append(row.Cells, Cell{Text: percentOrNone(values[i][n]), Hot: values[i][n] <= 0})
		}
		f.Table.Rows = append(f.Table.Rows, row)
	}
	slices.Reverse(f.Table.Rows)
	for _, x := range incidents {
		if b, ok := t.band(x.Span, sc.Height, "incident", x.Title); ok {
			b.W = Coord(max(3, t.x(x.To)-t.x(x.From))) // most are shorter than a pixel
			p.Bands = append(p.Bands, b)
		}
	}
	if len(p.Bands) > 0 {
		f.Keys = append(f.Keys, key{"incident", "incident"})
	}
	p.Refs = []refLine{{Class: "zero", Y: Coord(sc.Y(0))}}
	p.Y = sc.yTicks(budgetTicks(sc.min), func(v float64) string { return format.Percent(v, 0) })
	p.Data = d.json()
	f.Plots = []plot{p}
	return f
}

func percentOrNone(v float64) string {
	if math.IsNaN(v) {
		return format.NoValue
	}
	return format.Percent(v, 1)
}

// NewTriedAlerts draws when alerts fired by two specs.
func NewTriedAlerts(sp slo.Span, lanes []TriedLane) *AlertTimeline {
	t := timeline{sp}
	out := &AlertTimeline{X: t.xTicks(time.UTC), From: sp.From.Unix(), To: sp.To.Unix(),
		Caption: "Each bar begins when the alert fired and ends when it resolved."}
	seen := map[string]bool{}
	for _, l := range lanes[:min(len(lanes), mostLanes)] {
		x := lane{Name: l.Name, Windows: l.Spec}
		for _, s := range l.Spans {
			class := "firing"
			if s.Page {
				class = "urgent"
			}
			seen[class] = true
			left := t.x(s.From)
			b := NewBar(left, 2, max(3, t.x(s.To)-left), laneH-4, class)
			b.Title = s.Title
			x.Spans = append(x.Spans, b)
			if x.Label != "" {
				x.Label += "; "
			}
			x.Label += s.Title
		}
		out.Lanes = append(out.Lanes, x)
	}
	for _, k := range []key{{"firing", "ticket"}, {"urgent", "page"}} {
		if seen[k.Class] {
			out.Keys = append(out.Keys, k)
		}
	}
	return out
}
