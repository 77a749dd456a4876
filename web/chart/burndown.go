package chart

import (
	"fmt"
	"slices"
	"time"

	"github.com/sloengine/sloengine/internal/order"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/history"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/format"
)

// deepest is how many budgets beyond its own a budget is drawn: with one spent a hundred times over, the rest would be
// a line along the top.
const deepest = 3.0

// NewBurnDown draws what was left of the budget over its window: from all of it,
// down by every bad event, to what the report says is left. The budget is that of
// all events of the window so far, so a line that falls evenly to nothing spends
// it exactly.
func NewBurnDown(r *sla.SLOReport, g *history.Grid, points []history.Point, h Shades, now time.Time) Figure {
	if !r.Budget.HasData || len(points) == 0 {
		return Figure{}
	}
	s := r.SLO
	left := remaining(r, points)
	low := 0.0
	for _, v := range left {
		low = min(low, v)
	}
	t := timeline{g.Span}
	ahead := newCone(r, g.Span)
	if n := len(ahead); n > 0 {
		t.To = ahead[n-1].at
	}
	bottom := low
	for _, p := range ahead {
		bottom = min(bottom, p.low)
	}
	sc := Scale{min: max(bottom, -deepest) * 1.05, Max: 1, Height: PlotHeight + 80}
	p := newPlot("budget", "Budget left over the window", sc.Height, t)
	d := NewData(false, "percent", g)
	d.Own, d.To = true, t.To.Unix()
	f := Figure{Table: table{Caption: "Budget left at the end of each step, newest first",
		Head: []string{"Until", "Bad", "Budget left", "Steady burn"}}}

	var line, ideal Pen
	zero := sc.Y(0)
	line.to(0, sc.Y(1))
	ideal.to(0, sc.Y(1))
	end := t.x(g.To)
	ideal.to(end, zero)
	series := Series{Name: "budget left", V: []Number{1}}
	every := max(1, (len(points)+47)/48) // the table has one row in so many steps
	var bad uint64
	for i, pt := range points {
		x := t.x(pt.To)
		even := 1 - x/end
		line.to(x, sc.Y(left[i]))
		series.V = append(series.V, Number(left[i]))
		bad += pt.Net.Bad
		if (len(points)-1-i)%every == 0 {
			f.Table.Rows = append(f.Table.Rows,
				Row{At: format.NewStamp(pt.To, now),
					Cells: []Cell{{Text: format.Count(bad), Hot: false}, {format.Percent(left[i], 1), left[i] < even},
						{Text: format.Percent(even, 1)}}})
			bad = 0
		}
	}
	slices.Reverse(f.Table.Rows)
	d.Series = []Series{series}
	p.Lines = []stroke{{"ideal", ideal.String()}, {"c1", line.String()}}
	p.Fills = []stroke{{"under", line.String() + "V" + Coord(zero) + "H0z"}}
	if len(ahead) > 0 {
		if b, ok := t.band(slo.Span{From: g.To, To: t.To}, sc.Height, "ahead", "forecast"); ok {
			p.Bands = append(p.Bands, b)
		}
		area, middle := ahead.draw(t, sc, end, r.Budget.Remaining)
		p.Fills, p.Lines = append(p.Fills, stroke{"cone", area}), append(p.Lines, stroke{"middle", middle})
	}
	p.Refs = []refLine{{Class: "zero", Y: Coord(zero)}}
	p.Y = sc.yTicks(budgetTicks(sc.min), func(v float64) string { return format.Percent(v, 0) })
	h.draw(&p, t, sc.Height)
	p.Data = d.json()
	f.Plots = []plot{p}
	f.Keys = append([]key{{"c1", "budget left"}, {"ideal", "steady burn"}}, h.keys()...)
	if len(ahead) > 0 {
		f.Keys = append(f.Keys, key{"cone", "forecast, 90% range"})
	}
	f.Caption = fmt.Sprintf("%s of the budget is left in the window %s.", format.Percent(r.Budget.Remaining, 1),
		format.Span(r.Period))
	if n := len(ahead); n > 0 {
		f.Caption += " " + ahead[n-1].text
	}
	if s.Window.Calendar != "" {
		f.Caption += fmt.Sprintf(
			" The window ends at %s. Its budget grows with traffic: this is the budget of the traffic so far.",
			format.Minute(s.Window.End(r.Period.To), now))
	}
	if low < -deepest {
		f.Caption += fmt.Sprintf(" The axis ends at %s. The line continues to %s.", format.Percent(-deepest, 0),
			format.Percent(low, 0))
	}
	if at := worstStep(s, points); at >= 0 {
		before := 1.0
		if at > 0 {
			before = left[at-1]
		}
		f.Caption += fmt.Sprintf(" The largest share was spent %s: %s of the budget.", format.Span(points[at].Span),
			format.Percent(before-left[at], 1))
	}
	return f
}

// cone are the times ahead of a forecast, in order.
type cone []outlook

// outlook is the budget left at a time ahead.
type outlook struct {
	at                time.Time
	low, middle, high float64
	text              string
}

// newCone takes of the forecast of a group what fits beside a chart of a time: up to a third of its length.
func newCone(r *sla.SLOReport, sp slo.Span) cone {
	if r.Outlook == nil || r.Outlook.Forecast.TooLittle != "" {
		return nil
	}
	var out cone
	f := &r.Outlook.Forecast
	for i := range f.Points {
		p := &f.Points[i]
		if at := f.Time.Add(p.Ahead); at.After(sp.To) && at.Sub(sp.To) <= sp.Duration()/3 {
			out = append(out, outlook{at, p.Low, p.Median, p.High,
				fmt.Sprintf("By the forecast, %s is left %s.", format.Range(p), format.Lead(p))})
		}
	}
	order.By(out, func(a, b *outlook) int { return a.at.Compare(b.at) })
	return out
}

// draw gives the area of the range and the line of its middle. Both begin with what is left now.
func (c cone) draw(t timeline, sc Scale, x, left float64) (area, middle string) {
	var a, m Pen
	a.to(x, sc.Y(left))
	m.to(x, sc.Y(left))
	for _, p := range c {
		a.to(t.x(p.at), sc.Y(p.high))
		m.to(t.x(p.at), sc.Y(p.middle))
	}
	for _, p := range slices.Backward(c) {
		a.to(t.x(p.at), sc.Y(p.low))
	}
	return a.String() + "z", m.String()
}

// remaining is what was left at the end of each step, as a share of the window's budget. The report says how much was
// spent and the steps say when: after a backfill, counts are newer than the report until the next one.
func remaining(r *sla.SLOReport, points []history.Point) []float64 {
	out := make([]float64, len(points))
	var total, sum float64
	for _, p := range points {
		total += p.Net.Loss(r.SLO)
	}
	for i, p := range points {
		sum += p.Net.Loss(r.SLO)
		out[i] = 1
		if total > 0 {
			out[i] = 1 - r.Budget.Consumed*sum/total
		}
	}
	if len(out) > 0 {
		out[len(out)-1] = r.Budget.Remaining
	}
	return out
}

// NewDailySpend draws how much of the window's budget each of its days spent, beside a steady burn, with moments.
func NewDailySpend(r *sla.SLOReport, g *history.Grid, points []history.Point, loc *time.Location,
	moments []Moment) Figure {
	if !r.Budget.HasData || len(points) == 0 {
		return Figure{}
	}
	first := slices.IndexFunc(points, func(p history.Point) bool { return !p.From.Before(r.Period.From) })
	if first < 0 {
		first = len(points) - 1 // the window is shorter than a day
	}
	points = points[first:]
	t := timeline{slo.Span{From: points[0].From, To: points[len(points)-1].To}}
	const day = 24 * time.Hour
	steady := float64(day) / float64(max(day, r.Period.Duration()))
	top := 2 * steady
	for _, p := range points {
		top = max(top, Spent(r, p.Net.Loss(r.SLO))*1.08)
	}
	sc := Scale{Max: top, Height: lowH * 1.5}
	p := newPlot("daily", "Share of the budget spent per day", sc.Height, t)
	d := NewData(true, "percent", g)
	d.Own, d.From, d.To, d.First = true, t.From.Unix(), t.To.Unix(), t.From.Unix()
	f := Figure{Table: table{Caption: "Share of the budget spent per day, newest first",
		Head: []string{"Day", "Bad", "Budget spent"}},
		Keys: []key{{"good", "at most a steady burn"}, {"bad", "more"}, {"ref", "steady burn"}}}
	var within, above Pen
	series, most := Series{Name: "spent"}, -1
	for i, pt := range points {
		spent := Spent(r, pt.Net.Loss(r.SLO))
		series.V = append(series.V, Number(spent))
		f.Table.Rows = append(f.Table.Rows, Row{Text: pt.From.In(loc).Format("Mon 2 Jan 2006"),
			Cells: []Cell{{Text: format.Count(pt.Net.Bad)}, {format.Percent(spent, 1), spent > steady}}})
		if spent <= 0 {
			continue
		}
		to := &within
		if spent > steady {
			to = &above
		}
		x := t.x(pt.From)
		to.Box(x, min(sc.Y(spent), sc.Height-1), BarWidth(t.x(pt.To)-x), sc.Height)
		if most < 0 || spent > float64(series.V[most]) {
			most = i
		}
	}
	slices.Reverse(f.Table.Rows)
	d.Series = []Series{series}
	p.Fills = []stroke{{"good", within.String()}, {"bad", above.String()}}
	p.Refs = []refLine{{"ref", Coord(sc.Y(steady)), format.Percent(steady, 1)}}
	p.Y = sc.yTicks(roundTicks(sc.Max, 2), format.WrittenPercent)
	if p.Marks = t.moments(moments); len(p.Marks) > 0 {
		f.Keys = append(f.Keys, key{annotated, "annotation"})
	}
	p.Data = d.json()
	f.Plots = []plot{p}
	f.Caption = "No budget was spent."
	if most >= 0 {
		f.Caption = fmt.Sprintf("Most was spent on %s: %s of the budget.", points[most].From.In(loc).Format("2 January"),
			format.Percent(float64(series.V[most]), 1))
	}
	return f
}

// worstStep is the index of the step that cost most; -1 if none cost anything.
func worstStep(s *slo.SLO, points []history.Point) int {
	at, worst := -1, 0.0
	for i, p := range points {
		if l := p.Net.Loss(s); l > worst {
			at, worst = i, l
		}
	}
	return at
}

// budgetTicks labels an axis from a low end, at most 0, to the whole budget.
func budgetTicks(low float64) []float64 {
	if low > -1 {
		out := []float64{0, 0.25, 0.5, 0.75, 1}
		if low <= -0.5 {
			out = append([]float64{-0.5}, out...)
		}
		return out
	}
	var out []float64
	for _, v := range roundTicks(-low, 3) {
		if v > 0 {
			out = append([]float64{-v}, out...)
		}
	}
	return append(out, 0, 1)
}

// Spent is the share of a window's budget that a loss took.
func Spent(r *sla.SLOReport, loss float64) float64 {
	n := float64(r.Budget.Counts.Valid()) * r.SLO.Objective.Budget()
	if n <= 0 {
		return 0
	}
	return loss / n
}
