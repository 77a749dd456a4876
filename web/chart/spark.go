package chart

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"time"

	"github.com/sloengine/sloengine/sla/history"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/format"
)

// Bar is one rectangle of a chart, in the units of its view box.
type Bar struct {
	X, Y, W, H string
	Class      string
	Title      string
}

// SparkHours is how many hours a sparkline shows.
const SparkHours = 24

// Spark is a small chart of how fast each hour burned the budget. The bars of one
// class share a path: a page has thousands of bars.
type Spark struct {
	Good, Bad, None string
	Label           string
}

// Size of a sparkline's view box.
const (
	sparkW = 96
	sparkH = 22
)

// NewSpark draws points as bars: the height is the burn rate on a scale that
// keeps 1x at half height, and hours without data are dots on the base line.
func NewSpark(points []history.Point, o slo.Objective) *Spark {
	if len(points) == 0 {
		return nil
	}
	s := &Spark{}
	var good, bad, none []byte
	step := float64(sparkW) / float64(max(len(points), SparkHours))
	var worst slo.Budget
	var at time.Time
	empty := 0
	for i, p := range points {
		b := slo.NewBudget(o, p.Raw.Counts)
		x := float64(i) * step
		if !b.HasData {
			empty++
			none = appendBox(none, x, 1, step-1)
			continue
		}
		if !worst.HasData || b.Consumed > worst.Consumed {
			worst, at = b, p.From
		}
		h := 1 + burnHeight(b.Consumed)*(sparkH-1)
		if b.Consumed > 1 {
			bad = appendBox(bad, x, h, step-1)
		} else {
			good = appendBox(good, x, h, step-1)
		}
	}
	s.Good, s.Bad, s.None = string(good), string(bad), string(none)
	switch {
	case !worst.HasData:
		s.Label = "no data in 24 hours"
	case worst.Consumed == 0:
		s.Label = "no budget was spent in 24 hours"
	default:
		s.Label = fmt.Sprintf("worst of 24 hours: %s at %s UTC", format.BurnRate(worst.Consumed), at.UTC().Format("15:04"))
	}
	if empty > 0 && worst.HasData {
		s.Label += fmt.Sprintf(", %d hours without data", empty)
	}
	return s
}

// SVG draws the sparkline; without points it is a dash.
func (s *Spark) SVG() template.HTML {
	if s == nil {
		return `<span class="dim">–</span>`
	}
	label := template.HTMLEscapeString(s.Label)
	out := `<svg class="spark" viewBox="0 0 96 22" width="96" height="22" role="img" aria-label="` + label + `"><title>` +
		label + `</title><path class="one" d="M0 10.5h96"/>`
	for _, p := range [][2]string{{"none", s.None}, {"good", s.Good}, {"bad", s.Bad}} {
		if p[1] != "" {
			out += `<path class="` + p[0] + `" d="` + p[1] + `"/>`
		}
	}
	return template.HTML(out + `</svg>`) // its parts are numbers or escaped
}

// appendBox appends a path around a bar that stands on the base line.
func appendBox(b []byte, x, h, w float64) []byte {
	b = appendCoord(append(b, 'M'), x)
	b = append(strconv.AppendInt(append(b, ' '), sparkH, 10), "v-"...)
	b = append(appendCoord(b, h), 'h')
	b = append(appendCoord(b, w), 'v')
	return append(appendCoord(b, h), 'z')
}

// burnHeight maps a burn rate to [0,1): 0 to 0, 1 to a half, ever more to 1.
func burnHeight(rate float64) float64 {
	if rate <= 0 || !format.Finite(rate) {
		return 0
	}
	return rate / (1 + rate)
}

func BurnClass(rate float64) string {
	switch {
	case rate > 1:
		return "bad"
	case rate > 0:
		return "some"
	}
	return "good"
}

func NewBar(x, y, w, h float64, class string) Bar {
	return Bar{X: Coord(x), Y: Coord(y), W: Coord(max(w, 0.5)), H: Coord(max(h, 0)), Class: class}
}

// Coord prints a coordinate with at most two decimals.
func Coord(x float64) string { return string(appendCoord(nil, x)) }

func appendCoord(b []byte, x float64) []byte {
	return strconv.AppendFloat(b, math.Round(x*100)/100, 'f', -1, 64)
}
