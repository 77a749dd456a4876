package otlp

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
)

const benchSpec = `version: sloengine/v1
service: shop
slos:
  - name: availability
    objective: 99.9
    window: 30d
    group_by: [http_route]
    max_groups: 5000
    indicator: {events: {valid: '{type="server"}', bad: '{outcome="failure"}'}}
  - name: latency
    objective: 95
    window: 30d
    group_by: [http_route]
    max_groups: 5000
    indicator: {latency: {valid: '{type="server",outcome="success"}', threshold: 100ms}}
`

// spanMetricsByRoute counts spans and their durations by operation, which is what benchSpec counts.
const spanMetricsByRoute = `
connectors:
  spanmetrics:
    histogram: {explicit: {buckets: [5ms, 10ms, 25ms, 50ms, 100ms, 250ms, 500ms, 1s, 2500ms, 5s]}}
    dimensions: [{name: http.route}]
exporters: {prometheus: {endpoint: "127.0.0.1:0"}}
service:
  extensions: [file_storage]
  telemetry: {metrics: {level: none}}
  pipelines:
    traces: {receivers: [otlp], exporters: [spanmetrics]}
    metrics: {receivers: [spanmetrics], exporters: [prometheus]}
`

// BenchmarkSpansBesideSpanmetrics sends the same requests of 1,000 spans of 280 bytes to the engine, which answers when
// they are on disk, and to a Collector that counts them in memory.
func BenchmarkSpansBesideSpanmetrics(b *testing.B) {
	for _, operations := range []int{20, 2000} {
		b.Run(fmt.Sprintf("operations=%d", operations), func(b *testing.B) {
			var ours, theirs float64
			for range b.N {
				dir := b.TempDir()
				p := e2etest.Serve(b, dir, e2etest.WriteFile(b, dir, "spec.yaml", benchSpec), "")
				ours += spansPerCPUSecond(b, p.Base, p.Cmd.Process.Pid, operations)
				p.Stop(b)
				c := startCollector(b, spanMetricsByRoute)
				theirs += spansPerCPUSecond(b, "http://"+c.http, c.cmd.Process.Pid, operations)
				c.kill()
			}
			b.ReportMetric(ours/float64(b.N), "spans/cpu-s")
			b.ReportMetric(theirs/float64(b.N), "spanmetrics-spans/cpu-s")
			b.ReportMetric(ours/theirs, "ratio")
		})
	}
}

// spanLoad is how long one side is under load.
const spanLoad = 6 * time.Second

func spansPerCPUSecond(b *testing.B, base string, pid, operations int) float64 {
	const perRequest = 1000
	var bodies [16][]byte
	var places [len(bodies)][]int // of the ids in a body
	for i := range bodies {
		bodies[i], places[i] = spansToSend(b, perRequest, operations)
	}
	var sent atomic.Int64
	var serial atomic.Uint64
	before, until := e2etest.CPUSeconds(b, pid), time.Now().Add(spanLoad)
	var senders sync.WaitGroup
	for w := range 4 {
		senders.Go(func() {
			var body []byte
			for i := w; time.Now().Before(until); i++ {
				body = append(body[:0], bodies[i%len(bodies)]...)
				for _, at := range places[i%len(bodies)] {
					binary.BigEndian.PutUint64(body[at:], serial.Add(1))
				}
				res, err := http.Post(base+"/v1/traces", "application/x-protobuf", bytes.NewReader(body))
				if err != nil {
					b.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, res.Body)
				res.Body.Close()
				if res.StatusCode == http.StatusOK {
					sent.Add(perRequest)
				}
			}
		})
	}
	senders.Wait()
	testkit.Pause(time.Second) // what is counted after the answer belongs to the load
	return float64(sent.Load()) / (e2etest.CPUSeconds(b, pid) - before)
}

// spansToSend is a request of spans as an instrumented HTTP server sends them, and where the last 8 bytes of their
// trace ids and the span ids are.
func spansToSend(b *testing.B, n, operations int) (body []byte, places []int) {
	text := func(key, value string) *common.KeyValue {
		return &common.KeyValue{Key: key, Value: &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: value}}}
	}
	in := &trace.ScopeSpans{}
	var ids [][]byte
	for range n {
		id := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, rand.Uint64()), rand.Uint64())
		ids = append(ids, id)
		end := uint64(time.Now().UnixNano())
		route := fmt.Sprintf("/op%d", rand.IntN(operations))
		status := &trace.Status{}
		if rand.IntN(100) == 0 {
			status.Code = trace.Status_STATUS_CODE_ERROR
		}
		in.Spans = append(in.Spans, &trace.Span{TraceId: id, SpanId: id[:8], Name: "GET " + route,
			Kind: trace.Span_SPAN_KIND_SERVER, Status: status, StartTimeUnixNano: end - uint64(rand.IntN(200))*1e6,
			EndTimeUnixNano: end, Attributes: []*common.KeyValue{
				text("http.request.method", "GET"), text("http.route", route), text("url.scheme", "https"),
				text("server.address", "shop.example"), text("network.protocol.version", "1.1"),
				text("user_agent.original", "curl/8.5.0"), {Key: "http.response.status_code",
					Value: &common.AnyValue{Value: &common.AnyValue_IntValue{IntValue: 200}}}}})
	}
	body, err := proto.Marshal(&trace.TracesData{ResourceSpans: []*trace.ResourceSpans{{
		Resource: &resource.Resource{Attributes: []*common.KeyValue{text("service.name", "shop"),
			text("service.version", "1.2.3"), text("deployment.environment.name", "prod")}},
		ScopeSpans: []*trace.ScopeSpans{in}}}})
	require.NoError(b, err)
	from := 0
	for _, id := range ids {
		i := from + bytes.Index(body[from:], id)
		j := i + len(id) + bytes.Index(body[i+len(id):], id[:8])
		places, from = append(places, i+8, j), j+8
	}
	return body, places
}
