package overview

import (
	"net/http"
	"net/url"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/web/chart"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/respond"
	"github.com/sloengine/sloengine/web/site"
)

// Path is the address of the page.
const Path = site.ServicesPath

// Handler serves the page of the services.
type Handler struct{ *site.Site }

// New makes the page of a site.
func New(s *site.Site) *Handler { return &Handler{s} }

// Register mounts the page.
func (h *Handler) Register(get func(path string, h ...gin.HandlerFunc), read gin.HandlerFunc) {
	get(Path, read, h.page)
}

type page struct {
	site.Layout
	Loaded   bool
	Verdict  chart.Mark
	Headline string
	Scope    string
	Rows     []row
	More     int
}

// row is one service. The reports are of the last calendar month.
type row struct {
	ID, Name, Href, Report string
	Mark                   chart.Mark
	Sentence               string
}

// shownServices bounds the page.
const shownServices = 500

func (h *Handler) page(c *gin.Context) {
	v := h.View()
	active, digest := h.Alerts(site.AlertFilter{Active: true})
	site.RefreshHeader(c)
	if respond.NotModified(c, v.ReportTag("services", c.Request.URL.RawQuery, digest, respond.Theme(c))) {
		return
	}
	p := page{Layout: h.Layout(c, v, "Services", "services"), Loaded: v.Rep != nil}
	if v.Rep != nil {
		all, services := Summarise(v.Rep, active, h.Silencing())
		p.Verdict, p.Headline, p.Scope = all.Mark(), all.Headline(), format.Plural(len(services), "service")+", worst first"
		p.More = max(0, len(services)-shownServices)
		for i := range services[:len(services)-p.More] {
			s := &services[i]
			only := url.Values{"service": {s.Name}}
			to := h.Href("/", only)
			if s.Name == incident.EngineService && s.Groups+s.Agreements == 0 {
				to = h.Href("/engine", nil)
			}
			p.Rows = append(p.Rows, row{
				ID: "v" + respond.Hash(s.Name), Name: format.Safe(s.Name, format.MaxName), Mark: s.Mark(), Sentence: s.Sentence(),
				Href:   to,
				Report: h.Href("/report", url.Values{"service": {s.Name}, "period": {"last-month"}}),
			})
		}
	}
	h.Page(c, http.StatusOK, "services", p)
}
