package dashboards_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/dashboards"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/internal/testkit/spectest"
	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/spec"
)

// These types read what a dashboard says, apart from the ones that write it.
type (
	grafana struct {
		UID, Title, Description, Refresh string
		SchemaVersion                    int
		Tags                             []string
		Time                             struct{ From, To string }
		Templating                       struct{ List []grafanaVariable }
		Annotations                      struct{ List []grafanaAnnotation }
		Links                            []grafanaLink
		Panels                           []grafanaPanel
	}
	grafanaLink     struct{ Title, Type, URL string }
	grafanaVariable struct {
		Name, Type, Definition, AllValue string
		Hide                             int
		Query                            json.RawMessage
		DataSource                       *grafanaSource
	}
	grafanaAnnotation struct {
		Expr       string
		DataSource grafanaSource
	}
	grafanaSource struct{ Type, UID string }
	grafanaPanel  struct {
		ID                       int
		Type, Title, Description string
		GridPos                  struct{ X, Y, W, H int }
		DataSource               *grafanaSource
		Targets                  []grafanaTarget
		FieldConfig              struct {
			Defaults struct {
				Unit, NoValue string
				Thresholds    struct{ Steps []json.RawMessage }
			}
			Overrides []struct {
				Matcher struct{ ID, Options string }
			}
		}
		Transformations []struct {
			ID      string
			Options struct {
				IndexByName, RenameByName, ExcludeByName map[string]any
				Sort                                     []struct{ Field string }
			}
		}
	}
	grafanaTarget struct {
		RefID, Expr, LegendFormat, Format string
		Instant, Range                    bool
		DataSource                        grafanaSource
	}
)

func all(t testing.TB, in rules.Spec, o dashboards.Options) []dashboards.Dashboard {
	t.Helper()
	ds, err := dashboards.All(in, o)
	require.NoError(t, err)
	return ds
}

func read(t testing.TB, d dashboards.Dashboard) grafana {
	t.Helper()
	var g grafana
	require.NoError(t, json.Unmarshal(d.JSON, &g), d.UID)
	return g
}

func every(t testing.TB) []dashboards.Dashboard {
	return all(t, spectest.Rules(insurance(t)),
		dashboards.Options{Dimensions: []string{"error_type", "stage", "task", "integration"}})
}

// inputs are the specs that every standard is held against.
func inputs(t testing.TB) map[string]struct {
	in rules.Spec
	o  dashboards.Options
} {
	in := spectest.Rules(insurance(t))
	objective, err := slo.ParsePercent("99.5")
	require.NoError(t, err)
	bare := rules.Spec{SLOs: []*slo.SLO{{
		ID: "api/errors", Objective: objective, Window: slo.Window{Rolling: 28 * 24 * time.Hour},
		Indicator: slo.Indicator{Kind: slo.KindPrometheus, PromBad: `http_requests_total{code=~"5.."}`,
			PromTotal: "http_requests_total"},
	}}}
	hostile := rules.Spec{SLOs: []*slo.SLO{{
		ID: "api/errors", Objective: objective, Window: slo.Window{Rolling: 28 * 24 * time.Hour},
		GroupBy:   []string{"type", "job", "a.b", "le", "\u2028${x}\x00", "datasource", "seven", "eight"},
		Indicator: slo.Indicator{Kind: slo.KindEvents},
	}}}
	many := rules.Spec{}
	for i := range 1000 {
		s := *in.SLOs[i%len(in.SLOs)]
		s.ID = slo.NewID(fmt.Sprintf("a-service-with-a-long-name-%d", i), s.ID.Name())
		many.SLOs = append(many.SLOs, &s)
		many.Agreements = append(many.Agreements, &sla.Agreement{
			Service: s.ID.Service(), Name: "all", GroupBy: s.GroupBy, Window: slo.Window{Rolling: 30 * 24 * time.Hour},
			Method:     sla.Attainment,
			Components: []sla.Component{{Name: "only", SLO: s.ID, Weight: 1}},
		})
	}
	return map[string]struct {
		in rules.Spec
		o  dashboards.Options
	}{
		"insurance": {in, dashboards.Options{Dimensions: []string{"error_type", "stage", "task", "integration"}}},
		"minimal": {in, dashboards.Options{Options: rules.Options{Profile: rules.Minimal},
			Dimensions: []string{"error_type", "stage", "task", "integration"}}},
		"names of Sloth":  {in, dashboards.Options{Options: rules.Options{Names: rules.Sloth}}},
		"Prometheus only": {bare, dashboards.Options{}},
		"hostile labels":  {hostile, dashboards.Options{Dimensions: []string{"error type", "outcome", "\"}", "x", "five"}}},
		"a thousand SLOs": {many, dashboards.Options{}},
		"nothing":         {rules.Spec{}, dashboards.Options{}},
	}
}

func TestStandards(t *testing.T) {
	for name, c := range inputs(t) {
		t.Run(name, func(t *testing.T) {
			uids := map[string]bool{}
			for _, d := range all(t, c.in, c.o) {
				g := read(t, d)
				require.Equal(t, d.UID, g.UID)
				require.Equal(t, d.Title, g.Title)
				require.Equal(t, d.UID+".json", d.FileName)
				require.False(t, uids[d.UID], "%s is there twice", d.UID)
				uids[d.UID] = true
				t.Run(d.UID, func(t *testing.T) { standards(t, d, g) })
			}
		})
	}
}

var (
	variableUse = regexp.MustCompile(`\$(?:\{)?([a-zA-Z_][a-zA-Z0-9_]*)`)
	badSource   = regexp.MustCompile(`"uid": *"[^"$]`)
)

func standards(t *testing.T, d dashboards.Dashboard, g grafana) {
	require.Regexp(t, `^[a-z0-9-]{1,40}$`, g.UID)
	require.NotEmpty(t, g.Description)
	require.GreaterOrEqual(t, g.SchemaVersion, 36)
	require.Contains(t, g.Tags, "sloengine")
	require.Equal(t, "now", g.Time.To)
	require.LessOrEqual(t, len(d.JSON), dashboards.MaxConfigMapBytes)
	require.True(t, bytes.HasSuffix(d.JSON, []byte("}\n")))
	require.NotContains(t, string(d.JSON), "\u2028")
	require.NotContains(t, string(d.JSON), "__inputs")

	// No data source but the reader's: the only literal uid is the dashboard's own.
	require.Len(t, badSource.FindAll(d.JSON, -1), 1)

	variables := map[string]grafanaVariable{}
	for _, v := range g.Templating.List {
		require.Regexp(t, `^\w+$`, v.Name)
		require.NotContains(t, variables, v.Name)
		require.Contains(t, []string{"datasource", "query", "textbox", "constant"}, v.Type)
		if v.Type == "query" {
			require.Equal(t, &grafanaSource{"prometheus", "${datasource}"}, v.DataSource, v.Name)
			require.Regexp(t, `^label_values\((.+), \w+\)$`, v.Definition)
			usesKnown(t, v.Definition, variables)
		}
		variables[v.Name] = v
	}
	require.Equal(t, "datasource", g.Templating.List[0].Name)
	require.Equal(t, "datasource", g.Templating.List[0].Type)

	require.Len(t, g.Annotations.List, 1)
	require.Contains(t, g.Annotations.List[0].Expr, `ALERTS{alertstate="firing",`)
	require.Equal(t, grafanaSource{"prometheus", "${datasource}"}, g.Annotations.List[0].DataSource)
	usesKnown(t, g.Annotations.List[0].Expr, variables)

	links := map[string]string{}
	for _, l := range g.Links {
		links[l.Title] = l.URL
	}
	require.NotContains(t, links, "Status page", "nobody said where it is")
	require.Contains(t, links["Runbooks"], "http")

	ids, titles := map[int]bool{}, map[string]bool{}
	taken := map[[2]int]string{}
	row := ""
	used := string(d.JSON)
	for _, p := range g.Panels {
		where := row + " / " + p.Title
		require.Positive(t, p.ID, where)
		require.False(t, ids[p.ID], "%s: panel id %d is taken", where, p.ID)
		ids[p.ID] = true
		require.NotEmpty(t, p.Title, where)
		pos := p.GridPos
		require.True(t, pos.X >= 0 && pos.Y >= 0 && pos.W > 0 && pos.H > 0 && pos.X+pos.W <= 24, where)
		for x := pos.X; x < pos.X+pos.W; x++ {
			for y := pos.Y; y < pos.Y+pos.H; y++ {
				require.Empty(t, taken[[2]int{x, y}], "%s lies over another panel", where)
				taken[[2]int{x, y}] = where
			}
		}
		if p.Type == "row" {
			row = p.Title
			continue
		}
		require.False(t, titles[where], "%s is there twice", where)
		titles[where] = true
		require.Regexp(t, `^[A-Z0-9].{20,}\.$`, p.Description, where)
		require.Equal(t, &grafanaSource{"prometheus", "${datasource}"}, p.DataSource, where)
		f := p.FieldConfig.Defaults
		require.NotEmpty(t, f.Unit, where)
		require.NotEmpty(t, f.NoValue, where)
		require.NotEmpty(t, f.Thresholds.Steps, where)
		require.JSONEq(t, "null", string(first(f.Thresholds.Steps[0])), where)
		require.NotEmpty(t, p.Targets, where)
		refs := map[string]bool{}
		for _, q := range p.Targets {
			require.NotEmpty(t, q.RefID, where)
			require.False(t, refs[q.RefID], where)
			refs[q.RefID] = true
			require.NotEmpty(t, strings.TrimSpace(q.LegendFormat+g.UID[:0]), where)
			require.NotEqual(t, q.Instant, q.Range, where)
			require.Equal(t, grafanaSource{"prometheus", "${datasource}"}, q.DataSource, where)
			usesKnown(t, q.Expr, variables)
			windows(t, where, q.Expr)
		}
		for _, o := range p.FieldConfig.Overrides {
			switch o.Matcher.ID {
			case "byFrameRefID":
				require.Contains(t, refs, o.Matcher.Options, where)
			case "byName":
				var names []any
				for _, tr := range p.Transformations {
					for _, n := range tr.Options.RenameByName {
						names = append(names, n)
					}
				}
				require.Contains(t, names, o.Matcher.Options, where)
			default:
				t.Fatalf("%s: override by %s", where, o.Matcher.ID)
			}
		}
	}
	for name := range variables {
		require.True(t, regexp.MustCompile(`\$\{?`+name+`\b`).MatchString(used), "nothing uses $%s", name)
	}
}

func first(step json.RawMessage) []byte {
	var s struct{ Value json.RawMessage }
	if json.Unmarshal(step, &s) != nil {
		return nil
	}
	return s.Value
}

// usesKnown fails on a variable that the dashboard does not have.
func usesKnown(t *testing.T, text string, variables map[string]grafanaVariable) {
	t.Helper()
	for _, m := range variableUse.FindAllStringSubmatch(text, -1) {
		if m[1] != "__rate_interval" {
			require.Contains(t, variables, m[1], text)
		}
	}
}

// windows holds a query against the two rules on time: raw counters are read
// over $__rate_interval and nothing else, and whatever is longer is recorded.
func windows(t *testing.T, where, expr string) {
	t.Helper()
	e := parse(t, expr)
	recorded := map[string]bool{}
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		switch x := n.(type) {
		case *parser.MatrixSelector:
			v := x.VectorSelector.(*parser.VectorSelector)
			raw := !strings.Contains(v.Name, ":")
			if raw {
				require.Equal(t, rateInterval, x.Range, "%s: %s", where, expr)
			} else {
				require.NotEqual(t, rateInterval, x.Range, "%s: %s", where, expr)
			}
			recorded[v.Name] = true
		case *parser.SubqueryExpr:
			t.Fatalf("%s: subquery in %s", where, expr)
		case *parser.Call:
			if slices.Contains([]string{"rate", "increase", "irate"}, x.Func.Name) {
				name := x.Args[0].(*parser.MatrixSelector).VectorSelector.(*parser.VectorSelector).Name
				require.Regexp(t, `(_total|_bucket|_sum|_count)$`, name, "%s: %s", where, expr)
				require.Contains(t, expr, "[$__rate_interval]")
			}
		case *parser.VectorSelector:
			counter := strings.HasSuffix(x.Name, "_bucket")
			if counter {
				require.Contains(t, expr, "rate(", "%s: quantile over raw buckets", where)
			}
		}
		return nil
	})
}

func TestLinkedFromAlerts(t *testing.T) {
	var uids []string
	for _, d := range every(t) {
		uids = append(uids, d.UID)
	}
	require.Subset(t, uids, []string{alerts.DashboardSLO, alerts.DashboardSLA, alerts.DashboardReliability,
		alerts.DashboardIngest, alerts.DashboardBrokers, alerts.DashboardOutbox})
}

func TestSameBytes(t *testing.T) {
	in := spectest.Rules(insurance(t))
	o := dashboards.Options{Dimensions: []string{"error_type", "stage", "task", "integration"}}
	want := all(t, in, o)
	in.SLOs = slices.Clone(in.SLOs)
	slices.Reverse(in.SLOs)
	in.Agreements = slices.Clone(in.Agreements)
	slices.Reverse(in.Agreements)
	require.Equal(t, want, all(t, in, o))
}

func TestGolden(t *testing.T) {
	for dir, boards := range map[string][]dashboards.Dashboard{"insurance": every(t), "fulfilment": fulfilment(t)} {
		dir = filepath.Join("testdata", dir)
		for _, d := range boards {
			testkit.Golden(t, filepath.Join(dir, d.FileName), d.JSON)
		}
	}
}

// fulfilment are the boards on which the example with work in flight and a cost differs from others.
func fulfilment(t testing.TB) []dashboards.Dashboard {
	t.Helper()
	sp, problems, err := spec.LoadPaths([]string{"../testdata/specs/fulfilment.yaml"}, nil)
	require.NoError(t, err)
	require.NoError(t, problems.Err())
	return slices.DeleteFunc(all(t, spectest.Rules(sp), dashboards.Options{}), func(d dashboards.Dashboard) bool {
		return d.UID != alerts.DashboardSLO && d.UID != "sloengine-business"
	})
}

func TestOptions(t *testing.T) {
	for _, o := range []dashboards.Options{
		{Options: rules.Options{PageURL: "slo.example.org"}},
		{Options: rules.Options{PageURL: "javascript:alert(1)"}},
		{Options: rules.Options{RunbookURL: "::"}},
		{Options: rules.Options{Names: "pyrra"}},
	} {
		_, err := dashboards.All(rules.Spec{}, o)
		require.Error(t, err)
	}
	ds := all(t, spectest.Rules(insurance(t)),
		dashboards.Options{
			Options: rules.Options{PageURL: "https://slo.example.org/x/", RunbookURL: "https://wiki.example.org/"}})
	require.Contains(t, string(ds[0].JSON), `"https://slo.example.org/x/slo?id=`)
	require.Contains(t, string(ds[0].JSON), `"https://wiki.example.org"`)
	require.NotContains(t, string(ds[0].JSON), "127.0.0.1")
}

func uids(ds []dashboards.Dashboard) (out []string) {
	for _, d := range ds {
		out = append(out, d.UID)
	}
	return out
}

func TestNothingButTheEngine(t *testing.T) {
	ds := all(t, rules.Spec{Agreements: []*sla.Agreement{}}, dashboards.Options{Engine: true})
	require.Equal(t, []string{"sloengine-ingest", "sloengine-reliability", "sloengine-delivery",
		"sloengine-ratelimits", "sloengine-internals", "sloengine-brokers", "sloengine-outbox"}, uids(ds))
}

// Without events there is no engine to show, and without agreements no business.
func TestNoEngineNoBoards(t *testing.T) {
	objective, err := slo.ParsePercent("99.9")
	require.NoError(t, err)
	s := &slo.SLO{ID: "api/up", Objective: objective, Window: slo.Window{Rolling: 30 * 24 * time.Hour},
		Indicator: slo.Indicator{
			Kind: slo.KindPrometheus, PromBad: `http_requests_total{code="500"}`, PromTotal: "http_requests_total",
		}}
	in := rules.Spec{SLOs: []*slo.SLO{s}}
	require.Equal(t, []string{"sloengine-overview", alerts.DashboardSLO}, uids(all(t, in, dashboards.Options{})))
	in.Agreements = []*sla.Agreement{
		{Service: "api", Name: "gold", Window: s.Window, Components: []sla.Component{{Name: "up", SLO: s.ID, Weight: 1}}}}
	require.Equal(t, []string{"sloengine-overview", "sloengine-operational", "sloengine-technical",
		"sloengine-business", alerts.DashboardSLO},
		uids(all(t, in, dashboards.Options{})))
}
