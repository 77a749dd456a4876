// Package app is the running engine: it opens the storage, builds the parts on it from the settings and the spec, runs
// them, reloads them, and stops them in the reverse order.
//
// It decides nothing about events, scores or pages, reads no flags and never ends the process. It is one package of its
// size because its parts use each other; what they do not share is in the packages below it.
package app

import (
	"context"
	"log/slog"
	"net/url"
	"path/filepath"
	"time"
	_ "time/tzdata" // zones of windows and schedules, also where the system has none

	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/cmd/sloengine/app/config"
	"github.com/sloengine/sloengine/cmd/sloengine/app/reports"
	"github.com/sloengine/sloengine/cmd/sloengine/app/sources"
	"github.com/sloengine/sloengine/ingest/counting"
	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/reliability/dispatch"
	"github.com/sloengine/sloengine/reliability/kafkaclient"
	"github.com/sloengine/sloengine/reliability/metric"
	"github.com/sloengine/sloengine/reliability/subscription"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/annotation"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/spec"
	"github.com/sloengine/sloengine/web/site"
	"github.com/sloengine/sloengine/web/status"
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

	// Notice, if set, is shown above the list of SLOs.
	Notice func(now time.Time) (site.Notice, bool)

	// OnReady, if set, runs once events are accepted, with the server's own
	// address. When it returns an error the app stops with it.
	OnReady func(ctx context.Context, base *url.URL) error
	// OnSources, if set, runs once the counts are complete, with how the sources are. When it returns, the app stops with
	// its error.
	OnSources func(ctx context.Context, now func() []status.SourceStatus) error
}

// settings are what engine.yaml and the spec files say at the start.
type settings struct {
	config config.Config
	specs  *counting.Specs
	first  *counting.Spec
}

// SubscriptionsFile keeps the webhooks that subscribed to the public page.
const SubscriptionsFile = "subscriptions.json"

// DataDir is a data directory, with the names in it that are an engine's.
func DataDir(dir string) config.DataDir {
	return config.DataDir{Dir: dir, Own: append(engine.Contents(),
		AlertsFile, NotificationsFile, notificationsJournal, reports.File, reports.Dir, ForecastsFile,
		reports.AnnotationsFile,
		SubscriptionsFile, RejectsFile, sources.PositionsFile, AuditDir, RemoteWriteDir)}
}

// readSettings opens nothing for writing. It fails on a broken spec with a *spec.InvalidError.
func readSettings(opt *Options) (s settings, err error) {
	if s.config, err = opt.LoadConfig(); err != nil {
		return s, err
	}
	if s.specs, err = counting.LoadSpecs(opt.loadSpec); err != nil {
		return s, err
	}
	s.first = s.specs.InForce()
	problems := s.config.StartProblems(Known(s.first.Spec), DataDir(opt.DataDir))
	for _, p := range problems.Warnings() {
		opt.Log.Warn("questionable setting", "file", p.File, "line", p.Line, "problem", p.Message, "hint", p.Suggestion)
	}
	return s, problems.Err()
}

// loadSpec reads the spec files, and in engine.yaml which of their SLOs a source reads.
func (opt *Options) loadSpec() (*spec.Spec, spec.Problems, error) {
	return assigned(opt.LoadSpec, opt.LoadConfig)
}

func assigned(load func() (*spec.Spec, spec.Problems, error), settings func() (config.Config, error)) (*spec.Spec,
	spec.Problems, error) {
	sp, problems, err := load()
	if err != nil || problems.Err() != nil {
		return sp, problems, err
	}
	c, err := settings()
	if err != nil {
		return nil, nil, err
	}
	c.AssignSources(sp.SLOs)
	return sp, problems, nil
}

// app is the engine with everything around it, on open storage. Nothing runs before start.
type app struct {
	Options
	settings
	parts
	own      *ownEvents
	reloader *reloader
	status   *engineStatus
	routes   *routes
}

// parts are what an engine is made of, in the order in which they are made: each uses those above it only.
type parts struct {
	intake      *intake
	storage     *storage
	alerts      *liveAlerts
	evaluation  *evaluation
	incidents   *incidents
	reports     *reports.Scheduled
	annotations *annotation.Store
	subscribed  *subscription.Webhooks // nil: public.subscriptions is off
	sinks       *sinks
	written     remoteWrites
	sources     *sources.Sources
	deadLetters *deadLetters
}

// builder is what parts are made from.
type builder struct {
	Options
	settings
	front    *front
	set      *metrics.Set
	delivery *dispatch.Metrics
	kafka    *kafkaclient.Metrics
	group    *runGroup // closes what is opened
}

// open opens the storage and builds everything on it. What it opens is for g to close, also after
// an error.
func open(opt Options, s settings, f *front, set *metrics.Set, g *runGroup) (*app, error) {
	started := time.Now()
	b := &builder{opt, s, f, set, dispatch.NewMetrics(set), kafkaclient.NewMetrics(set), g}
	p, err := b.parts()
	if err != nil {
		return nil, err
	}
	a := &app{Options: opt, settings: s, parts: p, own: b.ownEvents(&p, started), reloader: newReloader(opt, s, p, set)}
	a.status = &engineStatus{
		parts: p, specs: b.specs, reloader: a.reloader, conns: b.front.conns,
		dir: b.DataDir, disk: diskSize(b.DataDir, b.Log), started: started, lateness: b.config.Ingest.AllowedLateness,
	}
	if a.routes, err = b.routes(a); err != nil {
		return nil, err
	}
	s.specs.Publish(set)
	a.status.measureHistory(set)
	metric.BuildInfo.Read(set, func() float64 { return 1 }, opt.Version.Version, opt.Version.Revision, opt.Version.Go)
	noteUnknown(&s.config, s.first.Spec, opt.Log)
	p.evaluation.rebuilds.Activate = a.reloader.activate
	return a, nil
}

func (b *builder) parts() (p parts, err error) {
	if p.intake, err = b.intake(); err != nil {
		return p, err
	}
	if p.storage, err = b.storage(p.intake); err != nil {
		return p, err
	}
	lookup := b.incidentLookup(p.storage, func() *sla.Report { return p.evaluation.Latest() }) // asked once it runs
	p.alerts, err = b.liveAlerts(lookup.Of, lookup.States, b.traceLinks(p.storage.traces), p.storage.reasons.Of)
	if err != nil {
		return p, err
	}
	if p.evaluation, err = b.evaluation(p.storage, p.alerts); err != nil {
		return p, err
	}
	p.incidents = b.incidents(lookup, &p)
	p.evaluation.tries = b.tries(&p)
	p.reports, err = reports.New(b.DataDir, p.storage.instance, &b.config, p.evaluation.Latest, b.set, b.Log)
	if err != nil {
		return p, err
	}
	file := filepath.Join(b.DataDir, reports.AnnotationsFile)
	p.annotations, err = annotation.New(annotation.Options{File: file, Now: time.Now, Logger: b.Log})
	if err != nil {
		return p, err
	}
	if b.config.Public.Subscriptions {
		p.subscribed, err = subscription.New(subscription.Options{
			File: filepath.Join(b.DataDir, SubscriptionsFile), Private: b.config.Public.PrivateWebhooks, Set: b.set,
			Logger: b.Log,
		})
		if err != nil {
			return p, err
		}
	}
	if p.sinks, err = b.sinks(&p); err != nil {
		return p, err
	}
	if p.written, err = b.remoteWrites(p.alerts.aboutEngine(&b.config)); err != nil {
		return p, err
	}
	p.sources = sources.New(sources.Options{
		Config: &b.config, Engine: p.storage.engine, Positions: p.storage.positions, Limiter: p.intake.rates.Limiter,
		Redact: p.intake.redaction, Specs: b.specs, Save: p.saveDeadLetters, Filter: p.intake.filter, Set: b.set,
		Clients: b.kafka, Log: b.Log, Counters: p.storage.counters, Observed: p.storage.observedUntil,
		Spans:    p.storage.observedSpans,
		SeeRules: p.alerts.machine.SeeRules,
	})
	p.deadLetters, err = b.deadLetters(&p)
	return p, err
}
