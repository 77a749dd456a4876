package web

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/report"
	"github.com/sloengine/sloengine/web/collector"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/respond"
)

// Web serves the pages, the read API, the health endpoints and /metrics. It is
// safe for concurrent use.
type Web struct {
	opt         Options
	pages       map[string]*template.Template
	assets      map[string]asset // by plain name
	named       map[string]asset // by the name that holds the hash
	openapi     []byte
	openapiBare []byte // without the version
	metrics     http.Handler
	sparks      sparkCache
	sources     sourceCache
	drawn       drawings
	responses   *respond.Cache
	reports     report.Maker
	streams     *hub
	streamStats *streamMetrics
	rates       rateRing
	published   publicCache
}

// New checks the options, parses the templates and prepares the assets.
func New(opt Options) (*Web, error) {
	if err := opt.fill(); err != nil {
		return nil, err
	}
	w := &Web{opt: opt, named: map[string]asset{}, streams: newHub(opt.MaxStreams)}
	var err error
	if w.assets, err = loadAssets(); err != nil {
		return nil, fmt.Errorf("load assets: %w", err)
	}
	for _, a := range w.assets {
		w.named[a.name] = a
	}
	own := metrics.NewSet()
	w.streamStats = newStreamMetrics(own, func() float64 { return float64(w.streams.count()) })
	w.responses = respond.NewCache(opt.MaxResponseBytes, opt.Now, own)
	w.opt.Sets = append(slices.Clone(opt.Sets), own)
	if w.pages, err = parsePages(w.assets); err != nil {
		return nil, fmt.Errorf("parse pages: %w", err)
	}
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
		Report: opt.Report, Recovered: func() bool { return opt.Engine().State.Recovered() }, Alerts: opt.Alerts, Sets: w.opt.Sets, Registry: opt.Registry,
		Timeout: opt.ScrapeTimeout, LogError: opt.LogError,
	})
	return w, nil
}

// Register mounts everything on r. On a *gin.Engine it also takes over unknown
// routes and methods; on a group the caller may do so with NotFound and
// MethodNotAllowed.
func (w *Web) Register(r gin.IRouter) {
	read, operate := w.opt.Allow(Read), w.opt.Allow(Operate)
	direct := func(path string, h ...gin.HandlerFunc) {
		r.Match([]string{http.MethodGet, http.MethodHead}, path, append([]gin.HandlerFunc{secure, w.chooseTheme}, h...)...)
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
	get("/static/:name", w.static)

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

// view is what one answer is made from: one report, one status, one time.
type view struct {
	rep   *sla.Report
	eng   EngineStatus
	now   time.Time
	stale bool // the report does not show the present
}

func (w *Web) view() view {
	v := view{rep: w.opt.Report(), eng: w.opt.Engine(), now: w.opt.Now()}
	if v.rep != nil {
		v.stale = !v.eng.State.Recovered() || v.eng.State == Stale || v.now.Sub(v.rep.Time) > w.opt.StaleAfter
	}
	if v.stale && v.eng.State == Ready {
		v.eng.State = Stale
		v.eng.Reason = "the last report is " + format.Duration(v.now.Sub(v.rep.Time)) + " old"
	}
	return v
}

// tag is the entity tag of an answer that depends on the view and the request
// only. Reports of different processes differ by their time.
func (v view) tag(parts ...string) string {
	h := fnv.New64a()
	if v.rep != nil {
		fmt.Fprintf(h, "%d/%d/", v.rep.Version, v.rep.Time.UnixNano())
	}
	if v.stale {
		fmt.Fprintf(h, "%d/", v.now.Unix()/60) // the page says how old the report is
	}
	fmt.Fprintf(h, "%x/%t/%q", v.eng.digest(), v.stale, parts)
	return `W/"` + strconv.FormatUint(h.Sum64(), 36) + `"`
}

// reportTag is the tag of an answer that says nothing of the engine but its state: it does
// not change with every event.
func (v view) reportTag(parts ...string) string {
	return `W/"` + respond.Hash(append(parts, v.key())...) + `"`
}

// page renders a page from its data and sends it.
func (w *Web) page(c *gin.Context, status int, name string, data any) {
	var buf bytes.Buffer
	if err := w.pages[name].ExecuteTemplate(&buf, "layout", data); err != nil {
		w.noPage(c, name, err)
		return
	}
	respond.Send(c, status, "text/html; charset=utf-8", buf.Bytes())
}

func (w *Web) noPage(c *gin.Context, name string, err error) {
	w.opt.LogError("render page "+name, err)
	c.Writer.Header().Del("ETag")
	c.Header("Cache-Control", "no-store")
	c.Data(http.StatusInternalServerError, "text/plain; charset=utf-8", []byte("The page could not be made. The engine itself goes on; its log says more.\n"))
}

// Refresh intervals in seconds that a reader may ask for with ?refresh=.
var refreshes = []int{10, 60}

// refreshHeader makes the browser load the page again after the seconds that the
// query asks for, and returns them; 0 if it asks for none. A plain reload of the
// same address keeps the scroll position and needs no script, and the reader
// turns it on and off with a link.
func refreshHeader(c *gin.Context) int {
	n, err := strconv.Atoi(c.Query("refresh"))
	if err != nil || n < 5 || n > 3600 {
		return 0
	}
	c.Header("Refresh", strconv.Itoa(n))
	return n
}
