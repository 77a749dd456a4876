package web

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/VictoriaMetrics/metrics"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/reliability/metric"
	"github.com/sloengine/sloengine/web/site"
)

// TestMetricsOfASet checks that families of a metrics.Set keep their type, help, labels and buckets in every
// exposition format, even with label values that look like the end of a label.
func TestMetricsOfASet(t *testing.T) {
	set := metrics.NewSet()
	sinks := []string{`a`, `b "} le="1`}
	for _, sink := range sinks {
		h := set.NewPrometheusHistogramExt(`sloengine_sink_call_seconds{sink="`+strings.ReplaceAll(sink, `"`, `\"`)+`"}`,
			[]float64{.0001, .1, 5})
		for _, v := range []float64{0, .0001, .05, 1, 2, 5, 60} {
			h.Update(v)
		}
	}
	metric.DLQCommitSeconds.Histogram(set)
	metric.SinkDeliveredItems.Counter(set, "a").Add(3)
	set.NewCounter("unknown").Add(1)
	b := newBench(t, func(o *site.Options) {
		o.Sets = []*metrics.Set{set}
	})
	text := b.get("/metrics").Body.String()
	header := "# HELP sloengine_sink_call_seconds " + metric.SinkCallSeconds.Help +
		"\n# TYPE sloengine_sink_call_seconds histogram\n"
	require.Contains(t, text, header)
	fs := parse(t, text)
	require.Len(t, fs["sloengine_sink_call_seconds"].GetMetric(), len(sinks))
	for i, m := range fs["sloengine_sink_call_seconds"].GetMetric() {
		require.Len(t, m.GetLabel(), 1)
		require.Equal(t, sinks[i], m.GetLabel()[0].GetValue())
		below := map[float64]uint64{}
		for _, bucket := range m.GetHistogram().GetBucket() {
			below[bucket.GetUpperBound()] = bucket.GetCumulativeCount()
		}
		require.Equal(t, map[float64]uint64{.0001: 2, .1: 3, 5: 6, math.Inf(1): 7}, below)
		require.EqualValues(t, 7, m.GetHistogram().GetSampleCount())
	}
	require.Equal(t, dto.MetricType_HISTOGRAM, fs["sloengine_dlq_commit_seconds"].GetType())
	require.Zero(t, fs["sloengine_dlq_commit_seconds"].GetMetric()[0].GetHistogram().GetSampleCount())
	require.Equal(t, dto.MetricType_COUNTER, fs["sloengine_sink_delivered_items_total"].GetType())
	require.Equal(t, dto.MetricType_UNTYPED, fs["unknown"].GetType())

	// The other formats say the same.
	om := b.get("/metrics", "Accept", "application/openmetrics-text;version=1.0.0").Body.String()
	require.Contains(t, om, header)
	i := slices.IndexFunc(b.families(), func(f *dto.MetricFamily) bool {
		return f.GetName() == "sloengine_sink_call_seconds"
	})
	f := b.families()[i]
	require.Equal(t, metric.SinkCallSeconds.Help, f.GetHelp())
	require.Equal(t, dto.MetricType_HISTOGRAM, f.GetType())
}
