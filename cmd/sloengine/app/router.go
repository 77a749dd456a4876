package app

import (
	"errors"
	"fmt"
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
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/rejects"
	"github.com/sloengine/sloengine/web"
	"github.com/sloengine/sloengine/web/site"
)

// buildRouter makes everything that is answered over HTTP once the storage is open.
func (a *app) buildRouter(c *config.Config, set *metrics.Set) (err error) {
	table := rejects.New(a.redaction.Active, time.Now)
	dataMap, err := c.CloudEventMapping()
	if err != nil {
		return err
	}
	a.events, err = ingest.NewHandler(ingest.HandlerOptions{
		Committer: a.engine,
		Auth:      a.auth,
		Catalog:   func() event.Catalog { return a.specs.InForce().Catalog },
		SizeLimits: event.SizeLimits{
			MaxEventBytes:   int(c.Ingest.MaxEvent),
			MaxBatchEvents:  c.Ingest.MaxBatch,
			MaxFuture:       c.Ingest.MaxFuture,
			AllowedLateness: c.Ingest.AllowedLateness,
		},
		MaxBackfill:      func() time.Duration { return a.specs.InForce().Longest },
		MaxBodyBytes:     c.Ingest.MaxBody,
		MaxInFlightBytes: c.Ingest.BodiesInFlight,
		Deadline:         orNever(c.Ingest.Deadline),
		Reserve:          orNever(c.Ingest.DeadlineReserve),
		Metrics:          a.http,
		Logger:           a.opt.Log,
		Limiter:          a.rates.Limiter,
		Critical:         a.rates.Critical,
		SaveCritical:     a.deadLetters.Save,
		Redact:           a.redaction,
		Rejects:          table,
		Budgets:          a.budgets,
		Map:              dataMap,
	})
	if err != nil {
		return err
	}
	external, err := externalURL(c)
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	allow := allowing(a.auth)
	a.web, err = web.New(site.Options{
		Report:     a.eval.Latest,
		Engine:     a.status.get,
		Brief:      a.status.brief,
		Alerts:     a.alerts.machine.View,
		Counts:     a.counts.Read,
		Kept:       a.counts.Undropped,
		Traffic:    a.traffic,
		AlertsKept: alertsKept,
		DLQ:        a.deadLetters,
		Incidents:  a.incidents,
		Silences:   a.alerts.receivers,
		Public:     a.opt.Public,
		May: func(c *gin.Context, p site.Permission) bool {
			return a.auth.Allows(c.Request, permit(p))
		},
		Serves:       func(c *gin.Context, service string) bool { return a.auth.Serves(c.Request, service) },
		Caller:       func(c *gin.Context) string { return a.auth.Caller(c.Request) },
		Audit:        a.trail.note,
		Source:       a.specs.Source,
		Reload:       a.reloader.reload,
		Annotations:  a.annotations,
		Rejects:      table.Snapshot,
		Generations:  a.parking.Generations,
		Parked:       a.parking.Parked,
		Forget:       a.parking.Forget,
		Allow:        allow,
		Now:          time.Now,
		Version:      a.opt.Version,
		ExternalPath: external.Path,
		ExternalURL:  c.Web.ExternalURL,
		StaleAfter:   max(time.Minute, 4*c.Evaluator.Interval),
		Registry:     registry,

		MaxResponseBytes: c.Web.ResponsesMemory,
		Sets:             []*metrics.Set{set},
		LogError:         func(msg string, err error) { a.opt.Log.Error(msg, "err", err) },
	})
	if err != nil {
		return err
	}

	a.reports.Write = a.web.WriteReport

	r := gin.New()
	r.HandleMethodNotAllowed = true
	r.RedirectTrailingSlash = false
	r.ContextWithFallback = true
	r.Use(answered(a.opt.Log), a.auth.CheckHost, limitedReaders(a.auth, a.web))
	a.events.Register(r)
	a.web.Register(r)
	// A backup holds everything, so it takes the permission operate.
	r.POST(BackupPath, allow(site.Operate), a.backups.serve)
	r.POST(reports.Path+":name/send", site.Secure, allow(site.Operate), (&reports.API{
		Send: a.reports.Sender.SendNow, Body: a.web.JSONBody, Fail: func(msg string, err error) { a.opt.Log.Error(msg, "err", err) },
		Audit: a.trail.note,
	}).Serve)
	r.POST(ErasePath, site.Secure, allow(site.Operate), (&eraser{
		dead: a.deadLetters, incidents: a.incidents, rejects: table, trail: a.trail, body: a.web.JSONBody, fail: func(msg string, err error) { a.opt.Log.Error(msg, "err", err) },
		keys: a.parking.EraseKeys,
	}).serve)
	r.GET(AuditPath, site.Secure, allow(site.Operate), a.trail.serve)
	r.GET(admission.RateLimitPath+":context", allow(site.Read), (&admission.RateLimitAPI{Rates: a.rates, Redaction: a.redaction}).Serve)
	newSumsAPI(a, a.own.run).register(r, allow)
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
	a.router = r
	return nil
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

// orNever is how options whose zero value is a default say 0.
func orNever(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
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
