package evaluator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/reliability/health"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo/fold"
)

// DefaultInterval is the time between two reports.
const DefaultInterval = 10 * time.Second

// Options configure an Evaluator. Only Source is required.
type Options struct {
	// Source answers a request with the fold's sums. The request belongs to the
	// source from then on; the sums must not change after they were returned.
	Source func(ctx context.Context, req fold.Request) (*fold.Sums, error)

	Interval time.Duration    // between reports; default DefaultInterval
	Now      func() time.Time // wall clock of Run; default time.Now

	// Monotonic is a clock that cannot be set. It measures how long ticks take, and Run checks Now against it. Default:
	// what Now reads of the process's own clock. If Now reads none, its jumps are not noticed.
	Monotonic func() time.Duration

	// Refused, if set, reports whether the events' clock is refused where they are counted. A clock that jumped is then
	// not believed, however long it runs on.
	Refused func() bool

	// OnRefused, if set, is called instead of a tick that is not made, since its clock cannot be believed.
	OnRefused func()

	// Complete, if set, adds to a new report what the fold's sums do not tell, before anybody sees it. The time that it
	// takes is part of the tick.
	Complete func(*sla.Report)

	// OnReport is called with every new report before the next tick, in order.
	OnReport func(*sla.Report)

	Logger  *slog.Logger // default: none
	Metrics *Metrics     // default: unregistered
}

func (o *Options) validate() error {
	if o.Source == nil {
		return errors.New("evaluator: a source of sums is required")
	}
	if o.Interval < 0 {
		return fmt.Errorf("evaluator: interval %s is negative", o.Interval)
	}
	return nil
}

func (o *Options) applyDefaults() {
	if o.Interval == 0 {
		o.Interval = DefaultInterval
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Monotonic == nil {
		origin := o.Now()
		o.Monotonic = func() time.Duration { return o.Now().Sub(origin) }
	}
	if o.Refused == nil {
		o.Refused = func() bool { return false }
	}
	if o.OnRefused == nil {
		o.OnRefused = func() {}
	}
	if o.Complete == nil {
		o.Complete = func(*sla.Report) {}
	}
	if o.OnReport == nil {
		o.OnReport = func(*sla.Report) {}
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.Metrics = cmp.Or(o.Metrics, NewMetrics(metrics.NewSet()))
}

// Evaluator makes a Report at every tick. All methods may be called at any time
// and from any goroutine.
type Evaluator struct {
	opt    Options
	latest atomic.Pointer[sla.Report]

	ticking sync.Mutex // one tick at a time, OnReport included; taken before mu
	mu      sync.Mutex // guards what follows; held while a report is made or the spec changes
	plan    *plan
	version uint64
}

// New makes an evaluator of an empty spec. It starts nothing.
func New(opt Options) (*Evaluator, error) {
	if err := opt.validate(); err != nil {
		return nil, err
	}
	opt.applyDefaults()
	empty, err := newPlan(Inputs{})
	if err != nil {
		return nil, err
	}
	return &Evaluator{opt: opt, plan: empty}, nil
}

// SetSpec makes the following ticks evaluate another spec. It fails, and
// changes nothing, where Compile fails. The inputs must not be changed
// afterwards. Give the fold the compiled config first: what it does not count
// yet is reported as no data.
func (e *Evaluator) SetSpec(in Inputs) error {
	p, err := newPlan(in)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.plan = p
	return nil
}

// Change is SetSpec for an evaluator that runs: between two ticks it calls apply,
// which gives the fold its config, and takes the inputs over if that worked, so
// that no report mixes the two specs.
func (e *Evaluator) Change(in Inputs, apply func() error) error {
	p, err := newPlan(in)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := apply(); err != nil {
		return err
	}
	e.plan = p
	return nil
}

// Request is what a tick of another evaluator with the same spec asks its source for, with or without the minutes of
// the last hour (fold.Request.Minutes). It belongs to the caller.
func (e *Evaluator) Request(now time.Time, minutes bool) fold.Request {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.plan.requestWith(now, minutes)
}

// Latest is the newest report; nil before the first tick.
func (e *Evaluator) Latest() *sla.Report { return e.latest.Load() }

// Tick makes and publishes the report as of now, and gives it to OnReport. On an error the latest report stays what it
// was. Ticks come one after the other, so OnReport sees the reports in order. It is called without e.mu, because it may
// write to disk, which must not make Change wait.
func (e *Evaluator) Tick(ctx context.Context, now time.Time) (*sla.Report, error) {
	e.ticking.Lock()
	defer e.ticking.Unlock()
	r, err := e.publish(ctx, now)
	if err != nil {
		return nil, err
	}
	e.opt.OnReport(r)
	return r, nil
}

func (e *Evaluator) publish(ctx context.Context, now time.Time) (*sla.Report, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	begin := e.opt.Monotonic()
	r, err := e.evaluate(ctx, now)
	if err != nil {
		e.opt.Metrics.errors.Inc()
		return nil, err
	}
	e.opt.Complete(r)
	e.version++
	r.Version, r.Took = e.version, e.opt.Monotonic()-begin
	e.opt.Metrics.ticks.Inc()
	e.opt.Metrics.seconds.Update(r.Took.Seconds())
	e.opt.Metrics.groups.Set(float64(len(r.SLOs)))
	e.latest.Store(r)
	return r, nil
}

func (e *Evaluator) evaluate(ctx context.Context, now time.Time) (*sla.Report, error) {
	req := e.plan.request(now)
	sums, err := e.opt.Source(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("get window sums: %w", err)
	}
	r, err := e.plan.report(req, sums)
	if err != nil {
		return nil, fmt.Errorf("evaluate: %w", err)
	}
	return r, nil
}

// Run ticks at once and then every interval until ctx is done; it returns nil.
// Ticks keep to the interval however long each takes; one that takes longer
// swallows those it covers and is counted as late. A tick whose clock went back,
// or jumped an hour ahead, is refused until the clock has run on for some
// minutes, and for as long as Options.Refused says.
func (e *Evaluator) Run(ctx context.Context) error {
	ticker := time.NewTicker(e.opt.Interval)
	defer ticker.Stop()
	began := e.opt.Monotonic()
	r := runner{ticks: health.Log{
		Tracker: health.Tracker{Now: e.opt.Now, Cause: error.Error}, Logger: e.opt.Logger,
		Broken: "evaluation failed; the last report stands", Works: "evaluation works again",
	}}
	for {
		begin := e.opt.Monotonic()
		e.step(ctx, &r, begin-began)
		if took := e.opt.Monotonic() - begin; took > e.opt.Interval {
			e.opt.Metrics.late.Inc()
			e.opt.Logger.Warn("evaluation took longer than its interval", "took", took, "interval", e.opt.Interval)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// runner is what Run remembers from tick to tick.
type runner struct {
	clock  clockGuard
	ticks  health.Log
	jumped bool
}

func (e *Evaluator) step(ctx context.Context, r *runner, mono time.Duration) {
	now := e.opt.Now()
	if why := r.clock.check(now, mono, e.opt.Refused()); why != "" {
		e.opt.Metrics.refused.Inc()
		e.opt.OnRefused()
		if !r.jumped {
			e.opt.Logger.Error("evaluation refused: "+why, "believed_after", clockPatience)
		}
		r.jumped = true
		return
	}
	if r.jumped {
		r.jumped = false
		e.opt.Logger.Warn("clock accepted, evaluation resumed", "now", now)
	}
	if _, err := e.Tick(ctx, now); ctx.Err() == nil {
		r.ticks.Note(err)
	}
}
