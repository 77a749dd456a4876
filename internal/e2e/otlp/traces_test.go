package otlp

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/nettest"
	v1 "github.com/sloengine/sloengine/web/api/v1"
)

const tracedSpec = `version: sloengine/v1
service: shop
slos:
  - name: availability
    objective: 99.999
    window: 30d
    indicator: {events: {valid: '{type=~"server|order"}', bad: '{outcome="failure"}'}}
    alerting: {min_events: 1, ticket: {disabled: true}, tiers: [{severity: page, long: 1h, short: 5m, budget: 2}]}
  - name: latency
    objective: 99
    window: 30d
    indicator: {latency: {valid: '{type="server"}', threshold: 100ms}}
`

const tracedSettings = `evaluator: {interval: 200ms}
checkpoint: {interval: 1h}
web: {trace_url: "https://tempo.example/trace/{trace_id}?from=sloengine"}
otlp: {logs: [{event_name: order.failed, type: order}]}
`

// toldBy are settings that send alerts to a webhook.
const toldBy = `notifications:
  receivers: [{name: oncall, webhook_configs: [{url: %q}]}]
  default: oncall
  timing: {critical: {group_wait: 0s, group_interval: 200ms, repeat_interval: 1s}}
`

// tracesBody is a request of one span of shop in OTLP/JSON.
func tracesBody(id string, at time.Time, took time.Duration, failed bool) string {
	status := 0
	if failed {
		status = 2
	}
	return fmt.Sprintf(`{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name",`+
		`"value":{"stringValue":"shop"}}]},"scopeSpans":[{"spans":[{"traceId":%q,"spanId":"b7ad6b7169203331","name":"GET /",`+
		`"kind":2,"status":{"code":%d},"startTimeUnixNano":"%d",`+
		`"endTimeUnixNano":"%d"}]}]}]}`, id, status, at.Add(-took).UnixNano(), at.UnixNano())
}

// post sends JSON, with a header traceparent if there is one.
func post(t *testing.T, address, body, traceparent string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, address, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	if traceparent != "" {
		req.Header.Set("traceparent", traceparent)
	}
	status, answer := e2etest.Exchange(t, req)
	require.Less(t, status, 300, answer)
}

// traced is a trace id by a digit.
func traced(digit string) string { return strings.Repeat(digit, 32) }

// sendTraced sends bad events whose trace ids come from a span, a log record, a header and an attribute, and good ones.
func sendTraced(t *testing.T, p *e2etest.Process, now time.Time) {
	t.Helper()
	post(t, p.Base+"/v1/traces", tracesBody(traced("1"), now, time.Millisecond, true), "")
	post(t, p.Base+"/v1/traces", tracesBody(traced("2"), now, 250*time.Millisecond, false), "")
	post(t, p.Base+"/v1/traces", tracesBody(traced("9"), now, time.Millisecond, false), "")
	post(t, p.Base+"/v1/logs", fmt.Sprintf(`{"resourceLogs":[{"resource":{"attributes":[{"key":"service.name",`+
		`"value":{"stringValue":"shop"}}]},"scopeLogs":[{"logRecords":[{"eventName":"order.failed","severityNumber":17,`+
		`"timeUnixNano":"%d","traceId":%q}]}]}]}`, now.UnixNano(), traced("3")), "")
	const failed = `{"service":"shop","type":"order","outcome":"failure"%s}`
	post(t, p.Base+"/api/v1/events", "["+fmt.Sprintf(failed, "")+","+fmt.Sprintf(failed, `,"attributes":{"trace_id":"`+
		traced("5")+`"}`)+"]", "00-"+traced("4")+"-b7ad6b7169203331-01")
}

// traceIDs are those that the API gives for an SLO, sorted.
func traceIDs(t *testing.T, p *e2etest.Process, slo string) (ids []string) {
	t.Helper()
	var answer v1.SLOAnswer
	e2etest.Call(t, http.MethodGet, p.Base+"/api/v1/slos/shop/"+slo, "", &answer)
	for _, x := range answer.Traces {
		require.Equal(t, "https://tempo.example/trace/"+x.ID+"?from=sloengine", x.URL)
		ids = append(ids, x.ID)
	}
	slices.Sort(ids)
	return ids
}

// TestFailingTraces: bad events of every protocol leave their trace ids at the SLO, good ones do not, and the paging
// alert links to them. After a restart those are there again whose events are read from the log and carry them.
func TestFailingTraces(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	spec := e2etest.WriteFile(t, dir, "spec.yaml", tracedSpec)
	messages := make(chan []byte, 1000)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // one that is not whole is no message
		messages <- body
	}))
	defer hook.Close()
	settings := tracedSettings + fmt.Sprintf(toldBy, hook.URL)
	p := e2etest.Serve(t, dir, spec, settings)
	sendTraced(t, p, time.Now())
	want := []string{traced("1"), traced("3"), traced("4"), traced("5")}
	testkit.Eventually(t, "all traces are there", func() bool {
		return slices.Equal(want, traceIDs(t, p, "availability"))
	})
	require.Equal(t, []string{traced("2")}, traceIDs(t, p, "latency"))
	page := string(e2etest.Get(t, p.Base+"/slo?id=shop/latency"))
	require.Contains(t, page, `<a href="https://tempo.example/trace/`+traced("2")+`?from=sloengine"`)

	testkit.Eventually(t, "the alert links to all of them", func() bool {
		var message struct {
			Alerts []struct{ Labels, Annotations map[string]string }
		}
		if json.Unmarshal(<-messages, &message) != nil || len(message.Alerts) != 1 {
			return false
		}
		require.Equal(t, "ErrorBudgetBurnPage", message.Alerts[0].Labels["alertname"])
		links := strings.Fields(message.Alerts[0].Annotations["failing_traces"])
		slices.Sort(links)
		return slices.EqualFunc(want, links, func(id, link string) bool {
			return link == "https://tempo.example/trace/"+id+"?from=sloengine"
		})
	})

	p.Kill()
	p = e2etest.Serve(t, dir, spec, settings)
	testkit.Eventually(t, "a report is there", func() bool { return len(traceIDs(t, p, "latency")) > 0 })
	require.Equal(t, []string{traced("1"), traced("5")}, traceIDs(t, p, "availability"),
		"the log has no headers, and of log records no trace ids that no spec names")
}

// TestExemplarsReachPrometheus: a Prometheus that stores exemplars has the trace ids of bad events after a scrape.
func TestExemplarsReachPrometheus(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("prometheus is not installed")
	}
	dir := t.TempDir()
	p := e2etest.Serve(t, dir, e2etest.WriteFile(t, dir, "spec.yaml", tracedSpec), tracedSettings)
	now := time.Now()
	sendTraced(t, p, now)
	config := e2etest.WriteFile(t, dir, "prometheus.yml",
		fmt.Sprintf(`global: {scrape_interval: 200ms, scrape_timeout: 200ms}
scrape_configs: [{job_name: slo, honor_labels: true, static_configs: [{targets: [%q]}]}]
`, strings.TrimPrefix(p.Base, "http://")))
	address := nettest.FreeAddress(t)
	cmd := exec.Command(program, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "prometheus"),
		"--web.listen-address="+address, "--enable-feature=exemplar-storage", "--log.level=warn")
	var log testkit.Buffer
	cmd.Stderr = &log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended already
		_ = cmd.Wait()
		logOf(t, "prometheus", &log)
	})
	stored := func(query string) map[string]float64 {
		out := map[string]float64{}
		res, err := http.Get("http://" + address + "/api/v1/query_exemplars?" + url.Values{"query": {query},
			"start": {fmt.Sprint(now.Unix() - 60)}, "end": {fmt.Sprint(now.Unix() + 60)}}.Encode())
		if err != nil {
			return out
		}
		defer res.Body.Close()
		var answer struct {
			Data []struct {
				Exemplars []struct {
					Labels map[string]string
					Value  float64 `json:",string"`
				}
			}
		}
		if json.NewDecoder(res.Body).Decode(&answer) == nil {
			for _, series := range answer.Data {
				for _, e := range series.Exemplars {
					out[e.Labels["trace_id"]] = e.Value
				}
			}
		}
		return out
	}
	testkit.Eventually(t, "exemplars are stored", func() bool {
		slow := stored(`sloengine_event_duration_seconds_bucket{service="shop",outcome="success"}`)
		bad := stored(`slo_events_total{slo="availability",result="bad"}`)
		return slow[traced("2")] == 0.25 && len(bad) > 0
	}, log.String)
	require.NotContains(t, stored(`slo_events_total`), traced("9"), "it was good")
	require.Contains(t, stored(`slo_events_total{slo="latency"}`), traced("2"))
}
