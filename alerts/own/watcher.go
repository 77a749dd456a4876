package own

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/reliability/health"
	"github.com/sloengine/sloengine/reliability/metric"
)

// Interval is how often to call Watcher.Report. It is the usual scrape interval, so that both paths see the same.
const Interval = 15 * time.Second

// queryTimeout bounds the evaluation of one rule, which takes microseconds.
const queryTimeout = 5 * time.Second

// maxSamples bounds what one rule may read at once.
const maxSamples = 1_000_000

// Settings may change while the watcher runs.
type Settings struct {
	Rules []alerts.Live // of kind alerts.LiveEngine
	// Job and Instance are the labels that Prometheus adds to what it scrapes from this engine.
	Job, Instance string
}

// Options configure a Watcher. Gather is required.
type Options struct {
	Settings
	Gather  func(io.Writer) // writes the engine's metrics in the text exposition format
	Logger  *slog.Logger    // default: none
	Metrics *Metrics        // default: unregistered
}

// Metrics are the watcher's own figures.
type Metrics struct {
	series, skipped *metrics.Gauge
	failures        *metrics.Counter
}

// NewMetrics registers the sloengine_engine_alert_* metrics in a set.
func NewMetrics(set *metrics.Set) *Metrics {
	return &Metrics{
		series: metric.EngineAlertSeries.Gauge(set), skipped: metric.EngineAlertSkipped.Gauge(set),
		failures: metric.EngineAlertFailures.Counter(set),
	}
}

// Watcher evaluates the rules about the engine. Its methods are for one goroutine at a time.
type Watcher struct {
	opt    Options
	parser parser.Parser
	engine *promql.Engine

	rules   []rule
	history *history
	text    bytes.Buffer
	since   time.Time // the history has no gap since then
	last    time.Time // of the newest samples
	failing health.Log
	full    bool // series were skipped
}

type rule struct {
	live *alerts.Live
	back time.Duration // how far its ranges look back
}

// New checks the rules. It fails for an expression that does not parse, or that reads what the engine does not have.
func New(o Options) (*Watcher, error) {
	if o.Gather == nil {
		return nil, errors.New("alerts on the engine: Gather is required")
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.Metrics = cmp.Or(o.Metrics, NewMetrics(metrics.NewSet()))
	w := &Watcher{opt: o, parser: parser.NewParser(parser.Options{})}
	w.failing = health.Log{
		Tracker: health.Tracker{Now: func() time.Time { return w.last }, Cause: error.Error}, Logger: o.Logger,
		Broken: "evaluating the alerts on the engine failed, they keep their states",
		Works:  "alerts on the engine are evaluated again",
	}
	w.engine = promql.NewEngine(promql.EngineOpts{
		Logger: o.Logger, MaxSamples: maxSamples, Timeout: queryTimeout, LookbackDelta: lookback, Parser: w.parser,
	})
	apply, err := w.Prepare(o.Settings)
	if err != nil {
		return nil, err
	}
	apply()
	return w, nil
}

// Prepare checks other settings and returns what puts them in force. The history stays, unless the labels change.
func (w *Watcher) Prepare(s Settings) (apply func(), err error) {
	rules, families := make([]rule, len(s.Rules)), map[string]time.Duration{}
	for i := range s.Rules {
		l := &s.Rules[i]
		more, back, err := reads(w.parser, l.Expr)
		if err != nil {
			return nil, fmt.Errorf("alert %s on the engine: %w", l.Alert, err)
		}
		rules[i] = rule{l, back}
		for name, d := range more {
			families[name] = max(families[name], d)
		}
	}
	return func() {
		if w.history == nil || s.Job != w.opt.Job || s.Instance != w.opt.Instance ||
			!maps.Equal(families, w.history.families) {
			w.history, w.last = newHistory(w.parser, families, s.Job, s.Instance), time.Time{}
		}
		w.rules, w.opt.Settings = rules, s
	}, nil
}

// Report takes the metrics as of now and evaluates all rules over them.
func (w *Watcher) Report(ctx context.Context, now time.Time) *state.EngineReport {
	if gap := now.Sub(w.last); w.last.IsZero() || gap > 4*Interval || gap <= 0 {
		w.since = now // the rules know nothing from before, or the clock was set back
		w.history = newHistory(w.parser, w.history.families, w.opt.Job, w.opt.Instance)
	}
	w.last = now
	w.text.Reset()
	w.opt.Gather(&w.text)
	failure := w.history.add(w.text.Bytes(), now)
	w.opt.Metrics.series.Set(float64(len(w.history.series)))
	w.opt.Metrics.skipped.Set(float64(w.history.skipped))
	if full := w.history.skipped > 0; full != w.full {
		w.full = full
		if full {
			w.opt.Logger.Warn("alerts on the engine do not see all of its metrics", "series", maxSeries,
				"skipped", w.history.skipped)
		} else {
			w.opt.Logger.Info("alerts on the engine see all of its metrics again")
		}
	}
	r := &state.EngineReport{Time: now, Since: w.since}
	for _, x := range w.rules {
		out := state.EngineRule{Rule: x.live, Known: now.Sub(w.since) >= x.back}
		found, err := w.query(ctx, x.live.Expr, now)
		if err != nil {
			failure, out.Known, out.Failed = errors.Join(failure, fmt.Errorf("alert %s: %w", x.live.Alert, err)), false, true
			w.opt.Metrics.failures.Inc()
		}
		out.Found = found
		r.Rules = append(r.Rules, out)
	}
	if ctx.Err() == nil {
		w.failing.Note(failure)
	}
	return r
}

// query is the result of an expression, as samples with the labels that a rule's alerts get.
func (w *Watcher) query(ctx context.Context, expr string, now time.Time) ([]state.EngineSample, error) {
	q, err := w.engine.NewInstantQuery(ctx, w.history, nil, expr, now)
	if err != nil {
		return nil, err
	}
	defer q.Close()
	vector, err := q.Exec(ctx).Vector()
	if err != nil {
		return nil, err
	}
	out := make([]state.EngineSample, 0, len(vector))
	for _, v := range vector {
		s := state.EngineSample{Value: v.F}
		if math.IsNaN(s.Value) {
			s.Value = 0 // a number for JSON
		}
		v.Metric.Range(func(l labels.Label) {
			if l.Name != model.MetricNameLabel {
				s.Labels = append(s.Labels, state.Label{Name: l.Name, Value: l.Value})
			}
		})
		out = append(out, s)
	}
	return out, nil
}
