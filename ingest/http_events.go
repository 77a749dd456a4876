package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/rejects"
	"github.com/sloengine/sloengine/ingest/trace"
	"github.com/sloengine/sloengine/reliability/connlimit"
)

// door is a protocol in which events arrive over HTTP. Everything between its questions and its answers is the same for
// all of them.
type door interface {
	// begin reads the query and the headers that only this protocol has, and sets s.form.encoding.
	begin(h *Handler, req *http.Request, s *requestState) *refusal
	// counts reports whether the bodies are points of counters. Then only one is between decoding and the log at a time,
	// and no limit holds back its events one by one.
	counts() bool
	// open returns the message in a body as it was sent, which is still encoded.
	open(s *requestState, body []byte) ([]byte, *refusal)
	// decode fills s.batch from the body. The errors of the batch point into text.
	decode(h *Handler, s *requestState, body []byte, opt event.DecodeOptions) (text []byte, err error)
	// respond writes the answer of a request that was decided event by event, and refuse that of one refused as a whole.
	// Both return the status.
	respond(h *Handler, c *gin.Context, s *requestState) int
	refuse(h *Handler, c *gin.Context, s *requestState, r *refusal) int
}

// arrive checks the headers of a request before it reads the body.
func (h *Handler) arrive(c *gin.Context, s *requestState, d door) *refusal {
	req := c.Request
	r := checkOrigin(req)
	if r != nil {
		return r
	}
	if s.token, r = h.o.Auth.check(req, PermitSend); r != nil {
		return r
	}
	if s.deadline.Time, r = parseDeadline(req.Header); r != nil {
		return r
	}
	if !s.deadline.IsZero() {
		s.deadline = due{Time: s.deadline.Add(-h.o.Reserve), own: true}
	}
	if r = s.checkDeadline("before the request arrived"); r != nil {
		return r
	}
	if r = d.begin(h, req, s); r != nil {
		return r
	}
	within := h.o.Deadline
	if s.deadline.own {
		within = s.deadline.Sub(h.o.Now())
	}
	if s.deadline.soon = 0 < within && within <= h.o.LeftTimeout; s.deadline.soon {
		connlimit.Steadfast(req)
	}
	if r = h.readBody(c, s, s.form.encoding); r != nil {
		return r
	}
	if !s.deadline.own && h.o.Deadline > 0 {
		s.deadline.Time = h.o.Now().Add(h.o.Deadline - h.o.Reserve)
	}
	return nil
}

// serve handles one request up to its answer in s.answer, or refuses it.
func (h *Handler) serve(c *gin.Context, s *requestState, d door) *refusal {
	req := c.Request
	r := h.arrive(c, s, d)
	if r != nil {
		return r
	}
	if d, ok := d.(writeDoor); ok {
		return d.take(h, req, s)
	}
	if d.counts() {
		if r = h.enter(req, s, h.counting, "the points before were counted"); r != nil {
			return r
		}
		defer func() { <-h.counting }()
	}
	if r = h.decode(req, s, d); r != nil {
		return r
	}
	if r = s.checkDeadline("before any event was stored"); r != nil {
		return r
	}
	if h.o.Budgets != nil && !s.query.dryRun {
		lease, over := h.o.Budgets.Take(s.batch, h.o.Now())
		if over != nil {
			return &refusal{status: http.StatusTooManyRequests, code: problemServiceBudget, retryAfter: over.Retry,
				detail: over.Error() + " (resend the request after Retry-After, or raise budgets in engine.yaml)"}
		}
		defer lease.Release()
	}
	if !d.counts() {
		h.ticket(req, s)
	}
	if r = h.redact(s); r != nil {
		return r
	}
	return h.commit(req, s)
}

// eventsDoor is that of /api/v1/events.
type eventsDoor struct{}

func (eventsDoor) begin(h *Handler, req *http.Request, s *requestState) *refusal {
	r := s.parseQuery(req)
	if r != nil {
		return r
	}
	if s.query.backfill && s.token != nil && !s.token.May(PermitBackfill) {
		return h.o.Auth.forbid(s.token, PermitBackfill)
	}
	s.form.envelope, r = parseEnvelope(req.Header)
	if r == nil && s.form.envelope == nil {
		s.form.format, r = parseMediaType(req.Header)
	}
	if r != nil {
		return r
	}
	s.form.trace, _ = trace.Parent(req.Header[trace.Header])
	return s.parseEncoding(req.Header.Get("Content-Encoding"))
}

func (eventsDoor) counts() bool { return false }

func (eventsDoor) open(_ *requestState, body []byte) ([]byte, *refusal) { return body, nil }

func (eventsDoor) decode(_ *Handler, s *requestState, body []byte, opt event.DecodeOptions) (text []byte, err error) {
	if s.form.envelope != nil {
		err = s.decoder.DecodeBinary(s.form.envelope, body, opt, s.batch)
	} else {
		err = s.decoder.Decode(s.form.format, body, opt, s.batch)
	}
	if s.form.trace != (trace.ID{}) {
		s.batch.Traces = trace.OfRequest(s.form.trace)
	}
	return body, err
}

// parseEncoding reads the encoding of the body from its header.
func (s *requestState) parseEncoding(header string) *refusal {
	var ok bool
	if s.form.encoding, ok = parseEncoding(header); !ok {
		return &refusal{status: http.StatusUnsupportedMediaType, code: problemEncoding, accept: supportedEncodings,
			closeConn: true, detail: "unsupported Content-Encoding (want one of " + supportedEncodings + ")"}
	}
	return nil
}

func (s *requestState) checkDeadline(when string) *refusal {
	if s.deadline.IsZero() || s.h.o.Now().Before(s.deadline.Time) {
		return nil
	}
	return s.expired(when)
}

func (s *requestState) expired(when string) *refusal {
	s.h.o.Metrics.expired.Expired()
	return &refusal{status: http.StatusGatewayTimeout, code: problemDeadlinePassed,
		detail: s.whose() + " passed " + when}
}

// whose names the deadline.
func (s *requestState) whose() string {
	if s.deadline.own {
		return "X-Request-Deadline"
	}
	return fmt.Sprintf("the default deadline of %s (no X-Request-Deadline header)", s.h.o.Deadline)
}

// readBody reads the body as it was sent. A slow client costs the bytes it
// sent, and that for BodyTimeout at most.
func (h *Handler) readBody(c *gin.Context, s *requestState, enc encoding) *refusal {
	req := c.Request
	limit := h.o.MaxWireBytes
	if enc == identity {
		limit = h.o.MaxBodyBytes
	}
	if req.ContentLength > limit {
		return tooLarge(fmt.Sprintf("the body of %d bytes exceeds the limit of %d bytes", req.ContentLength, limit))
	}
	s.bodies.control = *http.NewResponseController(c.Writer)
	h.drain.enter(&s.bodies.control, time.Now().Add(h.o.BodyTimeout))
	err := s.bodies.raw.readFrom(req.Body, int(limit), req.ContentLength)
	h.drain.leave(&s.bodies.control, err == nil)
	if err != nil {
		return h.readRefusal(req, err, limit)
	}
	h.o.Metrics.wireBytes.Add(len(s.bodies.raw.data))
	return nil
}

func (h *Handler) readRefusal(req *http.Request, err error, limit int64) *refusal {
	var coding *encodingError
	switch {
	case errors.Is(err, errBodyTooLarge):
		return tooLarge(fmt.Sprintf("the body exceeds %d bytes (send fewer events per request)", limit))
	case errors.Is(err, errNoMemory):
		return &refusal{status: http.StatusServiceUnavailable, code: problemOverloaded, closeConn: true,
			detail:     "the server has no memory left for request bodies (resend the request after Retry-After)",
			retryAfter: time.Second}
	case errors.As(err, &coding):
		return &refusal{status: http.StatusBadRequest, code: problemBadBody,
			detail: fmt.Sprintf("the body is not valid %v", coding)}
	case errors.Is(err, os.ErrDeadlineExceeded) && h.drain.draining():
		return &refusal{status: http.StatusServiceUnavailable, code: engine.ErrStopping.Code, closeConn: true,
			detail:     "the engine is shutting down and the body did not arrive in time, so nothing was stored",
			retryAfter: engine.ErrStopping.RetryAfter}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &refusal{status: http.StatusRequestTimeout, code: problemTooSlow, closeConn: true,
			detail: fmt.Sprintf("the body did not arrive within %s", h.o.BodyTimeout)}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &refusal{status: http.StatusBadRequest, code: problemBadBody, closeConn: true,
			detail: "the connection was closed before the body was complete, so nothing was stored"}
	case req.Context().Err() != nil:
		return clientGone()
	default:
		return &refusal{status: http.StatusBadRequest, code: problemBadBody, closeConn: true,
			detail: fmt.Sprintf("read the body: %v", err)}
	}
}

func tooLarge(detail string) *refusal {
	return &refusal{status: http.StatusRequestEntityTooLarge, code: problemTooLarge, detail: detail, closeConn: true}
}

// enter waits for a place, until the deadline, or until the sender has gone. The caller must leave it.
func (h *Handler) enter(req *http.Request, s *requestState, places chan struct{}, before string) *refusal {
	select {
	case places <- struct{}{}:
		return nil
	default:
	}
	var late <-chan time.Time
	if !s.deadline.IsZero() {
		timer := time.NewTimer(s.deadline.Sub(h.o.Now()))
		defer timer.Stop()
		late = timer.C
	}
	select {
	case places <- struct{}{}:
		return nil
	case <-late:
		return s.expired("before " + before)
	case <-req.Context().Done():
		return clientGone()
	}
}

// decode unpacks and parses the body. Only so many bodies at a time: parsing
// is work for the processor, and needs several times the memory of the body.
func (h *Handler) decode(req *http.Request, s *requestState, d door) *refusal {
	if r := h.enter(req, s, h.decoding, "the body was decoded"); r != nil {
		return r
	}
	defer func() { <-h.decoding }()

	data, r := d.open(s, s.bodies.raw.data)
	if r != nil {
		return r
	}
	if enc := s.form.encoding; enc != identity {
		if err := inflate(&s.bodies.plain, data, enc, int(h.o.MaxBodyBytes)); err != nil {
			return h.readRefusal(req, err, h.o.MaxBodyBytes)
		}
		s.bodies.raw.free()
		data = s.bodies.plain.data
	}
	h.o.Metrics.bodyBytes.Add(len(data))
	opt := event.DecodeOptions{
		Now:        h.o.Now(),
		Backfill:   s.query.backfill,
		Covers:     s.query.covers,
		Catalog:    h.o.Catalog(),
		SizeLimits: h.sizeLimits(),
		AssignID:   s.assign,
		MapData:    s.mapData,
	}
	if s.token != nil {
		opt.AllowService = s.token.serviceCheck()
	}
	text, err := d.decode(h, s, data, opt)
	if err != nil {
		var broken *event.BodyError
		if h.o.Redact != nil && errors.As(err, &broken) {
			h.o.Redact.BodyError(broken)
		}
		return decodeRefusal(err)
	}
	if s.batch.Rejected > 0 || len(s.batch.Unknown) > 0 {
		h.explainRejects(req, s, text)
	}
	// The batch shares no memory with the body.
	s.bodies.raw.release()
	s.bodies.plain.release()
	return nil
}

func decodeRefusal(err error) *refusal {
	var broken *event.BodyError
	if !errors.As(err, &broken) {
		return &refusal{status: http.StatusBadRequest, code: problemBadBody, detail: err.Error()}
	}
	r := &refusal{status: http.StatusBadRequest, code: string(broken.Code), detail: broken.Error(),
		offset: broken.Offset, line: broken.Line, column: broken.Column}
	switch broken.Code {
	case event.CodeBatchTooLarge:
		r.status = http.StatusRequestEntityTooLarge
	case event.CodeEmptyBody:
		r.detail = broken.Reason
	}
	return r
}

// explainRejects removes personal data from the errors of bad events, and records the events while their body is
// available.
func (h *Handler) explainRejects(req *http.Request, s *requestState, body []byte) {
	if h.o.Redact != nil {
		for i := range s.batch.Errors {
			h.o.Redact.ItemError(&s.batch.Errors[i])
		}
	}
	if !s.query.dryRun {
		h.o.Rejects.Events(s.sender(req), body, s.batch)
	}
}

// sender is who sent a request: the name of its token, or where it comes from.
func (s *requestState) sender(req *http.Request) rejects.Sender {
	if s.token != nil {
		return rejects.Sender{Token: s.token.Name}
	}
	return rejects.Sender{Address: clientIP(req)}
}

// redact takes personal data out of the events.
func (h *Handler) redact(s *requestState) *refusal {
	if h.o.Redact == nil {
		return nil
	}
	if err := h.o.Redact.Apply(s.batch); err != nil {
		h.o.Logger.Error("failed to redact events", "request_id", s.id, "err", err)
		return &refusal{status: http.StatusInternalServerError, code: problemInternal,
			detail: "the engine failed to redact the events, so nothing was stored"}
	}
	return nil
}

// commit stores the good events and fills in the answer.
func (h *Handler) commit(req *http.Request, s *requestState) *refusal {
	b, a, t := s.batch, &s.answer, s.limits.tickets
	result := engine.Result{Accepted: len(b.Events)}
	saved := 0
	if s.query.dryRun {
		var err error
		if result, err = h.rehearse(context.WithoutCancel(req.Context()), s); err != nil {
			return h.commitRefusal(s, err)
		}
		saved = len(result.Critical)
	} else if len(b.Events) > 0 || s.points() != nil {
		ctx := req.Context()
		b.Deadline = s.deadline.Time // a context with it would cost more than all else here
		var err error
		if result, err = h.admit(ctx, s); err != nil {
			s.leave()
			return h.commitRefusal(s, err)
		}
		if len(result.Critical) > 0 {
			saved = h.keepCritical(context.WithoutCancel(ctx), s, b, t, result.Critical)
		}
		if result.Merged > 0 {
			h.o.Limiter.CountAggregated(result.Merged)
		}
	}
	*a = Answer{
		Received:        b.Received,
		Accepted:        result.Accepted,
		Duplicates:      result.Duplicates,
		Rejected:        b.Rejected,
		Errors:          b.Errors,
		ErrorsTruncated: b.ErrorsTruncated,
		Unlisted:        b.Unlisted,
		DryRun:          s.query.dryRun,
	}
	if len(result.Forgotten) > 0 {
		if r := h.keepForgotten(context.WithoutCancel(req.Context()), s, b, &result); r != nil {
			*a = Answer{}
			return r
		}
	}
	for i := range b.Events {
		if b.Events[i].Assigned != "" {
			a.Assigned++
		}
	}
	if b.Received == 1 && a.Assigned == 1 {
		a.ID = b.Events[0].Assigned
	}
	wait := h.explainLimits(s, b, t, &result, saved)
	s.limits.retryAfter = wait
	if wait > 0 && a.Limited == b.Received && result.Dropped == 0 && !s.query.dryRun {
		*a = Answer{}
		return &refusal{status: http.StatusTooManyRequests, code: problemRateLimited, retryAfter: wait,
			detail: "all events exceed their rate limits (resend them after Retry-After)"}
	}
	if b.Rejected > 0 && b.Rejected == b.Received {
		return &refusal{status: http.StatusUnprocessableEntity, code: problemAllRejected,
			detail: fmt.Sprintf("%d of %d events were rejected (see errors)", b.Rejected, b.Received)}
	}
	return nil
}

func (h *Handler) commitRefusal(s *requestState, err error) *refusal {
	var unavailable *engine.UnavailableError
	switch {
	case errors.As(err, &unavailable):
		return &refusal{status: http.StatusServiceUnavailable, code: unavailable.Code,
			detail: err.Error(), retryAfter: unavailable.RetryAfter}
	case errors.Is(err, errClientLeft):
		return clientGone()
	case errors.Is(err, context.DeadlineExceeded):
		h.o.Metrics.expired.Expired()
		return &refusal{status: http.StatusGatewayTimeout, code: problemDeadlinePassed,
			detail: s.whose() + " passed before the events were stored (it is safe to resend them with the same ids)"}
	default:
		h.o.Logger.Error("failed to store events", "err", err)
		return &refusal{status: http.StatusInternalServerError, code: problemInternal,
			detail: "the engine failed to store the events (it is safe to resend them with the same ids)"}
	}
}

// errClientLeft is why a request whose connection is closed stops waiting for the log.
var errClientLeft = errors.New("the client closed the connection")

// store commits the good events, of them those in todo. A sender that closes its half of the
// connection after a whole request is within its rights and waits for the answer. net/http
// ends the context of the request then, and cannot distinguish such a sender from one that
// disconnected, so both are served.
func (h *Handler) store(ctx context.Context, s *requestState, todo []int32) (engine.Result, error) {
	if s.deadline.soon {
		return h.submit(context.WithoutCancel(ctx), s, todo)
	}
	if ctx.Err() == nil {
		if result, err := h.submit(ctx, s, todo); !errors.Is(err, context.Canceled) {
			return result, err
		}
	}
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), h.o.LeftTimeout, errClientLeft)
	defer cancel()
	return h.submit(ctx, s, todo)
}

func (h *Handler) submit(ctx context.Context, s *requestState, todo []int32) (engine.Result, error) {
	if points := s.points(); points != nil {
		result, err := h.o.Translation.Recorder.AdmitAt(ctx, s.batch, nil, todo, points)
		if err == nil { // the next request is compared with these points
			err = h.o.Translation.Recorder.CatchUp(context.WithoutCancel(ctx))
		}
		return result, err
	}
	if s.limits.tickets == nil {
		return h.o.Committer.Commit(ctx, s.batch)
	}
	return h.o.Committer.Admit(ctx, s.batch, s.limits.tickets, todo)
}

// limits are the current ones: the longest window changes with the spec.
func (h *Handler) sizeLimits() event.SizeLimits {
	l := h.o.SizeLimits
	if h.o.MaxBackfill != nil {
		l.MaxBackfill = h.o.MaxBackfill()
	}
	return l
}
