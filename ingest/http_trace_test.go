package ingest

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/zeebo/xxh3"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/otlp"
	"github.com/sloengine/sloengine/ingest/trace"
)

const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// TestTraceOfARequest: events have the trace id of their request, and an invalid header changes nothing. A state that
// is used again has none of the request before.
func TestTraceOfARequest(t *testing.T) {
	r := newRig(t, nil)
	post := func(id, header string) *trace.Batch {
		t.Helper()
		rec := r.post("", `{"id":"`+id+`","service":"shop","type":"order"}`, headers{"traceparent": header})
		require.Equal(t, http.StatusAccepted, rec.Code, rec.Body)
		return r.traces
	}
	id, ok := post("a", traceparent).Of(nil)
	require.True(t, ok)
	require.Equal(t, byte(0x0a), id[0])
	require.Nil(t, post("b", ""))
	require.Nil(t, post("c", "00-00000000000000000000000000000000-b7ad6b7169203331-01"))
	require.NotNil(t, post("d", traceparent))
	require.Equal(t, http.StatusOK, r.postSpans(wire(t, spansOf("shop", testNow, 0, 1)),
		headers{"traceparent": traceparent}).Code)
	require.Nil(t, r.traces, "the request of a Collector is no part of the traces that it sends")
}

// TestTraceOfALogRecord: a log record has the trace id that it says.
func TestTraceOfALogRecord(t *testing.T) {
	r := newRig(t, func(o *HandlerOptions) {
		shopOnly(o)
		o.Translation.Spans = &otlp.Settings{Logs: []otlp.LogRule{{Event: "order.paid", Type: "order"}}}
	})
	body := fmt.Sprintf(`{"resourceLogs":[{"resource":{"attributes":[{"key":"service.name",
	"value":{"stringValue":"shop"}}]},
		"scopeLogs":[{"logRecords":[
		{"eventName":"order.paid","timeUnixNano":"%[1]d","traceId":"0af7651916cd43dd8448eb211c80319c"},
		{"eventName":"order.paid","timeUnixNano":"%[1]d"}]}]}]}`, testNow.UnixNano())
	require.Equal(t, http.StatusOK, r.postTo(LogsPath, body, headers{"Content-Type": "application/json"}).Code)
	require.Equal(t, 2, r.events)
	key := func() xxh3.Uint128 { return event.Key(r.last.Service, r.last.ID) }
	_, ok := r.traces.Of(key)
	require.False(t, ok, "the last one has none")

	body = fmt.Sprintf(`{"resourceLogs":[{"resource":{"attributes":[{"key":"service.name",
	"value":{"stringValue":"shop"}}]},
		"scopeLogs":[{"logRecords":[
		{"eventName":"order.paid","timeUnixNano":"%[1]d"},
		{"eventName":"order.paid","timeUnixNano":"%[1]d","traceId":"0af7651916cd43dd8448eb211c80319c",
		"spanId":"b7ad6b7169203331"}
		]}]}]}`, testNow.UnixNano()-1)
	require.Equal(t, http.StatusOK, r.postTo(LogsPath, body, headers{"Content-Type": "application/json"}).Code)
	id, ok := r.traces.Of(key)
	require.True(t, ok)
	require.Equal(t, byte(0x0a), id[0])
}
