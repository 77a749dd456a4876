package chart

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/history"
	"github.com/sloengine/sloengine/sla/report"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/format"
)

// lostColours are the classes of the components in the chart of what was lost.
var lostColours = []string{"c1", "c2", "c3", "c4", "c5"}

// NewScores draws the score of each day and, below, the points that each component lost, with moments. The summary
// counts the days.
func NewScores(r *sla.SLAReport, days []report.DayScore, zone *time.Location,
	moments []Moment) (f Figure, summary string) {
	a := r.SLA
	t := timeline{slo.Span{From: days[0].From, To: days[len(days)-1].To}}
	grid := history.Grid{Span: t.Span, Step: 24 * time.Hour}
	score := Scale{min: scoreFloor(a, days), Max: 100, Height: PlotHeight}
	var peak float64
	for i := range days {
		if d := &days[i]; d.Has() {
			sum := 0.0
			for _, c := range d.Report.Components {
				sum += c.Lost
			}
			peak = max(peak, sum)
		}
	}
	lost := Scale{Max: max(peak*1.05, 0.01), Height: PlotHeight * 0.7}

	ps, pl := newPlot("score", "Score of each day", score.Height, t),
		newPlot("lost", "Points lost on each day by component", lost.Height, t)
	ps.X, pl.X = t.xTicks(zone), t.xTicks(zone)
	ps.Marks = t.moments(moments)
	pl.Marks = ps.Marks
	var line, between Pen
	bars := make([]Pen, len(lostColours))
	vScore := Series{Name: "score"}
	vLost := make([]Series, len(r.Components))
	for i, c := range r.Components {
		vLost[i].Name = format.Safe(c.Name, format.MaxName)
	}
	tab := table{Caption: "Days, newest first", Head: []string{"Day", "Score"}}
	for _, c := range r.Components {
		tab.Head = append(tab.Head, format.Safe(c.Name, format.MaxName)+" lost")
	}
	tab.Head = append(tab.Head, "Verdict")
	var met, under, none int
	worst := -1
	for i := range days {
		d := &days[i]
		x, x2 := t.x(d.From), t.x(d.To)
		row := Row{Text: d.From.In(zone).Format("Mon 2 Jan 2006")}
		if !d.Has() {
			none++
			line.up()
			vScore.V = append(vScore.V, missing)
			row.Cells = append(row.Cells, Cell{Text: format.NoValue})
			for k := range vLost {
				vLost[k].V = append(vLost[k].V, missing)
				row.Cells = append(row.Cells, Cell{Text: format.NoValue})
			}
			row.Cells = append(row.Cells, Cell{Text: absence(history.Point{Kept: d.Kept, Seen: d.Seen})})
			tab.Rows = append(tab.Rows, row)
			continue
		}
		s := d.Report.Score
		line.to(x, score.Y(s))
		line.to(x2, score.Y(s))
		if d.Report.Missing > 0 {
			between.Box(x, score.Y(d.Report.High), max(x2-x, 1), score.Y(d.Report.Low))
		}
		low := d.Report.Level != sla.LevelOK
		if low {
			under++
		} else {
			met++
		}
		if worst < 0 || s < days[worst].Report.Score {
			worst = i
		}
		vScore.V = append(vScore.V, Number(math.Floor(s*100+1e-6)/100))
		row.Cells = append(row.Cells, Cell{Text: format.Score(s), Hot: low})
		top := 0.0
		for k, c := range d.Report.Components {
			vLost[k].V = append(vLost[k].V, Number(c.Lost))
			text := format.PointsLost(c.Lost)
			if !c.HasData {
				text = "no data"
			}
			row.Cells = append(row.Cells, Cell{Text: text})
			if c.Lost > 0 {
				bars[min(k, len(bars)-1)].Box(x, lost.Y(top+c.Lost), BarWidth(x2-x), lost.Y(top))
				top += c.Lost
			}
		}
		row.Cells = append(row.Cells, Cell{AgreementMark(&d.Report).Word, d.Report.Breached})
		tab.Rows = append(tab.Rows, row)
	}
	slices.Reverse(tab.Rows)

	ps.Fills, ps.Lines = []stroke{{"range", between.String()}}, []stroke{{"c1", line.String()}}
	f.Keys = []key{{"c1", "score of the day"}}
	for _, l := range []struct {
		at   float64
		name string
	}{{a.Warning, "warning"}, {a.Critical, "critical"}} {
		if l.at > 0 && l.at > score.min {
			ps.Refs = append(ps.Refs, refLine{l.name, Coord(score.Y(l.at)), ""})
			f.Keys = append(f.Keys, key{l.name, l.name + " below " + strconv.FormatFloat(l.at, 'g', 6, 64)})
		}
	}
	if s := between.String(); s != "" {
		f.Keys = append(f.Keys, key{"range", "possible with the missing components"})
	}
	step := (100 - score.min) / 4
	ps.Y = score.yTicks([]float64{score.min, score.min + step, score.min + 2*step, score.min + 3*step, 100},
		func(v float64) string {
			return strconv.FormatFloat(v, 'g', 5, 64)
		})
	ds, dl := NewData(true, "count", &grid), NewData(true, "count", &grid)
	ds.Series, dl.Series = []Series{vScore}, vLost
	ps.Data, pl.Data = ds.json(), dl.json()
	f.Plots = []plot{ps}
	f.Caption = fmt.Sprintf("Each day by itself, in %s, planned maintenance excluded.", zone)
	if worst >= 0 {
		d := &days[worst]
		f.Caption += fmt.Sprintf(" Lowest: %s on %s", format.Score(d.Report.Score), d.From.In(zone).Format("Mon 2 Jan"))
		if c := WorstComponent(&d.Report); c != nil {
			f.Caption += fmt.Sprintf(", where %s lost %s points", format.Safe(c.Name, format.MaxName), format.PointsLost(c.Lost))
		}
		f.Caption += "."
	}
	f.Table = tab

	for k := range bars {
		pl.Fills = append(pl.Fills, stroke{lostColours[k], bars[k].String()})
	}
	pl.Y = lost.yTicks(roundTicks(lost.Max, 3), func(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) })
	if peak > 0 {
		f.Plots = append(f.Plots, pl)
		f.Keys = append(f.Keys, lostKeys(r)...)
		f.Caption += " Below: points that each component lost, which is its weight times its shortfall."
	} else {
		f.Caption += " No component lost a point."
	}
	if len(ps.Marks) > 0 {
		f.Keys = append(f.Keys, key{annotated, "annotation"})
	}

	summary = fmt.Sprintf("%s at or above the alert thresholds, %s below", format.Plural(met, "day"),
		format.Plural(under, "day"))
	if a.Warning == 0 && a.Critical == 0 {
		summary = format.Plural(met, "day") + " with a score"
	}
	if none > 0 {
		summary += fmt.Sprintf(", %s had no score", format.Plural(none, "day"))
	}
	summary += "."
	return f, summary
}

// lostKeys name the colours of the components; the last colour may stand for several.
func lostKeys(r *sla.SLAReport) []key {
	var out []key
	last := len(lostColours) - 1
	for k, c := range r.Components {
		if k == last && len(r.Components) > len(lostColours) {
			return append(out, key{lostColours[last] + "f", format.Plural(len(r.Components)-k, "further component") + " lost"})
		}
		out = append(out, key{lostColours[k] + "f", format.Safe(c.Name, format.MaxName) + " lost"})
	}
	return out
}

// scoreFloor is where the axis of scores begins: below everything to be shown.
func scoreFloor(a *sla.Agreement, days []report.DayScore) float64 {
	low := 99.0
	for _, l := range []float64{a.Warning, a.Critical} {
		if l > 0 {
			low = min(low, l)
		}
	}
	for i := range days {
		if d := &days[i]; d.Has() {
			low = min(low, d.Report.Score)
			if d.Report.Missing > 0 {
				low = min(low, d.Report.Low)
			}
		}
	}
	step := 4.0
	if low < 80 {
		step = 20
	}
	return max(0, math.Floor((low-0.5)/step)*step)
}

// PointsBar shows what each component earned and lost of its weight.
func PointsBar(r *sla.SLAReport) (segments []Bar) {
	x := 0.0
	for i := range r.Components {
		c := &r.Components[i]
		width := 100 * c.Weight
		won := width * min(1, max(0, c.Points))
		title := fmt.Sprintf("%s: %s of %s", c.Name, format.Score(won), format.Score(width))
		if !c.HasData {
			won = 0
			title = c.Name + ": no data"
		}
		gap := min(0.6, width/4) // a thin gap tells neighbours apart
		if i == len(r.Components)-1 {
			gap = 0
		}
		lost, class := width-won, "lost"
		if !c.HasData {
			class = "missing"
		}
		if lost < 2*gap+0.01 {
			won, lost = width, 0 // too little to be seen beside the gap
		}
		for _, b := range []struct {
			x, w  float64
			class string
		}{{x, won, "won"}, {x + won, lost, class}} {
			if b.x+b.w == x+width {
				b.w -= gap
			}
			if b.w > 0 {
				seg := NewBar(b.x, 0, b.w, 10, b.class)
				seg.Title = format.Safe(title, format.MaxTitle)
				segments = append(segments, seg)
			}
		}
		x += width
	}
	return segments
}

// WorstComponent is the one that lost most; nil if nothing was lost.
func WorstComponent(r *sla.SLAReport) *sla.ComponentReport {
	if r.Worst < 0 || r.Worst >= len(r.Components) {
		return nil
	}
	return &r.Components[r.Worst]
}
