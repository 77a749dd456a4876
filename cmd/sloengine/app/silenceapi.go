package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/alerts/receivers"
	"github.com/sloengine/sloengine/ingest"
	"github.com/sloengine/sloengine/web/respond"
	"github.com/sloengine/sloengine/web/site"
)

// SilencePath is where the API lists and begins silences. Below it each ends by its id and /expire.
const SilencePath = "/api/v1/silences"

// SilenceStatus is a silence as of now.
type SilenceStatus struct {
	receivers.Silence
	State string `json:"state"` // pending, active or expired
}

// SilenceList is all silences, the newest first.
type SilenceList struct {
	Items []SilenceStatus `json:"items"`
}

// silenceAPI answers for the silences of the receivers.
type silenceAPI struct {
	receivers *receivers.Dispatcher
	body      func(c *gin.Context) ([]byte, bool) // reads a body that changes something, or sends a problem
	auth      *ingest.Auth
	audit     func(c *gin.Context, action, detail string)
}

func (a *silenceAPI) register(r gin.IRouter, read, operate gin.HandlerFunc) {
	r.GET(SilencePath, read, a.list)
	r.POST(SilencePath, site.Secure, operate, a.add)
	r.POST(SilencePath+"/:id/expire", site.Secure, operate, a.expire)
}

func silenceStatus(s receivers.Silence, now time.Time) SilenceStatus {
	out := SilenceStatus{s, "expired"}
	switch {
	case s.Active(now):
		out.State = "active"
	case now.Before(s.Starts):
		out.State = "pending"
	}
	return out
}

func (a *silenceAPI) list(c *gin.Context) {
	c.Header("Cache-Control", "no-store")
	got := SilenceList{Items: []SilenceStatus{}}
	for _, s := range a.receivers.Silences() {
		got.Items = append(got.Items, silenceStatus(s, time.Now()))
	}
	c.JSON(http.StatusOK, got)
}

func (a *silenceAPI) add(c *gin.Context) {
	c.Header("Cache-Control", "no-store")
	body, ok := a.body(c)
	if !ok {
		return
	}
	s := receivers.Silence{Author: a.auth.Caller(c.Request)}
	text := func(into *string) func(json.RawMessage) error {
		return func(raw json.RawMessage) error { return site.ReadValue(raw, into, "a text") }
	}
	at := func(into *time.Time) func(json.RawMessage) error {
		return func(raw json.RawMessage) error {
			return site.ReadValue(raw, into, "a time such as 2026-11-22T10:00:00Z")
		}
	}
	err := site.ReadObject(body, map[string]func(json.RawMessage) error{
		"matchers": text(&s.Matchers), "starts_at": at(&s.Starts), "ends_at": at(&s.Ends), "author": text(&s.Author), "comment": text(&s.Comment),
	})
	if err != nil {
		respond.Problem(c, http.StatusBadRequest, "body: "+err.Error(), nil)
		return
	}
	s, err = a.receivers.AddSilence(s)
	a.answer(c, "silence.add", s, err)
}

func (a *silenceAPI) expire(c *gin.Context) {
	c.Header("Cache-Control", "no-store")
	body, ok := a.body(c)
	if !ok {
		return
	}
	if err := site.ReadObject(body, nil); err != nil {
		respond.Problem(c, http.StatusBadRequest, "body: "+err.Error(), nil)
		return
	}
	s, err := a.receivers.ExpireSilence(c.Param("id"))
	a.answer(c, "silence.expire", s, err)
}

func (a *silenceAPI) answer(c *gin.Context, action string, s receivers.Silence, err error) {
	detail := fmt.Sprintf("id=%q matchers=%q until=%s author=%q comment=%q", s.ID, s.Matchers, s.Ends.UTC().Format(time.RFC3339), s.Author, s.Comment)
	if err != nil {
		detail = fmt.Sprintf("error=%q", err)
	}
	a.audit(c, action, detail)
	switch {
	case errors.Is(err, receivers.ErrSilence):
		respond.Problem(c, http.StatusBadRequest, err.Error(), nil)
	case errors.Is(err, receivers.ErrNoSilence):
		respond.Problem(c, http.StatusNotFound, "There is no silence with this id.", nil)
	case errors.Is(err, receivers.ErrTooManySilences):
		respond.Problem(c, http.StatusConflict, err.Error(), nil)
	case err != nil:
		respond.Problem(c, http.StatusServiceUnavailable, "The silence could not be saved. See the log of the engine for the cause.", nil)
	default:
		c.JSON(http.StatusOK, silenceStatus(s, time.Now()))
	}
}
