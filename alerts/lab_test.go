package alerts

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	prom "github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/rules/series"
)

// lab runs alert rules in Prometheus' own rule and query engine over series that
// a test makes up. Its time is counted from the epoch.
type lab struct {
	t      testing.TB
	db     *teststorage.TestStorage
	engine *promql.Engine
	groups []*prom.Group
	rules  []*prom.AlertingRule
}

func newLab(t testing.TB, groups ...rules.Group) *lab {
	t.Helper()
	if os.Getenv("SLOENGINE_QUICK") != "" {
		t.Skip("make quick runs no Prometheus engine")
	}
	l := &lab{t: t, db: teststorage.New(t, wide), engine: promqltest.NewTestEngine(t, false, 5*time.Minute, 50_000_000)}
	opts := &prom.ManagerOptions{
		QueryFunc: prom.EngineQueryFunc(l.engine, l.db), Appendable: l.db, Queryable: l.db,
		Context: context.Background(), Logger: slog.New(slog.DiscardHandler),
		NotifyFunc: func(context.Context, string, ...*prom.Alert) {}, ExternalURL: &url.URL{},
	}
	for _, g := range groups {
		var out []prom.Rule
		for _, r := range g.Rules {
			expr, err := parser.NewParser(parser.Options{}).ParseExpr(r.Expr)
			require.NoError(t, err, "%s\n%s", r.Alert, r.Expr)
			if r.Record != "" {
				out = append(out, prom.NewRecordingRule(r.Record, expr, labels.FromMap(r.Labels)))
				continue
			}
			a := prom.NewAlertingRule(r.Alert, expr, r.For, r.KeepFiringFor, labels.FromMap(r.Labels),
				labels.FromMap(r.Annotations), labels.EmptyLabels(), "", true, opts.Logger)
			l.rules = append(l.rules, a)
			out = append(out, a)
		}
		interval := g.Interval
		set(&interval, 30*time.Second)
		l.groups = append(
			l.groups, prom.NewGroup(prom.GroupOptions{Name: g.Name, File: "lab", Interval: interval, Rules: out, Opts: opts}))
	}
	return l
}

// wide lets a series begin long before the end of another.
func wide(o *tsdb.Options) {
	o.MinBlockDuration = (60 * 24 * time.Hour).Milliseconds()
	o.MaxBlockDuration = o.MinBlockDuration
}

// curve gives the value at a time; nothing is appended where ok is false.
type curve func(at time.Duration) (v float64, ok bool)

func constant(v float64) curve { return func(time.Duration) (float64, bool) { return v, true } }

// load appends samples of one series every step from from to to.
func (l *lab) load(metric string, from, to, step time.Duration, f curve) {
	l.t.Helper()
	m, err := parser.NewParser(parser.Options{}).ParseMetric(metric)
	require.NoError(l.t, err, metric)
	app := l.db.Appender(context.Background())
	for at := from; at <= to; at += step {
		if v, ok := f(at); ok {
			_, err := app.Append(0, m, at.Milliseconds(), v)
			require.NoError(l.t, err)
		}
	}
	require.NoError(l.t, app.Commit())
}

// run evaluates all groups every step and gives for each alert, named by key,
// the times at which it began and ceased to fire.
func (l *lab) run(from, to, step time.Duration, key func(labels.Labels) string) map[string][]time.Duration {
	l.t.Helper()
	return l.runAt(func(yield func(time.Duration) bool) {
		for at := from; at <= to && yield(at); at += step {
		}
	}, key)
}

// runAt is run at instants of the test's choice.
func (l *lab) runAt(instants iter.Seq[time.Duration], key func(labels.Labels) string) map[string][]time.Duration {
	l.t.Helper()
	edges := map[string][]time.Duration{}
	on := map[string]bool{}
	for at := range instants {
		for _, g := range l.groups {
			g.Eval(context.Background(), time.UnixMilli(at.Milliseconds()))
		}
		now := map[string]bool{}
		for _, r := range l.rules {
			require.NoError(l.t, r.LastError(), r.Name())
			for _, a := range r.ActiveAlerts() {
				a.Annotations.Range(func(x labels.Label) {
					require.NotContains(l.t, x.Value, "error expanding", r.Name())
					require.NotContains(l.t, x.Value, "<no value>", r.Name())
				})
				if a.State == prom.StateFiring {
					now[key(a.Labels)] = true
				}
			}
		}
		for _, k := range slices.Sorted(maps.Keys(union(on, now))) {
			if on[k] != now[k] {
				edges[k] = append(edges[k], at)
			}
		}
		on = now
	}
	return edges
}

func union(a, b map[string]bool) map[string]bool {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

// firing lists what fires, with the annotations.
func (l *lab) firing() []*prom.Alert {
	var out []*prom.Alert
	for _, r := range l.rules {
		for _, a := range r.ActiveAlerts() {
			if a.State == prom.StateFiring {
				out = append(out, a)
			}
		}
	}
	return out
}

func byName(l labels.Labels) string { return l.Get("alertname") }

func byTier(l labels.Labels) string { return l.Get(series.LabelTier) }

// only keeps the rules with these names.
func only(t testing.TB, groups []rules.Group, names ...string) []rules.Group {
	t.Helper()
	var out []rules.Group
	for _, g := range groups {
		g.Rules = slices.DeleteFunc(slices.Clone(g.Rules), func(r rules.Rule) bool {
			return !slices.Contains(names, r.Alert)
		})
		if len(g.Rules) > 0 {
			out = append(out, g)
		}
	}
	require.NotEmpty(t, out)
	return out
}

// traffic is constant traffic with one incident: from the time start on, for as
// long as length, the given share of the events is bad.
type traffic struct {
	perSecond     float64
	share         float64
	start, length time.Duration
}

// bad is the exact share of bad events in the window that ends at at.
func (x traffic) bad(at, w time.Duration) float64 {
	from, to := max(at-w, x.start), min(at, x.start+x.length)
	return x.share * float64(max(0, to-from)) / float64(w)
}

// loadRatios appends the series that rules record for an SLO, exactly.
func (l *lab) loadRatios(s labels.Labels, x traffic, from, to, step time.Duration) {
	l.t.Helper()
	sel := s.String()
	for name, w := range map[string]time.Duration{"5m": 5 * time.Minute, "30m": 30 * time.Minute, "1h": time.Hour,
		"2h": 2 * time.Hour, "6h": 6 * time.Hour, "1d": 24 * time.Hour, "3d": 72 * time.Hour} {
		l.load("slo:sli_error:ratio_rate"+name+sel, from, to, step, func(at time.Duration) (float64, bool) {
			return x.bad(at, w), true
		})
	}
	l.loadObserved(s, from, to, step, constant(1))
	for _, name := range []string{"rate5m", "rate30m", "rate1h", "rate6h"} {
		l.load("slo:valid_events:"+name+sel, from, to, step, constant(x.perSecond))
	}
	l.load("slo:valid_events:increase5m"+sel, max(0, from-6*time.Hour), to, 5*time.Minute, constant(300*x.perSecond))
}

// loadObserved appends the share of every window that was observed.
func (l *lab) loadObserved(s labels.Labels, from, to, step time.Duration, share curve) {
	l.t.Helper()
	sel := labels.FromStrings("slo_id", s.Get("slo_id"), "service", s.Get("service"), "slo", s.Get("slo")).String()
	for _, w := range []string{"5m", "30m", "1h", "2h", "6h", "1d", "3d", "30d"} {
		l.load("slo:observed:ratio"+w+sel, from, to, step, share)
	}
}

func sloSeries(id string, more ...string) labels.Labels {
	service, name, _ := strings.Cut(id, "/")
	return labels.FromStrings(append([]string{"slo_id", id, "service", service, "slo", name}, more...)...)
}

func minutes(d []time.Duration) string {
	var out []string
	for _, x := range d {
		out = append(out, fmt.Sprintf("%.1f", x.Minutes()))
	}
	return strings.Join(out, " ")
}
