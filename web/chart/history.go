package chart

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/history"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
	"github.com/sloengine/sloengine/web/format"
)

// Figure is a chart with all that stands around it.
type Figure struct {
	Plots   []plot
	Keys    []key
	Caption string
	Table   table
	Note    string // instead of everything else
}

type table struct {
	Caption string
	Head    []string // the first is of the rows' heads
	Rows    []Row
}

type Row struct {
	At    format.Stamp
	Text  string // instead of At
	Cells []Cell
}

type Cell struct {
	Text string
	Hot  bool
}

// Shades are what every chart over time draws behind its data.
type Shades struct {
	out    []slo.Span // planned maintenance
	unseen []slo.Span // the engine did not count
	unkept slo.Span   // older than what is kept

	incident slo.Span // that the chart is about; zero if it is about none
	moments  []Moment // in the order of their times
}

func NewShades(s *slo.SLO, sp slo.Span, slice time.Duration, a *fold.ReadResult) Shades {
	h := Shades{out: history.Excluded(s, sp, slice)}
	if a == nil || !a.Known {
		return h
	}
	at := sp.From
	if a.Oldest.After(at) {
		h.unkept = slo.Span{From: at, To: a.Oldest}.Intersect(sp)
		at = h.unkept.To
	}
	grain := sp.Duration() / 500 // less would not be seen
	for _, o := range a.Observed {
		if gap := (slo.Span{From: at, To: o.From}).Intersect(sp); gap.Duration() > max(grain, time.Minute) {
			h.unseen = append(h.unseen, gap)
		}
		if o.To.After(at) {
			at = o.To
		}
	}
	if gap := (slo.Span{From: at, To: sp.To}).Intersect(sp); gap.Duration() > max(grain, 2*time.Minute) {
		h.unseen = append(h.unseen, gap)
	}
	return h
}

// Around adds the time of an incident.
func (h Shades) Around(incident slo.Span) Shades {
	h.incident = incident
	return h
}

func (h Shades) draw(p *plot, t timeline, height float64) {
	add := func(sp slo.Span, class, title string) {
		if b, ok := t.band(sp, height, class, title); ok {
			p.Bands = append(p.Bands, b)
		}
	}
	add(h.incident, "incident", "incident")
	add(h.unkept, "unkept", "no longer retained")
	for _, sp := range h.unseen {
		add(sp, "unseen", "not observed")
	}
	for _, sp := range h.out {
		add(sp, "shade", "planned maintenance")
	}
	p.Marks = t.moments(h.moments)
}

func (h Shades) keys() []key {
	var out []key
	if h.incident.Duration() > 0 {
		out = append(out, key{"incident", "incident"})
	}
	if len(h.out) > 0 {
		out = append(out, key{"shade", "planned maintenance"})
	}
	if len(h.unseen) > 0 {
		out = append(out, key{"unseen", "not observed"})
	}
	if h.unkept.Duration() > 0 {
		out = append(out, key{"unkept", "no longer retained"})
	}
	if len(h.moments) > 0 {
		out = append(out, key{annotated, "annotation"})
	}
	return out
}

// stepName is what one thing that an SLO counts is called.
func CountedName(r *sla.SLOReport) string {
	if r.Slice > 0 {
		return "slices of " + slo.FormatDuration(r.Slice)
	}
	switch r.SLO.Indicator.Kind {
	case slo.KindApdex:
		return "half events"
	case slo.KindVolume:
		return string(r.SLO.Indicator.Calendar) + "s"
	}
	return "events"
}

// enoughOfStep is how many events a step that is less than half over must have to say how bad it is.
const enoughOfStep = 50

// bars are what the steps of NewEvents are drawn with.
type bars struct {
	good, bad, within, above, cut Pen
	any                           bool
}

// NewEvents draws good and bad over time, and below it the share that was bad
// beside what the objective allows.
func NewEvents(r *sla.SLOReport, g *history.Grid, points []history.Point, h Shades, now time.Time) Figure {
	s := r.SLO
	t := timeline{g.Span}
	var peak uint64
	var peakAt time.Time
	var totals []float64
	top := 2 * s.Objective.Budget()
	var worst float64
	var worstAt time.Time
	for _, p := range points {
		totals = append(totals, float64(p.Raw.Valid()))
		if n := p.Raw.Valid(); n > peak {
			peak, peakAt = n, p.From
		}
		if 2*p.Duration() < g.Step && p.Raw.Valid() < enoughOfStep && s.Indicator.Kind != slo.KindVolume {
			continue // a step that has hardly begun says little
		}
		if b := p.Raw.Budget(s); b.HasData && 1-b.SLI > worst {
			worst, worstAt = 1-b.SLI, p.From
		}
	}
	if peak == 0 {
		return Figure{}
	}
	top = min(1, max(top, worst*1.08))
	f := Figure{
		Keys: append([]key{{"good", "good"}, {"bad", "bad"},
			{"ref", "the objective allows " + format.WrittenPercent(s.Objective.Budget()) + " bad"}}, h.keys()...),
		Table: table{Caption: "Good and bad in steps of " + slo.FormatDuration(g.Step) + ", newest first",
			Head: []string{"From", "Good", "Bad", "Total", "Indicator", "Burn"}},
	}

	counted := CountedName(r)
	highest, clips := AxisTop(totals)
	ev := Scale{Max: highest * 1.05, Height: PlotHeight}
	if clips {
		f.Keys = append(f.Keys, key{"cut", "higher than the axis, at most " + format.Compact(peak) + " at " +
			format.Minute(peakAt, now)})
	}
	sh := Scale{Max: top, Height: lowH * 1.5}
	events := newPlot("events", "Good and bad "+counted+" over time", ev.Height, t)
	ratio := newPlot("share", "Bad share over time", sh.Height, t)
	de := NewData(true, "count", g)
	dr := NewData(true, "percent", g)
	var over, running bars
	vGood, vBad, vShare := Series{Name: "good"}, Series{Name: "bad"}, Series{Name: "bad share"}
	for _, p := range points {
		x, w := t.x(p.From), BarWidth(t.x(p.To)-t.x(p.From))
		b := p.Raw.Budget(s)
		draw := &over
		if p.Duration() < g.Step && now.Sub(p.To) < g.Step {
			draw, running.any = &running, b.HasData
		}
		row := Row{At: format.NewStamp(p.From, now),
			Cells: []Cell{{Text: format.Count(p.Raw.Good)},
				{Text: format.Count(p.Raw.Bad), Hot: p.Raw.Bad > 0 && b.Consumed > 1}, {Text: format.Count(p.Raw.Valid())}}}
		if !b.HasData {
			vGood.V, vBad.V, vShare.V = append(vGood.V, missing), append(vBad.V, missing), append(vShare.V, missing)
			row.Cells = append(row.Cells, Cell{Text: absence(p)}, Cell{Text: format.NoValue})
			f.Table.Rows = append(f.Table.Rows, row)
			continue
		}
		if float64(p.Raw.Valid()) > ev.Max {
			draw.cut.Box(x, 0, w, 5)
		}
		total, one := ev.Y(float64(p.Raw.Valid())), ev.Y(float64(p.Raw.Bad))
		if p.Raw.Bad > 0 {
			one = min(one, ev.Height-1.5) // a few among many must still be seen
			draw.bad.Box(x, one, w, ev.Height)
		}
		if p.Raw.Good > 0 {
			draw.good.Box(x, min(total, one), w, one)
		}
		part := 1 - b.SLI
		if part > 0 {
			to := &draw.within
			if b.Consumed > 1 {
				to = &draw.above
			}
			to.Box(x, min(sh.Y(part), sh.Height-1), w, sh.Height)
		}
		vGood.V, vBad.V, vShare.V = append(vGood.V, Number(p.Raw.Good)), append(vBad.V, Number(p.Raw.Bad)),
			append(vShare.V, Number(part))
		row.Cells = append(row.Cells, Cell{Text: format.Percent(b.SLI, format.Decimals(s.Objective))},
			Cell{Text: format.BurnRate(b.Consumed), Hot: b.Consumed > 1})
		f.Table.Rows = append(f.Table.Rows, row)
	}
	slices.Reverse(f.Table.Rows)
	events.Fills = []stroke{{"good", over.good.String()}, {"bad", over.bad.String()}}
	if clips {
		events.Fills = append(events.Fills, stroke{"cut", over.cut.String() + running.cut.String()})
	}
	ratio.Fills = []stroke{{"some", over.within.String()}, {"bad", over.above.String()}}
	if running.any {
		f.Keys = append(f.Keys, key{"running", "not over yet"})
		events.Fills = append(events.Fills, stroke{"good running", running.good.String()},
			stroke{"bad running", running.bad.String()})
		ratio.Fills = append(ratio.Fills, stroke{"some running", running.within.String()},
			stroke{"bad running", running.above.String()})
	}
	budget := s.Objective.Budget()
	ratio.Refs = []refLine{{"ref", Coord(sh.Y(budget)), format.WrittenPercent(budget)}}
	events.Y = ev.yTicks(roundTicks(ev.Max, 3), func(v float64) string { return format.Compact(uint64(v)) })
	ratio.Y = sh.yTicks(roundTicks(sh.Max, 2), format.WrittenPercent)
	de.Series, dr.Series = []Series{vGood, vBad}, []Series{vShare}
	h.draw(&events, t, ev.Height)
	h.draw(&ratio, t, sh.Height)
	events.Data, ratio.Data = de.json(), dr.json()
	f.Plots = []plot{events, ratio}
	f.Caption = fmt.Sprintf("%s in steps of %s, planned maintenance included. Below: the bad share.",
		strings.ToUpper(counted[:1])+counted[1:], slo.FormatDuration(g.Step))
	if worst > 0 {
		f.Caption += fmt.Sprintf(" Worst: %s bad at %s.", format.Percent(worst, 2), format.Minute(worstAt, now))
	} else {
		f.Caption += " Nothing was bad."
	}
	return f
}

// absence says why a step has no number.
func absence(p history.Point) string {
	switch {
	case !p.Kept:
		return "no longer retained"
	case p.Seen < 0.5:
		return "not observed"
	}
	return "no data"
}

func NewData(steps bool, unit string, g *history.Grid) *Data {
	return &Data{Unit: unit, From: g.From.Unix(), To: g.To.Unix(), Steps: steps, First: g.From.Unix(),
		Every: int64(g.Step.Seconds()), Series: []Series{}}
}

// mostRows is how many rows a table has that is an alternative to a line.
const mostRows = 72

// thin keeps one row in so many, the last one among them.
func (t *table) thin() {
	every := (len(t.Rows) + mostRows - 1) / mostRows
	if every < 2 {
		return
	}
	var out []Row
	for i := (len(t.Rows) - 1) % every; i < len(t.Rows); i += every {
		out = append(out, t.Rows[i])
	}
	t.Rows = out
	t.Caption += fmt.Sprintf(", one row in %d", every)
}

// maxBurnPoints bounds how many steps before the range are read for the windows
// of the burn-rate chart.
const maxBurnPoints = 1500

// BurnWindows are the windows that the burn-rate chart draws: long windows of
// tiers, made of whole steps, and not so long that they hide the range.
func BurnWindows(tiers []alerts.Tier, rng slo.Span, step time.Duration) []alerts.Tier {
	var out []alerts.Tier
	seen := map[time.Duration]bool{}
	for _, t := range tiers {
		if t.Long%step != 0 || t.Long/step > maxBurnPoints || t.Long > max(6*time.Hour, rng.Duration()) ||
			seen[t.Long] || len(out) == 3 {
			continue
		}
		seen[t.Long] = true
		out = append(out, t)
	}
	return out
}

// burnLine is the burn rate over the last window at the end of each step; NaN
// where nothing was valid. points begin a window before the first value asked for.
func burnLine(s *slo.SLO, points []history.Point, window time.Duration, step time.Duration, first int) []float64 {
	n := int(window / step)
	out := make([]float64, 0, len(points)-first)
	var sum history.Tally
	for i, p := range points {
		sum = sum.Plus(p.Net)
		if i >= n {
			sum = sum.Minus(points[i-n].Net)
		}
		if i < first {
			continue
		}
		v := math.NaN()
		if b := sum.Budget(s); b.HasData {
			v = b.Consumed
		}
		out = append(out, v)
	}
	return out
}

// NewBurnChart draws how fast the tiers' long windows burned, beside the factors
// that alerts compare them with. The steps of g end where the range sp ends, and
// begin a window before it.
func NewBurnChart(s *slo.SLO, sp slo.Span, g *history.Grid, points []history.Point, tiers []alerts.Tier, h Shades,
	now time.Time) Figure {
	first := slices.IndexFunc(points, func(p history.Point) bool { return p.To.After(sp.From) })
	if len(tiers) == 0 || first < 0 {
		return Figure{}
	}
	t := timeline{sp}
	top, any := 1.5, false
	lines := make([][]float64, len(tiers))
	for i, tier := range tiers {
		lines[i] = burnLine(s, points, tier.Long, g.Step, first)
		top = max(top, tier.Factor*1.15)
		for _, v := range lines[i] {
			if format.Finite(v) {
				top, any = max(top, v*1.05), true
			}
		}
	}
	if !any {
		return Figure{}
	}
	sc := Scale{Max: top, Height: PlotHeight, Asinh: true}
	p := newPlot("burn", "Burn rates over time", sc.Height, t)
	d := NewData(false, "times", g)
	d.From, d.First = sp.From.Unix(), points[first].To.Unix() // a value is of its window's end
	f := Figure{Table: table{Caption: "Burn rate by window at the end of each step of " + slo.FormatDuration(g.Step) +
		", newest first", Head: []string{"Until"}}}
	for _, pt := range points[first:] {
		f.Table.Rows = append(f.Table.Rows, Row{At: format.NewStamp(pt.To, now)})
	}
	for i, tier := range tiers {
		class := fmt.Sprintf("c%d", i+1)
		name := slo.FormatDuration(tier.Long)
		series := Series{Name: name}
		var line Pen
		for k, v := range lines[i] {
			series.V = append(series.V, Number(v))
			cell := Cell{Text: format.NoValue}
			if format.Finite(v) {
				line.to(t.x(points[first+k].To), sc.Y(v))
				cell = Cell{format.BurnRate(v), v > tier.Factor}
			} else {
				line.up()
			}
			f.Table.Rows[k].Cells = append(f.Table.Rows[k].Cells, cell)
		}
		d.Series = append(d.Series, series)
		p.Lines = append(p.Lines, stroke{class, line.String()})
		p.Refs = append(p.Refs, refLine{class, Coord(sc.Y(tier.Factor)), format.BurnRate(tier.Factor)})
		f.Keys = append(
			f.Keys, key{class, fmt.Sprintf("over %s; dashed: %s above %s", name, tier.Severity, format.BurnRate(tier.Factor))})
		f.Table.Head = append(f.Table.Head, "Over "+name)
	}
	f.Table.thin()
	slices.Reverse(f.Table.Rows)
	var marks []float64
	for _, v := range []float64{0, 1, 3, 6, 14.4, 50, 150, 500, 1500} {
		if v <= top {
			marks = append(marks, v)
		}
	}
	p.Y = sc.yTicks(marks, func(v float64) string { return slo.FormatRatio(v) + "×" })
	h.draw(&p, t, sc.Height)
	p.Data = d.json()
	f.Plots, f.Keys = []plot{p}, append(f.Keys, h.keys()...)
	f.Caption =
		"Planned maintenance is excluded. A burn rate of 1× spends exactly the budget over the window. The axis is " +
			"non-linear (asinh), so that both 1× and a full outage are visible."
	return f
}
