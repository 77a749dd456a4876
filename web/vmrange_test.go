package web

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/VictoriaMetrics/metrics"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/require"
)

// Histograms of the library's own kind come out as histograms of Prometheus, with every
// observation in the right bucket, whatever other labels they have.
func TestHistogramsHaveBounds(t *testing.T) {
	set := metrics.NewSet()
	rnd := rand.New(rand.NewPCG(1, 2))
	below := map[string][]int{}
	const n = 3000
	for _, sink := range []string{`a`, `b "} vmrange="1...2`} {
		h := set.NewHistogram(`sloengine_sink_call_seconds{sink="` + labelEscapes.Replace(sink) + `"}`)
		below[sink] = make([]int, len(widened))
		for range n {
			v := math.Pow(10, -6+10*rnd.Float64()) // 1 µs to 10,000 s
			h.Update(v)
			for i := range widened { // which are printed with four digits
				if v <= math.Pow(10, float64(i-12)/3) {
					below[sink][i]++
				}
			}
		}
	}
	set.NewHistogram("sloengine_never_seconds")
	set.NewHistogram("sloengine_once_seconds").Update(0)
	set.NewCounter("sloengine_sink_delivered_items_total").Add(3)
	b := newBench(t, func(o *Options) {
		o.Sets, o.MetricHelp = []*metrics.Set{set}, map[string]string{"sloengine_sink_call_seconds": `Time of \ a call.`}
	})
	text := b.get("/metrics").Body.String()
	require.Contains(t, text, "# HELP sloengine_sink_call_seconds Time of \\\\ a call.\n# TYPE sloengine_sink_call_seconds histogram\n")
	require.NotContains(t, text, "_bucket{vmrange")
	fs := parse(t, text)
	require.Len(t, fs["sloengine_sink_call_seconds"].GetMetric(), 2)
	for _, m := range fs["sloengine_sink_call_seconds"].GetMetric() {
		h, want := m.GetHistogram(), below[m.GetLabel()[0].GetValue()]
		require.Len(t, m.GetLabel(), 1)
		require.EqualValues(t, n, h.GetSampleCount())
		require.Len(t, h.GetBucket(), len(widened)+1)
		for i, bound := range widened {
			require.Equal(t, bound, h.GetBucket()[i].GetUpperBound())
			require.EqualValues(t, want[i], h.GetBucket()[i].GetCumulativeCount(), "%g", bound)
		}
		require.EqualValues(t, n, h.GetBucket()[len(widened)].GetCumulativeCount())
	}
	require.EqualValues(t, 1, fs["sloengine_once_seconds"].GetMetric()[0].GetHistogram().GetBucket()[0].GetCumulativeCount())
	require.Nil(t, fs["sloengine_never_seconds"], "nothing was observed")
	require.Equal(t, dto.MetricType_COUNTER, fs["sloengine_sink_delivered_items_total"].GetType())
	require.Empty(t, fs["sloengine_sink_delivered_items_total"].GetHelp())

	// The other formats say the same.
	om := b.get("/metrics", "Accept", "application/openmetrics-text;version=1.0.0").Body.String()
	require.Contains(t, om, "# HELP sloengine_sink_call_seconds Time of \\\\ a call.\n# TYPE sloengine_sink_call_seconds histogram\n")
	rec := b.get("/metrics", "Accept", "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited")
	dec := expfmt.NewDecoder(rec.Body, expfmt.ResponseFormat(rec.Header()))
	for {
		var f dto.MetricFamily
		require.NoError(t, dec.Decode(&f))
		if f.GetName() == "sloengine_sink_call_seconds" {
			require.Equal(t, `Time of \ a call.`, f.GetHelp())
			require.Equal(t, dto.MetricType_HISTOGRAM, f.GetType())
			break
		}
	}
}
