// Package annotations serves the API of annotations (deployments, notes and changes of the spec), and gives pages what
// they mark and list of them. It does not know where they are stored or how they are drawn.
package annotations

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/sla/annotation"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/respond"
	"github.com/sloengine/sloengine/web/site"
)

// Path is where the API lists and adds annotations. Below it each is deleted by its id and /delete.
const Path = "/api/v1/annotations"

// Handler serves the API.
type Handler struct{ *site.Site }

// New makes the API of a site.
func New(s *site.Site) *Handler { return &Handler{s} }

// Register mounts the API.
func (h *Handler) Register(r gin.IRouter, get func(path string, h ...gin.HandlerFunc), read, annotate,
	operate gin.HandlerFunc) {
	get(Path, read, h.list)
	r.POST(Path, site.Secure, annotate, h.add)
	r.POST(Path+"/:id/delete", site.Secure, operate, h.delete)
}

// List is annotations, the latest time first.
type List struct {
	Items []annotation.Annotation `json:"items"`
}

// store is annotations that can be changed.
type store interface {
	Add(a annotation.Annotation) (annotation.Annotation, error)
	Delete(id string) (annotation.Annotation, error)
}

// change reads the body of a change and returns the annotations to change, or sends a problem.
func (h *Handler) change(c *gin.Context) (body []byte, s store, ok bool) {
	c.Header("Cache-Control", "no-store")
	if body, ok = h.JSONBody(c); !ok {
		return nil, nil, false
	}
	if s, ok = h.Opt.Annotations.(store); !ok {
		respond.Problem(c, http.StatusNotImplemented,
			"Annotations belong to an engine. A view of several engines shows those of its engines.", nil)
	}
	return body, s, ok
}

func (h *Handler) list(c *gin.Context) {
	c.Header("Cache-Control", "no-store")
	if h.Opt.Annotations == nil {
		respond.Problem(c, http.StatusNotImplemented, "There are no annotations here.", nil)
		return
	}
	var sp slo.Span
	for name, into := range map[string]*time.Time{"from": &sp.From, "to": &sp.To} {
		text := c.Query(name)
		if text == "" {
			continue
		}
		at, err := site.ParseTime(text)
		if err != nil {
			respond.Problem(
				c, http.StatusBadRequest, fmt.Sprintf("Invalid %s (want a time such as 2026-11-22T10:00:00Z).", name), nil)
			return
		}
		*into = at
	}
	items := h.Opt.Annotations.List(c.Query("service"), sp)
	slices.Reverse(items)
	respond.JSON(c, http.StatusOK, "application/json", List{items})
}

func (h *Handler) add(c *gin.Context) {
	body, into, ok := h.change(c)
	if !ok {
		return
	}
	a := annotation.Annotation{Author: h.Opt.Caller(c)}
	if !site.ReadFields(c, body, site.Fields{
		"text": site.String(&a.Text), "service": site.String(&a.Service), "author": site.String(&a.Author),
		"kind": site.String(&a.Kind), "at": site.ReadTime(&a.At),
	}) {
		return
	}
	if a.Kind == annotation.Spec {
		respond.Problem(c, http.StatusBadRequest,
			"Changes of the spec are annotated by the engine itself (want the kind deployment or note).", nil)
		return
	}
	if !h.Opt.Serves(c, a.Service) {
		respond.Problem(
			c, http.StatusForbidden, "The token may annotate some services only (want service to be one of them).", nil)
		return
	}
	a, err := into.Add(a)
	h.answer(c, "annotation.add", a, err)
}

func (h *Handler) delete(c *gin.Context) {
	body, from, ok := h.change(c)
	if !ok {
		return
	}
	if !site.ReadFields(c, body, nil) {
		return
	}
	a, err := from.Delete(c.Param("id"))
	h.answer(c, "annotation.delete", a, err)
}

// answer sends the annotation, or the problem with it, and leaves a line in the audit log.
func (h *Handler) answer(c *gin.Context, action string, a annotation.Annotation, err error) {
	detail := fmt.Sprintf("id=%q at=%s kind=%s service=%q text=%q author=%q", a.ID, a.At.UTC().Format(time.RFC3339),
		a.Kind, a.Service, a.Text, a.Author)
	if err != nil {
		detail = "" // the error says what was wrong
	}
	h.Opt.Audit(c, action, detail, err)
	switch {
	case err == nil:
		respond.JSON(c, http.StatusOK, "application/json", a)
	case errors.Is(err, annotation.ErrInvalid):
		respond.Problem(c, http.StatusBadRequest, err.Error(), nil)
	case errors.Is(err, annotation.ErrNotFound):
		respond.Problem(c, http.StatusNotFound, "There is no annotation with this id.", nil)
	default:
		h.Opt.LogError("save annotation", err)
		respond.Problem(
			c, http.StatusServiceUnavailable, "The annotation could not be saved. See the log of the engine for the cause.", nil)
	}
}
