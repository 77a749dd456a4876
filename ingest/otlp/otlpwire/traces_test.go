package otlpwire_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/sloengine/sloengine/ingest/otlp/otlpwire"
)

func marshal(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b, err := proto.MarshalOptions{AllowPartial: true}.Marshal(m)
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
