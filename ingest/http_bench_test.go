package ingest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/event"
)

// discard is a ResponseWriter that costs nothing, so that the handler is measured.
type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(status int)      { d.status = status }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }

func benchBody(n int) []byte {
	var out bytes.Buffer
	for i := range n {
		fmt.Fprintf(&out,
			`{"id":"bench-%08d","time":"2026-11-20T08:59:00.123Z","service":"insurance-unpaid","type":"application",`+
				`"outcome":"failure","severity":"critical","duration_ms":812,"attributes":{"product":"MEDCARE",`+
				`"stage":"CREATE_APPLICATION","error_type":"MDM_ERROR","channel":"front"}}`+"\n", i)
	}
	return out.Bytes()
}

// acceptAll takes everything at no cost.
func acceptAll(_ context.Context, b *event.Batch) (engine.Result, error) {
	return engine.Result{Accepted: len(b.Events)}, nil
}

func benchHandler(b *testing.B, events int, enc string) {
	r := newRig(b, func(o *HandlerOptions) { o.Committer = commitFunc(acceptAll) })
	plain := benchBody(events)
	body := plain
	switch enc {
	case "gzip":
		body = gzipBytes(b, body)
	case "zstd":
		body = zstdBytes(b, body)
	}
	reader := bytes.NewReader(nil)
	req, err := http.NewRequest("POST", "http://x"+EventsPath, io.NopCloser(reader))
	require.NoError(b, err)
	req.ContentLength = int64(len(body))
	req.Header.Set("Content-Type", "application/x-ndjson")
	if enc != "" {
		req.Header.Set("Content-Encoding", enc)
	}
	w := &discard{header: http.Header{}}
	b.SetBytes(int64(len(plain)))
	b.ReportAllocs()
	for b.Loop() {
		reader.Reset(body)
		clear(w.header)
		r.engine.ServeHTTP(w, req)
		if w.status != 202 {
			b.Fatal(w.status)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(events), "ns/event")
}

func BenchmarkHandler(b *testing.B) {
	for _, n := range []int{1, 100, 1000} {
		b.Run(fmt.Sprintf("events=%d", n), func(b *testing.B) { benchHandler(b, n, "") })
	}
	b.Run("events=1000/gzip", func(b *testing.B) { benchHandler(b, 1000, "gzip") })
	b.Run("events=1000/zstd", func(b *testing.B) { benchHandler(b, 1000, "zstd") })
}

// BenchmarkDecodeAlone is the part of BenchmarkHandler outside the handler.
func BenchmarkDecodeAlone(b *testing.B) {
	for _, n := range []int{1, 1000} {
		b.Run(fmt.Sprintf("events=%d", n), func(b *testing.B) {
			body, batch := benchBody(n), event.Batch{}
			var d event.Decoder
			b.ReportAllocs()
			for b.Loop() {
				batch.Reset()
				require.NoError(b, d.Decode(event.NDJSON, body, event.DecodeOptions{Now: testNow}, &batch))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/event")
		})
	}
}

func TestHandlerAllocatesPerRequestNotPerEvent(t *testing.T) {
	r := newRig(t, func(o *HandlerOptions) { o.Committer = commitFunc(acceptAll) })
	allocs := func(events int) float64 {
		body := string(benchBody(events))
		req, err := http.NewRequest("POST", "http://x"+EventsPath, nil)
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/x-ndjson")
		req.ContentLength = int64(len(body))
		w := &discard{header: http.Header{}}
		return testing.AllocsPerRun(50, func() {
			req.Body = io.NopCloser(strings.NewReader(body))
			r.engine.ServeHTTP(w, req)
		})
	}
	require.Less(t, allocs(1), 20.0*emptiedPools)
	require.Less(t, allocs(1000), 40.0*emptiedPools) // the slack is for pools emptied by the collector
}
