package incidents

import (
	"cmp"
	"context"
	"crypto/rand"
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
func fields(o *incident.Operation) site.Fields {
	by, severity := site.String(&o.By), site.Value(&o.Severity, "critical or warning")
	title, team, text, public := site.String(&o.Title), site.String(&o.Team), site.String(&o.Text), site.Bool(&o.Public)
	switch o.Kind {
	case incident.OpenByHand:
		return site.Fields{"title": title, "service": site.String(&o.Service), "team": team, "by": by,
			"key": site.String(&o.Key), "public": public, "severity": severity, "onset": site.ReadTime(&o.Onset)}
	case incident.AckIt:
		return site.Fields{"by": by, "team": team}
	case incident.AddNote:
		return site.Fields{"by": by, "text": text}
	case incident.AddUpdate:
		return site.Fields{"by": by, "text": text, "public": public, "status": site.Value(&o.Status, statusWords)}
	case incident.EditIt:
		return site.Fields{"by": by, "title": title, "owner": site.String(&o.Owner), "severity": severity}
	case incident.Publish:
		return site.Fields{"public": public, "title": title}
	case incident.LinkPost:
		return site.Fields{"url": text}
	case incident.Erase:
		return site.Fields{"person": by}
	}
	return site.Fields{"by": by}
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
		known["dry_run"] = site.Bool(&dry)
	}
	if !site.ReadFields(c, body, known) {
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
