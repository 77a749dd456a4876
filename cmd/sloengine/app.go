package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"net/url"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
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
	"github.com/sloengine/sloengine/reliability/wal"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/evaluator"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
	"github.com/sloengine/sloengine/web"
)

// appOptions are what serve and demo turn their flags into.
type appOptions struct {
	config     config.Config
	configFile string                                         // read again at a reload; "": there is none
	public     func(id slo.ID, labels map[string]string) bool // nil: as the labels say
	loadSpec   specLoader
	dataDir    string
	listen     string
	acceptLoss bool
	settle     func(*config.Config) error // changes the settings after they were read; nil: they stay
	crash      func(engine.CrashPoint)    // of tests; nil otherwise
	log        *slog.Logger

	// onReady, if set, runs once events are taken, with the server's own
	// address. When it returns an error the app stops with it.
	onReady func(ctx context.Context, base *url.URL) error
}

// app is the running engine with everything around it.
type app struct {
	opt     appOptions
	log     *slog.Logger
	started time.Time

	fold    *fold.Fold
	engine  *engine.Engine
	eval    *evaluator.Evaluator
	alerts  *liveAlerts
	traffic *web.TrafficLog
	auth    *ingest.Auth
	rel     *reliability
	http    *ingest.HTTPMetrics
	specs   *specs
	sets    []*metrics.Set
	web     *web.Web
	router  http.Handler
	server  *http.Server
	conns   *connlimit.Limit
	events  *ingest.Handler
	group   *runGroup

	stopping       atomic.Bool
	parking        parking
	change         atomic.Pointer[web.SpecChange] // what the last change of the spec did to counts
	foldStats      atomic.Pointer[fold.Stats]     // as of the last tick
	reloadFailures *metrics.Counter
}

// newApp builds everything and starts nothing. It fails on a broken spec, whose
// problems are in the error.
func newApp(opt appOptions) (a *app, err error) {
	a = &app{opt: opt, log: opt.log, started: time.Now(), traffic: web.NewTrafficLog(), group: newRunGroup()}
	opened := a.group
	defer func() {
		if err != nil { // what was opened is closed again
			a, err = nil, errors.Join(err, opened.run(context.Background()))
		}
	}()
	if a.specs, err = loadSpecs(opt.loadSpec); err != nil {
		return nil, err
	}
	first := a.specs.current.Load()

	if a.fold, err = fold.New(fold.Options{}); err != nil {
		return nil, fmt.Errorf("make fold: %w", err)
	}
	engineSet, httpSet, evalSet, alertSet := metrics.NewSet(), metrics.NewSet(), metrics.NewSet(), metrics.NewSet()
	a.sets = []*metrics.Set{engineSet, httpSet, evalSet, alertSet, a.ownMetrics()}
	c := opt.config
	// In one set with the handlers: both count passed deadlines.
	if a.rel, err = newReliability(&a.opt.config, opt.dataDir, opt.log, httpSet, &a.group.teardown); err != nil {
		return nil, err
	}
	a.engine, err = engine.New(engine.Options{
		Dir:          opt.dataDir,
		State:        foldState{a.fold},
		Config:       first.encoded,
		Metrics:      engine.NewMetrics(engineSet),
		Logger:       opt.log,
		AcceptLoss:   opt.acceptLoss,
		SegmentBytes: int64(c.Log.Segment),
		QueueBytes:   int64(c.Ingest.Queue),
		IDs:          engine.IDOptions{Bytes: int64(c.KnownIDs.Memory), MaxAge: time.Duration(c.KnownIDs.MaxAge)},
		Checkpoint:   engine.CheckpointOptions{Interval: time.Duration(c.Checkpoint.Interval), LogBytes: int64(c.Checkpoint.Log)},
		Disk:         engine.DiskOptions{LowWater: int64(c.Disk.LowWater)},
		CrashPoint:   opt.crash,
		Limits:       a.rel.rates.limiter,
		Critical:     a.rel.rates.critical,
		MergeBy:      a.specs.mergeBy,
		MergeWindow:  func() time.Duration { return a.rel.rates.mergeWindow() },
		OnOpen: func(log *wal.Log) (engine.Parts, error) {
			return a.rel.open(log, a.engine.ReplayTarget)
		},
	})
	if err != nil {
		return nil, err
	}
	if a.alerts, err = newLiveAlerts(opt.dataDir, alertSet, time.Duration(c.Evaluator.Interval), opt.log); err != nil {
		return nil, err
	}
	a.eval, err = evaluator.New(evaluator.Options{
		Source: a.sums,
		OnReport: func(r *sla.Report) {
			a.alerts.step(r)
			a.traffic.Observe(r)
		},
		Interval: time.Duration(c.Evaluator.Interval),
		Metrics:  evaluator.NewMetrics(evalSet),
		Logger:   opt.log,
	})
	if err != nil {
		return nil, fmt.Errorf("make evaluator: %w", err)
	}
	if err := a.eval.SetSpec(first.inputs); err != nil {
		return nil, fmt.Errorf("evaluate spec: %w", err)
	}
	a.http = ingest.NewHTTPMetrics(httpSet)
	a.auth = ingest.NewAuth(ingest.AuthOptions{Metrics: a.http, Logger: opt.log, Host: hostCheck(&a.opt.config, opt.listen)})
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
	a.server = &http.Server{Handler: a.router, ErrorLog: slog.NewLogLogger(opt.log.Handler(), slog.LevelWarn)}
	ingest.Harden(a.server)
	if a.conns, err = connlimit.New(connlimit.Options{Max: c.Web.MaxConnections, Metrics: httpSet, Logger: opt.log}); err != nil {
		return nil, err
	}
	a.conns.Serve(a.server)
	return a, nil
}

// sums asks the fold's owner for window sums.
func (a *app) sums(ctx context.Context, req fold.Request) (*fold.Sums, error) {
	var out *fold.Sums
	if err := a.engine.Do(ctx, func() { out = a.fold.Sums(req) }); err != nil {
		return nil, err
	}
	a.tellFullGroups(a.foldStats.Swap(&out.Stats), &out.Stats)
	return out, nil
}

func (a *app) buildRouter() error {
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	r.HandleMethodNotAllowed = true
	r.RedirectTrailingSlash = false
	r.ContextWithFallback = true
	r.Use(a.answered, a.auth.CheckHost)
	c := a.opt.config

	var err error
	a.events, err = ingest.NewHandler(ingest.HandlerOptions{
		Committer: a.engine,
		Auth:      a.auth,
		Catalog:   func() event.Catalog { return a.specs.current.Load().catalog },
		Limits: event.Limits{
			MaxEventBytes:   int(c.Ingest.MaxEvent),
			MaxBatchEvents:  c.Ingest.MaxBatch,
			MaxFuture:       time.Duration(c.Ingest.MaxFuture),
			AllowedLateness: time.Duration(c.Ingest.AllowedLateness),
		},
		MaxBackfill:      func() time.Duration { return a.specs.current.Load().longest },
		MaxBodyBytes:     int64(c.Ingest.MaxBody),
		MaxInFlightBytes: int64(c.Ingest.BodiesInFlight),
		Deadline:         orNever(c.Ingest.Deadline),
		Reserve:          orNever(c.Ingest.DeadlineReserve),
		Metrics:          a.http,
		Logger:           a.log,
		Limiter:          a.rel.rates.limiter,
		Critical:         a.rel.rates.critical,
		SaveCritical:     a.rel.letters.Save,
		Redact:           a.rel,
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
		DLQ:        a.rel.letters,
		Public:     a.opt.public,
		MetricHelp: metricHelp(),
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
		Version:      web.Version{Version: version, Revision: revision(), Go: runtime.Version()},
		ExternalPath: external.Path,
		ExternalURL:  c.Web.ExternalURL,
		StaleAfter:   max(time.Minute, 4*time.Duration(c.Evaluator.Interval)),
		Registry:     registry,

		MaxResponseBytes: int64(c.Web.ResponsesMemory),
		Sets:             a.sets,
		LogError:         func(msg string, err error) { a.log.Error(msg, "err", err) },
	})
	if err != nil {
		return err
	}
	a.web.Register(r)
	r.GET(rateLimitPath+":context", a.allow(web.Read), a.rateLimit)
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
func (a *app) audit(action, detail, token, remote string) {
	a.log.Info("audit", "action", action, "detail", detail, "token", token, "remote", remote)
}

// orNever is how options whose zero value is a default say 0.
func orNever(d config.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return time.Duration(d)
}

// allow asks the tokens for what the pages and the API need.
func (a *app) allow(p web.Permission) gin.HandlerFunc {
	if p == web.Operate {
		return a.auth.Require(ingest.PermitOperate)
	}
	return a.auth.Require(ingest.PermitRead)
}

// crashFromEnv kills the process at a named place, as the crash tests ask for:
// SLOENGINE_CRASH=append.after:3 dies at the third passing.
func crashFromEnv() (func(engine.CrashPoint), error) {
	want := os.Getenv("SLOENGINE_CRASH")
	if want == "" {
		return nil, nil
	}
	name, count, _ := strings.Cut(want, ":")
	left := 1
	if count != "" {
		if _, err := fmt.Sscanf(count, "%d", &left); err != nil {
			return nil, usageError{fmt.Errorf("SLOENGINE_CRASH=%s: want NAME or NAME:COUNT", want)}
		}
	}
	var passed atomic.Int64
	return func(p engine.CrashPoint) {
		if string(p) == name && passed.Add(1) == int64(left) {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // the signal is on its way: nothing more may happen
		}
	}, nil
}
