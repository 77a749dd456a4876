package dashboards

import (
	"strings"

	"github.com/sloengine/sloengine/reliability/metric"
)

// sheet adds panels of the engine's own metrics to a board, where families of a kind are one panel with a line for each.
type sheet struct {
	*board
	width int // of each panel, in columns of 24
}

const sheetHeight = 7

// rates shows how often things happen per second: the growth of counters.
func (s sheet) rates(v view, families ...*metric.Family) {
	if v.unit == "" {
		v.unit = unitRate
	}
	v.queries = perFamily(families, func(f *metric.Family, by string) string { return sumRate(by, f.Name) })
	s.add(s.width, sheetHeight, lines(v, lineStyle{stacked: len(families) == 1}))
}

// levels shows gauges as they are.
func (s sheet) levels(v view, families ...*metric.Family) {
	v.queries = perFamily(families, func(f *metric.Family, by string) string {
		if by == "" {
			return gauge(f.Name)
		}
		return "sum by (instance, " + by + ") (" + gauge(f.Name) + ")"
	})
	s.add(s.width, sheetHeight, lines(v, lineStyle{}))
}

// took shows the 95th percentile of durations, by one label or over all.
func (s sheet) took(v view, f *metric.Family) {
	v.unit, v.steps = unitSeconds, plain()
	by := strings.Join(f.LabelNames(), ", ")
	if by == "" {
		v.queries = []query{{quantile("0.95", f.Name), "95 %"}}
	} else {
		v.queries = []query{{quantileBy("0.95", by, f.Name), braces(f.LabelNames())}}
	}
	s.add(s.width, sheetHeight, lines(v, lineStyle{log: true}))
}

// perFamily makes one query for each family, by all of its labels.
func perFamily(families []*metric.Family, expr func(f *metric.Family, by string) string) []query {
	var out []query
	for _, f := range families {
		names := f.LabelNames()
		legend := braces(names)
		if len(families) > 1 || len(names) == 0 {
			legend = strings.TrimSpace(plainName(f.Name) + " " + legend)
		}
		out = append(out, query{expr(f, strings.Join(names, ", ")), legend})
	}
	return out
}

// plainName is what a family counts: its name without the part and the unit of a counter.
func plainName(name string) string {
	name = strings.TrimSuffix(strings.TrimPrefix(name, metric.Namespace), "_total")
	return strings.ReplaceAll(name, "_", " ")
}
