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
	"github.com/sloengine/sloengine/web"
	"github.com/sloengine/sloengine/web/site"
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
	external, err := externalURL(c)
	if err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	auth := p.intake.auth
	allow, fail := allowing(auth), func(msg string, err error) { b.Log.Error(msg, "err", err) }
	pages, err := web.New(site.Options{
		Report:       p.evaluation.Latest,
		Engine:       a.status.get,
		Brief:        a.status.brief,
		Alerts:       p.alerts.machine.View,
		Counts:       p.evaluation.counts.Read,
		Kept:         p.evaluation.counts.Undropped,
		Traffic:      p.evaluation.traffic,
		AlertsKept:   alertsKept,
		DLQ:          p.deadLetters,
		Incidents:    p.incidents,
		Silences:     p.alerts.receivers,
		Public:       b.Public,
		May:          func(c *gin.Context, p site.Permission) bool { return auth.Allows(c.Request, permit(p)) },
		Serves:       func(c *gin.Context, service string) bool { return auth.Serves(c.Request, service) },
		Caller:       func(c *gin.Context) string { return auth.Caller(c.Request) },
		Audit:        p.storage.trail.note,
		Source:       b.specs.Source,
		Reload:       a.reloader.reload,
		Annotations:  p.annotations,
		Rejects:      p.intake.rejects.Snapshot,
		Generations:  p.evaluation.parking.Generations,
		Parked:       p.evaluation.parking.Parked,
		Forget:       p.evaluation.parking.Forget,
		Allow:        allow,
		Now:          time.Now,
		Version:      b.Version,
		ExternalPath: external.Path,
		ExternalURL:  c.Web.ExternalURL,
		StaleAfter:   max(time.Minute, 4*c.Evaluator.Interval),
		Registry:     registry,

		MaxResponseBytes: c.Web.ResponsesMemory,
		Sets:             []*metrics.Set{b.set},
		LogError:         fail,
	})
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
		Send: p.reports.SendBy(pages.WriteReport), Body: pages.JSONBody, Fail: fail, Audit: p.storage.trail.note,
	}).Serve)
	r.POST(ErasePath, site.Secure, allow(site.Operate), (&eraser{
		dead: p.deadLetters, incidents: p.incidents, rejects: p.intake.rejects, trail: p.storage.trail, body: pages.JSONBody, fail: fail,
		keys: p.evaluation.parking.EraseKeys,
	}).serve)
	r.GET(AuditPath, site.Secure, allow(site.Operate), p.storage.trail.serve)
	r.GET(admission.RateLimitPath+":context", allow(site.Read), (&admission.RateLimitAPI{Rates: p.intake.rates, Redaction: p.intake.redaction}).Serve)
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

// externalURL is the address by which users reach the pages; empty if that is not known.
func externalURL(c *config.Config) (*url.URL, error) {
	if c.Web.ExternalURL == "" {
		return &url.URL{}, nil
	}
	external, err := url.Parse(c.Web.ExternalURL)
	if err != nil {
		return nil, fmt.Errorf("web.external_url: %w", errors.Unwrap(err)) // checked when it was read
	}
	return external, nil
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

// allowing asks the tokens for what pages and API need.
func allowing(auth *ingest.Auth) func(site.Permission) gin.HandlerFunc {
	return func(p site.Permission) gin.HandlerFunc { return auth.Require(permit(p)) }
}
