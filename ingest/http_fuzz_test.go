package ingest

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/event"
)

// For any request, the answer is JSON, its counters add up, and everything held for the request is
// released.
func FuzzHandler(f *testing.F) {
	types := []string{"application/json", "application/x-ndjson", "application/cloudevents+json",
		"application/cloudevents-batch+json", "", "text/plain"}
	encodings := []string{"", "gzip", "zstd", "br"}
	f.Add([]byte(goodEvent), uint8(0), uint8(0), "")
	f.Add([]byte(line("a")+"\n"+line("b")+"\nnope"), uint8(1), uint8(0), "?dry_run=true")
	f.Add(gzipBytes(f, []byte("["+line("a")+"]")), uint8(0), uint8(1), "?backfill=true")
	f.Add(zstdBytes(f, []byte(line("a"))), uint8(1), uint8(2), "")
	f.Add([]byte(`{"specversion":"1.0","id":"c","source":"/s","type":"t","data":{}}`), uint8(2), uint8(0), "")
	f.Add([]byte("[[[[[[[[{\"a\":\xff}"), uint8(0), uint8(0), "?x")
	f.Add([]byte(`{"service":"s","type":"t","service":"s"}`), uint8(4), uint8(0), "")
	r := newRig(f, func(o *HandlerOptions) { o.MaxBodyBytes = 256 << 10 })
	f.Fuzz(func(t *testing.T, body []byte, media, enc uint8, query string) {
		req, err := http.NewRequest("POST", "http://x"+EventsPath, bytes.NewReader(body))
		require.NoError(t, err)
		req.URL.RawQuery = strings.TrimPrefix(query, "?")
		if m := types[int(media)%len(types)]; m != "" {
			req.Header.Set("Content-Type", m)
		}
		if e := encodings[int(enc)%len(encodings)]; e != "" {
			req.Header.Set("Content-Encoding", e)
		}
		w := httptest.NewRecorder()
		r.log.Reset()
		r.engine.ServeHTTP(w, req)
		require.True(t, utf8.Valid(w.Body.Bytes()))
		p := decodeAnswer(t, w)
		require.NotEqual(t, 500, w.Code)
		if w.Code != 200 && w.Code != 202 && w.Code != 422 {
			require.Zero(t, p.Received)
		}
		require.Zero(t, r.handler.budget.used.Load())
		require.Empty(t, r.handler.decoding)
	})
}

func FuzzAppendString(f *testing.F) {
	f.Add("plain")
	f.Add("\"\\\n\r\t\x00\x7f\xff\u2028é😀")
	f.Fuzz(func(t *testing.T, s string) {
		var got, want string
		require.NoError(t, json.Unmarshal(event.AppendJSONText(nil, s), &got))
		std, err := json.Marshal(s)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(std, &want))
		require.Equal(t, want, got)
	})
}
