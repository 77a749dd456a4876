package otlpwire_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/sloengine/sloengine/ingest/otlp/otlpwire"
)

func serviceMetrics(name string, list ...*metrics.Metric) *metrics.MetricsData {
	return &metrics.MetricsData{ResourceMetrics: []*metrics.ResourceMetrics{{
		Resource:     &resource.Resource{Attributes: []*common.KeyValue{text("service.name", name)}},
		ScopeMetrics: []*metrics.ScopeMetrics{{Scope: &common.InstrumentationScope{Name: "lib"}, Metrics: list}},
	}}}
}

func sumMetric() *metrics.Metric {
	return &metrics.Metric{Name: "requests", Unit: "1", Data: &metrics.Metric_Sum{Sum: &metrics.Sum{
		AggregationTemporality: metrics.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE, IsMonotonic: true,
		DataPoints: []*metrics.NumberDataPoint{{StartTimeUnixNano: 1, TimeUnixNano: 2, Flags: 1,
			Attributes: []*common.KeyValue{text("http.route", "/cart")},
			Value:      &metrics.NumberDataPoint_AsInt{AsInt: -7}}}}}}
}

func histogramMetric() *metrics.Metric {
	return &metrics.Metric{Name: "http.server.request.duration", Unit: "s", Data: &metrics.Metric_Histogram{
		Histogram: &metrics.Histogram{
			AggregationTemporality: metrics.AggregationTemporality_AGGREGATION_TEMPORALITY_DELTA,
			DataPoints: []*metrics.HistogramDataPoint{{StartTimeUnixNano: 3, TimeUnixNano: 4, Count: 6,
				Sum: proto.Float64(1.5), BucketCounts: []uint64{1, 2, 3}, ExplicitBounds: []float64{0.1, 0.5},
				Attributes: []*common.KeyValue{text("http.route", "/cart"), text("http.request.method", "GET")}}}}}}
}

func TestPointsHaveTheirMetric(t *testing.T) {
	gauge := &metrics.Metric{Name: "load", Data: &metrics.Metric_Gauge{Gauge: &metrics.Gauge{
		DataPoints: []*metrics.NumberDataPoint{{Value: &metrics.NumberDataPoint_AsDouble{AsDouble: 0.5}}}}}}
	exponential := &metrics.Metric{Name: "exponential", Data: &metrics.Metric_ExponentialHistogram{
		ExponentialHistogram: &metrics.ExponentialHistogram{DataPoints: []*metrics.ExponentialHistogramDataPoint{{
			Count: 9, Scale: -2, ZeroCount: 1, TimeUnixNano: 5, Attributes: []*common.KeyValue{text("http.route", "/cart")},
			Positive: &metrics.ExponentialHistogramDataPoint_Buckets{Offset: -3, BucketCounts: []uint64{5, 300}},
			Negative: &metrics.ExponentialHistogramDataPoint_Buckets{BucketCounts: []uint64{0, 1}}}}}}}
	summary := &metrics.Metric{Name: "summary", Data: &metrics.Metric_Summary{
		Summary: &metrics.Summary{DataPoints: []*metrics.SummaryDataPoint{{}}}}}
	body := marshal(t, serviceMetrics("shop", sumMetric(), gauge, histogramMetric(), exponential, summary))
	var seen []string
	require.NoError(t, otlpwire.New(otlpwire.Limits{}).Metrics(body, func(p *otlpwire.Point) error {
		require.Equal(t, len(seen), p.Index)
		require.Equal(t, "lib", string(p.ScopeName))
		require.Equal(t, p.Kind == otlpwire.Sum, p.NoRecordedValue())
		seen = append(seen, renderPoint(p))
		return nil
	}))
	require.Equal(t, []string{
		`"requests" "1" kind 7 temporality 2 true 1-2 flags 1 value -7 histogram 0 [] [] []`,
		`"load" "" kind 5 temporality 0 false 0-0 flags 0 value 3fe0000000000000 histogram 0 [] [] []`,
		`"http.server.request.duration" "s" kind 9 temporality 1 false 3-4 flags 0 value empty histogram 6 ` +
			`[3ff8000000000000] [1 2 3] [3fb999999999999a 3fe0000000000000]`,
		`"exponential" "" kind 10 temporality 0 false 0-5 flags 0 value empty histogram 9 [] [5 300] []` +
			" scale -2 zero 1 offset -3 negative true",
		`"summary" "" kind 11 temporality 0 false 0-0 flags 0 value empty histogram 0 [] [] []`,
	}, seen)
}

func renderPoint(p *otlpwire.Point) string {
	var sum []float64
	if p.HasSum {
		sum = append(sum, p.Total)
	}
	out := fmt.Sprintf("%q %q kind %d temporality %d %v %d-%d flags %d value %s histogram %d %x %d %x", plain(p.Name),
		plain(p.Unit), p.Kind, p.Temporality, p.Monotonic, p.Start, p.Time, p.Flags, render(asOfficial(p.Value)), p.Count,
		floatBits(sum), p.Buckets, floatBits(p.Bounds))
	if p.Kind == otlpwire.ExponentialHistogram {
		out += fmt.Sprintf(" scale %d zero %d offset %d negative %v", p.Scale, p.Zero, p.Offset, p.Negative)
	}
	return out
}

func floatBits(list []float64) (out []uint64) {
	for _, f := range list {
		out = append(out, math.Float64bits(f))
	}
	return out
}

// officialPoints are the points of a metric as ours are handed out.
func officialPoints(m *metrics.Metric) (out []*otlpwire.Point, attrs [][]*common.KeyValue) {
	common := otlpwire.Metric{Name: []byte(m.Name), Unit: []byte(m.Unit)}
	numbers := func(list []*metrics.NumberDataPoint) {
		for _, p := range list {
			v := otlpwire.Value{}
			switch of := p.Value.(type) {
			case *metrics.NumberDataPoint_AsInt:
				v = otlpwire.Value{Kind: otlpwire.Int, Int: of.AsInt}
			case *metrics.NumberDataPoint_AsDouble:
				v = otlpwire.Value{Kind: otlpwire.Float, Float: of.AsDouble}
			}
			out = append(out, &otlpwire.Point{Metric: common, Start: p.StartTimeUnixNano, Time: p.TimeUnixNano,
				Flags: p.Flags, Value: v})
			attrs = append(attrs, p.Attributes)
		}
	}
	switch data := m.Data.(type) {
	case *metrics.Metric_Gauge:
		common.Kind = otlpwire.Gauge
		numbers(data.Gauge.GetDataPoints())
	case *metrics.Metric_Sum:
		common.Kind, common.Monotonic = otlpwire.Sum, data.Sum.GetIsMonotonic()
		common.Temporality = uint8(defined(data.Sum.GetAggregationTemporality()))
		numbers(data.Sum.GetDataPoints())
	case *metrics.Metric_Histogram:
		common.Kind = otlpwire.Histogram
		common.Temporality = uint8(defined(data.Histogram.GetAggregationTemporality()))
		for _, p := range data.Histogram.GetDataPoints() {
			out = append(out, &otlpwire.Point{Metric: common, Start: p.StartTimeUnixNano, Time: p.TimeUnixNano,
				Flags: p.Flags, Count: p.Count, Total: p.GetSum(), HasSum: p.Sum != nil, Buckets: p.BucketCounts,
				Bounds: p.ExplicitBounds})
			attrs = append(attrs, p.Attributes)
		}
	case *metrics.Metric_ExponentialHistogram:
		common.Kind = otlpwire.ExponentialHistogram
		common.Temporality = uint8(defined(data.ExponentialHistogram.GetAggregationTemporality()))
		for _, p := range data.ExponentialHistogram.GetDataPoints() {
			out = append(out, &otlpwire.Point{Metric: common, Start: p.StartTimeUnixNano, Time: p.TimeUnixNano,
				Flags: p.Flags, Count: p.Count, Total: p.GetSum(), HasSum: p.Sum != nil, Scale: p.Scale, Zero: p.ZeroCount,
				Offset: p.Positive.GetOffset(), Buckets: p.Positive.GetBucketCounts(),
				Negative: slices.Max(append(p.Negative.GetBucketCounts(), 0)) > 0})
			attrs = append(attrs, p.Attributes)
		}
	case *metrics.Metric_Summary:
		common.Kind = otlpwire.Summary
		for range data.Summary.GetDataPoints() {
			out, attrs = append(out, &otlpwire.Point{Metric: common}), append(attrs, nil)
		}
	}
	return out, attrs
}

func officialMetrics(data *metrics.MetricsData) (out []seen) {
	for i, r := range data.ResourceMetrics {
		for _, sc := range r.ScopeMetrics {
			for _, m := range sc.Metrics {
				points, attrs := officialPoints(m)
				for n, p := range points {
					out = append(out, seen{fmt.Sprint(i, "/", len(out)), renderAttrs(r.Resource.GetAttributes()),
						renderAttrs(attrs[n]), plain(sc.Scope.GetName()), renderPoint(p)})
				}
			}
		}
	}
	return out
}

func compareMetrics(t require.TestingT, d *otlpwire.Decoder, body []byte, inJSON bool) {
	var data metrics.MetricsData
	officialErr := officialIn(body, inJSON, &data)
	decode := d.Metrics
	if inJSON {
		decode = d.MetricsJSON
	}
	var ours []seen
	err := decode(body, func(p *otlpwire.Point) error {
		ours = append(ours, seenAs(p.Origin, p.Attrs, renderPoint(p)))
		return nil
	})
	sameAnswer(t, body, ours, err, d.Losses(), officialMetrics(&data), officialErr)
}

func TestPointsAreThoseOfTheOfficialDecoder(t *testing.T) {
	checkRandom(t, func() proto.Message { return &metrics.MetricsData{} }, compareMetrics)
}

// TestDataOfAMetricMerge: pieces of one kind are one, a piece of another kind replaces them.
func TestDataOfAMetricMerge(t *testing.T) {
	d := otlpwire.New(exact)
	rapid.Check(t, func(t *rapid.T) {
		var body []byte
		for range rapid.IntRange(2, 4).Draw(t, "pieces") {
			var m metrics.Metric
			fill(t, m.ProtoReflect(), 5)
			body = append(body, scrambled(t, &m)...)
		}
		for range 3 {
			body = protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), body)
		}
		body[0] = 1<<3 | 2
		compareMetrics(t, d, body, false)
	})
}

func FuzzMetrics(f *testing.F) {
	f.Add(marshal(f, serviceMetrics("shop", sumMetric(), histogramMetric())))
	f.Fuzz(func(t *testing.T, body []byte) { compareMetrics(t, otlpwire.New(exact), body, false) })
}

func FuzzMetricsJSON(f *testing.F) {
	f.Add([]byte(`{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"a","unit":"s","histogram":{"dataPoints":[{` +
		`"startTimeUnixNano":"1","count":"3","sum":0,"bucketCounts":["1",2],"explicitBounds":[0.5,"Infinity"]}],` +
		`"aggregationTemporality":"AGGREGATION_TEMPORALITY_DELTA"}},{"sum":{"dataPoints":[{"asInt":"-1","flags":1},` +
		`{"asDouble":2}],"isMonotonic":true,"aggregationTemporality":2}},{"exponential_histogram":{"dataPoints":[{` +
		`"scale":-1,"positive":{"offset":-2,"bucketCounts":["1"]}}]}},{"summary":{"dataPoints":[{"quantileValues":[{` +
		`"quantile":0.5,"value":1}]}]}}]}]}]}`))
	f.Fuzz(func(t *testing.T, body []byte) { compareMetrics(t, otlpwire.New(exact), body, true) })
}

func manyPoints(n int) proto.Message {
	list := make([]*metrics.HistogramDataPoint, n)
	for i := range list {
		list[i] = histogramMetric().GetHistogram().DataPoints[0]
	}
	m := histogramMetric()
	m.GetHistogram().DataPoints = list
	return serviceMetrics("shop", m)
}

func TestPointsCostNoAllocation(t *testing.T) {
	d := otlpwire.New(otlpwire.Limits{})
	n := 0
	count := func(*otlpwire.Point) error { n++; return nil }
	requireNoAllocations(t, manyPoints, &n, func(b []byte) error { return d.Metrics(b, count) },
		func(b []byte) error { return d.MetricsJSON(b, count) })
}

func BenchmarkMetrics(b *testing.B) {
	d := otlpwire.New(otlpwire.Limits{})
	drop := func(*otlpwire.Point) error { return nil }
	benchmark(b, manyPoints(1000), 1000, func(body []byte) error { return d.Metrics(body, drop) },
		func(body []byte) error { return d.MetricsJSON(body, drop) })
}
