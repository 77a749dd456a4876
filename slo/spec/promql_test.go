package spec

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/slo"
)

// lowered are pairs of queries and the counters that are all they need; without
// any they stay queries.
var lowered = []struct {
	name, bad, total         string
	wantBad, good, wantSum   string
	by                       []string
	wantWarning, wantProblem string
}{
	{name: "sum of rates", bad: `sum(rate(a{x="1"}[{{.window}}]))`, total: `sum(rate(a[{{.window}}]))`,
		wantBad: `a{x="1"}`, wantSum: "a"},
	{name: "increases", bad: `sum(increase(a{x="1"}[{{ .window }}]))`, total: `sum(increase(a[{{- .window -}}]))`,
		wantBad: `a{x="1"}`, wantSum: "a"},
	{name: "brackets", bad: `((sum((rate((a{x="1"}[$window])))) ))`, total: `(sum(rate(a[$window])))`,
		wantBad: `a{x="1"}`, wantSum: "a"},
	{name: "zero filled", bad: `(sum(rate(a{x="1"}[{{.window}}])) or vector(0))`, total: `sum(rate(a[{{.window}}])) > 0`,
		wantBad: `a{x="1"}`, wantSum: "a"},
	{name: "zero filled on nothing", bad: `sum(rate(a{x="1"}[{{.window}}])) OR on() vector(0)`,
		total: `sum(rate(a[{{.window}}]))`, wantBad: `a{x="1"}`, wantSum: "a"},
	{name: "by a label", bad: `sum by (r) (rate(a{x="1"}[{{.window}}]))`, total: `sum(rate(a[{{.window}}])) by (r)`,
		wantBad: `a{x="1"}`, wantSum: "a", by: []string{"r"}},
	{name: "by two", bad: `sum by (r, q) (rate(a{x="1"}[{{.window}}]))`, total: `sum by (q, r) (rate(a[{{.window}}]))`,
		wantBad: `a{x="1"}`, wantSum: "a", by: []string{"r", "q"}},
	{name: "a name of any characters", bad: `sum(rate({"a.b", x="1"}[{{.window}}]))`,
		total: `sum(rate({"a.b"}[{{.window}}]))`, wantBad: `{__name__="a.b",x="1"}`, wantSum: `{__name__="a.b"}`},
	{name: "latency", bad: `sum(rate(a_count[{{.window}}])) - sum(rate(a_bucket{le="0.4"}[{{.window}}]))`,
		total: `sum(rate(a_count[{{.window}}]))`, good: `a_bucket{le="0.4"}`, wantSum: "a_count"},
	{name: "latency with matchers in another order",
		bad:   "(\n  sum(rate(a_count{y='2',x=\"1\"}[{{.window}}]))\n  -\n  sum(rate(a_bucket{le=\"0.4\"}[{{.window}}]))\n)",
		total: `sum(rate(a_count{x="1",y="2"}[{{.window}}]))`, good: `a_bucket{le="0.4"}`, wantSum: `a_count{x="1",y="2"}`},
	{name: "latency of another counter",
		bad:   `sum(rate(b_count[{{.window}}])) - sum(rate(a_bucket{le="0.4"}[{{.window}}]))`,
		total: `sum(rate(a_count[{{.window}}]))`},
	{name: "latency by a label",
		bad:   `sum by (r) (rate(a_count[{{.window}}])) - sum by (r) (rate(a_bucket{le="0.4"}[{{.window}}]))`,
		total: `sum by (r) (rate(a_count[{{.window}}]))`, good: `a_bucket{le="0.4"}`, wantSum: "a_count", by: []string{"r"}},
	{name: "two counters", bad: `sum(rate(a[{{.window}}])) + sum(rate(b[{{.window}}]))`,
		total: `sum(rate(c[{{.window}}]))`},
	{name: "an offset", bad: `sum(rate(a[{{.window}}] offset 5m))`, total: `sum(rate(a[{{.window}}]))`},
	{name: "irate", bad: `sum(irate(a[{{.window}}]))`, total: `sum(irate(a[{{.window}}]))`},
	{name: "the window in a matcher", bad: `sum(a{w="{{.window}}"})`, total: `sum(b{w="{{.window}}"})`},
	{name: "the window in a name", bad: `sum(a:rate{{.window}})`, total: `sum(b:rate{{.window}})`},
	{name: "a subquery", bad: `sum_over_time((count(a < 5))[{{.window}}:])`,
		total: `sum_over_time((count(a))[{{.window}}:1m])`},
	{name: "max", bad: `max(rate(a{x="1"}[{{.window}}]))`, total: `max(rate(a[{{.window}}]))`},
	{name: "not summed", bad: `rate(a{x="1"}[{{.window}}])`, total: `rate(a[{{.window}}])`,
		wantWarning: "the query may return several series, which are summed"},
	{name: "without", bad: `sum without (i) (rate(a{x="1"}[{{.window}}]))`,
		total: `sum without (i) (rate(a[{{.window}}]))`, wantWarning: "the query may return several series"},
	{name: "other labels", bad: `sum by (q) (rate(a[{{.window}}]))`, total: `sum by (r) (rate(a[{{.window}}]))`,
		wantProblem: "the samples have the labels q, but the samples of the total have r"},
	{name: "other functions", bad: `sum(rate(a[{{.window}}]))`, total: `sum(increase(a[{{.window}}]))`,
		wantProblem: "rate() cannot be divided by increase()"},
	{name: "a reserved label", bad: `sum by (slo) (rate(a[{{.window}}]))`, total: `sum by (slo) (rate(a[{{.window}}]))`,
		wantBad: "a", wantSum: "a", by: []string{"slo"}},
	{name: "by service", bad: `sum by (service) (rate(a[{{.window}}]))`, total: `sum by (service) (rate(a[{{.window}}]))`,
		wantBad: "a", wantSum: "a", by: []string{"service"}},
	{name: "two labels of one name", bad: `sum by (service, exported_service) (rate(a[{{.window}}]))`,
		total:       `sum by (service, exported_service) (rate(a[{{.window}}]))`,
		wantProblem: `"service" and "exported_service" are both exported as "exported_service"`},
	{name: "a quantile", bad: `histogram_quantile(0.9, sum by (le) (rate(a_bucket[{{.window}}]))) > 0.5`,
		total: `sum(rate(a_count[{{.window}}]))`, wantWarning: "a share or a quantile"},
	{name: "a share", bad: `1 - sum(rate(a[{{.window}}])) / sum(rate(b[{{.window}}]))`, total: `sum(rate(b[{{.window}}]))`,
		wantWarning: "a share or a quantile"},
	{name: "no window", bad: `sum(rate(a[5m]))`, total: `sum(rate(a[{{.window}}]))`,
		wantProblem: "all windows would return the same value"},
	{name: "a range only", bad: `a[{{.window}}]`, total: `sum(rate(a[{{.window}}]))`,
		wantProblem: "the query returns a matrix"},
	{name: "another template", bad: `sum(rate(a{x="{{.x}}"}[{{.window}}]))`, total: `sum(rate(a[{{.windows}}]))`,
		wantProblem: "unknown template {{.windows}}"},
	{name: "no PromQL", bad: `sum(rate(a[{{.window}}])`, total: `sum(rate(a[{{.window}}]))`,
		wantProblem: "unclosed left parenthesis"},
}

func TestLowering(t *testing.T) {
	for _, c := range lowered {
		t.Run(c.name, func(t *testing.T) {
			indent := func(s string) string { return strings.ReplaceAll(s, "\n", "\n          ") }
			text :=
				"version: prometheus/v1\nservice: shop\nslos:\n  - name: a\n    objective: 99\n    sli:\n      events:\n        " +
					"error_query: |-\n          " + indent(c.bad) + "\n        total_query: |-\n          " + indent(c.total) + "\n"
			s, ps := Load([]File{{"x.yaml", []byte(text)}})
			if c.wantProblem != "" {
				require.Nil(t, s)
				require.Contains(t, ps.Errors().String(), c.wantProblem)
				return
			}
			require.Empty(t, ps.Errors().String())
			require.Contains(t, ps.Warnings().String(), c.wantWarning)
			require.Equal(t, c.wantWarning == "", len(ps) == 0, ps.String())
			o := s.SLOs[0]
			require.Equal(t, c.by, o.GroupBy)
			in := o.Indicator
			require.Equal(t, []string{c.wantBad, c.good, c.wantSum}, []string{in.PromBad, in.PromGood, in.PromTotal})
			if c.wantSum == "" {
				require.Equal(t, slo.PromQueries, in.PromForm())
				require.NotContains(t, in.PromBadQuery+in.PromTotalQuery, "{{")
				require.Contains(t, in.PromBadQuery, "$window")
			}
			checkSLO(t, o)
			requireRoundTrip(t, s)
		})
	}
}

// TestAlertLabels: users set the severity and labels of their own. They cannot set what tells alerts apart.
func TestAlertLabels(t *testing.T) {
	const sloth = "version: prometheus/v1\nservice: shop\nslos:\n  - name: a\n    objective: 99\n    sli:\n      " +
		"events:\n        error_query: sum by (cluster, service) (rate(a{x=\"1\"}[$window]))\n        total_query: sum by " +
		"(cluster, service) (rate(a[$window]))\n    alerting: {labels: {%s: '{{ .Labels.cluster_id }}'}}\n"
	const own = "version: sloengine/v1\nservice: shop\ntypes: any\nslos:\n  - name: a\n    objective: 99\n    group_by: " +
		"[cluster, http.route]\n    indicator: {events: {bad: '{outcome=\"failure\"}'}}\n    alerting: {%s: {labels: {%s: " +
		"x}}}\n"
	load := func(text string) string {
		_, ps := Load([]File{{"x.yaml", []byte(text)}})
		return ps.Errors().String()
	}
	for _, l := range strings.Fields(
		"severity slo sla tier team part quantile long short impact agreement kind le window result") {
		require.Empty(t, load(fmt.Sprintf(sloth, l)), l)
		require.Empty(t, load(fmt.Sprintf(own, "page", l)), l)
	}
	for _, l := range strings.Fields("slo_tier slo_id sla_x sloth_id alertname alertstate service __x") {
		require.Contains(t, load(fmt.Sprintf(sloth, l)), l, l)
		require.Contains(t, load(fmt.Sprintf(own, "ticket", l)), l, l)
	}
	require.Contains(t, load(fmt.Sprintf(sloth, "cluster")),
		`"cluster" is the label of the SLO's groups: alerts of two groups would be one`)
	require.Contains(t, load(fmt.Sprintf(sloth, "exported_service")), "is the label of the SLO's groups")
	for _, alert := range strings.Fields("page ticket no_data exhausted_soon") {
		require.Contains(t, load(fmt.Sprintf(own, alert, "http_route")), "is the label of the SLO's groups", alert)
	}
}

// TestInfoLabels: all of them are on alerts, so a spec cannot set what belongs to alerts.
func TestInfoLabels(t *testing.T) {
	const text = "version: sloengine/v1\nservice: shop\nlabels: {%s: x}\ntypes: any\nslos:\n  - name: a\n    objective: " +
		"99\n    indicator: {events: {bad: '{outcome=\"failure\"}'}}\n    alerting: {inherit_labels: %s}\n"
	for _, l := range strings.Fields("tier team part long short impact agreement kind quantile owner") {
		s, ps := Load([]File{{"x.yaml", []byte(fmt.Sprintf(text, l, "false"))}})
		require.Empty(t, ps.String(), l)
		require.Equal(t, map[string]string{l: "x"}, s.SLOs[0].Labels)
		require.True(t, s.SLOs[0].Alerting.NoSpecLabels)
		requireRoundTrip(t, s)
	}
	for _, l := range strings.Fields("severity alertname alertstate slo_tier slo_x sla_x sloth_id service slo __x") {
		_, ps := Load([]File{{"x.yaml", []byte(fmt.Sprintf(text, l, "true"))}})
		require.Contains(t, ps.Errors().String(), l, l)
	}
}

// TestQuotedNames: a metric name is written as every Prometheus reads it, and a label name that only a new one reads is
// said.
func TestQuotedNames(t *testing.T) {
	const text = "version: sloengine/v1\nservice: shop\nslos:\n  - {name: a, objective: 99, indicator: {prometheus: " +
		"{bad: '%s', total: '{\"http.server.requests\"}'}}}\n"
	s, ps := Load([]File{{"x.yaml", []byte(fmt.Sprintf(text, `{"http.server.errors"}`))}})
	require.Empty(t, ps.String())
	require.Equal(t, `{__name__="http.server.errors"}`, s.SLOs[0].Indicator.PromBad)
	_, ps = Load([]File{{"x.yaml", []byte(fmt.Sprintf(text, `{"http.server.errors","http.route"="/a"}`))}})
	require.Contains(
		t, ps.Warnings().String(), `Prometheus before 3.0 does not load rules with the label name "http.route"`)
}

func TestRatioLowering(t *testing.T) {
	const a, b = `sum(rate(a{x="1"}[{{.window}}]))`, `sum(rate(a[{{.window}}]))`
	for query, want := range map[string]slo.Indicator{
		a + "/" + b:                      {PromBad: `a{x="1"}`, PromTotal: "a"},
		"(" + a + ") / (" + b + ")":      {PromBad: `a{x="1"}`, PromTotal: "a"},
		"1 - " + a + "/" + b:             {PromGood: `a{x="1"}`, PromTotal: "a"},
		"1 - (" + a + " / " + b + ")":    {PromGood: `a{x="1"}`, PromTotal: "a"},
		"(" + b + " - " + a + ") / " + b: {PromGood: `a{x="1"}`, PromTotal: "a"},
		"(" + a + " or vector(0))/" + b:  {PromBad: `a{x="1"}`, PromTotal: "a"},
		a + "/ (" + b + " > 0)":          {PromBad: `a{x="1"}`, PromTotal: "a"},
		"2 - " + a + "/" + b:             {PromErrorRatioQuery: `2 - sum(rate(a{x="1"}[$window]))/sum(rate(a[$window]))`},
		"clamp_max(" + a + "/" + b + ",1)": {
			PromErrorRatioQuery: `clamp_max(sum(rate(a{x="1"}[$window]))/sum(rate(a[$window])),1)`},
		a + "/ on() " + b: {PromErrorRatioQuery: `sum(rate(a{x="1"}[$window]))/ on() sum(rate(a[$window]))`},
	} {
		text :=
			"version: prometheus/v1\nservice: shop\nslos:\n  - name: a\n    objective: 99\n    sli: {raw: " +
				"{error_ratio_query: '" + query + "'}}\n"
		s, ps := Load([]File{{"x.yaml", []byte(text)}})
		require.Empty(t, ps.String(), query)
		want.Kind = slo.KindPrometheus
		require.Equal(t, want, s.SLOs[0].Indicator, query)
	}
}

func TestLabelsOf(t *testing.T) {
	for query, want := range map[string]string{
		`a`: "?", `a + b`: "?", `rate(a[5m])`: "?", `sum(a)`: "", `sum by (x, y) (a)`: "x, y", `sum without (x) (a)`: "?",
		`topk by (x) (3, a)`: "?", `count_values("v", a)`: "?",
		`-sum(a)`: "", `1 - sum by (x) (a)`: "x", `sum by (x) (a) > 5`: "x", `vector(1)`: "", `sum(a) / sum(b)`: "",
		`sum(a) / on() sum by (x) (b)`: "", `a / on(x) b`: "x",
		`sum by (x) (a) * on(x) group_left(y) b`: "?", `sum by (x) (a) and b`: "x", `sum(a) or vector(0)`: "",
		`sum by (x) (a) or vector(0)`: "?", `sum by (x) (a) unless b`: "x",
		`histogram_quantile(0.9, sum by (le, x) (rate(a[5m])))`: "x", `max_over_time(sum by (x) (a)[5m:])`: "x",
		`label_replace(sum(a), "x", "y", "z", ".*")`: "?", `absent(a)`: "?",
		`clamp_max(sum by (x) (a), 1)`: "x", `sum by (x) (a) / sum by (y) (b)`: "?",
	} {
		e, err := promql.ParseExpr(query)
		require.NoError(t, err, query)
		set, known := labelsOf(e)
		got := strings.Join(set, ", ")
		if !known {
			got = "?"
		}
		require.Equal(t, want, got, query)
	}
}

func TestPromAt(t *testing.T) {
	require.Equal(t, "sum(rate(a[30d])) / x30d", slo.PromAt("sum(rate(a[$window])) / x$window", 30*24*time.Hour))
}

// Functions of VictoriaMetrics are errors, and with LenientPromQL warnings at the same lines. Their text stays as it
// is.
func TestLenientPromQL(t *testing.T) {
	files := []File{{"x.yaml", []byte(`version: prometheus/v1
service: shop
slos:
  - name: a
    objective: 99
    sli:
      raw:
        error_ratio_query: 1 - histogram_share(0.2, sum(rate(x_bucket[{{.window}}])) by (vmrange))
  - name: b
    objective: 99
    sli: {events: {error_query: 'sum(rate(x{{.job}}[{{.window}}]))', total_query: 'sum(rate(x[{{.window}}]))'}}
`)}}
	s, ps := Load(files)
	require.Nil(t, s)
	require.Len(t, ps.Errors(), 2)
	s, ps = Options{LenientPromQL: true}.Load(files)
	require.Nil(t, s)
	require.Len(t, ps.Errors(), 1, "a template is no query for VictoriaMetrics either: %s", ps)
	require.Equal(t, 11, ps.Errors()[0].Line)

	files[0].Data = bytes.ReplaceAll(files[0].Data, []byte("{{.job}}"), nil)
	s, ps = Options{LenientPromQL: true}.Load(files)
	require.Empty(t, ps.Errors().String())
	require.Contains(t, ps.String(),
		"x.yaml:8:28: warning: error_ratio_query: not PromQL, so Prometheus refuses its rules")
	require.Equal(t, "1 - histogram_share(0.2, sum(rate(x_bucket[$window])) by (vmrange))",
		s.SLOs[0].Indicator.PromErrorRatioQuery)
	again, ps := Options{LenientPromQL: true}.Load([]File{{"y.yaml", Encode(s)}})
	require.Empty(t, ps.Errors().String())
	require.Equal(t, s.SLOs[0].Indicator, again.SLOs[0].Indicator)
}
