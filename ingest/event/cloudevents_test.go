package event

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCloudEvent(t *testing.T) {
	b := decode(t, CloudEvent, `{"specversion":"1.0","id":"e1","source":"/billing","type":"invoice.paid","time":"2026-11-20T08:59:00Z",
		"datacontenttype":"application/json; charset=utf-8","subject":"x","traceparent":"00-1","sequence":4,
		"data":{"outcome":"failure","duration_ms":12,"attributes":{"product":"A"}}}`, DecodeOptions{})
	require.Empty(t, b.Errors)
	v := b.view(t, 0)
	require.Equal(t, "e1", string(v.ID))
	require.Equal(t, "billing", string(v.Service))
	require.Equal(t, "invoice.paid", string(v.Type))
	require.Equal(t, now.Add(-90*time.Second).UnixNano(), v.Time)
	require.Equal(t, Failure, v.Outcome)
	require.Equal(t, int64(12e6), v.Duration)
	require.True(t, b.Events[0].HasKey)
}

func TestCloudEventDataWins(t *testing.T) {
	v := decode(t, CloudEvent, `{"data":{"id":"i","service":"s","type":"t","time":1795165200},"specversion":"1.0","id":"e1",
		"source":"https://example.com/x?y","type":"com.example/odd","time":"2001-01-01T00:00:00Z"}`, DecodeOptions{}).view(t, 0)
	require.Equal(t, []string{"i", "s", "t"}, []string{string(v.ID), string(v.Service), string(v.Type)})
	require.Equal(t, int64(1795165200e9), v.Time)
}

func TestCloudEventWithoutData(t *testing.T) {
	for _, data := range []string{"", `,"data":null`, `,"data":{}`} {
		v := decode(t, CloudEvent, `{"specversion":"1.0","id":"e1","source":"s","type":"t"`+data+`}`, DecodeOptions{}).view(t, 0)
		require.Equal(t, "s", string(v.Service))
		require.Equal(t, now.UnixNano(), v.Time)
	}
}

func TestCloudEventErrors(t *testing.T) {
	const ok = `"specversion":"1.0","id":"e1","source":"s","type":"t"`
	for _, c := range []struct {
		name, event string
		code        Code
		detail      string
	}{
		{"no version", `{"id":"e1","source":"s","type":"t"}`, CodeMissingField, "specversion"},
		{"old version", `{"specversion":"0.3","id":"e1","source":"s","type":"t"}`, CodeBadCloudEvent, `"0.3" must be "1.0"`},
		{"no id", `{"specversion":"1.0","source":"s","type":"t"}`, CodeMissingField, `"id"`},
		{"no source", `{"specversion":"1.0","id":"e1","type":"t"}`, CodeMissingField, `"source"`},
		{"no type", `{"specversion":"1.0","source":"s","id":"e1"}`, CodeMissingField, `"type"`},
		{"content type", `{` + ok + `,"datacontenttype":"text/xml","data":{}}`, CodeBadCloudEvent, "application/json"},
		{"data is text", `{` + ok + `,"data":"x"}`, CodeBadCloudEvent, "JSON object"},
		{"binary data", `{` + ok + `,"data_base64":"eA=="}`, CodeBadCloudEvent, "data_base64"},
		{"duplicate", `{` + ok + `,"id":"e1"}`, CodeDuplicateKey, `"id"`},
		{"duplicate data", `{` + ok + `,"data":{},"data":{}}`, CodeDuplicateKey, ""},
		{"wrong type", `{"specversion":1.0,"id":"e1","source":"s","type":"t"}`, CodeWrongType, ""},
		{"bad time", `{` + ok + `,"time":"now"}`, CodeBadTime, "RFC 3339"},
		{"source is no name", `{"specversion":"1.0","id":"e1","source":"https://x/y","type":"t"}`, CodeMissingField, `give "service" in data`},
		{"type is no name", `{"specversion":"1.0","id":"e1","source":"s","type":"a/b"}`, CodeBadType, ""},
		{"unknown field in data", `{` + ok + `,"data":{"durationms":1}}`, CodeUnknownField, "did you mean"},
		{"bad data", `{` + ok + `,"data":{"id":""}}`, CodeBadID, ""},
		{"no object", `7`, CodeNotAnObject, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := decode(t, CloudEventBatch, `[{`+ok+`},`+c.event+`,{`+ok+`}]`, DecodeOptions{})
			require.Len(t, b.Events, 2)
			require.Len(t, b.Errors, 1)
			require.Equal(t, c.code, b.Errors[0].Code, b.Errors[0].Detail)
			require.Contains(t, b.Errors[0].Detail, c.detail)
			require.Equal(t, 1, b.Errors[0].Index)
		})
	}
}
