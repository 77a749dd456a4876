package series

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/counter"
	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/source"
	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/reliability/ratelimit"
)

var began = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// scraped is a Prometheus with samples that a test gives it.
type scraped struct {
	t       *testing.T
	series  map[string][]point // by selector of one series, or by query and series
	answer  func(http.ResponseWriter) bool
	queries int
}

func (s *scraped) add(series string, at time.Time, n float64) {
	s.series[series] = append(s.series[series], point{at: at.UnixNano(), n: n})
}

func (s *scraped) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.queries++
	if s.answer != nil && s.answer(w) {
		return
	}
	if strings.HasSuffix(r.URL.Path, "/query_range") {
		s.evaluate(w, r)
		return
	}
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(r.FormValue("query"))
	require.NoError(s.t, err)
	matrix := expr.(*parser.MatrixSelector)
	at, err := strconv.ParseFloat(r.FormValue("time"), 64)
	require.NoError(s.t, err)
	to := time.UnixMilli(int64(at * 1e3))
	result := []answered{}
	for text, points := range s.series {
		if strings.Contains(text, " => ") {
			continue // it is of a query
		}
		of, err := parser.NewParser(parser.Options{}).ParseMetric(text)
		require.NoError(s.t, err)
		matches := true
		for _, m := range matrix.VectorSelector.(*parser.VectorSelector).LabelMatchers {
			matches = matches && m.Matches(of.Get(m.Name))
		}
		out := answered{Metric: map[string]string{}}
		of.Range(func(l labels.Label) { out.Metric[l.Name] = l.Value })
		for _, p := range points {
			if ts := time.Unix(0, p.at); ts.After(to.Add(-matrix.Range)) && !ts.After(to) && matches {
				out.Values = append(out.Values, [2]any{float64(ts.UnixMilli()) / 1e3, strconv.FormatFloat(p.n, 'g', -1, 64)})
			}
		}
		if len(out.Values) > 0 {
			result = append(result, out)
		}
	}
	s.matrix(w, result)
}

type answered struct {
	Metric map[string]string `json:"metric"`
	Values [][2]any          `json:"values"`
}

func (s *scraped) matrix(w http.ResponseWriter, result []answered) {
	require.NoError(s.t, json.NewEncoder(w).Encode(map[string]any{"status": "success",
		"data": map[string]any{"resultType": "matrix", "result": result}}))
}

// store is an engine that keeps sums of events, and what was observed.
type store struct {
	counters *counter.Table
	sums     map[string]int // by type, group and outcome
	times    map[int64]int
	// backfilled is how many events count for no alert.
	backfilled int
	seen       []counter.Observation
	err        error
	lost       error    // of AdmitAt, which stored the batch all the same
	stalled    error    // of CatchUp, while the log is not read
	log        [][]byte // positions that were not read yet
}

func (s *store) AdmitAt(_ context.Context, b *event.Batch, _ *ratelimit.Tickets, _ []int32,
	at engine.Position) (engine.Result, error) {
	if s.err != nil {
		return engine.Result{}, s.err
	}
	for i := range b.Events {
		var v event.View
		if _, err := v.Parse(b.Event(i)); err != nil {
			return engine.Result{}, err
		}
		key := string(v.Service) + "/" + string(v.Type)
		for name, value := range v.Attrs {
			key += " " + string(name) + "=" + string(value)
		}
		s.sums[key+" "+v.Outcome.String()] += int(v.Count)
		if b.Backfill {
			s.backfilled++
		}
		s.times[v.Time/int64(time.Second)-began.Unix()] += int(v.Count)
	}
	s.log = append(s.log, at.AppendPosition(nil, nil))
	return engine.Result{Accepted: len(b.Events)}, s.lost
}

func (s *store) CatchUp(context.Context) error {
	if s.stalled != nil {
		return s.stalled
	}
	for _, position := range s.log {
		seen, err := s.counters.Apply(position)
		if err != nil {
			return err
		}
		s.seen = append(s.seen, seen...)
	}
	s.log = s.log[:0]
	return nil
}

func (s *store) until(_ context.Context, stream string) (out time.Time, err error) {
	for _, o := range s.seen {
		if to := time.Unix(0, o.To); o.Source == stream && to.After(out) {
			out = to
		}
	}
	return out, nil
}

type rig struct {
	prometheus *scraped
	store      *store
	source     *Source
	now        time.Time
	log        bytes.Buffer
	set        *metrics.Set
	open       func() *Source
}

func newRig(t *testing.T, settings Settings, units ...Unit) *rig {
	r := &rig{prometheus: &scraped{t: t, series: map[string][]point{}}, now: began,
		set: metrics.NewSet(), store: &store{counters: counter.NewTable(), sums: map[string]int{}, times: map[int64]int{}}}
	server := httptest.NewServer(r.prometheus)
	t.Cleanup(server.Close)
	intake, err := source.New(source.Options{Name: "main", Settings: source.Defaults(), Engine: r.store,
		Save: func(context.Context, []dlq.Entry) error { return nil }, Logger: slog.New(slog.NewTextHandler(&r.log, nil)),
		Metrics: source.NewMetrics(r.set), Now: func() time.Time { return r.now }})
	require.NoError(t, err)
	r.open = func() *Source {
		return New(Options{Settings: settings, URL: server.URL + "/", Client: server.Client(), Engine: r.store,
			Units: func() []Unit { return units }, Counters: r.store.counters, Until: r.store.until, Intake: intake,
			SizeLimits: event.SizeLimits{AllowedLateness: 24 * time.Hour},
			Longest:    func() time.Duration { return 30 * 24 * time.Hour }})
	}
	r.source = r.open()
	return r
}

// pass scrapes and reads.
func (r *rig) round(t *testing.T, seconds int) {
	r.now = began.Add(time.Duration(seconds) * time.Second)
	r.source.Round(t.Context())
}

func at(seconds int) time.Time { return began.Add(time.Duration(seconds) * time.Second) }

var (
	quick     = Settings{Interval: 15 * time.Second, Scrape: 15 * time.Second}
	errors500 = Unit{Stream: "main 1", Total: `requests_total{job="web"}`, Part: `requests_total{job="web",code=~"5.."}`,
		SLOs: []SLO{{Service: "shop~prometheus", Type: "availability", GroupBy: []string{"route"},
			Attributes: []string{"route"}}}}
)

// The bucket of all durations is of the metric of the others, and holds none of their series.
func TestBucketsOfOneHistogram(t *testing.T) {
	u := errors500
	u.Total, u.Part, u.Good = `took_bucket{job="web",le="+Inf"}`, `took_bucket{job="web",le="0.5"}`, true
	r := newRig(t, quick, u)
	for i := range 3 {
		r.prometheus.add(`took_bucket{job="web",route="/",le="+Inf"}`, at(15*i), float64(10*i))
		r.prometheus.add(`took_bucket{job="web",route="/",le="0.5"}`, at(15*i), float64(9*i))
		r.round(t, 15*i+4)
	}
	require.Equal(t, map[string]int{"shop~prometheus/availability route=/ success": 18,
		"shop~prometheus/availability route=/ failure": 2}, r.store.sums)
}

func TestPartsInsideATotal(t *testing.T) {
	for _, tt := range []struct {
		total, part string
		inside      bool
	}{
		{`a`, `a{code="500"}`, true},
		{`{__name__="a"}`, `a{code="500"}`, true},
		{`a{job=~"b|c"}`, `a{job=~"b|c",code=~"5.."}`, true},
		{`a{job=~"b|c"}`, `a{job="b",code=~"5.."}`, true},
		{`a{code!="404"}`, `a{code="500"}`, true},
		{`a{code!="404"}`, `a{code=~"4.."}`, false},
		{`a{job="b"}`, `a{code=~"5.."}`, false},
		{`a{le="+Inf"}`, `a{le="1"}`, false},
		{`a`, `b`, false},
		{`{job="b"}`, `{job="b",code="500"}`, false},
	} {
		p, err := newPlan(Unit{Total: tt.total, Part: tt.part}, 0, nil)
		require.NoError(t, err)
		require.Equal(t, tt.inside, p.inside, "%s %s", tt.total, tt.part)
	}
}

func TestCounters(t *testing.T) {
	r := newRig(t, quick, errors500)
	good, bad := `requests_total{job="web",instance="a",route="/",code="200"}`,
		`requests_total{job="web",instance="a",route="/",code="500"}`
	r.prometheus.add(good, at(0), 1e9)
	r.round(t, 4)
	require.Empty(t, r.store.sums, "where counting begins")
	r.prometheus.add(good, at(15), 1e9+7)
	r.prometheus.add(bad, at(15), 2)
	r.round(t, 19)
	r.prometheus.add(good, at(30), 3) // it began again
	r.prometheus.add(bad, at(30), 2)
	r.prometheus.add(`requests_total{job="other",route="/",code="200"}`, at(30), 1e9)
	r.round(t, 34)
	r.round(t, 49)
	require.Equal(t, map[string]int{"shop~prometheus/availability route=/ success": 10,
		"shop~prometheus/availability route=/ failure": 2}, r.store.sums)
	require.Equal(t, map[int64]int{10: 9, 30: 3}, r.store.times, "in steps of ten seconds")
	var from int64
	for _, o := range r.store.seen {
		require.Equal(t, "main 1", o.Source)
		require.True(t, from == 0 || o.From == from, "without a gap")
		from = o.To
	}
	require.Equal(t, at(47).UnixNano(), from)
	p := r.source.Progress()[0]
	require.Equal(t, Found{Beginnings: 1, NewSeries: 1, First: 2, Resets: 1, AfterReset: 3}, p.Found)
	require.Equal(t, at(47), p.Until.UTC())
}

// A Prometheus with created-timestamp-zero-ingestion adds a sample of zero where a counter began, so that all of it
// counts, also of a process that was not there before.
func TestZeroSample(t *testing.T) {
	r := newRig(t, quick, errors500)
	for i := range 4 {
		r.prometheus.add(`requests_total{job="web",instance="a",route="/"}`, at(15*i), 1e9)
		if i == 3 {
			r.prometheus.add(`requests_total{job="web",instance="b",route="/"}`, at(38), 0)
			r.prometheus.add(`requests_total{job="web",instance="b",route="/"}`, at(45), 7)
			r.prometheus.add(`requests_total{job="web",instance="c",route="/"}`, at(45), 7)
		}
		r.round(t, 15*i+4)
	}
	require.Equal(t, map[string]int{"shop~prometheus/availability route=/ success": 7}, r.store.sums)
}

// What was added during a gap counts in its middle, where no window of now sees it.
func TestGap(t *testing.T) {
	r := newRig(t, quick, errors500)
	series := `requests_total{job="web",route="/"}`
	r.prometheus.add(series, at(0), 5)
	r.round(t, 4)
	r.prometheus.add(series, at(3600), 105)
	r.round(t, 3604)
	require.Equal(t, map[int64]int{1800: 100}, r.store.times)
	require.Equal(t, 1, r.store.backfilled, "no alert goes by it")
	seen := r.store.seen[len(r.store.seen)-1]
	require.InDelta(t, 3600, time.Unix(0, seen.From).Sub(began).Seconds(), 15, "the gap is not observed")
	require.Equal(t, at(3602).UnixNano(), seen.To)
	r.prometheus.add(series, at(3615), 107)
	r.prometheus.add(series, at(3900), 110)
	r.prometheus.add(series, at(3915), 111)
	r.prometheus.add(series, at(4000), 121)
	r.prometheus.add(series, at(4015), 122)
	r.round(t, 4019)
	require.Equal(t, map[int64]int{1800: 100, 3610: 2, 3750: 3, 3910: 1, 3950: 10, 4010: 1}, r.store.times)
	require.Equal(t, 3, r.store.backfilled)
	require.Equal(t, Found{Beginnings: 1, Gaps: 3, InGaps: 113}, r.source.Progress()[0].Found)
}

// What a counter adds that did nothing for long counts when it was added, also after a start.
func TestIdleCounter(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		r := newRig(t, quick, errors500)
		for i := range 100 {
			r.prometheus.add(`requests_total{job="web",route="/",code="200"}`, at(15*i), float64(i))
			r.prometheus.add(`requests_total{job="web",route="/",code="500"}`, at(15*i), float64(5+i/99*7))
			if restarted {
				table := counter.NewTable()
				require.NoError(t, table.Restore(r.store.counters.Encode(nil)))
				r.store.counters = table
				r.source = r.open()
			}
			r.round(t, 15*i+4)
		}
		require.Equal(t, 8, r.store.times[1480], "%v", r.store.times)
	}
}

// A counter that goes on under other labels counts nothing that it counted before, beside others that go on.
func TestRelabelledCounter(t *testing.T) {
	r := newRig(t, quick, errors500)
	for i := range 8 {
		zone := ""
		if i >= 4 {
			zone = `,zone="a"`
		}
		r.prometheus.add(`requests_total{job="web",route="/",code="200"`+zone+`}`, at(15*i), 1e6+float64(10*i))
		r.prometheus.add(`requests_total{job="web",route="/",code="404"}`, at(15*i), 3)
		r.prometheus.add(`requests_total{job="web",route="/",code="204"}`, at(15*i), 1e9)
		r.round(t, 15*i+4)
	}
	require.Equal(t, map[string]int{"shop~prometheus/availability route=/ success": 60}, r.store.sums)
}

// A latency of two metrics: all requests, and those up to a bound.
func TestGoodOfTwoMetrics(t *testing.T) {
	r := newRig(t, quick, Unit{Stream: "main 2", Total: `d_count`, Part: `d_bucket{le="0.4"}`, Good: true,
		SLOs: []SLO{{Service: "shop~prometheus", Type: "latency"}}})
	for i := range 3 {
		r.prometheus.add(`d_count{instance="a"}`, at(15*i), float64(10*i))
		r.prometheus.add(`d_bucket{instance="a",le="0.4"}`, at(15*i), float64(9*i))
		r.prometheus.add(`d_bucket{instance="a",le="1"}`, at(15*i), float64(10*i))
		r.round(t, 15*i+4)
	}
	require.Equal(t, map[string]int{"shop~prometheus/latency success": 18, "shop~prometheus/latency failure": 2},
		r.store.sums)
	r.prometheus.add(`d_count{instance="a"}`, at(45), 21)
	r.prometheus.add(`d_bucket{instance="a",le="0.4"}`, at(45), 30)
	r.round(t, 49)
	require.Equal(t, 19, r.store.sums["shop~prometheus/latency success"], "there are not more good ones than all")
	found := r.source.Progress()[0].Found
	require.Equal(t, Found{Beginnings: 2, Cut: 11, CutAt: at(40)}, found)
	var out bytes.Buffer
	r.set.WritePrometheus(&out)
	require.Contains(t, out.String(), `sloengine_source_cut_events_total{source="main"} 11`)
}

// Thirty days are read at once and then go on, with the same sums whenever the source is stopped in between.
func TestHistory(t *testing.T) {
	history := quick
	history.Scrape, history.History = time.Minute, 20*24*time.Hour
	random := rand.New(rand.NewPCG(1, 1))
	truth := [2]int{}
	fill := func(r *rig) {
		truth = [2]int{}
		var sums [2]float64
		for minute := -30 * 24 * 60; minute < 10; minute += 5 {
			if minute == -9*24*60 {
				sums = [2]float64{}
			}
			add := [2]int{random.IntN(50), random.IntN(3)}
			for i, code := range []string{"200", "500"} {
				sums[i] += float64(add[i])
				r.prometheus.add(`requests_total{job="web",route="/",code="`+code+`"}`, at(60*minute), sums[i])
				if minute > -20*24*60 {
					truth[i] += add[i]
				}
			}
		}
	}
	r := newRig(t, history, errors500)
	fill(r)
	for stop := range 8 {
		if r.store.err = nil; stop < 5 {
			left := 40
			r.prometheus.answer = func(w http.ResponseWriter) bool {
				if left--; left > 0 {
					return false
				}
				w.WriteHeader(http.StatusServiceUnavailable)
				return true
			}
		} else {
			r.prometheus.answer = nil
		}
		r.source = r.open()
		r.round(t, 60*stop)
	}
	r.round(t, 700)
	require.Equal(t, map[string]int{"shop~prometheus/availability route=/ success": truth[0],
		"shop~prometheus/availability route=/ failure": truth[1]}, r.store.sums)
	require.Equal(t, at(-20*24*3600-2).UnixNano(), r.store.seen[0].From)
}

// Whatever is wrong with an answer is said once, and nothing is counted or left out.
func TestFailures(t *testing.T) {
	series := `requests_total{job="web",route="/"}`
	status := func(code int, body string) func(http.ResponseWriter) bool {
		return func(w http.ResponseWriter) bool {
			w.WriteHeader(code)
			fmt.Fprint(w, body)
			return true
		}
	}
	matrix := func(values string) string {
		return `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"__name__":"requests_total",` +
			`"job":"web"},"values":[` + values + `]}]}}`
	}
	for name, tt := range map[string]struct {
		answer func(http.ResponseWriter) bool
		kind   source.Kind
		want   string
	}{
		"no access": {status(401, "who are you"), source.TroubleCredentials, "status 401: who are you"},
		"no query": {status(400, `{"status":"error","error":"parse error"}`), source.TroubleTopic,
			"status 400: parse error"},
		"no answer": {status(503, "busy"), source.TroubleConnection, "status 503: busy"},
		"no JSON":   {status(200, "<html>"), source.TroubleConnection, "status 200: <html>"},
		"another result": {status(200, `{"status":"success","data":{"resultType":"scalar"}}`),
			source.TroubleConnection, "is a scalar"},
		"no sample":    {status(200, matrix(`["x","1"]`)), source.TroubleConnection, "is not a time and a number"},
		"a far sample": {status(200, matrix(`[1e12,"1"]`)), source.TroubleConnection, "is not a time and a number"},
		"nothing":      {status(200, matrix(``)), source.TroubleTopic, "no series of requests_total"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, quick, errors500)
			r.prometheus.add(series, at(0), 5)
			r.round(t, 4)
			r.prometheus.add(series, at(15), 8)
			r.prometheus.answer = tt.answer
			r.round(t, 19)
			r.round(t, 24)
			troubles := r.source.o.Intake.Troubles()
			require.Len(t, troubles, 1)
			require.Equal(t, tt.kind, troubles[0].Kind)
			require.Contains(t, troubles[0].Reason, tt.want)
			r.prometheus.answer = nil
			r.round(t, 34)
			require.Empty(t, r.source.o.Intake.Troubles())
			require.Equal(t, map[string]int{"shop~prometheus/availability route=/ success": 3}, r.store.sums)
			require.Equal(t, 1, strings.Count(r.log.String(), "source fails"), r.log.String())
			require.Equal(t, 1, strings.Count(r.log.String(), "source works again"), r.log.String())
		})
	}
	r := newRig(t, quick, errors500)
	r.prometheus.add(series, at(0), 5)
	r.store.err = engine.ErrDiskFull
	r.round(t, 4)
	require.Equal(t, source.TroubleEngine, r.source.o.Intake.Troubles()[0].Kind)
	r.store.err = nil
	r.round(t, 9)
	require.Empty(t, r.source.o.Intake.Troubles())
}

// A batch whose outcome its source does not know is in the log, or not, and is not in the table yet. What it says
// counts once, whether the next round is of the same process or not.
func TestUnknownOutcome(t *testing.T) {
	for name, fail := range map[string]func(*store, error){
		"it is not stored":             func(s *store, err error) { s.err = err },
		"it is stored, without answer": func(s *store, err error) { s.lost = err },
		"it is stored and not read":    func(s *store, err error) { s.stalled = err },
	} {
		for _, again := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, again=%v", name, again), func(t *testing.T) {
				r := newRig(t, quick, errors500)
				total := 0
				scrape := func(i, add int) {
					total += add
					r.prometheus.add(`requests_total{job="web",route="/",code="200"}`, at(15*i), float64(total))
					r.prometheus.add(`requests_total{job="web",route="/",code="500"}`, at(15*i), float64(total))
					r.round(t, 15*i+4)
				}
				scrape(0, 0)
				scrape(1, 10)
				fail(r.store, context.DeadlineExceeded)
				scrape(2, 20)
				require.NotEmpty(t, r.source.o.Intake.Troubles())
				scrape(3, 40)
				fail(r.store, nil)
				if again {
					r.source = r.open()
				}
				scrape(4, 80)
				scrape(5, 160)
				require.Empty(t, r.source.o.Intake.Troubles())
				require.Equal(t, map[string]int{"shop~prometheus/availability route=/ success": 310,
					"shop~prometheus/availability route=/ failure": 310}, r.store.sums)
			})
		}
	}
}

// Series are the same in whatever order their labels are told, and hostile labels are only text.
func TestHostileSeries(t *testing.T) {
	r := newRig(t, quick, errors500)
	values := map[float64]string{0: "NaN", 1: "-5", 2: "+Inf", 3: "1e300"}
	for i := range 4 {
		r.prometheus.answer = func(w http.ResponseWriter) bool {
			fmt.Fprintf(w, `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"route":"\"}\u0000\n%s"},`+
				`"values":[[%d,"%s"],[%d,"%d"]]}]}}`, strings.Repeat("x", 5000), at(15*i).Unix(), values[float64(i)],
				at(15*i+1).Unix(), 10*i)
			return true
		}
		r.round(t, 15*i+4)
	}
	for key := range r.store.sums {
		require.Contains(t, key, "\"}\x00\n")
	}
}

// A counter that leaps as none does is told, and holds up neither the source nor its memory.
func TestCounterThatLeaps(t *testing.T) {
	r := newRig(t, quick, errors500)
	series := `requests_total{job="web",route="/"}`
	for i, n := range []float64{5, 8, 9e18, 9e18 + 4096} {
		r.prometheus.add(series, at(15*i), n)
		r.round(t, 15*i+4)
		if i == 2 {
			require.Contains(t, r.source.o.Intake.Troubles()[0].Reason, "more than 1099511627776 are not counted")
		}
	}
	require.Empty(t, r.source.o.Intake.Troubles())
	require.Equal(t, map[string]int{"shop~prometheus/availability route=/ success": 3 + 4096}, r.store.sums)
}

func TestSelectorsThatCannotBeRead(t *testing.T) {
	r := newRig(t, quick, Unit{Stream: "x", Total: "sum(", Part: "y"})
	r.round(t, 4)
	require.Contains(t, r.source.o.Intake.Troubles()[0].Reason, "selector sum(")
	require.Zero(t, r.prometheus.queries)
}

func TestErrorsHideTheURL(t *testing.T) {
	c := client{url: "http://127.0.0.1:1/secret", http: http.DefaultClient}
	_, err := c.samples(t.Context(), "up", at(0), at(1), nil)
	require.Error(t, err)
	require.NotContains(t, err.Error(), "secret")
	require.False(t, errors.Is(err, errTooLarge))
}

func TestLabels(t *testing.T) {
	of := seriesLabels{{"a", "1"}, {"b", "2"}}
	require.True(t, sort.SliceIsSorted(of, func(i, j int) bool { return of[i].name < of[j].name }))
	require.Equal(t, "2", of.get("b"))
	require.Empty(t, of.get("c"))
}

// The first failure of a target counts, also where it is the first series of its metric.
func TestFirstFailure(t *testing.T) {
	r := newRig(t, quick, Unit{Stream: "main 3", Total: `requests_total`, Part: `errors_total`,
		SLOs: []SLO{{Service: "shop~prometheus", Type: "availability"}}})
	r.prometheus.add(`requests_total{instance="a"}`, at(0), 100)
	r.prometheus.add(`errors_total{instance="b"}`, at(0), 1000)
	r.round(t, 4)
	r.prometheus.add(`requests_total{instance="a"}`, at(15), 110)
	r.prometheus.add(`errors_total{instance="a"}`, at(15), 3)
	r.prometheus.add(`errors_total{instance="b"}`, at(15), 1001)
	r.round(t, 19)
	require.Equal(t, map[string]int{"shop~prometheus/availability success": 6, "shop~prometheus/availability failure": 4},
		r.store.sums)
}

// A series that both selectors find counts for both.
func TestOverlappingSelectors(t *testing.T) {
	r := newRig(t, quick, Unit{Stream: "main 4", Total: `requests_total{code=~"2..|5.."}`,
		Part: `requests_total{code=~"5.*"}`, SLOs: []SLO{{Service: "shop~prometheus", Type: "availability"}}})
	for i := range 3 {
		r.prometheus.add(`requests_total{instance="a",code="200"}`, at(15*i), float64(10*i))
		r.prometheus.add(`requests_total{instance="a",code="500"}`, at(15*i), float64(2*i))
		r.round(t, 15*i+4)
	}
	require.Equal(t, map[string]int{"shop~prometheus/availability success": 20, "shop~prometheus/availability failure": 4},
		r.store.sums)
}

// Two pairs with one counter in common fail apart, and a pair that leaves the spec takes its failure along.
func TestFailuresOfPairs(t *testing.T) {
	missing := errors500
	missing.Stream, missing.Total = "main 9", `missing{job="web"}`
	refused := errors500
	refused.Stream, refused.Total = "main 8", `missing{job="web"}`
	refused.Part = `other{code="500"}`
	r := newRig(t, quick, errors500, missing, refused)
	r.prometheus.add(`requests_total{job="web",route="/"}`, at(0), 5)
	for i := range 3 {
		r.round(t, 4+5*i)
	}
	require.Len(t, r.source.o.Intake.Troubles(), 2)
	require.Equal(t, 2, strings.Count(r.log.String(), "source fails"), r.log.String())
	r.source.o.Units = func() []Unit { return []Unit{errors500} }
	r.round(t, 19)
	require.Empty(t, r.source.o.Intake.Troubles())
}

// A group that no event can have is said, once, until it is gone.
func TestSamplesThatAreLeftOut(t *testing.T) {
	r := newRig(t, quick, errors500)
	long := `requests_total{job="web",route="` + strings.Repeat("x", 5000) + `"}`
	r.prometheus.add(long, at(0), 5)
	r.round(t, 4)
	for i := 1; i < 4; i++ {
		r.prometheus.add(long, at(15*i), float64(5+i))
		r.round(t, 15*i+4)
	}
	troubles := r.source.o.Intake.Troubles()
	require.Len(t, troubles, 1)
	require.Contains(t, troubles[0].Reason, "bad_attribute")
	require.Equal(t, 1, strings.Count(r.log.String(), "source fails"), r.log.String())
	r.prometheus.series = map[string][]point{`requests_total{job="web",route="/"}`: {{at: at(50).UnixNano(), n: 7}}}
	r.round(t, 64)
	require.Empty(t, r.source.o.Intake.Troubles())
}
