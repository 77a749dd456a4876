package ingest

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/klauspost/compress/snappy"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/source/series"
)

// What a Prometheus is answered: it sends again after 503 only, and takes a success without counts for a failure.
func TestRemoteWriteAnswers(t *testing.T) {
	const media = "application/x-protobuf;proto=io.prometheus.write.v2.Request"
	packed := string(snappy.Encode(nil, []byte("samples")))
	for name, tt := range map[string]struct {
		written         series.Written
		err             error
		media, encoding string
		body            string
		status          int
		text            string
		samples         string
	}{
		"stored": {written: series.Written{Samples: 3, Exemplars: 1}, status: 204, samples: "3"},
		"partly refused": {written: series.Written{Samples: 3, Refused: 1, Reason: "of the future"}, status: 400,
			samples: "3", text: "1 of 4 samples are refused, and the others stored: of the future"},
		"busy":            {err: engine.ErrOverloaded, status: 503, samples: "0", text: "overloaded"},
		"disk full":       {err: engine.ErrDiskFull, status: 503, samples: "0", text: "disk_full"},
		"another failure": {err: errors.New("x"), status: 503, samples: "0", text: "internal"},
		"broken": {err: &series.WireError{Offset: 7, Reason: "broken"}, status: 400, samples: "0",
			text: `"offset":7`},
		"nobody receives": {err: series.ErrNotReceiving, status: 404, samples: "0", text: "receive: true"},
		"not packed":      {body: "\xff\xff\xff", status: 400, samples: "0", text: "snappy"},
		"a bomb":          {body: "\xff\xff\xff\xff\x0f", status: 413, samples: "0", text: "exceeds"},
		"another media":   {media: "application/json", status: 415, samples: "0", text: "application/x-protobuf"},
		"another message": {media: "application/x-protobuf;proto=x", status: 415, samples: "0",
			text: "prometheus.WriteRequest"},
		"another packing": {encoding: "gzip", status: 415, samples: "0", text: "want snappy"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(o *HandlerOptions) {
				o.Translation.Write = func(_ context.Context, body []byte, v2 bool, _ func([]byte) bool) (series.Written, error) {
					require.Equal(t, "samples", string(body))
					require.True(t, v2)
					return tt.written, tt.err
				}
			})
			pick := func(own, usual string) string {
				if own != "" {
					return own
				}
				return usual
			}
			req := httptest.NewRequest(http.MethodPost, WritePath, bytes.NewReader([]byte(pick(tt.body, packed))))
			req.Header.Set("Content-Type", pick(tt.media, media))
			req.Header.Set("Content-Encoding", pick(tt.encoding, "snappy"))
			w := httptest.NewRecorder()
			r.engine.ServeHTTP(w, req)
			require.Equal(t, tt.status, w.Code, w.Body)
			require.Contains(t, w.Body.String(), tt.text)
			require.Equal(t, tt.samples, w.Header().Get("X-Prometheus-Remote-Write-Samples-Written"))
			require.Equal(t, tt.status == http.StatusServiceUnavailable, w.Header().Get("Retry-After") != "")
		})
	}
}
