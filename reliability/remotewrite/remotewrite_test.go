package remotewrite

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/klauspost/compress/s2"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/testkit"
)

// server takes remote write as Prometheus does, and reads requests with Prometheus' own types.
type server struct {
	t *testing.T

	mu       sync.Mutex
	versions []string             // of the requests
	series   map[string][]float64 // values by labels
	times    map[string][]int64
	types    map[string]string
	answer   func(version string, w http.ResponseWriter) bool // true: it has answered; nil: never
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	packed, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	version := r.Header.Get("X-Prometheus-Remote-Write-Version")
	s.versions = append(s.versions, version)
	if s.answer != nil && s.answer(version, w) {
		return
	}
	body, err := s2.Decode(nil, packed)
	if err != nil || r.Header.Get("Content-Encoding") != "snappy" {
		s.t.Errorf("not snappy: %v", err)
	}
	add := func(ls labels.Labels, value float64, at int64) {
		s.series[ls.String()] = append(s.series[ls.String()], value)
		s.times[ls.String()] = append(s.times[ls.String()], at)
	}
	b := labels.NewScratchBuilder(0)
	switch typ := r.Header.Get("Content-Type"); {
	case typ == requiredV2 && version == "2.0.0":
		var req writev2.Request
		if err := req.Unmarshal(body); err != nil {
			s.t.Errorf("not version 2: %v", err)
		}
		for _, ts := range req.Timeseries {
			ls, err := ts.ToLabels(&b, req.Symbols)
			if err != nil {
				s.t.Error(err)
			}
			add(ls, ts.Samples[0].Value, ts.Samples[0].Timestamp)
			s.types[ls.Get("__name__")] = ts.Metadata.Type.String() + ": " + req.Symbols[ts.Metadata.HelpRef]
		}
		w.Header().Set("X-Prometheus-Remote-Write-Samples-Written", strconv.Itoa(len(req.Timeseries)))
	case typ == requiredV1 && version == "0.1.0":
		var req prompb.WriteRequest
		if err := req.Unmarshal(body); err != nil {
			s.t.Errorf("not version 1: %v", err)
		}
		for _, ts := range req.Timeseries {
			add(ts.ToLabels(&b, nil), ts.Samples[0].Value, ts.Samples[0].Timestamp)
		}
	default:
		s.t.Errorf("unexpected content type %q of version %q", typ, version)
	}
	w.WriteHeader(http.StatusNoContent)
}

// look calls f while no request changes anything.
func (s *server) look(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func newServer(t *testing.T) (*server, string) {
	s := &server{t: t, series: map[string][]float64{}, times: map[string][]int64{}, types: map[string]string{}}
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	return s, srv.URL
}

// writer makes one that collects nothing by itself.
func writer(t *testing.T, dir, url string, log io.Writer, change func(*Options)) *Writer {
	o := Options{Settings: Defaults(), Name: "mimir", URL: url, Dir: dir, Set: metrics.NewSet(),
		Client: &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		Logger: slog.New(slog.NewTextHandler(log, nil))}
	o.Labels = map[string]string{"job": "sloengine", "instance": "a"}
	if change != nil {
		change(&o)
	}
	w, err := New(o)
	require.NoError(t, err)
	return w
}

// run sends until the test, or stop, ends it.
func run(t *testing.T, w *Writer) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.send(ctx)
	}()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

type lockedLog struct {
	mu sync.Mutex
	bytes.Buffer
}

func (l *lockedLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.Write(b)
}

func (l *lockedLog) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.String()
}

func gathered(t *testing.T) prometheus.Gatherer {
	r := prometheus.NewRegistry()
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "slo_events_total", Help: "Events."},
		[]string{"slo", "job", "b"})
	c.WithLabelValues("a", "own", "").Add(3)
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "slo_gauge"})
	g.Set(-1.5)
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "slo_seconds", Buckets: []float64{0.5, 2}})
	h.Observe(1)
	h.Observe(3)
	s := prometheus.NewSummary(prometheus.SummaryOpts{Name: "slo_summary", Objectives: map[float64]float64{0.5: 0}})
	s.Observe(4)
	r.MustRegister(c, g, h, s)
	_, err := r.Gather()
	require.NoError(t, err)
	return r
}

var wantSeries = map[string]float64{
	`{__name__="slo_events_total", instance="a", job="own", slo="a"}`:           3,
	`{__name__="slo_gauge", instance="a", job="sloengine"}`:                     -1.5,
	`{__name__="slo_seconds_bucket", instance="a", job="sloengine", le="0.5"}`:  0,
	`{__name__="slo_seconds_bucket", instance="a", job="sloengine", le="2.0"}`:  1,
	`{__name__="slo_seconds_bucket", instance="a", job="sloengine", le="+Inf"}`: 2,
	`{__name__="slo_seconds_sum", instance="a", job="sloengine"}`:               4,
	`{__name__="slo_seconds_count", instance="a", job="sloengine"}`:             2,
	`{__name__="slo_summary", instance="a", job="sloengine", quantile="0.5"}`:   4,
	`{__name__="slo_summary_sum", instance="a", job="sloengine"}`:               4,
	`{__name__="slo_summary_count", instance="a", job="sloengine"}`:             1,
}

// Every kind of series arrives in both versions as Prometheus reads them, and a server that knows only the first is
// found out by its status, or by the header that it does not send.
func TestVersions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		protobuf string
		answer   func(version string, w http.ResponseWriter) bool
		versions []string
	}{
		{"auto", nil, []string{"2.0.0", "2.0.0"}},
		{"v1", nil, []string{"0.1.0", "0.1.0"}},
		{"auto", func(version string, w http.ResponseWriter) bool {
			if version == "2.0.0" {
				w.WriteHeader(http.StatusUnsupportedMediaType)
			}
			return version == "2.0.0"
		}, []string{"2.0.0", "0.1.0", "0.1.0"}},
		{"auto", func(version string, w http.ResponseWriter) bool { // it reads an empty request of version 1
			if version == "2.0.0" {
				w.WriteHeader(http.StatusNoContent)
			}
			return version == "2.0.0"
		}, []string{"2.0.0", "0.1.0", "0.1.0"}},
	} {
		s, url := newServer(t)
		s.answer = c.answer
		var log lockedLog
		w := writer(t, t.TempDir(), url, &log, func(o *Options) { o.Protobuf = c.protobuf })
		stop := run(t, w)
		now := time.Now().UnixMilli()
		w.save(now-1000, gathered(t))
		w.save(now, gathered(t))
		testkit.Eventually(t, "both are sent", func() bool { return w.sent.Get() == uint64(2*len(wantSeries)) }, log.text)
		stop()
		require.Equal(t, c.versions, s.versions)
		require.Len(t, s.series, len(wantSeries))
		for name, want := range wantSeries {
			require.Equal(t, []float64{want, want}, s.series[name], name)
			require.Equal(t, []int64{now - 1000, now}, s.times[name], name)
		}
		if c.versions[1] == "2.0.0" {
			require.Equal(t, "METRIC_TYPE_COUNTER: Events.", s.types["slo_events_total"])
			require.Equal(t, "METRIC_TYPE_HISTOGRAM: ", s.types["slo_seconds_bucket"])
		}
		require.Equal(t, len(c.versions)-2, strings.Count(log.text(), "uses version 1"))
	}
}

// A failure is retried and holds later samples back, a refusal drops what is refused, and both are logged once.
func TestFailuresAndRefusals(t *testing.T) {
	t.Parallel()
	s, url := newServer(t)
	status := http.StatusServiceUnavailable
	s.answer = func(_ string, w http.ResponseWriter) bool {
		if status != 0 {
			w.Header().Set("Retry-After", "0")
			http.Error(w, "not now", status)
		}
		return status != 0
	}
	var log lockedLog
	w := writer(t, t.TempDir(), url, &log, nil)
	run(t, w)
	now := time.Now().UnixMilli()
	w.save(now-2000, gathered(t))
	w.save(now-1000, gathered(t))
	testkit.Eventually(t, "requests fail", func() bool { return w.failures.Get() > 1 })
	st := w.Status(time.Now())
	require.Equal(t, 2, st.Files)
	require.Positive(t, st.Lag)
	require.ErrorContains(t, st.Failure.Err, "503 Service Unavailable: not now")
	s.look(func() { status = http.StatusBadRequest })
	n := uint64(len(wantSeries))
	testkit.Eventually(t, "both are refused", func() bool { return w.dropped[reasonRefused].Get() == 2*n })
	s.look(func() { status = 0 })
	w.save(now, gathered(t))
	testkit.Eventually(t, "the last is sent", func() bool { return w.sent.Get() == n && w.Status(time.Now()).Files == 0 })
	s.look(func() {
		require.Equal(t, []int64{now}, s.times[`{__name__="slo_gauge", instance="a", job="sloengine"}`])
	})
	for text, want := range map[string]int{"remote write fails, samples wait on disk": 1, "remote write works again": 1,
		"samples are refused and dropped": 1, "samples are accepted again": 1} {
		require.Equal(t, want, strings.Count(log.text(), text), log.text())
	}
	require.Zero(t, w.Status(time.Now()).Lag)
}

// What was not sent is sent by the next process, in order, and the file of an interrupted write is removed.
func TestRestart(t *testing.T) {
	t.Parallel()
	s, url := newServer(t)
	dir := t.TempDir()
	var log lockedLog
	before := writer(t, dir, "http://127.0.0.1:1", &log, nil)
	now := time.Now().UnixMilli()
	for i := range int64(3) {
		before.save(now-3000+1000*i, gathered(t))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "7-1.samples.tmp"), nil, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "notes"), nil, 0o600))
	w := writer(t, dir, url, &log, nil)
	require.Equal(t, 3, w.Status(time.Now()).Files)
	require.NoFileExists(t, filepath.Join(dir, "7-1.samples.tmp"))
	run(t, w)
	testkit.Eventually(t, "all are sent", func() bool { return w.Status(time.Now()).Files == 0 })
	s.look(func() {
		require.Equal(t, []int64{now - 3000, now - 2000, now - 1000},
			s.times[`{__name__="slo_gauge", instance="a", job="sloengine"}`])
	})
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 1, "the files that were sent are gone, and others stay")
}

// Age and bytes are bounded, a damaged file costs what is behind the damage, and all of it counts.
func TestBounds(t *testing.T) {
	t.Parallel()
	s, url := newServer(t)
	dir := t.TempDir()
	var log lockedLog
	w := writer(t, dir, url, &log, nil)
	n := uint64(len(wantSeries))
	now := time.Now().UnixMilli()
	w.save(now-time.Hour.Milliseconds()-1, gathered(t))
	w.save(now-1000, gathered(t))
	w.save(now, gathered(t))
	damaged := w.queue.name(w.queue.shots[1])
	raw, err := os.ReadFile(damaged)
	require.NoError(t, err)
	raw[len(raw)-1] ^= 1
	require.NoError(t, os.WriteFile(damaged, raw, 0o600))
	run(t, w)
	testkit.Eventually(t, "all are done", func() bool { return w.Status(time.Now()).Files == 0 })
	require.Equal(t, n, w.dropped[reasonTooOld].Get())
	require.Equal(t, n, w.dropped[reasonDamaged].Get())
	require.Equal(t, n, w.sent.Get())
	require.Contains(t, log.text(), "cannot be read and are dropped")
	s.look(func() {
		require.Equal(t, []int64{now}, s.times[`{__name__="slo_gauge", instance="a", job="sloengine"}`])
	})

	one := int64(len(raw))
	full := writer(t, t.TempDir(), url, &log, func(o *Options) { o.MaxBytes = 2*one + 1 })
	for i := range int64(4) {
		full.save(now+i, gathered(t))
	}
	require.Equal(t, 2, full.Status(time.Now()).Files)
	require.Equal(t, 2*n, full.dropped[reasonFull].Get())
	files, err := filepath.Glob(filepath.Join(full.o.Dir, "*"))
	require.NoError(t, err)
	require.Len(t, files, 2)

	// While the server is down, samples that become too old are given up.
	old := writer(t, t.TempDir(), "http://127.0.0.1:1", &log, func(o *Options) { o.MaxAge = 300 * time.Millisecond })
	run(t, old)
	old.save(time.Now().UnixMilli(), gathered(t))
	testkit.Eventually(t, "it is too old", func() bool { return old.dropped[reasonTooOld].Get() == n })

	lost := writer(t, t.TempDir(), url, &log, nil)
	require.NoError(t, os.RemoveAll(lost.o.Dir))
	lost.save(now, gathered(t))
	require.Equal(t, n, lost.dropped[reasonNotSaved].Get())
	require.Contains(t, log.text(), "samples cannot be saved and are dropped")
}

// A series that is gone ends with the marker of Prometheus, once, and many series become several requests.
func TestStaleAndChunks(t *testing.T) {
	t.Parallel()
	family := func(from, to int) []*dto.MetricFamily {
		name, typ, label := "slo_x", dto.MetricType_GAUGE, "i"
		f := &dto.MetricFamily{Name: &name, Type: &typ}
		for i := from; i < to; i++ {
			value, of := float64(i), fmt.Sprint(i)
			f.Metric = append(f.Metric, &dto.Metric{Gauge: &dto.Gauge{Value: &value},
				Label: []*dto.LabelPair{{Name: &label, Value: &of}}})
		}
		return []*dto.MetricFamily{f}
	}
	values := func(chunks []chunk) map[string]float64 {
		out := map[string]float64{}
		for _, c := range chunks {
			raw, err := s2.Decode(nil, c.body)
			require.NoError(t, err)
			require.NoError(t, read(raw, func(ls []pair, value float64, _ int64) { out[ls[1].value] = value }))
			require.LessOrEqual(t, c.samples, maxChunkSamples)
		}
		return out
	}
	var s shots
	require.Len(t, s.take(family(0, 5000), 1), 3)
	second := values(s.take(family(10, 5000), 2))
	require.Len(t, second, 5000)
	for i := range 10 {
		require.Equal(t, math.Float64bits(staleMarker), math.Float64bits(second[strconv.Itoa(i)]))
	}
	require.EqualValues(t, 10, second["10"])
	require.Len(t, values(s.take(family(10, 5000), 3)), 4990, "the end is sent once")
	again := values(s.take(family(0, 5000), 4))
	require.EqualValues(t, 7, again["7"])
	twice := append(family(0, 1), family(0, 1)...)
	require.Equal(t, 1, s.take(twice, 5)[0].samples)
}

// Damaged requests are errors, and never a panic.
func TestReadDamaged(t *testing.T) {
	t.Parallel()
	r := newRequest()
	r.add([]pair{{"__name__", "a"}, {"b", "c"}}, 1, 2, kindGauge, "help")
	good := r.bytes()
	for i := range good {
		bad := slices.Clone(good)
		bad[i] ^= 0xff
		_ = read(bad, func([]pair, float64, int64) {})
		_ = read(good[:i], func([]pair, float64, int64) {})
	}
	require.ErrorIs(t, read([]byte{0x22}, nil), errForm)
	_, err := versionOne([]byte{v2Series<<3 | 2, 4, v2LabelRefs<<3 | 2, 2, 9, 9})
	require.ErrorIs(t, err, errForm)
}

func BenchmarkTake(b *testing.B) {
	r := prometheus.NewRegistry()
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "slo_events_total"},
		[]string{"slo", "service", "group", "outcome"})
	for i := range 50_000 {
		c.WithLabelValues("shop/checkout", "shop", fmt.Sprint(i), "good").Add(float64(i))
	}
	r.MustRegister(c)
	families, _ := r.Gather()
	s := shots{labels: sorted(map[string]string{"job": "a", "instance": "b"})}
	size := 0
	for b.Loop() {
		size = 0
		for _, c := range s.take(families, 1) {
			size += len(c.body)
		}
	}
	b.ReportMetric(float64(size)/50_000, "bytes/sample")
}
