package incidents

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/web/respond"
	"github.com/sloengine/sloengine/web/site"
)

// writeTime bounds how long a request waits for the record.
const writeTime = 30 * time.Second

// kinds are the operations on one incident, by the last part of their address.
var kinds = map[string]incident.Kind{
	"ack": incident.AckIt, "note": incident.AddNote, "update": incident.AddUpdate, "resolve": incident.ResolveIt,
	"edit": incident.EditIt, "publish": incident.Publish, "post-mortem": incident.LinkPost, "erase": incident.Erase,
}

// statusWords are the values of the field status.
const statusWords = "investigating, identified, monitoring or resolved"

// fields reads the fields of an operation from a body.
func fields(o *incident.Operation) map[string]func(json.RawMessage) error {
	text := func(into *string) func(json.RawMessage) error {
		return func(raw json.RawMessage) error { return site.ReadValue(raw, into, "a string") }
	}
	public := func(raw json.RawMessage) error { return site.ReadValue(raw, &o.Public, "true or false") }
	by := text(&o.By)
	severity := func(raw json.RawMessage) error { return site.ReadValue(raw, &o.Severity, "critical or warning") }
	switch o.Kind {
	case incident.OpenByHand:
		return map[string]func(json.RawMessage) error{
			"title": text(&o.Title), "service": text(&o.Service), "team": text(&o.Team), "by": by,
			"key": text(&o.Key), "public": public,
			"severity": severity, "onset": site.ReadTime(&o.Onset),
		}
	case incident.AckIt:
		return map[string]func(json.RawMessage) error{"by": by, "team": text(&o.Team)}
	case incident.AddNote:
		return map[string]func(json.RawMessage) error{"by": by, "text": text(&o.Text)}
	case incident.AddUpdate:
		return map[string]func(json.RawMessage) error{"by": by, "text": text(&o.Text), "public": public,
			"status": func(raw json.RawMessage) error { return site.ReadValue(raw, &o.Status, statusWords) }}
	case incident.EditIt:
		return map[string]func(json.RawMessage) error{"by": by, "title": text(&o.Title), "owner": text(&o.Owner),
			"severity": severity}
	case incident.Publish:
		return map[string]func(json.RawMessage) error{"public": public, "title": text(&o.Title)}
	case incident.LinkPost:
		return map[string]func(json.RawMessage) error{"url": text(&o.Text)}
	case incident.Erase:
		return map[string]func(json.RawMessage) error{"person": by}
	}
	return map[string]func(json.RawMessage) error{"by": by}
}

func (h *Handler) open(c *gin.Context) {
	o := incident.Operation{Kind: incident.OpenByHand, Severity: incident.Critical, Key: rand.Text()}
	h.do(c, &o, http.StatusCreated)
}

func (h *Handler) operate(c *gin.Context) {
	o := incident.Operation{Kind: kinds[c.Param("operation")], ID: c.Param("id"), How: incident.ByAPI}
	h.do(c, &o, http.StatusOK)
}

func (h *Handler) erase(c *gin.Context) {
	h.do(c, &incident.Operation{Kind: incident.Erase}, http.StatusOK)
}

// erased is the answer to the removal of a person's data from all incidents.
type erased struct {
	Erased bool `json:"erased"`
}

// do reads the body of an operation, carries it out, and answers with the incident.
func (h *Handler) do(c *gin.Context, o *incident.Operation, status int) {
	c.Header("Cache-Control", "no-store")
	body, ok := h.JSONBody(c)
	if !ok || !h.has(c) {
		return
	}
	if o.Kind == "" {
		respond.Problem(
			c, http.StatusNotFound, "There is no such operation on incidents. /openapi.json lists what there is.", nil)
		return
	}
	if o.Kind != incident.AckIt {
		o.How = ""
	}
	known, dry := fields(o), false
	if o.Kind == incident.Publish {
		known["dry_run"] = func(raw json.RawMessage) error { return site.ReadValue(raw, &dry, "true or false") }
	}
	if err := site.ReadObject(body, known); err != nil {
		respond.Problem(c, http.StatusBadRequest, "body: "+err.Error(), nil)
		return
	}
	if dry {
		h.preview(c, o)
		return
	}
	inc, err := h.Apply(c, o)
	switch {
	case err != nil:
		h.problem(c, err)
	case inc == nil:
		respond.JSON(c, status, "application/json", erased{true})
	default:
		respond.JSON(c, status, "application/json", h.item(inc))
	}
}

// preview answers with what the public page would show, and changes nothing.
func (h *Handler) preview(c *gin.Context, o *incident.Operation) {
	err, inc := o.Validate(), h.Opt.Incidents.View().Get(o.ID)
	if err == nil && inc == nil {
		err = incident.ErrNotFound
	}
	if err != nil {
		h.problem(c, err)
		return
	}
	preview := h.public.Preview(inc, cmp.Or(o.Title, inc.PublicTitle), h.View())
	respond.JSON(c, http.StatusOK, "application/json", preview)
}

// Apply carries an operation out and records it in the audit log.
func (h *Handler) Apply(c *gin.Context, o *incident.Operation) (*incident.Incident, error) {
	ctx, cancel := context.WithTimeout(c.Request.Context(), writeTime)
	defer cancel()
	inc, err := h.Opt.Incidents.Do(ctx, *o)
	id := ""
	if inc != nil {
		id = inc.ID
	}
	h.Opt.Audit(c, "incident."+string(o.Kind), auditDetail(o, id), err)
	return inc, err
}
