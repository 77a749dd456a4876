// Package app is the running engine: it builds the parts from the settings and the spec, starts them in order, reloads
// them, and stops them in the reverse order.
//
// It decides nothing about events, scores or pages, reads no flags and never ends the process.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"net/url"
	"sync/atomic"
	"time"
	_ "time/tzdata" // zones of windows and schedules, also where the system has none

	"github.com/VictoriaMetrics/metrics"
	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	exporter "github.com/prometheus/exporter-toolkit/web"

	"github.com/sloengine/sloengine/cmd/sloengine/config"
	"github.com/sloengine/sloengine/ingest"
	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/reliability/connlimit"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/evaluator"
	"github.com/sloengine/sloengine/sla/history"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
	"github.com/sloengine/sloengine/slo/spec"
	"github.com/sloengine/sloengine/web"
)

// Options are what serve and demo turn their flags into.
type Options struct {
	LoadConfig func() (config.Config, error)                  // reads engine.yaml; again at a reload
	Public     func(id slo.ID, labels map[string]string) bool // nil: as the labels say
	LoadSpec   func() (*spec.Spec, spec.Problems, error)      // reads the spec files; again at a reload
	Version    web.Version
	DataDir    string
	Listen     string
	AcceptLoss bool
	Crash      func(engine.CrashPoint) // of tests; nil otherwise
	Log        *slog.Logger

	// OnReady, if set, runs once events are taken, with the server's own
	// address. When it returns an error the app stops with it.
	OnReady func(ctx context.Context, base *url.URL) error
}

// App is the running engine with everything around it.
type App struct {
	opt     Options
	config  config.Config // as of the start
	log     *slog.Logger
	started time.Time

	fold     *fold.Fold
	engine   *engine.Engine
	parts    engine.Parts
	eval     *evaluator.Evaluator
	alerts   *liveAlerts
	traffic  *history.TrafficLog
	auth     *ingest.Auth
	delivery *delivery
	http     *ingest.HTTPMetrics
	specs    *specs
	sets     []*metrics.Set
	web      *web.Web
	router   http.Handler
	server   *http.Server
	conns    *connlimit.Limit
	events   *ingest.Handler
	group    *runGroup

	backups        backups
	stopping       atomic.Bool
	parking        parking
	change         atomic.Pointer[web.SpecChange] // what the last change of the spec did to counts
	foldStats      atomic.Pointer[fold.Stats]     // as of the last tick
	reloadFailures *metrics.Counter
}

// New builds everything and starts nothing. It fails on a broken spec, whose
// problems are in the error.
func New(opt Options) (a *App, err error) {
	a = &App{opt: opt, log: opt.Log, started: time.Now(), traffic: history.NewTrafficLog(), group: newRunGroup()}
	opened := a.group
	defer func() {
		if err != nil { // what was opened is closed again
			a, err = nil, errors.Join(err, opened.run(context.Background()))
		}
	}()
	if a.config, err = opt.LoadConfig(); err != nil {
		return nil, err
	}
	if a.specs, err = loadSpecs(opt.LoadSpec); err != nil {
		return nil, err
	}
	first := a.specs.current.Load()

	if a.fold, err = fold.New(fold.Options{}); err != nil {
		return nil, fmt.Errorf("make fold: %w", err)
	}
	engineSet, httpSet, evalSet, alertSet := metrics.NewSet(), metrics.NewSet(), metrics.NewSet(), metrics.NewSet()
	a.sets = []*metrics.Set{engineSet, httpSet, evalSet, alertSet, a.ownMetrics()}
	c := a.config
	// In one set with the handlers: both count passed deadlines.
	if a.delivery, err = newDelivery(&a.config, opt.DataDir, opt.Log, httpSet, &a.group.teardown); err != nil {
		return nil, err
	}
	a.engine, err = engine.Open(engine.Options{
		Dir:          opt.DataDir,
		State:        FoldState{Fold: a.fold},
		Config:       first.encoded,
		Metrics:      engine.NewMetrics(engineSet),
		Logger:       opt.Log,
		AcceptLoss:   opt.AcceptLoss,
		SegmentBytes: c.Log.Segment,
		QueueBytes:   c.Ingest.Queue,
		IDs:          engine.IDOptions{Bytes: c.KnownIDs.Memory, MaxAge: c.KnownIDs.MaxAge},
		Checkpoint:   engine.CheckpointOptions{Interval: c.Checkpoint.Interval, LogBytes: c.Checkpoint.Log},
		Disk:         engine.DiskOptions{LowWater: c.Disk.LowWater},
		CrashPoint:   opt.Crash,
		Limits:       a.delivery.rates.limiter,
		Critical:     a.delivery.rates.critical,
		MergeBy:      a.specs.mergeBy,
		MergeWindow:  func() time.Duration { return a.delivery.rates.mergeWindow() },
	})
	if err != nil {
		return nil, err
	}
	opened.add("data folder", func(e *engine.Engine) func(context.Context) error {
		return func(context.Context) error { return e.Close() }
	}(a.engine))
	if a.parts, err = a.delivery.open(a.engine.Log(), a.engine.ReplayTarget); err != nil {
		return nil, err
	}
	if a.alerts, err = newLiveAlerts(opt.DataDir, alertSet, c.Evaluator.Interval, opt.Log); err != nil {
		return nil, err
	}
	a.eval, err = evaluator.New(evaluator.Options{
		Source: a.sums,
		OnReport: func(r *sla.Report) {
			a.alerts.step(r)
			a.traffic.Observe(r)
		},
		Interval: c.Evaluator.Interval,
		Metrics:  evaluator.NewMetrics(evalSet),
		Logger:   opt.Log,
	})
	if err != nil {
		return nil, fmt.Errorf("make evaluator: %w", err)
	}
	if err := a.eval.SetSpec(first.inputs); err != nil {
		return nil, fmt.Errorf("evaluate spec: %w", err)
	}
	a.http = ingest.NewHTTPMetrics(httpSet)
	a.auth = ingest.NewAuth(ingest.AuthOptions{Metrics: a.http, Logger: opt.Log, Host: hostCheck(&a.config, opt.Listen)})
	if f := c.Auth.TokensFile; f != "" {
		if err := a.auth.ReloadTokens(f); err != nil {
			return nil, err
		}
	}
	if err := exporter.Validate(c.Web.ConfigFile); err != nil {
		return nil, fmt.Errorf("web.config_file: %w", err)
	}
	if err := a.buildRouter(); err != nil {
		return nil, err
	}
	a.server = &http.Server{Handler: a.router, ErrorLog: slog.NewLogLogger(opt.Log.Handler(), slog.LevelWarn)}
	ingest.Harden(a.server)
	if a.conns, err = connlimit.New(connlimit.Options{Max: c.Web.MaxConnections, Metrics: httpSet, Logger: opt.Log}); err != nil {
		return nil, err
	}
	a.conns.Serve(a.server)
	return a, nil
}

// Handler is everything that is answered over HTTP.
func (a *App) Handler() http.Handler { return a.router }

// sums asks the fold's owner for window sums.
func (a *App) sums(ctx context.Context, req fold.Request) (*fold.Sums, error) {
	var out *fold.Sums
	if err := a.engine.Do(ctx, func() { out = a.fold.Sums(req) }); err != nil {
		return nil, err
	}
	a.tellFullGroups(a.foldStats.Swap(&out.Stats), &out.Stats)
	return out, nil
}

func (a *App) buildRouter() error {
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	r.HandleMethodNotAllowed = true
	r.RedirectTrailingSlash = false
	r.ContextWithFallback = true
	r.Use(a.answered, a.auth.CheckHost)
	c := a.config

	var err error
	a.events, err = ingest.NewHandler(ingest.HandlerOptions{
		Committer: a.engine,
		Auth:      a.auth,
		Catalog:   func() event.Catalog { return a.specs.current.Load().catalog },
		Limits: event.Limits{
			MaxEventBytes:   int(c.Ingest.MaxEvent),
			MaxBatchEvents:  c.Ingest.MaxBatch,
			MaxFuture:       c.Ingest.MaxFuture,
			AllowedLateness: c.Ingest.AllowedLateness,
		},
		MaxBackfill:      func() time.Duration { return a.specs.current.Load().longest },
		MaxBodyBytes:     c.Ingest.MaxBody,
		MaxInFlightBytes: c.Ingest.BodiesInFlight,
		Deadline:         orNever(c.Ingest.Deadline),
		Reserve:          orNever(c.Ingest.DeadlineReserve),
		Metrics:          a.http,
		Logger:           a.log,
		Limiter:          a.delivery.rates.limiter,
		Critical:         a.delivery.rates.critical,
		SaveCritical:     a.delivery.deadLetters.Save,
		Redact:           a.delivery,
	})
	if err != nil {
		return err
	}
	a.events.Register(r)

	external := &url.URL{}
	if c.Web.ExternalURL != "" {
		external, err = url.Parse(c.Web.ExternalURL)
		if err != nil || external.Host == "" {
			return fmt.Errorf("web.external_url %q: want an address such as https://slo.example.org/path", c.Web.ExternalURL)
		}
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	a.web, err = web.New(web.Options{
		Report:     func() *sla.Report { return a.eval.Latest() },
		Engine:     a.status,
		Alerts:     a.alerts.machine.View,
		Counts:     a.counts,
		Kept:       a.kept,
		Traffic:    a.traffic,
		AlertsKept: alertsKept,
		DLQ:        a.delivery.deadLetters,
		Public:     a.opt.Public,
		May: func(c *gin.Context, p web.Permission) bool {
			permit := ingest.PermitRead
			if p == web.Operate {
				permit = ingest.PermitOperate
			}
			return a.auth.Allows(c.Request, permit)
		},
		Audit: func(c *gin.Context, action, detail string) {
			a.audit(action, detail, a.auth.Caller(c.Request), c.Request.RemoteAddr)
		},
		Source:       a.specs.source,
		Reload:       a.reload,
		Generations:  a.webGenerations,
		Parked:       a.webParked,
		Forget:       a.forget,
		Allow:        a.allow,
		Now:          time.Now,
		Version:      a.opt.Version,
		ExternalPath: external.Path,
		ExternalURL:  c.Web.ExternalURL,
		StaleAfter:   max(time.Minute, 4*c.Evaluator.Interval),
		Registry:     registry,

		MaxResponseBytes: c.Web.ResponsesMemory,
		Sets:             a.sets,
		LogError:         func(msg string, err error) { a.log.Error(msg, "err", err) },
	})
	if err != nil {
		return err
	}
	a.web.Register(r)
	a.registerBackup(r)
	r.GET(RateLimitPath+":context", a.allow(web.Read), a.rateLimit)
	if c.Web.Pprof {
		operate := a.allow(web.Operate)
		for path, h := range map[string]http.HandlerFunc{
			"/debug/pprof/": pprof.Index, "/debug/pprof/cmdline": pprof.Cmdline,
			"/debug/pprof/profile": pprof.Profile, "/debug/pprof/symbol": pprof.Symbol, "/debug/pprof/trace": pprof.Trace,
		} {
			r.GET(path, operate, gin.WrapF(h))
		}
		for _, name := range []string{"heap", "goroutine", "allocs", "block", "mutex", "threadcreate"} {
			r.GET("/debug/pprof/"+name, operate, gin.WrapH(pprof.Handler(name)))
		}
	}
	a.router = r
	return nil
}

// audit logs what somebody changed, or tried to.
func (a *App) audit(action, detail, token, remote string) {
	a.log.Info("audit", "action", action, "detail", detail, "token", token, "remote", remote)
}

// orNever is how options whose zero value is a default say 0.
func orNever(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}

// allow asks the tokens for what the pages and the API need.
func (a *App) allow(p web.Permission) gin.HandlerFunc {
	if p == web.Operate {
		return a.auth.Require(ingest.PermitOperate)
	}
	return a.auth.Require(ingest.PermitRead)
}
