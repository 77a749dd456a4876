package own

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/reliability/metric"
	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/rules/rulestest"
)

var start = time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)

// walk is one made-up series: a gauge that jumps between values, or a counter that grows at rates. Now and then it is
// missing, and a counter starts over.
type walk struct {
	name, labels string
	counter      bool
	levels       []float64

	value, level float64
	until        int
	missing      bool
}

// walks has the families that the rules read, each with levels on both sides of its rules.
func walks() []*walk {
	g := func(f *metric.Family, labels string, levels ...float64) *walk {
		return &walk{name: f.Name, labels: labels, counter: f.Type == metric.Counter, levels: levels}
	}
	in := func(days int) float64 { return float64(start.AddDate(0, 0, days).Unix()) }
	return []*walk{
		g(metric.IngestUnavailable, `reason="disk_full"`, 0, 0, 0.1), g(metric.IngestUnavailable, `reason="overload"`, 0, 2),
		g(metric.IngestEvents, `result="accepted"`, 0, 10, 100), g(metric.IngestEvents, `result="rejected"`, 0, 1, 20),
		g(metric.IngestReady, "", 1, 1, 0), g(metric.IngestDiskFreeBytes, "", 10<<30, 5<<30, 1<<29),
		g(metric.WALPoisoned, "", 0, 0, 1),
		g(metric.FoldLagRecords, "", 0, 200_000), g(metric.FoldFullSLOs, "", 0, 2), g(metric.FoldUntracked, "", 0, 0, 0.5),
		g(metric.EvaluateTicks, "", 0, 0.1), g(metric.EvaluateLate, "", 0, 0.06, 0.1), g(metric.FoldDeadLetters, "", 0, 1),
		g(metric.BreakerState, `breaker="sink a"`, 0, 1, 2), g(metric.BreakerState, `breaker="a \"b\" \\ c"`, 0, 2),
		g(metric.DLQEntries, `origin="fold"`, 0, 90, 20_000), g(metric.DLQEntries, `origin="sink:a"`, 0, 50, 400),
		g(metric.DLQSaved, `origin="admission",reason="rate_limited"`, 0, 60),
		g(metric.DLQSaved, `origin="admission",reason="id_forgotten"`, 0, 1),
		g(metric.RetryAttemptedItems, `target="a"`, 0, 60),
		g(metric.RateLimitHits, `layer="global",type=""`, 0, 5, 30),
		g(metric.RateLimitHits, `layer="type",type="order"`, 0, 0.5, 3),
		g(metric.RateLimitHits, `layer="context",type=""`, 0, 1, 4), g(metric.RateLimitDropped, `type="(default)"`, 0, 200),
		g(metric.RateLimitCurrent, `layer="global"`, 10, 85, 99), g(metric.RateLimitThreshold, `layer="global"`, 100),
		g(metric.RateLimitCritical, `type="order"`, 0, 0, 1), g(metric.RateLimitFallback, "", 0, 1),
		g(metric.SinkLagSeconds, `sink="a"`, 0, 400), g(metric.SinkLagBytes, `sink="a"`, 0, 900),
		g(metric.SinkMaxLagBytes, `sink="a"`, 1000),
		g(metric.RemoteWriteLag, `target="mimir"`, 0, 100, 400),
		g(metric.RemoteWriteDropped, `target="mimir",reason="age"`, 0, 0, 50),
		g(metric.SinkFailing, `sink="a",reason="timeout"`, 0, 1), g(metric.SinkFailing, `sink="a",reason="refused"`, 0, 1),
		g(metric.SinkRateLimited, `sink="a"`, 0, 0.1), g(metric.NotifyFailing, `target="am:9093",reason="timeout"`, 0, 1),
		g(metric.SourceTrouble, `source="o",kind="topic"`, 0, 1),
		g(metric.KafkaSourceLag, `source="o",topic="t",partition="1"`, 0, 50000, 60000, 50000),
		g(metric.SourceBusySeconds, `source="o"`, 0.1, 0.9, 0.95, 0.99),
		g(metric.RabbitDeadLetterHandled, `source="w"`, 0, 0.5), g(metric.RabbitDeadLetterDepth, `source="w"`, 0, 5, 150),
		g(metric.RabbitTopologyProblems, `source="w"`, 0, 1),
		g(metric.RabbitDeadLettersOverdue, `source="w",queue="q"`, 0, 30, 600),
		g(metric.RabbitDeadLetters, `source="w",queue="q",type="t",reason="expired",outcome="failure"`, 0, 0.5),
		g(metric.FoldEvents, "", 5, 10),
		g(metric.ReportsFailing, `report="weekly"`, 0, 2, 2), g(metric.ReportsPending, `report="weekly"`, 2, 2, 2, 0),
		{name: alerts.ProcessStart, levels: []float64{in(0), in(-1)}},
		g(metric.TokenExpirySeconds, `token="t",key="0a1b2c3d"`, in(1), in(30)),
		g(metric.TokenLastUsedSeconds, `token="t",key="0a1b2c3d"`, in(0), in(-3)),
	}
}

func (w *walk) step(rng *rand.Rand, i int) {
	if i >= w.until {
		w.level, w.missing = w.levels[rng.IntN(len(w.levels))], rng.IntN(8) == 0
		w.until = i + 4 + rng.IntN(80)
		if w.counter && rng.IntN(10) == 0 {
			w.value = 0
		}
	}
	if w.counter {
		w.value += w.level * Interval.Seconds()
	} else {
		w.value = w.level
	}
}

func (w *walk) series(target string) string {
	return w.name + "{" + strings.Trim(w.labels+","+target, ",") + "}"
}

const target = `job="slo",instance="a:1"`

// TestSameAsPrometheus runs the same figures through the engine and through the generated rules in Prometheus' own rule
// engine. At every evaluation, both fire the same alerts with the same labels.
func TestSameAsPrometheus(t *testing.T) {
	groups := alerts.Rules(rules.Spec{}, alerts.Options{})
	require.Len(t, groups, 1)
	groups[0].Interval = Interval
	live := alerts.EngineAlerts(alerts.Options{})
	var list []*walk
	w, err := New(Options{Settings: Settings{Rules: live, Job: "slo", Instance: "a:1"}, Gather: func(out io.Writer) {
		for _, x := range list {
			if !x.missing {
				fmt.Fprintf(out, "%s %v\n", strings.ReplaceAll(x.name+"{"+x.labels+"}", "{}", ""), x.value)
			}
		}
	}})
	require.NoError(t, err)
	m, err := state.New(state.Options{})
	require.NoError(t, err)

	list = walks()
	rng := rand.New(rand.NewPCG(1, 1))
	fired := map[time.Time][]string{}
	p := rulestest.New(t, start, groups)
	p.Phase = 0
	seen, compared := map[string]bool{}, 0
	p.After = func(at time.Time) {
		got := []string{}
		for _, l := range p.Firing("") {
			if name := l.Get(labels.AlertName); name != alerts.NameWatchdog {
				got = append(got, l.String())
				seen[name] = true
			}
		}
		slices.Sort(got)
		require.Equal(t, got, fired[at], "at %s", at.Sub(start))
		compared++
	}
	i := 0
	p.Run(start.Add(5*time.Hour), Interval, func(at time.Time, add func(string, float64)) {
		for _, x := range list {
			x.step(rng, i)
			if !x.missing {
				add(x.series(target), x.value)
			}
		}
		i++
		m.StepEngine(w.Report(t.Context(), at))
		out := []string{}
		for _, a := range m.View().Active {
			require.True(t, a.Engine)
			if a.State != state.Firing {
				continue
			}
			var b labels.ScratchBuilder
			for _, l := range a.Labels {
				b.Add(l.Name, l.Value)
			}
			out = append(out, b.Labels().String())
		}
		slices.Sort(out)
		fired[at] = out
	})
	require.Equal(t, 5*int(time.Hour/Interval), compared)
	for _, l := range live {
		require.True(t, seen[l.Alert], "%s never fired", l.Alert)
	}
	t.Logf("%d evaluations, %d series in memory", compared, len(w.history.series))
}

// TestRulesReadTheEngine holds every rule against the definition of the metrics.
func TestRulesReadTheEngine(t *testing.T) {
	live := alerts.EngineAlerts(alerts.Options{})
	require.Greater(t, len(live), 25)
	_, err := New(Options{Settings: Settings{Rules: live}, Gather: func(io.Writer) {}})
	require.NoError(t, err)
	have := map[string]bool{}
	for _, x := range walks() {
		have[x.name] = true
	}
	for _, l := range live {
		w, err := New(Options{Settings: Settings{Rules: []alerts.Live{l}}, Gather: func(io.Writer) {}})
		require.NoError(t, err)
		require.NotEmpty(t, w.history.families, l.Alert)
		for name := range w.history.families {
			require.True(t, metric.Lookup(name) != nil || name == alerts.ProcessStart, "%s reads %s", l.Alert, name)
			require.True(t, have[name], "%s reads %s, which TestSameAsPrometheus lacks", l.Alert, name)
		}
	}
}

// watcher is one with a single rule, and what it reads.
func watcher(t testing.TB, expr string, text *string, change ...func(*Options)) *Watcher {
	t.Helper()
	o := Options{
		Settings: Settings{Rules: []alerts.Live{{Kind: alerts.LiveEngine, Alert: "Test", Expr: expr}},
			Job: "j", Instance: "i"},
		Gather: func(w io.Writer) { _, _ = io.WriteString(w, *text) },
	}
	for _, f := range change {
		f(&o)
	}
	w, err := New(o)
	require.NoError(t, err)
	return w
}

func TestRefusedRules(t *testing.T) {
	for expr, want := range map[string]string{
		"sum(":                              "parse error",
		`{__name__=~"x.*"} > 0`:             "does not name a metric",
		"slo:engines > 0":                   "does not name a metric",
		"max_over_time((x + y)[5m:1m]) > 0": "subquery",
	} {
		_, err := New(
			Options{Settings: Settings{Rules: []alerts.Live{{Alert: "Odd", Expr: expr}}}, Gather: func(io.Writer) {}})
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "alert Odd on the engine")
	}
	_, err := New(Options{})
	require.ErrorContains(t, err, "Gather is required")
}

// TestBounds: however long it runs and however many series there are, memory is bounded, and what is left out shows.
func TestBounds(t *testing.T) {
	var text strings.Builder
	for i := range maxSeries + 10 {
		fmt.Fprintf(&text, "sloengine_breaker_state{breaker=\"b%d\"} 2\n", i)
	}
	all, one := text.String(), "sloengine_breaker_state{breaker=\"b1\"} 2\n"
	now, current := start, all
	var log bytes.Buffer
	w := watcher(t, "sloengine_breaker_state == 2", &current, func(o *Options) {
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	})
	for range 3 {
		r := w.Report(t.Context(), now)
		require.Len(t, r.Rules[0].Found, maxSeries)
		now = now.Add(Interval)
	}
	require.EqualValues(t, 10, w.opt.Metrics.skipped.Get())
	require.Equal(t, 1, strings.Count(log.String(), "do not see all"))
	current = one
	for range 100 {
		r := w.Report(t.Context(), now)
		require.Len(t, r.Rules[0].Found, 1, "series that ended are no longer found")
		now = now.Add(Interval)
	}
	require.Len(t, w.history.series, 1)
	require.Len(t, w.history.byName["sloengine_breaker_state"], 1)
	for _, s := range w.history.series {
		require.Len(t, s.samples, int(lookback/Interval)+1)
	}
	require.Zero(t, w.opt.Metrics.skipped.Get())
	require.Equal(t, 1, strings.Count(log.String(), "see all of its metrics again"))
}

// TestKnown: an alert that fired before a restart is not over because the new process has seen nothing yet.
func TestKnown(t *testing.T) {
	now, text := start, "sloengine_ingest_unavailable_total{reason=\"disk_full\"} 5\n"
	w := watcher(t, "rate(sloengine_ingest_unavailable_total[5m]) > 0", &text)
	known := func() bool { return w.Report(t.Context(), now).Rules[0].Known }
	for range 20 {
		require.False(t, known())
		now = now.Add(Interval)
	}
	require.True(t, known())
	now = now.Add(time.Minute + time.Second) // suspended
	require.False(t, known())
	now = now.Add(-time.Hour) // the clock was set
	require.False(t, known())
}

// TestFailure: a rule that cannot be evaluated keeps its alerts as they are, and one line tells of it.
func TestFailure(t *testing.T) {
	text := "sloengine_breaker_state{breaker=\"b\"} 2\n"
	var log bytes.Buffer
	w := watcher(t, "sloengine_breaker_state == 2", &text, func(o *Options) {
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	})
	m, err := state.New(state.Options{})
	require.NoError(t, err)
	now := start
	step := func() state.State {
		m.StepEngine(w.Report(t.Context(), now))
		now = now.Add(Interval)
		if v := m.View(); len(v.Active) > 0 {
			require.Equal(t, "breaker=b instance=i job=j", labelText(v.Active[0].GroupBy, v.Active[0].Group))
			return v.Active[0].State
		}
		return state.Inactive
	}
	require.Equal(t, state.Firing, step())
	text = "sloengine_breaker_state{breaker=\"b\"} 0\n"
	w.rules[0].live.Expr = "sloengine_breaker_state == on () group_left () sloengine_breaker_state and"
	require.Equal(t, state.Firing, step())
	require.Equal(t, state.Firing, step())
	require.EqualValues(t, 2, w.opt.Metrics.failures.Get())
	require.Equal(t, 1, strings.Count(log.String(), "keep their states"))
	w.rules[0].live.Expr = "sloengine_breaker_state == 2"
	require.Equal(t, state.Inactive, step())
	require.Equal(t, 1, strings.Count(log.String(), "evaluated again"))
}

func labelText(names, values []string) string {
	var out []string
	for i := range names {
		out = append(out, names[i]+"="+values[i])
	}
	return strings.Join(out, " ")
}

// TestChangedSettings: thresholds change without losing the history, labels begin another.
func TestChangedSettings(t *testing.T) {
	text := "sloengine_breaker_state{breaker=\"b\"} 2\n"
	w := watcher(t, "sloengine_breaker_state == 2", &text)
	found := func(now time.Time) []state.EngineSample { return w.Report(context.Background(), now).Rules[0].Found }
	require.Len(t, found(start), 1)
	s := w.opt.Settings
	s.Rules = slices.Clone(s.Rules)
	s.Rules[0].Expr = "count_over_time(sloengine_breaker_state[5m]) > 1"
	apply, err := w.Prepare(s)
	require.NoError(t, err)
	apply()
	require.Len(t, found(start.Add(Interval)), 1)
	s.Instance = "other"
	apply, err = w.Prepare(s)
	require.NoError(t, err)
	apply()
	require.Empty(t, found(start.Add(2*Interval)))
	require.Equal(t, "other", found(start.Add(3 * Interval))[0].Labels[1].Value)
	s.Rules[0].Expr = "("
	_, err = w.Prepare(s)
	require.Error(t, err)
	require.Len(t, slices.Collect(maps.Keys(w.history.families)), 1)
}

// BenchmarkReport is one evaluation of all rules over a full history.
func BenchmarkReport(b *testing.B) {
	list := walks()
	w, err := New(Options{Settings: Settings{Rules: alerts.EngineAlerts(alerts.Options{}), Job: "slo", Instance: "a:1"},
		Gather: func(out io.Writer) {
			for _, x := range list {
				fmt.Fprintf(out, "%s %v\n", x.series(""), x.value)
			}
		}})
	require.NoError(b, err)
	rng, now := rand.New(rand.NewPCG(1, 1)), start
	report := func(i int) {
		for _, x := range list {
			x.step(rng, i)
		}
		w.Report(context.Background(), now)
		now = now.Add(Interval)
	}
	for i := range 300 {
		report(i)
	}
	b.ReportAllocs()
	for b.Loop() {
		report(0)
	}
}
