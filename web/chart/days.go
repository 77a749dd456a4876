package chart

import (
	"html/template"
	"strconv"
	"strings"
)

// Day is a day of an SLO in the matrix of days.
type Day struct {
	Class string // ok, risk or bad, as in [DayClass]; none without data
	Title string // of a day that missed the objective
}

// DayStrip draws a cell for each day. Only days that missed the objective have a title, so that a page of strips is
// short.
func DayStrip(days []Day, label string) template.HTML {
	var b strings.Builder
	b.WriteString(`<svg class="days" viewBox="0 0 ` + strconv.Itoa(10*len(days)) +
		` 10" preserveAspectRatio="none" role="img" aria-label="` + template.HTMLEscapeString(label) + `">`)
	cell := func(i int) string { return "M" + strconv.Itoa(10*i) + " 0h9v10h-9z" }
	for _, class := range []string{"ok", "none"} {
		d := ""
		for i := range days {
			if days[i].Class == class {
				d += cell(i)
			}
		}
		if d != "" {
			b.WriteString(`<path class="` + class + `" d="` + d + `"/>`)
		}
	}
	for i := range days {
		if c := days[i].Class; c == "risk" || c == "bad" {
			b.WriteString(`<path class="` + c + `" d="` + cell(i) + `"><title>` +
				template.HTMLEscapeString(days[i].Title) + `</title></path>`)
		}
	}
	b.WriteString(`</svg>`)
	return template.HTML(b.String()) // its parts are escaped
}
