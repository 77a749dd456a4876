package incidents

import (
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/site"
)

// acknowledgePage asks whoever followed a signed link for a name. It changes nothing: mail programs and chats fetch
// links.
type acknowledgePage struct {
	site.Layout
	ID, Title, Team  string
	Detected         format.Stamp
	Action           string
	Until, Signature string
}

// linked finds the incident of a signed link, or sends a page that says what is wrong. The signature is the permission.
func (h *Handler) linked(c *gin.Context, q url.Values) (inc *incident.Incident, ok bool) {
	c.Header("Cache-Control", "no-store")
	if h.Opt.Incidents == nil {
		h.Undone(c, http.StatusNotImplemented, "This engine does not store incidents.")
		return nil, false
	}
	if err := h.Opt.Incidents.VerifyAck(c.Param("id"), q.Get("until"), q.Get("signature")); err != nil {
		h.Undone(c, http.StatusForbidden, "The incident was not acknowledged: "+err.Error()+".")
		return nil, false
	}
	if !h.Opt.Brief().State.Recovered() {
		c.Header("Retry-After", "5")
		h.Undone(c, http.StatusServiceUnavailable,
			"Incidents are available once the engine has recovered. Try again in a few seconds.")
		return nil, false
	}
	if inc = h.Opt.Incidents.View().Get(c.Param("id")); inc == nil {
		h.Undone(c, http.StatusNotFound, "The incident does not exist any more.")
		return nil, false
	}
	if done := answered(inc); done != "" {
		h.Message(c, http.StatusOK, inc.ID, done)
		return nil, false
	}
	return inc, true
}

// answered says why an incident needs no acknowledgement; "" if it does.
func answered(inc *incident.Incident) string {
	switch {
	case inc.IsResolved():
		return "This incident is resolved already."
	case inc.Ack != nil:
		return "This incident was acknowledged by " + format.Safe(inc.Ack.By, format.MaxName) + "."
	}
	return ""
}

func (h *Handler) acknowledgePage(c *gin.Context) {
	q := c.Request.URL.Query()
	inc, ok := h.linked(c, q)
	if !ok {
		return
	}
	p := acknowledgePage{
		Layout: h.BareLayout(c, "Acknowledge "+inc.ID), ID: inc.ID, Title: format.Safe(inc.Title, format.MaxTitle),
		Team:     format.Safe(inc.Team, format.MaxName),
		Detected: format.NewStamp(inc.Detected, h.Opt.Now()),
		Action:   h.Opt.ExternalPath + site.AcknowledgePath + url.PathEscape(inc.ID),
		Until:    q.Get("until"), Signature: q.Get("signature"),
	}
	p.Themes = nil // their links would carry the signature
	site.FormPage(c)
	h.Page(c, http.StatusOK, "acknowledge", p)
}

const (
	maxForm  = 4 << 10
	formTime = 10 * time.Second
)

func (h *Handler) acknowledge(c *gin.Context) {
	if !h.OwnForm(c, "Follow the link in the notification again.") {
		return
	}
	c.Request.Body = http.MaxBytesReader(c.Writer, c.Request.Body, maxForm)
	if err := c.Request.ParseForm(); err != nil {
		h.Undone(c, http.StatusBadRequest, "The form could not be read.")
		return
	}
	form := c.Request.PostForm
	inc, ok := h.linked(c, form)
	if !ok {
		return
	}
	o := incident.Operation{Kind: incident.AckIt, ID: inc.ID, By: form.Get("by"), Team: form.Get("team"),
		How: incident.ByLink}
	switch inc, err := h.Apply(c, &o); {
	case errors.Is(err, incident.ErrInvalid):
		h.Undone(c, http.StatusBadRequest,
			"The incident was not acknowledged: "+format.Safe(err.Error(), format.MaxText)+". Go back and correct it.")
	case errors.Is(err, incident.ErrState) && inc != nil:
		h.Message(c, http.StatusOK, inc.ID, answered(inc)) // somebody was quicker
	case err != nil:
		h.Opt.LogError("acknowledge incident", err)
		h.Message(c, http.StatusServiceUnavailable, "Not done",
			"The acknowledgement could not be stored. Try again. The engine's log has the cause.")
	default:
		h.Message(c, http.StatusOK, inc.ID+" is acknowledged", answered(inc))
	}
}
