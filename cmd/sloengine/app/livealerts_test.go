package app

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts/own"
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/cmd/sloengine/app/config"
	"github.com/sloengine/sloengine/ingest/counting"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/dispatch"
	"github.com/sloengine/sloengine/reliability/metric"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo/spec"
)

// engineWorld is the alerts of an engine whose evaluator never ticks, with figures that a test sets.
type engineWorld struct {
	*liveAlerts
	t   *testing.T
	set *metrics.Set
	log strings.Builder
	now time.Time
}

func newEngineWorld(t *testing.T, dir, text string, now time.Time) *engineWorld {
	t.Helper()
	c, err := config.Load(writeFile(t, dir, "engine.yaml", text))
	require.NoError(t, err)
	w := &engineWorld{t: t, set: metrics.NewSet(), now: now}
	log := slog.New(slog.NewTextHandler(&w.log, nil))
	b := &builder{
		Options: Options{DataDir: dir, Log: log}, settings: settings{config: c, first: &counting.Spec{Spec: &spec.Spec{}}},
		front: &front{base: &url.URL{Host: "127.0.0.1:8080"}}, set: w.set, delivery: dispatch.NewMetrics(metrics.NewSet()),
	}
	w.liveAlerts, err = b.liveAlerts(nil, nil, nil, nil)
	require.NoError(t, err)
	return w
}

// pass lets time go by.
func (w *engineWorld) pass(d time.Duration) {
	w.t.Helper()
	for end := w.now.Add(d); w.now.Before(end); w.now = w.now.Add(own.Interval) {
		w.stepEngine(w.t.Context(), w.now)
	}
}

// states are those of the active alerts by name.
func (w *engineWorld) states() map[string]state.State {
	out := map[string]state.State{}
	for _, a := range w.machine.View().Active {
		out[a.Name] = a.State
	}
	return out
}

// TestAlertsOnTheEngine follows alerts on an engine that recovers and makes no reports: they fire, are delivered, and
// go on over a restart.
func TestAlertsOnTheEngine(t *testing.T) {
	var mu sync.Mutex
	got := map[string]map[string]string{}
	pager := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var all []struct{ Labels, Annotations map[string]string }
		if json.NewDecoder(r.Body).Decode(&all) == nil {
			mu.Lock()
			defer mu.Unlock()
			for _, a := range all {
				a.Labels["summary"] = a.Annotations["summary"]
				got[a.Labels["alertname"]] = a.Labels
			}
		}
	}))
	defer pager.Close()
	dir, begin := t.TempDir(), time.Now().Add(-time.Hour)
	old := `{"version":1,"time":"` + begin.Add(-time.Minute).Format(time.RFC3339) +
		`","resolved":[],"senders":[],"active":[{"scope":"slo","id":"shop/latency","key":"ErrorBudgetBurnPage/page-1h",
		"labels":[{"name":"alertname","value":"ErrorBudgetBurnPage"}],"slo":"shop/latency","state":"firing","value":1,
		"active_since":"2026-11-02T00:00:00Z","first_bad":"2026-11-02T00:00:00Z","fired_at":"2026-11-02T00:00:00Z"}]}`
	writeFile(t, dir, AlertsFile, old)
	settings := fmt.Sprintf(
		"notifications: {job: slo, instance: 'eu:1', alertmanagers: [{url: %q, name: pager}]}", pager.URL)
	w := newEngineWorld(t, dir, settings, begin)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = w.notifier.Run(ctx) })
	metric.WALPoisoned.Gauge(w.set).Set(1)
	metric.IngestReady.Gauge(w.set).Set(0)
	metric.EvaluateTicks.Counter(w.set)

	w.pass(own.Interval)
	require.Equal(t, map[string]state.State{
		"WriteAheadLogPoisoned": state.Firing, "EngineNotReady": state.Pending, "ErrorBudgetBurnPage": state.Firing,
	}, w.states(), "alerts of the file stay until a report says otherwise")
	require.Eventually(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return got["WriteAheadLogPoisoned"] != nil
	}, testkit.Patience, 5*time.Millisecond)
	require.Equal(t, map[string]string{
		"alertname": "WriteAheadLogPoisoned", "severity": "page", "slo_impact": "high", "slo_kind": "engine",
		"job": "slo", "instance": "eu:1",
		"summary": "Engine eu:1 failed to write to its write-ahead log",
	}, got["WriteAheadLogPoisoned"])
	w.pass(4 * time.Minute)
	require.Equal(t, state.Pending, w.states()["EvaluatorStopped"])
	w.pass(7 * time.Minute)
	require.Equal(t, state.Firing, w.states()["EvaluatorStopped"])
	require.Equal(t, state.Firing, w.states()["EngineNotReady"])
	require.Eventually(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return got["EvaluatorStopped"] != nil && got["EngineNotReady"] != nil
	}, testkit.Patience, 5*time.Millisecond)
	stop()
	running.Wait()
	mu.Lock()
	require.NotContains(t, got, "Watchdog", "nothing was evaluated")
	require.NotContains(t, got, "ErrorBudgetBurnPage", "it has no texts yet")
	mu.Unlock()
	since := w.machine.View().Active

	// A restart: the log is repaired, and the evaluator works.
	w = newEngineWorld(t, dir, settings, w.now.Add(20*time.Second))
	metric.WALPoisoned.Gauge(w.set).Set(0)
	metric.IngestReady.Gauge(w.set).Set(1)
	ticks := metric.EvaluateTicks.Counter(w.set)
	for range 20 {
		ticks.Inc()
		w.pass(own.Interval)
	}
	require.Equal(t, map[string]state.State{"EvaluatorStopped": state.Firing, "ErrorBudgetBurnPage": state.Firing},
		w.states(), "five minutes are not known yet")
	for _, a := range w.machine.View().Active {
		if a.Name == "EvaluatorStopped" {
			require.True(t, a.Kept)
			for _, b := range since {
				require.True(t, b.Name != a.Name || b.FiredAt.Equal(a.FiredAt))
			}
		}
	}
	ticks.Inc()
	w.pass(own.Interval)
	require.Equal(t, map[string]state.State{"ErrorBudgetBurnPage": state.Firing}, w.states())

	// The first report decides on the alerts of the file, and on nothing else.
	metric.WALPoisoned.Gauge(w.set).Set(1)
	w.pass(own.Interval)
	w.step(&sla.Report{Time: w.now}, func(time.Time, uint32) {})
	require.Equal(t, map[string]state.State{"WriteAheadLogPoisoned": state.Firing}, w.states())
	var names []string
	for _, a := range w.machine.View().Resolved {
		require.Equal(t, a.Name != "ErrorBudgetBurnPage", len(a.Annotations()) > 0, a.Name)
		names = append(names, a.Name)
	}
	require.ElementsMatch(
		t, []string{"WriteAheadLogPoisoned", "EngineNotReady", "EvaluatorStopped", "ErrorBudgetBurnPage"}, names)
	require.True(t, w.machine.View().Resolved[3].Removed)

	// Other labels and thresholds by a reload.
	c, err := config.Load(writeFile(t, dir, "engine.yaml", "alerts: {disk_free: 2GiB}"))
	require.NoError(t, err)
	apply, err := w.prepare(&c, &spec.Spec{})
	require.NoError(t, err)
	apply()
	metric.IngestDiskFreeBytes.Gauge(w.set).Set(1.5 * (1 << 30))
	w.pass(own.Interval)
	require.Equal(
		t, map[string]state.State{"WriteAheadLogPoisoned": state.Firing, "IngestDiskLow": state.Pending}, w.states())
	for _, a := range w.machine.View().Active {
		require.Equal(t, "sloengine", a.Label("job"))
		require.Equal(t, "127.0.0.1:8080", a.Label("instance"))
	}
}

// TestHangingDiskIsToldOf: where the states cannot be saved, the alerts that tell of it are delivered nevertheless.
func TestHangingDiskIsToldOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		w := newEngineWorld(t, dir, "", time.Now())
		metric.WALPoisoned.Gauge(w.set).Set(1)
		w.saving <- struct{}{} // the evaluator's save hangs
		for range 3 {
			before := time.Now()
			w.pass(own.Interval)
			require.Equal(t, slowSave, time.Since(before))
		}
		require.Equal(t, state.Firing, w.states()["WriteAheadLogPoisoned"])
		require.NoFileExists(t, filepath.Join(dir, AlertsFile))
		require.Equal(t, 1, strings.Count(w.log.String(), "saving alert states takes long"))
		<-w.saving
		w.pass(own.Interval)
		data, err := os.ReadFile(filepath.Join(dir, AlertsFile))
		require.NoError(t, err)
		require.Contains(t, string(data), "WriteAheadLogPoisoned")
	})
}

// A usual start is no alert, and a recovery that takes longer than an interval is.
func TestAlertsWaitForAUsualStart(t *testing.T) {
	for _, takes := range []time.Duration{own.Interval / 2, 2 * own.Interval} {
		synctest.Test(t, func(t *testing.T) {
			w := newEngineWorld(t, t.TempDir(), "", time.Now())
			gauge, ready := metric.IngestReady.Gauge(w.set), make(chan struct{})
			gauge.Set(0)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- w.watch(ctx, ready) }()
			time.AfterFunc(takes, func() { gauge.Set(1); close(ready) })
			pending := false
			for range 30 {
				time.Sleep(own.Interval / 10)
				synctest.Wait()
				pending = pending || w.states()["EngineNotReady"] == state.Pending
			}
			require.Equal(t, takes > own.Interval, pending)
			cancel()
			require.NoError(t, <-ended)
		})
	}
}
