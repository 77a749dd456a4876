package otlp_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/otlp"
	"github.com/sloengine/sloengine/ingest/otlp/otlpwire"
	"github.com/sloengine/sloengine/slo/spec"
)

var now = time.Unix(1_800_000_000, 0)

// span is one that lasted 250 ms and ended five seconds ago, with fields in addition or in place of these.
func span(fields string) string {
	out := "{" + fields
	for _, own := range []string{`"traceId":"0af7651916cd43dd8448eb211c80319c"`, `"spanId":"b7ad6b7169203331"`,
		`"startTimeUnixNano":"1799999994750000000"`, `"endTimeUnixNano":"1799999995000000000"`} {
		if key, _, _ := strings.Cut(own, ":"); !strings.Contains(fields, key) {
			out += "," + own
		}
	}
	return out + "}"
}

const eventOf = `{"id":"0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331","time":"2027-01-15T07:59:55Z",` +
	`"service":"shop","type":"server",`

// attrs writes attributes as OTLP/JSON: name=text, name:number.
func attrs(list ...string) string {
	var out []string
	for _, a := range list {
		if key, value, ok := strings.Cut(a, "="); ok {
			out = append(out, fmt.Sprintf(`{"key":%q,"value":{"stringValue":%q}}`, key, value))
		} else {
			key, value, _ := strings.Cut(a, ":")
			out = append(out, fmt.Sprintf(`{"key":%q,"value":{"intValue":%q}}`, key, value))
		}
	}
	return `"attributes":[` + strings.Join(out, ",") + `]`
}

// request is one resource with spans.
func request(resource string, spans ...string) []byte {
	return []byte(`{"resourceSpans":[{"resource":{` + resource + `},"scopeSpans":[{"spans":[` + strings.Join(spans, ",") +
		`]}]}]}`)
}

// mapped is what becomes of the only span of a request: its event, its error or the reason why it does not count.
func mapped(t *testing.T, m *otlp.Mapper, named []string, body []byte) string {
	t.Helper()
	catalog := event.NewCatalog(map[string][]string{"shop": nil, "strict": {"request"}})
	var d event.Decoder
	var b event.Batch
	d.Begin(event.DecodeOptions{Now: now, Catalog: catalog}, &b)
	m.Begin(catalog, func([]byte) []string { return named })
	out := ""
	err := otlpwire.New(otlpwire.Limits{}).TracesJSON(body, func(s *otlpwire.Span) error {
		if draft, why := m.Span(s); draft == nil {
			out += otlp.Reasons()[why]
		} else {
			d.Add(draft)
		}
		return nil
	})
	require.NoError(t, err)
	d.End()
	for _, e := range b.Errors {
		out += string(e.Code) + ": " + e.Detail
		require.Contains(t, string(d.Drafts()[e.From:e.To]), `"service":"shop"`, "the sample of a rejected span")
	}
	for i := range b.Events {
		var v event.View
		_, err := v.Parse(b.Event(i))
		require.NoError(t, err)
		out += string(v.AppendJSON(nil))
	}
	return out
}

func TestWhatCounts(t *testing.T) {
	shop := attrs("service.name=shop")
	plain := eventOf + `"duration_ms":250}`
	failed := eventOf + `"outcome":"failure","duration_ms":250`
	for name, c := range map[string]struct{ span, want string }{
		"a server without a parent":    {`"kind":2`, plain},
		"a server, parent unknown":     {`"kind":2,"parentSpanId":"00f067aa0ba902b7"`, plain},
		"a server, parent elsewhere":   {`"kind":2,"parentSpanId":"00f067aa0ba902b7","flags":768`, plain},
		"a server, parent in process":  {`"kind":2,"parentSpanId":"00f067aa0ba902b7","flags":256`, "local_parent"},
		"a root that says it is local": {`"kind":2,"flags":256`, plain},
		"internal":                     {`"kind":1`, "kind"},
		"client":                       {`"kind":3`, "kind"},
		"producer":                     {`"kind":4`, "kind"},
		"no kind":                      {`"name":"x"`, "kind"},
		"a consumer that says nothing": {`"kind":5`, "operation"},
		"a consumer that receives":     {`"kind":5,` + attrs("messaging.operation.type=receive"), "operation"},
		"a consumer that processes": {`"kind":5,` + attrs("messaging.operation.type=process"),
			strings.Replace(plain, "server", "consumer", 1)},
		"the same, earlier conventions": {`"kind":5,` + attrs("messaging.operation=process"),
			strings.Replace(plain, "server", "consumer", 1)},
		"the same, received in process": {`"kind":5,"parentSpanId":"00f067aa0ba902b7","flags":256,` +
			attrs("messaging.operation=process"), strings.Replace(plain, "server", "consumer", 1)},
		"status error": {`"kind":2,"status":{"code":2}`, failed + "}"},
		"http 503": {`"kind":2,` + attrs("http.response.status_code:503"),
			failed + `,"attributes":{"http_response_status_code":"503"}}`},
		"http 503 with earlier names": {`"kind":2,` + attrs("http.status_code:503"),
			failed + `,"attributes":{"http_response_status_code":"503"}}`},
		"both, and the later name wins": {`"kind":2,` + attrs("http.response.status_code:200", "http.status_code:503"),
			eventOf + `"duration_ms":250,"attributes":{"http_response_status_code":"200"}}`},
		"both, the earlier name first": {`"kind":2,` + attrs("http.status_code:503", "http.response.status_code:200"),
			eventOf + `"duration_ms":250,"attributes":{"http_response_status_code":"200"}}`},
		"http 404": {`"kind":2,` + attrs("http.response.status_code:404"),
			eventOf + `"duration_ms":250,"attributes":{"http_response_status_code":"404"}}`},
		"http 503 and status ok": {`"kind":2,"status":{"code":1},` + attrs("http.response.status_code:503"),
			eventOf + `"duration_ms":250,"attributes":{"http_response_status_code":"503"}}`},
		"grpc UNAVAILABLE":     {`"kind":2,` + attrs("rpc.grpc.status_code:14"), failed + "}"},
		"grpc NOT_FOUND":       {`"kind":2,` + attrs("rpc.grpc.status_code:5"), plain},
		"grpc code as a name":  {`"kind":2,` + attrs("rpc.response.status_code=INTERNAL"), failed + "}"},
		"grpc code that is no": {`"kind":2,` + attrs("rpc.grpc.status_code:-1"), plain},
		"an exception": {`"kind":2,"status":{"code":2},"events":[{"name":"exception",` + attrs("exception.type=IOError") +
			`}]`,
			failed + `,"attributes":{"error_type":"IOError"}}`},
		"sampled one of four": {`"kind":2,"traceState":"x=y, ot=rv:1;th:c"`,
			strings.Replace(plain, `}`, `,"weight":4}`, 1)},
		"a tracestate of nonsense": {`"kind":2,"traceState":"ot=th:zz"`, plain},
		"what is not kept":         {`"kind":2,` + attrs("user_agent.original=curl", "url.query=secret"), plain},
		"no span id": {`"kind":2,"spanId":"0000000000000000"`,
			"bad_id: The trace id must have 16 bytes, the span id and the parent's 8, and neither may be zero."},
		"no end": {`"kind":2,"endTimeUnixNano":"0"`,
			"bad_time: The span has no end, or one after the year 2261."},
		"the end before the start": {`"kind":2,"startTimeUnixNano":"1799999995000000007"`,
			"bad_duration: The span ends 7 ns before it starts. Correct the sender's clock."},
		"no start": {`"kind":2,"startTimeUnixNano":"0"`, "bad_duration: The span lasts more than 366 days, or has no start."},
		"last week": {`"kind":2,"startTimeUnixNano":"1799000000000000000","endTimeUnixNano":"1799000000000000001"`,
			"time_too_old: Time 2027-01-03T18:13:20Z is more than 24h0m0s ago. Raise ingest.allowed_lateness to count it."},
		"tomorrow": {`"kind":2,"endTimeUnixNano":"1800100000000000000"`,
			"time_in_future: Time 2027-01-16T11:46:40Z is more than 1m0s ahead of the server's clock, which shows " +
				"2027-01-15T08:00:00Z. Correct the sender's clock."},
	} {
		t.Run(name, func(t *testing.T) {
			m := otlp.NewMapper(&otlp.Settings{Keep: otlp.DefaultKeep}, nil, nil)
			require.Equal(t, c.want, mapped(t, m, nil, request(shop, span(c.span))))
		})
	}
}

func TestServices(t *testing.T) {
	settings := &otlp.Settings{Services: map[string]string{"eu/web": "shop", "old": "shop"}}
	server := span(`"kind":2`)
	for resource, want := range map[string]string{
		attrs("service.name=shop"):                        eventOf + `"duration_ms":250}`,
		attrs("service.name=web", "service.namespace=eu"): eventOf + `"duration_ms":250}`,
		attrs("service.name=web", "service.namespace=us"): "unknown_service",
		attrs("service.name=old", "service.namespace=us"): eventOf + `"duration_ms":250}`,
		attrs("service.name=strict"):                      "unknown_type",
		attrs("other=1"):                                  "unknown_service",
		"":                                                "unknown_service",
	} {
		require.Equal(t, want, mapped(t, otlp.NewMapper(settings, nil, nil), nil, request(resource, server)), resource)
	}
}

func TestAttributesOfTheSpec(t *testing.T) {
	m := otlp.NewMapper(&otlp.Settings{Keep: []string{"k8s.*.name"}}, nil, nil)
	given := span(`"kind":2,"name":"GET /cart",` + attrs("http.route=/cart", "type=x", "tenant.id:7",
		"big="+strings.Repeat("ä", 200)))
	resource := attrs("service.name=shop", "k8s.pod.name=p1", "k8s.pod.uid=u1", "cloud.region=eu")
	named := []string{"attr_type", "big", "cloud_region", "http_route", "operation", "tenant_id", "trace_id"}
	want := eventOf + `"duration_ms":250,"attributes":{"attr_type":"x","big":"` + strings.Repeat("ä", 128) +
		`","cloud_region":"eu","http_route":"/cart","k8s_pod_name":"p1","operation":"GET /cart","tenant_id":"7",` +
		`"trace_id":"0af7651916cd43dd8448eb211c80319c"}}`
	require.Equal(t, want, mapped(t, m, named, request(resource, given)))
	require.Equal(t, 1, m.Cut())
	require.Equal(t, want, mapped(t, m, named, request(resource, given)), "the same mapper again")
	require.Equal(t, eventOf+`"duration_ms":250}`, mapped(t, m, nil, request(attrs("service.name=shop"), given)),
		"another catalogue: the spec names nothing")
}

func TestRules(t *testing.T) {
	settings := &otlp.Settings{Spans: []otlp.SpanRule{
		{Service: "shop", Name: "GET /health*"},
		{Kind: "internal", Name: "nightly *", Type: "job"},
		{Match: map[string]string{"celery.action": "run"}, Type: "task"},
	}}
	for fields, want := range map[string]string{
		`"kind":2,"name":"GET /healthz"`: "rule",
		`"kind":2,"name":"GET /cart"`:    eventOf + `"duration_ms":250}`,
		`"kind":1,"name":"nightly export"`: strings.Replace(eventOf, "server", "job", 1) +
			`"duration_ms":250}`,
		`"kind":1,"name":"export"`: "kind",
		`"kind":5,"name":"x",` + attrs("celery.action=run"): strings.Replace(eventOf, "server", "task", 1) +
			`"duration_ms":250}`,
	} {
		require.Equal(t, want, mapped(t, otlp.NewMapper(settings, nil, nil), nil,
			request(attrs("service.name=shop"), span(fields))), fields)
	}
}

func TestSettingsAreChecked(t *testing.T) {
	var got []string
	(&otlp.Settings{
		GRPC:     "localhost",
		Keep:     []string{"http.route", "http_route", "a*b*", ""},
		Services: map[string]string{"a": "b c"},
		Sampling: map[string]float64{"a": 0, "b": 0.5, "c": 1.5},
		Spans:    []otlp.SpanRule{{}, {Name: "**", Type: "a b"}},
		Logs:     []otlp.LogRule{{Type: "x"}, {Body: "**"}},
	}).Check(func(place, remedy, text string) { got = append(got, place+": "+text+" ("+remedy+")") })
	require.Equal(t, []string{
		`grpc: "localhost" is not an address (want host and port, such as 127.0.0.1:4317)`,
		`keep[1]: "http.route" and "http_route" are both the attribute http_route (remove one)`,
		`keep[2]: "a*b*" is not the name of an attribute (want a name such as "http.route" or "k8s.*.name")`,
		`keep[3]: "" is not the name of an attribute (want a name such as "http.route" or "k8s.*.name")`,
		`services: "b c" is not the name of a service (want letters, digits, dots, dashes and underscores)`,
		`sampling: the share 0 of a (want a share above 0, at most 1, such as 0.1)`,
		`sampling: the share 1.5 of c (want a share above 0, at most 1, such as 0.1)`,
		`spans[0]: the rule matches every span (add service, name, kind or attributes)`,
		`spans[1].name: "**" has more than one * (use one *)`,
		`spans[1].type: "a b" is not a type (want letters, digits, dots, dashes and underscores)`,
		`logs[0]: the rule matches every log record (add event_name, body or attributes)`,
		`logs[1].body: "**" has more than one * (use one *)`,
		`logs[1].type: "" is not a type (want letters, digits, dots, dashes and underscores)`,
	}, got)
}

func TestNames(t *testing.T) {
	for key, want := range map[string]string{
		"http.route": "http_route", "http.method": "http_request_method", "type": "attr_type", "slo_x": "attr_slo_x",
		"1st": "attr_1st", "operation": "attr_operation", "ключ": "____", "": "attr_", strings.Repeat("a", 200): "",
	} {
		require.Equal(t, want, otlp.AttributeName(key), key)
	}
	for name, want := range map[string]string{
		"shop": "shop", "Checkout Service": "Checkout-Service", "unknown_service:java": "unknown_service-java", "": "",
		" / ": "", "a  b\n": "a-b", "Größe": "Gr-e",
	} {
		require.Equal(t, want, otlp.ServiceName(name), name)
	}
}

// A fractional weight is right in the mean, and the same for a resend.
func TestFractionalWeights(t *testing.T) {
	m := otlp.NewMapper(&otlp.Settings{Sampling: map[string]float64{"shop": 0.3}}, nil, nil)
	sum, n := 0, 3000
	for i := range n {
		given := fmt.Sprintf(`{"traceId":"%032x","spanId":"b7ad6b7169203331","kind":2,`+
			`"endTimeUnixNano":"1799999995000000000","startTimeUnixNano":"1799999994000000000"}`, i+1)
		body := request(attrs("service.name=shop"), given)
		first := mapped(t, m, nil, body)
		require.Equal(t, first, mapped(t, m, nil, body))
		w := 0
		_, err := fmt.Sscanf(first[strings.Index(first, `"weight":`):], `"weight":%d`, &w)
		require.NoError(t, err)
		require.Contains(t, []int{3, 4}, w)
		sum += w
	}
	require.InDelta(t, float64(n)/0.3, float64(sum), 80, "3 standard deviations")
}

func TestSeen(t *testing.T) {
	at := now
	seen := otlp.NewSeen(func() time.Time { return at })
	m := otlp.NewMapper(&otlp.Settings{}, seen, nil)
	send := func(service, fields string) {
		mapped(t, m, nil, request(attrs("service.name="+service), span(fields)))
	}
	for range 3 {
		send("cart", `"kind":2,"name":"x",`+attrs("http.route=/cart/{id}", "http.request.method=GET"))
	}
	send("cart", `"kind":2,"name":"x","status":{"code":2}`)
	send("cart", `"kind":3,"name":"a client does not count"`)
	send("shop", `"kind":1,"name":"nightly"`)
	send("shop", `"kind":2,"name":"counted, so it is not listed"`)
	send("strict", `"kind":2,"name":"a type that the spec lacks"`)
	list := seen.Snapshot()
	require.Contains(t, list[0].Spec, `service: "cart"`)
	list[0].Spec = ""
	got, err := json.Marshal(list)
	require.NoError(t, err)
	require.JSONEq(t, `[
		{"name":"cart","known":false,"spans":4,"failures":1,"p95_seconds":0.256,"operations":[
			{"name":"GET /cart/{id}","type":"server","spans":3,"failures":0,"p95_seconds":0.256},
			{"name":"x","type":"server","spans":1,"failures":1,"p95_seconds":0.256}]},
		{"name":"shop","known":true,"spans":1,"failures":0,"p95_seconds":0.256,"operations":[
			{"name":"nightly","type":"internal","spans":1,"failures":0,"p95_seconds":0.256}]},
		{"name":"strict","known":true,"spans":1,"failures":0,"p95_seconds":0.256,"operations":[
			{"name":"a type that the spec lacks","type":"server","spans":1,"failures":0,"p95_seconds":0.256}]}]`, string(got))
	at = at.Add(30 * time.Minute)
	require.Len(t, seen.Snapshot(), 3, "half an hour later")
	at = at.Add(30 * time.Minute)
	require.Empty(t, seen.Snapshot(), "an hour later")
}

func TestSeenIsBounded(t *testing.T) {
	at := now
	seen := otlp.NewSeen(func() time.Time { return at })
	m := otlp.NewMapper(&otlp.Settings{}, seen, nil)
	for i := range 300 {
		mapped(t, m, nil, request(attrs("service.name=one"), span(fmt.Sprintf(`"kind":2,"name":"op %d"`, i))))
	}
	list := seen.Snapshot()
	require.Len(t, list[0].Operations, 201)
	require.Equal(t, otlp.OtherOperations, list[0].Operations[0].Name)
	require.Equal(t, uint64(100), list[0].Operations[0].Spans)
	require.Equal(t, uint64(300), list[0].Spans)
	for i := range 700 {
		mapped(t, m, nil, request(attrs(fmt.Sprintf("service.name=s%d", i)), span(`"kind":2`)))
	}
	require.Len(t, seen.Snapshot(), 500)
	at = at.Add(2 * time.Hour)
	mapped(t, m, nil, request(attrs("service.name=late"), span(`"kind":2`)))
	list = seen.Snapshot()
	require.Len(t, list, 1, "room is made for a new service")
	require.Equal(t, "late", list[0].Name)
}

// A span of the usual attributes costs no allocation.
func TestNoAllocationPerSpan(t *testing.T) {
	body, err := proto.Marshal(usual(100))
	require.NoError(t, err)
	require.Less(t, testing.AllocsPerRun(20, decoding(body, 100)), 10.0, "of a request with 100 spans")
}

func BenchmarkSpans(b *testing.B) {
	body, err := proto.Marshal(usual(1000))
	if err != nil {
		b.Fatal(err)
	}
	run := decoding(body, 1000)
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		run()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/span")
}

// decoding makes events of a body that has that many spans, in memory that is used again.
func decoding(body []byte, spans int) func() {
	catalog := event.NewCatalog(map[string][]string{"shop": nil})
	m := otlp.NewMapper(&otlp.Settings{Keep: otlp.DefaultKeep}, nil, otlp.NewFindings(otlp.FindingsOptions{}))
	wire := otlpwire.New(otlpwire.Limits{})
	var d event.Decoder
	var b event.Batch
	named := []string{"http_route"}
	attributes := func([]byte) []string { return named }
	take := func(s *otlpwire.Span) error {
		if draft, _ := m.Span(s); draft != nil {
			d.Add(draft)
		}
		return nil
	}
	return func() {
		d.Begin(event.DecodeOptions{Now: now, Catalog: catalog}, &b)
		m.Begin(catalog, attributes)
		if err := wire.Traces(body, take); err != nil {
			panic(err)
		}
		d.End()
		if len(b.Events) != spans {
			panic(fmt.Sprint(len(b.Events), b.Errors))
		}
	}
}

// usual are spans as an instrumented HTTP server sends them.
func usual(n int) *trace.TracesData {
	text := func(key, value string) *common.KeyValue {
		return &common.KeyValue{Key: key, Value: &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: value}}}
	}
	var spans []*trace.Span
	for i := range n {
		id := fmt.Appendf(nil, "%016d", i)
		end := uint64(now.UnixNano()) - uint64(i)*1000
		spans = append(spans, &trace.Span{TraceId: id, SpanId: id[8:], Name: "GET /cart", Kind: trace.Span_SPAN_KIND_SERVER,
			StartTimeUnixNano: end - 1e6, EndTimeUnixNano: end, Attributes: []*common.KeyValue{
				text("http.request.method", "GET"), text("http.route", fmt.Sprintf("/cart/%d", i%20)), text("url.scheme", "https"),
				text("server.address", "shop.example"), text("network.protocol.version", "1.1"),
				text("user_agent.original", "curl/8.5.0"), {Key: "http.response.status_code",
					Value: &common.AnyValue{Value: &common.AnyValue_IntValue{IntValue: 200}}}}})
	}
	return &trace.TracesData{ResourceSpans: []*trace.ResourceSpans{{
		Resource: &resource.Resource{Attributes: []*common.KeyValue{text("service.name", "shop"),
			text("service.version", "1.2.3"),
			text("deployment.environment.name", "prod")}},
		ScopeSpans: []*trace.ScopeSpans{{Spans: spans}}}}}
}

func TestProposals(t *testing.T) {
	seen := otlp.NewSeen(func() time.Time { return now })
	m := otlp.NewMapper(&otlp.Settings{}, seen, nil)
	send := func(n int, service, fields string) {
		for range n {
			mapped(t, m, nil, request(attrs("service.name="+service), span(fields)))
		}
	}
	send(99, "cart", `"kind":2,`+attrs("http.route=/cart", "http.request.method=GET"))
	send(1, "cart", `"kind":2,"status":{"code":2}`)
	send(2, "cart", `"kind":5,`+attrs("messaging.operation.type=process"))
	send(1, "shop", `"kind":1,"name":"nightly \"*\" export*"`)
	send(1, "", `"kind":2`)
	list := seen.Snapshot()
	require.Equal(t, `# Proposed from 102 spans of the last hour, which would meet it. Set what users need instead.
version: sloengine/v1
service: "cart"
slos:
  - name: consumer-availability
    objective: 99.99 # 0% of the spans failed
    window: 30d
    indicator: {events: {valid: '{type="consumer"}', bad: '{outcome="failure"}'}}
  - name: consumer-latency
    objective: 95
    window: 30d
    indicator: {latency: {valid: '{type="consumer",outcome="success"}', threshold: 500ms}} # 95% took at most 256ms
  - name: server-availability
    objective: 98 # 1% of the spans failed
    window: 30d
    group_by: [http_route]
    indicator: {events: {valid: '{type="server"}', bad: '{outcome="failure"}'}}
  - name: server-latency
    objective: 95
    window: 30d
    indicator: {latency: {valid: '{type="server",outcome="success"}', threshold: 500ms}} # 95% took at most 256ms
`, list[0].Spec)
	_, problems := spec.Load([]spec.File{{Name: "cart.yaml", Data: []byte(list[0].Spec)}})
	require.Empty(t, problems)
	require.Empty(t, list[1].Spec, "a service without a name")
	require.Empty(t, list[2].Spec, "a service that a spec has")
	require.Empty(t, list[0].Operations[0].Rule("cart"))
	rule := list[2].Operations[0].Rule("shop")
	require.Equal(t, `{service: "shop", kind: internal, name: "nightly \"*", type: job}`, rule)
}

// A request may name any number of services and keys, as long as it likes. What a mapper remembers of them is bounded.
func TestAMapperIsBounded(t *testing.T) {
	settings := &otlp.Settings{Keep: []string{"*"}, Spans: []otlp.SpanRule{{Service: "x", Kind: "client", Type: "call"}}}
	seen := otlp.NewSeen(func() time.Time { return now })
	m, wire := otlp.NewMapper(settings, seen, nil), otlpwire.New(otlpwire.Limits{})
	catalog := event.NewCatalog(map[string][]string{"shop": nil})
	held := func() uint64 {
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return s.HeapAlloc
	}
	before := held()
	for i := range 30 {
		m.Begin(catalog, nil)
		data := &trace.TracesData{}
		for k := range 200 {
			one := usual(1).ResourceSpans[0]
			one.Resource.Attributes[0].Value.Value = &common.AnyValue_StringValue{
				StringValue: fmt.Sprintf("s%d-%d-%s", i, k, strings.Repeat("n", 3000))}
			for j := range 20 {
				one.ScopeSpans[0].Spans[0].Attributes = append(one.ScopeSpans[0].Spans[0].Attributes,
					&common.KeyValue{Key: fmt.Sprintf("k%d-%d-%d-%s", i, k, j, strings.Repeat("k", 3000))})
			}
			data.ResourceSpans = append(data.ResourceSpans, one)
		}
		body, err := proto.Marshal(data)
		require.NoError(t, err)
		require.NoError(t, wire.Traces(body, func(s *otlpwire.Span) error { m.Span(s); return nil }))
	}
	require.Less(t, held(), before+32<<20, "360 MB of names, and the last request of 13 MB")
	for _, s := range seen.Snapshot() {
		require.LessOrEqual(t, len(s.Name), 128)
	}
	runtime.KeepAlive(m)
}

// TestUnknownTypesThatAServiceAdmits are events, and still noted as not counted.
func TestUnknownTypesThatAServiceAdmits(t *testing.T) {
	seen := otlp.NewSeen(func() time.Time { return now })
	m, wire := otlp.NewMapper(&otlp.Settings{}, seen, nil), otlpwire.New(otlpwire.Limits{})
	catalog := event.NewCatalog(map[string][]string{"shop": {"order"}, "bank": {"order"}})
	catalog.Admit("shop")
	for service, want := range map[string]otlp.Reason{"shop": otlp.Counts, "bank": otlp.UnknownType,
		"none": otlp.UnknownService} {
		data := usual(2)
		data.ResourceSpans[0].Resource.Attributes[0].Value.Value = &common.AnyValue_StringValue{StringValue: service}
		body, err := proto.Marshal(data)
		require.NoError(t, err)
		m.Begin(catalog, nil)
		spans := 0
		require.NoError(t, wire.Traces(body, func(s *otlpwire.Span) error {
			draft, why := m.Span(s)
			require.Equal(t, want, why, service)
			require.Equal(t, want == otlp.Counts, draft != nil)
			if draft == nil {
				name, typ := m.Refused()
				require.Equal(t, service+" server", string(name)+" "+string(typ))
			}
			spans++
			return nil
		}))
		require.Equal(t, 2, spans)
	}
	require.Len(t, seen.Snapshot(), 3)
}
