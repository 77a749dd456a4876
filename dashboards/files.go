package dashboards

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"text/template"

	"gopkg.in/yaml.v3"

	"github.com/sloengine/sloengine/reliability/metric"
)

// Each dashboard is rows and panels, with queries as Prometheus reads them. Those of engines and relays, a file each,
// depend on no spec: in them, $engines stands for the matchers in picked. Those of a spec are in spec.yaml, and what
// panels of a kind have in common is in panels.yaml.
//
//go:embed boards/*.yaml
var boardFiles embed.FS

type boards struct {
	kinds map[string]*panelKind
	spec  struct {
		Define map[string]string // templates that others name
		Boards []boardFile
	}
	engine []boardFile
}

// readBoards reads them, in the order in which one reads the dashboards.
var readBoards = sync.OnceValues(func() (*boards, error) {
	names := []string{"ingest", "reliability", "delivery", "ratelimits", "internals", "brokers", "outbox"}
	all := &boards{engine: make([]boardFile, len(names))}
	errs := []error{readBoard("panels", &all.kinds), readBoard("spec", &all.spec)}
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

// panelKind is what panels of a kind have in common.
type panelKind struct {
	Type, Format, Color string
	Range               bool // all values over time, not the newest
	Points              int
	Custom, Options     panelJSON
}

// panelJSON is a template of JSON over a panelFile.
type panelJSON struct{ *template.Template }

func (j *panelJSON) UnmarshalYAML(n *yaml.Node) (err error) {
	j.Template, err = template.New("").Delims("<<", ">>").Parse(n.Value)
	return err
}

func (j panelJSON) of(f *panelFile) (any, error) {
	if j.Template == nil {
		return nil, nil
	}
	var b bytes.Buffer
	err := j.Execute(&b, f)
	return json.RawMessage(b.Bytes()), err
}

type panelFile struct {
	Stat, Lines, Timeline, Dial, Bars, Table, Heat string // the title, by how values are drawn

	If, Each, Of string    // Of is what <<of>> stands for
	Look         panelLook `yaml:",inline"`
	About        string
	Links        bool     // from values to the SLO's own dashboard and page
	Words        []string // in place of values: the value, its colour and the text
	Min, Max     *float64
	Decimals     int
	Stacked      bool
	Log          bool   // axis to the base of 10
	Marks        bool   // draw the marks of the colours as lines
	Mean         bool   // over the time range, not the newest value
	Dashed       string // the queries that are marks to hold the others against, such as "1, 2 green"
	Right        *struct {
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

// A query is one line of a panel. The legend is shown with the labels of each series put in.
type query struct {
	Expr, Legend string
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
					p.Look.Unit = "ops"
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
		x.of = cmp.Or(x.expand(f.Of, dot), x.picked)
		x.fill(reflect.ValueOf(&f).Elem(), dot)
		if err := x.add(b, &f); err != nil {
			x.errs = append(x.errs, err)
		}
	}
}
