// Package rulestest runs generated rule groups in Prometheus' own rule and
// PromQL engine, over counters that a test makes up, in simulated time. Only
// tests import it. It knows nothing of what the rules mean.
package rulestest

import (
	"context"
	"math"
	"os"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	prom "github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/rules"
)

// World is a Prometheus with rules and a clock of its own.
type World struct {
	t      testing.TB
	db     *teststorage.TestStorage
	engine *promql.Engine
	parser parser.Parser
	opts   *prom.ManagerOptions
	groups []group
	now    time.Time
	refs   map[string]*ref
	live   map[string]bool // series of the last scrape

	// Phase is how long after the whole interval a group is evaluated. The
	// default of 1s puts it after the scrape of the same instant.
	Phase time.Duration

	// Sparse is set where samples stand for what rules have recorded, which is there
	// less often than every scrape: no series is marked stale.
	Sparse bool

	// After, if set, is called after the evaluation of all groups at an instant.
	After func(at time.Time)
}

type group struct {
	*prom.Group
	interval time.Duration
}

type ref struct {
	labels labels.Labels
	ref    storage.SeriesRef
}

// New starts a world at an instant. The groups go through the YAML that would be
// written for a real Prometheus.
func New(t testing.TB, start time.Time, groups []rules.Group) *World {
	t.Helper()
	if os.Getenv("SLOENGINE_QUICK") != "" {
		t.Skip("make quick runs no Prometheus engine")
	}
	w := &World{t: t, now: start, refs: map[string]*ref{}, Phase: time.Second, parser: parser.NewParser(parser.Options{})}
	w.db = teststorage.New(t)
	w.engine = promql.NewEngine(promql.EngineOpts{
		MaxSamples: 50_000_000, Timeout: time.Minute, EnableAtModifier: true, EnableNegativeOffset: true,
		EnablePerStepStats:       true,
		NoStepSubqueryIntervalFn: func(int64) int64 { return time.Minute.Milliseconds() },
		Parser:                   w.parser,
	})
	t.Cleanup(func() { _ = w.engine.Close() })
	w.opts = &prom.ManagerOptions{
		NameValidationScheme: model.UTF8Validation,
		QueryFunc:            prom.EngineQueryFunc(w.engine, w.db),
		NotifyFunc:           func(context.Context, string, ...*prom.Alert) {},
		Context:              context.Background(), Appendable: w.db, Queryable: w.db, Logger: promslog.NewNopLogger(),
		Parser: w.parser,
	}
	w.Replace(groups)
	return w
}

// Replace loads other groups, as a reload of Prometheus would. The storage
// stays, and so do the alerts of rules that are in a group of the same name
// again; series that only the old groups recorded end.
func (w *World) Replace(groups []rules.Group) {
	w.t.Helper()
	doc, errs := rulefmt.Parse(rules.File("", groups), false, model.UTF8Validation, w.parser, promslog.NewNopLogger())
	require.Empty(w.t, errs)
	old := w.groups
	w.groups = nil
	for _, g := range doc.Groups {
		interval := time.Duration(g.Interval)
		if interval == 0 {
			interval = time.Minute
		}
		loaded := w.group(g, interval)
		for _, o := range old {
			if o.Name() == g.Name {
				loaded.CopyState(o.Group)
			}
		}
		w.groups = append(w.groups, group{loaded, interval})
	}
}

func (w *World) group(g rulefmt.RuleGroup, interval time.Duration) *prom.Group {
	var list []prom.Rule
	for _, r := range g.Rules {
		expr, err := w.parser.ParseExpr(r.Expr)
		require.NoError(w.t, err)
		if r.Record != "" {
			list = append(list, prom.NewRecordingRule(r.Record, expr, labels.FromMap(r.Labels)))
			continue
		}
		list = append(list, prom.NewAlertingRule(r.Alert, expr, time.Duration(r.For), time.Duration(r.KeepFiringFor),
			labels.FromMap(r.Labels), labels.FromMap(r.Annotations), labels.EmptyLabels(), "", true, w.opts.Logger))
	}
	return prom.NewGroup(prom.GroupOptions{Name: g.Name, File: "rules", Interval: interval, Rules: list, Opts: w.opts})
}

// Now is the world's time.
func (w *World) Now() time.Time { return w.now }

// batch bounds how far ahead of the rules samples are stored.
const batch = time.Hour

// Run moves the world's time to an instant. Every scrape interval it asks for
// the samples of that instant, and evaluates the groups when they are due. A
// value that is not a number leaves its series out of the scrape. A series that is
// not in a scrape any more is marked stale, as Prometheus does.
func (w *World) Run(to time.Time, scrape time.Duration,
	samples func(at time.Time, add func(series string, value float64))) {
	w.t.Helper()
	for w.now.Before(to) {
		until := w.now.Add(batch)
		if until.After(to) {
			until = to
		}
		if samples != nil {
			app := w.db.Appender(w.t.Context())
			for at := ceil(w.now, scrape); at.Before(until); at = at.Add(scrape) {
				live := make(map[string]bool, len(w.live))
				samples(at, func(series string, value float64) {
					if !math.IsNaN(value) {
						live[series] = true
						w.append(app, series, at, value)
					}
				})
				for series := range w.live {
					if !live[series] && !w.Sparse {
						w.append(app, series, at, math.Float64frombits(value.StaleNaN))
					}
				}
				w.live = live
			}
			require.NoError(w.t, app.Commit())
		}
		w.evaluate(until)
		w.now = until
	}
}

func (w *World) append(app storage.Appender, series string, at time.Time, value float64) {
	r := w.refs[series]
	if r == nil {
		l, err := w.parser.ParseMetric(series)
		require.NoError(w.t, err)
		r = &ref{labels: l}
		w.refs[series] = r
	}
	got, err := app.Append(r.ref, r.labels, at.UnixMilli(), value)
	require.NoError(w.t, err)
	r.ref = got
}

// Histogram stores a sample of a native histogram with two buckets: so many
// observations between 0.125 and 0.25, and between 1 and 2.
func (w *World) Histogram(series string, at time.Time, fast, slow float64) {
	w.t.Helper()
	l, err := w.parser.ParseMetric(series)
	require.NoError(w.t, err)
	app := w.db.Appender(w.t.Context())
	_, err = app.AppendHistogram(0, l, at.UnixMilli(), nil, &histogram.FloatHistogram{
		Schema: 0, Count: fast + slow, Sum: 0.2*fast + 1.5*slow, ZeroThreshold: 1e-9,
		PositiveSpans:   []histogram.Span{{Offset: -2, Length: 1}, {Offset: 2, Length: 1}},
		PositiveBuckets: []float64{fast, slow},
	})
	require.NoError(w.t, err)
	require.NoError(w.t, app.Commit())
}

// evaluate runs the groups that are due from now until an instant, which is not
// part of it.
func (w *World) evaluate(until time.Time) {
	next := func(g group) time.Time { return ceil(w.now.Add(-w.Phase), g.interval).Add(w.Phase) }
	for {
		at := until
		for _, g := range w.groups {
			if n := next(g); n.Before(at) {
				at = n
			}
		}
		if !at.Before(until) {
			return
		}
		w.now = at
		for _, g := range w.groups {
			if next(g).Equal(at) {
				g.Eval(w.t.Context(), at)
				for _, r := range g.Rules() {
					require.NoError(w.t, r.LastError(), "%s at %s", r.Name(), at)
				}
			}
		}
		if w.After != nil {
			w.After(at)
		}
		w.now = at.Add(time.Nanosecond)
	}
}

func ceil(t time.Time, d time.Duration) time.Time {
	if f := t.Truncate(d); f.Before(t) {
		return f.Add(d)
	}
	return t
}

// Firing lists the labels of the alerts that fire, of one name or all ("").
func (w *World) Firing(name string) []labels.Labels {
	var out []labels.Labels
	for _, g := range w.groups {
		for _, r := range g.AlertingRules() {
			for _, a := range r.ActiveAlerts() {
				if a.State == prom.StateFiring && (name == "" || r.Name() == name) {
					out = append(out, a.Labels)
				}
			}
		}
	}
	return out
}

// Query evaluates an expression at an instant.
func (w *World) Query(expr string, at time.Time) promql.Vector {
	w.t.Helper()
	v, _ := w.QueryStats(expr, at)
	return v
}

// QueryStats is Query with the number of samples that were read, as Prometheus
// counts them: also those that a subquery reads.
func (w *World) QueryStats(expr string, at time.Time) (promql.Vector, int64) {
	w.t.Helper()
	q, err := w.engine.NewInstantQuery(w.t.Context(), w.db, promql.NewPrometheusQueryOpts(true, 0), expr, at)
	require.NoError(w.t, err, "%s", expr)
	defer q.Close()
	res := q.Exec(w.t.Context())
	require.NoError(w.t, res.Err, "%s", expr)
	read := q.Stats().Samples.SamplesRead
	if s, ok := res.Value.(promql.Scalar); ok {
		return promql.Vector{{T: s.T, F: s.V}}, read
	}
	v, err := res.Vector()
	require.NoError(w.t, err)
	out := make(promql.Vector, len(v)) // the query's own goes back to its pool
	copy(out, v)
	return out, read
}

// Value is the only result of an expression; ok is false if there is none.
func (w *World) Value(expr string, at time.Time) (value float64, ok bool) {
	w.t.Helper()
	v := w.Query(expr, at)
	if len(v) == 0 {
		return 0, false
	}
	require.Len(w.t, v, 1, "%s", expr)
	return v[0].F, true
}
