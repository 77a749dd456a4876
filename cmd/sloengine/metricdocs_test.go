package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/template"

	"github.com/prometheus/common/model"
	promql "github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/dashboards"
	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/slo/spec"
	examples "github.com/sloengine/sloengine/testdata/specs"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// notBuilt are families that alerts and dashboards know and that no part exports yet.
var notBuilt = map[string]string{
	"sloengine_notify_failures_total": "nothing is notified yet",
}

// notExported are families that the code could make, and that nobody has made.
var notExported = map[string]string{}

func docOf(t testing.TB, name string) (metricDoc, bool) {
	t.Helper()
	for _, p := range metricParts() {
		for _, d := range p.docs {
			if d.name == name {
				return d, true
			}
		}
	}
	return metricDoc{}, false
}

// TestMetricTable holds the table to the conventions that the document states.
func TestMetricTable(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range metricParts() {
		require.NotEmpty(t, p.docs, p.title)
		require.True(t, strings.HasSuffix(p.about, "."), p.title)
		for _, d := range p.docs {
			require.False(t, seen[d.name], "%s is there twice", d.name)
			seen[d.name] = true
			require.Regexp(t, `^(slo|sla|sloengine)_[a-z0-9]+(_[a-z0-9]+)*$`, d.name)
			require.Contains(t, []series.Type{series.Counter, series.Gauge, series.Histogram}, d.kind, d.name)
			require.Equal(t, d.kind == series.Counter, strings.HasSuffix(d.name, "_total"), d.name)
			if d.kind == series.Histogram {
				require.True(t, strings.HasSuffix(d.name, "_seconds"), d.name)
				require.Equal(t, unitSeconds, d.unit, d.name)
			}
			if strings.Contains(d.name, "_bytes") {
				require.Equal(t, unitBytes, d.unit, d.name)
			}
			require.NotEmpty(t, d.unit, d.name)
			require.Regexp(t, `^[A-Z0-9][^\n]+\.$`, d.help, d.name)
			require.False(t, strings.HasSuffix(d.when, "."), d.name)
			for _, l := range d.labels {
				require.Regexp(t, `^[a-z_]+$`, l.name, d.name)
				require.NotEqual(t, l.values == nil, l.about == "", "%s: %s", d.name, l.name)
			}
		}
	}
	for _, s := range series.All() {
		d, ok := docOf(t, s.Name)
		require.True(t, ok, s.Name)
		var names []string
		for _, l := range d.labels {
			names = append(names, l.name)
		}
		require.Equal(t, s.Labels, names, s.Name)
		require.Equal(t, s.Extra != series.ExtraNone, d.more != "", s.Name)
	}
	help := metricHelp()
	require.Len(t, help, len(seen))
	for name := range seen {
		require.NotEmpty(t, help[name])
	}
}

// TestMetricsInTheSource looks for names of families in everything that exports some, so
// that one that no engine of a test makes is not forgotten.
func TestMetricsInTheSource(t *testing.T) {
	root := filepath.Join("..", "..")
	found := map[string]bool{}
	name := regexp.MustCompile(`^(sloengine_[a-z0-9_]+[a-z0-9])(\{.*)?$`)
	for _, room := range []string{"ingest", "reliability", "sla", "alerts/state", "web", "client", "cmd/sloengine"} {
		err := filepath.WalkDir(filepath.Join(root, room), func(path string, d fs.DirEntry, err error) error {
			base := filepath.Base(path)
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasPrefix(base, "metricdocs") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return nil // somebody is writing it; the compiler will say so
			}
			ast.Inspect(file, func(n ast.Node) bool {
				lit, ok := n.(*ast.BasicLit)
				if !ok || lit.Kind != token.STRING {
					return true
				}
				text, err := strconv.Unquote(lit.Value)
				if m := name.FindStringSubmatch(text); err == nil && m != nil {
					found[m[1]] = true
				}
				return true
			})
			return nil
		})
		require.NoError(t, err)
	}
	require.Greater(t, len(found), 100, "the names are not found any more")
	for _, n := range slices.Sorted(maps.Keys(found)) {
		_, documented := docOf(t, n)
		if why := notExported[n]; why != "" {
			require.False(t, documented, "%s is documented, although %s", n, why)
			continue
		}
		require.True(t, documented, "%s is not in the table of metricdocs*.go", n)
	}
	for n := range notExported {
		require.True(t, found[n], "%s is not in the source any more", n)
	}
}

// TestMetricsDocument makes docs/metrics.md.
func TestMetricsDocument(t *testing.T) {
	type row struct{ Name, Kind, Labels, Unit, Help, When string }
	type part struct {
		Title, About string
		Docs         []row
	}
	type reading struct{ Name, Pages string }
	var data struct {
		Parts  []part
		Alerts []reading
	}
	for _, p := range metricParts() {
		out := part{Title: p.title, About: p.about}
		for _, d := range p.docs {
			var names []string
			for _, l := range d.labels {
				what := l.about
				if l.values != nil {
					what = strings.Join(l.values, ", ")
				}
				names = append(names, "`"+l.name+"`: "+what)
			}
			if d.more != "" {
				names = append(names, d.more)
			}
			when := d.when
			if strings.Contains(d.help, " Absent ") {
				when = "" // it says so itself
			}
			out.Docs = append(out.Docs, row{d.name, string(d.kind), strings.Join(names, "; "), d.unit, d.help, when})
		}
		data.Parts = append(data.Parts, out)
	}
	readers := map[string]map[string]bool{}
	for _, r := range engineRules(t) {
		for _, n := range selected(t, r.Expr) {
			if readers[n.name] == nil {
				readers[n.name] = map[string]bool{}
			}
			readers[n.name][r.Alert] = true
		}
	}
	for _, n := range slices.Sorted(maps.Keys(readers)) {
		if notBuilt[n] != "" {
			continue
		}
		var pages []string
		for _, a := range slices.Sorted(maps.Keys(readers[n])) {
			pages = append(pages, "["+a+"](runbooks/"+a+".md)")
		}
		data.Alerts = append(data.Alerts, reading{n, strings.Join(pages, ", ")})
	}
	page, err := template.ParseFiles(filepath.Join("testdata", "metrics.md.tmpl"))
	require.NoError(t, err)
	var got bytes.Buffer
	require.NoError(t, page.Execute(&got, data))

	doc := filepath.Join("..", "..", "docs", "metrics.md")
	if *update {
		require.NoError(t, os.WriteFile(doc, got.Bytes(), 0o644))
	}
	want, err := os.ReadFile(doc)
	require.NoError(t, err)
	require.Equal(t, string(want), got.String(), "docs/metrics.md is stale: run this test with -update")

	// What the hand-written part names is there, and so are the pages.
	for _, m := range regexp.MustCompile("`((?:slo|sla|sloengine)_[a-z0-9_]+)`").FindAllStringSubmatch(got.String(), -1) {
		_, ok := docOf(t, m[1])
		require.True(t, ok || m[1] == series.LabelSLOID || m[1] == series.LabelSLAType, "%s is named in docs/metrics.md and not in the table", m[1])
	}
	for _, m := range regexp.MustCompile(`\]\(([a-z]+/\w+\.md)\)`).FindAllStringSubmatch(got.String(), -1) {
		require.FileExists(t, filepath.Join("..", "..", "docs", m[1]))
	}
}

// engineRules are the alerts on the engine itself.
func engineRules(t *testing.T) []rules.Rule {
	t.Helper()
	groups, err := alerts.Rules(rules.Spec{}, alerts.Options{})
	require.NoError(t, err)
	for _, g := range groups {
		if g.Name == "sloengine-alerts-engine" {
			return g.Rules
		}
	}
	t.Fatal("there are no alerts on the engine")
	return nil
}

// selection is a family that an expression reads and the labels that it asks it for.
type selection struct {
	name   string
	labels []string
}

// selected lists what an expression reads. A label of an aggregation is one that all
// families below it must have.
func selected(t *testing.T, expr string) []selection {
	t.Helper()
	e, err := promql.NewParser(promql.Options{}).ParseExpr(expr)
	require.NoError(t, err, expr)
	var out []selection
	promql.Inspect(e, func(n promql.Node, path []promql.Node) error {
		v, ok := n.(*promql.VectorSelector)
		if !ok {
			return nil
		}
		s := selection{name: v.Name}
		for _, m := range v.LabelMatchers {
			if m.Name != model.MetricNameLabel {
				s.labels = append(s.labels, m.Name)
			}
		}
		for _, p := range path {
			if a, ok := p.(*promql.AggregateExpr); ok && !a.Without {
				s.labels = append(s.labels, a.Grouping...)
			}
		}
		out = append(out, s)
		return nil
	})
	return out
}

// TestAlertsAndDashboardsReadWhatIsThere holds every family that an alert or a dashboard
// reads against the table: its type, and each label that is matched or kept.
func TestAlertsAndDashboardsReadWhatIsThere(t *testing.T) {
	for _, m := range alerts.EngineMetrics() {
		if notBuilt[m.Name] != "" {
			require.True(t, m.Assumed, m.Name)
			continue
		}
		d, ok := docOf(t, m.Name)
		require.True(t, ok, m.Name)
		require.Equal(t, string(d.kind), m.Type, m.Name)
		var names []string
		for _, l := range d.labels {
			names = append(names, l.name)
		}
		require.Equal(t, m.Labels, names, m.Name)
		if !m.Assumed {
			require.Empty(t, d.when, "%s is not in every engine", m.Name)
		}
	}
	check := func(where, expr string) int {
		n := 0
		for _, s := range selected(t, expr) {
			if !strings.HasPrefix(s.name, "sloengine_") || notBuilt[s.name] != "" {
				continue
			}
			n++
			d, ok := docOf(t, s.name)
			for _, part := range []string{"_bucket", "_sum", "_count"} {
				if base, cut := strings.CutSuffix(s.name, part); cut && !ok {
					d, ok = docOf(t, base)
					ok = ok && d.kind == series.Histogram
				}
			}
			if !ok {
				t.Errorf("%s reads %s, which does not exist", where, s.name)
				continue
			}
			for _, l := range s.labels {
				fits := d.more != "" || slices.Contains([]string{"job", "instance"}, l) || l == "le" && d.kind == series.Histogram ||
					slices.ContainsFunc(d.labels, func(have metricLabel) bool { return have.name == l })
				if !fits {
					t.Errorf("%s asks %s for the label %s, which it does not have", where, s.name, l)
				}
			}
		}
		return n
	}
	for _, r := range engineRules(t) {
		check(r.Alert, r.Expr)
	}
	sp, problems := spec.Load([]spec.File{{Name: "insurance.yaml", Data: examples.Insurance}})
	require.NoError(t, problems.Err())
	boards, err := dashboards.All(rules.Spec{SLOs: sp.SLOs, Thresholds: sp.Thresholds, Agreements: sp.Agreements}, dashboards.Options{})
	require.NoError(t, err)
	exprs := regexp.MustCompile(`"expr": ("(?:[^"\\]|\\.)*")`)
	variable := regexp.MustCompile(`\$\w+`)
	queries := 0
	for _, b := range boards {
		for _, m := range exprs.FindAllSubmatch(b.JSON, -1) {
			var expr string
			require.NoError(t, json.Unmarshal(m[1], &expr))
			expr = strings.ReplaceAll(expr, "$__rate_interval", "1m")
			queries += check(b.UID, variable.ReplaceAllString(expr, "1"))
		}
	}
	require.Greater(t, queries, 50, "the queries of the dashboards are not found any more")
}
