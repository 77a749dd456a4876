package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/sla/annotation"
	"github.com/sloengine/sloengine/slo/fold"
)

// Bounds and defaults of the options.
const (
	DefaultTimeout = 5 * time.Second
	MaxEngines     = 100
	maxAnswer      = 32 << 20 // bytes, decompressed
)

// Options configure a Fleet. Engines is required.
type Options struct {
	Engines []*url.URL
	Token   func() (string, error) // bearer token; "" sends none. Default: none

	HTTP    *http.Client     // default: one of its own that follows no redirects
	Timeout time.Duration    // of one engine for one report; default DefaultTimeout
	Now     func() time.Time // default time.Now

	Logger  *slog.Logger // default: none
	Metrics *metrics.Set // default: unregistered
}

func (o *Options) validate() error {
	if len(o.Engines) == 0 || len(o.Engines) > MaxEngines {
		return fmt.Errorf("fleet: %d engines (want 1 to %d)", len(o.Engines), MaxEngines)
	}
	seen := map[string]bool{}
	for _, u := range o.Engines {
		if u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return fmt.Errorf("invalid engine %q (want an address such as http://127.0.0.1:8080)", u.Redacted())
		}
		if seen[nameOf(u)] {
			return fmt.Errorf("engine %q is there twice", nameOf(u))
		}
		seen[nameOf(u)] = true
	}
	if o.Timeout < 0 {
		return fmt.Errorf("fleet: timeout %s is negative", o.Timeout)
	}
	return nil
}

func (o *Options) applyDefaults() {
	if o.Token == nil {
		o.Token = func() (string, error) { return "", nil }
	}
	if o.HTTP == nil {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.MaxIdleConnsPerHost = 4
		o.HTTP = &http.Client{
			Transport: transport,
			// it would get the token, too
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.Metrics = cmp.Or(o.Metrics, metrics.NewSet())
}

// nameOf is what an engine is called: its address without scheme and credentials.
func nameOf(u *url.URL) string { return u.Host + strings.TrimRight(u.Path, "/") }

// Fleet is several engines, each of which counted a part of the events. Its methods may be called at any time and from
// any goroutine.
type Fleet struct {
	opt     Options
	clients []*client
	metrics *fleetMetrics

	fetching sync.Mutex // one report at a time; taken before mu

	mu      sync.Mutex // guards what follows
	spec    string     // hash
	cfg     *fold.Config
	joined  *fold.Joined
	engines []engine
	req     fold.Request            // of the last report
	notes   []annotation.Annotation // of all engines, never changed in place
	changes uint64                  // of notes
}

// engine is what is known of one engine.
type engine struct {
	status EngineStatus
	last   *fold.Sums // of its last answer with the spec in force; nil if there is none

	// What it has told of its slices: the process that told it, how far, and where it goes on.
	run    string
	conf   uint64
	since  uint64
	reach  uint64 // since, once next has been followed to its end
	next   fold.RawCursor
	loaded bool // all its slices were told once

	// Its annotations, the process that told them, and the number of changes up to them.
	notes   []annotation.Annotation
	noted   string
	changes uint64
}

// State says whether an engine's counts are in the sums.
type State string

// The states of an engine.
const (
	Waiting State = "waiting" // it was not asked yet
	OK      State = "ok"
	Missing State = "missing" // it does not answer, or not with sums
	Other   State = "other_spec"
)

// EngineStatus is one engine, as of the last report.
type EngineStatus struct {
	Name   string
	State  State
	Since  time.Time // of the state
	Reason string    // why its counts are missing; or what is not complete yet
	Spec   string    // hash of the spec that it runs; "" if unknown

	Watermark time.Time // of its last answer, as are the following
	Answered  time.Time // when it came; zero if there was none
	Took      time.Duration
	Bytes     int
	Events    uint64 // that it has counted
}

// New makes a fleet without a spec. It starts nothing.
func New(opt Options) (*Fleet, error) {
	if err := opt.validate(); err != nil {
		return nil, err
	}
	opt.applyDefaults()
	f := &Fleet{opt: opt, metrics: &fleetMetrics{opt.Metrics}, engines: make([]engine, len(opt.Engines))}
	for i, u := range opt.Engines {
		f.clients = append(f.clients, &client{http: opt.HTTP, base: u, token: opt.Token, most: maxAnswer})
		f.engines[i].status = EngineStatus{Name: nameOf(u), State: Waiting, Since: opt.Now()}
		f.metrics.up(nameOf(u)).Set(0)
	}
	return f, nil
}

// SetSpec makes the fleet ask for the counts of a spec, by its hash and what is counted for it. What was fetched for
// another spec is forgotten.
func (f *Fleet) SetSpec(hash string, cfg *fold.Config) error {
	joined, err := fold.NewJoined(cfg, len(f.clients))
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.spec, f.cfg, f.joined = hash, cfg, joined
	for i := range f.engines {
		e := &f.engines[i]
		f.engines[i] = engine{status: e.status, notes: e.notes, noted: e.noted, changes: e.changes}
	}
	return nil
}

// Engines are all engines, in the order of the options.
func (f *Fleet) Engines() []EngineStatus {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]EngineStatus, len(f.engines))
	for i := range f.engines {
		out[i] = f.engines[i].status
	}
	return out
}

// errNobody is the error of a report for which no engine answered.
var errNobody = errors.New("no engine answered")

// Sums asks all engines side by side and adds up what they counted. It is the source of an evaluator. It fails if no
// engine answers, and if the spec changes meanwhile.
func (f *Fleet) Sums(ctx context.Context, req fold.Request) (*fold.Sums, error) {
	f.fetching.Lock()
	defer f.fetching.Unlock()
	f.mu.Lock()
	spec, cfg, joined := f.spec, f.cfg, f.joined
	f.mu.Unlock()
	if cfg == nil {
		return nil, errors.New("there is no spec yet")
	}
	parts, errs := make([]*fold.Sums, len(f.clients)), make([]error, len(f.clients))
	var all sync.WaitGroup
	for i := range f.clients {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, f.opt.Timeout)
			defer cancel()
			begin := f.opt.Now()
			fetch := fetching{fleet: f, engine: i, spec: spec, cfg: cfg, joined: joined, req: &req}
			parts[i], errs[i] = fetch.run(ctx)
			f.answered(i, &fetch, parts[i], errs[i], f.opt.Now().Sub(begin))
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if !slices.ContainsFunc(parts, func(s *fold.Sums) bool { return s != nil }) {
		return nil, fmt.Errorf("%w: %s: %w", errNobody, nameOf(f.opt.Engines[0]), errs[0])
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.joined != joined {
		return nil, errors.New("the spec changed meanwhile")
	}
	f.req = req
	return add(cfg, &req, parts, joined)
}

// answered notes how a fetch went.
func (f *Fleet) answered(i int, x *fetching, sums *fold.Sums, err error, took time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.joined != x.joined {
		return // another spec is in force by now
	}
	e, now := &f.engines[i], f.opt.Now()
	state, reason := OK, ""
	var other *SpecError
	switch {
	case errors.As(err, &other):
		state, reason = Other, err.Error()
		e.status.Spec = other.Theirs
	case err != nil:
		state, reason = Missing, err.Error()
	default:
		e.last = sums
		e.status.Spec, e.status.Watermark, e.status.Answered = x.spec, sums.Watermark, now
		e.status.Took, e.status.Bytes, e.status.Events = took, x.bytes, sums.Stats.Events
		f.metrics.fetched(e.status.Name, took, x.bytes)
		if !e.loaded {
			reason = "its slices of time are still being fetched, so no slice is judged yet"
		}
	}
	if e.status.State != state {
		switch {
		case state != OK:
			f.opt.Logger.Warn("engine is missing, its events are not in the sums", "engine", e.status.Name, "err", err)
		case e.status.State != Waiting:
			f.opt.Logger.Info("engine answers again", "engine", e.status.Name, "missing_for",
				now.Sub(e.status.Since).Round(time.Second))
		}
		e.status.Since = now
	}
	e.status.State, e.status.Reason = state, reason
	f.metrics.state(e.status.Name, state)
}
