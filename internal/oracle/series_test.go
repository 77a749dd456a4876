package oracle

import (
	"context"
	"encoding/binary"
	"log/slog"
	"math"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/cmd/sloengine/app/sources"
	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/ingest/source"
	"github.com/sloengine/sloengine/ingest/source/series"
	"github.com/sloengine/sloengine/internal/testkit/spectest"
	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/reliability/ratelimit"
	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/rules/rulestest"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/spec"
)

const seriesSpec = `
version: sloengine/v1
service: web
slos:
  - name: errors
    objective: 99
    window: 1d
    group_by: [route]
    indicator: {prometheus: {bad: 'requests_total{code="500"}', total: requests_total}}
  - name: latency
    objective: 99
    window: 1d
    indicator: {prometheus: {good: 'took_bucket{le="0.5"}', total: took_count}}
  - name: sums
    objective: 99
    window: 1d
    indicator:
      prometheus:
        error_query: sum(rate(requests_total{code="500"}[$window])) + sum(rate(took_count[$window])) * 0
        total_query: sum(rate(requests_total[$window])) + sum(rate(took_count[$window])) * 0
  - name: share
    objective: 99
    window: 1d
    indicator:
      prometheus: {error_ratio_query: 'sum(rate(requests_total{code="500"}[$window])) / ` +
	`sum(rate(requests_total[$window])) < 2'}
  - name: depth
    objective: 99
    window: 1d
    indicator: {prometheus: {query: max(depth), op: lte, value: 5}}
`

// seriesEngine takes what a source makes of samples.
type seriesEngine struct {
	*oracleEngine
	now time.Time
}

func (e *seriesEngine) AdmitAt(_ context.Context, b *event.Batch, _ *ratelimit.Tickets, _ []int32,
	at engine.Position) (engine.Result, error) {
	seen, err := e.state.Counters.Apply(at.AppendPosition(nil, nil))
	require.NoError(e.t, err)
	for _, o := range seen {
		e.state.Fold.Observe(o.Source, o.From, o.To)
	}
	payload := append(binary.AppendUvarint(nil, uint64(len(b.Events))), 0)
	for i := range b.Events {
		payload = append(payload, b.Event(i)...)
	}
	e.apply(record.TypeEvents, e.now, payload)
	return engine.Result{Accepted: len(b.Events)}, nil
}

func (e *seriesEngine) CatchUp(context.Context) error { return nil }

// seriesOf are the units of the SLOs of seriesSpec.
func seriesOf(slos []*slo.SLO, window time.Duration) (out []series.Unit) {
	for _, s := range slos {
		in := &s.Indicator
		u := sources.Unit(in, window)
		u.Stream, u.SLOs = s.PromStream(), []series.SLO{{ID: string(s.ID), Service: slo.PromService(s.ID), Type: s.ID.Name(),
			GroupBy: s.GroupBy, Attributes: s.GroupBy}}
		out = append(out, u)
	}
	return out
}

// readSeries makes a source that reads a Prometheus for an engine.
func readSeries(t *testing.T, sp *spec.Spec, w *rulestest.World, settings series.Settings) (*seriesEngine,
	*series.Source) {
	for _, s := range sp.SLOs {
		s.Indicator.PromSource = "main"
		if s.Indicator.PromForm() != slo.PromCounters {
			s.Indicator.PromEvery = settings.Interval
		}
	}
	server := httptest.NewServer(w)
	t.Cleanup(server.Close)
	e := &seriesEngine{oracleEngine: newOracleEngine(t, sp, oracleStart), now: oracleStart}
	intake, err := source.New(source.Options{Name: "main", Settings: source.Defaults(), Engine: e,
		Save:    func(context.Context, []dlq.Entry) error { return nil },
		Logger:  slog.New(slog.NewTextHandler(t.Output(), nil)),
		Metrics: source.NewMetrics(metrics.NewSet()), Now: func() time.Time { return e.now }})
	require.NoError(t, err)
	return e, series.New(series.Options{Settings: settings, URL: server.URL, Client: server.Client(), Engine: e,
		Units:    func() []series.Unit { return seriesOf(sp.SLOs, settings.Window()) },
		Counters: e.state.Counters, Intake: intake, SizeLimits: event.SizeLimits{AllowedLateness: 24 * time.Hour},
		Until: func(_ context.Context, stream string) (time.Time, error) {
			return e.state.Fold.ObservedUntil(stream), nil
		},
		Longest: func() time.Duration { return 24 * time.Hour }})
}

// TestSeriesAsInRules: what a source makes of the samples of a Prometheus is what the generated rules make of them, in
// windows of five minutes to a day, through an outage, a process that restarts, one that is not scraped for a while,
// and a series that begins with a failure. The bounds are those of docs/prometheus.md.
func TestSeriesAsInRules(t *testing.T) {
	const scrape, eval = 15 * time.Second, 30 * time.Second
	start := oracleStart
	sp := spectest.Spec(t, "web.yaml", seriesSpec)
	groups, err := rules.Recording(spectest.Rules(sp), rules.Options{Scrape: scrape})
	require.NoError(t, err)
	w := rulestest.New(t, start, groups)
	e, from := readSeries(t, sp, w, series.Settings{Interval: eval, Scrape: scrape})

	const outage, long = 3 * time.Hour, 20 * time.Minute
	worst, compared := map[string]float64{}, 0 // in parts of what is allowed
	w.After = func(at time.Time) {
		e.now = at.Add(2 * time.Second)
		from.Round(t.Context())
		_, r := e.take(nil, 0, e.now.Sub(oracleStart))
		age := at.Sub(start)
		if age < 10*time.Minute {
			return
		}
		for i := range r.SLOs {
			x := &r.SLOs[i]
			for _, window := range []time.Duration{5 * time.Minute, 30 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour} {
				b := x.Burn(window)
				got, found := values(w, rules.Options{}.ErrorRatio(x.SLO, window), x.SLO.GroupBy, at)[x.Group.Key()]
				if !found || b == nil || !b.HasData {
					continue
				}
				allowed := 0.001
				switch {
				case window > 6*time.Hour:
					allowed = float64(6*time.Minute) / float64(age) // the rules record it every five minutes
				case x.SLO.Indicator.PromForm() != slo.PromCounters:
					allowed = float64(3*scrape) / float64(window)
				}
				if len(x.Group) > 0 && x.Group[0] == "/new" {
					allowed += 1.5 / float64(b.Counts.Valid()) // the rules do not see the failure that it began with
				}
				compared++
				far := math.Abs(got - b.Rate*x.SLO.Objective.Budget())
				worst[string(x.SLO.ID)] = max(worst[string(x.SLO.ID)], far/allowed)
				if far > allowed {
					t.Errorf("%s %s over %s at %s: %v, and %v by the rules", x.SLO.ID, x.Group, window, age,
						b.Rate*x.SLO.Objective.Budget(), got)
				}
			}
		}
	}
	counts := map[string]float64{}
	w.Run(start.Add(7*time.Hour), scrape, func(at time.Time, add func(string, float64)) {
		since := at.Sub(start)
		for instance, rate := range map[string]float64{"a": 30, "b": 10} {
			if instance == "b" && since == 4*time.Hour {
				for name := range counts {
					if strings.Contains(name, `instance="b"`) {
						counts[name] = 0 // it began again
					}
				}
			}
			share := 0.06 / rate
			if since > outage && since <= outage+long {
				share = 0.5
			}
			n := rate * scrape.Seconds()
			for name, more := range map[string]float64{`requests_total{code="200",route="/"`: n * (1 - share),
				`requests_total{code="500",route="/"`: n * share, `took_count{`: n, `took_bucket{le="0.5"`: n * (1 - share)} {
				name = strings.Replace(name+`,job="web",instance="`+instance+`"}`, "{,", "{", 1)
				counts[name] += more
				if instance == "b" && since > 5*time.Hour && since < 5*time.Hour+10*time.Minute {
					continue // nobody scrapes it
				}
				add(name, math.Floor(counts[name]))
			}
		}
		if since > 2*time.Hour { // a series that begins with a failure
			add(`requests_total{code="500",route="/new",job="web",instance="a"}`, 1+math.Floor((since-2*time.Hour).Minutes()))
			add(`requests_total{code="200",route="/new",job="web",instance="a"}`, math.Floor(9*(since-2*time.Hour).Minutes()))
		}
		depth := 2.0
		if since > outage && since <= outage+long {
			depth = 7
		}
		add(`depth{job="web",instance="a"}`, depth)
	})
	t.Logf("%d compared, furthest apart, in parts of what is allowed: %v", compared, worst)
	require.Greater(t, compared, 20_000)
}

// TestNativeHistograms: a latency of a native histogram counts at a threshold between its bounds.
func TestNativeHistograms(t *testing.T) {
	const scrape = 15 * time.Second
	sp := spectest.Spec(t, "web.yaml", `
version: sloengine/v1
service: web
slos:
  - name: latency
    objective: 99
    window: 1d
    indicator:
      prometheus:
        total_query: histogram_count(sum(rate(took[$window])))
        good_query: histogram_count(sum(rate(took[$window]))) * histogram_fraction(0, 0.4, sum(rate(took[$window])))
`)
	w := rulestest.New(t, oracleStart, nil)
	e, from := readSeries(t, sp, w, series.Settings{Interval: 2 * scrape, Scrape: scrape})
	for at := time.Duration(0); at <= 10*time.Minute; at += scrape {
		w.Histogram(`took{job="web"}`, oracleStart.Add(at), 9*at.Seconds(), at.Seconds())
		e.now = oracleStart.Add(at + 2*time.Second)
		from.Round(t.Context())
	}
	_, r := e.take(nil, 0, 10*time.Minute+3*time.Second)
	require.Len(t, r.SLOs, 1)
	b := r.SLOs[0].Burn(5 * time.Minute)
	require.InDelta(t, 10*300, b.Counts.Valid(), 10*30+1, "up to a slice")
	require.InDelta(t, 0.1, float64(b.Counts.Bad)/float64(b.Counts.Valid()), 0.002)
}
