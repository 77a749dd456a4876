package ingest

import (
	"maps"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/mapping"
)

func binaryHeaders(change headers) headers {
	h := headers{"ce-specversion": "1.0", "ce-id": "e-1", "ce-source": "/shop", "ce-type": "order",
		"ce-time": "2026-11-20T08:59:00Z"}
	maps.Copy(h, change)
	return h
}

func TestBinaryCloudEventsCountOnce(t *testing.T) {
	r := newRig(t, nil)
	for i := range 3 {
		p := decodeAnswer(t, r.post("", `{"duration_ms":5}`, binaryHeaders(nil)))
		require.Equal(t, []int{max(1-i, 0), min(i, 1)}, []int{p.Accepted, p.Duplicates}, "sending %d", i)
	}
	require.Equal(
		t, []string{"e-1", "shop", "order"}, []string{string(r.last.ID), string(r.last.Service), string(r.last.Type)})
	require.EqualValues(t, 5e6, r.last.Duration)
	require.Equal(t, testNow.Add(-1e9*60).UnixNano(), r.last.Time)
	// The same event in structured mode, whose headers do not matter.
	p := decodeAnswer(t, r.post("", `{"specversion":"1.0","id":"e-1","source":"shop","type":"order"}`,
		binaryHeaders(headers{"Content-Type": "Application/CloudEvents+json", "ce-id": "other"})))
	require.Equal(t, 1, p.Duplicates)
}

func TestBinaryCloudEvents(t *testing.T) {
	for name, c := range map[string]struct {
		headers headers
		body    string
		status  int
		want    string // id, or the text of the answer
	}{
		"percent":      {headers{"ce-id": "a%20b%E2%82%AC"}, `{}`, 202, "a b€"},
		"lone percent": {headers{"ce-id": "100%"}, `{}`, 202, "100%"},
		"quotes":       {headers{"ce-id": `"a\"b"`}, `{}`, 202, `a"b`},
		"not UTF-8":    {headers{"ce-id": "a\xff"}, `{}`, 202, "a\uFFFD"},
		"no data":      {headers{"Content-Type": ""}, "", 202, "e-1"},
		"null":         {nil, "null", 202, "e-1"},
		"other JSON":   {headers{"Content-Type": "application/vnd.shop+json; charset=utf-8"}, `{}`, 202, "e-1"},
		"data wins":    {nil, ` {"id":"own"} `, 202, "own"},
		"no version":   {headers{"ce-specversion": ""}, `{}`, 422, `specversion`},
		"no id":        {headers{"ce-id": ""}, `{}`, 422, `\"id\"`},
		"no type":      {headers{"ce-type": ""}, `{}`, 422, `\"type\"`},
		"0.3": {
			headers{"ce-specversion": "0.3"}, `{}`, 422, "CloudEvents 0.3 are not supported. Send CloudEvents 1.0."},
		"XML":               {headers{"Content-Type": "text/xml"}, `<x/>`, 422, "must be application/json"},
		"array":             {nil, `[{}]`, 422, "must be a JSON object"},
		"lines":             {nil, "{}\n{}", 400, "expected the end of the body after the data"},
		"broken":            {nil, `{"a":`, 400, "end of input"},
		"bad time":          {headers{"ce-time": "today"}, `{}`, 422, "RFC 3339"},
		"unknown field":     {nil, `{"latency":1}`, 422, `Did you mean`},
		"control character": {headers{"ce-id": "a%0ab"}, `{}`, 422, "without control characters"},
		"too large":         {nil, `{"attributes":{"a":"` + strings.Repeat("x", 70_000) + `"}}`, 422, "maximum is 65536"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			w := r.post("", c.body, binaryHeaders(c.headers))
			require.Equal(t, c.status, w.Code, w.Body)
			decodeAnswer(t, w)
			if c.status == 202 {
				require.Equal(t, c.want, string(r.last.ID))
			} else {
				require.Contains(t, w.Body.String(), c.want)
				require.Zero(t, r.events)
			}
		})
	}
	r := newRig(t, nil)
	req := httptest.NewRequest("POST", EventsPath, strings.NewReader(`{}`))
	for name, value := range binaryHeaders(nil) {
		req.Header.Set(name, value)
	}
	req.Header.Add("ce-id", "e-2")
	w := httptest.NewRecorder()
	r.engine.ServeHTTP(w, req)
	require.Equal(t, 400, w.Code)
	require.Contains(t, w.Body.String(), "header ce-id must appear once, not 2 times")
}

// Data that are the producer's own object are mapped in every mode.
func TestMappedCloudEvents(t *testing.T) {
	const own = `{"order":{"number":17,"state":"lost","items":[{"sku":"s-1"}]},"took":12.5}`
	const envelope = `{"specversion":"1.0","id":"e-1","source":"shop","type":"order","data":` + own + `}`
	m, err := mapping.New(&mapping.Settings{
		DurationMS: ".took", FailureIf: `text(".order.state") == "lost"`,
		Attributes: map[string]string{"sku": ".order.items.0.sku"},
	}, true)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		headers headers
		body    string
	}{
		"binary":     {binaryHeaders(nil), own},
		"structured": {headers{"Content-Type": "application/cloudevents+json"}, envelope},
		"batch":      {headers{"Content-Type": "application/cloudevents-batch+json"}, "[" + envelope + "," + envelope + "]"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(o *HandlerOptions) { o.Translation.CloudEvents = m })
			w := r.post("", c.body, c.headers)
			require.Equal(t, 202, w.Code, w.Body)
			require.Equal(t, 1, r.events)
			require.Equal(t, []string{"e-1", "shop", "order"},
				[]string{string(r.last.ID), string(r.last.Service), string(r.last.Type)})
			require.Equal(t, "failure", r.last.Outcome.String())
			require.EqualValues(t, 12.5e6, r.last.Duration)
			require.Equal(t, map[string]string{"sku": "s-1"}, r.last.AttributeMap())
		})
	}
	r := newRig(t, func(o *HandlerOptions) { o.Translation.CloudEvents = m })
	// Events of other kinds are not mapped, and the result of a mapping is checked.
	require.Equal(t, 202, r.post("", goodEvent, nil).Code)
	for body, want := range map[string]string{
		`{"took":"long"}`:                                                    "must be a number",
		`{"order":{"items":[{"sku":{}}]}}`:                                   "Flatten it",
		`{"a":"` + strings.Repeat("x", 70_000) + `"}`:                        "maximum is 65536",
		`{"took":` + strings.Repeat("[", 20) + strings.Repeat("]", 20) + `}`: "nest",
	} {
		w := r.post("", body, binaryHeaders(nil))
		require.GreaterOrEqual(t, w.Code, 400)
		require.Contains(t, w.Body.String(), want)
	}
	require.Equal(t, 1, r.events)
}

func TestWebhookHandshake(t *testing.T) {
	r := newRig(t, nil)
	for name, c := range map[string]struct {
		headers      headers
		status       int
		origin, rate string
	}{
		"origin": {headers{"WebHook-Request-Origin": "events.example.org"}, 200, "events.example.org", ""},
		"rate": {headers{"WebHook-Request-Origin": "events.example.org", "WebHook-Request-Rate": "120"}, 200,
			"events.example.org", "120"},
		"great rate": {headers{"WebHook-Request-Origin": "events.example.org", "WebHook-Request-Rate": "1000000"}, 200,
			"events.example.org", "6000"},
		"callback": {headers{"WebHook-Request-Origin": "events.example.org",
			"WebHook-Request-Callback": "http://192.0.2.1/"}, 200, "events.example.org", ""},
		"no rate": {
			headers{"WebHook-Request-Origin": "events.example.org", "WebHook-Request-Rate": "0"}, 400, "", ""},
		"odd rate": {
			headers{"WebHook-Request-Origin": "events.example.org", "WebHook-Request-Rate": "*"}, 400, "", ""},
		"odd origin":       {headers{"WebHook-Request-Origin": "a b"}, 400, "", ""},
		"long origin":      {headers{"WebHook-Request-Origin": strings.Repeat("x", 254)}, 400, "", ""},
		"another question": {headers{"Origin": "https://example.org", "Access-Control-Request-Method": "POST"}, 204, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			req := httptest.NewRequest("OPTIONS", EventsPath, nil)
			for key, value := range c.headers {
				req.Header.Set(key, value)
			}
			w := httptest.NewRecorder()
			r.engine.ServeHTTP(w, req)
			require.Equal(t, c.status, w.Code)
			require.Equal(t, "OPTIONS, POST", w.Header().Get("Allow"))
			require.Equal(t, c.origin, w.Header().Get("WebHook-Allowed-Origin"))
			require.Equal(t, c.rate, w.Header().Get("WebHook-Allowed-Rate"))
			require.Empty(t, w.Header().Get("Access-Control-Allow-Origin"))
			require.Empty(t, w.Body)
		})
	}
}
