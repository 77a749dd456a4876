package event

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/zeebo/xxh3"
)

func TestCloudEvent(t *testing.T) {
	b := decode(t, CloudEvent,
		`{"specversion":"1.0","id":"e1","source":"/billing","type":"invoice.paid","time":"2026-11-20T08:59:00Z",
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
	v := decode(t, CloudEvent,
		`{"data":{"id":"i","service":"s","type":"t","time":1795165200},"specversion":"1.0","id":"e1",
		"source":"https://example.com/x?y","type":"com.example/odd","time":"2001-01-01T00:00:00Z"}`,
		DecodeOptions{}).view(t, 0)
	require.Equal(t, []string{"i", "s", "t"}, []string{string(v.ID), string(v.Service), string(v.Type)})
	require.Equal(t, int64(1795165200e9), v.Time)
}

func TestCloudEventWithoutData(t *testing.T) {
	for _, data := range []string{"", `,"data":null`, `,"data":{}`} {
		v := decode(t, CloudEvent, `{"specversion":"1.0","id":"e1","source":"s","type":"t"`+data+`}`,
			DecodeOptions{}).view(t, 0)
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
		{"old version", `{"specversion":"0.3","id":"e1","source":"s","type":"t"}`, CodeBadCloudEvent,
			`CloudEvents 0.3 are not supported`},
		{"later version", `{"specversion":"1.1","id":"e1","source":"s","type":"t"}`, CodeBadCloudEvent,
			`"1.1" must be "1.0"`},
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
		{"source is no name", `{"specversion":"1.0","id":"e1","source":"https://x/y","type":"t"}`, CodeMissingField,
			`Set "service" in data`},
		{"type is no name", `{"specversion":"1.0","id":"e1","source":"s","type":"a/b"}`, CodeBadType, ""},
		{"unknown field in data", `{` + ok + `,"data":{"durationms":1}}`, CodeUnknownField, "Did you mean"},
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

// CloudEvents are identified by source and id, for any service.
func TestCloudEventIdentity(t *testing.T) {
	event := func(source, id, data string) string {
		return fmt.Sprintf(`{"specversion":"1.0","type":"t","source":%q,"id":%q,"data":{%s}}`, source, id, data)
	}
	const service = `"service":"shop"`
	long, longID := "https://example.org/"+strings.Repeat("x", 300), strings.Repeat("i", 256)
	distinct := []struct{ text, id string }{
		{event("https://a.example", "1", service), "https://a.example 1"},
		{event("https://b.example", "1", service), "https://b.example 1"},
		{event("https://a.example", "2", service), "https://a.example 2"},
		{event("other", "1", service), "other 1"},
		{event("/shop", "1", service), "1"}, // the service says the source
		{event(long, "1", service), ""},
		{event(long+"y", "1", service), ""},
		{event("u", longID, service), ""},
		{event("v", longID, service), ""},
		{event("a b", "c", service), ""},
		{event("a", "b c", service), "a b c"},
		{event("a b c", "c", service), ""},
		{event("a\tb", "c", service), ""},
		{event("https://a.example", "1", service+`,"id":"own"`), "own"},
		{event("https://b.example", "1", service+`,"id":"own too"`), "own too"},
	}
	seen := map[xxh3.Uint128]string{}
	for _, c := range distinct {
		b := decode(t, CloudEventBatch, "["+c.text+","+c.text+"]", DecodeOptions{})
		require.Empty(t, b.Errors)
		v := b.view(t, 0)
		if c.id != "" {
			require.Equal(t, c.id, string(v.ID))
		} else {
			require.Regexp(t, "^[0-9a-f]{32}$", string(v.ID))
		}
		require.Equal(t, b.Events[0].Key, b.Events[1].Key, "a duplicate")
		require.Equal(t, Key(v.Service, v.ID), b.Events[0].Key, "what is stored says the identity")
		require.Empty(t, seen[b.Events[0].Key], c.text)
		seen[b.Events[0].Key] = c.text
	}
	// As before: a source that is the service adds nothing, so the event is the same as JSON.
	plain := decode(t, JSON, `{"service":"billing","type":"t","id":"e1"}`, DecodeOptions{})
	for _, source := range []string{"billing", "/billing"} {
		require.Equal(t, plain.Events[0].Key, decode(t, CloudEvent, event(source, "e1", ""), DecodeOptions{}).Events[0].Key)
		require.Equal(t, plain.Events[0].Key,
			decode(t, CloudEvent, event(source, "e1", `"service":"billing"`), DecodeOptions{}).Events[0].Key)
	}
	// A sender finds its own id in the errors.
	b := decode(t, CloudEvent, event("https://a.example", "1", `"service":"shop","time":"2001-01-01T00:00:00Z"`),
		DecodeOptions{})
	require.Equal(t, "1", b.Errors[0].ID)
}
