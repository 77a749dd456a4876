package chart

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/history"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/format"
)

// quantiles that are drawn.
var quantiles = []struct {
	name, class string
	q           float64
}{{"p50", "c1", 0.50}, {"p95", "c2", 0.95}, {"p99", "c3", 0.99}}

// heatLevels is how many shades a heatmap has, without that for nothing.
const heatLevels = 6

// NewLatency draws quantiles over time and, below, how the durations were spread.
// What is known are counts between thresholds, so quantiles are known to lie
// between two of them; the line between is interpolated.
func NewLatency(r *sla.SLOReport, g *history.Grid, sources []history.HistogramSource, h Shades, now time.Time) Figure {
	s := r.SLO
	edges, hists := history.MergeHistograms(sources, len(g.Steps))
	any := false
	for i := range hists {
		any = any || hists[i].Total > 0
	}
	if len(edges) == 0 || !any {
		return Figure{}
	}
	t := timeline{g.Span}
	highest := edges[len(edges)-1]
	sc := Scale{Max: highest.Seconds() * 1.15, Height: PlotHeight}
	p := newPlot("latency", "Quantiles of the duration over time", sc.Height, t)
	d := NewData(true, "seconds", g)
	f := Figure{Table: table{Caption: "Quantiles of the duration in steps of " + slo.FormatDuration(g.Step) +
		", newest first", Head: []string{"From", "Events"}}}
	for i := range hists {
		f.Table.Rows = append(
			f.Table.Rows, Row{At: format.NewStamp(g.Steps[i].From, now), Cells: []Cell{{Text: format.Count(hists[i].Total)}}})
	}
	target := s.Objective.Ratio()
	for _, want := range quantiles {
		var line Pen
		series := Series{Name: want.name}
		for i := range hists {
			q := hists[i].Quantile(want.q)
			cell := Cell{Text: format.NoValue}
			series.Is = append(series.Is, within(q))
			if q.OK {
				v := q.Value.Seconds()
				series.V = append(series.V, Number(v))
				left, right := t.x(g.Steps[i].From), t.x(g.Steps[i].To)
				line.to(left, sc.Y(v))
				line.to(right, sc.Y(v))
				cell = Cell{about(q) + " (" + within(q) + ")", want.q <= target && q.Low >= s.Indicator.Threshold &&
					s.Indicator.Threshold > 0}
			} else {
				series.V = append(series.V, missing)
				line.up()
			}
			f.Table.Rows[i].Cells = append(f.Table.Rows[i].Cells, cell)
		}
		d.Series = append(d.Series, series)
		p.Lines = append(p.Lines, stroke{want.class, line.String()})
		f.Keys = append(f.Keys, key{want.class, want.name})
		f.Table.Head = append(f.Table.Head, want.name)
	}
	marks := []float64{0}
	for _, e := range edges {
		marks = append(marks, e.Seconds())
	}
	p.Y = sc.yTicks(marks, func(v float64) string { return format.Took(time.Duration(v * float64(time.Second))) })
	if th := s.Indicator.Threshold; th > 0 {
		p.Refs = append(p.Refs, refLine{"ref", Coord(sc.Y(th.Seconds())), format.Took(th)})
		f.Keys = append(f.Keys, key{"ref", fmt.Sprintf("objective: %s within %s", s.Objective, format.Took(th))})
	}
	h.draw(&p, t, sc.Height)
	p.Data = d.json()

	heat := newHeatmap(t, g, edges, hists)
	hd := NewData(true, "seconds", g)
	h.draw(&heat, t, heatHeight(len(edges)+1))
	heat.Data = hd.json()
	f.Plots = []plot{p, heat}
	f.Keys = append(f.Keys, h.keys()...)
	for i := range edges {
		f.Table.Head = append(f.Table.Head, "≤ "+format.Took(edges[i]))
	}
	f.Table.Head = append(f.Table.Head, "> "+format.Took(highest))
	for i := range hists {
		for k := range len(edges) + 1 {
			cell := Cell{Text: format.NoValue}
			if x, ok := hists[i].Share(rowBounds(edges, k)); ok {
				cell.Text = format.Percent(x, 1)
			}
			f.Table.Rows[i].Cells = append(f.Table.Rows[i].Cells, cell)
		}
	}
	f.Table.thin()
	slices.Reverse(f.Table.Rows)
	f.Caption = latencyCaption(edges, g.Step)
	return f
}

func latencyCaption(edges []time.Duration, step time.Duration) string {
	var names []string
	for _, e := range edges {
		names = append(names, format.Took(e))
	}
	c := "Durations are counted between thresholds (" + strings.Join(names, ", ") +
		"), so a quantile is known to lie between two of them. "
	if len(edges) == 1 {
		c = "Durations are counted against a single threshold (" + names[0] +
			"), so a quantile is known to lie below or above it. "
	}
	return c +
		fmt.Sprintf(
			"Between two thresholds it is interpolated, as in histogram_quantile. Beyond the last threshold it is drawn at "+
				"that threshold. Steps of %s. Below: the share of events in each range of durations.", slo.FormatDuration(step))
}

// rowBounds are those of the bin k of a heatmap; 0 is no bound.
func rowBounds(edges []time.Duration, k int) (lo, hi time.Duration) {
	if k > 0 {
		lo = edges[k-1]
	}
	if k < len(edges) {
		hi = edges[k]
	}
	return lo, hi
}

const heatRow = 18

func heatHeight(rows int) float64 { return float64(max(2*heatRow, rows*heatRow)) }

// heatLevel is the shade of a share: about logarithmic, so that the few slow ones
// are in sight; 0 for none.
func heatLevel(x float64) int {
	if x <= 0 {
		return 0
	}
	return min(heatLevels, max(1, heatLevels+int(math.Ceil(math.Log(x)/math.Log(4)))))
}

// newHeatmap draws a row for each range of durations, the slowest on top.
func newHeatmap(t timeline, g *history.Grid, edges []time.Duration, hists []history.Histogram) plot {
	rows := len(edges) + 1
	height := heatHeight(rows)
	each := height / float64(rows)
	p := newPlot("heat", "Share of events by duration over time, the slowest on top", height, t)
	var cells [heatLevels + 1]Pen
	for k := range rows {
		lo, hi := rowBounds(edges, k)
		top := height - float64(k+1)*each
		text := "≤ " + format.Took(hi)
		if hi == 0 {
			text = "> " + format.Took(lo)
		}
		p.Y = append(p.Y, tick{At: Coord(top + each/2), Text: text})
		// Neighbours of one shade are one rectangle.
		for i := 0; i < len(hists); {
			level := cellLevel(&hists[i], lo, hi)
			j := i + 1
			for j < len(hists) && cellLevel(&hists[j], lo, hi) == level {
				j++
			}
			if level > 0 {
				left := t.x(g.Steps[i].From)
				cells[level].Box(left, top+0.5, t.x(g.Steps[j-1].To)-left, top+each-0.5)
			}
			i = j
		}
	}
	slices.Reverse(p.Y)
	for level := 1; level <= heatLevels; level++ {
		if d := cells[level].String(); d != "" {
			p.Fills = append(p.Fills, stroke{fmt.Sprintf("h%d", level), d})
		}
	}
	return p
}

func cellLevel(h *history.Histogram, lo, hi time.Duration) int {
	x, ok := h.Share(lo, hi)
	if !ok {
		return 0
	}
	return heatLevel(x)
}

// within prints the certain bounds of a quantile.
func within(q history.Quantile) string {
	switch {
	case !q.OK:
		return format.NoValue
	case q.High == 0:
		return "over " + format.Took(q.Low)
	case q.Low == 0:
		return "up to " + format.Took(q.High)
	}
	return format.Took(q.Low) + " to " + format.Took(q.High)
}

func about(q history.Quantile) string {
	switch {
	case !q.OK:
		return format.NoValue
	case q.High == 0:
		return "> " + format.Took(q.Low)
	}
	return "≈ " + format.Took(q.Value)
}
