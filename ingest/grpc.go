package ingest

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/sloengine/sloengine/ingest/engine"
)

// This file is what OTLP/gRPC has besides OTLP/HTTP: a frame around the message, and a status in the trailers
// (github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md). net/http speaks HTTP/2.

const (
	grpcTracesPath  = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
	grpcLogsPath    = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"
	grpcMetricsPath = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
	mediaGRPC       = "application/grpc"
	frameHead       = 5 // a flag for compression and the length of the message

	grpcOK            = 0
	grpcUnimplemented = 12
)

// GRPC answers OTLP/gRPC. It needs a server that speaks HTTP/2.
func (h *Handler) GRPC(middleware ...gin.HandlerFunc) http.Handler {
	r := gin.New()
	r.Use(middleware...)
	for _, of := range signals {
		r.POST(of.method, h.through(otlpDoor{grpc: true, of: of}))
	}
	r.NoRoute(func(c *gin.Context) {
		c.Writer.Header()["Content-Type"] = headerGRPC
		c.Status(http.StatusOK)
		grpcStatus(c.Writer.Header(), grpcUnimplemented,
			fmt.Sprintf("no method %.100q: the engine takes %s, %s and %s", c.Request.URL.Path, grpcTracesPath, grpcLogsPath,
				grpcMetricsPath))
	})
	return r
}

// isGRPC reports whether the answer must be one of gRPC.
func isGRPC(req *http.Request) bool {
	return req.ProtoMajor == 2 && strings.HasPrefix(req.Header.Get("Content-Type"), mediaGRPC)
}

func beginGRPC(req *http.Request, s *requestState) *refusal {
	media, _, _ := strings.Cut(req.Header.Get("Content-Type"), ";")
	if media != mediaGRPC && media != mediaGRPC+"+proto" {
		return &refusal{status: http.StatusUnsupportedMediaType, code: problemMediaType, closeConn: true,
			detail: fmt.Sprintf("unsupported Content-Type %.100q (want %s)", media, mediaGRPC)}
	}
	if text := req.Header.Get("Grpc-Timeout"); text != "" {
		wait, ok := grpcTimeout(text)
		if !ok {
			return &refusal{status: http.StatusBadRequest, code: problemBadDeadline, closeConn: true,
				detail: fmt.Sprintf("invalid grpc-timeout %.20q", text)}
		}
		s.deadline = due{Time: s.h.o.Now().Add(wait - s.h.o.Reserve), own: true}
	}
	return s.parseEncoding(req.Header.Get("Grpc-Encoding"))
}

// grpcTimeout reads at most 8 digits and a unit.
func grpcTimeout(text string) (time.Duration, bool) {
	units := map[byte]time.Duration{'H': time.Hour, 'M': time.Minute, 'S': time.Second, 'm': time.Millisecond,
		'u': time.Microsecond, 'n': time.Nanosecond}
	last := len(text) - 1
	n, err := strconv.ParseUint(text[:last], 10, 32)
	unit := units[text[last]]
	return time.Duration(n) * unit, err == nil && unit > 0 && last <= 8
}

// openGRPC returns the one message of a unary call.
func openGRPC(s *requestState, body []byte) ([]byte, *refusal) {
	wrong := func(format string, args ...any) ([]byte, *refusal) {
		return nil, &refusal{status: http.StatusBadRequest, code: problemBadBody, detail: fmt.Sprintf(format, args...)}
	}
	if len(body) < frameHead {
		return wrong("the call has no message")
	}
	size := binary.BigEndian.Uint32(body[1:])
	switch message := body[frameHead:]; {
	case body[0] > 1:
		return wrong("the flag of the message is %d (want 0 or 1)", body[0])
	case uint64(size) != uint64(len(message)):
		return wrong("the message has %d bytes, but its head says %d (send one message per call)", len(message), size)
	case body[0] == 1 && s.form.encoding == identity:
		return wrong("the message is compressed, but grpc-encoding does not say how")
	case body[0] == 0:
		s.form.encoding = identity
		fallthrough
	default:
		return message, nil
	}
}

var headerGRPC = []string{mediaGRPC + "+proto"}

// sendGRPC answers with the message in s.out.
func sendGRPC(c *gin.Context, s *requestState) int {
	header := c.Writer.Header()
	header["Content-Type"] = headerGRPC
	c.Writer.WriteHeader(http.StatusOK)
	var head [frameHead]byte
	binary.BigEndian.PutUint32(head[1:], uint32(len(s.out)))
	_, _ = c.Writer.Write(head[:])
	_, _ = c.Writer.Write(s.out)
	grpcStatus(header, grpcOK, "")
	return http.StatusOK
}

// failGRPC answers with a status alone. A sender resends after RESOURCE_EXHAUSTED only if it is told when.
func failGRPC(w http.ResponseWriter, id string, r *refusal) int {
	header := w.Header()
	header["X-Request-Id"] = []string{id}
	header["Content-Type"] = headerGRPC
	w.WriteHeader(http.StatusOK)
	code, message := r.rpc()
	grpcStatus(header, code, message)
	if r.status == http.StatusTooManyRequests || r.status == http.StatusServiceUnavailable {
		details := retryInfo(appendStatus(nil, code, message), retryAfterSeconds(r.retryAfter))
		header[http.TrailerPrefix+"Grpc-Status-Details-Bin"] = []string{base64.RawStdEncoding.EncodeToString(details)}
	}
	return r.status
}

// NoEngine answers calls over gRPC while there is no engine. Senders drop what an answer of HTTP alone refuses.
func NoEngine(why string) http.Handler {
	r := &refusal{status: http.StatusServiceUnavailable, code: engine.ErrNotReady.Code, detail: why,
		retryAfter: engine.ErrNotReady.RetryAfter}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { failGRPC(w, requestID(req.Header), r) })
}

// retryInfo appends a google.rpc.RetryInfo to a google.rpc.Status.
func retryInfo(status []byte, seconds int) []byte {
	delay := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(seconds))
	info := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), delay)
	detail := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType),
		"type.googleapis.com/google.rpc.RetryInfo")
	detail = protowire.AppendBytes(protowire.AppendTag(detail, 2, protowire.BytesType), info)
	return protowire.AppendBytes(protowire.AppendTag(status, 3, protowire.BytesType), detail)
}

// grpcStatus sets the trailers of an answer.
func grpcStatus(header http.Header, code uint64, message string) {
	header[http.TrailerPrefix+"Grpc-Status"] = []string{strconv.FormatUint(code, 10)}
	if message != "" {
		header[http.TrailerPrefix+"Grpc-Message"] = []string{percentEncoded(message)}
	}
}

// percentEncoded escapes what a trailer cannot carry.
func percentEncoded(text string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(text) {
		if c := text[i]; c >= ' ' && c <= '~' && c != '%' {
			b.WriteByte(c)
		} else {
			b.WriteByte('%')
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
		}
	}
	return b.String()
}
