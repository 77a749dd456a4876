package incidents

import (
	"crypto/rand"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/site"
)

// Where forms are sent to, and the page with the form that opens an incident.
const (
	formPath    = site.IncidentPath + "/do"
	publishPath = site.IncidentPath + "/publish"
	newPath     = site.IncidentListPath + "/new"
)

// paramIncident names the incident that a form is about.
const paramIncident = "incident"

// Values of the field do.
const (
	doOpen    = "open"
	doAck     = "ack"
	doWrite   = "write"
	doResolve = "resolve"
	doPublish = "publish"
	doHide    = "hide"
	doLink    = "post-mortem"
	doEdit    = "edit"
)

// Values of the field kind of a text.
const (
	kindNote   = "note"
	kindUpdate = "update"
	kindPublic = "public"
)

// forms are what a reader who may change an incident can do.
type forms struct {
	ID, Action string
	Team       string // who is likely to acknowledge
	By         string // the name of the reader's token
	MayAck     bool
	MayResolve bool
	MayWrite   bool
	MayEdit    bool
	Statuses   []site.Option // that an update may set
	Title      string
	Owner      string
	Severities []site.Option
	Public     bool
	Publish    string // address of the page with the preview
	PostMortem string
}

func (h *Handler) newForms(c *gin.Context, inc *incident.Incident) *forms {
	may := func(k incident.Kind) bool {
		o := incident.Operation{Kind: k, ID: inc.ID}
		return o.Allowed(inc) == nil
	}
	f := &forms{
		MayEdit: may(incident.EditIt), Statuses: statusOptions(inc), Title: format.Safe(inc.Title, format.MaxTitle),
		Owner:   format.Safe(inc.ResponseOwner(), format.MaxName),
		Publish: h.Opt.ExternalPath + publishPath + "?" + url.Values{paramIncident: {inc.ID}}.Encode(),
		By:      format.Safe(h.Opt.Caller(c), format.MaxName), ID: inc.ID, Action: h.Opt.ExternalPath + formPath,
		Team: format.Safe(inc.Team, format.MaxName), MayAck: may(incident.AckIt), MayResolve: may(incident.ResolveIt),
		MayWrite: may(incident.AddNote) || may(incident.AddUpdate), Public: inc.Public, PostMortem: inc.PostMortem,
	}
	for _, s := range []incident.Severity{incident.Critical, incident.Warning} {
		f.Severities = append(f.Severities, site.Option{Value: string(s), Word: string(s), On: s == inc.Severity})
	}
	return f
}

// doneTexts say what the form did that redirected to the page.
var doneTexts = map[string]string{
	doOpen: "The incident was opened.", doAck: "The incident was acknowledged.", doWrite: "The text was added.",
	doEdit:    "The incident was changed.",
	doResolve: "The incident was resolved.",
	doPublish: "The incident is public now.", doHide: "The incident is not public any more.",
	doLink: "The link to the post-mortem was stored.",
}

// newIncidentPage asks what a new incident is about.
type newIncidentPage struct {
	site.Layout
	Action, Key, List string
	By                string // the name of the reader's token
	Services          []site.Option
	Now               string
}

func (h *Handler) newPage(c *gin.Context) {
	if !h.ready(c) {
		return
	}
	v := h.View()
	services := map[string]bool{}
	if v.Rep != nil {
		for i := range v.Rep.SLOs {
			services[v.Rep.SLOs[i].SLO.ID.Service()] = true
		}
	}
	p := newIncidentPage{
		Layout: h.Layout(c, v, "Open an incident", "incidents"), Action: h.Opt.ExternalPath + formPath, Key: rand.Text(),
		By: format.Safe(h.Opt.Caller(c), format.MaxName), List: h.Href(site.IncidentListPath, nil),
		Services: site.SelectOptions(services, ""), Now: v.Now.UTC().Format(inputTime),
	}
	p.Crumbs = h.Crumb("Incidents", site.IncidentListPath, "Open an incident")
	p.Refresh, p.Themes, p.Stream = nil, nil, ""
	site.FormPage(c)
	h.Page(c, http.StatusOK, "incident-new", p)
}

// inputTime is how a date field of a form writes a time, in UTC.
const inputTime = "2006-01-02T15:04"

// form carries out what a form of the pages asks for, and redirects to the incident.
func (h *Handler) form(c *gin.Context) {
	c.Header("Cache-Control", "no-store")
	if !h.OwnForm(c, "Open the incident and try again there.") {
		return
	}
	if !h.ready(c) {
		return
	}
	form, err := site.ReadForm(c, maxTextForm)
	if err != nil {
		h.Undone(c, http.StatusBadRequest, "The form could not be read: "+err.Error()+".")
		return
	}
	o, err := formOperation(form)
	if err != nil {
		h.Undone(c, http.StatusBadRequest,
			"The form could not be read: "+format.Safe(err.Error(), format.MaxText)+". Go back and correct it.")
		return
	}
	inc, err := h.Apply(c, &o)
	switch {
	case err == nil && inc != nil:
		c.Header("Location", h.Href(site.IncidentPath, url.Values{"id": {inc.ID}, "did": {form.Get("do")}}))
		c.Status(http.StatusSeeOther)
	case errors.Is(err, incident.ErrInvalid):
		h.Undone(c, http.StatusBadRequest, format.Safe(sentence(err), format.MaxText)+" Go back and correct it.")
	case errors.Is(err, incident.ErrNotFound):
		h.Undone(c, http.StatusNotFound, gone)
	case errors.Is(err, incident.ErrState), errors.Is(err, incident.ErrFull):
		h.Undone(c, http.StatusConflict, format.Safe(sentence(err), format.MaxText))
	default:
		if c.Request.Context().Err() == nil { // else the reader went away
			h.Opt.LogError("write incident", err)
		}
		h.Message(c, http.StatusServiceUnavailable, "Not done",
			"The incident may or may not have been changed. Open it again to check. The engine's log has the cause.")
	}
}

// sentence makes a sentence of an error.
func sentence(err error) string {
	s := strings.ReplaceAll(err.Error(), "\n", ", ")
	return strings.ToUpper(s[:1]) + s[1:] + "."
}

// maxTextForm bounds the body of a form: a text of four bytes for each character, all of them escaped, and little else.
const maxTextForm = 3*utf8.UTFMax*incident.MaxText + 4<<10

// formOperation is what a form asks for. Browsers end lines with CR LF and send empty fields.
func formOperation(form url.Values) (o incident.Operation, err error) {
	field := func(name string) string { return strings.TrimSpace(strings.ReplaceAll(form.Get(name), "\r\n", "\n")) }
	// Not id: in a browser the field would hide the id of its form, by which pages are updated in place.
	o = incident.Operation{ID: field(paramIncident), By: field("by")}
	do := field("do")
	if do != doOpen && o.ID == "" {
		return o, errors.New("incident is missing")
	}
	switch do {
	case doOpen:
		o = incident.Operation{
			Kind: incident.OpenByHand, By: o.By, Key: field("key"), Title: field("title"),
			Service: field("service"), Team: field("team"),
			Severity: incident.Severity(field("severity")), Public: field("public") == "true",
		}
		if s := field("onset"); s != "" {
			if o.Onset, err = time.Parse(inputTime, s); err != nil {
				return o, errors.New("started: want a time such as 2026-11-22T10:00, in UTC")
			}
		}
	case doAck:
		o.Kind, o.Team, o.How = incident.AckIt, field("team"), incident.ByPage
	case doWrite:
		o.Kind, o.Text, o.Status = incident.AddUpdate, field("text"), incident.Status(field("status"))
		switch field("kind") {
		case kindNote:
			if o.Status == "" { // a status is part of an update
				o.Kind = incident.AddNote
			}
		case kindUpdate:
		case kindPublic:
			o.Public = true
		default:
			return o, errors.New("choose whether the text is a note or an update")
		}
	case doResolve:
		o.Kind = incident.ResolveIt
	case doEdit:
		o.Kind, o.Title, o.Owner = incident.EditIt, field("title"), field("owner")
		o.Severity = incident.Severity(field("severity"))
	case doPublish, doHide:
		o.Kind, o.Public, o.Title = incident.Publish, do == doPublish, field("title")
	case doLink:
		o.Kind, o.Text = incident.LinkPost, field("url")
	default:
		return o, errors.New("it does not say what to do")
	}
	return o, nil
}
