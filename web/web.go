package web

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/VictoriaMetrics/metrics"
	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/web/collector"
	"github.com/sloengine/sloengine/web/respond"
	"github.com/sloengine/sloengine/web/site"
)

// Web serves the pages, the read API, the health endpoints and /metrics. It is
// safe for concurrent use.
type Web struct {
	*site.Site
	openapi     []byte
	openapiBare []byte // without the version
	metrics     http.Handler
	sparks      sparkCache
	sources     sourceCache
	drawn       drawings
	responses   *respond.Cache
	streams     *hub
	streamStats *streamMetrics
	rates       rateRing
	published   publicCache
}

// New checks the options, parses the templates and prepares the assets.
func New(opt site.Options) (*Web, error) {
	site, err := site.New(opt)
	if err != nil {
		return nil, err
	}
	opt = site.Opt
	w := &Web{Site: site, streams: newHub(opt.MaxStreams)}
	own := metrics.NewSet()
	w.streamStats = newStreamMetrics(own, func() float64 { return float64(w.streams.count()) })
	w.responses = respond.NewCache(opt.MaxResponseBytes, opt.Now, own)
	if w.openapi, err = openAPI(opt, opt.Version.Version); err != nil {
		return nil, fmt.Errorf("prepare openapi.json: %w", err)
	}
	if w.openapiBare, err = openAPI(opt, ""); err != nil {
		return nil, fmt.Errorf("prepare openapi.json: %w", err)
	}
	if err = w.draw(); err != nil {
		return nil, fmt.Errorf("draw the states: %w", err)
	}
	w.metrics = collector.Handler(collector.Options{
		Report: opt.Report, Recovered: func() bool { return opt.Engine().State.Recovered() }, Alerts: opt.Alerts, Sets: append(slices.Clone(opt.Sets), own), Registry: opt.Registry,
		Timeout: opt.ScrapeTimeout, LogError: opt.LogError,
	})
	return w, nil
}

// Register mounts everything on r. On a *gin.Engine it also takes over unknown
// routes and methods; on a group the caller may do so with NotFound and
// MethodNotAllowed.
func (w *Web) Register(r gin.IRouter) {
	read, operate := w.Opt.Allow(site.Read), w.Opt.Allow(site.Operate)
	direct := func(path string, h ...gin.HandlerFunc) {
		r.Match([]string{http.MethodGet, http.MethodHead}, path, append([]gin.HandlerFunc{secure, w.ChooseTheme}, h...)...)
	}
	// Who may not have a response is told before it counts.
	bounded, scraped := w.responses.Bounded(false), w.responses.Bounded(true)
	get := func(path string, h ...gin.HandlerFunc) {
		last := len(h) - 1
		direct(path, append(slices.Clone(h[:last]), bounded, h[last])...)
	}
	get("/", read, w.listPage)
	get("/slo", read, w.sloPage)
	get("/engine", read, w.enginePage)
	direct("/events/stream", read, w.stream) // has bounds of its own
	get("/static/:name", w.Static)

	get("/api/v1/slos", read, w.apiSLOs)
	get("/api/v1/slos/:service/:slo", read, w.apiSLO)
	get("/api/v1/slos/:service/:slo/history", read, w.apiHistory)
	get("/api/v1/slas", read, w.apiSLAs)
	get("/api/v1/thresholds", read, w.apiThresholds)
	get("/api/v1/limits", read, w.apiLimits)
	get("/api/v1/alerts", read, w.apiAlerts)
	get("/api/v1/engine", read, w.apiEngine)
	get("/api/v1/generations", read, w.apiGenerations)
	r.POST("/api/v1/forget", secure, operate, w.apiForget)
	get("/openapi.json", w.apiDocument)

	direct("/metrics", read, scraped, gin.WrapH(w.metrics)) // limits the scrapes itself
	direct("/-/healthy", w.healthy)                         // always answered: a few bytes
	direct("/-/ready", w.ready)
	r.POST("/-/reload", secure, operate, w.reload)
	w.registerDLQ(r, get, read, operate)
	w.registerSLA(get, read)
	w.registerPublic(get, read, operate)

	if e, ok := r.(*gin.Engine); ok {
		e.HandleMethodNotAllowed = true
		e.NoRoute(secure, w.NotFound)
		e.NoMethod(secure, w.MethodNotAllowed)
	}
}

// policy lets a page load and run nothing but its own files, ask nobody but this
// engine, and be framed by nobody.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

func secure(c *gin.Context) {
	h := c.Writer.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}
