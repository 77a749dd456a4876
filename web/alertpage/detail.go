package alertpage

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/site"
)

type detailPage struct {
	site.Layout
	Row                  Row
	Summary, Description string
	Links                []site.Link // of the SLO, but for the runbook
	Why                  string      // what is different about the bad events; "" if nothing is known
	Forecast             string      // when a budget of which little is left will be empty; "" of other alerts
	Steps                []site.Link // what a person does next, beside the runbook
	Figures              []site.Figure
	Compared             []compared
	Ratios               bool   // they are error ratios, which have events and burn rates
	Expr                 string // of an alert on the engine
	Labels               []site.Fact
	API                  string
}

const gone = "This alert is neither active nor was it resolved recently. Resolved alerts are shown for a limited " +
	"time. The incident that an alert opened lists it."

func (h *Handler) detailPage(c *gin.Context) {
	c.Header("Cache-Control", "no-store")
	id := c.Query("id")
	inc := h.incidentOf(id)
	a := h.FindAlert(id)
	switch {
	case h.Opt.Alerts == nil:
		h.Message(c, http.StatusNotImplemented, "No alerts", "This engine does not evaluate alerts.")
		return
	case a == nil && inc != nil: // a link may be older than the alert is kept
		c.Redirect(http.StatusFound, h.Href(site.IncidentPath, url.Values{"id": {inc.ID}}))
		return
	case a == nil:
		h.Message(c, http.StatusNotFound, "No such alert", gone)
		return
	}
	site.RefreshHeader(c)
	v, onset := h.View(), a.FirstBad
	if inc != nil && !inc.End(v.Now).Before(a.FiredAt) && !inc.Onset.After(a.FiredAt) { // its onset is by the counts
		onset = inc.Onset
	}
	rows := NewRows(h.Site, c, v.Now)
	p := detailPage{
		Layout: h.Layout(c, v, format.Safe(a.Name, format.MaxName), "alerts"), Row: rows.Row(a),
		Summary:     format.Safe(a.Annotation("summary"), format.MaxText),
		Description: format.Safe(a.Annotation("description"), format.MaxText),
		Why:         format.Safe(a.Why, format.MaxText), Forecast: a.Forecast,
		Figures: figures(a, onset, v.Now), Compared: compare(a, v.Rep),
		API: h.Opt.ExternalPath + "/api/v1/alerts?" + site.GroupQuery(a.GroupBy, a.Group).Encode(),
	}
	p.Crumbs = h.Crumb("Alerts", site.AlertListPath, p.Title)
	p.Ratios = slices.ContainsFunc(p.Compared, func(x compared) bool { return x.Events != "" })
	if l := a.Definition(); l != nil && l.Kind == alerts.LiveEngine {
		p.Expr = format.Safe(l.Expr, 4*format.MaxText)
	}
	p.Steps = h.steps(c, a, inc, p.Row, onset)
	for _, note := range a.Annotations() {
		if name, ok := strings.CutPrefix(note.Name, alerts.LinkPrefix); ok {
			p.Links = site.AddLink(p.Links, name, note.Value)
		}
	}
	for _, l := range a.Labels {
		p.Labels = append(p.Labels, site.Fact{Name: format.Safe(l.Name, format.MaxName),
			Value: format.Safe(l.Value, format.MaxTitle), Code: true})
	}
	h.Page(c, http.StatusOK, "alert", p)
}

// incidentOf is the latest incident of an alert; nil if there is none.
func (h *Handler) incidentOf(fingerprint string) *incident.Incident {
	if h.Opt.Incidents == nil {
		return nil
	}
	return h.Opt.Incidents.View().Of(fingerprint)
}

// steps are the links to what a person does about an alert.
func (h *Handler) steps(c *gin.Context, a *state.Alert, inc *incident.Incident, row Row,
	onset time.Time) (out []site.Link) {
	add := func(text, href string) {
		if href != "" {
			out = append(out, site.Link{Text: text, Href: href})
		}
	}
	if inc != nil {
		href := h.Href(site.IncidentPath, url.Values{"id": {inc.ID}})
		if inc.State == incident.Open && h.Opt.May(c, site.Operate) {
			add("Acknowledge "+inc.ID, href+"#act")
		}
		add("Incident "+inc.ID, href)
	}
	if a.SLO != "" {
		add("SLO since "+format.NewStamp(onset, h.Opt.Now()).Text, h.atTime(a, onset))
		if row.Href != "" && len(h.Traces(a.SLO, a.Group, h.Opt.Now())) > 0 {
			add("Failing traces", row.Href+site.TracesAnchor)
		}
		add("Bad events", h.EventsHref(a.SLO, a.GroupBy, a.Group, onset))
	} else {
		add(cmp.Or(row.About, row.Service), row.Href)
	}
	if by := h.Inhibiting()(a); by != "" {
		add("Inhibited: show the alert that is sent", h.AlertHref(by))
	}
	add("Silence", row.Do.Silence)
	add("Silenced: show the silence", row.Do.Silences)
	return out
}

// atTime is the address of the page of an alert's SLO at the time of the alert. It reaches up to now while that lasts.
func (h *Handler) atTime(a *state.Alert, onset time.Time) string {
	q := site.GroupQuery(a.GroupBy, a.Group)
	q.Set("id", string(a.SLO))
	to := h.Opt.Now()
	if !a.ResolvedAt.IsZero() {
		to = a.ResolvedAt
	}
	around := max(15*time.Minute, to.Sub(onset)/4)
	q.Set("from", strconv.FormatInt(onset.Add(-around).Unix(), 10))
	if !a.ResolvedAt.IsZero() {
		q.Set("to", strconv.FormatInt(to.Add(around).Unix(), 10))
	}
	return h.Href("/slo", q) + "#history"
}

func figures(a *state.Alert, onset, now time.Time) []site.Figure {
	out := []site.Figure{{Name: "Started", Value: format.NewStamp(onset, now).Text, Note: "estimated from the counts"}}
	switch {
	case a.FiredAt.IsZero():
		out = append(out, site.Figure{Name: "Pending since", Value: format.NewStamp(a.ActiveSince, now).Text,
			Note: "the condition holds, the alert has not fired"})
	default:
		out = append(out, site.Figure{Name: "Fired", Value: format.NewStamp(a.FiredAt, now).Text,
			Note: format.Duration(max(0, a.FiredAt.Sub(onset))) + " after the start"})
	}
	if a.ResolvedAt.IsZero() {
		return append(out, site.Figure{Name: "Active for", Value: format.Duration(now.Sub(a.ActiveSince)), Note: "ongoing"})
	}
	return append(out, site.Figure{Name: "Resolved", Value: format.NewStamp(a.ResolvedAt, now).Text,
		Note: "after " + format.Duration(a.ResolvedAt.Sub(a.ActiveSince))})
}
