package web

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/reliability/metric"
	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/site"
	"github.com/sloengine/sloengine/web/status"
)

// parse reads an exposition and fails on series that are there twice.
func parse(t testing.TB, text string) map[string]*dto.MetricFamily {
	t.Helper()
	p := expfmt.NewTextParser(model.UTF8Validation)
	fs, err := p.TextToMetricFamilies(strings.NewReader(text))
	require.NoError(t, err)
	seen := map[string]bool{}
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") {
			key := line[:strings.LastIndexByte(line, ' ')]
			require.False(t, seen[key], "%s is there twice", key)
			seen[key] = true
		}
	}
	return fs
}

func value(f *dto.MetricFamily, want map[string]string) (float64, bool) {
	for _, m := range f.GetMetric() {
		found := 0
		for _, l := range m.Label {
			if v, ok := want[l.GetName()]; ok && v == l.GetValue() {
				found++
			}
		}
		if found == len(want) {
			return m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetUntyped().GetValue(), true
		}
	}
	return 0, false
}

func TestMetrics(t *testing.T) {
	set := metrics.NewSet()
	set.NewCounter(`sloengine_ingest_events_total{result="accepted"}`).Set(12)
	set.NewPrometheusHistogram(`sloengine_wal_sync_seconds`).Update(0.01)
	set.NewGauge(`sloengine_wal_bytes`, func() float64 { return 42 })
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector())
	b := newBench(t, func(o *site.Options) { o.Sets, o.Registry = []*metrics.Set{set}, reg })
	withParts(b.rep)
	b.rep.SLOs[0].SLO.Cost, b.rep.SLOs[0].SLO.Earlier = newCost(t, "12.50", "EUR"), true
	withWork(b.rep)
	withForecasts(b)
	rec := b.get("/metrics")
	require.Equal(t, http.StatusOK, rec.Code)
	require.Contains(t, rec.Header().Get("Content-Type"), "text/plain; version=0.0.4")
	fs := parse(t, rec.Body.String())

	for _, s := range series.All() {
		f := fs[s.Name]
		require.NotNil(t, f, s.Name)
		require.Equal(t, s.Help, f.GetHelp())
		require.Equal(t, strings.ToUpper(string(s.Type)), f.GetType().String())
	}
	slo1 := map[string]string{"slo_id": "insurance-unpaid/availability", "service": "insurance-unpaid",
		"slo": "availability", "product": "MEDCARE"}
	with := func(k, v string) map[string]string {
		m := map[string]string{k: v}
		for k, v := range slo1 {
			m[k] = v
		}
		return m
	}
	r := b.rep.SLOs[0]
	for _, c := range []struct {
		family string
		labels map[string]string
		want   float64
	}{
		{"slo_events_total", with("result", "good"), float64(r.Total.Good)},
		{"slo_events_total", with("result", "bad"), float64(r.Total.Bad)},
		{"slo_backfilled_events_total", with("result", "good"), 30_000},
		{"slo_backfilled_events_total", with("result", "bad"), 12},
		{"slo_cost_total", with("slo_basis", "12.50 EUR per bad event"), 702 * 12.5},
		{"slo_sli_ratio", slo1, r.Budget.SLI},
		{"slo_error_budget_remaining_ratio", slo1, r.Budget.Remaining},
		{"slo_burn_rate", with("window", "1h"), r.Burns[2].Rate},
		{"slo_burn_rate", with("window", "period"), r.Burns[7].Rate},
		{"slo_coverage_ratio", slo1, 1},
		{"slo_info", map[string]string{"slo_id": "insurance-unpaid/availability", "objective": "99.9", "window": "30d",
			"team": "unpaid", "slo_definition": "earlier"}, 1},
		{"sla_composite_score", map[string]string{"service": "insurance-unpaid", "sla": "unpaid", "product": "SOMLT"},
			b.rep.SLAs[1].Score},
		{"sla_component_score", map[string]string{"sla_component": "availability", "product": "SOMLT"},
			100 * b.rep.SLAs[1].Components[0].Points},
		{"sla_violations_total", map[string]string{"sla_type": "processing", "severity": "critical",
			"service": "insurance-unpaid"}, 1204},
		{"sloengine_events_total", map[string]string{"outcome": "failure", "severity": "critical", "product": "SOMLT"}, 702},
		{"sloengine_ingest_events_total", map[string]string{"result": "accepted"}, 12},
		{"sloengine_wal_bytes", nil, 42},
	} {
		got, ok := value(fs[c.family], c.labels)
		require.True(t, ok, "%s%v", c.family, c.labels)
		require.InDelta(t, c.want, got, 1e-9, "%s%v", c.family, c.labels)
	}
	require.Len(t, fs["slo_backfilled_events_total"].Metric, 2, "only of the group that has some")
	require.NotNil(t, fs["go_goroutines"])
	require.Equal(t, dto.MetricType_COUNTER, fs["sloengine_ingest_events_total"].GetType())

	nodata := map[string]string{"slo": "throughput", "product": "TRVL10"}
	for _, family := range []string{"slo_sli_ratio", "slo_error_budget_remaining_ratio", "slo_burn_rate"} {
		_, ok := value(fs[family], nodata)
		require.False(t, ok, "%s without data", family)
	}
	n, ok := value(fs["slo_events_total"], nodata)
	require.True(t, ok, "counters are there from the start")
	require.Zero(t, n)
	_, ok = value(fs["sla_component_score"], map[string]string{"component": "throughput", "product": "TRVL10"})
	require.False(t, ok)
	_, ok = value(fs["sla_violations_total"], map[string]string{"sla_type": "mdm", "severity": "critical"})
	require.False(t, ok, "the limit has no critical level")

	day, ok := value(fs["sla_violations_last_day"], map[string]string{"sla_type": "processing", "severity": "critical"})
	require.True(t, ok)
	require.EqualValues(t, 1204/30, day)
	up, ok := value(fs["slo_up"], map[string]string{"slo": "availability", "product": "MEDCARE"})
	require.True(t, ok)
	require.Contains(t, []float64{0, 1}, up)

	h := fs["sloengine_event_duration_seconds"].Metric[0].GetHistogram()
	require.Equal(t, uint64(1000), h.GetSampleCount())
	require.Equal(t, (123 * time.Hour).Seconds(), h.GetSampleSum())
	require.Equal(t, uint64(980), h.Bucket[2].GetCumulativeCount())
	require.Equal(t, 900.0, h.Bucket[2].GetUpperBound())
}

func TestMetricsNegotiate(t *testing.T) {
	set := metrics.NewSet()
	metric.AlertGaps.Counter(set).Inc()
	b := newBench(t, func(o *site.Options) { o.Sets = []*metrics.Set{set} })
	withParts(b.rep)
	b.rep.SLOs[0].SLO.Cost = newCost(t, "1", "EUR")
	withWork(b.rep)
	withForecasts(b)
	rec := b.get("/metrics", "Accept", "application/openmetrics-text;version=1.0.0", "Accept-Encoding", "gzip")
	require.Contains(t, rec.Header().Get("Content-Type"), "application/openmetrics-text; version=1.0.0")
	require.Equal(t, "gzip", rec.Header().Get("Content-Encoding"))
	z, err := gzip.NewReader(rec.Body)
	require.NoError(t, err)
	body, err := io.ReadAll(z)
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(string(body), "# EOF\n"))
	require.Equal(t, 1, strings.Count(string(body), "# EOF"))
	require.Contains(t, string(body), "# TYPE sloengine_alert_gaps counter\nsloengine_alert_gaps_total 1.0\n")

	require.Equal(t, len(series.All())+1+2+3, len(b.families()),
		"the report's, one of a set, two of the event streams, three of responses")
}

func TestMetricsUntilRecovered(t *testing.T) {
	set := metrics.NewSet()
	set.NewCounter("sloengine_up_total").Inc()
	b := newBench(t, func(o *site.Options) { o.Sets = []*metrics.Set{set} })
	for state, want := range map[status.State]bool{status.Starting: false, status.Recovering: false, status.Failed: false,
		status.Ready: true, status.DiskLow: true, status.Stopping: true, status.Poisoned: true} {
		b.eng.State = state
		fs := parse(t, b.get("/metrics").Body.String())
		require.NotNil(t, fs["sloengine_up_total"])
		require.Equal(t, want, fs["slo_events_total"] != nil, state)
		require.Equal(t, want, fs["sla_composite_score"] != nil, state)
	}
	b.rep, b.eng.State = nil, status.Ready
	require.Nil(t, parse(t, b.get("/metrics").Body.String())["slo_events_total"])
}

func TestHostileLabelValues(t *testing.T) {
	b := newBench(t)
	s := *b.rep.SLOs[0].SLO
	s.GroupBy = []string{"http.status", "http-method", "component", "le", "__name__"}
	s.Labels = map[string]string{"team": "y"} // the reader of specs refuses other names
	s.ID = "x/y"
	for i, bad := range hostile {
		r := newSLOReport(&s, slo.Group{bad, "b", string(rune('a' + i)), "\xff", bad}, 1, 1, 1)
		b.rep.SLOs = append(b.rep.SLOs, r)
	}
	rec := b.get("/metrics")
	require.Equal(t, http.StatusOK, rec.Code)
	fs := parse(t, rec.Body.String())
	n := 0
	for _, m := range fs["slo_sli_ratio"].Metric {
		for _, l := range m.Label {
			require.True(t, model.LegacyValidation.IsValidLabelName(l.GetName()), l.GetName())
			if l.GetName() == "http_status" {
				n++
			}
		}
	}
	require.Equal(t, len(hostile), n)
	_, ok := value(fs["slo_sli_ratio"], map[string]string{"http_status": `\xff\xfe`})
	require.True(t, ok, "broken UTF-8 is shown, not lost")
}

// families scrapes in the format that does not go by text.
func (b *bench) families() []*dto.MetricFamily {
	rec := b.get(
		"/metrics", "Accept", "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited")
	require.Equal(b.t, http.StatusOK, rec.Code)
	dec := expfmt.NewDecoder(rec.Body, expfmt.ResponseFormat(rec.Header()))
	var out []*dto.MetricFamily
	for {
		f := &dto.MetricFamily{}
		if err := dec.Decode(f); err != nil {
			require.ErrorIs(b.t, err, io.EOF)
			return out
		}
		out = append(out, f)
	}
}

// ofReport are the families whose names the report's series have.
func ofReport(fs []*dto.MetricFamily) []*dto.MetricFamily {
	return slices.DeleteFunc(slices.Clone(fs), func(f *dto.MetricFamily) bool {
		return !slices.ContainsFunc(series.All(), func(s *metric.Family) bool { return s.Name == f.GetName() })
	})
}

func TestFamiliesPassTheChecksOfARegistry(t *testing.T) {
	b := newBench(t)
	direct := ofReport(b.families())
	require.NotEmpty(t, direct)
	problems, err := testutil.GatherAndLint(prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		return direct, nil
	}))
	require.NoError(t, err)
	require.Empty(t, problems)
	checked, err := prometheus.Gatherers{prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		return direct, nil
	})}.Gather()
	require.NoError(t, err, "no series is there twice")
	require.Len(t, checked, len(direct))
	for i := range direct {
		require.Equal(t, checked[i].GetName(), direct[i].GetName())
		require.Len(t, direct[i].Metric, len(checked[i].Metric))
	}
}

// flat is every sample of a set of families, by name and sorted labels.
func flat(fs []*dto.MetricFamily) map[string]float64 {
	out := map[string]float64{}
	for _, f := range fs {
		for _, m := range f.Metric {
			labels := map[string]string{}
			for _, l := range m.Label {
				labels[l.GetName()] = l.GetValue()
			}
			key := fmt.Sprintf("%s%v %s %s", f.GetName(), labels, f.GetType(), f.GetHelp())
			out[key] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
			if h := m.GetHistogram(); h != nil {
				out[key+" count"], out[key+" sum"] = float64(h.GetSampleCount()), h.GetSampleSum()
				for _, b := range h.Bucket {
					if !math.IsInf(b.GetUpperBound(), 1) {
						out[fmt.Sprint(key, b.GetUpperBound())] = float64(b.GetCumulativeCount())
					}
				}
			}
		}
	}
	return out
}

func TestFormatsAgree(t *testing.T) {
	b := newBench(t)
	rep := b.rep
	rep.SLOs[0].SLO.Cost = newCost(t, "0.03", "EUR")
	s := *rep.SLOs[0].SLO
	s.ID, s.Window = "z/z", slo.Window{Calendar: slo.Month, Location: time.UTC}
	for _, bad := range hostile {
		rep.SLOs = append(rep.SLOs, newSLOReport(&s, slo.Group{bad}, 123, 4, 3))
	}
	rep.SLOs[0].Coverage, rep.SLOs[1].Rate = math.NaN(), math.Inf(1)
	rep.Thresholds[0].Threshold.Warning, rep.Thresholds[0].Threshold.Each = 0, "critical"
	direct := ofReport(b.families())
	var parsed []*dto.MetricFamily
	for _, f := range parse(t, b.get("/metrics").Body.String()) {
		parsed = append(parsed, f)
	}
	require.Equal(t, flat(direct), flat(ofReport(parsed)))

	// The other text format is held against the library's own encoder, line by line.
	var want bytes.Buffer
	for _, f := range direct {
		_, err := expfmt.MetricFamilyToOpenMetrics(&want, f)
		require.NoError(t, err)
	}
	om := b.get("/metrics", "Accept", "application/openmetrics-text;version=1.0.0").Body.String()
	var got strings.Builder
	for line := range strings.Lines(om) {
		name, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(line, "# HELP "), "# TYPE "), " ")
		name, _, _ = strings.Cut(name, "{")
		for _, s := range series.All() {
			base := strings.TrimSuffix(s.Name, "_total")
			if rest, ok := strings.CutPrefix(name, base); ok &&
				slices.Contains([]string{"", "_total", "_bucket", "_sum", "_count"}, rest) {
				got.WriteString(line)
				break
			}
		}
	}
	require.ElementsMatch(t, canonical(want.String()), canonical(got.String()))
}

var labelPair = regexp.MustCompile(`[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\]|\\.)*"`)

// canonical sorts the labels within each line and writes numbers one way, but
// for whole numbers without a point, which are counts of histograms.
func canonical(text string) []string {
	var out []string
	value := func(line string) string {
		s := strings.TrimSpace(line[strings.LastIndexByte(line, ' '):])
		if v, err := strconv.ParseFloat(s, 64); err == nil && strings.ContainsAny(s, ".e") {
			return strconv.FormatFloat(v, 'e', -1, 64)
		}
		return s
	}
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") {
			labels := labelPair.FindAllString(line, -1)
			slices.Sort(labels)
			line = line[:strings.IndexByte(line, '{')] + strings.Join(labels, ",") + value(line)
		}
		out = append(out, line)
	}
	return out
}

func TestScrapesAreBounded(t *testing.T) {
	stuck := make(chan struct{})
	defer close(stuck)
	b := newBench(t, func(o *site.Options) {
		o.ScrapeTimeout = 20 * time.Millisecond
		o.Registry = prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { <-stuck; return nil, nil })
	})
	for range 4 + 2 {
		require.Equal(t, http.StatusServiceUnavailable, b.get("/metrics").Code)
	}
}

func TestOverlappingFamilies(t *testing.T) {
	set := metrics.NewSet()
	set.NewCounter("slo_events_total").Inc()
	var logged int
	b := newBench(t, func(o *site.Options) { o.Sets, o.LogError = []*metrics.Set{set}, func(string, error) { logged++ } })
	rec := b.get("/metrics")
	require.Equal(t, http.StatusOK, rec.Code, "the scrape goes on")
	parse(t, rec.Body.String())
	require.Equal(t, 1, logged)
}

func benchmarkScrape(b *testing.B, encoding string, fresh bool) {
	x := newBench(b)
	x.rep = many(b, 10_000)
	for b.Loop() {
		if fresh {
			next := *x.rep
			x.rep = &next
		}
		r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
		r.Header.Set("Accept-Encoding", encoding)
		rec := httptest.NewRecorder()
		x.router.ServeHTTP(rec, r)
		require.Equal(b, http.StatusOK, rec.Code)
		b.ReportMetric(float64(rec.Body.Len()), "body-bytes")
	}
}

func BenchmarkScrape10kGroups(b *testing.B)       { benchmarkScrape(b, "identity", true) }
func BenchmarkScrape10kGroupsGzip(b *testing.B)   { benchmarkScrape(b, "gzip", true) }
func BenchmarkScrape10kGroupsSecond(b *testing.B) { benchmarkScrape(b, "identity", false) }
func BenchmarkFamilies10kGroups(b *testing.B) {
	x := newBench(b)
	x.rep = many(b, 10_000)
	for b.Loop() {
		next := *x.rep
		x.rep = &next
		x.get(
			"/metrics", "Accept", "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited")
	}
}

// withCounted gives the report an apdex, a ratio and a volume.
func withCounted(rep *sla.Report) {
	add := func(name string, k slo.IndicatorKind, total slo.Counts, parts *sla.PartCounts, volume *sla.VolumeReport) {
		s := *rep.SLOs[0].SLO
		s.ID, s.GroupBy, s.Cost, s.Indicator = slo.NewID("zoo", name), nil, nil, slo.Indicator{Kind: k}
		rep.SLOs = append(
			rep.SLOs, sla.SLOReport{SLO: &s, State: slo.StateNoData, Total: total, Parts: parts, Volume: volume})
	}
	add("apdex", slo.KindApdex, slo.ApdexCounts(60, 31, 10),
		&sla.PartCounts{Period: []uint64{6, 3, 1}, Total: []uint64{60, 31, 10}}, nil)
	add("conversion", slo.KindRatio, slo.RatioCounts(30, 100),
		&sla.PartCounts{Period: []uint64{3, 10}, Total: []uint64{30, 100}}, nil)
	add("daily", slo.KindVolume, slo.Counts{Good: 400}, nil, &sla.VolumeReport{Events: 40, Target: 100, Expected: 53.5})
}

// TestMetricsOfCountedIndicators is computed by hand: half of 31 tolerated events is good.
func TestMetricsOfCountedIndicators(t *testing.T) {
	b := newBench(t)
	withCounted(b.rep)
	fs := parse(t, b.get("/metrics").Body.String())
	for _, c := range []struct {
		family, slo, label, value string
		want                      float64
	}{
		{"slo_events_total", "apdex", "result", "good", 75.5}, {"slo_events_total", "apdex", "result", "bad", 25.5},
		{"slo_part_events_total", "apdex", "slo_part", "tolerated", 31},
		{"slo_part_events_total", "conversion", "slo_part", "numerator", 30},
		{"slo_part_events_total", "conversion", "slo_part", "denominator", 100},
		{"slo_events_total", "daily", "result", "good", 400},
		{"slo_volume_events", "daily", "slo", "daily", 40}, {"slo_volume_target_events", "daily", "slo", "daily", 100},
		{"slo_volume_expected_events", "daily", "slo", "daily", 53.5},
	} {
		got, ok := value(
			fs[c.family], map[string]string{"slo_id": "zoo/" + c.slo, "service": "zoo", "slo": c.slo, c.label: c.value})
		require.True(t, ok, "%+v", c)
		require.InDelta(t, c.want, got, 1e-9, "%+v", c)
	}
	_, ok := value(fs["slo_events_total"],
		map[string]string{"slo_id": "zoo/conversion", "service": "zoo", "slo": "conversion", "result": "bad"})
	require.False(t, ok, "what is bad of a ratio may become less, so it is no counter")
}

// withParts gives the report what only mean ratios of slices and bands have.
func withParts(rep *sla.Report) {
	withCounted(rep)
	for i := range rep.SLOs {
		if r := &rep.SLOs[i]; r.SLO.ID == "mdm/availability" {
			r.SLO.Budgeting = slo.Budgeting{Method: slo.RatioTimeslices, Slice: time.Minute}
			r.Slices.Ratio = 41_230.25
		}
	}
	rep.SLOs[0].Backfilled = slo.Counts{Good: 30_000, Bad: 12}
	rep.SLAs[0].Components[1].Bands = []sla.BandTotal{{Threshold: 5 * time.Minute, Count: 700},
		{Threshold: 15 * time.Minute, Count: 900}, {Count: 1000}}
}

func TestThresholdGroups(t *testing.T) {
	b := newBench(t)
	r := &b.rep.Thresholds[2]
	r.Threshold.GroupBy = []string{"product"}
	r.Groups = []sla.ThresholdGroup{
		{Group: slo.Group{"MEDCARE"}, Total: sla.Violations{Within: 5, Warning: 3, Critical: 1},
			Day: sla.Violations{Warning: 1}, Month: sla.Violations{Within: 5, Warning: 3, Critical: 1}},
		{Group: slo.Group{"<i>SOMLT"}, Total: sla.Violations{Warning: 4, Critical: 2}, Day: sla.Violations{Critical: 2},
			Month: sla.Violations{Warning: 4, Critical: 2}},
		{Group: slo.Group{"quiet"}, Total: sla.Violations{Within: 7}, Month: sla.Violations{Within: 7}},
	}
	fs := parse(t, b.get("/metrics").Body.String())
	for _, want := range []struct {
		family, product, severity string
		n                         float64
	}{
		{"sla_violations_total", "MEDCARE", "warning", 3}, {"sla_violations_total", "<i>SOMLT", "critical", 2},
		{"sla_violations_total", "quiet", "critical", 0},
		{"sla_violations_last_day", "MEDCARE", "warning", 1}, {"sla_violations_last_day", "MEDCARE", "critical", 0},
		{"sla_violations_last_day", "<i>SOMLT", "critical", 2},
	} {
		n, ok := value(
			fs[want.family], map[string]string{"sla_type": "processing", "product": want.product, "severity": want.severity})
		require.True(t, ok, want)
		require.Equal(t, want.n, n, want)
	}
	_, ok := value(fs["sla_violations_total"], map[string]string{"sla_type": "processing", "product": ""})
	require.False(t, ok, "the sum would count every violation twice")

	var list struct {
		Items []struct {
			Name    string
			GroupBy []string `json:"group_by"`
			Groups  []struct {
				Group map[string]string
				Day   map[string]int `json:"last_24h"`
			}
		}
	}
	require.NoError(t, json.Unmarshal(b.get("/api/v1/thresholds").Body.Bytes(), &list))
	require.Equal(t, []string{"product"}, list.Items[2].GroupBy)
	require.Equal(t, "<i>SOMLT", list.Items[2].Groups[1].Group["product"])
	require.Equal(t, 2, list.Items[2].Groups[1].Day["critical"])
	require.Empty(t, list.Items[0].Groups)

	page := b.get("/slas").Body.String()
	require.NotContains(t, page, "<i>SOMLT")
	worst, other := strings.Index(page, "product &lt;i&gt;SOMLT"), strings.Index(page, "product MEDCARE")
	require.Positive(t, worst)
	require.Greater(t, other, worst, "the group with most critical violations comes first")
	require.NotContains(t, page, "product quiet")
}
