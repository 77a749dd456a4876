package promapi

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// made is a Prometheus with samples that a test made, by series: Unix milliseconds and what was counted.
type made struct {
	t      *testing.T
	series map[string][][2]float64
	otherwise,
	refuses bool // increase(): it computes otherwise, or finds too many samples
}

func (m *made) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(r.FormValue("query"))
	require.NoError(m.t, err, r.FormValue("query"))
	answer := func(kind string, result any) {
		require.NoError(m.t, json.NewEncoder(w).Encode(map[string]any{"status": "success",
			"data": map[string]any{"resultType": kind, "result": result}}))
	}
	if sum, ok := expr.(*parser.AggregateExpr); ok {
		if m.refuses {
			w.WriteHeader(http.StatusUnprocessableEntity)
			fmt.Fprint(w, `{"status":"error","error":"query processing would load too many samples into memory"}`)
			return
		}
		matrix := sum.Expr.(*parser.Call).Args[0].(*parser.MatrixSelector)
		to := float64(*matrix.VectorSelector.(*parser.VectorSelector).Timestamp)
		total := 0.0
		for _, samples := range m.of(matrix, to) {
			total += increaseOf(samples, to-float64(matrix.Range.Milliseconds()), to)
		}
		if m.otherwise {
			total *= 0.9
		}
		answer("vector", []any{map[string]any{"metric": map[string]string{}, "value": []any{to / 1e3, fmt.Sprint(total)}}})
		return
	}
	at, err := strconv.ParseFloat(r.FormValue("time"), 64)
	require.NoError(m.t, err)
	result := []any{}
	for text, samples := range m.of(expr.(*parser.MatrixSelector), at*1e3) {
		metric := map[string]string{}
		of, err := parser.NewParser(parser.Options{}).ParseMetric(text)
		require.NoError(m.t, err)
		of.Range(func(l labels.Label) { metric[l.Name] = l.Value })
		var values []any
		for _, s := range samples {
			values = append(values, []any{s[0] / 1e3, fmt.Sprint(s[1])})
		}
		result = append(result, map[string]any{"metric": metric, "values": values})
	}
	answer("matrix", result)
}

// of are the samples of a range vector.
func (m *made) of(matrix *parser.MatrixSelector, to float64) map[string][][2]float64 {
	out := map[string][][2]float64{}
	for text, samples := range m.series {
		of, err := parser.NewParser(parser.Options{}).ParseMetric(text)
		require.NoError(m.t, err)
		matches := true
		for _, x := range matrix.VectorSelector.(*parser.VectorSelector).LabelMatchers {
			matches = matches && x.Matches(of.Get(x.Name))
		}
		for _, s := range samples {
			if matches && s[0] > to-float64(matrix.Range.Milliseconds()) && s[0] <= to {
				out[text] = append(out[text], s)
			}
		}
	}
	return out
}

// increaseOf is increase() of Prometheus 3, by its documentation.
func increaseOf(s [][2]float64, from, to float64) float64 {
	if len(s) < 2 {
		return 0
	}
	last := s[len(s)-1]
	added := last[1] - s[0][1]
	for i := 1; i < len(s); i++ {
		if s[i][1] < s[i-1][1] {
			added += s[i-1][1]
		}
	}
	sampled := last[0] - s[0][0]
	average := sampled / float64(len(s)-1)
	reach := func(apart float64) float64 {
		if apart < average*1.1 {
			return apart
		}
		return average / 2
	}
	before := reach(s[0][0] - from)
	if added > 0 {
		before = min(before, sampled*s[0][1]/added)
	}
	return added * (sampled + before + reach(to-last[0])) / sampled
}

// counted is a service with 2 requests a second, one of ten of which is bad, that is scraped every 15 seconds, and the
// engine that has its events.
type counted struct {
	*made
	r Recount
}

const (
	good = `requests_total{job="web",instance="a",code="200"}`
	bad  = `requests_total{job="web",instance="a",code="500"}`
)

func newCounted(t *testing.T) *counted {
	c := &counted{made: &made{t: t, series: map[string][][2]float64{}}, r: Recount{SLO: "shop/checkout",
		Total: `requests_total{job="web"}`, Bad: `requests_total{job="web",code="500"}`, From: noon,
		To:   noon.Add(2 * time.Hour),
		Step: 5 * time.Minute, MaxSeries: 100, MaxSamples: 1e6, Tolerance: 0.001}}
	for i := -3600 + 7; i < 3*3600; i += 15 {
		c.add(good, i, 1.8*float64(i+4000))
		c.add(bad, i, 0.2*float64(i+4000))
	}
	for range 24 {
		c.r.Engine = append(c.r.Engine, Pair{600, 60})
	}
	return c
}

func (c *counted) add(series string, at int, n float64) {
	c.series[series] = append(c.series[series], [2]float64{float64(noon.Add(time.Duration(at) * time.Second).UnixMilli()),
		n})
}

// change replaces the samples of both series.
func (c *counted) change(each func(at int, n float64) (float64, bool)) {
	for _, series := range []string{good, bad} {
		samples := c.series[series]
		c.series[series] = nil
		for _, s := range samples {
			at := int(s[0]-float64(noon.UnixMilli())) / 1000
			if n, ok := each(at, s[1]); ok {
				c.add(series, at, n)
			}
		}
	}
}

// own is a metric of the engine that rises to n in the window.
func (c *counted) own(series string, n float64) {
	for i := -3600; i < 3*3600; i += 15 {
		c.add(series, i, n*min(max(float64(i-600)/3600, 0), 1))
	}
}

func (c *counted) reconcile() *Reconciled {
	server := httptest.NewServer(c.made)
	defer server.Close()
	u, err := url.Parse(server.URL)
	require.NoError(c.t, err)
	client := &Client{URL: u}
	require.NoError(c.t, client.OwnCounters(c.t.Context(), &c.r, `job="sloengine"`))
	got, err := c.r.Reconcile(c.t.Context(), Counters{client, c.r.Total, c.r.Bad + c.r.Good})
	require.NoError(c.t, err)
	sum := got.Unexplained
	for _, x := range got.Causes {
		sum = Pair{sum.Valid + x.Valid, sum.Bad + x.Bad}
	}
	require.InDelta(c.t, got.Difference.Valid, sum.Valid, 1e-6, got.Text())
	require.InDelta(c.t, got.Difference.Bad, sum.Bad, 1e-6, got.Text())
	_, err = json.Marshal(got)
	require.NoError(c.t, err)
	return got
}

func (r *Reconciled) of(t *testing.T, cause string) Cause {
	for _, c := range r.Causes {
		if c.Cause == cause {
			return c
		}
	}
	t.Fatalf("no cause %s in\n%s", cause, r.Text())
	return Cause{}
}

// planted are causes for numbers to differ, with what each does to the valid and bad events, and how exactly that is
// found.
var planted = []struct {
	name   string
	plant  func(*counted)
	is     Pair
	within float64
}{
	{"scrape gaps", func(c *counted) { // 607 s of it are in the window, at 2 a second
		c.change(func(at int, n float64) (float64, bool) { return n, at < -300 || at >= 600 })
	}, Pair{1214, 121.4}, 0},
	{"first values", func(c *counted) {
		for i := 1807; i < 3*3600; i += 15 {
			c.add(`requests_total{job="web",instance="a",code="503"}`, i, 25+float64(i-1807)/15)
		}
		c.r.Total, c.r.Bad = `requests_total{job="web"}`, `requests_total{job="web",code=~"5.."}`
		c.at(1807, Pair{25, 25}, 1)
		for i := 1822; i < 7200; i += 15 { // as many as are added until the window ends, 8 s after the last sample
			c.at(i, Pair{1, 1}, 1)
		}
		c.at(7199, Pair{8 / 15., 8 / 15.}, 1)
	}, Pair{25, 25}, 1e-6},
	{"counter resets", func(c *counted) { // at second 3610, 3 s after a sample: 6 are lost
		c.change(func(at int, n float64) (float64, bool) {
			if at > 3610 {
				return n * float64(at-3610) / float64(at+4000), true
			}
			return n, true
		})
	}, Pair{6, 0.6}, 1},
	{"not observed", func(c *counted) {
		c.r.Engine[3], c.r.Engine[4], c.r.Engine[5] = Pair{}, Pair{}, Pair{300, 30}
	}, Pair{-1500, -150}, 1e-6},
	{"duplicates", func(c *counted) {
		c.own(`sloengine_ingest_events_total{job="sloengine",result="duplicate"}`, 30)
		c.own(`sloengine_source_events_total{job="sloengine",source="k",result="duplicate"}`, 10)
		c.own(`sloengine_ingest_events_total{job="another",result="duplicate"}`, 1e6)
		c.at(4000, Pair{40, 4}, -1)
	}, Pair{-40, -4}, 1e-6},
	{"rejected", func(c *counted) {
		c.own(`sloengine_ingest_events_total{job="sloengine",result="rejected"}`, 70)
		c.at(4000, Pair{70, 7}, -1)
	}, Pair{-70, -7}, 1e-6},
	{"over a limit", func(c *counted) {
		c.own(`sloengine_ingest_events_total{job="sloengine",result="limited"}`, 90)
		c.at(4000, Pair{90, 9}, -1)
	}, Pair{-90, -9}, 1e-6},
	{"backfilled", func(c *counted) {
		c.r.Known.Backfilled = 500
		c.at(4000, Pair{500, 50}, 1)
	}, Pair{500, 50}, 1e-6},
	{"late", func(c *counted) {
		c.own(`sloengine_fold_late_events_total{job="sloengine"}`, 35)
		c.at(10, Pair{35, 3}, -1) // of before the window
	}, Pair{-35, -3}, 1e-6},
	{"sampling", func(c *counted) {
		c.own(`sloengine_ratelimit_sampled_total{job="sloengine",kept="false"}`, 20)
		c.at(4000, Pair{20, 2}, 1)
	}, Pair{20, 2}, 1e-6},
}

// at adds to what the engine counted.
func (c *counted) at(second int, n Pair, times float64) {
	e := &c.r.Engine[second/300]
	e.Valid, e.Bad = e.Valid+times*n.Valid, e.Bad+times*n.Bad
}

// Each cause is found with its number when it is alone. What remains is what increase() extrapolates.
func TestReconcileCausesAlone(t *testing.T) {
	edges := newCounted(t).reconcile()
	require.True(t, edges.Explained)
	require.Equal(t, Pair{14400, 1440}, edges.Engine)
	require.InDelta(t, 14400, edges.Increase.Valid, 1e-6)
	require.InDelta(t, 14370, edges.Raw.Valid, 1e-6)
	require.Equal(t, Pair{}, edges.Unexplained)
	for _, tt := range planted {
		t.Run(tt.name, func(t *testing.T) {
			c := newCounted(t)
			tt.plant(c)
			got := c.reconcile()
			is := got.of(t, tt.name)
			require.InDelta(t, tt.is.Valid, is.Valid, tt.within+1e-6, got.Text())
			require.InDelta(t, tt.is.Bad, is.Bad, tt.within+1e-6, got.Text())
			require.InDelta(t, 0, got.Unexplained.Valid, tt.within+1e-6, got.Text())
			require.True(t, got.Explained)
			for _, other := range got.Causes {
				if other.Cause != tt.name && other.Cause != "window edges" {
					require.InDelta(t, 0, other.Valid, 1e-6, got.Text())
				}
			}
			if tt.name != "scrape gaps" {
				require.InDelta(t, 0, got.of(t, "window edges").Valid, 0.6, got.Text())
			}
		})
	}
}

// All at once, each is found as when it is alone, but that events which the engine has more or less for reasons of its
// own make up for each other: their sum is exact.
func TestReconcileAllCauses(t *testing.T) {
	c := newCounted(t)
	for _, tt := range planted {
		tt.plant(c)
	}
	got := c.reconcile()
	require.True(t, got.Explained, got.Text())
	var own, want Pair
	for _, tt := range planted {
		if is := got.of(t, tt.name); is.AtMost {
			own, want = Pair{own.Valid + is.Valid, own.Bad + is.Bad}, Pair{want.Valid + tt.is.Valid, want.Bad + tt.is.Bad}
		} else {
			require.InDelta(t, tt.is.Valid, is.Valid, tt.within+1e-6, "%s\n%s", tt.name, got.Text())
			require.InDelta(t, tt.is.Bad, is.Bad, tt.within+1e-6, "%s\n%s", tt.name, got.Text())
		}
	}
	require.InDelta(t, want.Valid, own.Valid, 1, got.Text())
	require.InDelta(t, want.Bad, own.Bad, 1, got.Text())
	require.Equal(t, Pair{}, got.Unexplained)
}

// A source that counts the same counters has no rest at all.
func TestReconcileSource(t *testing.T) {
	c := newCounted(t)
	c.r.Source, c.r.Scrape = "main", 15*time.Second
	c.change(func(at int, n float64) (float64, bool) { return math.Round(n), true })
	got := c.reconcile()
	require.True(t, got.Explained, got.Text())
	require.Equal(t, Pair{}, got.Unexplained)
	for i := range c.r.Engine {
		c.r.Engine[i].Bad -= 2
	}
	got = c.reconcile()
	require.False(t, got.Explained)
	require.Equal(t, Pair{0, -48}, got.Unexplained)
	require.Len(t, got.Notes, 3)
	require.Contains(t, got.Notes[0], "In the 5m0s from 2026-03-01 12:")
	c.own(`sloengine_source_cut_events_total{job="sloengine",source="main"}`, 48)
	got = c.reconcile()
	require.Equal(t, -48.0, got.of(t, "cut").Bad)
	require.True(t, got.Explained)
}

func TestReconcileServers(t *testing.T) {
	c := newCounted(t)
	c.otherwise = true
	got := c.reconcile()
	require.InDelta(t, 1440, got.of(t, "server").Valid, 1e-6)
	require.True(t, got.Explained)
	c.refuses = true
	got = c.reconcile()
	require.Contains(t, got.Notes[0], "refuses increase()")
	require.True(t, got.Explained)
	c.r.Total = "missing"
	server := httptest.NewServer(c.made)
	defer server.Close()
	u, err := url.Parse(server.URL)
	require.NoError(t, err)
	_, err = c.r.Reconcile(t.Context(), Counters{&Client{URL: u}, c.r.Total, c.r.Bad})
	require.ErrorContains(t, err, "no series of missing has a sample from 2026-03-01 12:00:00Z to 2026-03-01 14:00:00Z")
}

// Several servers are added up, and each is named with its part.
func TestReconcileSeveral(t *testing.T) {
	a, b := newCounted(t), newCounted(t)
	b.change(func(_ int, n float64) (float64, bool) { return n / 2, true })
	var all []Counters
	for _, c := range []*counted{a, b} {
		server := httptest.NewServer(c.made)
		defer server.Close()
		u, err := url.Parse(server.URL)
		require.NoError(t, err)
		all = append(all, Counters{&Client{URL: u}, c.r.Total, c.r.Bad})
	}
	for i := range a.r.Engine {
		a.r.Engine[i] = Pair{900, 90}
	}
	got, err := a.r.Reconcile(t.Context(), all...)
	require.NoError(t, err)
	require.True(t, got.Explained)
	require.Len(t, got.Servers, 2)
	first, second := &got.Servers[0], &got.Servers[1]
	require.InDelta(t, got.Increase.Valid, first.Increase.Valid+second.Increase.Valid, 1e-6)
	require.InDelta(t, got.Increase.Bad, first.Increase.Bad+second.Increase.Bad, 1e-6)
	require.InDelta(t, 2*second.Increase.Valid, first.Increase.Valid, 1e-3)
	require.Equal(t, 4, got.Series)
	require.Contains(t, got.Text(), "  "+all[1].URL.String())
	_, err = a.r.Reconcile(t.Context(), all[0])
	require.NoError(t, err)
}
