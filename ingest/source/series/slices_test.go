package series

import (
	"fmt"
	"maps"
	"math"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/source"
)

// evaluate answers with the points of the series that a test gave to a query, as they are at the steps.
func (s *scraped) evaluate(w http.ResponseWriter, r *http.Request) {
	number := func(name string) int64 {
		x, err := strconv.ParseFloat(r.FormValue(name), 64)
		require.NoError(s.t, err)
		return int64(math.Round(x*1e3)) * 1e6
	}
	from, to, step := number("start"), number("end"), number("step")
	require.LessOrEqual(s.t, (to-from)/step, int64(11_000), "what a Prometheus refuses")
	result := []answered{}
	for text, points := range s.series {
		series, found := strings.CutPrefix(text, r.FormValue("query")+" => ")
		if !found {
			continue
		}
		of, err := parser.NewParser(parser.Options{}).ParseMetric(series)
		require.NoError(s.t, err)
		out := answered{Metric: of.Map()}
		for _, p := range points {
			if p.at >= from && p.at <= to && (p.at-from)%step == 0 {
				out.Values = append(out.Values, [2]any{float64(p.at/1e6) / 1e3, strconv.FormatFloat(p.n, 'g', -1, 64)})
			}
		}
		if len(out.Values) > 0 {
			result = append(result, out)
		}
	}
	s.matrix(w, result)
}

const sliceEvery = 30 * time.Second

func gauge() Unit {
	return Unit{Stream: "main 1", Form: Gauge, Total: `depth`, Every: sliceEvery,
		Holds: func(x float64) bool { return x <= 5 },
		SLOs: []SLO{{ID: "shop/queue", Service: "shop~prometheus", Type: "queue", GroupBy: []string{"q"},
			Attributes: []string{"q"}}}}
}

// Each slice with a sample is good or bad, once, and a time without samples is not observed.
func TestGauge(t *testing.T) {
	r := newRig(t, quick, gauge())
	for i := 1; i <= 100; i++ {
		if i > 40 && i <= 70 {
			continue
		}
		x := 5.0
		if i > 80 {
			x = 6
		}
		r.prometheus.add(`depth => {q="a"}`, at(30*i), x)
		if i > 10 {
			r.prometheus.add(`depth => {q="b"}`, at(30*i), math.NaN())
		}
	}
	for second := 33; second < 3000; second += 30 {
		if second%7 == 0 {
			r.source = r.open()
		}
		r.round(t, second)
	}
	r.round(t, 3010)
	require.Equal(t, map[string]int{"shop~prometheus/queue q=a success": 50, "shop~prometheus/queue q=a failure": 20,
		"shop~prometheus/queue q=b failure": 60}, r.store.sums)
	seen := map[int64]int64{} // end of a run by its begin
	for _, o := range r.store.seen {
		for from, to := range seen {
			if to == o.From {
				seen[from] = o.To
				o.To = o.From
			}
		}
		if o.To > o.From+1 {
			seen[o.From] = o.To
		}
	}
	require.Equal(t, map[int64]int64{at(0).UnixNano(): at(1200).UnixNano(), at(2100).UnixNano(): at(3000).UnixNano()},
		seen)
	require.Equal(t, 1, strings.Count(r.log.String(), "source fails"), r.log.String())
	require.Contains(t, r.log.String(), "name=shop/queue")
}

// A ratio counts as parts of a slice, and events of queries as many as they say, in history as now, with the same sums
// whenever the source is stopped.
func TestRatesAndRatios(t *testing.T) {
	ratio := Unit{Stream: "main 1", Form: Ratio, Part: `bad / all`, Every: sliceEvery,
		SLOs: []SLO{{ID: "shop/ratio", Service: "shop~prometheus", Type: "ratio"}}}
	rates := Unit{Stream: "main 2", Form: Rates, Total: `sum(rate(all[45s]))`, Part: `sum(rate(good[45s]))`, Good: true,
		Every: sliceEvery,
		SLOs:  []SLO{{ID: "shop/rates", Service: "shop~prometheus", Type: "rates"}}}
	increases := rates
	increases.Stream, increases.Total, increases.Part = "main 3", `sum(increase(all[45s]))`, `sum(increase(good[45s]))`
	increases.SLOs = []SLO{{ID: "shop/increases", Service: "shop~prometheus", Type: "increases"}}
	unknown := rates
	unknown.Stream, unknown.Total, unknown.Part = "main 4", `all:rate5m`, `good:rate5m`
	unknown.SLOs = []SLO{{ID: "shop/unknown", Service: "shop~prometheus", Type: "unknown"}}
	history := quick
	history.History = 10 * 24 * time.Hour
	sums := func(kill bool) map[string]int {
		r := newRig(t, history, ratio, rates, increases, unknown)
		for i := -9 * 24 * 120; i <= 20; i++ {
			r.prometheus.add(`bad / all => {}`, at(30*i), 0.00042)
			r.prometheus.add(`sum(rate(all[45s])) => {}`, at(30*i), 0.1)
			r.prometheus.add(`sum(rate(good[45s])) => {}`, at(30*i), 0.09)
			r.prometheus.add(`sum(increase(all[45s])) => {}`, at(30*i), 4.5)
			r.prometheus.add(`sum(increase(good[45s])) => {}`, at(30*i), 4.05)
			r.prometheus.add(`all:rate5m => {}`, at(30*i), 100)
			r.prometheus.add(`good:rate5m => {}`, at(30*i), 75)
		}
		r.prometheus.add(`bad / all => {}`, at(630), math.NaN())
		for n := 0; n < 40 && kill; n++ {
			left := 50
			r.prometheus.answer = func(w http.ResponseWriter) bool {
				left--
				if left < 0 {
					w.WriteHeader(http.StatusServiceUnavailable)
				}
				return left < 0
			}
			r.source = r.open()
			r.round(t, 4)
		}
		r.prometheus.answer = nil
		for second := 4; second < 700; second += 15 {
			r.round(t, second)
		}
		return r.store.sums
	}
	whole := sums(false)
	slices := 9*24*120 + 21
	require.Equal(t, slices*10_000, whole["shop~prometheus/ratio success"]+whole["shop~prometheus/ratio failure"])
	require.InEpsilon(t, 4.2*float64(slices), whole["shop~prometheus/ratio failure"], 0.01)
	require.InEpsilon(t, 3*slices, whole["shop~prometheus/rates success"]+whole["shop~prometheus/rates failure"], 0.01)
	require.InEpsilon(t, 0.3*float64(slices), whole["shop~prometheus/rates failure"], 0.02)
	require.InEpsilon(t, 3*slices, whole["shop~prometheus/increases success"]+whole["shop~prometheus/increases failure"],
		0.01)
	require.Equal(t, slices*2500, whole["shop~prometheus/unknown failure"])
	require.True(t, maps.Equal(whole, sums(true)), "%v", whole)
}

// A query that the server refuses is told with its SLO, once, and again when it works. It does not hold back others.
func TestRefusedQueries(t *testing.T) {
	heavy, other := gauge(), gauge()
	other.Stream, other.Total, other.SLOs = "main 2", "other", []SLO{{ID: "shop/other", Service: "shop~prometheus",
		Type: "other"}}
	for name, tt := range map[string]struct {
		status int
		body   string
		want   string
	}{
		"refused": {422, `{"status":"error","errorType":"execution","error":"too many samples"}`,
			"status 422: too many samples"},
		"slow": {503, `{"status":"error","errorType":"timeout","error":"query timed out"}`, "status 503: query timed out"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, quick, heavy, other)
			for i := range 10 {
				r.prometheus.add(`depth => {}`, at(30*i), 1)
				r.prometheus.add(`other => {}`, at(30*i), 1)
			}
			asked := 0
			r.prometheus.answer = func(w http.ResponseWriter) bool {
				if asked++; asked%2 == 0 {
					return false
				}
				w.WriteHeader(tt.status)
				fmt.Fprint(w, tt.body)
				return true
			}
			r.round(t, 34)
			r.round(t, 64)
			troubles := r.source.o.Intake.Troubles()
			require.Len(t, troubles, 1)
			require.Equal(t, source.TroubleTopic, troubles[0].Kind)
			require.Equal(t, "shop/queue", troubles[0].Name)
			require.Equal(t, tt.want, troubles[0].Reason)
			require.Equal(t, 2, r.store.sums["shop~prometheus/other success"])
			r.prometheus.answer = nil
			r.round(t, 94)
			require.Empty(t, r.source.o.Intake.Troubles())
			require.Equal(t, map[string]int{"shop~prometheus/queue q= success": 1, "shop~prometheus/other success": 3},
				r.store.sums)
			require.Equal(t, 1, strings.Count(r.log.String(), "source works again"), r.log.String())
		})
	}
}

// A query without a sum is refused before it fills memory and log.
func TestTooManyResults(t *testing.T) {
	r := newRig(t, quick, gauge())
	for i := range maxResults + 1 {
		r.prometheus.add(fmt.Sprintf(`depth => {q="%d"}`, i), at(30), 1)
	}
	r.round(t, 34)
	require.Contains(t, r.source.o.Intake.Troubles()[0].Reason, "more than 10000 series")
	require.Empty(t, r.store.sums)
}

func TestEvery(t *testing.T) {
	for _, tt := range [][3]time.Duration{
		{30 * time.Second, 0, 30 * time.Second},
		{time.Second, 0, 10 * time.Second},
		{30 * time.Second, time.Minute, 30 * time.Second},
		{45 * time.Second, time.Minute, 30 * time.Second},
		{30 * time.Second, 10 * time.Second, 10 * time.Second},
		{50 * time.Second, 7 * time.Minute, 420 * time.Second / 10},
	} {
		every := Every(tt[0], tt[1])
		require.Equal(t, tt[2], every, "%s %s", tt[0], tt[1])
	}
	require.EqualValues(t, 5*time.Second, width(step, 15*time.Second))
	require.EqualValues(t, step, width(step, 0))
	require.EqualValues(t, time.Minute, width(oldStep, time.Minute))
	require.EqualValues(t, oldStep, width(oldStep, time.Hour))
}

// Counters of an SLO that judges slices are in the slice of their sample, also in history.
func TestCountersInSlices(t *testing.T) {
	u := errors500
	u.SLOs = []SLO{u.SLOs[0]}
	u.SLOs[0].Slice = time.Minute
	history := quick
	history.History = 2 * 24 * time.Hour
	r := newRig(t, history, u)
	for i := -24 * 2 * 60; i < 0; i++ {
		r.prometheus.add(`requests_total{job="web",route="/"}`, at(60*i), float64(i+5000))
	}
	r.round(t, 4)
	require.Len(t, r.store.times, 24*2*60-1)
}
