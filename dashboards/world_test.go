package dashboards_test

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/gin-gonic/gin"
	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/cmd/sloengine/demo"
	"github.com/sloengine/sloengine/ingest"
	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/internal/testkit/spectest"
	"github.com/sloengine/sloengine/reliability/metric"
	"github.com/sloengine/sloengine/reliability/wal"
	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/evaluator"
	"github.com/sloengine/sloengine/sla/forecast"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
	"github.com/sloengine/sloengine/slo/spec"
	"github.com/sloengine/sloengine/web"
	"github.com/sloengine/sloengine/web/site"
	"github.com/sloengine/sloengine/web/status"
)

const scrape = 15 * time.Second

// The world plays an hour of the insurance process with the outage of mdm in it,
// before noon in Moscow on a Wednesday, and stops a little after it.
var (
	worldBegin = time.Date(2026, 11, 18, 7, 50, 0, 0, time.UTC)
	worldLive  = time.Date(2026, 11, 18, 8, 40, 0, 0, time.UTC)
	worldEnd   = time.Date(2026, 11, 18, 8, 52, 0, 0, time.UTC)
)

// insurance is the example spec, read.
func insurance(t testing.TB) *spec.Spec {
	t.Helper()
	return spectest.Example(t, "insurance")
}

// withCapacity gives the throughput of the example spec a capacity.
func withCapacity(in rules.Spec) {
	for _, s := range in.SLOs {
		if s.ID == "insurance-unpaid/throughput" {
			s.Indicator.Capacity = slo.Capacity{Events: 120, Per: time.Minute}
		}
	}
}

// withOutlooks adds what an engine knows that has counted for weeks.
func withOutlooks(r *sla.Report) *sla.Report {
	if r == nil {
		return nil
	}
	out := *r
	out.SLOs = slices.Clone(r.SLOs)
	for i := range out.SLOs {
		x := &out.SLOs[i]
		f := forecast.Forecast{
			Time: r.Time, Exhaustion: forecast.Exhaustion{Low: 20 * time.Hour, Median: 30 * time.Hour, High: forecast.Beyond}}
		for _, ahead := range forecast.LeadTimes {
			f.Points = append(f.Points, forecast.Point{Ahead: ahead, Low: -0.2, Median: 0.3, High: 0.6, Exhausted: 0.4})
		}
		x.Outlook = &sla.Outlook{Forecast: f}
		if !x.SLO.Indicator.Capacity.IsZero() {
			x.Outlook.Capacity = &forecast.Capacity{Limit: 2, HasPeak: true, Rate: 1.5, Reached: forecast.ReachedWithin,
				Low: 20 * 24 * time.Hour, High: 40 * 24 * time.Hour}
		}
	}
	return &out
}

// world is a Prometheus that has scraped an engine for a while and evaluated
// the generated rules.
type world struct {
	t      testing.TB
	store  *teststorage.TestStorage
	engine *promql.Engine
	now    time.Time
	names  map[string]bool // of scraped series

	last map[string]map[uint64]labels.Labels // per rule, what it gave the last time
}

func newWorld(t testing.TB) *world {
	if os.Getenv("SLOENGINE_QUICK") != "" {
		t.Skip("make quick runs no Prometheus engine")
	}
	e := promql.NewEngine(promql.EngineOpts{
		MaxSamples: 50_000_000, Timeout: time.Minute, EnableAtModifier: true, EnableNegativeOffset: true,
		Parser:                   parser.NewParser(parser.Options{}),
		NoStepSubqueryIntervalFn: func(int64) int64 { return time.Minute.Milliseconds() },
	})
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	return &world{t: t, store: teststorage.New(t), engine: e, names: map[string]bool{},
		last: map[string]map[uint64]labels.Labels{}}
}

// play runs the demo's traffic through fold and evaluator, scrapes /metrics, and
// evaluates the groups.
func (w *world) play(sp *spec.Spec, groups []rules.Group) {
	t := w.t
	in := evaluator.Inputs{SLOs: sp.SLOs, Thresholds: sp.Thresholds, Agreements: sp.Agreements}
	for _, s := range sp.Services {
		in.Services = append(
			in.Services, fold.Service{Name: s.Name, Types: s.Types, Dimensions: s.Dimensions, Buckets: s.Buckets})
	}
	cfg, err := evaluator.Compile(in)
	require.NoError(t, err)
	counts, err := fold.New(fold.Options{})
	require.NoError(t, err)
	counts.Advance(worldBegin.UnixNano(), fold.Start)
	require.NoError(t, counts.SetConfig(cfg, worldBegin.UnixNano()))

	evalSet := metrics.NewSet()
	eval, err := evaluator.New(evaluator.Options{
		Metrics: evaluator.NewMetrics(evalSet),
		Source:  func(_ context.Context, req fold.Request) (*fold.Sums, error) { return counts.Sums(req), nil },
	})
	require.NoError(t, err)
	require.NoError(t, eval.SetSpec(in))
	self := newSelf(t)
	registry := client.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	page, err := web.New(site.Options{
		Numbers:   site.Numbers{Report: func() *sla.Report { return withOutlooks(eval.Latest()) }},
		Condition: site.Condition{Engine: func() status.Engine { return status.Engine{State: status.Ready} }},
		Now:       func() time.Time { return w.now },
		Scrape: site.Scrape{
			Registry: registry, Sets: append(self.sets, evalSet, aroundSet(t, func() time.Time {
				return w.now
			}, append(self.sets, evalSet)...)),
		},
	})
	require.NoError(t, err)
	router := gin.New()
	page.Register(router)

	// The incident is nine days before the story's day.
	story := demo.New(worldEnd.AddDate(0, 0, 9), 1)
	story.SalesUntil = worldBegin // they are of another spec
	var buf []byte
	apply := func(e *event.Event) error {
		buf = event.AppendBinary(buf[:0], e)
		var v event.View
		if _, err := v.Parse(buf); err != nil {
			return err
		}
		return counts.Apply(w.now.UnixNano(), fold.Live, &v)
	}
	// Stages, tasks and integrations of five minutes come in one lump, as of a
	// sender that merges; live ones one by one.
	for w.now = worldBegin; !w.now.After(worldEnd); w.now = w.now.Add(scrape) {
		from := w.now.Add(-scrape)
		if w.now.After(worldLive) {
			for _, e := range story.Live(from, w.now, "live") {
				require.NoError(t, apply(&e))
			}
			self.post()
		} else if w.now.Truncate(time.Minute).Equal(w.now) {
			require.NoError(t, story.History(w.now.Add(-time.Minute), w.now, apply))
		}
		counts.Advance(w.now.UnixNano(), fold.Tick)
		_, err := eval.Tick(t.Context(), w.now)
		require.NoError(t, err)
		w.scrape(router)
		for _, g := range groups {
			if w.now.Truncate(max(g.Interval, time.Minute)).Equal(w.now) {
				w.evaluate(g)
			}
		}
	}
	w.now = worldEnd
}

// scrape takes /metrics over as a Prometheus does.
func (w *world) scrape(h http.Handler) {
	t := w.t
	req := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	res := httptest.NewRecorder()
	h.ServeHTTP(res, req)
	require.Equal(t, http.StatusOK, res.Code)
	p, err := textparse.New(res.Body.Bytes(), res.Header().Get("Content-Type"), nil,
		textparse.ParserOptions{FallbackContentType: "text/plain"})
	require.NoError(t, err)
	app := w.store.Appender(t.Context())
	for {
		entry, err := p.Next()
		if err != nil {
			break
		}
		if entry != textparse.EntrySeries {
			continue
		}
		var ls labels.Labels
		p.Labels(&ls)
		_, _, v := p.Series()
		w.names[ls.Get(model.MetricNameLabel)] = true
		b := labels.NewBuilder(ls)
		b.Set("job", "sloengine").Set("instance", "127.0.0.1:8080")
		_, err = app.Append(0, b.Labels(), w.now.UnixMilli(), v)
		require.NoError(t, err, ls)
	}
	require.NoError(t, app.Commit())
}

// evaluate runs the rules of a group in order, each seeing those before it.
func (w *world) evaluate(g rules.Group) {
	for i, r := range g.Rules {
		got := w.instant(r.Expr)
		app := w.store.Appender(w.t.Context())
		now, key := map[uint64]labels.Labels{}, fmt.Sprintf("%s %d", g.Name, i)
		for _, s := range got {
			b := labels.NewBuilder(s.Metric)
			v := s.F
			if r.Record != "" {
				b.Set(model.MetricNameLabel, r.Record)
			} else {
				b.Set(model.MetricNameLabel, "ALERTS").Set("alertname", r.Alert).Set("alertstate", "firing")
				v = 1
			}
			for k, x := range r.Labels {
				b.Set(k, x)
			}
			ls := b.Labels()
			now[ls.Hash()] = ls
			w.append(app, ls, v)
		}
		for h, ls := range w.last[key] {
			if _, still := now[h]; !still {
				w.append(app, ls, math.Float64frombits(value.StaleNaN))
			}
		}
		w.last[key] = now
		require.NoError(w.t, app.Commit())
	}
}

func (w *world) append(app storage.Appender, ls labels.Labels, v float64) {
	_, err := app.Append(0, ls, w.now.UnixMilli(), v)
	require.NoError(w.t, err, ls)
}

// instant evaluates an expression as of now.
func (w *world) instant(expr string) promql.Vector {
	w.t.Helper()
	q, err := w.engine.NewInstantQuery(w.t.Context(), w.store, nil, expr, w.now)
	require.NoError(w.t, err, expr)
	defer q.Close()
	res := q.Exec(w.t.Context())
	require.NoError(w.t, res.Err, expr)
	switch v := res.Value.(type) {
	case promql.Vector:
		return append(promql.Vector(nil), v...)
	case promql.Scalar:
		return promql.Vector{{F: v.V}}
	}
	w.t.Fatalf("%s: neither a vector nor a scalar", expr)
	return nil
}

// over evaluates an expression over the last half hour.
func (w *world) over(expr string) promql.Matrix {
	w.t.Helper()
	q, err := w.engine.NewRangeQuery(w.t.Context(), w.store, nil, expr, w.now.Add(-30*time.Minute), w.now, time.Minute)
	require.NoError(w.t, err, expr)
	defer q.Close()
	res := q.Exec(w.t.Context())
	require.NoError(w.t, res.Err, expr)
	m, err := res.Matrix()
	require.NoError(w.t, err, expr)
	var out promql.Matrix
	for _, s := range m {
		s.Floats = append([]promql.FPoint(nil), s.Floats...)
		out = append(out, s)
	}
	return out
}

// self is a small engine of its own that is sent events, for the metrics that
// an engine keeps of itself.
type self struct {
	t       testing.TB
	sets    []*metrics.Set
	handler http.Handler
	n       int
	posted  float64
}

func newSelf(t testing.TB) *self {
	gin.SetMode(gin.TestMode)
	engineSet, httpSet := metrics.NewSet(), metrics.NewSet()
	log := slog.New(slog.DiscardHandler)
	e, err := engine.Open(
		engine.Options{Dir: t.TempDir(), State: deaf{}, Metrics: engine.NewMetrics(engineSet), Logger: log})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx, engine.Parts{}) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-done)
		require.NoError(t, e.Close())
	})
	<-e.Ready()
	h, err := ingest.NewHandler(ingest.HandlerOptions{Committer: e, Metrics: ingest.NewHTTPMetrics(httpSet), Logger: log})
	require.NoError(t, err)
	router := gin.New()
	h.Register(router)
	s := &self{t: t, handler: router}
	s.sets = []*metrics.Set{engineSet, httpSet, s.process(engineSet)}
	return s
}

// post sends good events, a duplicate and a broken one, and a span that does not count, with a text of invalid UTF-8.
func (s *self) post() {
	s.n++
	s.posted += 3
	body := fmt.Sprintf(`{"service":"a","type":"b","id":"%d"}
{"service":"a","type":"b","id":"%d"}
{"service":"a","type":"b","id":"first"}
{"service":"a"}
`, 2*s.n, 2*s.n+1)
	req := httptest.NewRequest(http.MethodPost, ingest.EventsPath, strings.NewReader(body))
	req.Header.Set("Content-Type", "application/x-ndjson")
	res := httptest.NewRecorder()
	s.handler.ServeHTTP(res, req)
	require.Equal(s.t, http.StatusAccepted, res.Code, res.Body)

	const span = "\x0a\x09\x12\x07\x12\x05\x2a\x03a\xffb" // resourceSpans, scopeSpans, spans, name
	req = httptest.NewRequest(http.MethodPost, ingest.TracesPath, strings.NewReader(span))
	req.Header.Set("Content-Type", "application/x-protobuf")
	res = httptest.NewRecorder()
	s.handler.ServeHTTP(res, req)
	require.Equal(s.t, http.StatusOK, res.Code, res.Body)
}

// process stands in for the metrics that the command adds: those of the fold and of the process.
func (s *self) process(have *metrics.Set) *metrics.Set {
	set := metrics.NewSet()
	for _, p := range metric.Parts() {
		for _, f := range p.Families {
			if strings.HasPrefix(f.Name, "sloengine_fold_") || p.Title == "Process" {
				set.GetOrCreateGauge(f.Name, func() float64 { return s.posted })
			}
		}
	}
	for _, n := range have.ListMetricNames() {
		set.UnregisterMetric(n)
	}
	return set
}

// deaf counts nothing.
type deaf struct{}

func (deaf) Apply(wal.Record, engine.Refuse) error { return nil }
func (deaf) Parts() []engine.Part                  { return nil }
func (deaf) Restore(string, []byte) error          { return nil }
func (deaf) FinishRestore() error                  { return nil }
func (deaf) Loss(string) (string, bool)            { return "", false }
