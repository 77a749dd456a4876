package dashboards

import (
	"bytes"
	"cmp"
	"embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"gopkg.in/yaml.v3"

	"github.com/sloengine/sloengine/reliability/metric"
)

// The dashboards of engines and relays depend on no spec. Each is a file of rows and panels, with queries as Prometheus
// reads them, but for $engines, which stands for the matchers in picked.
//
//go:embed boards/*.yaml
var boardFiles embed.FS

// engineBoards reads them, in the order in which one reads the dashboards.
var engineBoards = sync.OnceValues(func() ([]boardFile, error) {
	var out []boardFile
	for _, name := range []string{"ingest", "reliability", "delivery", "ratelimits", "internals", "brokers", "outbox"} {
		data, err := boardFiles.ReadFile("boards/" + name + ".yaml")
		if err != nil {
			return nil, err
		}
		var f boardFile
		dec := yaml.NewDecoder(bytes.NewReader(data))
		dec.KnownFields(true)
		if err := dec.Decode(&f); err != nil {
			return nil, fmt.Errorf("read dashboard %s: %w", name, err)
		}
		out = append(out, f)
	}
	return out, nil
})

// picked selects the engines that the reader picked.
const picked = `job=~"$job",instance=~"$instance"`

// interval is the only window over which raw counters are read: Grafana makes it
// long enough for four scrapes and short enough for the picture.
const interval = `[$__rate_interval]`

type boardFile struct {
	UID, Title, About string
	Links             []struct{ Title, About, UID string }
	Variables         []struct{ Name, Label, About, Series string } // besides those of engines, or instead of them
	Rows              []struct {
		Row    string
		Look   panelLook `yaml:",inline"` // of the panels that say nothing else
		Panels []panelFile
	}
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
	Stat, Lines, Timeline, Dial, Bars string // the title, by how values are drawn

	Look                panelLook `yaml:",inline"`
	About               string
	Words               []string // in place of values: the value, its colour and the text
	Min, Max            *float64
	Decimals            int
	Stacked, Log, Marks bool // see lineStyle
	Mean                bool // over the time range, not the newest value
	Dashed              int  // the query that is a mark to hold the others against; 0 is none
	Right               *struct {
		Query       int
		Unit, Label string
	}

	// What is shown: queries by their legends, or metrics with a line for each combination of their labels: counters as
	// rates, gauges as levels, or the 95th percentile of a histogram.
	Queries            legends
	Rates, Levels, P95 []string
}

type legends []query

// UnmarshalYAML keeps the order of the file.
func (l *legends) UnmarshalYAML(n *yaml.Node) error {
	for i := 0; i+1 < len(n.Content); i += 2 {
		*l = append(*l, query{strings.ReplaceAll(n.Content[i+1].Value, "$engines", picked), n.Content[i].Value})
	}
	return nil
}

// engineBoard makes the dashboard of a file.
func (g *generator) engineBoard(f *boardFile) (*board, error) {
	b := g.board(f.UID, f.Title, f.About)
	for _, l := range f.Links {
		b.Links = append(b.Links, link{
			Title: l.Title, Type: "link", Icon: "external link", URL: "/d/" + l.UID, IncludeVars: true, KeepTime: true,
			Tooltip: l.About,
		})
	}
	b.Templating.List = []variable{
		sourceVariable(),
		several("job", "Job", "Scrape job of the engine.", "job", metric.BuildInfo.Name),
		several("instance", "Engine", "One engine, or all.", "instance", metric.BuildInfo.Name+`{job=~"$job"}`),
	}
	for _, v := range f.Variables {
		own := several(v.Name, v.Label, v.About, v.Name, strings.ReplaceAll(v.Series, "$engines", picked))
		if i := slices.IndexFunc(b.Templating.List, func(have variable) bool { return have.Name == v.Name }); i >= 0 {
			b.Templating.List[i] = own
		} else {
			b.Templating.List = append(b.Templating.List, own)
		}
	}
	var errs []error
	for _, row := range f.Rows {
		b.row(row.Row)
		for _, p := range row.Panels {
			if p.Look.Unit == "" && len(p.Rates) > 0 {
				p.Look.Unit = unitRate
			}
			p.Look = p.Look.or(row.Look)
			errs = append(errs, p.add(b))
		}
	}
	return b, errors.Join(errs...)
}

func (f panelFile) add(b *board) error {
	v := view{
		title: cmp.Or(f.Stat, f.Lines, f.Timeline, f.Dial, f.Bars), about: f.About, decimals: f.Decimals,
		min: f.Min, max: f.Max, queries: f.Queries,
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
	if f.Dashed > 0 {
		v.overrides = append(v.overrides, dashed(f.Dashed, bad))
	}
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
	default:
		p = lines(v, style)
	}
	if f.Mean {
		p = p.averaged()
	}
	b.add(width, height, p)
	return nil
}

func readSteps(colors string) ([]step, error) {
	base, marks, _ := strings.Cut(colors, ", ")
	out := above(base)
	for _, s := range strings.FieldsFunc(marks, func(r rune) bool { return r == ',' }) {
		mark, color, _ := strings.Cut(strings.TrimSpace(s), " ")
		x, err := strconv.ParseFloat(mark, 64)
		if err != nil || color == "" {
			return nil, fmt.Errorf("colors %q: want a colour, then marks with theirs", colors)
		}
		out = append(out, from(x, color))
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
