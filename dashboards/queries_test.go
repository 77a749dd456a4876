package dashboards_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/dashboards"
	"github.com/sloengine/sloengine/internal/testkit/spectest"
	"github.com/sloengine/sloengine/reliability/metric"
	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/slo"
)

// rateInterval is what Grafana makes of $__rate_interval for a scrape interval of
// 15s: four of them. The odd millisecond tells it from one that was written.
const rateInterval = time.Minute + time.Millisecond

// fill puts values in for variables, as Grafana does at first sight: everything
// is picked.
func fill(expr string, values map[string]string) string {
	return variableUse.ReplaceAllStringFunc(expr, func(use string) string {
		name := strings.TrimPrefix(use, "$")
		if v, ok := values[name]; ok {
			return v
		}
		switch name {
		case "__rate_interval":
			return "1m1ms"
		case "cost":
			return "25"
		}
		return ".*"
	})
}

func parse(t testing.TB, expr string) parser.Expr {
	t.Helper()
	e, err := parser.NewParser(parser.Options{}).ParseExpr(fill(expr, nil))
	require.NoError(t, err, expr)
	return e
}

// values are those of the hidden variables of a dashboard.
func values(t testing.TB, g grafana) map[string]string {
	out := map[string]string{}
	for _, v := range g.Templating.List {
		if v.Type == "constant" {
			var text string
			require.NoError(t, json.Unmarshal(v.Query, &text))
			out[v.Name] = strings.ReplaceAll(text, `\`, `\\`) // as Grafana does
		}
	}
	return out
}

// names are the series that an expression reads.
func names(e parser.Expr) []string {
	seen := map[string]bool{}
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		if v, ok := n.(*parser.VectorSelector); ok {
			seen[v.Name] = true
		}
		return nil
	})
	return slices.Sorted(maps.Keys(seen))
}

// recordedNames are the series that the rules of a spec record.
func recordedNames(groups []rules.Group) map[string]bool {
	out := map[string]bool{}
	for _, g := range groups {
		for _, r := range g.Rules {
			out[r.Record] = true
		}
	}
	delete(out, "")
	return out
}

func recording(t testing.TB, in rules.Spec, o rules.Options) []rules.Group {
	t.Helper()
	o.From, o.Until = worldBegin.AddDate(0, -2, 0), worldEnd.AddDate(0, 6, 0)
	groups, err := rules.Recording(in, o)
	require.NoError(t, err)
	return groups
}

var labelValues = regexp.MustCompile(`^label_values\((.+), (\w+)\)$`)

// Every query and variable reads series that are recorded by the rules, owned
// by rules/series, or among the engine's own.
func TestQueriesReadWhatExists(t *testing.T) {
	for name, c := range inputs(t) {
		t.Run(name, func(t *testing.T) {
			recorded := recordedNames(recording(t, c.in, c.o.Options))
			exported := map[string]bool{"ALERTS": true}
			for _, s := range series.All() {
				exported[s.Name] = true
				if s.Type == metric.Histogram {
					exported[s.Name+"_bucket"], exported[s.Name+"_sum"], exported[s.Name+"_count"] = true, true, true
				}
			}
			process := []string{"go_goroutines", "process_cpu_seconds_total", "process_resident_memory_bytes"}
			for _, d := range all(t, c.in, c.o) {
				g := read(t, d)
				check := func(where, expr string) {
					for _, n := range names(parse(t, expr)) {
						if recorded[n] || exported[n] || slices.Contains(process, n) {
							continue
						}
						f := metric.Lookup(n)
						require.NotNil(t, f, "%s: there is no %s", where, n)
						require.True(t, !optional(f) ||
							slices.Contains([]string{"sloengine-reliability", "sloengine-brokers", "sloengine-outbox",
								"sloengine-delivery", "sloengine-ratelimits", "sloengine-internals"}, d.UID),
							"%s: only some engines have %s", where, n)
					}
				}
				for _, v := range g.Templating.List {
					if m := labelValues.FindStringSubmatch(v.Definition); m != nil {
						check(d.UID+": $"+v.Name, m[1])
					}
				}
				for _, p := range g.Panels {
					for _, q := range p.Targets {
						check(d.UID+": "+p.Title, q.Expr)
					}
				}
			}
		})
	}
}

// optional reports whether an engine may lack a family, or an application has it.
func optional(f *metric.Family) bool {
	return f.Absent != "" || strings.HasPrefix(f.Name, "sloengine_client_")
}

// Every panel is shown what a Prometheus has after an hour with an engine, an outage,
// a sink that is down, a flood over the limits, and the generated rules.
func TestPanelsReturnData(t *testing.T) {
	for _, naming := range []rules.Naming{rules.Own, rules.Sloth} {
		t.Run("names "+string(naming), func(t *testing.T) {
			if naming == rules.Sloth && testing.Short() {
				t.Skip("the second world takes as long as the first")
			}
			sp := insurance(t)
			withCapacity(spectest.Rules(sp))
			in, o := spectest.Rules(sp), dashboards.Options{Options: rules.Options{Names: naming, Profile: rules.Minimal,
				Eval: 150 * time.Second}, Dimensions: []string{"error_type", "stage", "task", "integration"}}
			groups := recording(t, in, o.Options)
			ao := alerts.Options{Options: o.Options}
			ao.From, ao.Until = worldBegin.AddDate(0, -2, 0), worldEnd.AddDate(0, 6, 0)
			alerting := alerts.Rules(in, ao)
			w := newWorld(t)
			w.play(sp, rules.Merge(groups, alerting))

			panels, queries, data := 0, 0, 0
			silent := map[string]bool{}
			for _, d := range all(t, in, o) {
				g := read(t, d)
				vars := values(t, g)
				vars["slo_id"] = o.Identity(in.SLOs[slices.IndexFunc(in.SLOs, func(s *slo.SLO) bool {
					return s.ID == "insurance-unpaid/availability"
				})])[0].Value
				if d.UID == alerts.DashboardSLO && naming == rules.Sloth {
					vars["service"], vars["slo"] = "insurance-unpaid", "availability"
				}
				for _, v := range g.Templating.List {
					if m := labelValues.FindStringSubmatch(v.Definition); m != nil {
						n := 0
						for _, s := range w.instant("group by (" + m[2] + ") (" + fill(m[1], vars) + ")") {
							if s.Metric.Get(m[2]) != "" {
								n++
							}
						}
						if d.UID == alerts.DashboardSLO && slices.Contains([]string{"channel", "integration", "stage"}, v.Name) {
							require.Zero(t, n, "the SLO is not grouped by it")
							continue
						}
						require.Positive(t, n, "%s: no values for $%s from %s", d.UID, v.Name, v.Definition)
					}
				}
				for _, p := range g.Panels {
					if p.Type == "row" {
						continue
					}
					panels++
					where := d.UID + " / " + p.Title
					shown := 0
					for _, q := range p.Targets {
						queries++
						n := finite(w, q, fill(q.Expr, vars))
						if n > 0 {
							data++
							shown++
						} else {
							silent[where] = true
							t.Logf("no data: %s %s: %s", where, q.RefID, q.Expr)
						}
					}
					if p.Type == "table" && shown > 1 {
						rowsMerge(t, w, where, p, vars)
					}
				}
				require.NotEmpty(t, w.instant("count("+fill(g.Annotations.List[0].Expr, vars)+") or vector(0)"))
			}
			t.Logf("panels: %d, queries: %d, returned data: %d", panels, queries, data)
			for _, p := range slices.Sorted(maps.Keys(silent)) {
				t.Errorf("%s returned no data", p)
			}
		})
	}
}

// finite counts the series with a real number that a target gives.
func finite(w *world, q grafanaTarget, expr string) int {
	n := 0
	if q.Instant {
		for _, s := range w.instant(expr) {
			if !math.IsNaN(s.F) && !math.IsInf(s.F, 0) {
				n++
			}
		}
		return n
	}
	for _, s := range w.over(expr) {
		if slices.ContainsFunc(s.Floats, func(p promql.FPoint) bool { return !math.IsNaN(p.F) && !math.IsInf(p.F, 0) }) {
			n++
		}
	}
	return n
}

// leadTimesSorted holds that the label that a table is sorted by, as text, puts lead times in their order.
func leadTimesSorted(t *testing.T, w *world, p grafanaPanel, label string, vars map[string]string) {
	t.Helper()
	for _, q := range p.Targets {
		rows := w.instant(fill(q.Expr, vars))
		slices.SortStableFunc(rows, func(a, b promql.Sample) int {
			return strings.Compare(a.Metric.Get(label), b.Metric.Get(label))
		})
		var ahead []string
		for _, r := range rows {
			require.NotEmpty(t, r.Metric.Get(label))
			ahead = append(ahead, r.Metric.Get(series.LabelAhead))
		}
		require.Equal(t, []string{"1h", "1d", "3d", "7d"}, slices.Compact(ahead), q.Expr)
	}
}

// rowsMerge holds that Grafana can join the queries of a table: they give the
// same labels, and each set of them once.
func rowsMerge(t *testing.T, w *world, where string, p grafanaPanel, vars map[string]string) {
	t.Helper()
	var want map[string]bool
	for _, q := range p.Targets {
		got := map[string]bool{}
		for _, s := range w.instant(fill(q.Expr, vars)) {
			got[s.Metric.DropReserved(func(n string) bool { return n == "__name__" }).String()] = true
		}
		if want == nil {
			want = got
		}
		extra := 0
		for k := range got {
			if !want[k] {
				extra++
			}
		}
		require.Zero(t, extra, "%s: %s has rows that the first query lacks\n%v\n%v", where, q.RefID,
			slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
	for i, tr := range p.Transformations {
		if tr.ID == "sortBy" {
			require.Equal(t, "merge", p.Transformations[i-1].ID, "%s: the rows are sorted once they are rows", where)
			require.Contains(t, p.Transformations[i+1].Options.ExcludeByName, tr.Options.Sort[0].Field, where)
			leadTimesSorted(t, w, p, tr.Options.Sort[0].Field, vars)
		}
	}
	// Every column that is named must be there.
	for _, tr := range p.Transformations {
		for field := range tr.Options.RenameByName {
			if strings.HasPrefix(field, "Value") {
				continue
			}
			found := false
			for k := range want {
				found = found || strings.Contains(k, fmt.Sprintf("%s=", field))
			}
			require.True(t, found, "%s: no row has the label %s", where, field)
		}
	}
}
