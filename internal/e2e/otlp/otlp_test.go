package otlp

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/nettest"
	v1 "github.com/sloengine/sloengine/web/api/v1"
)

var languages = []string{"python", "node", "java"}

// startShops starts a shop of each language.
func startShops(t testing.TB, languages []string, protocol, endpoint string, env ...string) (shops []*shop) {
	t.Helper()
	for _, language := range languages {
		shops = append(shops, startShop(t, language, protocol, endpoint, env...))
	}
	return shops
}

// shopSpec counts each trace, each answer of each route, and all.
const shopSpec = `version: sloengine/v1
service: %s
slos:
  - name: traces
    objective: 99
    window: 1d
    group_by: [trace_id]
    max_groups: 100000
    indicator: {events: {valid: '{type="server"}', bad: '{outcome="failure"}'}}
  - name: routes
    objective: 99
    window: 1d
    group_by: [http_request_method, http_route, http_response_status_code]
    indicator: {events: {valid: '{type="server"}', bad: '{outcome="failure"}'}}
  - {name: all, objective: 99, window: 1d, indicator: {events: {valid: '{type="server"}', bad: '{outcome="failure"}'}}}
`

// engine is one that can be killed and started again at the same addresses.
type engine struct {
	*e2etest.Process
	dir, http, grpc string
	args            []string
}

// startEngine starts one that knows the shops, and further services by their specs. Settings are added to its own.
func startEngine(t *testing.T, settings string, specs ...string) *engine {
	t.Helper()
	specDir := t.TempDir()
	for _, language := range languages {
		specs = append(specs, fmt.Sprintf(shopSpec, language+"-shop"))
	}
	for i, text := range specs {
		e2etest.WriteFile(t, specDir, fmt.Sprintf("%d.yaml", i), text)
	}
	e := &engine{dir: t.TempDir(), http: nettest.FreeAddress(t), grpc: nettest.FreeAddress(t)}
	e.args = []string{"serve", "-f", specDir, "--data-dir", filepath.Join(e.dir, "data"), "--web.listen-address", e.http,
		"-c", e.configure(t, settings)}
	e.start(t)
	return e
}

// configure writes the settings for the next start, and returns their file.
func (e *engine) configure(t *testing.T, settings string) string {
	t.Helper()
	return e2etest.WriteFile(t, e.dir, "engine.yaml", e2etest.CrashSettings+"otlp:\n  grpc: "+e.grpc+"\n"+settings)
}

func (e *engine) start(t *testing.T) {
	t.Helper()
	p, ok := e2etest.Start(t, nil, e.args...)
	require.True(t, ok, p.Log)
	e.Process = p
}

// endpoint is where a sender with the protocol sends.
func (e *engine) endpoint(protocol string) string {
	if protocol == grpc {
		return "http://" + e.grpc
	}
	return "http://" + e.http
}

// counted are the events of an SLO by the value of a label.
func (e *engine) counted(t *testing.T, service, slo string, key func(map[string]string) string) map[string]int {
	t.Helper()
	out := map[string]int{}
	for _, m := range e2etest.Scrape(t, e.Process)["slo_events_total"].GetMetric() {
		labels := labelsOf(m)
		if n := int(m.Counter.GetValue()); labels["service"] == service && labels["slo"] == slo && n > 0 {
			out[key(labels)] += n
		}
	}
	return out
}

func labelsOf(m *dto.Metric) map[string]string {
	labels := map[string]string{}
	for _, l := range m.GetLabel() {
		labels[l.GetName()] = l.GetValue()
	}
	return labels
}

// sameAs holds what the engine counts against what the shops have counted: every trace once, the answers of every
// route, and the good and bad ones of every minute.
func (e *engine) sameAs(t *testing.T, v *visits, shops ...*shop) {
	t.Helper()
	v.stop()
	wants := map[string]map[request]int{}
	sum := 0
	for _, s := range shops {
		wants[s.service] = s.stop(t)
		for _, n := range wants[s.service] {
			sum += n
		}
	}
	e.WaitReady(t)
	counted := 0
	defer func() {
		if t.Failed() {
			t.Logf("%d of %d counted", counted, sum)
		}
	}()
	testkit.Eventually(t, "all requests count", func() bool {
		counted = e2etest.Counted(t, e.Process, "all")
		return counted >= sum
	})
	e2etest.Reports(t, e.Process, 5) // what would be counted twice now
	traced := 0
	for service, want := range wants {
		n := 0
		for id, times := range e.counted(t, service, "traces", traceOf) {
			require.Equal(t, 1, times, "trace %s of %s", id, service)
			if v.traces[id] {
				traced++
			}
			n++
		}
		routes := add(want, func(r request) string { return r.method + " " + r.route + " " + r.status })
		require.Equal(t, routes, e.counted(t, service, "routes", func(l map[string]string) string {
			return l["http_request_method"] + " " + l["http_route"] + " " + l["http_response_status_code"]
		}), service)
		total := 0
		for _, times := range routes {
			total += times
		}
		require.Equal(t, total, n, "traces of %s", service)
		require.Equal(t, add(want, request.result), e.minutes(t, service), service)
		t.Logf("%s: %d requests, each counted once", service, total)
	}
	require.Equal(t, len(v.traces), traced, "traces that visitors began")
	require.Zero(t, e2etest.DeadLetterCount(t, e.Process))
}

// result is a minute and how a request of it ended.
type result struct {
	minute int64
	failed bool
}

func (r request) result() result { return result{r.minute, r.failed()} }

// minutes are the good and bad events of a service by the minute.
func (e *engine) minutes(t *testing.T, service string) map[result]int {
	t.Helper()
	var history v1.History
	now := time.Now().Unix() / 60 * 60
	e2etest.Call(t, http.MethodGet, fmt.Sprintf("%s/api/v1/slos/%s/all/history?from=%d&to=%d&step=1m", e.Base, service,
		now-3600, now+60), "", &history)
	out := map[result]int{}
	for _, p := range history.Points {
		for failed, n := range map[bool]uint64{false: p.Good, true: p.Bad} {
			if n > 0 {
				out[result{p.Start.Unix(), failed}] = int(n)
			}
		}
	}
	return out
}

// Applications with an SDK send to the engine, without a Collector.
func TestSDKs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		protocol  string
		languages []string
		env       []string
	}{
		{protobuf, languages, []string{"OTEL_SEMCONV_STABILITY_OPT_IN=http"}},
		{jsonHTTP, []string{"python", "node"}, nil}, // Java's has no JSON
		{grpc, languages, []string{"OTEL_EXPORTER_OTLP_COMPRESSION=gzip"}},
	} {
		t.Run(c.protocol, func(t *testing.T) {
			e := startEngine(t, "")
			e.WaitReady(t)
			shops := startShops(t, c.languages, c.protocol, e.endpoint(c.protocol), c.env...)
			v := visit(t, 20*time.Millisecond, shops...)
			testkit.Pause(2 * time.Second)
			e.sameAs(t, v, shops...)
			e.Stop(t)
		})
	}
}

// exporters of the Collector to the engine, by protocol. What is in the queue is on disk, so no batch processor, which
// holds spans in memory, stands before it.
var exporters = map[string]string{
	protobuf: `otlphttp: {endpoint: "http://%s", ` + queue + `}`,
	jsonHTTP: `otlphttp: {endpoint: "http://%s", encoding: json, ` + queue + `}`,
	grpc:     `otlp: {endpoint: "%s", tls: {insecure: true}, ` + queue + `}`,
}

const queue = `retry_on_failure: {initial_interval: 50ms, max_interval: 500ms, max_elapsed_time: 0s}, ` +
	`sending_queue: {storage: file_storage, queue_size: 100000, num_consumers: 4, ` +
	`batch: {flush_timeout: 100ms, min_size: 50, max_size: 500}}`

// kills is how often the engine is killed.
func kills() int {
	if os.Getenv("SLOENGINE_SOAK") != "" {
		return 50
	}
	return 5
}

// pause waits for a random time.
func pause(upTo time.Duration) { testkit.Pause(rand.N(upTo)) }

// patient is for SDKs whose receiver is killed. They resend a request five times, each time later.
const patient = "OTEL_EXPORTER_OTLP_TIMEOUT=60000"

// TestCrashSDKs kills the engine while applications send to it. Their SDKs resend what was not answered. Over gRPC that
// of Node (0.223.0) drops what it could not send at once, and Java's agent (2.33.1) what was on its way.
func TestCrashSDKs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		protocol  string
		languages []string
		kills     int
	}{
		protobuf: {protobuf, []string{"python", "node"}, kills()},
		jsonHTTP: {jsonHTTP, []string{"python", "node"}, kills()},
		"java":   {protobuf, []string{"java"}, 2}, // it sends five times within eight seconds
	} {
		t.Run(name, func(t *testing.T) {
			e := startEngine(t, "")
			shops := startShops(t, c.languages, c.protocol, e.endpoint(c.protocol), patient)
			v := visit(t, 20*time.Millisecond, shops...)
			for range c.kills {
				pause(2 * time.Second)
				e.Kill()
				e2etest.RequireKilled(t, e.Process)
				pause(300 * time.Millisecond)
				e.start(t)
			}
			e.sameAs(t, v, shops...)
			e.Stop(t)
		})
	}
}

// TestCrashCollector kills the engine and the Collector in front of it while applications serve requests. In the end
// each request of each application counts once.
func TestCrashCollector(t *testing.T) {
	t.Parallel()
	for protocol, exporter := range exporters {
		t.Run(protocol, func(t *testing.T) {
			e := startEngine(t, "")
			name, address := "otlphttp", e.http
			if protocol == grpc {
				name, address = "otlp", e.grpc
			}
			c := startCollector(t, fmt.Sprintf(`
exporters: {%s}
service:
  telemetry: {metrics: {level: none}, logs: {level: error}}
  extensions: [file_storage]
  pipelines: {traces: {receivers: [otlp], exporters: [%s]}}
`, fmt.Sprintf(exporter, address), name))
			byNode := protocol
			if byNode == grpc {
				byNode = protobuf // see TestCrashSDKs
			}
			shops := []*shop{startShop(t, "python", protocol, c.endpoint(protocol), patient),
				startShop(t, "node", byNode, c.endpoint(byNode), patient)}
			v := visit(t, 20*time.Millisecond, shops...)
			for n := range kills() {
				pause(time.Second)
				e.Kill()
				e2etest.RequireKilled(t, e.Process)
				if n%2 == 1 {
					pause(300 * time.Millisecond)
					c.kill()
					pause(300 * time.Millisecond)
					c.start(t)
				}
				pause(300 * time.Millisecond)
				e.start(t)
			}
			e.sameAs(t, v, shops...)
			e.Stop(t)
		})
	}
}
