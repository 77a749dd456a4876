package app

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"net/url"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/sloengine/sloengine/cmd/sloengine/app/admission"
	"github.com/sloengine/sloengine/cmd/sloengine/app/config"
	"github.com/sloengine/sloengine/cmd/sloengine/app/reports"
	"github.com/sloengine/sloengine/ingest"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/web"
	"github.com/sloengine/sloengine/web/site"
	"github.com/sloengine/sloengine/web/status"
)

// routes are what is answered over HTTP once the storage is open.
type routes struct {
	events *ingest.Handler
	web    *web.Web
	router *gin.Engine
}

func (b *builder) routes(a *app) (*routes, error) {
	c, p := &b.config, &a.parts
	events, err := b.handler(p)
	if err != nil {
		return nil, err
	}
	opt, err := siteOptions(c, p.storage.trail, p.evaluation.Latest, b.Version, b.set)
	if err != nil {
		return nil, err
	}
	in, e, trail := p.intake, p.evaluation, p.storage.trail
	auth, allow := in.auth, opt.Allow
	opt.Counts, opt.Kept, opt.Traffic, opt.Source = e.counts.Read, e.counts.Undropped, e.traffic, b.specs.Source
	opt.Traces, opt.Counters = p.storage.traces, p.sources.Counters
	opt.Events, opt.Try, opt.Seal = p.storage.events.Find, e.tries.Try, b.seal(p)
	opt.Condition = site.Condition{Engine: a.status.get, Brief: a.status.brief, Rejects: in.rejects.Snapshot,
		Unknown: in.rejects.Types, Seen: in.seen.Snapshot, Findings: in.findings.Snapshot, Notice: b.Notice}
	opt.Alerting = site.Alerting{
		Alerts: p.alerts.machine.View, AlertsKept: alertsKept, Incidents: p.incidents, Silences: p.alerts.receivers,
	}
	opt.Work = site.Work{Generations: e.parking.Generations, Parked: e.parking.Parked, Forget: e.parking.Forget,
		Rebuild: e.rebuilds.Ask,
		Spans:   func() []status.KeptAttributes { return b.keptOfSpans(in.findings.SpanFed(), a.status.started) }}
	opt.Serves = func(c *gin.Context, service string) bool { return auth.Serves(c.Request, service) }
	opt.Subscriptions = p.subscribed
	opt.DLQ, opt.Annotations, opt.Reload, opt.Public = p.deadLetters, p.annotations, a.reloader.reload, b.Public
	pages, err := web.New(opt)
	if err != nil {
		return nil, err
	}
	r := gin.New()
	r.HandleMethodNotAllowed = true
	r.RedirectTrailingSlash = false
	r.ContextWithFallback = true
	r.Use(answered(b.Log), auth.CheckHost, limitedReaders(auth, pages))
	events.Register(r)
	pages.Register(r)
	// A backup holds everything, so it takes the permission operate.
	r.POST(BackupPath, allow(site.Operate), newBackups(b, p.storage).serve)
	r.POST(reports.Path+":name/send", site.Secure, allow(site.Operate), (&reports.API{
		Sender: p.reports.Sender, Make: p.reports.Making(pages.WriteReport), Body: pages.JSONBody, Fail: opt.LogError,
		Audit: trail.note,
	}).Serve)
	r.POST(ErasePath, site.Secure, allow(site.Operate), (&eraser{
		dead: p.deadLetters, incidents: p.incidents, rejects: in.rejects, keys: e.parking.EraseKeys,
		history: eraseHistory(p.storage.engine), spec: b.specs.InForce, redaction: in.redaction,
		trail: trail, body: pages.JSONBody, fail: opt.LogError,
	}).serve)
	r.GET(AuditPath, site.Secure, allow(site.Operate), trail.serve)
	limits := &admission.RateLimitAPI{Rates: in.rates, Redaction: in.redaction}
	r.GET(admission.RateLimitPath+":context", allow(site.Read), limits.Serve)
	newSumsAPI(p, b.specs, a.own.run).register(r, allow)
	if c.Web.Pprof {
		operate := allow(site.Operate)
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
	return &routes{events, pages, r}, nil
}

// siteOptions are what the sites of an engine and of a view have in common.
func siteOptions(
	c *config.Config, trail *auditTrail, latest func() *sla.Report, v site.Version, set *metrics.Set,
) (o site.Options, err error) {
	external, err := url.Parse(c.Web.ExternalURL)
	if err != nil {
		return o, fmt.Errorf("web.external_url: %w", errors.Unwrap(err)) // checked when it was read
	}
	look, err := c.PublicLook()
	if err != nil {
		return o, err
	}
	auth, registry := trail.auth, prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return site.Options{
		Numbers: site.Numbers{Report: latest, Ledger: c.Ledger},
		Access: site.Access{
			Allow:  func(p site.Permission) gin.HandlerFunc { return auth.Require(permit(p)) },
			May:    func(c *gin.Context, p site.Permission) bool { return auth.Allows(c.Request, permit(p)) },
			Caller: func(c *gin.Context) string { return auth.Caller(c.Request) },
			Audit:  trail.note,
		},
		Published: site.Published{Look: look},
		Address: site.Address{ExternalPath: external.Path, ExternalURL: c.Web.ExternalURL,
			TraceURL: c.Web.TraceURL},
		Bounds: site.Bounds{StaleAfter: max(time.Minute, 4*c.Evaluator.Interval), MaxResponseBytes: c.Web.ResponsesMemory},
		Scrape: site.Scrape{Registry: registry, Sets: []*metrics.Set{set}},
		Now:    time.Now, Version: v, LogError: func(msg string, err error) { trail.log.Error(msg, "err", err) },
	}, nil
}

// newAuth reads the tokens.
func newAuth(c *config.Config, m *ingest.HTTPMetrics, listen string, log *slog.Logger) (*ingest.Auth, error) {
	auth := ingest.NewAuth(ingest.AuthOptions{Metrics: m, Logger: log, Host: hostCheck(c, listen)})
	if c.Auth.TokensFile == "" {
		return auth, nil
	}
	return auth, auth.ReloadTokens(c.Auth.TokensFile)
}

func permit(p site.Permission) ingest.Permission {
	switch p {
	case site.Operate:
		return ingest.PermitOperate
	case site.Annotate:
		return ingest.PermitAnnotate
	}
	return ingest.PermitRead
}
