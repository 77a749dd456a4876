package dashboards

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sloengine/sloengine/reliability/metric"
)

// kind is the name of the kind of a panel, and its title.
func (f *panelFile) kind() (name, title string) {
	for _, k := range []struct{ name, title string }{{"stat", f.Stat}, {"timeline", f.Timeline}, {"dial", f.Dial},
		{"bars", f.Bars}, {"heat", f.Heat}, {"table", f.Table}} {
		if k.title != "" {
			return k.name, k.title
		}
	}
	return "lines", f.Lines
}

// Named is for the template of a stat.
func (f *panelFile) Named() bool { return len(f.Queries) > 1 || f.Queries[0].Legend != f.Stat }

// Heading and Descending are for the template of a table.
func (f *panelFile) Heading() string  { return strings.TrimPrefix(f.Sort, "-") }
func (f *panelFile) Descending() bool { return f.Sort[0] == '-' }

func (x *scope) add(b *board, f *panelFile) error {
	name, title := f.kind()
	families, err := f.families()
	errs := []error{err}
	var overrides []override
	switch {
	case f.Rates != nil:
		f.Stacked = len(families) == 1
		f.Queries = perFamily(families, func(name, by string) string {
			if by != "" {
				by = " by (" + by + ") "
			}
			return "sum" + by + "(rate(" + name + "{" + picked + "}" + interval + "))"
		})
	case f.Levels != nil:
		f.Queries = perFamily(families, func(name, by string) string {
			if by == "" {
				return name + "{" + picked + "}"
			}
			return "sum by (instance, " + by + ") (" + name + "{" + picked + "})"
		})
	case f.P95 != nil && err == nil:
		f.Log, f.Look.Unit, f.Look.Colors = true, "s", "text"
		f.Queries = []query{percentile(families[0])}
	case f.Table != "":
		f.Look.Colors = "text" // only columns have colours
		for _, c := range f.Columns {
			f.Queries = append(f.Queries, query{c.Expr, cmp.Or(f.Legend, c.Name)})
		}
	}
	for _, mark := range strings.FieldsFunc(f.Dashed, func(r rune) bool { return r == ',' }) {
		i, color := 0, "red"
		if n, err := fmt.Sscan(mark, &i, &color); n == 0 {
			errs = append(errs, fmt.Errorf("dashed %q: %w", f.Dashed, err))
		}
		overrides = append(overrides, dashed(i, color))
	}
	more, marked := x.more(f.More)
	if marked {
		for i := range more {
			overrides = append(overrides, dashed(len(f.Queries)+i, "red"))
		}
	}
	f.Queries = append(f.Queries, more...)
	if f.Right != nil {
		overrides = append(overrides, rightAxis(f.Right.Query, f.Right.Unit, f.Right.Label))
	}
	var width, height int
	_, err = fmt.Sscanf(f.Look.Size, "%dx%d", &width, &height)
	steps, badSteps := readSteps(f.Look.Colors)
	words, badWords := readWords(f.Words)
	errs = append(errs, err, badSteps, badWords)
	boards, _ := readBoards()
	k := boards.kinds[name]
	d := defaults{
		Unit: f.Look.Unit, NoValue: f.Look.None, Min: f.Min, Max: f.Max, Mappings: words,
		Color: color{Mode: cmp.Or(k.Color, "thresholds")}, Thresholds: thresholds{Mode: "absolute", Steps: steps},
	}
	if f.Links {
		d.Links = x.detailLinks("__field.labels." + x.id)
	}
	if f.Decimals > 0 {
		d.Decimals = &f.Decimals
	}
	p := &panel{Type: k.Type, Title: title, Description: f.About, DataSource: &prometheus, MaxDataPoints: k.Points}
	if f.Table != "" {
		columns, err := x.columns(p, f)
		overrides, errs = columns, append(errs, err)
	}
	if d.Custom, err = k.Custom.of(f); err != nil {
		errs = append(errs, err)
	}
	if p.Options, err = k.Options.of(f); err != nil {
		errs = append(errs, err)
	}
	for i, q := range f.Queries {
		p.Targets = append(p.Targets, target{
			RefID: refID(i), DataSource: prometheus, Expr: q.Expr, LegendFormat: q.Legend, EditorMode: "code",
			Format: cmp.Or(k.Format, "time_series"), Instant: !k.Range && !f.Mean, Range: k.Range || f.Mean,
		})
	}
	p.FieldConfig = &fieldConfig{Defaults: d, Overrides: append([]override{}, overrides...)}
	b.add(width, height, p)
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("panel %s: %w", title, err)
	}
	return nil
}

// columns makes the columns of a table: it joins the queries' series that agree in their labels to rows.
func (x *scope) columns(p *panel, f *panelFile) ([]override, error) {
	var out []override
	o := organize{ExcludeByName: map[string]bool{"Time": true, "__name__": true, "job": true, "instance": true},
		IndexByName: map[string]int{}, RenameByName: map[string]string{}}
	column := func(field, name string, ps ...property) {
		o.IndexByName[field], o.RenameByName[field] = len(o.IndexByName), name
		if ps != nil {
			out = append(out, override{matcher{"byName", name}, ps})
		}
	}
	for l := range strings.SplitSeq(f.By, ", ") {
		heading, label, _ := strings.Cut(l, "=")
		if label == x.id {
			column(label, heading, property{"links", x.detailLinks("__value.text")})
			continue
		}
		column(label, heading)
	}
	for i, c := range f.Columns {
		steps, err := readSteps(c.Colors)
		if err != nil {
			return nil, err
		}
		ps := []property{{"unit", c.Unit}, {"thresholds", thresholds{Mode: "absolute", Steps: steps}},
			{"custom.cellOptions", map[string]string{"type": "color-text"}}}
		if c.Digits > 0 {
			ps = append(ps, property{"decimals", c.Digits})
		}
		field := "Value" // of the only query
		if len(f.Columns) > 1 {
			field += " #" + refID(i)
		}
		column(field, c.Name, ps...)
	}
	p.Transformations = []transformation{{ID: "merge", Options: struct{}{}}}
	if f.Sorted != "" { // the merged rows still have the label
		f.Hide = append(f.Hide, f.Sorted)
		p.Transformations = append(p.Transformations, transformation{ID: "sortBy",
			Options: map[string]any{"fields": struct{}{}, "sort": []map[string]string{{"field": f.Sorted}}}})
	}
	for _, label := range f.Hide {
		o.ExcludeByName[label] = true
	}
	p.Transformations = append(p.Transformations, transformation{ID: "organize", Options: o})
	return out, nil
}

func readSteps(colors string) ([]step, error) {
	base, marks, _ := strings.Cut(colors, ", ")
	out := []step{{Color: base}}
	for _, s := range strings.FieldsFunc(marks, func(r rune) bool { return r == ',' }) {
		mark, color, _ := strings.Cut(strings.TrimSpace(s), " ")
		x, err := strconv.ParseFloat(mark, 64)
		if err != nil || color == "" {
			return nil, fmt.Errorf("colors %q: want a colour, then marks with theirs", colors)
		}
		out = append(out, step{Color: color, Value: &x})
	}
	return out, nil
}

func readWords(words []string) ([]mapping, error) {
	if len(words) == 0 {
		return nil, nil
	}
	options := map[string]mappedValue{}
	for i, w := range words {
		part := strings.SplitN(w, " ", 3)
		if len(part) < 3 {
			return nil, fmt.Errorf("words %q: want a value, a colour and a text", w)
		}
		options[part[0]] = mappedValue{Text: part[2], Color: part[1], Index: i}
	}
	return []mapping{{Type: "value", Options: options}}, nil
}

// families are those of the metrics that a panel names.
func (f panelFile) families() ([]*metric.Family, error) {
	var out []*metric.Family
	for _, name := range slices.Concat(f.Rates, f.Levels, f.P95) {
		family := metric.Lookup(name)
		if family == nil {
			return nil, fmt.Errorf("there is no metric %s", name)
		}
		out = append(out, family)
	}
	return out, nil
}

// perFamily makes one query for each family, by all of its labels.
func perFamily(families []*metric.Family, expr func(name, by string) string) []query {
	var out []query
	for _, f := range families {
		names := f.LabelNames()
		legend := braces(names)
		if len(families) > 1 || len(names) == 0 {
			plain := strings.TrimSuffix(strings.TrimPrefix(f.Name, metric.Namespace), "_total")
			legend = strings.TrimSpace(strings.ReplaceAll(plain, "_", " ") + " " + legend)
		}
		out = append(out, query{expr(f.Name, strings.Join(names, ", ")), legend})
	}
	return out
}

// percentile is the 95th of a histogram's observations, by its labels or over all.
func percentile(f *metric.Family) query {
	of := func(by string) string {
		return "histogram_quantile(0.95, sum by (" + by + ") (rate(" + f.Name + "_bucket{" + picked + "}" + interval + ")))"
	}
	names := f.LabelNames()
	if len(names) == 0 {
		return query{of("le"), "95 %"}
	}
	return query{of("le, "+strings.Join(names, ", ")) + " >= 0", braces(names)}
}

// refID is A to Z, then A1 and so on.
func refID(i int) string {
	id := string(rune('A' + i%26))
	if i >= 26 {
		id += strconv.Itoa(i / 26)
	}
	return id
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
