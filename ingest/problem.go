package ingest

import (
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/reliability/ratelimit"
)

// Problem is the body of every 4xx and 5xx answer: problem details as of
// RFC 9457, with the same counters and errors as an Answer.
type Problem struct {
	Type     string `json:"type"`     // "urn:sloengine:problem:" and the code
	Title    string `json:"title"`    // the same for every problem with this code
	Status   int    `json:"status"`   // the HTTP status
	Detail   string `json:"detail"`   // advice for this instance
	Instance string `json:"instance"` // the request id
	Code     string `json:"code"`

	Answer

	// Position of the mistake in a body that could not be parsed; Line and
	// Column count from 1, in bytes.
	Offset int `json:"offset,omitempty"`
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`

	// RateLimit is, of a 429, the tightest limit of the request.
	RateLimit *RateLimit `json:"rate_limit,omitempty"`
}

// RateLimit is a limit and how far it is used up.
type RateLimit struct {
	Rule      string `json:"rule"`
	Layer     string `json:"layer"`     // global, type or context
	Limit     int64  `json:"limit"`     // events
	Remaining int64  `json:"remaining"` // of them
	Window    int    `json:"window"`    // seconds that the limit is of, rounded up
	Reset     int    `json:"reset"`     // seconds until there is room again, rounded up
}

// The codes of problems. Those of unparsable bodies come from ingest/event.
const (
	problemEmptyBody      = "empty_body"
	problemBadBody        = "bad_body"
	problemBadDeadline    = "bad_deadline"
	problemBadQuery       = "bad_query"
	problemUnauthorized   = "unauthorized"
	problemForbidden      = "forbidden"
	problemCrossSite      = "cross_site"
	problemForeignHost    = "unknown_host"
	problemTooSlow        = "body_too_slow"
	problemTooLarge       = "body_too_large"
	problemMediaType      = "unsupported_media_type"
	problemEncoding       = "unsupported_encoding"
	problemAllRejected    = "all_rejected"
	problemGone           = "client_closed_request"
	problemInternal       = "internal"
	problemServiceBudget  = "service_budget"
	problemOverloaded     = "overloaded"
	problemDeadlinePassed = "deadline_passed"
	problemBadSamples     = "invalid_samples"
	problemNotReceiving   = "not_receiving"
)

var problemTitles = map[string]string{
	problemEmptyBody:     "The body is empty",
	problemBadBody:       "The body cannot be read",
	problemBadDeadline:   "Invalid X-Request-Deadline",
	problemBadQuery:      "Invalid query parameter",
	problemUnauthorized:  "Missing or invalid token",
	problemForbidden:     "The token does not allow this",
	problemCrossSite:     "The request comes from another site",
	problemForeignHost:   "The host name is not allowed",
	problemTooSlow:       "The body arrived too slowly",
	problemTooLarge:      "The body is too large",
	problemMediaType:     "The content type is not supported",
	problemEncoding:      "The content encoding is not supported",
	problemAllRejected:   "Every event was rejected",
	problemGone:          "The client closed the request",
	problemInternal:      "Internal error",
	problemServiceBudget: "A service exceeds its budget",
	problemOverloaded:    "The server is overloaded",
	problemBadSamples:    "Some samples are refused",
	problemNotReceiving:  "Nothing receives samples",

	// Those of UnavailableError.
	"disk_full":      "The disk is full",
	"no_descriptors": "The server has no file descriptors left",
	"write_failed":   "The log could not be written",
	"not_ready":      "The engine is recovering",
	"poisoned":       "The log is no longer writable",
	"clock_jump":     "The engine's clock jumped",
	"stopping":       "The engine is shutting down",

	problemDeadlinePassed: "The deadline has passed",
	problemRateLimited:    "Rate limit exceeded",
	"batch_too_large":     "The batch has too many events",
}

// statusClientGone answers a request whose client left before it could be stored. Hardly
// anybody sees it, but it must not look like success.
const statusClientGone = 499

func clientGone() *refusal {
	return &refusal{status: statusClientGone, code: problemGone, closeConn: true,
		detail: "the connection was closed before the events were stored (it is safe to resend them with the same ids)"}
}

// refusal is a request refused as a whole.
type refusal struct {
	status     int
	code       string
	detail     string
	retryAfter time.Duration // for 429 and 503; rounded up to seconds, at least 1
	challenge  []string      // WWW-Authenticate of a 401 or 403
	accept     string        // Accept-Encoding of a 415
	closeConn  bool          // the rest of the body is not worth reading

	offset, line, column int
	quota                ratelimit.Quota // of a 429
}

func (r *refusal) appendJSON(dst []byte, requestID string, a *Answer) []byte {
	title, ok := problemTitles[r.code]
	if !ok {
		title = "The body cannot be parsed"
	}
	dst = append(dst, `{"type":`...)
	dst = event.AppendJSONText(dst, "urn:sloengine:problem:"+r.code)
	dst = append(dst, `,"title":`...)
	dst = event.AppendJSONText(dst, title)
	dst = appendCount(dst, `,"status":`, r.status)
	dst = append(dst, `,"detail":`...)
	dst = event.AppendJSONText(dst, r.detail)
	dst = append(dst, `,"instance":`...)
	dst = event.AppendJSONText(dst, requestID)
	dst = append(dst, `,"code":`...)
	dst = event.AppendJSONText(dst, r.code)
	dst = append(dst, ',')
	dst = a.appendMembers(dst)
	if q := &r.quota; q.Limit > 0 {
		dst = event.AppendJSONText(append(dst, `,"rate_limit":{"rule":`...), q.Rule)
		dst = event.AppendJSONText(append(dst, `,"layer":`...), q.Layer.String())
		dst = appendCount(dst, `,"limit":`, int(q.Limit))
		dst = appendCount(dst, `,"remaining":`, int(q.Remaining))
		dst = appendCount(dst, `,"window":`, int((q.Window+time.Second-1)/time.Second))
		dst = append(appendCount(dst, `,"reset":`, retryAfterSeconds(q.Reset)), '}')
	}
	if r.offset > 0 {
		dst = appendCount(dst, `,"offset":`, r.offset)
	}
	if r.line > 0 {
		dst = appendCount(dst, `,"line":`, r.line)
	}
	if r.column > 0 {
		dst = appendCount(dst, `,"column":`, r.column)
	}
	return append(dst, '}', '\n')
}

// Header values that every answer shares; net/http only reads them.
var (
	headerJSON    = []string{"application/json"}
	headerProblem = []string{"application/problem+json"}
	headerNoSniff = []string{"nosniff"}
	headerNoStore = []string{"no-store"}
	headerClose   = []string{"close"}
)

func (r *refusal) setHeaders(h http.Header) {
	h["Content-Type"] = headerProblem
	h["X-Content-Type-Options"] = headerNoSniff
	h["Cache-Control"] = headerNoStore
	if r.status == http.StatusTooManyRequests || r.status == http.StatusServiceUnavailable {
		h.Set("Retry-After", strconv.Itoa(retryAfterSeconds(r.retryAfter)))
	}
	if len(r.challenge) > 0 {
		h["Www-Authenticate"] = r.challenge
	}
	if r.accept != "" {
		h.Set("Accept-Encoding", r.accept)
	}
	if r.closeConn {
		h["Connection"] = headerClose
	}
}

// retryAfterSeconds rounds up, so that no sender comes back too early; at least 1,
// because 0 would mean "at once".
func retryAfterSeconds(d time.Duration) int {
	return int(max((d+time.Second-1)/time.Second, 1))
}

// abort answers a request that never got as far as its body.
func (r *refusal) abort(c *gin.Context, requestID string) {
	c.Abort()
	if isGRPC(c.Request) {
		failGRPC(c.Writer, requestID, r)
		return
	}
	r.setHeaders(c.Writer.Header())
	c.Writer.WriteHeader(r.status)
	_, _ = c.Writer.Write(r.appendJSON(nil, requestID, &Answer{}))
}
