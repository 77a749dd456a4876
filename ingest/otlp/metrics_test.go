package otlp_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/counter"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/otlp"
	"github.com/sloengine/sloengine/ingest/otlp/otlpwire"
)

// meter counts the points of a service, request by request.
type meter struct {
	mapper  *otlp.Mapper
	table   *counter.Table
	found   *otlp.Findings
	allow   func([]byte) bool
	service string
}

func newMeter(rules ...otlp.MetricRule) *meter {
	m := &meter{table: counter.NewTable(), service: "shop",
		found: otlp.NewFindings(otlp.FindingsOptions{Now: func() time.Time { return now }})}
	m.mapper = otlp.NewMapper(&otlp.Settings{Keep: []string{"http.route"}, Metrics: rules}, nil, m.found)
	return m
}

// count returns the events, errors and reasons of metrics, without ids and times.
func (m *meter) count(t *testing.T, metrics ...string) (out []string) {
	t.Helper()
	body := fmt.Sprintf(`{"resourceMetrics":[{"resource":{%s},"scopeMetrics":[{"metrics":[{%s}]}]}]}`,
		attrs("service.name="+m.service), strings.Join(metrics, "},{"))
	batch := counter.NewBatch(m.table)
	catalog := event.NewCatalog(map[string][]string{"shop": nil, "strict": {"call"}})
	var d event.Decoder
	var b event.Batch
	d.Begin(event.DecodeOptions{Now: now, Catalog: catalog, AllowService: m.allow}, &b)
	m.mapper.Begin(catalog, nil)
	m.mapper.Counters(batch, func(service, typ string) []time.Duration {
		require.Equal(t, []string{"shop", "request"}, []string{service, typ})
		return []time.Duration{300 * time.Millisecond}
	}, m.allow)
	require.NoError(t, otlpwire.New(otlpwire.Limits{}).MetricsJSON([]byte(body), func(p *otlpwire.Point) error {
		draft, why := m.mapper.Point(p)
		if draft == nil {
			out = append(out, otlp.Reasons()[why])
			m.mapper.KeepPoint()
		} else if d.Add(draft) != event.CodeTimeInFuture {
			m.mapper.KeepPoint()
		}
		return nil
	}))
	d.End()
	for _, e := range b.Errors {
		out = append(out, string(e.Code)+": "+e.Detail)
	}
	for i := range b.Events {
		var v event.View
		_, err := v.Parse(b.Event(i))
		require.NoError(t, err)
		text := string(v.AppendJSON(nil))
		require.Contains(t, text, `"id":"`)
		_, text, _ = strings.Cut(text, `"service":"shop","type":"request"`)
		out = append(out, text)
	}
	if !batch.Empty() {
		_, err := m.table.Apply(batch.AppendPosition(nil, nil))
		require.NoError(t, err)
	}
	return out
}

// point is a data point at a second before now, of a process that began an hour ago unless it says so.
func point(second int, rest string) string {
	out := fmt.Sprintf(`{"timeUnixNano":"%d",%s`, now.Add(-time.Duration(second)*time.Second).UnixNano(), rest)
	if !strings.Contains(rest, "startTimeUnixNano") {
		out += fmt.Sprintf(`,"startTimeUnixNano":"%d"`, now.Add(-time.Hour).UnixNano())
	}
	return out + "}"
}

// metric is a metric with one point.
func metric(name, kind, more string, points ...string) string {
	return fmt.Sprintf(`"name":%q,%s,"%s":{"dataPoints":[%s]%s}`, name, `"unit":"s"`, kind, strings.Join(points, ","),
		more)
}

const (
	asSum = `,"aggregationTemporality":2,"isMonotonic":true`
	asAll = `,"aggregationTemporality":2`
)

var requestRule = otlp.MetricRule{Service: "shop", Metric: "http.server.*", Type: "request"}

func TestSums(t *testing.T) {
	m := newMeter(requestRule)
	calls := func(second int, n string, attributes ...string) string {
		return metric("http.server.requests", "sum", asSum, point(second, n+","+attrs(attributes...)))
	}
	route, failed := "http.route=/cart", "http.response.status_code:500"
	require.Equal(t, []string{"first_point"}, m.count(t, calls(50, `"asInt":"1000000000"`, route)))
	require.Equal(t, []string{`,"count":5,"attributes":{"http_route":"/cart"}}`},
		m.count(t, calls(40, `"asInt":"1000000005"`, route)))
	require.Equal(t, []string{"nothing_new"}, m.count(t, calls(40, `"asInt":"1000000005"`, route)), "a resend")
	require.Equal(t, []string{"nothing_new"}, m.count(t, calls(35, `"asInt":"1000000005"`, route)))
	require.Equal(t, []string{`,"outcome":"failure","count":2,"attributes":{"http_route":"/cart"}}`},
		m.count(t, calls(30, `"asInt":"2"`, route, failed)), "attributes that appear")
	require.Equal(t, []string{`,"count":3,"attributes":{"http_route":"/cart"}}`},
		m.count(t, calls(25, `"asDouble":1000000008.7`, route)), "what is counted is whole")
	require.Equal(t, []string{"decreased"}, m.count(t, calls(20, `"asInt":"5"`, route)))
	require.Equal(t, []string{"nothing_new"}, m.count(t, calls(15, `"asInt":"7","flags":1`, route)), "no value")
	restarted := fmt.Sprintf(`"asInt":"4","startTimeUnixNano":"%d"`, now.Add(-12*time.Second).UnixNano())
	require.Equal(t, []string{`,"count":4,"attributes":{"http_route":"/cart"}}`}, m.count(t, calls(10, restarted, route)))
	require.Equal(t, []string{"no_rule"}, m.count(t, metric("jvm.memory.used", "sum", asSum, point(1, `"asInt":"1"`))))
	m.service = "cart"
	require.Equal(t, []string{"no_rule"}, m.count(t, calls(1, `"asInt":"1"`)))
	m = newMeter(otlp.MetricRule{Metric: "http.server.*", Type: "request"})
	m.service = "cart"
	require.Equal(t, []string{"unknown_service"}, m.count(t, calls(1, `"asInt":"1"`)))
	m.service = "strict"
	require.Equal(t, []string{"unknown_type"}, m.count(t, calls(1, `"asInt":"1"`)))
}

// A delta says itself what it adds. Its id tells a resend.
func TestDeltas(t *testing.T) {
	m := newMeter(requestRule)
	delta := strings.Replace(asSum, "2", "1", 1)
	require.Equal(t, []string{"nothing_new", `,"count":7}`},
		m.count(t, metric("http.server.requests", "sum", delta, point(9, `"asInt":"7"`), point(8, `"asInt":"0"`))))
}

func TestFailuresByRule(t *testing.T) {
	rule := requestRule
	rule.Failure = map[string]string{"error.type": "*"}
	m := newMeter(rule)
	delta := strings.Replace(asSum, "2", "1", 1)
	require.Equal(t, []string{`,"count":1}`, `,"outcome":"failure","count":2}`}, counted(m.count(t,
		metric("http.server.requests", "sum", delta, point(9, `"asInt":"1",`+attrs("http.response.status_code:500")),
			point(9, `"asInt":"2",`+attrs("error.type=timeout"))))))
}

// counted makes a count of 1 visible.
func counted(list []string) []string {
	for i := range list {
		if !strings.Contains(list[i], "count") {
			list[i] = strings.Replace(list[i], "}", `,"count":1}`, 1)
		}
	}
	return list
}

func TestHistograms(t *testing.T) {
	histogram := func(second int, unit, buckets, bounds string, count int) string {
		out := metric("http.server.request.duration", "histogram", asAll, point(second,
			fmt.Sprintf(`"count":"%d","bucketCounts":[%s],"explicitBounds":[%s]`, count, buckets, bounds)))
		return strings.Replace(out, `"unit":"s"`, `"unit":"`+unit+`"`, 1)
	}
	m := newMeter(requestRule)
	m.count(t, histogram(50, "s", "1,1,1", "0.1,0.3", 3))
	require.Equal(t, []string{`,"count":6,"durations":[[100,1],[300,2],[300.000001,3]]}`},
		m.count(t, histogram(40, "s", "2,3,4", "0.1,0.3", 9)))
	require.Equal(t, []string{"decreased"}, m.count(t, histogram(30, "s", "3,4,5", "0.2,0.3", 12)), "other bounds")
	require.Empty(t, m.found.Snapshot())

	m = newMeter(requestRule)
	m.count(t, histogram(50, "ms", "0,0,0", "100,250", 0))
	require.Equal(t, []string{`,"count":6}`}, m.count(t, histogram(40, "ms", "1,2,3", "100,250", 6)),
		"without durations, which would be a guess")
	found := m.found.Snapshot()
	require.Len(t, found, 1)
	require.Equal(t,
		`Latency is not counted: no bucket of "http.server.request.duration" ends at 300ms (the last one ends at `+
			`250ms). Give the histogram of shop a bucket that ends there, or the SLO another threshold.`, found[0].Text())
	m = newMeter(requestRule)
	m.count(t, histogram(50, "s", "0,0,0", "0.25,0.5", 0))
	m.count(t, histogram(40, "s", "1,2,3", "0.25,0.5", 6))
	require.Contains(t, m.found.Snapshot()[0].Detail, "(the nearest end at 250ms and 500ms)")

	m = newMeter(requestRule)
	m.count(t, histogram(50, "By", "0,0", "100", 0))
	require.Equal(t, []string{`,"count":3}`}, m.count(t, histogram(40, "By", "1,2", "100", 3)), "these are no durations")
	m = newMeter(requestRule)
	m.count(t, histogram(50, "s", "", "", 3))
	require.Equal(t, []string{`,"count":2}`}, m.count(t, histogram(40, "s", "", "", 5)), "without buckets")
}

func TestExponentialHistograms(t *testing.T) {
	m := newMeter(requestRule)
	histogram := func(second, scale, zero, offset, count int, buckets string) string {
		return metric("http.server.request.duration", "exponentialHistogram", asAll, point(second,
			fmt.Sprintf(`"count":"%d","scale":%d,"zeroCount":"%d","positive":{"offset":%d,"bucketCounts":[%s]}`, count, scale,
				zero,
				offset, buckets)))
	}
	m.count(t, histogram(50, 0, 0, 0, 0, ""))
	// At scale 0, bucket i ends at 2^(i+1): -2 at half a second.
	require.Equal(t, []string{`,"count":7,"durations":[[0,1],[500,2],[1000,3],[2000,1]]}`},
		m.count(t, histogram(40, 0, 1, -2, 7, "2,3,1")))
	require.Equal(t, []string{`,"count":4,"durations":[[0,1],[250,1],[1000,2]]}`},
		m.count(t, histogram(30, 0, 2, -3, 11, "1,2,5,1")))
	require.Equal(t, []string{`bad_metric: Metric "http.server.request.duration" has the scale 21 (want -10 to 20).`},
		m.count(t, histogram(20, 21, 0, 0, 0, "")))
	many := strings.TrimSuffix(strings.Repeat("1,", 640), ",")
	got := m.count(t, histogram(10, 0, 2, -600, 642, many))
	require.Equal(t, []string{"decreased"}, got)
	m = newMeter(requestRule)
	m.count(t, histogram(50, 6, 0, 0, 0, ""))
	got = m.count(t, histogram(10, 6, 0, -600, 640, many))
	require.Len(t, got, 1)
	require.Equal(t, 320, strings.Count(got[0], "],")+1-strings.Count(got[0], "]]}")+1, "pairs of buckets became one")
}

func TestPointsThatCannotCount(t *testing.T) {
	future := fmt.Sprintf(`{"timeUnixNano":"%d","asInt":"1"}`, now.Add(time.Hour).UnixNano())
	number, counts := point(9, `"asInt":"1"`), `"count":"4","bucketCounts":[1,2],"explicitBounds":[1]`
	for want, of := range map[string]string{
		"is a gauge, or a sum":     metric("http.server.x", "gauge", "", number),
		"or a sum that can fall":   metric("http.server.x", "sum", asAll, number),
		"is a summary":             metric("http.server.x", "summary", "", point(9, `"count":"1"`)),
		"whether it is cumulative": metric("http.server.x", "sum", `,"isMonotonic":true`, number),
		"has the value -1":         metric("http.server.x", "sum", asSum, point(9, `"asInt":"-1"`)),
		"has the value NaN":        metric("http.server.x", "sum", asSum, point(9, `"asDouble":"NaN"`)),
		"3 values in its buckets":  metric("http.server.x", "histogram", asAll, point(9, counts)),
		"2 buckets and 0 bounds": metric("http.server.x", "histogram", asAll,
			point(9, `"count":"3","bucketCounts":[1,2]`)),
		"do not rise, at 1": metric("http.server.x", "histogram", asAll,
			point(9, `"count":"3","bucketCounts":[1,1,1],"explicitBounds":[1,1]`)),
		"do not rise, at NaN": metric("http.server.x", "histogram", asAll,
			point(9, `"count":"2","bucketCounts":[1,1],"explicitBounds":["NaN"]`)),
		"has values below 0": metric("http.server.x", "exponentialHistogram", asAll,
			point(9, `"count":"1","negative":{"bucketCounts":[1]}`)),
		"1001 buckets": metric("http.server.x", "histogram", asAll,
			point(9, `"bucketCounts":[0`+strings.Repeat(",0", 1000)+`]`)),
		"bad_time: The point has no": metric("http.server.x", "sum", asSum, `{"asInt":"1"}`),
		"adds 5000000000, but the max": metric("http.server.x", "sum", strings.Replace(asSum, "2", "1", 1),
			point(9, `"asInt":"5000000000"`)),
		"time_in_future": metric("http.server.x", "sum", strings.Replace(asSum, "2", "1", 1), future),
	} {
		got := newMeter(requestRule).count(t, of)
		require.Len(t, got, 1)
		require.Contains(t, got[0], want)
	}
}

// Nothing that a token may not send moves what is known of a counter, nor does a clock that is ahead.
func TestPointsThatChangeNothing(t *testing.T) {
	m := newMeter(requestRule)
	calls := func(second, n int) string {
		return metric("http.server.requests", "sum", asSum, point(second, fmt.Sprintf(`"asInt":"%d"`, n)))
	}
	m.count(t, calls(50, 100))
	m.allow = func([]byte) bool { return false }
	require.Contains(t, m.count(t, calls(40, 200))[0], "service_not_allowed")
	m.allow = nil
	require.Contains(t, m.count(t, calls(-3600, 300))[0], "time_in_future")
	require.Equal(t, []string{`,"count":2}`}, m.count(t, calls(30, 102)))
	require.Contains(t, m.count(t, metric("http.server.requests", "sum", asSum,
		point(20, `"asInt":"9000000000"`)))[0], "bad_count")
	require.Equal(t, []string{`,"count":3}`}, m.count(t, calls(10, 9_000_000_003)), "what was refused for good is past")
}

func TestMetricRulesAreChecked(t *testing.T) {
	s := otlp.Settings{Metrics: []otlp.MetricRule{{Type: "request"},
		{Metric: "a*b*", Type: "request", Failure: map[string]string{"error.type": "*/*"}}, {Metric: "x"}}}
	var got []string
	s.Check(func(place, remedy, text string) { got = append(got, place+": "+text+" ("+remedy+")") })
	require.Equal(t, []string{
		`metrics[0].metric: the rule names no metric (want a name such as http.server.request.duration)`,
		`metrics[1].metric: "a*b*" has more than one * (use one *)`,
		`metrics[1].attributes: "*/*" has more than one * (use one *)`,
		`metrics[2].type: "" is not a type (want letters, digits, dots, dashes and underscores)`,
	}, got)
}
