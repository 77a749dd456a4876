package chart

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/format"
)

// Size of a chart's plot: permille across, so that it scales to any width, and pixels down.
const (
	plotW      = 1000
	PlotHeight = 150
	lowH       = 56
)

// plot is a chart over time, drawn by the server. Where scripts run, slo.js says
// the numbers of Data under a cursor.
type plot struct {
	Key    string // part of ids
	Name   string // what a screen reader calls it
	Height string
	Bands  []Bar
	Fills  []stroke
	Lines  []stroke
	Refs   []refLine
	Marks  []moment
	X, Y   []tick
	From   int64 // Unix seconds
	To     int64
	Data   string // JSON of plotData
}

type stroke struct{ Class, D string }

// moment is a vertical line at a time, per mille across.
type moment struct{ X, Title string }

// refLine is a level to compare with, such as an objective.
type refLine struct{ Class, Y, Text string }

// tick is a place on an axis: per cent across, or pixels down.
type tick struct{ At, Text, Anchor string }

// key explains one colour of a chart.
type key struct{ Class, Text string }

// Line reports whether the colour is that of a line.
func (k key) Line() bool {
	switch k.Class {
	case "ref", "ideal", "warning", "critical", "c1", "c2", "c3", annotated:
		return true
	}
	return false
}

// Dashed reports whether the line is.
func (k key) Dashed() bool {
	return slices.Contains([]string{"ref", "ideal", "warning", "critical"}, k.Class)
}

// Data are the numbers of a chart. Series hold a number or null for each time,
// which are evenly apart.
type Data struct {
	Unit   string   `json:"unit"` // percent, times, count, seconds
	From   int64    `json:"from"` // Unix seconds, as all times
	To     int64    `json:"to"`
	Steps  bool     `json:"steps,omitempty"` // a number is of the step that begins at its time
	Own    bool     `json:"own,omitempty"`   // it has its own times, so the other charts do not show a cursor at them
	First  int64    `json:"first"`           // time of the first number
	Every  int64    `json:"every"`           // seconds to the next; the last may be nearer
	Series []Series `json:"series"`
}

type Series struct {
	Name string   `json:"name"`
	V    []Number `json:"v"`
	Is   []string `json:"is,omitempty"` // what is certain of each number
}

// Number is a number that is written with six significant digits, and null if it
// is not one.
type Number float64

func (n Number) MarshalJSON() ([]byte, error) {
	if !format.Finite(float64(n)) {
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, float64(n), 'g', 6, 64), nil
}

var missing = Number(math.NaN())

// json is the data for the script.
func (d *Data) json() string {
	raw, err := json.Marshal(d)
	if err != nil {
		return "" // numbers and own strings always encode
	}
	return string(raw)
}

// Scale maps values to pixels down from the top of a plot.
type Scale struct {
	min, Max float64
	Height   float64
	Asinh    bool // by the inverse hyperbolic sine: straight near 0, then ever flatter
}

func (s Scale) fwd(v float64) float64 {
	if s.Asinh {
		return math.Asinh(v)
	}
	return v
}

func (s Scale) Y(v float64) float64 {
	lo, hi := s.fwd(s.min), s.fwd(s.Max)
	if hi <= lo {
		return s.Height
	}
	return s.Height * (1 - min(1, max(0, (s.fwd(v)-lo)/(hi-lo))))
}

// newPlot is an empty chart of a time.
func newPlot(key, name string, height float64, t timeline) plot {
	return plot{Key: key, Name: name, Height: Coord(height), X: t.xTicks(time.UTC), From: t.From.Unix(), To: t.To.Unix()}
}

// timeline maps times to permille across.
type timeline struct{ slo.Span }

func (t timeline) x(at time.Time) float64 {
	d := float64(t.Duration())
	if d == 0 {
		return 0
	}
	return min(plotW, max(0, float64(at.Sub(t.From))/d*plotW))
}

// band is a rectangle over the whole height; false if nothing of it is in sight.
func (t timeline) band(sp slo.Span, height float64, class, title string) (Bar, bool) {
	sp = sp.Intersect(t.Span)
	if sp.Duration() == 0 {
		return Bar{}, false
	}
	b := NewBar(t.x(sp.From), 0, t.x(sp.To)-t.x(sp.From), height, class)
	b.Title = title
	return b, true
}

// xTicks are about six round times of the day, or days.
func (t timeline) xTicks(loc *time.Location) []tick {
	const most = 7
	var step time.Duration
	for _, d := range []time.Duration{
		time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour,
		2 * time.Hour, 3 * time.Hour, 4 * time.Hour,
		6 * time.Hour, 12 * time.Hour, 24 * time.Hour, 2 * 24 * time.Hour, 5 * 24 * time.Hour, 7 * 24 * time.Hour,
		14 * 24 * time.Hour, 30 * 24 * time.Hour, 91 * 24 * time.Hour,
	} {
		if step = d; t.Duration()/d < most {
			break
		}
	}
	at := t.From.In(loc)
	_, offset := at.Zone()
	shift := time.Duration(offset) * time.Second
	at = at.Add(shift).Truncate(step).Add(-shift)
	var out []tick
	for ; !at.After(t.To); at = at.Add(step) {
		x := t.x(at)
		if at.Before(t.From) || x > plotW-1 {
			continue
		}
		layout := "15:04"
		if step >= 24*time.Hour || at.Hour() == 0 && at.Minute() == 0 {
			layout = "2 Jan"
		}
		k := tick{At: Coord(x/10) + "%", Text: at.Format(layout), Anchor: "middle"}
		switch {
		case x < 30:
			k.Anchor = "start"
		case x > plotW-30:
			k.Anchor = "end"
		}
		out = append(out, k)
	}
	return out
}

// roundTicks are about n round values from 0 to top.
func roundTicks(top float64, n int) []float64 {
	if top <= 0 || !format.Finite(top) || n < 1 {
		return []float64{0}
	}
	raw := top / float64(n)
	unit := math.Pow(10, math.Floor(math.Log10(raw)))
	step := 10 * unit
	for _, m := range []float64{1, 2, 2.5, 5} {
		if m*unit >= raw*0.7 {
			step = m * unit
			break
		}
	}
	var out []float64
	for i := 0; float64(i)*step <= top*1.0001; i++ {
		out = append(out, float64(i)*step)
	}
	return out
}

// AxisTop is where the axis of some values ends: at the highest, or, if a few are so high that the rest would look
// equal, at twice the 90th percentile.
func AxisTop(values []float64) (top float64, clips bool) {
	sorted := slices.DeleteFunc(slices.Clone(values), func(v float64) bool { return v <= 0 })
	slices.Sort(sorted)
	n := len(sorted)
	if n == 0 {
		return 0, false
	}
	if most := sorted[n*9/10]; n >= 10 && sorted[n-1] > 6*most {
		return 2 * most, true
	}
	return sorted[n-1], false
}

// yTicks labels values on a scale.
func (s Scale) yTicks(values []float64, text func(float64) string) []tick {
	var out []tick
	last := math.Inf(1)
	for _, v := range values {
		if y := s.Y(v); last-y >= 14 || math.IsInf(last, 1) {
			out = append(out, tick{At: Coord(y), Text: text(v)})
			last = y
		}
	}
	return out
}

// Pen draws a line with gaps.
type Pen struct {
	b    strings.Builder
	down bool
}

func (p *Pen) to(x, y float64) {
	if p.down {
		p.b.WriteByte('L')
	} else {
		p.b.WriteByte('M')
	}
	p.b.WriteString(Coord(x))
	p.b.WriteByte(' ')
	p.b.WriteString(Coord(y))
	p.down = true
}

func (p *Pen) up() { p.down = false }

// Box adds a rectangle between two heights.
func (p *Pen) Box(x, top, w, bottom float64) {
	p.b.WriteString("M" + Coord(x) + " " + Coord(bottom) + "V" + Coord(top) + "h" + Coord(w) + "V" + Coord(bottom) + "z")
}

func (p *Pen) String() string { return p.b.String() }

// BarWidth leaves a gap between bars as long as they are wide enough.
func BarWidth(w float64) float64 {
	if w > 4 {
		return w - 1
	}
	return max(w*0.8, 0.4)
}
