package app

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/cmd/sloengine/app/config"
	"github.com/sloengine/sloengine/ingest"
	"github.com/sloengine/sloengine/ingest/counting"
	"github.com/sloengine/sloengine/reliability/metric"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/evaluator"
	"github.com/sloengine/sloengine/sla/fleet"
	"github.com/sloengine/sloengine/sla/history"
	"github.com/sloengine/sloengine/sla/report"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/spec"
	"github.com/sloengine/sloengine/slo/traces"
	"github.com/sloengine/sloengine/web"
	"github.com/sloengine/sloengine/web/site"
	"github.com/sloengine/sloengine/web/status"
)

// ViewOptions are what view turns its flags into.
type ViewOptions struct {
	LoadConfig func() (config.Config, error)                  // reads engine.yaml
	LoadSpec   func() (*spec.Spec, spec.Problems, error)      // reads the spec files; again at a reload
	Public     func(id slo.ID, labels map[string]string) bool // nil: as the labels say
	Engines    []*url.URL
	Token      func() (string, error) // of the requests to the engines
	Timeout    time.Duration          // for an engine to answer for one report
	Version    site.Version
	Listen     string
	Log        *slog.Logger
}

// view is one page for several engines. It keeps nothing on disk and notifies nobody.
type view struct {
	opt     ViewOptions
	config  config.Config
	specs   *counting.Specs
	fleet   *fleet.Fleet
	eval    *evaluator.Evaluator
	traffic *history.TrafficLog
	auth    *ingest.Auth
	trail   *auditTrail                  // in the log only: a view has no data directory
	reloads sync.Mutex                   // one reload at a time
	failed  atomic.Pointer[failedReload] // nil: the last reload worked
	started time.Time
	web     *web.Web
}

// RunView serves until ctx ends or something fails for good. It fails on a broken spec with a *spec.InvalidError.
func RunView(ctx context.Context, opt ViewOptions) error {
	v := &view{opt: opt, traffic: history.NewTrafficLog(), started: time.Now()}
	var err error
	if v.config, err = opt.LoadConfig(); err != nil {
		return err
	}
	if v.specs, err = counting.LoadSpecs(func() (*spec.Spec, spec.Problems, error) {
		return assigned(opt.LoadSpec, opt.LoadConfig)
	}); err != nil {
		return err
	}
	g := newRunGroup()
	return g.serve(ctx, v.launch(ctx, g), v.config.Shutdown.Timeout, opt.Log)
}

func (v *view) launch(ctx context.Context, g *runGroup) (err error) {
	set, c := metrics.NewSet(), &v.config
	v.specs.Publish(set)
	metric.BuildInfo.Read(set, func() float64 { return 1 },
		v.opt.Version.Version, v.opt.Version.Revision, v.opt.Version.Go)
	f, err := listen(&Options{Log: v.opt.Log, Listen: v.opt.Listen}, c, set)
	if err != nil {
		return err
	}
	g.start(ctx, "http", f.serve)
	if v.auth, err = newAuth(c, ingest.NewHTTPMetrics(metrics.NewSet()), v.opt.Listen, v.opt.Log); err != nil {
		return err
	}
	v.trail = &auditTrail{auth: v.auth, log: v.opt.Log}
	v.fleet, err = fleet.New(
		fleet.Options{Engines: v.opt.Engines, Token: v.opt.Token, Timeout: v.opt.Timeout, Logger: v.opt.Log, Metrics: set})
	if err != nil {
		return err
	}
	outlooks, complete, observe, err := newOutlooks(c, v.fleet.Read, "", set, v.opt.Log)
	if err != nil {
		return err
	}
	v.eval, err = evaluator.New(evaluator.Options{
		Source: v.fleet.Sums, Complete: complete,
		OnReport: func(r *sla.Report) {
			v.traffic.Observe(r)
			observe(r)
		},
		Interval: c.Evaluator.Interval, Metrics: evaluator.NewMetrics(set), Logger: v.opt.Log,
	})
	if err != nil {
		return err
	}
	if err := v.use(v.specs.InForce()); err != nil {
		return err
	}
	router, err := v.router(c, set)
	if err != nil {
		return err
	}
	f.warnIfOpen(v.auth)
	f.handle(router)
	g.add("requests", func(stop context.Context) error { return f.drain(stop, func() {}) })
	g.start(ctx, "streams", v.web.Run)
	g.start(ctx, "reload on signal", onHangup(v.reload, v.trail, v.specs))
	if outlooks != nil {
		g.start(ctx, "forecasts", outlooks.Run)
	}
	g.start(ctx, "evaluator", v.eval.Run)
	return nil
}

// use puts a spec in force, between two reports.
func (v *view) use(s *counting.Spec) error {
	cfg, err := evaluator.Compile(s.Inputs)
	if err != nil {
		return err
	}
	if err := v.eval.Change(s.Inputs, func() error { return v.fleet.SetSpec(s.Hash, cfg) }); err != nil {
		return fmt.Errorf("evaluate spec: %w", err)
	}
	v.specs.Use(s)
	return nil
}

// reload reads the spec and the tokens again. The old ones stay on an error.
func (v *view) reload(context.Context) error {
	v.reloads.Lock()
	defer v.reloads.Unlock()
	next, err := v.specs.Read()
	apply := func() {}
	if tokens := v.config.Auth.TokensFile; err == nil && tokens != "" {
		apply, err = v.auth.PrepareTokens(tokens)
	}
	if err == nil {
		err = v.use(next)
	}
	if err != nil {
		failed := newFailedReload(err)
		v.failed.Store(failed)
		v.opt.Log.Error("reload failed, keeping the old spec", "err", err, "problems", failed.problems)
		return err
	}
	apply()
	v.failed.Store(nil)
	v.opt.Log.Info("reloaded", "hash", next.Hash, "slos", len(next.Spec.SLOs))
	return nil
}

// status is the condition of the view and its engines.
func (v *view) status() status.Engine {
	s := status.Engine{State: status.Ready, Started: v.started}
	rep := v.eval.Latest()
	if rep == nil {
		s.State, s.Reason = status.Starting, "no engine has answered yet"
	} else {
		s.Fold.Watermark = rep.Watermark
	}
	now := v.specs.InForce()
	s.Spec = status.SpecStatus{Loaded: now.Loaded, Hash: now.Hash, SLOs: len(now.Spec.SLOs)}
	v.failed.Load().status(&s.Spec)
	for _, e := range v.fleet.Engines() {
		s.Fleet = append(s.Fleet, status.FleetEngine{
			Name: e.Name, State: string(e.State), Since: e.Since, Reason: e.Reason, Spec: e.Spec,
			Answered: e.Answered, Watermark: e.Watermark, TookSeconds: e.Took.Seconds(), Bytes: e.Bytes, Events: e.Events,
		})
	}
	return s
}

// parts are what each engine counted of an SLO's group.
func (v *view) parts(r *sla.SLOReport) (out []site.EnginePart) {
	for _, p := range v.fleet.Parts(string(r.SLO.ID), r.Group, r.Period.From) {
		part := site.EnginePart{Engine: p.Engine, Stale: p.Stale, Answered: p.Answered, Known: p.Bins != nil, Other: p.Other}
		if len(p.Bins) > 1 {
			if part.Counts = r.SLO.Indicator.Kind.Counts(p.Bins); r.SLO.Indicator.Kind == slo.KindVolume {
				part.Counts = slo.Counts{Good: part.Counts.Valid()} // no event is bad for coming
			}
		}
		out = append(out, part)
	}
	return out
}

// onsets are those of the incidents of the engines.
func (v *view) onsets(ctx context.Context, sp slo.Span) ([]report.Incident, bool) {
	all, known := v.fleet.Onsets(ctx, sp)
	out := make([]report.Incident, len(all))
	for i, o := range all {
		out[i] = report.Incident{ID: o.Incident, Onset: o.At}
		for _, a := range o.Affected {
			out[i].Affected = append(out[i].Affected, report.Affected{SLO: a.ID, Group: a.Group})
		}
	}
	return out, known
}

// viewTraces are the failing traces of the engines.
type viewTraces struct{ *fleet.Fleet }

// Of asks the engines. An engine that does not answer in time has none.
func (t viewTraces) Of(id slo.ID, group slo.Group, _ time.Time) []traces.Trace {
	return t.Traces(context.Background(), id, group)
}

// All is nil: exemplars are those of each engine's own metrics.
func (viewTraces) All(time.Time) []traces.Of { return nil }

func (v *view) router(c *config.Config, set *metrics.Set) (http.Handler, error) {
	opt, err := siteOptions(c, v.trail, v.eval.Latest, v.opt.Version, set)
	if err != nil {
		return nil, err
	}
	opt.Engine, opt.Parts, opt.Annotations, opt.NoSeries = v.status, v.parts, v.fleet.Annotations(), true
	opt.Counts, opt.Kept, opt.Onsets, opt.Traffic = v.fleet.Read, v.fleet.Kept, v.onsets, v.traffic
	opt.Traces = viewTraces{v.fleet}
	opt.Source, opt.Reload, opt.Public = v.specs.Source, v.reload, v.opt.Public
	if v.web, err = web.New(opt); err != nil {
		return nil, err
	}
	r := gin.New()
	r.HandleMethodNotAllowed, r.RedirectTrailingSlash, r.ContextWithFallback = true, false, true
	r.Use(answered(v.opt.Log), v.auth.CheckHost, limitedReaders(v.auth, v.web))
	v.web.Register(r)
	return r, nil
}
