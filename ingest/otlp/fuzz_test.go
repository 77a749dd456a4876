package otlp_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/protobuf/proto"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/otlp"
	"github.com/sloengine/sloengine/ingest/otlp/otlpwire"
)

// hostile are spans with names and values that somebody may have chosen to do harm.
func hostile(t testing.TB) []byte {
	t.Helper()
	data := usual(2)
	spans := data.ResourceSpans[0].ScopeSpans[0].Spans
	for _, key := range []string{"", "type", "service", "id", "slo_x", "operation", "trace_id", "tier", "part", "severity", "a b",
		"\u202e", strings.Repeat("k", 300), "http.route", "http_route", "http-route", "k8s.\x00.name", "0"} {
		spans[0].Attributes = append(spans[0].Attributes, &common.KeyValue{Key: key,
			Value: &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: strings.Repeat("\u00e4\x00", 200)}}})
	}
	spans[1].TraceState, spans[1].EndTimeUnixNano = "ot=th:0;rv:1,ot=th:ffffffffffffff", 1<<63
	body, err := proto.Marshal(data)
	require.NoError(t, err)
	return body
}

// FuzzSpans holds what becomes of any request to what the engine takes for granted of events.
func FuzzSpans(f *testing.F) {
	f.Add(hostile(f))
	usually, err := proto.Marshal(usual(3))
	require.NoError(f, err)
	f.Add(usually)
	settings := &otlp.Settings{Keep: append([]string{"*"}, otlp.DefaultKeep...), Sampling: map[string]float64{"shop": 0.7},
		Spans: []otlp.SpanRule{{Kind: "client", Type: "call"}}, Logs: []otlp.LogRule{{Body: "*", Type: "log"}}}
	catalog := event.NewCatalog(map[string][]string{"shop": nil})
	seen := otlp.NewSeen(func() time.Time { return now })
	m, wire := otlp.NewMapper(settings, seen, nil), otlpwire.New(otlpwire.Limits{})
	var d event.Decoder
	var b event.Batch
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, logs := range []bool{false, true} {
			d.Begin(event.DecodeOptions{Now: now, Catalog: catalog}, &b)
			m.Begin(catalog, func([]byte) []string { return []string{"trace_id", "operation", "http_route"} })
			take := func(draft *event.Draft, _ otlp.Reason) error {
				if draft != nil {
					d.Add(draft)
				}
				return nil
			}
			if logs {
				err = wire.Logs(body, func(r *otlpwire.LogRecord) error { return take(m.Log(r)) })
			} else {
				err = wire.Traces(body, func(s *otlpwire.Span) error { return take(m.Span(s)) })
			}
			d.End()
			for i := range b.Events {
				asTheEngineWants(t, b.Event(i))
			}
		}
		for _, s := range seen.Snapshot() {
			require.Positive(t, s.Spans)
		}
	})
}

func asTheEngineWants(t *testing.T, bin []byte) {
	var v event.View
	_, err := v.Parse(bin)
	require.NoError(t, err)
	require.True(t, event.ValidID(v.ID) && utf8.Valid(v.ID), "%q", v.ID)
	require.True(t, event.ValidName(string(v.Service)) && event.ValidName(string(v.Type)))
	require.Positive(t, v.Weight)
	before, n := "", 0
	for name, value := range v.Attrs {
		require.True(t, event.ValidAttribute(string(name)), "%q", name)
		require.Greater(t, string(name), before)
		require.True(t, utf8.Valid(value) && len(value) <= 256, "%q", value)
		before = string(name)
		n++
	}
	require.LessOrEqual(t, n, 24)
}
