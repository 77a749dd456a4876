package web

import (
	"context"
	"net/http"
	"slices"

	"github.com/VictoriaMetrics/metrics"
	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/reliability/subscription"
	"github.com/sloengine/sloengine/sla/report"
	"github.com/sloengine/sloengine/slo/traces"
	"github.com/sloengine/sloengine/web/alertpage"
	"github.com/sloengine/sloengine/web/annotations"
	"github.com/sloengine/sloengine/web/api"
	"github.com/sloengine/sloengine/web/collector"
	"github.com/sloengine/sloengine/web/deadletters"
	"github.com/sloengine/sloengine/web/incidents"
	"github.com/sloengine/sloengine/web/overview"
	"github.com/sloengine/sloengine/web/public"
	"github.com/sloengine/sloengine/web/respond"
	"github.com/sloengine/sloengine/web/silences"
	"github.com/sloengine/sloengine/web/site"
	"github.com/sloengine/sloengine/web/ui"
)

// Web serves the pages, the read API, the health endpoints and /metrics. It is
// safe for concurrent use.
type Web struct {
	*site.Site
	ui          *ui.Handler
	engine      *engineHandler
	api         *api.Handler
	public      *public.Handler
	dead        *deadletters.Handler
	incidents   *incidents.Handler
	silences    *silences.Handler
	services    *overview.Handler
	metrics     http.Handler
	Gatherer    prometheus.Gatherer // of what /metrics serves
	responses   *respond.Cache
	streams     *hub
	streamStats *streamMetrics
}

// New checks the options, parses the templates and prepares the assets.
func New(opt site.Options) (*Web, error) {
	site, err := site.New(opt)
	if err != nil {
		return nil, err
	}
	w := &Web{Site: site, streams: newHub(site.Opt.MaxStreams)}
	own := metrics.NewSet()
	w.streamStats = newStreamMetrics(own, func() float64 { return float64(w.streams.count()) })
	w.Opt.Sets = append(slices.Clone(site.Opt.Sets), own)
	w.responses = respond.NewCache(site.Opt.MaxResponseBytes, site.Opt.Now, own)
	return w, w.assemble()
}

// assemble makes the parts of a site.
func (w *Web) assemble() (err error) {
	opt := w.Opt
	w.dead, w.silences, w.services, w.public = deadletters.New(w.Site), silences.New(w.Site), overview.New(w.Site),
		public.New(w.Site)
	w.incidents = incidents.New(w.Site, w.public)
	if w.api, err = api.New(w.Site); err != nil {
		return err
	}
	w.engine = &engineHandler{Site: w.Site, dead: w.dead}
	if w.ui, err = ui.New(w.Site); err != nil {
		return err
	}
	scrapes := collector.Options{
		Report: opt.Report, NoSeries: opt.NoSeries, Recovered: func() bool {
			return opt.Brief().State.Recovered()
		}, Alerts: opt.Alerts, Sets: w.Opt.Sets, Registry: opt.Registry,
		Timeout: opt.ScrapeTimeout, LogError: opt.LogError, Incidents: incidentView(opt.Incidents), Now: opt.Now,
		Traces: w.failingTraces,
	}
	w.metrics, w.Gatherer = collector.Handler(scrapes), collector.Gatherer(scrapes)
	return nil
}

// failingTraces are those of all SLOs.
func (w *Web) failingTraces() []traces.Of {
	if w.Opt.Traces == nil {
		return nil
	}
	return w.Opt.Traces.All(w.Opt.Now())
}

// incidentView is nil if the engine keeps no incidents.
func incidentView(all site.Incidents) func() *incident.View {
	if all == nil {
		return nil
	}
	return all.View
}

// WriteReport makes a report and writes it in all forms, for a scheduled report of that title.
func (w *Web) WriteReport(ctx context.Context, title string, ask report.Query) (*api.WrittenReport, error) {
	return w.api.WriteReport(ctx, title, ask)
}

// PublicChanges are the public incidents, for their subscribers.
func (w *Web) PublicChanges(ctx context.Context) ([]subscription.Item, bool) {
	return w.public.Changes(ctx)
}

// Register mounts everything on r. On a *gin.Engine it also takes over unknown
// routes and methods; on a group the caller may do so with NotFound and
// MethodNotAllowed.
func (w *Web) Register(r gin.IRouter) {
	read, operate := w.Opt.Allow(site.Read), w.Opt.Allow(site.Operate)
	direct := func(path string, h ...gin.HandlerFunc) {
		if w.Opt.Scope != "" && ofEngine[path] {
			h = []gin.HandlerFunc{w.limited}
		}
		r.Match([]string{http.MethodGet, http.MethodHead}, path,
			append([]gin.HandlerFunc{site.Secure, w.ChooseTheme}, h...)...)
	}
	// Who may not have a response is told before it counts.
	bounded, scraped := w.responses.Bounded(false, w.Opt.Scope), w.responses.Bounded(true, w.Opt.Scope)
	get := func(path string, h ...gin.HandlerFunc) {
		last := len(h) - 1
		direct(path, append(slices.Clone(h[:last]), bounded, h[last])...)
	}
	w.ui.Register(get, read)
	get("/engine", read, w.engine.page)
	w.api.Register(r, get, read, operate)
	w.dead.Register(r, get, read, operate)
	w.incidents.Register(r, get, read, operate)
	w.silences.Register(r, get, read, operate)
	w.services.Register(get, read)
	alertpage.New(w.Site).Register(get, read)
	annotations.New(w.Site).Register(r, get, read, w.Opt.Allow(site.Annotate), operate)
	w.public.Register(r, get)
	get("/static/:name", w.Static)
	direct("/events/stream", read, w.stream)                // has bounds of its own
	direct("/metrics", read, scraped, gin.WrapH(w.metrics)) // limits the scrapes itself
	direct("/-/healthy", w.healthy)                         // always answered: a few bytes
	direct("/-/ready", w.ready)
	r.POST("/-/reload", site.Secure, operate, w.reload)

	if e, ok := r.(*gin.Engine); ok {
		e.HandleMethodNotAllowed = true
		e.NoRoute(site.Secure, w.NotFound)
		e.NoMethod(site.Secure, w.MethodNotAllowed)
	}
}
