package brokers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/prometheus/model/labels"
	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
)

const writtenSpec = counterSpec + `  - name: latency
    objective: 95
    window: 30d
    group_by: [route]
    indicator:
      prometheus: {total: 'took_bucket{job="web",le="+Inf"}', good: 'took_bucket{job="web",le="0.5"}'}
`

const receiveSettings = `evaluator: {interval: 500ms}
sources:
  - name: metrics
    prometheus: {receive: true, scrape_interval: 2s}
`

// exposition is what a service exposes: counters by series.
type exposition struct {
	mu     sync.Mutex
	counts map[string]int
}

// add adds to counters between two scrapes.
func (e *exposition) add(counts map[string]int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for series, n := range counts {
		e.counts[series] += n
	}
}

func (e *exposition) all() map[string]int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.counts)
}

func (e *exposition) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	for series, n := range e.all() {
		fmt.Fprintln(w, series, n)
	}
}

// counted are the good and bad events of an SLO in all groups.
func counted(t *testing.T, p *e2etest.Process, slo string) (sums [2]int) {
	var list struct {
		Items []struct {
			SLO    string            `json:"slo"`
			Group  map[string]string `json:"group"`
			Budget struct {
				Counts struct{ Good, Bad int } `json:"counts"`
			} `json:"budget"`
		} `json:"items"`
	}
	require.NoError(t, json.Unmarshal(e2etest.Get(t, p.Base+"/api/v1/slos?q="+slo), &list))
	for _, x := range list.Items {
		if x.SLO == slo && x.Group["route"] != "" {
			sums[0] += x.Budget.Counts.Good
			sums[1] += x.Budget.Counts.Bad
		}
	}
	return sums
}

const (
	okSeries     = `http_requests_total{route="/cart",type="web",code="200"}`
	failedSeries = `http_requests_total{route="/cart",type="web",code="500"}`
	newSeries    = `http_requests_total{route="/new",type="web",code="503"}`
	allSeries    = `took_bucket{route="/cart",le="+Inf"}`
	fastSeries   = `took_bucket{route="/cart",le="0.5"}`
)

// movingDoor is a URL that leads to an engine, which has another address after each start; nil: it is down.
func movingDoor(t *testing.T) (string, *atomic.Pointer[url.URL]) {
	engine := new(atomic.Pointer[url.URL])
	door := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		to := engine.Load()
		if to == nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		proxy := httputil.NewSingleHostReverseProxy(to)
		proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(door.Close)
	return door.URL, engine
}

// TestWritten: a real Prometheus writes into an engine that is killed again and again, and another engine reads the
// same Prometheus. Both count what happened. A sender of remote write 2.0 does the same besides.
func TestWritten(t *testing.T) {
	t.Parallel()
	needPrometheus(t)
	dir, pollDir := t.TempDir(), t.TempDir()
	web := &exposition{counts: map[string]int{okSeries: 1_000_000_000, failedSeries: 1_000_000, allSeries: 1_000_000_000,
		fastSeries: 900_000_000}}
	target := httptest.NewServer(web)
	defer target.Close()
	door, engine := movingDoor(t)

	spec := e2etest.WriteFile(t, dir, "spec.yaml", writtenSpec+`---
version: sloengine/v1
service: two
slos:
  - name: availability
    objective: 99
    window: 30d
    group_by: [route]
    indicator:
      prometheus: {total: 'http_requests_total{job="two"}', bad: 'http_requests_total{job="two",code=~"5.."}'}
`)
	var p *e2etest.Process
	start := func() {
		var ok bool
		p, ok = e2etest.ServeIn(t, dir, spec, receiveSettings)
		require.True(t, ok && p.WaitReady(t), p.Log)
		to, err := url.Parse(p.Base)
		require.NoError(t, err)
		engine.Store(to)
	}
	start()
	relabel, errOut, code := e2etest.Command(t, "generate", "relabel", "-f", spec)
	require.Zero(t, code, errOut)
	address := startPrometheus(t, dir, target.URL, "",
		fmt.Sprintf("remote_write:\n  - url: %s/api/v1/write\n    queue_config: "+
			"{batch_send_deadline: 500ms, min_backoff: 100ms, max_backoff: 500ms, max_samples_per_send: 3}\n", door)+
			"    "+strings.ReplaceAll(strings.TrimSpace(relabel), "\n", "\n    ")+"\n")
	poll, ok := e2etest.ServeIn(t, pollDir, spec, fmt.Sprintf(`evaluator: {interval: 500ms}
sources:
  - name: metrics
    prometheus: {url: "http://%s", interval: 1s, scrape_interval: 2s, alerts: live}
`, address))
	require.True(t, ok && poll.WaitReady(t), poll.Log)

	stop, sent := make(chan struct{}), make(chan int)
	go sendV2(t, door+"/api/v1/write", stop, sent)

	testkit.Eventually(t, "both engines observe all counters", func() bool {
		return beginnings(t, p) >= 6 && e2etest.Counter(t, poll, "sloengine_source_messages_total") > 30
	})
	testkit.Pause(5 * time.Second) // until first samples of other series count
	truth := map[string]int{}
	for i := range 6 {
		more := map[string]int{okSeries: 90, failedSeries: 10, allSeries: 100, fastSeries: 95}
		if i > 2 {
			more[newSeries] = 3
		}
		web.add(more)
		for series, n := range more {
			truth[series] += n
		}
		testkit.Pause(time.Duration(700+300*i) * time.Millisecond)
		engine.Store(nil)
		p.Kill()
		testkit.Pause(time.Duration(200*i) * time.Millisecond)
		start()
	}
	close(stop)
	two := <-sent
	read := map[string][2]int{
		"availability": {truth[okSeries], truth[failedSeries] + truth[newSeries]},
		"latency":      {truth[fastSeries], truth[allSeries] - truth[fastSeries]},
	}
	written := maps.Clone(read)
	written["availability"] = [2]int{truth[okSeries] + two - two/10, truth[failedSeries] + truth[newSeries] + two/10}
	all := func(p *e2etest.Process) map[string][2]int {
		return map[string][2]int{"availability": counted(t, p, "availability"), "latency": counted(t, p, "latency")}
	}
	t.Cleanup(func() { t.Logf("written %v, counted %v; read %v, counted %v", written, all(p), read, all(poll)) })
	testkit.Eventually(t, "everything is counted",
		func() bool { return maps.Equal(written, all(p)) && maps.Equal(read, all(poll)) })
	testkit.Pause(3 * time.Second)
	require.Equal(t, written, all(p))
	require.Contains(t, sendsAlerts(t, p),
		"The engine sends these alerts (no rules for it are in source metrics (what writes to it cannot be asked)")
}

const nativeSpec = `version: sloengine/v1
service: web
slos:
  - name: latency
    objective: 95
    window: 30d
    group_by: [route]
    indicator:
      prometheus:
        total_query: histogram_count(sum by (route) (rate(took_seconds{job="web"}[$window])))
        good_query: |-
          histogram_count(sum by (route) (rate(took_seconds{job="web"}[$window])))
            * histogram_fraction(0, 0.4, sum by (route) (rate(took_seconds{job="web"}[$window])))
`

// TestWrittenNative: a real Prometheus scrapes a native histogram of a service that is restarted, and writes it into an
// engine that is killed.
func TestWrittenNative(t *testing.T) {
	t.Parallel()
	needPrometheus(t)
	dir := t.TempDir()
	var web atomic.Pointer[http.Handler]
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
		r *http.Request) {
		(*web.Load()).ServeHTTP(w, r)
	}))
	defer target.Close()
	var took prometheus.Observer
	restart := func() {
		r := prometheus.NewRegistry()
		all := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "took_seconds", NativeHistogramBucketFactor: 1.1},
			[]string{"route"})
		r.MustRegister(all)
		took = all.WithLabelValues("/cart")
		h := promhttp.HandlerFor(r, promhttp.HandlerOpts{})
		web.Store(&h)
	}
	restart()
	for range 100_000 {
		took.Observe(0.3)
	}
	spec := e2etest.WriteFile(t, dir, "spec.yaml", nativeSpec)
	door, engine := movingDoor(t)
	start := func() *e2etest.Process {
		p := e2etest.Serve(t, dir, spec, receiveSettings)
		to, err := url.Parse(p.Base)
		require.NoError(t, err)
		engine.Store(to)
		return p
	}
	p := start()
	relabel, errOut, code := e2etest.Command(t, "generate", "relabel", "-f", spec)
	require.Zero(t, code, errOut)
	startPrometheus(t, dir, target.URL, "", fmt.Sprintf("remote_write:\n  - url: %s/api/v1/write\n"+
		"    send_native_histograms: true\n    queue_config: {batch_send_deadline: 500ms, min_backoff: 100ms, max_backoff: "+
		"500ms}\n",
		door)+"    "+strings.ReplaceAll(strings.TrimSpace(relabel), "\n", "\n    ")+"\n",
		"--enable-feature=native-histograms")
	testkit.Eventually(t, "counting begins", func() bool { return beginnings(t, p) >= 1 })
	testkit.Pause(5 * time.Second) // until first samples of other series count
	truth := [2]int{}
	for i := range 4 {
		for j := range 1000 { // none is in the bucket of 0.4 s
			if took.Observe([]float64{0.2, 0.36, 0.7}[j%3]); j%3 < 2 {
				truth[0]++
			} else {
				truth[1]++
			}
		}
		testkit.Pause(2500 * time.Millisecond)
		switch i {
		case 1:
			p.Kill()
			p = start()
		case 2:
			restart()
		}
	}
	t.Cleanup(func() { t.Logf("observed %v, counted %v", truth, counted(t, p, "latency")) })
	testkit.Eventually(t, "everything is counted", func() bool { return truth == counted(t, p, "latency") })
}

// beginnings is how many first samples a receiving engine has.
func beginnings(t *testing.T, p *e2etest.Process) (n float64) {
	for _, m := range e2etest.Scrape(t, p)["sloengine_source_left_out_samples_total"].GetMetric() {
		for _, l := range m.GetLabel() {
			if l.GetValue() == "baseline" {
				n += m.GetCounter().GetValue() + m.GetUntyped().GetValue()
			}
		}
	}
	return n
}

// sendV2 writes samples of counters that grow by 10 with each, one of them of a failure, and hands over how many were
// added to them after the first ones.
func sendV2(t *testing.T, to string, stop <-chan struct{}, sent chan<- int) {
	last := false
	for i := 0; ; i++ {
		select {
		case <-stop:
			last = true
		default:
		}
		table := writev2.NewSymbolTable()
		var req writev2.Request
		for code, n := range map[string]int{"200": 9, "500": 1} {
			req.Timeseries = append(req.Timeseries, writev2.TimeSeries{
				LabelsRefs: table.SymbolizeLabels(labels.FromStrings("__name__", "http_requests_total", "job", "two", "instance",
					"a",
					"route", "/two", "code", code), nil),
				Samples: []writev2.Sample{{Value: float64(1_000_000_000 + n*i), Timestamp: time.Now().UnixMilli()}},
			})
		}
		req.Symbols = table.Symbols()
		body, err := req.Marshal()
		if err != nil {
			t.Error(err)
		}
		for status := 0; status != http.StatusNoContent; {
			post, _ := http.NewRequest(http.MethodPost, to, bytes.NewReader(snappy.Encode(nil, body)))
			post.Header.Set("Content-Type", "application/x-protobuf;proto=io.prometheus.write.v2.Request")
			post.Header.Set("Content-Encoding", "snappy")
			post.Header.Set("X-Prometheus-Remote-Write-Version", "2.0.0")
			res, err := http.DefaultClient.Do(post)
			if err != nil {
				t.Error(err)
				break
			}
			res.Body.Close()
			if status = res.StatusCode; status == http.StatusNoContent {
				if got := res.Header.Get("X-Prometheus-Remote-Write-Samples-Written"); got != "2" {
					t.Errorf("written: %q", got)
				}
			} else {
				testkit.Pause(100 * time.Millisecond)
			}
		}
		if last {
			sent <- 10 * i
			return
		}
		testkit.Pause(300 * time.Millisecond)
	}
}
