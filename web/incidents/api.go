package incidents

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/public"
	"github.com/sloengine/sloengine/web/respond"
	"github.com/sloengine/sloengine/web/site"
)

// Handler serves the API and the pages of incidents.
type Handler struct {
	*site.Site
	public *public.Handler // shows previews
}

// New makes the API and the pages of a site. What they publish is shown by the public view.
func New(s *site.Site, pub *public.Handler) *Handler { return &Handler{s, pub} }

// Register mounts the API and the pages.
func (h *Handler) Register(r gin.IRouter, get func(path string, h ...gin.HandlerFunc), read, operate gin.HandlerFunc) {
	get("/api/v1/incidents", read, h.list)
	get("/api/v1/incidents.csv", read, h.csv)
	get("/api/v1/incidents/measures", read, h.measures)
	get("/api/v1/incidents/:id", read, h.one)
	r.POST("/api/v1/incidents", site.Secure, operate, h.open)
	r.POST("/api/v1/incidents/:id/:operation", site.Secure, operate, h.operate)
	r.POST("/api/v1/incidents/erase", site.Secure, operate, h.erase)
	get(site.IncidentListPath, read, h.listPage)
	get(site.IncidentPath, read, h.detailPage)
	get(newPath, operate, h.newPage)
	get(publishPath, operate, h.publishPage)
	r.POST(formPath, site.Secure, operate, h.form)
	get(site.AcknowledgePath+":id", h.acknowledgePage)
	r.POST(site.AcknowledgePath+":id", site.Secure, h.acknowledge)
}

// Item is an incident with what follows from it.
type Item struct {
	incident.Incident
	DetectionSeconds float64 `json:"detection_seconds"`
	// Paged is when the first paging alert fired; absent if none did. Detected is when the first alert fired.
	Paged           *time.Time `json:"paged,omitempty"`
	ResponseSeconds *float64   `json:"response_seconds,omitempty"` // absent until it is acknowledged
	// from the onset to the resolution, or until now
	DurationSeconds float64                 `json:"duration_seconds"`
	Status          incident.Status         `json:"status"`                   // of all updates, public or not
	Statuses        []incident.StatusChange `json:"statuses"`                 // that it has had, oldest first
	ResponseOwner   string                  `json:"response_owner,omitempty"` // owner, or else who acknowledged
	AlertCount      int                     `json:"alert_count"`
	Affected        []incident.Affected     `json:"affected"`
	Costs           *sla.Costs              `json:"costs,omitempty"` // of all affected SLOs, if one had a cost
}

// NewItem computes what follows from an incident. spent is what it cost so far.
func NewItem(inc *incident.Incident, spent []incident.Spent, now time.Time) Item {
	x := Item{
		Incident: *inc, DetectionSeconds: inc.Detection().Seconds(),
		DurationSeconds: max(0, inc.End(now).Sub(inc.Onset).Seconds()),
		AlertCount:      len(inc.Alerts) + inc.More, Affected: append([]incident.Affected{}, inc.Affected()...),
	}
	x.Spent, x.Costs = spent, site.IncidentCosts(spent)
	if at, ok := inc.Paged(); ok {
		at = at.UTC()
		x.Paged = &at
	}
	x.Status, x.Statuses, x.ResponseOwner = inc.CurrentStatus(false).Status, inc.StatusChanges(false), inc.ResponseOwner()
	if d, ok := inc.Response(); ok {
		s := d.Seconds()
		x.ResponseSeconds = &s
	}
	return x
}

// List is a page of incidents, the one that was opened last first.
type List struct {
	Items []Item `json:"items"`
	Next  string `json:"next_cursor,omitempty"` // absent on the last page
}

// Filter selects incidents. Zero fields select all.
type Filter struct {
	State    incident.State // or StateUnresolved
	Severity incident.Severity
	Service  string
	From, To time.Time // it was going on at some time in between
}

// StateUnresolved selects incidents that are open or acknowledged.
const StateUnresolved incident.State = "unresolved"

// ParseFilter reads a filter from the parameters of a request.
func ParseFilter(q url.Values) (f Filter, err error) {
	f = Filter{State: incident.State(q.Get("state")), Severity: incident.Severity(q.Get("severity")),
		Service: q.Get("service")}
	states := []incident.State{"", incident.Open, incident.Acknowledged, incident.Resolved, StateUnresolved}
	if !slices.Contains(states, f.State) {
		return f, fmt.Errorf("state %q: want open, acknowledged, unresolved or resolved",
			format.Safe(string(f.State), format.MaxName))
	}
	if !slices.Contains([]incident.Severity{"", incident.Critical, incident.Warning}, f.Severity) {
		return f, fmt.Errorf("severity %q: want critical or warning", format.Safe(string(f.Severity), format.MaxName))
	}
	for name, at := range map[string]*time.Time{"from": &f.From, "to": &f.To} {
		if s := q.Get(name); s != "" {
			if *at, err = site.ParseTime(s); err != nil {
				return f, fmt.Errorf("%s: want a time such as 2026-11-22T10:00:00Z", name)
			}
		}
	}
	return f, nil
}

// Match reports whether the filter selects an incident.
func (f *Filter) Match(inc *incident.Incident) bool {
	switch {
	case f.State == StateUnresolved && inc.IsResolved(), f.State != StateUnresolved &&
		f.State != "" && f.State != inc.State:
		return false
	case f.Severity != "" && f.Severity != inc.Severity, f.Service != "" && f.Service != inc.Service:
		return false
	case !f.To.IsZero() && !inc.Onset.Before(f.To), !f.From.IsZero() && inc.IsResolved() &&
		inc.Resolved.Time.Before(f.From):
		return false
	}
	return true
}

// has sends a problem if the engine keeps no incidents, or does not know them yet.
func (h *Handler) has(c *gin.Context) bool {
	c.Header("Cache-Control", "no-store")
	if h.Opt.Incidents == nil {
		respond.Problem(c, http.StatusNotImplemented, "This engine does not store incidents.", nil)
		return false
	}
	if !h.Opt.Brief().State.Recovered() {
		c.Header("Retry-After", "5")
		respond.Problem(c, http.StatusServiceUnavailable,
			"The engine is still recovering. Incidents are available once it has recovered.", nil)
		return false
	}
	return true
}

// item is an incident as the API shows it.
func (h *Handler) item(inc *incident.Incident) Item {
	return NewItem(inc, h.Opt.Incidents.Spent(inc), h.Opt.Now())
}

// pick lists what a request selects, or sends a problem.
func (h *Handler) pick(c *gin.Context) (out []*incident.Incident, ok bool) {
	if !h.has(c) {
		return nil, false
	}
	f, err := ParseFilter(c.Request.URL.Query())
	if err != nil {
		respond.Problem(c, http.StatusBadRequest, err.Error(), nil)
		return nil, false
	}
	for inc := range h.Opt.Incidents.View().All() {
		if f.Match(inc) {
			out = append(out, inc)
		}
	}
	return out, true
}

const defaultPage = 100

func (h *Handler) list(c *gin.Context) {
	all, ok := h.pick(c)
	if !ok {
		return
	}
	limit := defaultPage
	if s := c.Query("limit"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > site.MaxPageSize {
			respond.Problem(c, http.StatusBadRequest, fmt.Sprintf("limit: want a number from 1 to %d", site.MaxPageSize), nil)
			return
		}
		limit = n
	}
	if s := c.Query("cursor"); s != "" {
		if !incident.IsID(s) {
			respond.Problem(c, http.StatusBadRequest, "invalid cursor (want next_cursor of an earlier answer)", nil)
			return
		}
		all = all[slices.IndexFunc(append(all, nil), func(inc *incident.Incident) bool {
			return inc == nil || incident.CompareIDs(inc.ID, s) < 0
		}):]
	}
	out := List{Items: []Item{}}
	if len(all) > limit {
		all, out.Next = all[:limit], all[limit-1].ID
	}
	for _, inc := range all {
		x := h.item(inc)
		x.Alerts, x.Notes = nil, nil // they are in the answer about the incident
		out.Items = append(out.Items, x)
	}
	respond.JSON(c, http.StatusOK, "application/json", out)
}

// measuredDays is the time that measures are about unless a request says otherwise.
const measuredDays = 30

// measures says how quickly incidents were detected and answered, against the baselines of the spec.
func (h *Handler) measures(c *gin.Context) {
	if !h.has(c) {
		return
	}
	f, err := ParseFilter(c.Request.URL.Query())
	if err != nil {
		respond.Problem(c, http.StatusBadRequest, err.Error(), nil)
		return
	}
	if f.To.IsZero() {
		f.To = h.Opt.Now().UTC()
	}
	if f.From.IsZero() {
		f.From = f.To.AddDate(0, 0, -measuredDays)
	}
	respond.JSON(c, http.StatusOK, "application/json", h.Opt.Incidents.Measure(f.From, f.To))
}

func (h *Handler) one(c *gin.Context) {
	if !h.has(c) {
		return
	}
	inc := h.Opt.Incidents.View().Get(c.Param("id"))
	if inc == nil {
		h.problem(c, incident.ErrNotFound)
		return
	}
	respond.JSON(c, http.StatusOK, "application/json", h.item(inc))
}

// problem sends the error of an operation.
func (h *Handler) problem(c *gin.Context, err error) {
	switch {
	case errors.Is(err, incident.ErrInvalid):
		respond.Problem(c, http.StatusBadRequest, "Nothing was done: "+err.Error()+".", nil)
	case errors.Is(err, incident.ErrNotFound):
		respond.Problem(c, http.StatusNotFound, "Nothing was found: "+err.Error()+".", nil)
	case errors.Is(err, incident.ErrState), errors.Is(err, incident.ErrFull):
		respond.Problem(c, http.StatusConflict, "Nothing was done: "+err.Error()+".", nil)
	default:
		if c.Request.Context().Err() == nil { // else the caller went away
			h.Opt.LogError("write incident", err)
		}
		c.Header("Retry-After", "5")
		respond.Problem(c, http.StatusServiceUnavailable,
			"The incident may or may not have been changed. The engine's log has the cause.", nil)
	}
}

// auditDetail describes an operation on one line, with foreign text quoted. Notes and updates are in the incident.
func auditDetail(o *incident.Operation, id string) string {
	s := "incident=" + strconv.QuoteToASCII(cmp.Or(id, o.ID))
	if o.By != "" && o.Kind != incident.Erase {
		s += " by=" + strconv.QuoteToASCII(o.By)
	}
	switch o.Kind {
	case incident.OpenByHand:
		s += " service=" + strconv.QuoteToASCII(o.Service) + " severity=" + string(o.Severity)
	case incident.AckIt:
		s += " team=" + strconv.QuoteToASCII(o.Team) + " how=" + o.How
	case incident.AddUpdate:
		s += fmt.Sprintf(" public=%t status=%s", o.Public, o.Status)
	case incident.Publish:
		s += fmt.Sprintf(" public=%t title=%s", o.Public, strconv.QuoteToASCII(o.Title))
	case incident.EditIt:
		s += fmt.Sprintf(" title=%s severity=%s owner=%s", strconv.QuoteToASCII(o.Title), o.Severity,
			strconv.QuoteToASCII(o.Owner))
	case incident.LinkPost:
		s += " url=" + strconv.QuoteToASCII(o.Text)
	}
	return s
}
