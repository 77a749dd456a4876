package incidents

import (
	"cmp"
	"html/template"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/site"
)

// publishPage shows what the public page would show of an incident, and asks whether to publish it.
type publishPage struct {
	site.Layout
	ID, Action, Again string
	Back              string // the page of the incident
	Public            bool   // it is published, and only the title changes
	Title             string // on the public page; "" for the one that it gets without
	Preview           template.HTML
	Shown             bool // the public page shows incidents of this service
	Service           string
}

func (h *Handler) publishPage(c *gin.Context) {
	if !h.ready(c) {
		return
	}
	v := h.View()
	inc := h.Opt.Incidents.View().Get(c.Query(paramIncident))
	if inc == nil {
		h.Message(c, http.StatusNotFound, "Not there", gone)
		return
	}
	title := cmp.Or(c.Query("title"), inc.PublicTitle)
	p := publishPage{
		Layout: h.Layout(c, v, "Publish "+inc.ID, "incidents"), ID: inc.ID, Action: h.Opt.ExternalPath + formPath,
		Again: h.Opt.ExternalPath + publishPath, Back: h.href(inc.ID), Public: inc.Public,
		Title: format.Safe(title, incident.MaxTitle), Service: format.Safe(inc.Service, format.MaxName),
	}
	preview := h.public.Preview(inc, title, v)
	p.Shown = preview.Shown
	var err error
	if p.Preview, err = h.public.PreviewPage(preview, v.Now); err != nil {
		h.NoPage(c, "incident-publish", err)
		return
	}
	p.Crumbs = append(h.Crumb("Incidents", site.IncidentListPath, inc.ID), site.Link{Text: "Publish"})
	p.Crumbs[1].Href = p.Back
	p.Refresh, p.Themes, p.Stream = nil, nil, ""
	site.FormPage(c)
	h.Page(c, http.StatusOK, "incident-publish", p)
}
