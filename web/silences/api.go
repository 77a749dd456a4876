package silences

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/alerts/silence"
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/web/respond"
	"github.com/sloengine/sloengine/web/site"
)

// Path is where the API lists and adds silences. Below it each ends by its id and /expire.
const Path = "/api/v1/silences"

// Handler serves the API and the pages of silences.
type Handler struct {
	*site.Site
	counting sync.Mutex // guards counted
	counted  counted
}

// counted is how many alerts each silence hides, and all together, as of a view of the alerts and the silences that
// held then.
type counted struct {
	view   *state.View
	active []string
	of     map[string]int
	all    int
}

// New makes the API and the pages of a site.
func New(s *site.Site) *Handler { return &Handler{Site: s} }

// Register mounts the API and the pages.
func (h *Handler) Register(r gin.IRouter, get func(path string, h ...gin.HandlerFunc), read, operate gin.HandlerFunc) {
	get(Path, read, h.list)
	r.POST(Path, site.Secure, operate, h.add)
	r.POST(Path+"/:id/expire", site.Secure, operate, h.expire)
	h.registerV2(r, get, read, operate)
	get(site.SilenceListPath, read, h.listPage)
	get(site.NewSilencePath, operate, h.newPage)
	r.POST(formPath, site.Secure, operate, h.form)
}

// Status is a silence as of now.
type Status struct {
	silence.Silence
	State  silence.State `json:"state"`
	Alerts int           `json:"silenced_alerts"` // firing now
}

// List is all silences, the newest first.
type List struct {
	Items []Status `json:"items"`
}

// status is a silence as the API shows it.
func (h *Handler) status(s silence.Silence) Status {
	out := Status{Silence: s, State: s.State(h.Opt.Now())}
	if out.State == silence.Active {
		out.Alerts = h.hidden().of[s.ID]
	}
	return out
}

// hidden counts the firing alerts that each silence hides. It counts once for each view of the alerts and each change
// of the silences, because ten thousand alerts against a thousand silences take a while.
func (h *Handler) hidden() counted {
	of := h.Opt.Silences.Silencing()
	if h.Opt.Alerts == nil || of == nil {
		return counted{}
	}
	view, now := h.Opt.Alerts(), h.Opt.Now()
	var active []string
	for _, s := range h.Opt.Silences.Silences() {
		if s.State(now) == silence.Active {
			active = append(active, s.ID)
		}
	}
	h.counting.Lock()
	defer h.counting.Unlock()
	if h.counted.view != view || !slices.Equal(h.counted.active, active) {
		h.counted = counted{view, active, map[string]int{}, 0}
		for i := range view.Active {
			ids := of(&view.Active[i])
			for _, id := range ids {
				h.counted.of[id]++
			}
			if len(ids) > 0 {
				h.counted.all++
			}
		}
	}
	return h.counted
}

// has sends a problem if the engine keeps no silences.
func (h *Handler) has(c *gin.Context) bool {
	c.Header("Cache-Control", "no-store")
	if h.Opt.Silences == nil {
		respond.Problem(c, http.StatusNotImplemented, "This engine does not store silences.", nil)
		return false
	}
	return true
}

func (h *Handler) list(c *gin.Context) {
	if !h.has(c) {
		return
	}
	out := List{Items: []Status{}}
	for _, s := range h.Opt.Silences.Silences() {
		out.Items = append(out.Items, h.status(s))
	}
	respond.JSON(c, http.StatusOK, "application/json", out)
}

func (h *Handler) add(c *gin.Context) {
	c.Header("Cache-Control", "no-store")
	body, ok := h.JSONBody(c)
	if !ok || !h.has(c) {
		return
	}
	s := silence.Silence{Author: h.Opt.Caller(c)}
	if !site.ReadFields(c, body, site.Fields{
		"matchers": site.String(&s.Matchers), "starts_at": site.ReadTime(&s.Starts), "ends_at": site.ReadTime(&s.Ends),
		"author": site.String(&s.Author), "comment": site.String(&s.Comment),
	}) {
		return
	}
	s, err := h.addSilence(c, s)
	h.answer(c, s, err)
}

func (h *Handler) expire(c *gin.Context) {
	c.Header("Cache-Control", "no-store")
	body, ok := h.JSONBody(c)
	if !ok || !h.has(c) {
		return
	}
	if !site.ReadFields(c, body, nil) {
		return
	}
	s, err := h.expireSilence(c, c.Param("id"))
	h.answer(c, s, err)
}

// answer sends the silence, or the problem with it.
func (h *Handler) answer(c *gin.Context, s silence.Silence, err error) {
	if status, text := failure(err); err != nil {
		respond.Problem(c, status, text, nil)
		return
	}
	respond.JSON(c, http.StatusOK, "application/json", h.status(s))
}

// failure is how an error is answered.
func failure(err error) (status int, text string) {
	switch {
	case errors.Is(err, silence.ErrInvalid):
		return http.StatusBadRequest, err.Error()
	case errors.Is(err, silence.ErrNotFound):
		return http.StatusNotFound, "There is no silence with this id."
	case errors.Is(err, silence.ErrTooMany):
		return http.StatusConflict, err.Error()
	}
	return http.StatusServiceUnavailable, "The silence could not be saved. See the log of the engine for the cause."
}

// addSilence adds a silence and records it in the audit log.
func (h *Handler) addSilence(c *gin.Context, s silence.Silence) (silence.Silence, error) {
	s, err := h.Opt.Silences.AddSilence(s)
	h.audit(c, "silence.add", s, err)
	return s, err
}

// expireSilence ends a silence and records it in the audit log.
func (h *Handler) expireSilence(c *gin.Context, id string) (silence.Silence, error) {
	s, err := h.Opt.Silences.ExpireSilence(id)
	h.audit(c, "silence.expire", s, err)
	return s, err
}

func (h *Handler) audit(c *gin.Context, action string, s silence.Silence, err error) {
	detail := fmt.Sprintf("id=%q matchers=%q until=%s author=%q comment=%q", s.ID, s.Matchers,
		s.Ends.UTC().Format(time.RFC3339), s.Author, s.Comment)
	if err != nil {
		detail = ""
		if status, _ := failure(err); status == http.StatusServiceUnavailable {
			h.Opt.LogError("save silence", err)
		}
	}
	h.Opt.Audit(c, action, detail, err)
}
