package main

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template"

	"github.com/prometheus/common/model"
	promql "github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/dashboards"
	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/internal/testkit/spectest"
	"github.com/sloengine/sloengine/reliability/metric"
	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/rules/series"
)

// TestMetricDefinitions checks that definitions follow the conventions that the document states.
func TestMetricDefinitions(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range e2etest.MetricParts() {
		require.NotEmpty(t, p.Families, p.Title)
		require.True(t, strings.HasSuffix(p.About, "."), p.Title)
		for _, d := range p.Families {
			require.False(t, seen[d.Name], "%s is defined twice", d.Name)
			seen[d.Name] = true
			require.Regexp(t, `^(slo|sla|sloengine|incident|automated)_[a-z0-9]+(_[a-z0-9]+)*$`, d.Name)
			require.Equal(t, d.Type == metric.Counter, strings.HasSuffix(d.Name, "_total"), d.Name)
			if d.Type == metric.Histogram {
				require.True(t, strings.HasSuffix(d.Name, "_seconds"), d.Name)
				require.Equal(t, "seconds", d.Unit, d.Name)
				require.True(t, slices.IsSorted(d.Buckets), d.Name)
			}
			if strings.Contains(d.Name, "_bytes") {
				require.Equal(t, "bytes", d.Unit, d.Name)
			}
			require.NotEmpty(t, d.Unit, d.Name)
			require.Regexp(t, `^[A-Z0-9][^\n]+\.$`, d.Help, d.Name)
			require.False(t, strings.HasSuffix(d.Absent, "."), d.Name)
			for _, l := range d.Labels {
				require.Regexp(t, `^[a-z_]+$`, l.Name, d.Name)
				require.NotEqual(t, l.Values == nil, l.About == "", "%s: %s", d.Name, l.Name)
			}
		}
	}
}

// TestMetricNamesHaveOneOwner looks for names of the engine's metrics in Go files. Only package metric may spell them;
// tests may, since they show what a user sees.
func TestMetricNamesHaveOneOwner(t *testing.T) {
	root := filepath.Join("..", "..")
	name := regexp.MustCompile(`sloengine_[a-z0-9_]*`)
	defined := 0
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if d != nil && d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && d.Name() != "..") {
				return filepath.SkipDir
			}
			return err
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING || !name.MatchString(lit.Value) {
				return true
			}
			if filepath.Dir(path) == filepath.Join(root, "reliability", "metric") {
				defined++
			} else {
				t.Errorf("%s spells the metric name %s: use package metric", path, name.FindString(lit.Value))
			}
			return true
		})
		return nil
	}))
	require.Greater(t, defined, 100, "the definitions are not found any more")
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
	for _, p := range e2etest.MetricParts() {
		out := part{Title: p.Title, About: p.About}
		for _, d := range p.Families {
			var names []string
			for _, l := range d.Labels {
				what := l.About
				if l.Values != nil {
					what = strings.Join(l.Values, ", ")
				}
				names = append(names, "`"+l.Name+"`: "+what)
			}
			if d.Extra != "" {
				names = append(names, d.Extra)
			}
			when := d.Absent
			if strings.Contains(d.Help, " Absent ") {
				when = "" // it says so itself
			}
			out.Docs = append(out.Docs, row{d.Name, string(d.Type), strings.Join(names, "; "), d.Unit, d.Help, when})
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

	testkit.Golden(t, filepath.Join("..", "..", "docs", "metrics.md"), got.Bytes())

	// What the hand-written part names is there, and so are the pages.
	labels := map[string]bool{}
	for _, f := range series.All() {
		for _, l := range f.LabelNames() {
			labels[l] = true
		}
	}
	for _, m := range regexp.MustCompile("`((?:slo|sla|sloengine)_[a-z0-9_]+)`").FindAllStringSubmatch(got.String(), -1) {
		require.True(t, e2etest.DocOf(m[1]) != nil || labels[m[1]], "%s is named in docs/metrics.md and not defined", m[1])
	}
	for _, m := range regexp.MustCompile(`\]\(([a-z]+/\w+\.md)\)`).FindAllStringSubmatch(got.String(), -1) {
		require.FileExists(t, filepath.Join("..", "..", "docs", m[1]))
	}
}

// engineRules are the alerts on the engine itself.
func engineRules(t *testing.T) []rules.Rule {
	t.Helper()
	groups := alerts.Rules(rules.Spec{}, alerts.Options{})
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

// TestAlertsAndDashboardsAskForLabelsThatExist checks each label that an alert or a dashboard matches or keeps against
// the definition of the family that it reads.
func TestAlertsAndDashboardsAskForLabelsThatExist(t *testing.T) {
	check := func(where, expr string) int {
		n := 0
		for _, s := range selected(t, expr) {
			if !strings.HasPrefix(s.name, "sloengine_") {
				continue
			}
			n++
			d := metric.Lookup(s.name)
			if d == nil {
				t.Errorf("%s reads %s, which does not exist", where, s.name)
				continue
			}
			for _, l := range s.labels {
				if d.Extra == "" && !slices.Contains([]string{"job", "instance"}, l) && !slices.Contains(d.LabelNames(), l) &&
					(l != "le" || d.Type != metric.Histogram) {
					t.Errorf("%s asks %s for the label %s, which it does not have", where, s.name, l)
				}
			}
		}
		return n
	}
	for _, r := range engineRules(t) {
		check(r.Alert, r.Expr)
	}
	sp := spectest.Example(t, "insurance")
	boards, err := dashboards.All(spectest.Rules(sp), dashboards.Options{})
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
