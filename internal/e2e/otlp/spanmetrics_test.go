package otlp

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/nettest"
)

// The Collector counts the same spans by its own span metrics, in the same requests and failures.
func TestSpanMetricsAgree(t *testing.T) {
	t.Parallel()
	e := startEngine(t, "")
	e.WaitReady(t)
	metrics := nettest.FreeAddress(t)
	c := startCollector(t, fmt.Sprintf(`
processors: {batch: {timeout: 100ms}}
exporters: {%s, prometheus: {endpoint: %s}}
connectors: {spanmetrics: {metrics_flush_interval: 200ms}}
service:
  telemetry: {metrics: {level: none}, logs: {level: error}}
  extensions: [file_storage]
  pipelines:
    traces: {receivers: [otlp], processors: [batch], exporters: [otlphttp, spanmetrics]}
    metrics: {receivers: [spanmetrics], exporters: [prometheus]}
`, fmt.Sprintf(exporters[protobuf], e.http), metrics))
	shops := startShops(t, []string{"python", "node"}, grpc, c.endpoint(grpc))
	v := visit(t, 20*time.Millisecond, shops...)
	testkit.Pause(2 * time.Second)
	e.sameAs(t, v, shops...)
	for _, s := range shops {
		want := e.counted(t, s.service, "all", func(l map[string]string) string { return l["result"] })
		require.NotEmpty(t, want)
		testkit.Eventually(t, fmt.Sprintf("span metrics %v of %s", want, s.service), func() bool {
			got, err := spanMetrics(metrics)
			return err == nil && got[series{s.service, false}] == want["good"] && got[series{s.service, true}] == want["bad"]
		})
	}
	e.Stop(t)
}

// series is one of the Collector.
type series struct {
	service string
	failed  bool
}

// spanMetrics are the spans of kind SERVER that the Collector has counted.
func spanMetrics(address string) (map[series]int, error) {
	res, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(res.Body)
	out := map[series]int{}
	for _, m := range families["traces_span_metrics_calls_total"].GetMetric() {
		if l := labelsOf(m); l["span_kind"] == "SPAN_KIND_SERVER" {
			out[series{l["service_name"], l["status_code"] == "STATUS_CODE_ERROR"}] += int(m.Counter.GetValue())
		}
	}
	return out, err
}

// scraper adds up the increases of the Collector's counters, as Prometheus would: a smaller value is a new counter.
type scraper struct {
	last    map[series]int
	minutes map[string]map[result]int // of a service
}

func (s *scraper) scrape(address string) {
	now, err := spanMetrics(address)
	if err != nil {
		return // it is down
	}
	for key, n := range now {
		rise := n - s.last[key]
		if rise < 0 {
			rise = n
		}
		if s.minutes[key.service] == nil {
			s.minutes[key.service] = map[result]int{}
		}
		s.minutes[key.service][result{time.Now().Unix() / 60 * 60, key.failed}] += rise
		s.last[key] = n
	}
}

// fault is what happens to the spans of a service of the same name.
type fault struct {
	name  string
	mu    sync.Mutex
	truth map[result]int
	ids   map[string]int // each once
}

// batch is a request of spans that ended so long ago.
func (f *fault) batch(t *testing.T, ago time.Duration) []byte {
	spans := &trace.ScopeSpans{}
	f.mu.Lock()
	defer f.mu.Unlock()
	for range 20 {
		id := protowire.AppendFixed64(protowire.AppendFixed64(nil, rand.Uint64()), rand.Uint64()|1)
		end := time.Now().Add(-ago)
		span := &trace.Span{TraceId: id, SpanId: id[8:], Name: "GET /items", Kind: trace.Span_SPAN_KIND_SERVER,
			StartTimeUnixNano: uint64(end.UnixNano() - 1e6), EndTimeUnixNano: uint64(end.UnixNano()), Status: &trace.Status{}}
		failed := rand.IntN(10) == 0
		if failed {
			span.Status.Code = trace.Status_STATUS_CODE_ERROR
		}
		spans.Spans = append(spans.Spans, span)
		f.truth[result{end.Unix() / 60 * 60, failed}]++
		f.ids[fmt.Sprintf("%x", id)] = 1
	}
	body, err := proto.Marshal(&trace.TracesData{ResourceSpans: []*trace.ResourceSpans{{
		Resource: &resource.Resource{Attributes: []*common.KeyValue{{Key: "service.name",
			Value: &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: f.name}}}}},
		ScopeSpans: []*trace.ScopeSpans{spans}}}})
	if err != nil {
		t.Error(err)
	}
	return body
}

// deliver sends a request to an address until it is answered.
func deliver(t *testing.T, address string, body []byte) {
	for until := time.Now().Add(testkit.Patience); time.Now().Before(until); testkit.Pause(20 * time.Millisecond) {
		res, err := http.Post("http://"+address+"/v1/traces", "application/x-protobuf", bytes.NewReader(body))
		if err != nil {
			continue
		}
		_, _ = io.Copy(io.Discard, res.Body) // only the status is of interest
		res.Body.Close()
		if res.StatusCode == http.StatusOK {
			return
		}
	}
	t.Error("no answer from", address)
}

// off is how far counts are from the truth: in all, and the differences of all minutes. Both are shares of all spans.
func off(truth, counted map[result]int) (total, byMinute float64) {
	keys := map[result]bool{}
	for _, counts := range []map[result]int{truth, counted} {
		for r := range counts {
			keys[r] = true
		}
	}
	sum, diff, wrong := 0, 0, 0.0
	for r := range keys {
		sum += truth[r]
		diff += counted[r] - truth[r]
		wrong += math.Abs(float64(counted[r] - truth[r]))
	}
	return float64(diff) / float64(sum), wrong / float64(sum)
}

// scrapeEvery is half as long as the shortest time between kills, so that few new counters are taken for old ones.
const scrapeEvery = 500 * time.Millisecond

// TestCrashBesideSpanMetrics sends the same spans to the engine and to a Collector that counts them: while both are
// killed, with every tenth request sent twice, and two minutes late.
func TestCrashBesideSpanMetrics(t *testing.T) {
	t.Parallel()
	var faults []*fault
	var specs []string
	for _, name := range []string{"killed", "resent", "late"} {
		faults = append(faults, &fault{name: name, truth: map[result]int{}, ids: map[string]int{}})
		specs = append(specs, fmt.Sprintf(shopSpec, name))
	}
	killed, resent, late := faults[0], faults[1], faults[2]
	e := startEngine(t, "", specs...)
	e.WaitReady(t)
	metrics := nettest.FreeAddress(t)
	c := startCollector(t, fmt.Sprintf(`
exporters: {prometheus: {endpoint: %s}}
connectors: {spanmetrics: {metrics_flush_interval: 200ms}}
service:
  telemetry: {metrics: {level: none}, logs: {level: error}}
  extensions: [file_storage]
  pipelines:
    traces: {receivers: [otlp], exporters: [spanmetrics]}
    metrics: {receivers: [spanmetrics], exporters: [prometheus]}
`, metrics))
	theirs := &scraper{last: map[series]int{}, minutes: map[string]map[result]int{}}
	done := make(chan struct{})
	var scrapes, senders sync.WaitGroup
	scrapes.Go(func() {
		for {
			theirs.scrape(metrics)
			select {
			case <-done:
				theirs.scrape(metrics)
				return
			case <-time.After(scrapeEvery):
			}
		}
	})
	both := func(body []byte) {
		var sent sync.WaitGroup
		sent.Go(func() { deliver(t, e.http, body) })
		sent.Go(func() { deliver(t, c.http, body) })
		sent.Wait()
	}
	end := make(chan struct{})
	for range 2 {
		senders.Go(func() {
			for {
				select {
				case <-end:
					return
				case <-time.After(50 * time.Millisecond):
					both(killed.batch(t, 0))
				}
			}
		})
	}
	began := time.Now()
	for range kills() {
		testkit.Pause(2 * scrapeEvery)
		pause(2 * scrapeEvery)
		e.Kill()
		c.kill()
		e2etest.RequireKilled(t, e.Process)
		c.start(t)
		e.start(t)
	}
	testkit.Pause(2 * scrapeEvery)
	close(end)
	senders.Wait()
	intervals := float64(time.Since(began)) / float64(scrapeEvery) / float64(kills())
	for i := range 40 {
		body := resent.batch(t, 0)
		for range 1 + (i%10)/9 {
			both(body)
		}
	}
	for range 40 {
		both(late.batch(t, 2*time.Minute))
	}
	testkit.Pause(time.Second) // until the Collector has them all in its metrics
	close(done)
	scrapes.Wait()

	e.WaitReady(t)
	for _, f := range faults {
		testkit.Eventually(t, "all spans count", func() bool {
			return len(e.counted(t, f.name, "traces", traceOf)) >= len(f.ids)
		})
	}
	e2etest.Reports(t, e.Process, 5) // what would be counted twice now
	for _, f := range faults {
		require.True(t, maps.Equal(f.ids, e.counted(t, f.name, "traces", traceOf)), "every span of %s counts once", f.name)
		total, byMinute := off(f.truth, e.minutes(t, f.name))
		require.Zero(t, total, f.name)
		require.Zero(t, byMinute, f.name)
		total, byMinute = off(f.truth, theirs.minutes[f.name])
		t.Logf("%s: %d spans, spanmetrics are off by %+.1f%% in all, %.1f%% by minute", f.name, len(f.ids), 100*total,
			100*byMinute)
		if f == killed {
			t.Logf("a kill loses the spans of %.2f scrape intervals", -total*intervals)
		}
	}
	e.Stop(t)
}

func traceOf(labels map[string]string) string { return labels["trace_id"] }
