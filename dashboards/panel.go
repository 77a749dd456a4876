package dashboards

import (
	"strconv"
)

// Units and colours that do not stand in files.
const (
	unitSeconds = "s"
	unitRate    = "ops" // events, requests or records per second

	bad     = "red"
	neutral = "text"
)

// A query is one line of a panel. The legend is shown with the labels of each
// series put in.
type query struct {
	Expr, Legend string
}

// A view is what any panel needs: what it is called, what it shows in whole
// sentences, how values read, when they are good, and what stands there when
// there are none.
type view struct {
	title, about string
	unit         string
	decimals     int // digits after the point; 0 leaves it to Grafana
	none         string
	steps        []step
	queries      []query
	links        []link    // of every value
	maps         []mapping // words for values
	min, max     *float64
	overrides    []override
}

func (v view) panel(typ string, instant bool, format string) *panel {
	p := &panel{Type: typ, Title: v.title, Description: v.about, DataSource: &prometheus}
	for i, q := range v.queries {
		p.Targets = append(p.Targets, target{
			RefID: refID(i), DataSource: prometheus, Expr: q.Expr, LegendFormat: q.Legend,
			Format: format, Instant: instant, Range: !instant, EditorMode: "code",
		})
	}
	d := defaults{
		Unit: v.unit, NoValue: v.none, Color: color{Mode: "thresholds"},
		Thresholds: thresholds{Mode: "absolute", Steps: v.steps},
		Mappings:   v.maps, Links: v.links, Min: v.min, Max: v.max,
	}
	if v.decimals > 0 {
		d.Decimals = &v.decimals
	}
	p.FieldConfig = &fieldConfig{Defaults: d, Overrides: v.overrides}
	if p.FieldConfig.Overrides == nil {
		p.FieldConfig.Overrides = []override{}
	}
	return p
}

// refID is A to Z, then A1 and so on.
func refID(i int) string {
	id := string(rune('A' + i%26))
	if i >= 26 {
		id += strconv.Itoa(i / 26)
	}
	return id
}

// stat shows the newest value of each series, large and coloured.
func stat(v view) *panel {
	p := v.panel("stat", true, "time_series")
	p.Options = statOptions{
		ReduceOptions: reduce{Calcs: []string{"lastNotNull"}}, ColorMode: "value", GraphMode: "none",
		JustifyMode: "auto", TextMode: textMode(v), Orientation: "auto",
	}
	return p
}

// textMode shows names where there can be several values.
func textMode(v view) string {
	if len(v.queries) == 1 && v.queries[0].Legend == v.title {
		return "value"
	}
	return "value_and_name"
}

// bars shows the newest value of each series as a bar.
func bars(v view) *panel {
	p := v.panel("bargauge", true, "time_series")
	p.Options = barOptions{
		ReduceOptions: reduce{Calcs: []string{"lastNotNull"}}, DisplayMode: "basic", Orientation: "horizontal",
		ShowUnfilled: true, ValueMode: "color", NamePlacement: "auto", MinVizHeight: 12,
	}
	return p
}

// dial shows the newest value of each series on an arc from min to max, with the marks of the view.
func dial(v view) *panel {
	p := v.panel("gauge", true, "time_series")
	p.Options = dialOptions{
		ReduceOptions: reduce{Calcs: []string{"lastNotNull"}}, Orientation: "auto", ShowThresholdLabels: true,
		ShowThresholdMarkers: true,
	}
	return p
}

// lineStyle is how lines are drawn.
type lineStyle struct {
	stacked    bool
	log        bool // axis to the base of 10
	thresholds bool // draw the marks of the view as lines
}

// lines shows series over time.
func lines(v view, s lineStyle) *panel {
	p := v.panel("timeseries", false, "time_series")
	c := lineCustom{
		DrawStyle: "line", LineWidth: 1, FillOpacity: 5, ShowPoints: "never",
		Stacking: stacking{Mode: "none", Group: "A"}, ThresholdsStyle: thresholdStyle{"off"},
		AxisPlacement: "auto",
	}
	if s.stacked {
		c.Stacking.Mode, c.FillOpacity = "normal", 30
	}
	if s.log {
		c.ScaleDistribution = &scale{Type: "log", Log: 10}
	}
	if s.thresholds {
		c.ThresholdsStyle.Mode = "dashed"
	}
	p.FieldConfig.Defaults.Color.Mode = "palette-classic"
	p.FieldConfig.Defaults.Custom = c
	p.Options = lineOptions{
		Legend:  legend{DisplayMode: "table", Placement: "bottom", ShowLegend: true, Calcs: []string{"lastNotNull", "max"}},
		Tooltip: tooltip{Mode: "multi", Sort: "desc"},
	}
	return p
}

// timeline shows states over time, a lane for each series.
func timeline(v view) *panel {
	p := v.panel("state-timeline", false, "time_series")
	p.FieldConfig.Defaults.Custom = timelineCustom{FillOpacity: 80}
	p.Options = timelineOptions{
		ShowValue: "auto", RowHeight: 0.8, MergeValues: true, AlignValue: "left",
		Legend:  legend{DisplayMode: "list", Placement: "bottom", ShowLegend: true, Calcs: []string{}},
		Tooltip: tooltip{Mode: "single", Sort: "none"},
	}
	return p
}

// heat shows how durations spread over the buckets of a histogram.
func heat(v view) *panel {
	p := v.panel("heatmap", false, "heatmap")
	p.MaxDataPoints = 200
	p.Options = heatmapOptions{
		CellGap: 1,
		Color:   heatmapColor{Mode: "scheme", Scheme: "Blues", Scale: "exponential", Steps: 64},
		// Empty cells are left out, not painted as the least.
		FilterValues: heatmapFilter{LE: 1e-9},
		RowsFrame:    heatmapRows{Layout: "auto"},
		YAxis:        heatmapAxis{AxisPlacement: "left", Unit: unitSeconds},
		Legend:       heatmapLegend{Show: true},
		Tooltip:      heatmapTip{Mode: "single", YHistogram: true},
	}
	return p
}

// rightAxis draws the lines of one query against an axis of their own.
func rightAxis(i int, unit, label string) override {
	return override{matcher{"byFrameRefID", refID(i)}, []property{
		{"unit", unit}, {"custom.axisPlacement", "right"}, {"custom.axisLabel", label},
		{"custom.drawStyle", "bars"}, {"custom.fillOpacity", 40},
	}}
}

// dashed draws the lines of one query as a mark to hold the others against.
func dashed(i int, colour string) override {
	return override{matcher{"byFrameRefID", refID(i)}, []property{
		{"custom.lineStyle", map[string]any{"fill": "dash", "dash": []int{8, 6}}},
		{"custom.fillOpacity", 0}, {"color", color{Mode: "fixed", FixedColor: colour}},
	}}
}

// averaged shows the mean over the time range instead of the newest value.
func (p *panel) averaged() *panel {
	for i := range p.Targets {
		p.Targets[i].Instant, p.Targets[i].Range = false, true
	}
	switch o := p.Options.(type) {
	case barOptions:
		o.ReduceOptions.Calcs = []string{"mean"}
		p.Options = o
	case statOptions:
		o.ReduceOptions.Calcs = []string{"mean"}
		p.Options = o
	}
	return p
}
