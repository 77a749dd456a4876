package site

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sloengine/sloengine/alerts/backtest"
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/ingest/counting"
	"github.com/sloengine/sloengine/reliability/subscription"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/annotation"
	"github.com/sloengine/sloengine/sla/history"
	"github.com/sloengine/sloengine/sla/report"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
	"github.com/sloengine/sloengine/slo/spec"
	"github.com/sloengine/sloengine/slo/traces"
	"github.com/sloengine/sloengine/web/respond"
	"github.com/sloengine/sloengine/web/status"
)

// Permission is what a caller must be allowed to do.
type Permission string

// The permissions that this package asks for.
const (
	Read     Permission = "read"     // pages, API, metrics
	Operate  Permission = "operate"  // reload, replay and discard dead letters
	Annotate Permission = "annotate" // add annotations
)

// Version says what is running.
type Version struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Date     string `json:"date,omitempty"` // of the revision, in RFC 3339
	Go       string `json:"go,omitempty"`
}

// EnginePart is what one engine of a view counted of a group.
type EnginePart struct {
	Engine   string
	Stale    bool      // the counts are those of its last answer, and not in the report
	Answered time.Time // when that came; zero if there was none
	Known    bool      // it has the group
	Counts   slo.Counts
	Other    bool // it may have counted the group's events in its "other" group
}

// Annotations are what charts mark. Those of an engine can be changed, too: *annotation.Store. Those of a view cannot.
type Annotations interface {
	// about a service, or all with "", in the order of their times
	List(service string, sp slo.Span) []annotation.Annotation
	Changes() uint64 // grows with each change
}

// Traces are those of the last events that counted as bad: *traces.Store.
type Traces interface {
	// Of an SLO, or of one of its groups; the newest first
	Of(id slo.ID, group slo.Group, now time.Time) []traces.Trace
	// All are those of all SLOs, in the order in which they came.
	All(now time.Time) []traces.Of
}

// ErrOtherService means that a reader asked for what he may not see.
var ErrOtherService = errors.New("your token is not for this service")

// Options are what a Web is made of. Report, Engine and Now are required.
type Options struct {
	Numbers
	Condition
	Alerting
	Work
	Access
	Published
	Address
	Bounds
	Scrape

	DLQ         DLQ                             // nil: there are no dead letters, their API answers 501
	Annotations Annotations                     // nil: there are none, their API answers 501
	Reload      func(ctx context.Context) error // nil: POST /-/reload answers 501
	Now         func() time.Time
	Version     Version
	LogError    func(msg string, err error) // takes errors that reach no caller; nil drops them
}

// Numbers are what SLOs and SLAs are at, and were.
type Numbers struct {
	Report  func() *sla.Report                  // the latest report; nil until the first tick
	Source  func(id slo.ID) (spec.Source, bool) // where a spec says it; nil: unknown
	Counts  history.CountsFunc                  // nil: no sparklines, charts, history and reports
	Traffic *history.TrafficLog                 // nil: no attributes of what was bad
	Kept    report.KeptFunc                     // nil: reports take it that limits dropped nothing
	Onsets  report.OnsetsFunc                   // of the engines of a view, which has no incidents; nil: not known
	Ledger  report.LedgerOptions
	// Seal calls f with a report and its source, both as of one position of the log. nil: reports have no seal.
	Seal func(ctx context.Context, at time.Time, f func(*sla.Report, report.Source) error) (*report.Seal, error)

	Traces Traces // of events that counted as bad; nil: none are known
	// Events finds events of an SLO in the log; nil: there is no log.
	Events func(ctx context.Context, q *counting.EventQuery) (*counting.EventAnswer, error)

	// Try replays the log for another spec; nil: there is no log. Its errors are for the caller.
	Try func(backtest.Request) backtest.Status

	// Counters are those that a source reads for an SLO, nil if none does; nil: there are no sources.
	Counters func(id slo.ID) []status.SourceCounters

	// Parts are what each engine of a view counted of an SLO's group over its period; nil without a view.
	Parts func(*sla.SLOReport) []EnginePart
}

// Condition is how the engine is.
type Condition struct {
	Engine func() status.Engine // the whole status, for the page of the engine, its API and readiness
	// of it State, Reason, Progress, Started, Spec and Fleet, for all else; nil: Engine
	Brief   func() status.Engine
	Notice  func(now time.Time) (Notice, bool) // what the list of SLOs shows on top, as in a demo; nil: nothing
	Rejects func() []status.RejectedCode       // what was rejected, and from whom since the start; nil: 501
	Unknown func() []status.UnknownType        // nil: none are known
	Seen    func() []status.SeenService        // spans that no spec counts; nil: 501
	// Findings are what makes numbers wrong; nil: nothing is known.
	Findings func() []status.Finding
}

// Alerting is what fires, and what people do about it.
type Alerting struct {
	Alerts     func() *state.View // the latest view of the engine's alerts; nil: the engine evaluates none
	AlertsKept time.Duration      // how long resolved alerts stay in Alerts; 0 = unknown
	Incidents  Incidents          // nil: there are none, their API answers 501
	Silences   Silences           // nil: there are none, their API answers 501
}

// Work is what is counted, and what is parked since a spec has it no more.
type Work struct {
	Generations func(ctx context.Context) ([]fold.Generation, error) // both; nil: 501
	// as of a moment ago, oldest first; nil: the page has none
	Parked func() []fold.Generation
	Forget func(ctx context.Context, r counting.ForgetRequest) (counting.Forgotten, error) // nil: 501
	// asks for counts from the retained log; nil: 501
	Rebuild func(ctx context.Context, r counting.RebuildRequest) (counting.RebuildAnswer, error)
	// of services that send spans; may be nil
	Spans func() []status.KeptAttributes
}

// Access is who a caller is, and what he may do and see.
type Access struct {
	Allow func(Permission) gin.HandlerFunc // nil: everybody may do everything

	// May reports, without answering or logging anything, what Allow would: pages show
	// only buttons that work, and badges of what is not public, and streams end when it says no.
	// Nil says no, but for Read if Allow is nil too. What is done is held to Allow alone.
	May func(c *gin.Context, p Permission) bool

	// Caller is the name of the token of a request; "" if it carries none. Nil: nobody has one.
	Caller func(c *gin.Context) string

	// Serves reports whether the token of a request is for a service, "" for all of them. Nil: it is.
	Serves func(c *gin.Context, service string) bool

	// Scope names what a limited reader sees: sites of different scopes give different answers at the same address. ""
	// shows everything.
	Scope string

	// Audit records what a caller changed or tried to, after it was done: the action,
	// such as dlq.replay, one line of detail in which foreign text is quoted, and why it
	// failed. The context says who it was. Nil drops it.
	Audit func(c *gin.Context, action, detail string, err error)
}

// Published is what /public, /public.json and /badge show to anybody, since they never ask Access, and how. Public and
// PublicSLA choose; nil chooses by labels, see [PublicLabel].
type Published struct {
	Look      Look
	Public    func(id slo.ID, labels map[string]string) bool
	PublicSLA func(a *sla.Agreement) bool

	Subscriptions *subscription.Webhooks // nil: there are none, their addresses answer 404
}

// Address is how readers reach the site.
type Address struct {
	// ExternalPath is prefixed to every link, such as "/slo" when a proxy serves
	// the engine below that path. It does not change where Register mounts.
	ExternalPath string

	// ExternalURL is the address that examples show, such as
	// "http://127.0.0.1:8080"; "" takes it from the request.
	ExternalURL string

	TokenNeeded bool // examples show a bearer token

	TraceURL string // where a trace is shown, with {trace_id} in it; "": it is not known
}

// Bounds are how much is shown, to how many, and how old.
type Bounds struct {
	StaleAfter time.Duration // a report older than this is shown as stale; 0 = 1m
	PageSize   int           // rows per page of the SLO list; 0 = 100
	MaxStreams int           // pages that hear of new reports at the same time; more refresh by polling; 0 = 500

	// MaxResponseBytes bounds the memory of all responses that are made, sent or kept for
	// the next reader; beyond it readers get 503. 0 = 32 MiB.
	MaxResponseBytes int64
}

// Scrape is what /metrics answers.
type Scrape struct {
	NoSeries      bool                // it has no slo_* and sla_* families; those of a view come from its engines
	Registry      prometheus.Gatherer // more families, such as Go's own; nil: none
	Sets          []*metrics.Set      // the engine's own metrics
	ScrapeTimeout time.Duration       // bounds an answer; 0 = 10s
}

// Bounds and defaults of the options.
const (
	defaultStreams = 500 // open at the same time
	MaxPageSize    = 1000
)

func (o *Options) applyDefaults() error {
	if o.Report == nil || o.Engine == nil || o.Now == nil {
		return errors.New("web: Report, Engine and Now are required")
	}
	if o.Brief == nil {
		o.Brief = o.Engine
	}
	o.ExternalPath = strings.TrimRight(o.ExternalPath, "/")
	if o.ExternalPath != "" && (!strings.HasPrefix(o.ExternalPath, "/") || strings.HasPrefix(o.ExternalPath, "//") ||
		strings.ContainsAny(o.ExternalPath, "?#\\\"<> ")) {
		return fmt.Errorf("web: external path %q: want a path such as /slo", o.ExternalPath)
	}
	if o.StaleAfter == 0 {
		o.StaleAfter = time.Minute
	}
	if o.PageSize == 0 {
		o.PageSize = 100
	}
	if o.MaxStreams == 0 {
		o.MaxStreams = defaultStreams
	}
	if o.MaxResponseBytes == 0 {
		o.MaxResponseBytes = respond.DefaultBytes
	}
	if o.MaxResponseBytes < respond.MinBytes {
		return fmt.Errorf("web: MaxResponseBytes %d: want at least %d", o.MaxResponseBytes, respond.MinBytes)
	}
	if o.ScrapeTimeout == 0 {
		o.ScrapeTimeout = 10 * time.Second
	}
	if o.StaleAfter < 0 || o.PageSize < 0 || o.PageSize > MaxPageSize || o.ScrapeTimeout < 0 || o.MaxStreams < 0 {
		return fmt.Errorf(
			"web: StaleAfter, PageSize (at most %d), MaxStreams and ScrapeTimeout must not be negative", MaxPageSize)
	}
	if o.May == nil {
		open := o.Allow == nil
		o.May = func(_ *gin.Context, p Permission) bool { return open && p == Read }
	}
	if o.Allow == nil {
		o.Allow = func(Permission) gin.HandlerFunc { return func(*gin.Context) {} }
	}
	if o.Serves == nil {
		o.Serves = func(*gin.Context, string) bool { return true }
	}
	if o.Unknown == nil {
		o.Unknown = func() []status.UnknownType { return nil }
	}
	if o.Caller == nil {
		o.Caller = func(*gin.Context) string { return "" }
	}
	if o.LogError == nil {
		o.LogError = func(string, error) {}
	}
	if o.Audit == nil {
		o.Audit = func(*gin.Context, string, string, error) {}
	}
	return nil
}
