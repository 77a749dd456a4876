package ingest

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/klauspost/compress/snappy"

	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/source/series"
)

// WritePath is where a Prometheus writes samples (remote write 1.0 and 2.0).
const WritePath = "/api/v1/write"

// The messages of remote write, as the Content-Type says them.
const (
	writeV1 = "prometheus.WriteRequest"
	writeV2 = "io.prometheus.write.v2.Request"
)

// SampleWriter takes the unpacked samples of a request: a *series.Receiver.
type SampleWriter func(ctx context.Context, body []byte, v2 bool, allow func(service []byte) bool) (series.Written,
	error)

// writeDoor is that of remote write. A Prometheus sends a request again after 5xx and drops it after 4xx, 429 included,
// so that whatever passes is 503.
type writeDoor struct{}

// writeState is what a request of remote write needs besides a requestState.
type writeState struct {
	v2      bool
	written series.Written
}

func (writeDoor) counts() bool { return false }

func (writeDoor) begin(_ *Handler, req *http.Request, s *requestState) *refusal {
	s.form.write = writeState{}
	media, params, err := mime.ParseMediaType(req.Header.Get("Content-Type"))
	message := params["proto"]
	if err != nil || media != mediaProtobuf || message != "" && message != writeV1 && message != writeV2 {
		return &refusal{status: http.StatusUnsupportedMediaType, code: problemMediaType, closeConn: true,
			detail: fmt.Sprintf("unsupported Content-Type %.100q (want %s, with proto=%s or proto=%s)",
				req.Header.Get("Content-Type"), mediaProtobuf, writeV1, writeV2)}
	}
	s.form.write.v2 = message == writeV2
	if s.form.encoding = snappied; req.Header.Get("Content-Encoding") != "snappy" {
		return &refusal{status: http.StatusUnsupportedMediaType, code: problemEncoding, accept: "snappy", closeConn: true,
			detail: "unsupported Content-Encoding (want snappy)"}
	}
	return nil
}

// take unpacks the samples and stores them.
func (writeDoor) take(h *Handler, req *http.Request, s *requestState) *refusal {
	if h.o.Translation.Write == nil {
		return notReceiving()
	}
	if r := h.enter(req, s, h.decoding, "the body was decoded"); r != nil {
		return r
	}
	err := s.bodies.plain.unsnap(s.bodies.raw.data, int(h.o.MaxBodyBytes))
	<-h.decoding
	if err != nil {
		return h.readRefusal(req, err, h.o.MaxBodyBytes)
	}
	s.bodies.raw.free()
	h.o.Metrics.bodyBytes.Add(len(s.bodies.plain.data))
	var allow func(service []byte) bool
	if s.token != nil {
		allow = s.token.serviceCheck()
	}
	s.form.write.written, err = h.o.Translation.Write(req.Context(), s.bodies.plain.data, s.form.write.v2, allow)
	var broken *series.WireError
	var busy *engine.UnavailableError
	switch w := &s.form.write.written; {
	case errors.As(err, &broken):
		return &refusal{status: http.StatusBadRequest, code: string(event.CodeInvalidProtobuf), detail: broken.Error(),
			offset: broken.Offset}
	case errors.As(err, &busy):
		return h.commitRefusal(s, err)
	case errors.Is(err, series.ErrNotReceiving):
		return notReceiving()
	case err != nil:
		h.o.Logger.Error("failed to store samples", "request_id", s.id, "err", err)
		return &refusal{status: http.StatusServiceUnavailable, code: problemInternal, retryAfter: 5 * time.Second,
			detail: "the engine failed to store the samples (resend them after Retry-After)"}
	case w.Refused > 0:
		return &refusal{status: http.StatusBadRequest, code: problemBadSamples,
			detail: fmt.Sprintf("%d of %d samples are refused, and the others stored: %s", w.Refused, w.Refused+w.Samples,
				w.Reason)}
	}
	return nil
}

func notReceiving() *refusal {
	return &refusal{status: http.StatusNotFound, code: problemNotReceiving,
		detail: "no source receives samples (add one with prometheus: {receive: true} to sources in engine.yaml)"}
}

// unsnap unpacks a block of Snappy, of at most limit bytes.
func (b *body) unsnap(src []byte, limit int) error {
	n, err := snappy.DecodedLen(src)
	switch {
	case err != nil:
		return badEncoding("snappy", err)
	case n > limit:
		return errBodyTooLarge
	}
	if err := b.grow(n); err != nil {
		return err
	}
	if b.data, err = snappy.Decode(b.data[:n], src); err != nil {
		return badEncoding("snappy", err)
	}
	return nil
}

func (writeDoor) open(_ *requestState, body []byte) ([]byte, *refusal) { return body, nil }

func (writeDoor) decode(*Handler, *requestState, []byte, event.DecodeOptions) ([]byte, error) {
	return nil, errors.New("samples are no events")
}

// headers say what was written. A sender takes a success without them for one that wrote nothing.
func (w *writeState) headers(header http.Header) {
	for name, n := range map[string]int{"Samples": w.written.Samples, "Histograms": w.written.Histograms,
		"Exemplars": w.written.Exemplars} {
		header.Set("X-Prometheus-Remote-Write-"+name+"-Written", strconv.Itoa(n))
	}
}

func (writeDoor) respond(_ *Handler, c *gin.Context, s *requestState) int {
	header := c.Writer.Header()
	header["X-Request-Id"] = []string{s.id}
	s.form.write.headers(header)
	c.Writer.WriteHeader(http.StatusNoContent)
	c.Writer.WriteHeaderNow()
	return http.StatusNoContent
}

func (writeDoor) refuse(h *Handler, c *gin.Context, s *requestState, r *refusal) int {
	switch r.status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusGatewayTimeout:
		again := *r
		again.status = http.StatusServiceUnavailable
		r = &again
	}
	s.form.write.headers(c.Writer.Header())
	return eventsDoor{}.refuse(h, c, s, r)
}
