package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/ingest/counting"
	"github.com/sloengine/sloengine/slo/spec"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/respond"
	"github.com/sloengine/sloengine/web/site"
	"github.com/sloengine/sloengine/web/status"
)

// health is the answer of the health endpoints.
type health struct {
	Status   status.State          `json:"status"`
	Reason   string                `json:"reason,omitempty"`
	Degraded []status.DegradedPart `json:"degraded,omitempty"`

	NotificationsOff bool `json:"notifications_off,omitempty"`
}

// healthy says that the process answers. A restart would not help a full disk or
// a long recovery, so neither makes it unhealthy; a log that can no longer be
// synced does, since only a restart opens it again.
func (w *Web) healthy(c *gin.Context) {
	e := w.Opt.Brief()
	code := http.StatusOK
	if e.State == status.Poisoned || e.State == status.Failed {
		code = http.StatusServiceUnavailable
	}
	w.health(c, code, health{Status: e.State, Reason: w.reason(c, e)})
}

// reason is why the engine is in its state. Probes come without a token, so what an error
// says, such as the name of a file, is for those who may read.
func (w *Web) reason(c *gin.Context, e status.Engine) string {
	if e.Reason != "" && !w.Opt.May(c, site.Read) {
		return status.StateText(e.State)
	}
	return e.Reason
}

// ready says whether events should be sent here. A sink that is down, or Redis, is
// no reason not to: what is taken is safe and counted. The answer names them to who may read.
func (w *Web) ready(c *gin.Context) {
	v := w.EngineView()
	e := v.Eng
	e.Reason = w.reason(c, e)
	code := http.StatusServiceUnavailable
	switch e.State {
	case status.Ready, status.Stale:
		code = http.StatusOK
	case status.Recovering:
		if e.Reason == "" {
			e.Reason = fmt.Sprintf("replaying the log: %s done", format.Percent(e.Progress, 0))
		}
		c.Header("Retry-After", "5")
	}
	if code != http.StatusOK && e.Reason == "" {
		e.Reason = status.StateText(e.State)
	}
	answer := health{Status: e.State, Reason: e.Reason}
	if w.Opt.May(c, site.Read) {
		answer.Degraded, answer.NotificationsOff = e.Degraded(v.Now), e.NotificationsOff
	}
	w.health(c, code, answer)
}

func (w *Web) health(c *gin.Context, code int, h health) {
	c.Header("Cache-Control", "no-store")
	respond.JSON(c, code, "application/json", h)
}

// reloadTimeout is how long a reload may wait for an engine that is still recovering.
const reloadTimeout = time.Minute

func (w *Web) reload(c *gin.Context) {
	c.Header("Cache-Control", "no-store")
	if err := http.NewCrossOriginProtection().Check(c.Request); err != nil {
		respond.Problem(c, http.StatusForbidden, "Requests from pages of another site are refused.", nil)
		return
	}
	if w.Opt.Reload == nil {
		respond.Problem(c, http.StatusNotImplemented, "This engine cannot reload its spec.", nil)
		return
	}
	before := w.Opt.Brief().Spec.Change
	// A caller that has closed its half of the connection still waits for the answer.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Request.Context()), reloadTimeout)
	defer cancel()
	if err := w.Opt.Reload(ctx); err != nil {
		var withProblems interface{ SpecProblems() []spec.Problem }
		var list []spec.Problem
		if errors.As(err, &withProblems) {
			list = withProblems.SpecProblems()
		}
		w.Opt.Audit(c, "reload", "", err)
		respond.Problem(c, http.StatusUnprocessableEntity, "Nothing was changed: "+err.Error(), list)
		return
	}
	s := w.Opt.Brief().Spec
	w.Opt.Audit(c, "reload", fmt.Sprintf("hash=%s slos=%d", s.Hash, s.SLOs), nil)
	answer := reloaded{Status: "reloaded", Hash: s.Hash, SLOs: s.SLOs}
	if s.Change != nil && s.Change != before {
		answer.Change = s.Change
	}
	answer.Rebuild = w.Opt.Brief().Rebuild
	respond.JSON(c, http.StatusOK, "application/json", answer)
}

type reloaded struct {
	Status string `json:"status"`
	Hash   string `json:"hash"`
	SLOs   int    `json:"slos"`

	Change  *counting.SpecChange      `json:"change,omitempty"`  // nil: all SLOs go on with their counts
	Rebuild *counting.RebuildProgress `json:"rebuild,omitempty"` // nil: nothing is to be rebuilt
}
