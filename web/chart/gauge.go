package chart

import (
	"cmp"
	"html/template"
	"strings"

	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/format"
)

// Gauge is a bar of how much there is of something.
type Gauge struct {
	Width string // 0 to 100
	Class string
	Label string
}

// NewGauge fills a share of the bar.
func NewGauge(share float64, class, label string) Gauge {
	return Gauge{Coord(100 * min(1, max(0, share))), class, label}
}

// BudgetGauge shows what is left of a budget. With nothing left the whole bar says so.
func BudgetGauge(b slo.Budget, shape string) Gauge {
	if !b.HasData {
		return Gauge{"0", "none", "no data"}
	}
	left := b.Remaining
	if left <= 0 {
		left = 1
	}
	return NewGauge(left, shape, format.Percent(b.Remaining, 1)+" of the budget left")
}

// UseGauge shows how much of a bound is used. It warns from four fifths on.
func UseGauge(n, of float64, label string) Gauge {
	g := Gauge{Width: "0", Class: "ok", Label: label}
	if of <= 0 || !format.Finite(n) || n < 0 {
		return g
	}
	g.Width = Coord(100 * min(1, n/of))
	switch {
	case n >= of:
		g.Class = "bad"
	case n >= of*0.8:
		g.Class = "risk"
	}
	return g
}

// SVG draws the gauge. Lists have hundreds of them, which templates would draw slowly.
func (g Gauge) SVG() template.HTML {
	var b strings.Builder
	b.Grow(256)
	for _, s := range []string{
		`<svg class="gauge" viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label="`,
		template.HTMLEscapeString(g.Label),
		`"><rect class="track" width="100" height="6"/><rect class="`, template.HTMLEscapeString(g.Class), `" width="`,
		template.HTMLEscapeString(cmp.Or(g.Width, "0")), `" height="6"/></svg>`,
	} {
		b.WriteString(s)
	}
	return template.HTML(b.String()) // its parts are escaped
}

// Bounds of a bar of states.
const (
	stateBarWidth = 72
	mostSegments  = 24 // groups that have a segment each; of more, each state has one
)

// StateBar draws how many things are in each state, in the order of the marks, and says the same in words: "12 groups:
// 1 firing, 11 ok".
func StateBar(label string, marks []Mark, n map[Mark]int) template.HTML {
	total := 0
	for _, m := range marks {
		total += n[m]
	}
	var text, paths strings.Builder
	text.WriteString(label)
	sep, x := ": ", 0.0
	for _, m := range marks {
		if n[m] == 0 {
			continue
		}
		text.WriteString(sep + format.Count(n[m]) + " " + m.Word)
		sep = ", "
		paths.WriteString(`<path class="` + template.HTMLEscapeString(m.Shape) + `" d="`)
		segments, width := n[m], float64(stateBarWidth)/float64(total)
		if total > mostSegments {
			// what is bad stays visible among thousands
			segments, width = 1, max(2, float64(stateBarWidth)*float64(n[m])/float64(total))
		}
		for range segments {
			paths.WriteString("M" + Coord(x) + " 0h" + Coord(width-1) + "v8h-" + Coord(width-1) + "z")
			x += width
		}
		paths.WriteString(`"/>`)
	}
	return template.HTML(`<svg class="states" viewBox="0 0 ` + Coord(max(stateBarWidth, x)) +
		` 8" preserveAspectRatio="none" role="img" aria-label="` + template.HTMLEscapeString(text.String()) + `">` +
		paths.String() + `</svg>`) // its parts are escaped
}
