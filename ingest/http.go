package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/ingest/counter"
	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/mapping"
	"github.com/sloengine/sloengine/ingest/otlp"
	"github.com/sloengine/sloengine/ingest/rejects"
	"github.com/sloengine/sloengine/ingest/servicebudget"
	"github.com/sloengine/sloengine/ingest/trace"
	"github.com/sloengine/sloengine/reliability/deadline"
	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/reliability/ratelimit"
)

// Committer makes a batch durable: *Engine. It must not use the batch after it
// returned, unless with an error other than that of ctx.
type Committer interface {
	Commit(ctx context.Context, b *event.Batch) (engine.Result, error)
	// Admit is only called with a Limiter.
	Admit(ctx context.Context, b *event.Batch, t *ratelimit.Tickets, todo []int32) (engine.Result, error)
}

// Redactor takes personal data out: a *redact.Redactor.
type Redactor interface {
	Apply(b *event.Batch) error
	ItemError(e *event.ItemError)
	BodyError(e *event.BodyError)
}

// HandlerOptions configure a Handler. A zero field takes the default given with it.
type HandlerOptions struct {
	Committer Committer // required
	Auth      *Auth     // one that allows everything

	// Catalog is asked once per request; nil, or a nil result, takes every
	// service and type.
	Catalog    func() event.Catalog
	SizeLimits event.SizeLimits // those of package event
	// MaxBackfill is asked once per request how old a backfilled event may be;
	// nil is SizeLimits.MaxBackfill.
	MaxBackfill func() time.Duration

	MaxBodyBytes     int64         // of a body once unpacked, at most 64 MiB; 16 MiB
	MaxWireBytes     int64         // of a body as it is sent; MaxBodyBytes
	MaxInFlightBytes int64         // held by all requests together; 256 MiB
	BodyTimeout      time.Duration // from the headers to the last byte of the body; 30s
	LeftTimeout      time.Duration // a closed connection's events wait for the log; 10s
	// Deadline is how long a request without one of its own may take once its body is
	// there; deadline.Default, negative: as long as it takes.
	Deadline time.Duration
	// Reserve is the part of a deadline that is reserved for the answer; 10ms, negative: nothing.
	Reserve  time.Duration
	Decoders int // bodies unpacked and parsed at a time; GOMAXPROCS, at least 2

	// Limiter makes the tickets that the Committer decides about, while it has a policy;
	// nil: no limits.
	Limiter *ratelimit.Limiter
	// SaveCritical keeps events as dead letters that are over their limit and must not be
	// lost. It returns nil when they are safe. Required with a Limiter.
	SaveCritical func(ctx context.Context, entries []dlq.Entry) error
	// Critical reports whether an event is critical, for dry runs; nil: no event is. See
	// Options.Critical.
	Critical    func(v *event.View) bool
	Translation Translation // of what is not an event
	// Redact takes personal data out of a batch and its errors, once its tickets are made
	// and before anything else sees it; nil: nothing is taken out.
	Redact Redactor

	// Rejects records rejected events for operators; nil: they are not recorded.
	Rejects *rejects.Table
	// Budgets bound the traffic of each service; nil: unbounded.
	Budgets *servicebudget.Budgets

	Metrics *HTTPMetrics
	Logger  *slog.Logger     // slog.Default
	Now     func() time.Time // time.Now
}

// Translation makes events of what others send.
type Translation struct {
	CloudEvents *mapping.Mapping // of their data; nil: these are events
	Spans       *otlp.Settings   // which spans count, and how; nil: otlp.DefaultKeep and nothing else
	Seen        *otlp.Seen       // notes spans that no spec counts; nil: they are not noted
	Findings    *otlp.Findings   // notes what makes numbers wrong; nil: it is not noted
	// Attributes are those that the spec names for a service, for spans; nil: none.
	Attributes func(service []byte) []string
	// Counters has the last points of metrics; nil: no metrics count, and the two below are not used.
	Counters *counter.Table
	Recorder Recorder
	// Thresholds are the durations that the spec compares those of a service and type with; nil: there are none.
	Thresholds func(service, typ string) []time.Duration
	Write      SampleWriter // nil: nothing receives samples
}

// Recorder stores events with the points that they come from, and says when the table of counters has these: *Engine.
type Recorder interface {
	AdmitAt(ctx context.Context, b *event.Batch, t *ratelimit.Tickets, todo []int32, at engine.Position) (engine.Result,
		error)
	CatchUp(ctx context.Context) error
}

func (o *HandlerOptions) applyDefaults() {
	o.MaxBodyBytes = cmp.Or(o.MaxBodyBytes, 16<<20)
	o.MaxWireBytes = cmp.Or(o.MaxWireBytes, o.MaxBodyBytes)
	o.MaxInFlightBytes = cmp.Or(o.MaxInFlightBytes, 256<<20)
	o.BodyTimeout = cmp.Or(o.BodyTimeout, 30*time.Second)
	o.Deadline = cmp.Or(o.Deadline, deadline.Default)
	o.Reserve = max(cmp.Or(o.Reserve, 10*time.Millisecond), 0)
	o.LeftTimeout = cmp.Or(o.LeftTimeout, 10*time.Second)
	o.Decoders = cmp.Or(o.Decoders, max(runtime.GOMAXPROCS(0), 2))
	if o.Metrics == nil {
		o.Metrics = NewHTTPMetrics(metrics.NewSet())
	}
	if o.Auth == nil {
		o.Auth = NewAuth(AuthOptions{Metrics: o.Metrics, Logger: o.Logger})
	}
	if o.Catalog == nil {
		o.Catalog = func() event.Catalog { return nil }
	}
	if o.Translation.Spans == nil {
		o.Translation.Spans = &otlp.Settings{Keep: otlp.DefaultKeep}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
}

func (o *HandlerOptions) validate() error {
	if o.Committer == nil {
		return errors.New("ingest handler: Committer is required")
	}
	if o.Limiter != nil && o.SaveCritical == nil {
		return errors.New("ingest handler: Limiter requires SaveCritical")
	}
	if o.MaxBodyBytes < 0 || o.MaxBodyBytes > largestBuffer {
		return fmt.Errorf("ingest handler: invalid MaxBodyBytes %d (want 1 to %d)", o.MaxBodyBytes, largestBuffer)
	}
	if o.MaxWireBytes < 0 || o.MaxWireBytes > o.MaxBodyBytes {
		return fmt.Errorf("ingest handler: invalid MaxWireBytes %d (want 1 to %d)", o.MaxWireBytes, o.MaxBodyBytes)
	}
	// A buffer and the larger one that takes its place exist side by side for a
	// moment, and of a compressed body both forms.
	if least := int64(smallestBuffer<<sizeFor(int(o.MaxBodyBytes))) * 3 / 2; o.MaxInFlightBytes < least {
		return fmt.Errorf("ingest handler: MaxInFlightBytes %d is too small: one body of %d bytes needs %d",
			o.MaxInFlightBytes, o.MaxBodyBytes, least)
	}
	if o.BodyTimeout < 0 || o.LeftTimeout < 0 || o.Decoders < 0 {
		return errors.New("ingest handler: BodyTimeout, LeftTimeout and Decoders must not be negative")
	}
	return nil
}

// Handler answers POST /api/v1/events. It is safe for concurrent use.
type Handler struct {
	o         HandlerOptions
	budget    budget
	decoding  chan struct{}
	counting  chan struct{} // metrics are compared with the points before, one request after the other
	inFlight  atomic.Int64
	throttled atomic.Int64 // requests held back
	drain     *drain
	states    sync.Pool
	log       throttledLog
}

// NewHandler makes a Handler.
func NewHandler(o HandlerOptions) (*Handler, error) {
	o.applyDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	h := &Handler{
		o:        o,
		budget:   budget{limit: o.MaxInFlightBytes},
		decoding: make(chan struct{}, o.Decoders),
		counting: make(chan struct{}, 1),
		drain:    newDrain(),
		log:      newThrottledLog(o.Logger),
	}
	h.states.New = func() any { return newRequestState(h) }
	o.Metrics.gauges(
		func() float64 { return float64(h.inFlight.Load()) },
		func() float64 { return float64(h.budget.used.Load()) })
	if counters := o.Translation.Counters; counters != nil {
		o.Metrics.counters(counters)
	}
	return h, nil
}

// EventsPath is where events are posted.
const EventsPath = "/api/v1/events"

// Register adds the routes to r.
func (h *Handler) Register(r gin.IRouter) {
	r.POST(EventsPath, h.through(eventsDoor{}))
	for _, of := range signals {
		r.POST(of.path, h.through(otlpDoor{of: of}))
	}
	r.POST(WritePath, h.through(writeDoor{}))
	r.OPTIONS(EventsPath, h.handshake)
}

// Suggested limits of an http.Server before the handler gets to see a request.
const (
	ReadHeaderTimeout = 5 * time.Second
	IdleTimeout       = 2 * time.Minute
	MaxHeaderBytes    = 32 << 10
	// WriteTimeout is from the headers of a request to the last byte of its answer, for
	// handlers that set no time of their own, as those of long answers do.
	WriteTimeout = 2 * time.Minute
)

// Harden sets the timeouts and limits that are not set yet. There is no ReadTimeout on purpose: the
// handler has its own BodyTimeout.
func Harden(s *http.Server) {
	if s.ReadHeaderTimeout == 0 {
		s.ReadHeaderTimeout = ReadHeaderTimeout
	}
	if s.IdleTimeout == 0 {
		s.IdleTimeout = IdleTimeout
	}
	if s.WriteTimeout == 0 {
		s.WriteTimeout = WriteTimeout
	}
	if s.MaxHeaderBytes == 0 {
		s.MaxHeaderBytes = MaxHeaderBytes
	}
}

// requestState holds the buffers of one request; it is pooled for the next one.
type requestState struct {
	h       *Handler
	decoder event.Decoder
	batch   *event.Batch
	bodies  bodies
	answer  Answer
	out     []byte
	ids     idMaker
	assign  func(int) string // by ids
	mapData func(dst, data []byte) ([]byte, error)

	token    *Token
	id       string
	deadline due
	limits   admission
	query    query
	form     form
}

// form is that of a body.
type form struct {
	encoding encoding
	format   event.Format
	trace    trace.ID        // of the request; zero: none
	envelope *event.Envelope // of a CloudEvent whose data the body is; nil: format says what the body is
	spans    *spanState      // nil until the first spans
	write    writeState
}

// bodies are the bodies read from a request.
type bodies struct {
	raw, plain body                    // as sent, and unpacked; plain is unused if nothing was packed
	control    http.ResponseController // of the connection, while the body is read
}

func (b *bodies) free() {
	b.raw.free()
	b.plain.free()
}

// due is when a request must be answered.
type due struct {
	time.Time      // without the reserve; zero: never
	own       bool // the request has it, and not the settings
	soon      bool // before LeftTimeout, so that the request is served to its end whether its client leaves or not
}

// query holds the parsed parameters of a request.
type query struct {
	dryRun, backfill bool
	covers           []event.Span
}

func newRequestState(h *Handler) *requestState {
	s := &requestState{h: h, batch: &event.Batch{}}
	s.bodies.raw.budget, s.bodies.plain.budget = &h.budget, &h.budget
	s.assign = s.ids.next
	if m := h.o.Translation.CloudEvents; m != nil {
		s.mapData = m.Mapper().Append
	}
	return s
}

// The most that a pooled state retains between requests; larger buffers are left to the garbage
// collector.
const (
	keptBatchBytes  = 4 << 20
	keptBatchEvents = 16 << 10
	keptAnswerBytes = 64 << 10
)

// recycle empties s for the next request.
func (s *requestState) recycle() {
	s.bodies.free()
	if s.batch == nil || cap(s.batch.Buf) > keptBatchBytes || cap(s.batch.Events) > keptBatchEvents {
		s.batch = &event.Batch{}
	}
	if cap(s.out) > keptAnswerBytes {
		s.out = nil
	}
	if s.form.spans != nil && s.form.spans.large {
		s.form.spans = nil
	}
	s.batch.Reset()
	s.answer = Answer{}
	s.bodies.control = http.ResponseController{}
	s.ids.reset()
	s.limits.caller, s.limits.retryAfter = ratelimit.Caller{}, 0
	if s.limits.spare != nil {
		s.limits.spare.Reset()
	}
	s.limits.tickets = nil
	s.token, s.id, s.deadline, s.query, s.form.envelope = nil, "", due{}, query{}, nil
	s.h.states.Put(s)
}

// through answers what comes through a door.
func (h *Handler) through(d door) gin.HandlerFunc { return func(c *gin.Context) { h.post(c, d) } }

func (h *Handler) post(c *gin.Context, d door) {
	start := time.Now()
	h.inFlight.Add(1)
	s := h.states.Get().(*requestState)
	// Not deferred with the rest: a state that a panic left halfway is not reused.
	status := h.serveRecovered(c, s, d)
	h.inFlight.Add(-1)
	h.o.Metrics.countRequest(status)
	h.o.Metrics.duration.Update(time.Since(start).Seconds())
}

// serveRecovered answers a panic with 500, once everything it held is released.
func (h *Handler) serveRecovered(c *gin.Context, s *requestState, d door) (status int) {
	defer func() {
		p := recover()
		if p == nil {
			s.recycle()
			return
		}
		s.bodies.free()
		if p == http.ErrAbortHandler { //nolint:errorlint // compared by identity in net/http too
			h.inFlight.Add(-1)
			panic(p)
		}
		h.o.Logger.Error("panic in the event handler", "request_id", s.id, "panic", p, "stack", stack())
		status = http.StatusInternalServerError
		if !c.Writer.Written() {
			r := &refusal{status: status, code: problemInternal,
				detail: "the server failed while processing the request, and may have stored the events (it is safe to resend " +
					"them with the same ids)", closeConn: true}
			s.answer = Answer{}
			d.refuse(h, c, s, r)
		}
	}()
	s.id = requestID(c.Request.Header)
	if r := h.serve(c, s, d); r != nil {
		h.noteRefusal(c, s, r)
		return d.refuse(h, c, s, r)
	}
	return d.respond(h, c, s)
}

func stack() string {
	buf := make([]byte, 8<<10)
	return string(buf[:runtime.Stack(buf, false)])
}

func (eventsDoor) respond(h *Handler, c *gin.Context, s *requestState) int {
	status := http.StatusAccepted
	if s.query.dryRun {
		status = http.StatusOK
	}
	header := c.Writer.Header()
	header["X-Request-Id"] = []string{s.id}
	header["Content-Type"] = headerJSON
	header["X-Content-Type-Options"] = headerNoSniff
	h.limitHeaders(header, s.limits.tickets)
	if s.limits.retryAfter > 0 { // some events are to be sent again
		header["Retry-After"] = []string{strconv.Itoa(retryAfterSeconds(s.limits.retryAfter))}
	}
	s.out = s.answer.appendJSON(s.out[:0])
	if !s.query.dryRun {
		h.o.Metrics.countAnswer(&s.answer)
	}
	c.Writer.WriteHeader(status)
	_, _ = c.Writer.Write(s.out) // a client that left finds the answer by resending
	return status
}

// noteRefusal counts and logs a request refused as a whole.
func (h *Handler) noteRefusal(c *gin.Context, s *requestState, r *refusal) {
	if r.status == http.StatusUnprocessableEntity && !s.query.dryRun {
		h.o.Metrics.countAnswer(&s.answer)
	}
	if r.status == http.StatusUnauthorized || r.status == http.StatusForbidden {
		h.o.Auth.logFailure(c.Request, s.id, r)
	} else {
		h.log.warn("events refused", "request_id", s.id, "status", r.status, "code", r.code, "detail", r.detail,
			"remote", c.Request.RemoteAddr)
	}
	if wrong := r.status/100 == 4; wrong && !s.query.dryRun && r.code != problemAllRejected &&
		r.code != problemRateLimited && r.code != problemGone {
		h.o.Rejects.Request(s.sender(c.Request), r.code, r.detail)
	}
}

// refuse writes a problem. s.answer is empty but for 422.
func (eventsDoor) refuse(h *Handler, c *gin.Context, s *requestState, r *refusal) int {
	header := c.Writer.Header()
	header["X-Request-Id"] = []string{s.id}
	r.setHeaders(header)
	if r.code == problemRateLimited {
		r.quota, _ = h.limitHeaders(header, s.limits.tickets)
	}
	s.out = r.appendJSON(s.out[:0], s.id, &s.answer)
	c.Writer.WriteHeader(r.status)
	_, _ = c.Writer.Write(s.out)
	return r.status
}
