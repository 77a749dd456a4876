package ingest

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/sloengine/sloengine/ingest/counter"
	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/otlp"
	"github.com/sloengine/sloengine/ingest/rejects"
	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/reliability/fsys/fsystest"
	"github.com/sloengine/sloengine/reliability/ratelimit"
)

// spansOf are spans of a service that ended at a time, with ids from a first one on.
func spansOf(service string, end time.Time, first, n int) *trace.TracesData {
	var spans []*trace.Span
	for i := range n {
		id := fmt.Appendf(nil, "%016d", first+i)
		spans = append(spans, &trace.Span{TraceId: id, SpanId: id[8:], Name: "GET /", Kind: trace.Span_SPAN_KIND_SERVER,
			StartTimeUnixNano: uint64(end.UnixNano() - 1e6), EndTimeUnixNano: uint64(end.UnixNano())})
	}
	name := &common.KeyValue{Key: "service.name",
		Value: &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: service}}}
	return &trace.TracesData{ResourceSpans: []*trace.ResourceSpans{{
		Resource: &resource.Resource{Attributes: []*common.KeyValue{name}}, ScopeSpans: []*trace.ScopeSpans{{Spans: spans}}}}}
}

func wire(t testing.TB, data *trace.TracesData) string {
	t.Helper()
	out, err := proto.Marshal(data)
	require.NoError(t, err)
	return string(out)
}

// postSpans posts a body of protobuf, or what the headers say.
func (r *rig) postSpans(body string, h headers) *httptest.ResponseRecorder {
	return r.postTo(TracesPath, body, h)
}

func (r *rig) postTo(path, body string, h headers) *httptest.ResponseRecorder {
	req := httptest.NewRequest("POST", path, strings.NewReader(body))
	req.Header.Set("Content-Type", "application/x-protobuf")
	for k, v := range h {
		req.Header.Set(k, v)
	}
	rec := httptest.NewRecorder()
	r.engine.ServeHTTP(rec, req)
	return rec
}

// reply is the number and the text of an answer in protobuf: code and message of a status, or the spans that are
// refused and why.
func reply(t *testing.T, rec *httptest.ResponseRecorder) (n uint64, text string) {
	t.Helper()
	require.Equal(t, "application/x-protobuf", rec.Header().Get("Content-Type"))
	b := rec.Body.Bytes()
	if rec.Code == http.StatusOK && len(b) > 0 {
		field, typ, size := protowire.ConsumeTag(b)
		require.Equal(t, []any{protowire.Number(1), protowire.BytesType}, []any{field, typ})
		b, _ = protowire.ConsumeBytes(b[size:])
	}
	for len(b) > 0 {
		field, _, size := protowire.ConsumeTag(b)
		b = b[size:]
		if field == 1 {
			n, size = protowire.ConsumeVarint(b)
		} else {
			text, size = protowire.ConsumeString(b)
		}
		b = b[size:]
	}
	return n, text
}

func shopOnly(o *HandlerOptions) {
	o.Catalog = func() event.Catalog { return event.NewCatalog(map[string][]string{"shop": nil}) }
}

func TestSpansAreCountedOnce(t *testing.T) {
	r := newRig(t, shopOnly)
	body := wire(t, spansOf("shop", testNow, 0, 300))
	for range 2 {
		rec := r.postSpans(body, nil)
		require.Equal(t, http.StatusOK, rec.Code, rec.Body)
		require.Empty(t, rec.Body.String(), "nothing is refused")
	}
	require.Equal(t, 300, r.events)
	require.Equal(t, "shop", string(r.last.Service))

	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write([]byte(wire(t, spansOf("shop", testNow, 300, 10))))
	require.NoError(t, z.Close())
	require.Equal(t, http.StatusOK, r.postSpans(packed.String(), headers{"Content-Encoding": "gzip"}).Code)
	require.Equal(t, 310, r.events)

	const asJSON = `{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name",` +
		`"value":{"stringValue":"shop"}}]},"scopeSpans":[{"spans":[{"traceId":"0af7651916cd43dd8448eb211c80319c",` +
		`"spanId":"b7ad6b7169203331","kind":2,"startTimeUnixNano":"1795165199000000000",` +
		`"endTimeUnixNano":"1795165200000000000"}]}]}]}`
	rec := r.postSpans(asJSON, headers{"Content-Type": "application/json; charset=utf-8"})
	require.Equal(t, http.StatusOK, rec.Code)
	require.Equal(t, "{}", rec.Body.String())
	require.Equal(t, 311, r.events)

	rec = r.postSpans("", nil)
	require.Equal(t, http.StatusOK, rec.Code, "a request without spans is a request")
}

func TestLogRecords(t *testing.T) {
	r := newRig(t, func(o *HandlerOptions) {
		shopOnly(o)
		o.Translation.Spans = &otlp.Settings{Logs: []otlp.LogRule{{Event: "order.paid", Type: "order"}}}
	})
	body := `{"resourceLogs":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"shop"}}]},
	"scopeLogs":[
		{"logRecords":[{"eventName":"order.paid","timeUnixNano":"%d"},{"eventName":"other"}]}]}]}`
	for range 2 {
		rec := r.postTo(LogsPath, fmt.Sprintf(body, testNow.UnixNano()), headers{"Content-Type": "application/json"})
		require.Equal(t, http.StatusOK, rec.Code)
		require.Equal(t, "{}", rec.Body.String())
	}
	require.Equal(t, 1, r.events)
	rec := r.postTo(LogsPath, fmt.Sprintf(body, testNow.AddDate(0, 0, -9).UnixNano()),
		headers{"Content-Type": "application/json"})
	require.Contains(t, rec.Body.String(),
		`{"partialSuccess":{"rejectedLogRecords":"1","errorMessage":"1 of 1 log records that`)
	var out bytes.Buffer
	r.set.WritePrometheus(&out)
	require.Contains(t, out.String(), `sloengine_otlp_ignored_total{signal="logs",reason="no_rule"} 3`)
	require.Equal(t, http.StatusBadRequest, r.postTo(LogsPath, "\xff", nil).Code)
}

// A batch may have more events than a request of events: senders of OTLP cannot divide it.
func TestALargeRequestOfSpans(t *testing.T) {
	r := newRig(t, shopOnly)
	require.Equal(t, http.StatusOK, r.postSpans(wire(t, spansOf("shop", testNow, 0, 25_000)), nil).Code)
	require.Equal(t, 25_000, r.events)
}

func TestSpansThatDoNotCount(t *testing.T) {
	r := newRig(t, shopOnly)
	client := spansOf("shop", testNow, 0, 2)
	client.ResourceSpans[0].ScopeSpans[0].Spans[0].Kind = trace.Span_SPAN_KIND_CLIENT
	require.Empty(t, r.postSpans(wire(t, client), nil).Body.String())
	require.Empty(t, r.postSpans(wire(t, spansOf("cart", testNow, 9, 3)), nil).Body.String(), "they are no mistake")
	require.Equal(t, 1, r.events)
	var out bytes.Buffer
	r.set.WritePrometheus(&out)
	require.Contains(t, out.String(), `sloengine_otlp_ignored_total{signal="traces",reason="kind"} 1`)
	require.Contains(t, out.String(), `sloengine_otlp_ignored_total{signal="traces",reason="unknown_service"} 3`)
	require.Contains(t, out.String(), `sloengine_ingest_events_total{result="accepted"} 1`)
}

// Rejected spans are named, listed for operators with a sample, and not sent again.
func TestRejectedSpans(t *testing.T) {
	table := rejects.New(func() bool { return false }, func() time.Time { return testNow })
	r := newRig(t, func(o *HandlerOptions) { shopOnly(o); o.Rejects = table })
	old := spansOf("shop", testNow.Add(-48*time.Hour), 0, 2)
	good := spansOf("shop", testNow, 10, 3)
	good.ResourceSpans = append(good.ResourceSpans, old.ResourceSpans...)
	rec := r.postSpans(wire(t, good), nil)
	require.Equal(t, http.StatusOK, rec.Code)
	n, text := reply(t, rec)
	require.Equal(t, uint64(2), n)
	require.Equal(t, "2 of 5 spans that would count are refused: 2 time_too_old (Time 2026-11-18T09:00:00Z is more than "+
		"24h0m0s ago. Raise ingest.allowed_lateness to count it)", text)
	require.Equal(t, 3, r.events)
	require.Equal(t, "shop", table.Snapshot()[0].Senders[0].Service)
	require.Contains(t, table.Snapshot()[0].Senders[0].Sample, `"type":"server"`)

	rec = r.postSpans(wire(t, old), nil)
	n, _ = reply(t, rec)
	require.Equal(t, http.StatusOK, rec.Code, "all of them")
	require.Equal(t, uint64(2), n)
	require.Equal(t, 3, r.events)
}

func TestTokensOfSpans(t *testing.T) {
	r := newRig(t, shopOnly)
	tokens := filepath.Join(t.TempDir(), "tokens.yaml")
	require.NoError(t, os.WriteFile(tokens, fmt.Appendf(nil, "- {name: a, sha256: %x, allow: [send], services: [cart]}",
		sha256.Sum256([]byte("0123456789abcdef-a"))), 0o600))
	require.NoError(t, r.handler.o.Auth.ReloadTokens(tokens))
	body := wire(t, spansOf("shop", testNow, 0, 1))
	rec := r.postSpans(body, nil)
	require.Equal(t, http.StatusUnauthorized, rec.Code)
	n, text := reply(t, rec)
	require.Equal(t, uint64(16), n, "UNAUTHENTICATED")
	require.Contains(t, text, "unauthorized: ")
	rec = r.postSpans(body, headers{"Authorization": "Bearer 0123456789abcdef-a"})
	require.Equal(t, http.StatusOK, rec.Code)
	n, text = reply(t, rec)
	require.Equal(t, uint64(1), n)
	require.Contains(t, text, "service_not_allowed (This token may not send for service \"shop\")")
	require.Zero(t, r.events)
}

// Senders of OTLP resend after 429 and 503, and drop what has another status.
func TestStatusesOfSpans(t *testing.T) {
	body := wire(t, spansOf("shop", testNow, 0, 4))
	for name, c := range map[string]struct {
		change  func(*HandlerOptions)
		fail    error
		body    string
		header  headers
		status  int
		code    uint64
		message string
	}{
		"broken protobuf": {body: body[:len(body)-3], status: 400, code: 3,
			message: "invalid_protobuf: byte 0: "},
		"broken JSON": {body: "{", header: headers{"Content-Type": "application/json"}, status: 400, code: 3,
			message: "invalid_json: "},
		"content type": {body: body, header: headers{"Content-Type": "text/plain"}, status: 415, code: 3,
			message: "unsupported_media_type: "},
		"encoding": {body: body, header: headers{"Content-Encoding": "br"}, status: 415, code: 3,
			message: "unsupported_encoding: "},
		"no gzip": {body: body, header: headers{"Content-Encoding": "gzip"}, status: 400, code: 3, message: "bad_body: "},
		"too large": {change: func(o *HandlerOptions) { o.MaxBodyBytes = 64 }, body: body, status: 413, code: 3,
			message: "body_too_large: "},
		"disk full": {fail: engine.ErrDiskFull, body: body, status: 503, code: 14, message: "disk_full: "},
		"deadline":  {fail: context.DeadlineExceeded, body: body, status: 503, code: 14, message: "deadline_passed: "},
		"a fault":   {fail: errors.New("boom"), body: body, status: 503, code: 14, message: "internal: "},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(o *HandlerOptions) {
				shopOnly(o)
				if c.change != nil {
					c.change(o)
				}
			})
			r.fail = c.fail
			rec := r.postSpans(c.body, c.header)
			require.Equal(t, c.status, rec.Code)
			require.Equal(t, c.status == 503, rec.Header().Get("Retry-After") != "")
			if c.header["Content-Type"] == "application/json" {
				require.Equal(t, "application/json", rec.Header().Get("Content-Type"))
				require.Contains(t, rec.Body.String(), `{"code":3,"message":"`+c.message)
				return
			}
			code, message := reply(t, rec)
			require.Equal(t, c.code, code)
			require.Contains(t, message, c.message)
		})
	}
}

// A sender cannot resend some spans of a request: if one is throttled, all come again, and those that are stored are
// duplicates then.
func TestThrottledSpans(t *testing.T) {
	r := limitedRig(t, ratelimit.OnExceededThrottle)
	body := wire(t, spansOf("shop", time.Now(), 0, 8))
	rec := r.postSpans(body, nil)
	require.Equal(t, http.StatusTooManyRequests, rec.Code)
	require.NotEmpty(t, rec.Header().Get("Retry-After"))
	code, message := reply(t, rec)
	require.Equal(t, uint64(8), code, "RESOURCE_EXHAUSTED")
	require.Contains(t, message, "5 of 8 spans exceed their rate limits")
	require.Equal(t, http.StatusTooManyRequests, r.postSpans(body, nil).Code)
	require.Equal(t, uint64(3), r.handler.o.Metrics.Totals().Accepted)
	require.Equal(t, uint64(3), r.handler.o.Metrics.Totals().Duplicates)

	r = limitedRig(t, ratelimit.OnExceededDrop)
	rec = r.postSpans(wire(t, spansOf("shop", time.Now(), 0, 8)), nil)
	require.Equal(t, http.StatusOK, rec.Code)
	n, message := reply(t, rec)
	require.Equal(t, uint64(5), n, "dropped ones are lost, and the sender learns it")
	require.Contains(t, message, "5 rate_limit_dropped (exceeds rate limit")
}

// Ids are forgotten when their memory is full. A span that may have been counted with an id that is forgotten becomes a
// dead letter: it does not count twice, and is not lost either.
func TestSpansOfForgottenIDs(t *testing.T) {
	e := runEngine(t, fsystest.New(), "/data", func(o *engine.Options) { o.IDs.Bytes = 1 << 20 }) // room for 26,000 ids
	store, err := dlq.NewMemory(dlq.MemoryOptions{})
	require.NoError(t, err)
	r := newRig(t, func(o *HandlerOptions) {
		shopOnly(o)
		o.Committer, o.Now, o.SaveCritical = e.Engine, time.Now, store.Save
	})
	end := time.Now().Add(-10 * time.Minute) // held back by its sender
	old := wire(t, spansOf("shop", end, 0, 20))
	require.Empty(t, r.postSpans(old, nil).Body.String())
	require.Empty(t, r.postSpans(old, nil).Body.String(), "a resend that is recognised")
	for i := range 9 {
		var lines strings.Builder
		for k := range 10_000 {
			fmt.Fprintf(&lines, "{\"id\":\"%d\",\"service\":\"shop\",\"type\":\"x\"}\n", i*10_000+k)
		}
		require.Equal(t, 202, r.post("", lines.String(), headers{"Content-Type": "application/x-ndjson"}).Code)
	}
	rec := r.postSpans(old, nil)
	require.Equal(t, http.StatusOK, rec.Code)
	n, text := reply(t, rec)
	require.Equal(t, uint64(20), n)
	require.Contains(t, text, "20 of 20 spans that would count are refused: 20 id_forgotten (Ids are known since ")
	require.Contains(t, text, "It is a dead letter")
	r.postSpans(old, nil)
	stats, err := store.Stats(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 20, stats.Count, "one for each span, however often it comes")
	require.Equal(t, map[string]int64{"id_forgotten": 20}, stats.ByReason)
	e.stop()
	require.Equal(t, 90_020, e.state.stored)

	broken := newRig(t, func(o *HandlerOptions) {
		shopOnly(o)
		o.Committer = forgetful{}
		o.SaveCritical = func(context.Context, []dlq.Entry) error { return errors.New("full") }
	})
	require.Equal(t, http.StatusServiceUnavailable, broken.postSpans(wire(t, spansOf("shop", testNow, 0, 1)), nil).Code,
		"without a dead letter the sender keeps it")
}

// forgetful has forgotten the id of every event.
type forgetful struct{}

func (forgetful) Commit(context.Context, *event.Batch) (engine.Result, error) {
	return engine.Result{Forgotten: []int32{0}, KnownSince: 1}, nil
}

func (f forgetful) Admit(ctx context.Context, b *event.Batch, _ *ratelimit.Tickets, _ []int32) (engine.Result, error) {
	return f.Commit(ctx, b)
}

// recorder is a log whose records are applied to the table of counters at once.
type recorder struct {
	*rig
	table *counter.Table
	sum   int // of the counts of the events
}

func (c *recorder) AdmitAt(ctx context.Context, b *event.Batch, _ *ratelimit.Tickets, _ []int32, at engine.Position) (
	engine.Result, error) {
	result, err := c.Commit(ctx, b)
	if err != nil {
		return result, err
	}
	for i := range b.Events {
		var v event.View
		if _, err := v.Parse(b.Event(i)); err != nil {
			return result, err
		}
		c.sum += int(v.Count)
	}
	_, err = c.table.Apply(at.AppendPosition(nil, nil))
	return result, err
}

func (*recorder) CatchUp(context.Context) error { return nil }

// callsOf is what processes of the shop say that they have counted, each with a number of its own.
func callsOf(at time.Time, process, total int) string {
	return fmt.Sprintf(`{"resourceMetrics":[{"resource":{"attributes":[{"key":"service.name",`+
		`"value":{"stringValue":"shop"}},{"key":"service.instance.id","value":{"intValue":"%d"}}]},`+
		`"scopeMetrics":[{"metrics":[{"name":"calls","sum":{"aggregationTemporality":2,"isMonotonic":true,`+
		`"dataPoints":[{"startTimeUnixNano":"%d","timeUnixNano":"%d","asInt":"%d"}`+
		`]}}]}]}]}`, process, testNow.Add(-time.Hour).UnixNano(), at.UnixNano(), total)
}

func newMeterRig(t *testing.T, change func(*HandlerOptions)) *recorder {
	c := &recorder{table: counter.NewTable()}
	c.rig = newRig(t, func(o *HandlerOptions) {
		shopOnly(o)
		o.Translation.Spans = &otlp.Settings{Metrics: []otlp.MetricRule{{Metric: "calls", Type: "call"}}}
		o.Translation.Counters, o.Translation.Recorder = c.table, c
		if change != nil {
			change(o)
		}
	})
	return c
}

var inJSON = headers{"Content-Type": "application/json"}

// However requests of many processes overlap, are refused and sent again, each call counts once.
func TestMetricsCountOnce(t *testing.T) {
	r := newMeterRig(t, nil)
	const processes, exports, each = 8, 20, 7
	for p := range processes {
		require.Equal(t, http.StatusOK, r.postTo(MetricsPath, callsOf(testNow.Add(-time.Minute), p, 1e9), inJSON).Code)
	}
	require.Zero(t, r.sum, "these ran before")
	var senders sync.WaitGroup
	for p := range processes {
		senders.Go(func() {
			for n := 1; n <= exports; n++ {
				body := callsOf(testNow.Add(time.Duration(n-exports)*time.Second), p, 1e9+n*each)
				for range 2 {
					if rec := r.postTo(MetricsPath, body, inJSON); rec.Code != http.StatusOK {
						t.Errorf("answer %d: %s", rec.Code, rec.Body)
					}
				}
			}
		})
	}
	senders.Wait()
	require.Equal(t, processes*exports*each, r.sum)

	r.fail = engine.ErrDiskFull
	next := callsOf(testNow.Add(time.Second), 0, 1e9+exports*each+4)
	rec := r.postTo(MetricsPath, next, inJSON)
	require.Equal(t, http.StatusServiceUnavailable, rec.Code)
	require.NotEmpty(t, rec.Header().Get("Retry-After"))
	r.fail = nil
	before := r.sum
	require.Equal(t, http.StatusOK, r.postTo(MetricsPath, next, inJSON).Code)
	require.Equal(t, before+4, r.sum, "a refused request changes nothing")

	broken := strings.TrimSuffix(callsOf(testNow.Add(2*time.Second), 0, 1e9+exports*each+9), "}]}]}") + `}]},{"sum":7}]}]}`
	require.Equal(t, http.StatusBadRequest, r.postTo(MetricsPath, broken, inJSON).Code)
	require.Equal(t, http.StatusOK, r.postTo(MetricsPath,
		callsOf(testNow.Add(2*time.Second), 0, 1e9+exports*each+9), inJSON).Code)
	require.Equal(t, before+9, r.sum, "nor does one that cannot be read")
	require.Equal(t, processes, r.metric(t, `sloengine_otlp_ignored_total{signal="metrics",reason="first_point"}`))
}

// Points that cannot count are named in an answer that no sender repeats.
func TestMetricsThatAreRefused(t *testing.T) {
	r := newMeterRig(t, nil)
	gauge := strings.Replace(callsOf(testNow, 1, 1), `"isMonotonic":true`, `"isMonotonic":false`, 1)
	rec := r.postTo(MetricsPath, gauge, inJSON)
	require.Equal(t, http.StatusOK, rec.Code)
	require.JSONEq(t,
		`{"partialSuccess":{"rejectedDataPoints":"1","errorMessage":"1 of 1 points that would count are refused: `+
			`1 bad_metric (Metric \"calls\" is a gauge, or a sum that can fall. Only counters and histograms count)"}}`,
		rec.Body.String())
	r = newMeterRig(t, func(o *HandlerOptions) { o.Translation.Counters = nil })
	require.Equal(t, "{}", r.postTo(MetricsPath, gauge, inJSON).Body.String())
}
