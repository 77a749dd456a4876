package dashboards

import (
	"bytes"
	"cmp"
	"embed"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"gopkg.in/yaml.v3"

	"github.com/sloengine/sloengine/reliability/metric"
)

// Each dashboard is rows and panels, with queries as Prometheus reads them. Those of engines and relays, a file each,
// depend on no spec: in them, $engines stands for the matchers in picked. Those of a spec are in spec.yaml.
//
//go:embed boards/*.yaml
var boardFiles embed.FS

type boards struct {
	spec struct {
		Define map[string]string // templates that others name
		Boards []boardFile
	}
	engine []boardFile
}

// readBoards reads them, in the order in which one reads the dashboards.
var readBoards = sync.OnceValues(func() (*boards, error) {
	names := []string{"ingest", "reliability", "delivery", "ratelimits", "internals", "brokers", "outbox"}
	all := &boards{engine: make([]boardFile, len(names))}
	errs := []error{readBoard("spec", &all.spec)}
	for i, name := range names {
		errs = append(errs, readBoard(name, &all.engine[i]))
	}
	return all, errors.Join(errs...)
})

func readBoard(name string, to any) error {
	data, err := boardFiles.ReadFile("boards/" + name + ".yaml")
	if err != nil {
		return err
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(to); err != nil {
		return fmt.Errorf("read dashboard %s: %w", name, err)
	}
	return nil
}

// picked selects the engines that the reader picked.
const picked = `job=~"$job",instance=~"$instance"`

// interval is the only window over which raw counters are read: Grafana makes it
// long enough for four scrapes and short enough for the picture.
const interval = `[$__rate_interval]`

// In the dashboards of a spec, all texts are templates. If is a condition, Each a list of what the part is there for.
type boardFile struct {
	UID, Title, About, If string
	Links                 []struct{ Title, About, UID string }
	Variables             []variableFile // besides those that all have, or instead of them
	Rows                  []struct {
		Row, If, Each string    // without a title, the panels follow those before
		Look          panelLook `yaml:",inline"` // of the panels that say nothing else
		Panels        []panelFile
	}
}

// variableFile is a variable over the values of a label of a series, a text that the reader types in, or a long list
// that a hidden variable saves queries from repeating.
type variableFile struct {
	Name, Label, About, If, Each string
	Series, Of                   string // without Of, the label is the name
	Text, Hidden                 string
}

func (f *variableFile) variable() variable {
	switch {
	case f.Series != "":
		return several(f.Name, f.Label, f.About, cmp.Or(f.Of, f.Name), strings.ReplaceAll(f.Series, "$engines", picked))
	case f.Text != "":
		return textVariable(f.Name, f.Label, f.About, f.Text)
	}
	return hidden(f.Name, f.Hidden)
}

// panelLook is how a panel looks: its size in columns and rows, the unit of its values, what stands there when there
// are none, and the colours of values, such as "green, 60 orange".
type panelLook struct{ Size, Unit, None, Colors string }

func (l panelLook) or(row panelLook) panelLook {
	return panelLook{
		cmp.Or(l.Size, row.Size), cmp.Or(l.Unit, row.Unit), cmp.Or(l.None, row.None), cmp.Or(l.Colors, row.Colors),
	}
}

type panelFile struct {
	Stat, Lines, Timeline, Dial, Bars, Table, Heat string // the title, by how values are drawn

	If, Each, Of        string    // Of is what <<of>> stands for
	Look                panelLook `yaml:",inline"`
	About               string
	Links               bool     // from values to the SLO's own dashboard and page
	Words               []string // in place of values: the value, its colour and the text
	Min, Max            *float64
	Decimals            int
	Stacked, Log, Marks bool   // see lineStyle
	Mean                bool   // over the time range, not the newest value
	Dashed              string // the queries that are marks to hold the others against, such as "1, 2 green"
	Right               *struct {
		Query       int
		Unit, Label string
	}

	// What is shown: queries by their legends, or metrics with a line for each combination of their labels: counters as
	// rates, gauges as levels, or the 95th percentile of a histogram.
	Queries            legends
	Rates, Levels, P95 []string
	More               string // queries that the spec gives, see scope.more

	// Of a table. The queries' series that agree in their labels are joined to rows. By lists the columns of labels, as
	// "SLO=slo_id, Basis=slo_basis". Labels without a column are hidden.
	By, Legend   string
	Columns      []columnFile
	Hide         []string
	Sort, Sorted string // a heading, with a minus in front for the largest first; or a label that has no column
}

// columnFile is a column of values.
type columnFile struct {
	Name, Unit, Colors, Expr string
	Digits                   int // after the point, so that 99.95 % is not 100 %
}

type legends []query

// UnmarshalYAML keeps the order of the file.
func (l *legends) UnmarshalYAML(n *yaml.Node) error {
	for i := 0; i+1 < len(n.Content); i += 2 {
		expr := n.Content[i+1]
		if expr.Kind == yaml.AliasNode {
			expr = expr.Alias
		}
		*l = append(*l, query{strings.ReplaceAll(expr.Value, "$engines", picked), n.Content[i].Value})
	}
	return nil
}

// engineBoard makes the dashboard of a file.
func (g *generator) engineBoard(f *boardFile) (*board, error) {
	x := &scope{generator: g}
	return x.board(f, []variable{
		sourceVariable(),
		several("job", "Job", "Scrape job of the engine.", "job", metric.BuildInfo.Name),
		several("instance", "Engine", "One engine, or all.", "instance", metric.BuildInfo.Name+`{job=~"$job"}`),
	}, picked)
}

func (x *scope) board(f *boardFile, variables []variable, matcher string) (*board, error) {
	b := x.generator.board(f, matcher)
	for _, l := range f.Links {
		b.Links = append(b.Links, link{
			Title: l.Title, Type: "link", Icon: "external link", URL: "/d/" + l.UID, IncludeVars: true, KeepTime: true,
			Tooltip: l.About,
		})
	}
	for _, v := range f.Variables {
		for _, dot := range x.each(v.Each, nil) {
			if !x.wants(v.If, dot) {
				continue
			}
			v := v
			x.fill(reflect.ValueOf(&v).Elem(), dot)
			own := v.variable()
			if i := slices.IndexFunc(variables, func(have variable) bool { return have.Name == v.Name }); i >= 0 {
				variables[i] = own
			} else {
				variables = append(variables, own)
			}
		}
	}
	b.Templating.List = variables
	for _, row := range f.Rows {
		for _, dot := range x.each(row.Each, nil) {
			if !x.wants(row.If, dot) {
				continue
			}
			if row.Row != "" {
				b.row(x.expand(row.Row, dot))
			}
			for _, p := range row.Panels {
				if p.Look.Unit == "" && len(p.Rates) > 0 {
					p.Look.Unit = unitRate
				}
				p.Look = p.Look.or(row.Look)
				x.panels(b, p, dot)
			}
		}
	}
	return b, errors.Join(x.errs...)
}

// panels makes the panels of one of a file.
func (x *scope) panels(b *board, f panelFile, dot any) {
	for _, dot := range x.each(f.Each, dot) {
		if !x.wants(f.If, dot) {
			continue
		}
		f := f
		x.of = x.picked
		x.of = cmp.Or(x.expand(f.Of, dot), x.picked)
		x.fill(reflect.ValueOf(&f).Elem(), dot)
		if err := x.add(b, f); err != nil {
			x.errs = append(x.errs, err)
		}
	}
}

func (x *scope) add(b *board, f panelFile) error {
	v := view{
		title: cmp.Or(f.Stat, f.Lines, f.Timeline, f.Dial, f.Bars, f.Table, f.Heat), about: f.About, decimals: f.Decimals,
		min: f.Min, max: f.Max, queries: f.Queries,
	}
	if f.Links {
		v.links = x.detailLinks("__field.labels." + x.id)
	}
	style := lineStyle{stacked: f.Stacked, log: f.Log, thresholds: f.Marks}
	families, err := f.families()
	switch {
	case f.Rates != nil:
		style.stacked = len(families) == 1
		v.queries = perFamily(families, func(name, by string) string {
			if by != "" {
				by = " by (" + by + ") "
			}
			return "sum" + by + "(rate(" + name + "{" + picked + "}" + interval + "))"
		})
	case f.Levels != nil:
		v.queries = perFamily(families, func(name, by string) string {
			if by == "" {
				return name + "{" + picked + "}"
			}
			return "sum by (instance, " + by + ") (" + name + "{" + picked + "})"
		})
	case f.P95 != nil && err == nil:
		style.log, f.Look.Unit, f.Look.Colors = true, unitSeconds, neutral
		v.queries = []query{percentile(families[0])}
	}
	v.unit, v.none = f.Look.Unit, f.Look.None
	var width, height int
	_, badSize := fmt.Sscanf(f.Look.Size, "%dx%d", &width, &height)
	var badSteps, badWords error
	v.steps, badSteps = readSteps(f.Look.Colors)
	v.maps, badWords = readWords(f.Words)
	for _, mark := range strings.FieldsFunc(f.Dashed, func(r rune) bool { return r == ',' }) {
		var i int
		color := bad
		if n, err := fmt.Sscan(mark, &i, &color); n == 0 {
			return fmt.Errorf("panel %s: dashed %q: %w", v.title, f.Dashed, err)
		}
		v.overrides = append(v.overrides, dashed(i, color))
	}
	x.more(f.More, &v)
	if f.Right != nil {
		v.overrides = append(v.overrides, rightAxis(f.Right.Query, f.Right.Unit, f.Right.Label))
	}
	if err = errors.Join(err, badSize, badSteps, badWords); err != nil {
		return fmt.Errorf("panel %s: %w", v.title, err)
	}
	var p *panel
	switch {
	case f.Stat != "":
		p = stat(v)
	case f.Timeline != "":
		p = timeline(v)
	case f.Dial != "":
		p = dial(v)
	case f.Bars != "":
		p = bars(v)
	case f.Heat != "":
		p = heat(v)
	case f.Table != "":
		if p, err = x.table(v, f); err != nil {
			return fmt.Errorf("panel %s: %w", v.title, err)
		}
	default:
		p = lines(v, style)
	}
	if f.Mean {
		p = p.averaged()
	}
	b.add(width, height, p)
	return nil
}

// table joins the queries' series that agree in their labels to rows. Labels without a column are hidden.
func (x *scope) table(v view, f panelFile) (*panel, error) {
	v.steps = []step{{Color: neutral}} // only columns have colours
	for _, c := range f.Columns {
		v.queries = append(v.queries, query{c.Expr, cmp.Or(f.Legend, c.Name)})
	}
	p := v.panel("table", true, "table")
	o := organize{ExcludeByName: map[string]bool{"Time": true, "__name__": true, "job": true, "instance": true},
		IndexByName: map[string]int{}, RenameByName: map[string]string{}}
	column := func(field, name string, ps ...property) {
		o.IndexByName[field], o.RenameByName[field] = len(o.IndexByName), name
		if ps != nil {
			p.FieldConfig.Overrides = append(p.FieldConfig.Overrides, override{matcher{"byName", name}, ps})
		}
	}
	for _, l := range strings.Split(f.By, ", ") {
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
			{"custom.cellOptions", cellOptions{Type: "color-text"}}}
		if c.Digits > 0 {
			ps = append(ps, property{"decimals", c.Digits})
		}
		field := "Value" // of the only query
		if len(f.Columns) > 1 {
			field += " #" + refID(i)
		}
		column(field, c.Name, ps...)
	}
	p.FieldConfig.Defaults.Custom = tableCustom{Align: "auto", CellOptions: cellOptions{Type: "auto"}}
	p.Transformations = []transformation{{ID: "merge", Options: struct{}{}}}
	if f.Sorted != "" { // the merged rows still have the label
		f.Hide = append(f.Hide, f.Sorted)
		by := sortRows{Sort: []sortField{{Field: f.Sorted}}}
		p.Transformations = append(p.Transformations, transformation{ID: "sortBy", Options: by})
	}
	for _, label := range f.Hide {
		o.ExcludeByName[label] = true
	}
	p.Transformations = append(p.Transformations, transformation{ID: "organize", Options: o})
	by := []sortBy{}
	if heading, desc := strings.CutPrefix(f.Sort, "-"); heading != "" {
		by = append(by, sortBy{heading, desc})
	}
	p.Options = tableOptions{ShowHeader: true, CellHeight: "sm", SortBy: by}
	return p, nil
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
