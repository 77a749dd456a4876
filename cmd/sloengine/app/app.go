// Package app is the running engine: it opens the storage, builds the parts on it from the settings and the spec, runs
// them, reloads them, and stops them in the reverse order.
//
// It decides nothing about events, scores or pages, reads no flags and never ends the process.
package app

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
	_ "time/tzdata" // zones of windows and schedules, also where the system has none

	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/alerts/receivers"
	"github.com/sloengine/sloengine/cmd/sloengine/app/admission"
	"github.com/sloengine/sloengine/cmd/sloengine/app/config"
	"github.com/sloengine/sloengine/cmd/sloengine/app/identity"
	"github.com/sloengine/sloengine/cmd/sloengine/app/reports"
	"github.com/sloengine/sloengine/cmd/sloengine/app/sinks"
	"github.com/sloengine/sloengine/cmd/sloengine/app/sources"
	"github.com/sloengine/sloengine/ingest"
	"github.com/sloengine/sloengine/ingest/counting"
	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/position"
	"github.com/sloengine/sloengine/ingest/servicebudget"
	"github.com/sloengine/sloengine/ingest/source"
	"github.com/sloengine/sloengine/reliability/amqpclient"
	"github.com/sloengine/sloengine/reliability/dispatch"
	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/kafkaclient"
	"github.com/sloengine/sloengine/reliability/metric"
	"github.com/sloengine/sloengine/reliability/ratelimit/shared"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/annotation"
	"github.com/sloengine/sloengine/sla/delivery"
	"github.com/sloengine/sloengine/sla/evaluator"
	"github.com/sloengine/sloengine/sla/history"
	"github.com/sloengine/sloengine/sla/outlook"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
	"github.com/sloengine/sloengine/slo/spec"
	"github.com/sloengine/sloengine/web"
	"github.com/sloengine/sloengine/web/site"
)

// Options are what serve and demo turn their flags into.
type Options struct {
	LoadConfig func() (config.Config, error)                  // reads engine.yaml; again at a reload
	Public     func(id slo.ID, labels map[string]string) bool // nil: as the labels say
	LoadSpec   func() (*spec.Spec, spec.Problems, error)      // reads the spec files; again at a reload
	Version    site.Version
	DataDir    string
	Listen     string
	AcceptLoss bool
	Standby    bool                    // wait while another engine uses the data directory
	Crash      func(engine.CrashPoint) // of tests; nil otherwise
	Log        *slog.Logger

	// OnReady, if set, runs once events are accepted, with the server's own
	// address. When it returns an error the app stops with it.
	OnReady func(ctx context.Context, base *url.URL) error
}

// settings are what engine.yaml and the spec files say at the start.
type settings struct {
	config config.Config
	specs  *counting.Specs
	first  *counting.Spec
}

// DataDir is a data directory, with the names in it that are an engine's.
func DataDir(dir string) config.DataDir {
	return config.DataDir{Dir: dir, Own: append(engine.Contents(),
		AlertsFile, NotificationsFile, notificationsJournal, reports.File, ForecastsFile, AnnotationsFile,
		sources.PositionsFile, AuditDir)}
}

// readSettings opens nothing for writing. It fails on a broken spec with a *spec.InvalidError.
func readSettings(opt *Options) (s settings, err error) {
	if s.config, err = opt.LoadConfig(); err != nil {
		return s, err
	}
	if s.specs, err = counting.LoadSpecs(opt.LoadSpec); err != nil {
		return s, err
	}
	s.first = s.specs.InForce()
	problems := s.config.StartProblems(Known(s.first.Spec), DataDir(opt.DataDir))
	for _, p := range problems.Warnings() {
		opt.Log.Warn("questionable setting", "file", p.File, "line", p.Line, "problem", p.Message, "hint", p.Suggestion)
	}
	return s, problems.Err()
}

// app is the engine with everything around it, on open storage. Nothing runs before start.
type app struct {
	opt         Options
	specs       *counting.Specs
	engine      *engine.Engine
	parts       engine.Parts
	counts      *counting.Counts
	eval        *evaluator.Evaluator
	alerts      *liveAlerts
	incidents   *incidents
	reports     *reports.Scheduled
	outlooks    *outlook.Keeper // nil if nothing is forecast
	annotations *annotation.Store
	traffic     *history.TrafficLog
	changes     *counting.Changes
	parking     *counting.Parking
	own         *ownEvents
	redaction   *admission.Redaction
	budgets     *servicebudget.Budgets
	rates       *admission.RateLimits
	positions   *sources.Positions
	sinks       *sinks.Sinks
	sources     *sources.Sources
	deadLetters *deadLetters
	link        *shared.Link // nil without Redis
	http        *ingest.HTTPMetrics
	auth        *ingest.Auth
	trail       *auditTrail
	reloader    *reloader
	backups     *backups
	status      *engineStatus
	events      *ingest.Handler
	web         *web.Web
	router      http.Handler
	stopping    atomic.Bool // readiness is off
}

// open opens the storage and builds everything on it. What it opens is for g to close, also after
// an error.
func open(opt Options, s settings, f *front, set *metrics.Set, g *runGroup) (*app, error) {
	started, c := time.Now(), &s.config
	deadMetrics, sinkMetrics := dlq.NewMetrics(set), dispatch.NewMetrics(set)
	filter, err := c.DeadLetterFilter(deadMetrics)
	if err != nil {
		return nil, err
	}
	redis, err := connectRedis(c, opt.Log, shared.NewMetrics(set), sinkMetrics.Breakers(), g)
	if err != nil {
		return nil, err
	}
	rates, err := admission.NewRateLimits(c, admission.Redis{Client: redis.limits, Link: redis.link}, filter, set, opt.Log)
	if err != nil {
		return nil, err
	}
	redaction, err := admission.NewRedaction(c, set)
	if err != nil {
		return nil, err
	}
	budgets := servicebudget.New(c.Ingest.Queue, set)
	budgets.Set(c.ServiceBudgets())
	httpMetrics := ingest.NewHTTPMetrics(set)
	auth := ingest.NewAuth(ingest.AuthOptions{Metrics: httpMetrics, Logger: opt.Log, Host: hostCheck(c, opt.Listen)})
	if tokens := c.Auth.TokensFile; tokens != "" {
		if err := auth.ReloadTokens(tokens); err != nil {
			return nil, err
		}
	}
	var kept *incidents // made below; no report comes before all parts run
	incidentOf := func(fingerprint string) (receivers.Incident, bool) {
		l, ok := kept.Of(fingerprint)
		return receivers.Incident(l), ok
	}
	alerts, err := newLiveAlerts(opt.DataDir, f.base.Host, c, s.first.Spec, incidentOf, set, sinkMetrics.Breakers(), opt.Log)
	if err != nil {
		return nil, err
	}
	if err := delivery.CheckVersion(filepath.Join(opt.DataDir, reports.File)); err != nil {
		return nil, err
	}
	notes, err := annotation.New(annotation.Options{File: filepath.Join(opt.DataDir, AnnotationsFile), Now: time.Now, Logger: opt.Log})
	if err != nil {
		return nil, err
	}
	counted, err := fold.New(fold.Options{})
	if err != nil {
		return nil, fmt.Errorf("create fold: %w", err)
	}

	book, sourcePositions := incident.NewBook(), position.NewBook()
	eng, err := engine.Open(engine.Options{
		Dir:          opt.DataDir,
		State:        counting.FoldState{Fold: counted, Incidents: book, Positions: sourcePositions},
		Config:       s.first.Encoded,
		Metrics:      engine.NewMetrics(set),
		Logger:       opt.Log,
		AcceptLoss:   opt.AcceptLoss,
		Locked:       opt.Standby,
		SegmentBytes: c.Log.Segment,
		QueueBytes:   c.Ingest.Queue,
		IDs:          c.Dedup,
		Checkpoint:   c.Checkpoint,
		Disk:         c.Disk,
		CrashPoint:   opt.Crash,
		Limiter:      rates.Limiter,
		Critical:     rates.Critical,
		Whole:        s.specs.Whole,
		MergeBy:      s.specs.MergeBy,
		MergeWindow:  rates.MergeWindow,
	})
	if err != nil {
		return nil, err
	}
	g.addCloser("data directory", eng)
	trail, err := openAuditTrail(opt.DataDir, auth, set, opt.Log)
	if err != nil {
		return nil, err
	}
	g.addCloser("audit log", trail.file)
	positions, err := sources.NewPositions(eng, sourcePositions, opt.DataDir, opt.Log)
	if err != nil {
		return nil, err
	}
	store, instance, err := openDeadLetters(c, opt.DataDir, eng.Log(), redis, deadMetrics, opt.Log, g)
	if err != nil {
		return nil, err
	}
	kafkaClients := kafkaclient.NewMetrics(set)
	outputs, err := sinks.Open(sinks.Options{
		Config: c, Dir: opt.DataDir, Source: eng.Log(), Link: redis.link, Instance: instance, Store: store, Filter: filter,
		DeadLetters: deadMetrics, Metrics: sinkMetrics, Kafka: kafkaClients, RabbitMQ: amqpclient.NewMetrics(set), Log: opt.Log,
	})
	if err != nil {
		return nil, err
	}
	g.add("sink files", func(context.Context) error { outputs.Dispatcher.Close(); return nil })
	inputs := sources.New(sources.Options{
		Config: c, Engine: eng, Positions: positions, Limiter: rates.Limiter, Redact: redaction, Specs: s.specs,
		Save: store.Save, Filter: filter, Set: set, Clients: kafkaClients, Log: opt.Log,
	})
	replayer := &source.Replayer{
		Engine: eng, Catalog: func() event.Catalog { return s.specs.InForce().Catalog }, Of: inputs.Of,
	}
	deadLetters, err := newDeadLetters(c, store, redis, replayer.Target, outputs.Replay, eng.ClockJumped, deadMetrics, opt.Log)
	if err != nil {
		return nil, err
	}

	counts := counting.NewCounts(counted, eng, set, opt.Log)
	traffic := history.NewTrafficLog()
	outlooks, complete, observe, err := newOutlooks(c, counts.Read, filepath.Join(opt.DataDir, ForecastsFile), set, opt.Log)
	if err != nil {
		return nil, err
	}
	eval, err := evaluator.New(evaluator.Options{
		Source: counts.Sums,
		OnReport: func(r *sla.Report) {
			alerts.step(r)
			traffic.Observe(r)
			observe(r)
		},
		Complete: complete,
		Refused:  eng.ClockJumped,
		Interval: c.Evaluator.Interval,
		Metrics:  evaluator.NewMetrics(set),
		Logger:   opt.Log,
	})
	if err != nil {
		return nil, fmt.Errorf("create evaluator: %w", err)
	}
	if err := eval.SetSpec(s.first.Inputs); err != nil {
		return nil, fmt.Errorf("evaluate spec: %w", err)
	}
	links, err := identity.NewLinks(fsys.OS(), opt.DataDir)
	if err != nil {
		return nil, err
	}
	kept = &incidents{
		book: book, engine: eng, alerts: alerts.machine.View, costs: &incidentCosts{counts: counts.Read, report: eval.Latest},
		links: links, base: strings.TrimRight(c.Web.ExternalURL, "/"), log: opt.Log,
		baselines: func() []*slo.Baseline { return s.specs.InForce().Spec.Baselines },
		failures:  metric.IncidentFailures.Counter(set), told: alerts.receivers.Update, stepped: make(chan struct{}, 1),
	}
	alerts.stepped = kept.observe
	noteUnknown(c, s.specs.InForce().Spec, opt.Log)
	scheduled, err := reports.New(opt.DataDir, instance, c, eval.Latest, set, opt.Log)
	if err != nil {
		return nil, err
	}
	s.specs.Publish(set)
	metric.BuildInfo.Read(set, func() float64 { return 1 }, opt.Version.Version, opt.Version.Revision, opt.Version.Go)
	parking := counting.NewParking(c.Parked.Memory, c.Dedup.MaxAge, counts, set)
	changes := counting.NewChanges(parking, s.specs, opt.Log)
	a := &app{
		opt: opt, specs: s.specs, engine: eng, counts: counts, eval: eval, alerts: alerts, incidents: kept, reports: scheduled, outlooks: outlooks, annotations: notes, traffic: traffic, changes: changes, parking: parking,
		redaction: redaction, budgets: budgets, rates: rates, positions: positions, sinks: outputs, sources: inputs, deadLetters: deadLetters, link: redis.link,
		http: httpMetrics, auth: auth, trail: trail,
		parts:   engine.Parts{DeadLetters: store, Retain: outputs.Dispatcher.Lowest, Instance: instance},
		backups: &backups{engine: eng, store: store, dir: opt.DataDir, version: opt.Version.Version, trail: trail, log: opt.Log},
		own: &ownEvents{
			log: opt.Log, engine: eng, counts: counts, http: httpMetrics, sources: inputs, sinks: outputs.Dispatcher, specs: s.specs,
			started: started, run: fmt.Sprintf("%s-%d", instance, started.UnixNano()),
		},
		reloader: newReloader(reloadOptions{
			start: c, dir: opt.DataDir, loadConfig: opt.LoadConfig, specs: s.specs, auth: auth, eval: eval, engine: eng,
			rates: rates, sinks: outputs, sources: inputs, alerts: alerts, reports: scheduled, redaction: redaction, budgets: budgets, changes: changes, annotations: notes, log: opt.Log,
		}, set),
	}
	a.status = &engineStatus{
		dir: opt.DataDir, disk: diskSize(opt.DataDir, opt.Log), started: started, stopping: &a.stopping, engine: eng, http: httpMetrics, auth: auth, trail: trail, counts: counts, parking: parking,
		specs: s.specs, changes: changes, reloader: a.reloader, conns: f.conns, rates: rates, redaction: redaction, budgets: budgets, link: redis.link,
		sinks: outputs, sources: inputs, alerts: alerts, reports: scheduled, deadLetters: deadLetters,
	}
	if err := notes.InForce(s.first.Hash); err != nil {
		opt.Log.Error("spec in force is not noted, so its next change is not annotated", "err", err)
	}
	return a, a.buildRouter(c, set)
}
