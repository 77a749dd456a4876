package ingest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/ingest/event"
)

// serve takes one request up to its answer in s.answer, or refuses it. What can
// be said from the headers alone is said before the body is read.
func (h *Handler) serve(c *gin.Context, s *requestState) *refusal {
	req := c.Request
	var r *refusal
	if s.token, r = h.o.Auth.check(req, PermitSend); r != nil {
		return r
	}
	if r = s.parseQuery(req); r != nil {
		return r
	}
	if s.backfill && s.token != nil && !s.token.May(PermitBackfill) {
		return h.o.Auth.forbid(s.token, PermitBackfill)
	}
	if s.deadline, r = parseDeadline(req.Header); r != nil {
		return r
	}
	if r = s.checkDeadline("before the request came in"); r != nil {
		return r
	}
	media, r := parseMediaType(req.Header)
	if r != nil {
		return r
	}
	enc, ok := parseEncoding(req.Header.Get("Content-Encoding"))
	if !ok {
		return &refusal{status: http.StatusUnsupportedMediaType, code: problemEncoding, accept: supportedEncodings,
			closeConn: true, detail: "use one Content-Encoding of " + supportedEncodings}
	}
	if r = h.readBody(c, s, enc); r != nil {
		return r
	}
	if r = h.decode(req, s, enc, media); r != nil {
		return r
	}
	if r = s.checkDeadline("while the body was read; nothing was stored"); r != nil {
		return r
	}
	return h.commit(req, s)
}

func (s *requestState) checkDeadline(when string) *refusal {
	if s.deadline.IsZero() || s.h.o.Now().Before(s.deadline) {
		return nil
	}
	return &refusal{status: http.StatusGatewayTimeout, code: problemDeadlinePassed,
		detail: "X-Request-Deadline passed " + when}
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
		return tooLarge(fmt.Sprintf("the body has %d bytes, the limit is %d", req.ContentLength, limit))
	}
	// Not every http.ResponseWriter can do this; the one of a real server can.
	control := http.NewResponseController(c.Writer)
	_ = control.SetReadDeadline(time.Now().Add(h.o.BodyTimeout))
	err := s.raw.readFrom(req.Body, int(limit), req.ContentLength)
	if err != nil {
		return h.readRefusal(req, err, limit)
	}
	// A deadline left over would cancel the request while it waits for the disk.
	_ = control.SetReadDeadline(time.Time{})
	h.o.Metrics.wireBytes.Add(len(s.raw.data))
	return nil
}

func (h *Handler) readRefusal(req *http.Request, err error, limit int64) *refusal {
	var coding *encodingError
	switch {
	case errors.Is(err, errBodyTooLarge):
		return tooLarge(fmt.Sprintf("the body has more than %d bytes; send fewer events at a time", limit))
	case errors.Is(err, errNoMemory):
		return &refusal{status: http.StatusServiceUnavailable, code: problemOverloaded, closeConn: true,
			detail: "too many bytes are in flight", retryAfter: time.Second}
	case errors.As(err, &coding):
		return &refusal{status: http.StatusBadRequest, code: problemBadBody,
			detail: fmt.Sprintf("the body is not valid %v", coding)}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &refusal{status: http.StatusRequestTimeout, code: problemTooSlow, closeConn: true,
			detail: fmt.Sprintf("the body took longer than %s", h.o.BodyTimeout)}
	case req.Context().Err() != nil:
		return &refusal{status: statusClientGone, code: problemGone}
	default:
		return &refusal{status: http.StatusBadRequest, code: problemBadBody, closeConn: true,
			detail: fmt.Sprintf("read the body: %v", err)}
	}
}

func tooLarge(detail string) *refusal {
	return &refusal{status: http.StatusRequestEntityTooLarge, code: problemTooLarge, detail: detail, closeConn: true}
}

// decode unpacks and parses the body. Only so many bodies at a time: parsing
// is work for the processor, and needs several times the memory of the body.
func (h *Handler) decode(req *http.Request, s *requestState, enc encoding, media mediaType) *refusal {
	ctx := req.Context()
	select {
	case h.decoding <- struct{}{}:
	default:
		select {
		case h.decoding <- struct{}{}:
		case <-ctx.Done():
			return &refusal{status: statusClientGone, code: problemGone}
		}
	}
	defer func() { <-h.decoding }()

	data := s.raw.data
	if enc != identity {
		if err := inflate(&s.plain, data, enc, int(h.o.MaxBodyBytes)); err != nil {
			return h.readRefusal(req, err, h.o.MaxBodyBytes)
		}
		s.raw.free()
		data = s.plain.data
	}
	h.o.Metrics.bodyBytes.Add(len(data))
	format, r := media.format(data)
	if r != nil {
		return r
	}
	opt := event.DecodeOptions{
		Now:      h.o.Now(),
		Backfill: s.backfill,
		Catalog:  h.o.Catalog(),
		Limits:   h.limits(),
		AssignID: s.assign,
	}
	if s.token != nil {
		opt.AllowService = s.token.serviceCheck()
	}
	if err := s.decoder.Decode(format, data, opt, s.batch); err != nil {
		return decodeRefusal(err)
	}
	// The batch shares no memory with the body.
	s.raw.release()
	s.plain.release()
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

// commit stores the good events and fills in the answer.
func (h *Handler) commit(req *http.Request, s *requestState) *refusal {
	b, a := s.batch, &s.answer
	accepted, duplicates := len(b.Events), 0
	if !s.dryRun && accepted > 0 {
		ctx := req.Context()
		if !s.deadline.IsZero() {
			var cancel context.CancelFunc
			ctx, cancel = context.WithDeadline(ctx, s.deadline)
			defer cancel()
		}
		result, err := h.o.Committer.Commit(ctx, b)
		if err != nil {
			s.batch = nil // it may still wait in a queue
			return h.commitRefusal(req, err)
		}
		accepted, duplicates = result.Accepted, result.Duplicates
	}
	*a = Answer{
		Received:        b.Received,
		Accepted:        accepted,
		Duplicates:      duplicates,
		Rejected:        b.Rejected,
		Errors:          b.Errors,
		ErrorsTruncated: b.ErrorsTruncated,
		DryRun:          s.dryRun,
	}
	for i := range b.Events {
		if b.Events[i].Assigned != "" {
			a.Assigned++
		}
	}
	if b.Received == 1 && a.Assigned == 1 {
		a.ID = b.Events[0].Assigned
	}
	if b.Rejected > 0 && b.Rejected == b.Received {
		return &refusal{status: http.StatusUnprocessableEntity, code: problemAllRejected,
			detail: fmt.Sprintf("%d of %d events were rejected; see errors", b.Rejected, b.Received)}
	}
	return nil
}

func (h *Handler) commitRefusal(req *http.Request, err error) *refusal {
	var unavailable *UnavailableError
	switch {
	case errors.As(err, &unavailable):
		return &refusal{status: http.StatusServiceUnavailable, code: unavailable.Code,
			detail: err.Error(), retryAfter: unavailable.RetryAfter}
	case req.Context().Err() != nil:
		return &refusal{status: statusClientGone, code: problemGone}
	case errors.Is(err, context.DeadlineExceeded):
		return &refusal{status: http.StatusGatewayTimeout, code: problemDeadlinePassed,
			detail: "X-Request-Deadline passed while the events were being stored; they may be counted or not, a resend with the same ids is safe"}
	default:
		h.o.Logger.Error("commit events", "err", err)
		return &refusal{status: http.StatusInternalServerError, code: problemInternal,
			detail: "the events could not be stored; a resend with the same ids is safe"}
	}
}

// limits are those in force now: the longest window changes with the spec.
func (h *Handler) limits() event.Limits {
	l := h.o.Limits
	if h.o.MaxBackfill != nil {
		l.MaxBackfill = h.o.MaxBackfill()
	}
	return l
}
