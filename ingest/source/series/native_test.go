package series

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/prompb"
	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser/posrange"
	"github.com/stretchr/testify/require"
)

// within04 is an SLO on the native histograms of took_seconds, which are good up to 0.4 s.
var within04 = Unit{Stream: "main 3", Form: Rates, Good: true,
	Total: `histogram_count(sum by (route) (rate(took_seconds{job="web"}[45s])))`,
	Part: `histogram_count(sum by (route) (rate(took_seconds{job="web"}[45s]))) * ` +
		`histogram_fraction(0, 0.4, sum by (route) (rate(took_seconds{job="web"}[45s])))`,
	SLOs: []SLO{{Service: "shop~prometheus", Type: "latency", GroupBy: []string{"route"}, Attributes: []string{"route"}}}}

const tookSeries = `took_seconds{instance="a",job="web",route="/"}`

func TestSpanOfQueries(t *testing.T) {
	const x = `sum by (route) (rate(took{a="b"}[$window]))`
	count, share := "histogram_count("+x+")", "histogram_fraction(-Inf, 0.4, "+x+")"
	for part, outside := range map[string]bool{
		count + " * " + share:                        false,
		share + " * (" + count + ")":                 false,
		count + " * (1 - " + share + ")":             true,
		"(1 - " + share + ") * " + count:             true,
		count + " - " + count + " * " + share:        true,
		count + " - (" + share + " * " + count + ")": true,
	} {
		s, err := newSpan(strings.ReplaceAll(count, "$window", "1m"), strings.ReplaceAll(part, "$window", "1m"))
		require.NoError(t, err, part)
		require.Equal(t, span{`took{a="b"}`, math.Inf(-1), 0.4, outside}, s, part)
	}
	const plain = "histogram_count(rate(took[1m]))"
	for total, part := range map[string]string{
		"sum(rate(took_count[1m]))": "sum(rate(took_bucket[1m]))",
		plain:                       "histogram_fraction(0, 0.4, rate(took[1m]))",
		plain + " ":                 plain + " * histogram_fraction(0, 0.4, rate(other[1m]))",
		"(" + plain + ")":           plain + " * histogram_fraction(0, 0.4, rate(took[5m]))",
		plain + "  ":                plain + " * on (job) histogram_fraction(0, 0.4, rate(took[1m]))",
		plain + "   ":               plain + " * histogram_fraction(0, scalar(a), rate(took[1m]))",
		plain + "    ":              "(" + plain + " - " + plain + ") * histogram_fraction(0, 0.4, rate(took[1m]))",
		plain + "     ":             plain + " * histogram_fraction(0.4, 0, rate(took[1m]))",
		strings.ReplaceAll(plain, "took[1m]", "took[1m] offset 5m"): strings.ReplaceAll(
			plain+" * histogram_fraction(0, 0.4, rate(took[1m]))", "took[1m]", "took[1m] offset 5m"),
		strings.ReplaceAll(plain, "rate", "deriv"): strings.ReplaceAll(
			plain+" * histogram_fraction(0, 0.4, rate(took[1m]))", "rate", "deriv"),
	} {
		require.Empty(t, NativeSelector(total, part), "%s and %s", total, part)
	}
}

// nativeBody is a request with native histograms of a series, by the official encoders.
func nativeBody(t testing.TB, v2 bool, series string, began time.Time, of ...prompb.Histogram) []byte {
	if !v2 {
		one := prompb.TimeSeries{Histograms: of}
		labelsOf(t, series).Range(func(l labels.Label) {
			one.Labels = append(one.Labels, prompb.Label{Name: l.Name, Value: l.Value})
		})
		body, err := (&prompb.WriteRequest{Timeseries: []prompb.TimeSeries{one}}).Marshal()
		require.NoError(t, err)
		return body
	}
	table := writev2.NewSymbolTable()
	one := writev2.TimeSeries{LabelsRefs: table.SymbolizeLabels(labelsOf(t, series), nil)}
	for _, h := range of {
		if h.IsFloatHistogram() {
			one.Histograms = append(one.Histograms, writev2.FromFloatHistogram(millis(began), h.Timestamp, h.ToFloatHistogram()))
		} else {
			one.Histograms = append(one.Histograms, writev2.FromIntHistogram(millis(began), h.Timestamp, h.ToIntHistogram()))
		}
	}
	body, err := (&writev2.Request{Symbols: table.Symbols(), Timeseries: []writev2.TimeSeries{one}}).Marshal()
	require.NoError(t, err)
	return body
}

// native sends native histograms at the time of the last of them, and a resend, with a kill in between.
func (d *door) native(v2 bool, began time.Time, of ...prompb.Histogram) (out Written) {
	d.t.Helper()
	for _, h := range of {
		if at := time.UnixMilli(h.Timestamp); at.After(d.now) {
			d.now = at
		}
	}
	for range 2 {
		var err error
		out, err = d.Write(d.t.Context(), nativeBody(d.t, v2, tookSeries, began, of...), v2, nil)
		require.NoError(d.t, err)
		d.restart()
	}
	return out
}

// process is one with a native histogram of the Go client, which makes buckets coarser when it has too many.
func process() prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Name: "took_seconds", NativeHistogramBucketFactor: 1.05,
		NativeHistogramMaxBucketNumber: 30, NativeHistogramMaxZeroThreshold: 0.02})
}

// collect is what a scrape of it has.
func collect(t testing.TB, p prometheus.Histogram) *histogram.Histogram {
	var m dto.Metric
	require.NoError(t, p.Write(&m))
	in := m.GetHistogram()
	spans := func(list []*dto.BucketSpan) (out []histogram.Span) {
		for _, s := range list {
			out = append(out, histogram.Span{Offset: s.GetOffset(), Length: s.GetLength()})
		}
		return out
	}
	return &histogram.Histogram{Count: in.GetSampleCount(), Sum: in.GetSampleSum(), Schema: in.GetSchema(),
		ZeroThreshold: in.GetZeroThreshold(), ZeroCount: in.GetZeroCount(),
		PositiveSpans: spans(in.GetPositiveSpan()), PositiveBuckets: in.GetPositiveDelta(),
		NegativeSpans: spans(in.GetNegativeSpan()), NegativeBuckets: in.GetNegativeDelta()}
}

func encode(h *histogram.Histogram, at time.Time, float bool) prompb.Histogram {
	if float {
		return prompb.FromFloatHistogram(millis(at), h.ToFloat(nil))
	}
	return prompb.FromIntHistogram(millis(at), h)
}

// Processes of the Go client observe durations, make their buckets coarser, and are killed. All events count, and those
// up to the threshold but for the bucket that holds it.
func TestNativeHistogram(t *testing.T) {
	for name, form := range map[string]struct{ v2, float, hint bool }{"1.0": {}, "1.0 float": {float: true},
		"2.0": {v2: true}, "2.0 float": {v2: true, float: true}, "1.0 with hints": {hint: true}} {
		t.Run(name, func(t *testing.T) {
			d := newDoor(t, nil, within04)
			random := rand.New(rand.NewPCG(1, 2))
			p, started, events, good, unsure, before := process(), at(-60), 0, 0, 0, int32(8)
			schemas := map[int32]bool{}
			for i := range 200 {
				hint := histogram.UnknownCounterReset
				if i > 0 && i%17 == 0 {
					if p, started, before = process(), at(15*i-10), 8; form.hint {
						hint = histogram.CounterReset
					}
				}
				durations := make([]float64, random.IntN(100))
				for j := range durations {
					durations[j] = math.Exp(random.NormFloat64()*float64(1+i%17)/8 - 1)
					p.Observe(durations[j])
				}
				h := collect(t, p)
				h.CounterResetHint = hint
				began := started
				if !form.v2 {
					began = time.Time{}
				}
				schemas[h.Schema] = true
				require.Equal(t, Written{Histograms: 1}, d.native(form.v2, began, encode(h, at(15*i), form.float)))
				if i == 0 {
					before = h.Schema
					continue // counting begins
				}
				events += len(durations)
				base := math.Pow(2, math.Pow(2, -float64(min(before, h.Schema))))
				upper := math.Pow(base, math.Ceil(math.Log(0.4)/math.Log(base)))
				for _, x := range durations {
					if x <= 0.4 {
						good++
					}
					if x > upper/base && x <= upper {
						unsure++
					}
				}
				before = h.Schema
				require.Equal(t, events, d.total(), "after %d", i)
			}
			require.Greater(t, len(schemas), 1, "buckets became coarser")
			ok := d.store.sums["shop~prometheus/latency route=/ success"]
			require.Equal(t, events, d.total())
			require.InDelta(t, good, ok, float64(unsure))
			require.InDelta(t, good, ok, 0.02*float64(good), "they are spread in the bucket")
			require.Less(t, unsure, good/2)
		})
	}
}

// The share of a range is that of PromQL.
func TestWithinIsHistogramFraction(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		p := process()
		for range random.IntN(50) + 1 {
			p.Observe(random.NormFloat64() * math.Exp(random.NormFloat64()*4))
		}
		f := collect(t, p).ToFloat(nil)
		if random.IntN(3) == 0 {
			f = custom(0, 3, 2, 5, 1).ToFloat(nil)
		}
		s := span{lower: random.NormFloat64(), upper: math.Inf(1)}
		if random.IntN(2) == 0 {
			s.upper = s.lower + random.Float64()
		}
		want, _ := promql.HistogramFraction(s.lower, s.upper, f, "", posrange.PositionRange{})
		require.InDelta(t, want*f.Count, s.within(f), 1e-6, "%v %v", s, f)
		s.outside = true
		require.InDelta(t, (1-want)*f.Count, s.within(f), 1e-6)
	}
}

// custom is a histogram with the bounds 0.1, 0.4 and 1, and the counts of its four buckets.
func custom(at int, counts ...int64) *histogram.Histogram {
	h := &histogram.Histogram{Schema: histogram.CustomBucketsSchema, CustomValues: []float64{0.1, 0.4, 1},
		PositiveSpans: []histogram.Span{{Length: uint32(len(counts))}}, Sum: float64(at)}
	last := int64(0)
	for _, n := range counts {
		h.PositiveBuckets = append(h.PositiveBuckets, n-last)
		h.Count, last = h.Count+uint64(n), n
	}
	return h
}

// A classic histogram that was made a native one counts at its bounds exactly.
func TestCustomBuckets(t *testing.T) {
	for _, float := range []bool{false, true} {
		d := newDoor(t, nil, within04)
		for i, h := range []*histogram.Histogram{custom(0, 1e9, 1e9, 1e9, 1e9), custom(15, 1e9+3, 1e9+4, 1e9+5, 1e9+6),
			custom(30, 2, 0, 1, 0), // it began again
			custom(45, 2, 1, 1, 1)} {
			d.native(false, time.Time{}, encode(h, at(15*i), float))
		}
		require.Equal(t, map[string]int{"shop~prometheus/latency route=/ success": 7 + 2 + 1,
			"shop~prometheus/latency route=/ failure": 11 + 1 + 1}, d.store.sums)
	}
}

// What is no histogram of a counter is refused with a reason, and the good ones of the request are stored.
func TestRefusedHistograms(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*prompb.Histogram)
		want   string
	}{
		"a gauge":      {func(h *prompb.Histogram) { h.ResetHint = prompb.Histogram_GAUGE }, "a gauge histogram"},
		"schema":       {func(h *prompb.Histogram) { h.Schema = 9 }, "schema"},
		"small schema": {func(h *prompb.Histogram) { h.Schema = math.MinInt32 }, "schema"},
		"too few": {func(h *prompb.Histogram) { h.Count = &prompb.Histogram_CountInt{CountInt: 2} },
			"observations found in buckets"},
		"missing bucket": {func(h *prompb.Histogram) { h.PositiveDeltas = h.PositiveDeltas[:1] }, "spans need 2 buckets"},
		"long span":      {func(h *prompb.Histogram) { h.PositiveSpans[0].Length = math.MaxUint32 }, "spans need"},
		"far bucket":     {func(h *prompb.Histogram) { h.PositiveSpans[0].Offset = math.MaxInt32 }, "beyond the range"},
		"far spans": {func(h *prompb.Histogram) {
			h.PositiveSpans = []prompb.BucketSpan{{Offset: 1, Length: 1}, {Offset: math.MaxInt32, Length: 1}}
		}, "beyond the range"},
		"negative span": {func(h *prompb.Histogram) {
			h.PositiveSpans = []prompb.BucketSpan{{Offset: 1, Length: 1}, {Offset: -1, Length: 1}}
		}, "negative"},
		"negative bucket": {func(h *prompb.Histogram) { h.PositiveDeltas[1] = -1000 }, "bucket number 2"},
		"overflow": {func(h *prompb.Histogram) {
			h.ZeroCount = &prompb.Histogram_ZeroCountInt{ZeroCountInt: math.MaxUint64}
		}, "observations found"},
		"NaN": {func(h *prompb.Histogram) {
			h.Count, h.PositiveDeltas = &prompb.Histogram_CountFloat{CountFloat: 3}, nil
			h.PositiveCounts = []float64{math.NaN(), 1}
		}, "a bucket of NaN events"},
		"infinite": {func(h *prompb.Histogram) {
			h.Count, h.PositiveDeltas = &prompb.Histogram_CountFloat{CountFloat: 3}, nil
			h.PositiveCounts = []float64{1, math.Inf(1)}
		}, "a bucket of +Inf events"},
		"infinite zero": {func(h *prompb.Histogram) { h.ZeroThreshold = math.Inf(1) }, "a zero bucket up to +Inf"},
		"many buckets": {func(h *prompb.Histogram) { h.PositiveDeltas = make([]int64, maxBuckets+1) },
			"more than 1000 buckets"},
		"many counts": {func(h *prompb.Histogram) { h.PositiveCounts = make([]float64, maxBuckets+1) },
			"more than 1000 buckets"},
		"many spans": {func(h *prompb.Histogram) { h.PositiveSpans = make([]prompb.BucketSpan, maxBuckets+1) },
			"more than 1000 spans"},
		"bounds": {func(h *prompb.Histogram) { h.CustomValues = []float64{1, 2} }, "custom bounds"},
		"falling bounds": {func(h *prompb.Histogram) {
			h.Schema, h.CustomValues, h.ZeroThreshold = histogram.CustomBucketsSchema, []float64{2, 1, 3}, 0
		}, "custom"},
		"time":   {func(h *prompb.Histogram) { h.Timestamp = -5 }, "the time -5"},
		"future": {func(h *prompb.Histogram) { h.Timestamp = millis(at(4000)) }, "in the future"},
	} {
		t.Run(name, func(t *testing.T) {
			good := func(i int) prompb.Histogram {
				return encode(&histogram.Histogram{Count: uint64(100 + 2*i), Schema: 3, ZeroThreshold: 1e-9,
					PositiveSpans:   []histogram.Span{{Offset: 1, Length: 2}},
					PositiveBuckets: []int64{int64(50 + i), 0}}, at(15*i), false)
			}
			d := newDoor(t, nil, within04)
			d.native(false, time.Time{}, good(0))
			bad := good(1)
			tt.change(&bad)
			out, err := d.Write(t.Context(), nativeBody(t, false, tookSeries, time.Time{}, bad), false, nil)
			require.NoError(t, err)
			require.Equal(t, 1, out.Refused, name)
			require.Zero(t, out.Histograms+out.Samples)
			require.Contains(t, out.Reason, tt.want)
			require.Contains(t, out.Reason, "took_seconds")
			d.now = at(15)
			body := nativeBody(t, false, tookSeries, time.Time{}, bad, good(1))
			out, err = d.Write(t.Context(), body, false, nil)
			require.NoError(t, err)
			require.Equal(t, 1, out.Refused)
			require.Equal(t, 1, out.Histograms)
			require.Equal(t, 2, d.total(), "the good one counts")
			var text strings.Builder
			d.set.WritePrometheus(&text)
			require.Contains(t, text.String(), `sloengine_source_left_out_samples_total{source="main",reason="invalid"} 2`)
		})
	}
}

// A stale marker ends a series, and numbers where histograms are wanted, or the other way round, are left out.
func TestLeftOutHistograms(t *testing.T) {
	d := newDoor(t, nil, within04, errors500)
	body := nativeBody(t, false, tookSeries, time.Time{}, prompb.Histogram{Sum: math.Float64frombits(value.StaleNaN),
		Timestamp: millis(at(0))})
	out, err := d.Write(t.Context(), body, false, nil)
	require.NoError(t, err)
	require.Equal(t, Written{Histograms: 1}, out)
	d.write(sent{series: tookSeries, at: at(0), n: 5})
	body = nativeBody(t, false, `requests_total{job="web",instance="a",route="/"}`, time.Time{},
		encode(custom(0, 1, 1), at(0), false))
	_, err = d.Write(t.Context(), body, false, nil)
	require.NoError(t, err)
	_, err = d.Write(t.Context(), nativeBody(t, false, `unknown{job="web"}`, time.Time{},
		encode(custom(0, 1, 1), at(0), false)),
		false, nil)
	require.NoError(t, err)
	var text strings.Builder
	d.set.WritePrometheus(&text)
	for _, line := range []string{`reason="stale"} 1`, `reason="histogram"} 3`, `reason="unneeded"} 1`} {
		require.Contains(t, text.String(), `sloengine_source_left_out_samples_total{source="main",`+line)
	}
	require.Empty(t, d.store.sums)
}
