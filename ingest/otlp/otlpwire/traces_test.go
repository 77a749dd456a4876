package otlpwire_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/sloengine/sloengine/ingest/otlp/otlpwire"
)

func marshal(t require.TestingT, m proto.Message) []byte {
	b, err := proto.Marshal(m)
	require.NoError(t, err)
	return b
}

func text(key, value string) *common.KeyValue {
	return &common.KeyValue{Key: key, Value: &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: value}}}
}

// service is a resourceSpans of one service with its spans.
func service(name string, spans ...*trace.Span) *trace.ResourceSpans {
	return &trace.ResourceSpans{
		Resource:   &resource.Resource{Attributes: []*common.KeyValue{text("service.name", name)}},
		ScopeSpans: []*trace.ScopeSpans{{Scope: &common.InstrumentationScope{Name: "lib"}, Spans: spans}},
	}
}

func span(name string) *trace.Span {
	return &trace.Span{TraceId: []byte("0123456789abcdef"), SpanId: []byte("01234567"), Name: name}
}

func TestSpansHaveTheirServiceAndPlace(t *testing.T) {
	child := span("child")
	child.ParentSpanId = []byte("76543210")
	body := marshal(t, &trace.TracesData{ResourceSpans: []*trace.ResourceSpans{
		service("shop", span("root"), child), service("mdm", span("other"))}})
	var seen []string
	err := otlpwire.New(otlpwire.Limits{}).Traces(body, func(s *otlpwire.Span) error {
		name, _ := otlpwire.Lookup(s.Resource, "service.name")
		require.Equal(t, len(seen), s.Index)
		require.Equal(t, "lib", string(s.ScopeName))
		require.Equal(t, string(s.Name) == "child", s.HasParent)
		require.False(t, s.BadID)
		seen = append(seen, string(name.Bytes)+" "+string(s.Name))
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, []string{"shop root", "shop child", "mdm other"}, seen)
}

func renderSpan(s *otlpwire.Span) string {
	parent := ""
	if s.HasParent {
		parent = fmt.Sprintf("%x", s.ParentID)
	}
	ids := fmt.Sprintf("%x/%x", s.TraceID, s.SpanID)
	if s.BadID {
		ids, parent = "bad", ""
	}
	return fmt.Sprintf("%s<%s flags %d kind %d status %d %q state %q %d-%d exception %q", ids, parent, s.Flags, s.Kind,
		s.Status, plain(s.Name), plain(s.TraceState), s.Start, s.End, plain(s.ExceptionType))
}

func renderOfficialSpan(s *trace.Span) string {
	zero := func(id []byte) bool { return len(strings.Trim(string(id), "\x00")) == 0 }
	parent := ""
	if !zero(s.ParentSpanId) {
		parent = fmt.Sprintf("%x", s.ParentSpanId)
	}
	ids := fmt.Sprintf("%x/%x", s.TraceId, s.SpanId)
	if len(s.TraceId) != 16 || len(s.SpanId) != 8 || zero(s.TraceId) || zero(s.SpanId) ||
		len(s.ParentSpanId) != 0 && len(s.ParentSpanId) != 8 {
		ids, parent = "bad", ""
	}
	exception := ""
	for _, e := range s.Events {
		if kind := ""; e.Name == "exception" {
			for _, a := range e.Attributes {
				if v, ok := a.Value.GetValue().(*common.AnyValue_StringValue); ok && a.Key == "exception.type" {
					kind = v.StringValue
				}
			}
			if kind != "" {
				exception = kind
			}
		}
	}
	return fmt.Sprintf("%s<%s flags %d kind %d status %d %q state %q %d-%d exception %q", ids, parent, s.Flags,
		defined(s.Kind), defined(s.Status.GetCode()), plain(s.Name), plain(s.TraceState), s.StartTimeUnixNano,
		s.EndTimeUnixNano, plain(exception))
}

// defined returns the number of an enumeration, 0 if it has no name.
func defined[T interface {
	~int32
	Descriptor() protoreflect.EnumDescriptor
}](v T) int {
	if v.Descriptor().Values().ByNumber(protoreflect.EnumNumber(v)) == nil {
		return 0
	}
	return int(v)
}

func officialSpans(data *trace.TracesData) (out []seen) {
	for i, r := range data.ResourceSpans {
		for _, sc := range r.ScopeSpans {
			for _, s := range sc.Spans {
				out = append(out, seen{fmt.Sprint(i, "/", len(out)), renderAttrs(r.Resource.GetAttributes()),
					renderAttrs(s.Attributes), plain(sc.Scope.GetName()), renderOfficialSpan(s)})
			}
		}
	}
	return out
}

// seenAs writes our item as the official one is written.
func seenAs(o otlpwire.Origin, attrs []otlpwire.Attr, item string) seen {
	return seen{fmt.Sprint(o.ResourceIndex, "/", o.Index), renderOurs(o.Resource), renderOurs(attrs),
		plain(o.ScopeName), item}
}

func compareTraces(t require.TestingT, d *otlpwire.Decoder, body []byte, inJSON bool) {
	var data trace.TracesData
	officialErr := officialIn(body, inJSON, &data)
	decode := d.Traces
	if inJSON {
		decode = d.TracesJSON
	}
	var ours []seen
	err := decode(body, func(s *otlpwire.Span) error {
		ours = append(ours, seenAs(s.Origin, s.Attrs, renderSpan(s)))
		return nil
	})
	sameAnswer(t, body, ours, err, d.Losses(), officialSpans(&data), officialErr)
}

func TestSpansAreThoseOfTheOfficialDecoder(t *testing.T) {
	checkRandom(t, func() proto.Message { return &trace.TracesData{} }, compareTraces)
}

func FuzzTraces(f *testing.F) {
	full := span("GET /")
	full.Attributes = []*common.KeyValue{text("http.route", "/")}
	full.Events = []*trace.Span_Event{{Name: "exception", Attributes: []*common.KeyValue{text("exception.type", "E")}}}
	full.Links = []*trace.Span_Link{{TraceId: full.TraceId}}
	full.Status = &trace.Status{Code: trace.Status_STATUS_CODE_ERROR}
	f.Add(marshal(f, &trace.TracesData{ResourceSpans: []*trace.ResourceSpans{service("shop", full)}}))
	f.Add([]byte("\x0a\x00\x0a\x80\x00\x0b\x0c"))
	f.Fuzz(func(t *testing.T, body []byte) { compareTraces(t, otlpwire.New(exact), body, false) })
}

func FuzzTracesJSON(f *testing.F) {
	for _, body := range jsonRequests {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) { compareTraces(t, otlpwire.New(exact), body, true) })
}

var jsonRequests = []string{
	`{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"5B8EFFF798038103D269B633813FC60C","spanId":` +
		`"eee19b7ec3c1b174","parentSpanId":"","name":"a\u00e9\ud83d\ude00","kind":2,` +
		`"startTimeUnixNano":"1544712660000000000","endTimeUnixNano":1544712661000000000,"attributes":[{"key":"n",` +
		`"value":{"intValue":"-3"}},{"key":"m","value":{"kvlistValue":{"values":[{"key":"x",` +
		`"value":{"arrayValue":{"values":[{"doubleValue":1.5},{"boolValue":true},{"bytesValue":"_-8"},{}]}}}]}}}],` +
		`"status":{"code":2},"flags":256}]}],"resource":{"attributes":[]}}]}`,
	`{"resource_spans":[{"scope_spans":[{"spans":[{"kind":"SPAN_KIND_SERVER","start_time_unix_nano":1.5e3,"x":[{"a":1}]}` +
		`]}]}]}`,
	`{"resourceSpans":null,"a":[1,-0.5e-3,"\ud800",{},[]]}`,
	`{"resourceSpans":[{"resource":{"attributes":[{"key":"f","value":{"doubleValue":"-Infinity"}}]}}]}`,
}

var errOurs = errors.New("of the caller")

func TestErrorOfTheCallerEndsARequest(t *testing.T) {
	body := marshal(t, &trace.TracesData{ResourceSpans: []*trace.ResourceSpans{service("shop", span("a"), span("b"))}})
	calls := 0
	err := otlpwire.New(otlpwire.Limits{}).Traces(body, func(*otlpwire.Span) error { calls++; return errOurs })
	require.Equal(t, errOurs, err)
	require.Equal(t, 1, calls)
}

func TestSpansCostNoAllocation(t *testing.T) {
	request := func(n int) proto.Message {
		list := make([]*trace.Span, n)
		for i := range list {
			list[i] = span("GET /cart")
			list[i].Attributes = []*common.KeyValue{text("http.route", "/cart"), text("http.request.method", "GET")}
		}
		return &trace.TracesData{ResourceSpans: []*trace.ResourceSpans{service("shop", list...)}}
	}
	d := otlpwire.New(otlpwire.Limits{})
	n := 0
	count := func(*otlpwire.Span) error { n++; return nil }
	requireNoAllocations(t, request, &n, func(b []byte) error { return d.Traces(b, count) },
		func(b []byte) error { return d.TracesJSON(b, count) })
}

func BenchmarkTraces(b *testing.B) {
	list := make([]*trace.Span, 1000)
	for i := range list {
		list[i] = &trace.Span{TraceId: []byte("0123456789abcdef"), SpanId: []byte("01234567"), Name: "GET /cart",
			Kind: trace.Span_SPAN_KIND_SERVER, Attributes: []*common.KeyValue{text("http.route", "/cart"),
				text("http.request.method", "GET"), text("url.scheme", "https"), text("server.address", "shop.example"),
				text("network.protocol.version", "1.1"), text("user_agent.original", "curl/8.5.0")}}
	}
	data := &trace.TracesData{ResourceSpans: []*trace.ResourceSpans{service("shop", list...)}}
	d := otlpwire.New(otlpwire.Limits{})
	drop := func(*otlpwire.Span) error { return nil }
	benchmark(b, data, len(list), func(body []byte) error { return d.Traces(body, drop) },
		func(body []byte) error { return d.TracesJSON(body, drop) })
}

// TestRepeatedAttributes: spans whose attributes differ from those at the same place before, and a request in the
// memory of the one before, as servers reuse it.
func TestRepeatedAttributes(t *testing.T) {
	d := otlpwire.New(exact)
	memory := make([]byte, 4096)
	for request := range 3 {
		var spans []*trace.Span
		for n := range 8 {
			s := span("GET")
			s.Attributes = []*common.KeyValue{text("each", fmt.Sprint(request, n)), text("same"[:2+request], "value"[request:]),
				text("now", fmt.Sprint("and then ", (request+n)/3)), text(fmt.Sprint("key", n%2), "value"),
				text("request", fmt.Sprint(request))}[:5-n%3]
			spans = append(spans, s)
		}
		body := marshal(t, &trace.TracesData{ResourceSpans: []*trace.ResourceSpans{service("shop", spans[:5]...),
			service("cart", spans[5:]...)}})
		compareTraces(t, d, memory[:copy(memory, body)], false)
	}
}
