package api

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/history"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
	"github.com/sloengine/sloengine/web/api/v1"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/respond"
	"github.com/sloengine/sloengine/web/site"
)

// Handler serves the read API, its OpenAPI document, and the requests to forget and to rebuild counts, and to replay.
type Handler struct {
	*site.Site
	openapi     []byte
	openapiBare []byte        // without the version
	dayReaders  chan struct{} // holds one for each table of days that is being sent
	specs       sync.Mutex    // held while a spec is read, which bounds their memory
}

// New prepares the OpenAPI document.
func New(s *site.Site) (*Handler, error) {
	api := &Handler{Site: s, dayReaders: make(chan struct{}, maxDayReaders)}
	var err error
	if api.openapi, err = openAPI(s.Opt, s.Opt.Version.Version); err != nil {
		return nil, fmt.Errorf("prepare openapi.json: %w", err)
	}
	if api.openapiBare, err = openAPI(s.Opt, ""); err != nil {
		return nil, fmt.Errorf("prepare openapi.json: %w", err)
	}
	return api, nil
}

// Register mounts the API.
func (api *Handler) Register(r gin.IRouter, get func(path string, h ...gin.HandlerFunc), read,
	operate gin.HandlerFunc) {
	get("/api/v1/slos", read, api.apiSLOs)
	get("/api/v1/slos/:service/:slo", read, api.apiSLO)
	get("/api/v1/slos/:service/:slo/history", read, api.apiHistory)
	get("/api/v1/slos/:service/:slo/events", read, api.apiEvents)
	get("/api/v1/slos/:service/:slo/ledger", read, api.apiLedger)
	get("/api/v1/slas", read, api.apiSLAs)
	get("/api/v1/thresholds", read, api.apiThresholds)
	get("/api/v1/limits", read, api.apiLimits)
	get("/api/v1/alerts", read, api.apiAlerts)
	get("/api/v1/engine", read, api.apiEngine)
	get("/api/v1/generations", read, api.apiGenerations)
	get(RejectsPath, read, api.apiRejects)
	get(SeenPath, read, api.apiSeen)
	get("/api/v1/report", read, api.apiReport)
	// of any size, so it is not held in memory
	r.Match([]string{http.MethodGet, http.MethodHead}, "/api/v1/report/days.csv", site.Secure, read, api.apiReportDays)
	get("/openapi.json", api.apiDocument)
	r.POST("/api/v1/forget", site.Secure, operate, api.apiForget)
	r.POST(BacktestPath, site.Secure, read, api.apiBacktest)
	r.POST(RebuildPath, site.Secure, operate, api.apiRebuild)
}

// Bounds of the parameter limit.
const (
	defaultPage = 100
	maxPoints   = 2000
)

// begin starts an API answer: it takes a view, adds the entity tag, and reports
// true if the client already has the answer.
func (api *Handler) begin(c *gin.Context) (site.View, bool) {
	v := api.View()
	return v, respond.NotModified(c, v.ReportTag("api", c.Request.URL.Path, c.Request.URL.RawQuery, api.AlertStep()))
}

func (api *Handler) apiSLOs(c *gin.Context) {
	v := api.View()
	failing := api.Situation(v)
	summary := incident.Text(failing.Sentence(v.Now, site.SafeName))
	if respond.NotModified(c, v.ReportTag("api", c.Request.URL.Path, c.Request.URL.RawQuery, api.AlertStep(), summary)) {
		return
	}
	q := c.Request.URL.Query()
	f := site.NewFilter(q)
	if f.State != "" && !site.KnownState(f.State) {
		respond.Problem(c, http.StatusBadRequest,
			fmt.Sprintf("state %q: want ok, at_risk, exhausted or no_data", format.Safe(string(f.State), format.MaxName)), nil)
		return
	}
	limit, ok := pageLimit(c)
	if !ok {
		return
	}
	all := f.Pick(v.Rep)
	page, next, err := cutPage(all, q.Get("cursor"), limit, newCursor, cursor.before)
	if err != nil {
		respond.Problem(c, http.StatusBadRequest, err.Error(), nil)
		return
	}
	out := v1.SLOList{Report: newReportJSON(v), Failing: newFailing(failing, summary), Total: len(all), Items: []v1.SLO{},
		Next: next}
	active := api.ActiveAlerts()
	for _, r := range page {
		out.Items = append(out.Items, api.newSLO(r, active))
	}
	respond.JSON(c, http.StatusOK, "application/json", out)
}

// pageLimit reads the parameter limit; ok is false after a problem was sent.
func pageLimit(c *gin.Context) (n int, ok bool) {
	s := c.Query("limit")
	if s == "" {
		return defaultPage, true
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > site.MaxPageSize {
		respond.Problem(c, http.StatusBadRequest, fmt.Sprintf("limit: want a number from 1 to %d", site.MaxPageSize), nil)
		return 0, false
	}
	return n, true
}

// cursor is the last SLO and group of a page. The next page begins behind it,
// even if it is gone from the report by then.
type cursor struct {
	ID    slo.ID    `json:"id"`
	Group slo.Group `json:"group"`
}

func newCursor(r *sla.SLOReport) cursor { return cursor{r.SLO.ID, r.Group} }

// cutPage returns up to limit items behind a cursor, from the first one if it is "", and the cursor of the next page,
// "" after the last one. key is the place of an item, and before reports whether a place lies before an item.
func cutPage[T, K any](all []T, cursor string, limit int, key func(T) K, before func(K, T) bool) (page []T,
	next string, err error) {
	page = all
	if cursor != "" {
		var after K
		raw, err := base64.RawURLEncoding.DecodeString(cursor)
		if err == nil {
			err = json.Unmarshal(raw, &after)
		}
		if err != nil {
			return nil, "", errors.New("invalid cursor (want next_cursor of an earlier answer)")
		}
		for len(page) > 0 && !before(after, page[0]) {
			page = page[1:]
		}
	}
	if len(page) <= limit {
		return page, "", nil
	}
	raw, err := json.Marshal(key(page[limit-1]))
	return page[:limit], base64.RawURLEncoding.EncodeToString(raw), err
}

func (c cursor) before(r *sla.SLOReport) bool {
	return site.CompareReports(&sla.SLOReport{SLO: &slo.SLO{ID: c.ID}, Group: c.Group}, r) < 0
}

// one finds the report that a request names, or sends a problem.
func (api *Handler) one(c *gin.Context, v site.View) *sla.SLOReport {
	id := slo.NewID(c.Param("service"), c.Param("slo"))
	r, exists := site.FindGroup(v.Rep, id, c.Request.URL.Query())
	switch {
	case v.Rep == nil:
		c.Header("Retry-After", "5")
		respond.Problem(c, http.StatusServiceUnavailable, "There is no report yet.", nil)
	case r == nil && exists:
		respond.Problem(c, http.StatusNotFound,
			fmt.Sprintf("SLO %s has no such group; name it with one group.<label>=value per label of its group_by",
				format.Safe(string(id), format.MaxTitle)), nil)
	case r == nil:
		respond.Problem(
			c, http.StatusNotFound, fmt.Sprintf("there is no SLO %s", format.Safe(string(id), format.MaxTitle)), nil)
	}
	return r
}

func (api *Handler) apiSLO(c *gin.Context) {
	v, done := api.begin(c)
	if done {
		return
	}
	if r := api.one(c, v); r != nil {
		one := v1.SLOAnswer{Report: newReportJSON(v), SLO: api.newSLO(r, api.ActiveAlerts()),
			Work: newWork(v.Rep.Work(r.SLO.ID), r.Group), Costs: site.SLOCosts(v.Rep, r.SLO.ID), Engines: api.parts(r),
			Traces: api.failingTraces(r, v.Now)}
		if r.Outlook != nil {
			one.UsualWeek = r.Outlook.Week
		}
		respond.JSON(c, http.StatusOK, "application/json", one)
	}
}

func (api *Handler) apiHistory(c *gin.Context) {
	v := api.View()
	c.Header("Cache-Control", "no-store")
	r := api.one(c, v)
	if r == nil {
		return
	}
	if api.Opt.Counts == nil {
		respond.Problem(c, http.StatusNotImplemented, "This engine has no history.", nil)
		return
	}
	from, to, step, err := historyRange(c.Request.URL.Query(), v.Rep.Time)
	if err != nil {
		respond.Problem(c, http.StatusBadRequest, err.Error(), nil)
		return
	}
	steps := history.NewGrid(slo.Span{From: from, To: to}, step, nil)
	if r.SLO.Indicator.Kind == slo.KindVolume { // it has steps of its own
		steps = history.GridOf(history.Periods(r.SLO, steps.Span, v.Rep.Time), func(slo.Span) []slo.Span { return nil })
	}
	answers, err := api.Opt.Counts.Ask(c.Request.Context(),
		[]fold.ReadRequest{steps.Query(string(r.SLO.ID), []slo.Group{r.Group})})
	if err != nil {
		api.Opt.LogError("read history of "+string(r.SLO.ID), err)
		respond.Problem(c, http.StatusServiceUnavailable, "The history could not be read now.", nil)
		return
	}
	out := v1.History{ID: r.SLO.ID, Group: groupJSON(r.SLO.GroupBy, r.Group), From: from, To: to,
		StepSeconds: step.Seconds(), Points: []v1.HistoryPoint{}}
	if groups := answers[0].Groups; len(groups) == 1 && groups[0] != nil {
		for _, p := range steps.Points(r.SLO, r.Group, &answers[0], groups[0]) {
			out.Points = append(
				out.Points, v1.HistoryPoint{Start: p.From.UTC(), Good: p.Raw.Good, Bad: p.Raw.Bad, Ratio: ratioOf(p.Raw.Counts)})
		}
	}
	respond.JSON(c, http.StatusOK, "application/json", out)
}

// historyRange reads from, to (RFC 3339 or Unix seconds) and step (a duration or
// seconds). The default is the last day in hours.
func historyRange(q url.Values, now time.Time) (from, to time.Time, step time.Duration, err error) {
	to, from, step = now.UTC(), time.Time{}, time.Hour
	if s := q.Get("to"); s != "" {
		if to, err = site.ParseTime(s); err != nil {
			return from, to, step, fmt.Errorf("to: %w", err)
		}
	}
	from = to.Add(-24 * time.Hour).Truncate(time.Hour)
	if s := q.Get("from"); s != "" {
		if from, err = site.ParseTime(s); err != nil {
			return from, to, step, fmt.Errorf("from: %w", err)
		}
	}
	if s := q.Get("step"); s != "" {
		if secs, e := strconv.ParseUint(s, 10, 31); e == nil {
			step = time.Duration(secs) * time.Second
		} else if step, err = slo.ParseDuration(s); err != nil {
			return from, to, step, fmt.Errorf("step: %w", err)
		}
	}
	switch {
	case !from.Before(to):
		err = fmt.Errorf("from must be before to")
	case step < time.Minute:
		err = fmt.Errorf("step: want at least 1m")
	case to.Sub(from)/step >= maxPoints:
		err = fmt.Errorf("step: %s would give more than %d points", slo.FormatDuration(step), maxPoints)
	}
	return from, to, step, err
}

func (api *Handler) apiSLAs(c *gin.Context) {
	v, done := api.begin(c)
	if done {
		return
	}
	out := v1.SLAList{Report: newReportJSON(v), Items: []v1.SLA{}}
	service := c.Query("service")
	if v.Rep != nil {
		for i := range v.Rep.SLAs {
			if service == "" || v.Rep.SLAs[i].SLA.Service == service {
				out.Items = append(out.Items, NewSLA(&v.Rep.SLAs[i], site.AgreementCosts(v.Rep, &v.Rep.SLAs[i])))
			}
		}
	}
	respond.JSON(c, http.StatusOK, "application/json", out)
}

// apiLimits is the old name of apiThresholds. The header is that of RFC 9745.
func (api *Handler) apiLimits(c *gin.Context) {
	c.Header("Deprecation", "@1795305600") // 2026-11-22
	c.Header("Link", `</api/v1/thresholds>; rel="successor-version"`)
	api.apiThresholds(c)
}

func (api *Handler) apiThresholds(c *gin.Context) {
	v, done := api.begin(c)
	if done {
		return
	}
	out := v1.ThresholdList{Report: newReportJSON(v), Items: []v1.Threshold{}}
	service := c.Query("service")
	if v.Rep != nil {
		for _, l := range v.Rep.Thresholds {
			if service == "" || l.Threshold.Service == service {
				out.Items = append(out.Items, newThreshold(l))
			}
		}
	}
	respond.JSON(c, http.StatusOK, "application/json", out)
}

func (api *Handler) apiEngine(c *gin.Context) {
	v := api.EngineView()
	if respond.NotModified(c, v.Tag("api", c.Request.URL.Path, c.Request.URL.RawQuery)) {
		return
	}
	respond.JSON(c, http.StatusOK, "application/json", engineJSON{
		Engine: v.Eng, Report: newReportJSON(v), Version: api.Opt.Version, UptimeSeconds: uptime(v),
		Warnings: warnings(v.Rep),
	})
}

func uptime(v site.View) float64 {
	if v.Eng.Started.IsZero() {
		return 0
	}
	return max(0, v.Now.Sub(v.Eng.Started).Seconds())
}

func warnings(rep *sla.Report) []string {
	if rep == nil || rep.Warnings == nil {
		return []string{}
	}
	return rep.Warnings
}
