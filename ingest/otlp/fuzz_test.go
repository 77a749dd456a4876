package otlp_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/protobuf/proto"

	"github.com/sloengine/sloengine/ingest/counter"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/otlp"
	"github.com/sloengine/sloengine/ingest/otlp/otlpwire"
)

// hostile are spans with names and values that somebody may have chosen to do harm.
func hostile(t testing.TB) []byte {
	t.Helper()
	data := usual(2)
	spans := data.ResourceSpans[0].ScopeSpans[0].Spans
	for _, key := range []string{"", "type", "service", "id", "slo_x", "operation", "trace_id", "tier", "part", "severity",
		"a b",
		"\u202e", strings.Repeat("k", 300), "http.route", "http_route", "http-route", "k8s.\x00.name", "0"} {
		spans[0].Attributes = append(spans[0].Attributes, &common.KeyValue{Key: key,
			Value: &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: strings.Repeat("\u00e4\x00", 200)}}})
	}
	spans[1].TraceState, spans[1].EndTimeUnixNano = "ot=th:0;rv:1,ot=th:ffffffffffffff", 1<<63
	body, err := proto.Marshal(data)
	require.NoError(t, err)
	return body
}

// meters is a request with every kind of metric.
func meters(f *testing.F) []byte {
	const cumulative = metrics.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE
	number := []*metrics.NumberDataPoint{{StartTimeUnixNano: 1, TimeUnixNano: uint64(now.UnixNano()),
		Value: &metrics.NumberDataPoint_AsInt{AsInt: 7}}}
	body, err := proto.Marshal(&metrics.MetricsData{ResourceMetrics: []*metrics.ResourceMetrics{{
		Resource: &resource.Resource{Attributes: []*common.KeyValue{{Key: "service.name",
			Value: &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: "shop"}}}}},
		ScopeMetrics: []*metrics.ScopeMetrics{{Metrics: []*metrics.Metric{
			{Name: "sum", Data: &metrics.Metric_Sum{Sum: &metrics.Sum{AggregationTemporality: cumulative, IsMonotonic: true,
				DataPoints: number}}},
			{Name: "delta", Unit: "s", Data: &metrics.Metric_Histogram{Histogram: &metrics.Histogram{
				AggregationTemporality: metrics.AggregationTemporality_AGGREGATION_TEMPORALITY_DELTA,
				DataPoints: []*metrics.HistogramDataPoint{{TimeUnixNano: uint64(now.UnixNano()), Count: 6,
					BucketCounts: []uint64{1, 2, 3}, ExplicitBounds: []float64{0.5, 1}}}}}},
			{Name: "exponential", Unit: "ms", Data: &metrics.Metric_ExponentialHistogram{
				ExponentialHistogram: &metrics.ExponentialHistogram{AggregationTemporality: cumulative,
					DataPoints: []*metrics.ExponentialHistogramDataPoint{{TimeUnixNano: uint64(now.UnixNano()), Count: 4, Scale: 3,
						ZeroCount: 1, Positive: &metrics.ExponentialHistogramDataPoint_Buckets{Offset: -2,
							BucketCounts: []uint64{1, 2}}}}}}}}}}}}})
	require.NoError(f, err)
	return body
}

// FuzzSpans holds what becomes of any request to what the engine takes for granted of events.
func FuzzSpans(f *testing.F) {
	f.Add(hostile(f))
	usually, err := proto.Marshal(usual(3))
	require.NoError(f, err)
	f.Add(usually)
	f.Add(meters(f))
	settings := &otlp.Settings{Keep: append([]string{"*"}, otlp.DefaultKeep...), Sampling: map[string]float64{"shop": 0.7},
		Spans: []otlp.SpanRule{{Kind: "client", Type: "call"}}, Logs: []otlp.LogRule{{Body: "*", Type: "log"}},
		Metrics: []otlp.MetricRule{{Metric: "*", Type: "call"}}}
	catalog := event.NewCatalog(map[string][]string{"shop": nil})
	seen := otlp.NewSeen(func() time.Time { return now })
	m, wire := otlp.NewMapper(settings, seen, nil), otlpwire.New(otlpwire.Limits{})
	var d event.Decoder
	var b event.Batch
	table := counter.NewTable()
	points := counter.NewBatch(table)
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, signal := range []string{"traces", "logs", "metrics"} {
			d.Begin(event.DecodeOptions{Now: now, Catalog: catalog}, &b)
			m.Begin(catalog, func([]byte) []string { return []string{"trace_id", "operation", "http_route"} })
			take := func(draft *event.Draft, _ otlp.Reason) error {
				if draft != nil {
					d.Add(draft)
				}
				return nil
			}
			switch signal {
			case "logs":
				err = wire.Logs(body, func(r *otlpwire.LogRecord) error { return take(m.Log(r)) })
			case "traces":
				err = wire.Traces(body, func(s *otlpwire.Span) error { return take(m.Span(s)) })
			default:
				m.Counters(points, func(string, string) []time.Duration { return []time.Duration{time.Second} }, nil)
				err = wire.Metrics(body, func(p *otlpwire.Point) error {
					err := take(m.Point(p))
					m.KeepPoint()
					return err
				})
				_, applied := table.Apply(points.AppendPosition(nil, nil))
				require.NoError(t, applied)
			}
			d.End()
			for i := range b.Events {
				asTheEngineWants(t, b.Event(i))
			}
		}
		for _, s := range seen.Snapshot() {
			require.Positive(t, s.Spans)
		}
	})
}

func asTheEngineWants(t *testing.T, bin []byte) {
	var v event.View
	_, err := v.Parse(bin)
	require.NoError(t, err)
	require.True(t, event.ValidID(v.ID) && utf8.Valid(v.ID), "%q", v.ID)
	require.True(t, event.ValidName(string(v.Service)) && event.ValidName(string(v.Type)))
	require.Positive(t, v.Weight)
	require.Positive(t, v.Count)
	counts := 0
	for d, n := range v.Durations {
		require.True(t, d >= 0 && d <= int64(event.MaxDuration))
		counts += int(n)
	}
	require.True(t, counts == 0 || counts == int(v.Count))
	before, n := "", 0
	for name, value := range v.Attrs {
		require.True(t, event.ValidAttribute(string(name)), "%q", name)
		require.Greater(t, string(name), before)
		require.True(t, utf8.Valid(value) && len(value) <= 256, "%q", value)
		before = string(name)
		n++
	}
	require.LessOrEqual(t, n, 24)
}
