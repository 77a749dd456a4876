package ingest

import (
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/sloengine/sloengine/ingest/counter"
	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/otlp"
	"github.com/sloengine/sloengine/ingest/otlp/otlpwire"
)

// Where spans, log records and metrics are posted (OTLP 1.x over HTTP).
const (
	TracesPath  = "/v1/traces"
	LogsPath    = "/v1/logs"
	MetricsPath = "/v1/metrics"
)

// The media types of OTLP. The answer has that of the request.
const (
	mediaProtobuf = "application/x-protobuf"
	mediaJSON     = "application/json"
)

// otlpDoor is that of OpenTelemetry, over HTTP or gRPC. Its answers differ from those of events, because a sender of
// OTLP resends a request as a whole or not at all:
//
//   - Rejected spans, even if they are all, are a success with partial_success.
//   - If any span is throttled, all is 429, whatever was stored: a resend finds duplicates.
//   - A failure after which a resend helps is 503, as others would not be resent.
type otlpDoor struct {
	grpc bool
	of   *signal
}

// signal is a signal of OpenTelemetry.
type signal struct {
	name     string // in metrics
	items    string // in texts
	rejected string // the field of partial_success that counts them, in JSON
	path     string // over HTTP
	method   string // over gRPC
	index    int    // in HTTPMetrics.ignored
}

// The signals that count.
var (
	traces = &signal{"traces", "spans", "rejectedSpans", TracesPath, grpcTracesPath, 0}
	logs   = &signal{"logs", "log records", "rejectedLogRecords", LogsPath, grpcLogsPath, 1}
	points = &signal{"metrics", "points", "rejectedDataPoints", MetricsPath, grpcMetricsPath, 2}

	signals = []*signal{traces, logs, points}
)

// spanState is what a request of OTLP needs besides a requestState.
type spanState struct {
	wire     *otlpwire.Decoder
	mapper   *otlp.Mapper
	counters *counter.Batch // of metrics; nil: there are none
	json     bool
	ignored  []int // items by otlp.Reason
	large    bool  // the body was large, and with it what decoding it needs
}

// points are the points of a request of metrics that are to be recorded; nil: there are none.
func (s *requestState) points() engine.Position {
	if s.form.spans == nil || s.form.spans.counters == nil || s.form.spans.counters.Empty() {
		return nil
	}
	return s.form.spans.counters
}

func (d otlpDoor) counts() bool { return d.of == points }

func (d otlpDoor) begin(h *Handler, req *http.Request, s *requestState) *refusal {
	if s.form.spans == nil {
		t := &h.o.Translation
		s.form.spans = &spanState{wire: otlpwire.New(otlpwire.Limits{}), mapper: otlp.NewMapper(t.Spans, t.Seen, t.Findings),
			ignored: make([]int, len(otlp.Reasons()))}
	}
	if d.grpc {
		s.form.spans.json = false
		return beginGRPC(req, s)
	}
	media, _, err := mime.ParseMediaType(req.Header.Get("Content-Type"))
	s.form.spans.json = media == mediaJSON
	if err != nil || media != mediaProtobuf && !s.form.spans.json {
		return &refusal{status: http.StatusUnsupportedMediaType, code: problemMediaType, closeConn: true,
			detail: fmt.Sprintf("unsupported Content-Type %.100q (want %s or %s)", req.Header.Get("Content-Type"), mediaProtobuf,
				mediaJSON)}
	}
	if req.URL.RawQuery != "" {
		return &refusal{status: http.StatusBadRequest, code: problemBadQuery, closeConn: true,
			detail: d.of.path + " takes no query parameters (remove them from the exporter's endpoint)"}
	}
	return s.parseEncoding(req.Header.Get("Content-Encoding"))
}

func (d otlpDoor) open(s *requestState, body []byte) ([]byte, *refusal) {
	if d.grpc {
		return openGRPC(s, body)
	}
	return body, nil
}

func (d otlpDoor) decode(h *Handler, s *requestState, body []byte, opt event.DecodeOptions) (text []byte, err error) {
	in, t := s.form.spans, &h.o.Translation
	clear(in.ignored)
	in.large = len(body) > keptBatchBytes
	s.decoder.Begin(opt, s.batch)
	in.mapper.Begin(opt.Catalog, t.Attributes)
	refuse := func(code event.Code) {
		service, typ := in.mapper.Refused()
		if opt.AllowService == nil || opt.AllowService(service) {
			s.batch.Refuse(service, typ, code, 1)
		}
	}
	take := func(draft *event.Draft, why otlp.Reason) event.Code {
		if draft == nil {
			in.ignored[why]++
			switch why {
			case otlp.UnknownService:
				refuse(event.CodeUnknownService)
			case otlp.UnknownType:
				refuse(event.CodeUnknownType)
			default:
			}
			return ""
		}
		return s.decoder.Add(draft)
	}
	span := func(span *otlpwire.Span) error { take(in.mapper.Span(span)); return nil }
	log := func(r *otlpwire.LogRecord) error { take(in.mapper.Log(r)); return nil }
	point := func(p *otlpwire.Point) error {
		if take(in.mapper.Point(p)) != event.CodeTimeInFuture { // another refused point is lost, and the next adds to it
			in.mapper.KeepPoint()
		}
		return nil
	}
	if d.of == points && t.Counters != nil {
		if in.counters == nil {
			in.counters = counter.NewBatch(t.Counters)
		}
		in.mapper.Counters(in.counters, t.Thresholds, opt.AllowService)
	}
	code := event.CodeInvalidProtobuf
	if in.json {
		code = event.CodeInvalidJSON
	}
	switch {
	case d.of == traces && in.json:
		err = in.wire.TracesJSON(body, span)
	case d.of == traces:
		err = in.wire.Traces(body, span)
	case d.of == logs && in.json:
		err = in.wire.LogsJSON(body, log)
	case d.of == logs:
		err = in.wire.Logs(body, log)
	case in.json:
		err = in.wire.MetricsJSON(body, point)
	default:
		err = in.wire.Metrics(body, point)
	}
	s.decoder.End()
	if err != nil {
		s.batch.Reset()
		var broken *otlpwire.Error
		if !errors.As(err, &broken) {
			return nil, err
		}
		return nil, &event.BodyError{Code: code, Reason: broken.Error(), Offset: broken.Offset}
	}
	for why, n := range in.ignored {
		if n > 0 {
			h.o.Metrics.ignored[d.of.index][why].Add(n)
		}
	}
	lost := in.wire.Losses()
	h.o.Metrics.cut.Add(in.mapper.Cut() + lost.Cut + lost.Repaired)
	return s.decoder.Drafts(), nil
}

func (d otlpDoor) respond(h *Handler, c *gin.Context, s *requestState) int {
	h.o.Metrics.countAnswer(&s.answer)
	if s.limits.retryAfter > 0 {
		return d.write(c, s, &refusal{status: http.StatusTooManyRequests, code: problemRateLimited,
			retryAfter: s.limits.retryAfter,
			detail: fmt.Sprintf("%d of %d %s exceed their rate limits (resend the request after Retry-After: what is stored "+
				"counts once)", s.answer.Limited, s.answer.Received, d.of.items)})
	}
	return d.accept(c, s)
}

// accept answers 200, with the spans that must not be sent again.
func (d otlpDoor) accept(c *gin.Context, s *requestState) int {
	a := &s.answer
	lost, reason := a.Rejected+a.Limited+a.DeadLettered, ""
	if lost > 0 {
		reason = d.lost(a)
	}
	out := s.out[:0]
	switch {
	case lost == 0 && s.form.spans.json:
		out = append(out, "{}"...)
	case lost == 0:
	case s.form.spans.json:
		out = append(strconv.AppendInt(append(out, `{"partialSuccess":{"`+d.of.rejected+`":"`...), int64(lost), 10),
			`","errorMessage":`...)
		out = append(event.AppendJSONText(out, reason), "}}"...)
	default:
		partial := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(lost))
		partial = protowire.AppendString(protowire.AppendTag(partial, 2, protowire.BytesType), reason)
		out = protowire.AppendBytes(protowire.AppendTag(out, 1, protowire.BytesType), partial)
	}
	s.out = out
	return d.send(c, s, http.StatusOK)
}

// lost says how many items do not count, by code, with the first detail of each.
func (d otlpDoor) lost(a *Answer) string {
	var codes []event.Code
	first, counts := map[event.Code]string{}, map[event.Code]int{}
	add := func(code event.Code, n int, detail string) {
		if counts[code] == 0 {
			codes, first[code] = append(codes, code), detail
		}
		counts[code] += n
	}
	for i := range a.Errors {
		add(a.Errors[i].Code, 1, a.Errors[i].Detail)
	}
	for _, run := range a.Unlisted {
		add(run.Code, run.To-run.From+1, "")
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d %s that would count are refused:", a.Rejected+a.Limited+a.DeadLettered, a.Received,
		d.of.items)
	for i, code := range codes {
		if i > 0 {
			b.WriteByte(';')
		}
		fmt.Fprintf(&b, " %d %s", counts[code], code)
		if first[code] != "" {
			fmt.Fprintf(&b, " (%s)", strings.TrimSuffix(first[code], "."))
		}
	}
	return b.String()
}

func (d otlpDoor) refuse(_ *Handler, c *gin.Context, s *requestState, r *refusal) int {
	if r.code == problemAllRejected {
		return d.accept(c, s)
	}
	switch r.status {
	case http.StatusRequestTimeout, http.StatusInternalServerError, http.StatusGatewayTimeout:
		again := *r
		again.status = http.StatusServiceUnavailable
		r = &again
	}
	return d.write(c, s, r)
}

// statusCodes are the numbers of google.rpc.Code for the statuses of refusals.
var statusCodes = map[int]uint64{
	http.StatusBadRequest: 3, http.StatusUnauthorized: 16, http.StatusForbidden: 7, http.StatusRequestEntityTooLarge: 3,
	http.StatusUnsupportedMediaType: 3, http.StatusTooManyRequests: 8, http.StatusServiceUnavailable: 14,
	statusClientGone: 1,
}

// rpc are the code and the message of a google.rpc.Status.
func (r *refusal) rpc() (code uint64, message string) {
	return statusCodes[r.status], r.code + ": " + r.detail
}

// write answers with a google.rpc.Status.
func (d otlpDoor) write(c *gin.Context, s *requestState, r *refusal) int {
	if d.grpc {
		return failGRPC(c.Writer, s.id, r)
	}
	r.setHeaders(c.Writer.Header())
	code, message := r.rpc()
	out := s.out[:0]
	if s.form.spans != nil && s.form.spans.json {
		out = strconv.AppendUint(append(out, `{"code":`...), code, 10)
		out = append(event.AppendJSONText(append(out, `,"message":`...), message), '}')
	} else {
		out = appendStatus(out, code, message)
	}
	s.out = out
	return d.send(c, s, r.status)
}

// appendStatus appends a google.rpc.Status without details.
func appendStatus(out []byte, code uint64, message string) []byte {
	out = protowire.AppendVarint(protowire.AppendTag(out, 1, protowire.VarintType), code)
	return protowire.AppendString(protowire.AppendTag(out, 2, protowire.BytesType), message)
}

var headerProtobuf = []string{mediaProtobuf}

// send writes s.out.
func (d otlpDoor) send(c *gin.Context, s *requestState, status int) int {
	header := c.Writer.Header()
	header["X-Request-Id"] = []string{s.id}
	if d.grpc {
		return sendGRPC(c, s)
	}
	header["X-Content-Type-Options"] = headerNoSniff
	header["Content-Type"] = headerProtobuf
	if s.form.spans != nil && s.form.spans.json {
		header["Content-Type"] = headerJSON
	}
	c.Writer.WriteHeader(status)
	_, _ = c.Writer.Write(s.out)
	return status
}
