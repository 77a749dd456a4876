package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/ingest/counting"
	"github.com/sloengine/sloengine/slo/fold"
	"github.com/sloengine/sloengine/web/respond"
	"github.com/sloengine/sloengine/web/site"
	"github.com/sloengine/sloengine/web/status"
)

// forgetTime bounds how long a request waits for the record.
const forgetTime = 30 * time.Second

type generationList struct {
	counting.ParkedStatus
	Items []fold.Generation       `json:"items"`
	Spans []status.KeptAttributes `json:"spans"` // of services whose spans counted in the last hour
}

func (api *Handler) apiGenerations(c *gin.Context) {
	c.Header("Cache-Control", "no-store")
	if api.Opt.Generations == nil {
		respond.Problem(c, http.StatusNotImplemented, "This engine does not list its counts.", nil)
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Request.Context()), forgetTime)
	defer cancel()
	list, err := api.Opt.Generations(ctx)
	if err != nil {
		respond.Problem(c, http.StatusServiceUnavailable, "The counts could not be listed: "+err.Error()+".", nil)
		return
	}
	out := generationList{api.Opt.Engine().Parked, append([]fold.Generation{}, list...), []status.KeptAttributes{}}
	if api.Opt.Spans != nil {
		out.Spans = append(out.Spans, api.Opt.Spans()...)
	}
	respond.JSON(c, http.StatusOK, "application/json", out)
}

// RejectsPath is the path of what was rejected.
const RejectsPath = "/api/v1/rejects"

// RejectList is what was rejected, the latest code first.
type RejectList struct {
	Items []status.RejectedCode `json:"items"`
	Types []status.UnknownType  `json:"types"` // of events that no spec counts
}

func (api *Handler) apiRejects(c *gin.Context) {
	ofSenders(c, api.Opt.Rejects, func(items []status.RejectedCode) any {
		return RejectList{items, append([]status.UnknownType{}, api.Opt.Unknown()...)}
	})
}

// ofSenders answers with a list of what senders did. A view has none, because it receives no events.
func ofSenders[T any](c *gin.Context, list func() []T, answer func(items []T) any) {
	c.Header("Cache-Control", "no-store")
	if list == nil {
		respond.Problem(c, http.StatusNotImplemented, "This engine does not receive events.", nil)
		return
	}
	respond.JSON(c, http.StatusOK, "application/json", answer(append([]T{}, list()...)))
}

// SeenPath is the path of the spans that no spec counts.
const SeenPath = "/api/v1/seen"

// SeenList is what was sent in the last hour and no spec counts, the busiest service first.
type SeenList struct {
	Items []status.SeenService `json:"items"`
}

func (api *Handler) apiSeen(c *gin.Context) {
	ofSenders(c, api.Opt.Seen, func(items []status.SeenService) any { return SeenList{items} })
}

// RebuildPath is the path of the request to rebuild counts from the retained log, or not to.
const RebuildPath = "/api/v1/rebuild"

func (api *Handler) apiRebuild(c *gin.Context) {
	c.Header("Cache-Control", "no-store")
	if api.Opt.Rebuild == nil {
		respond.Problem(c, http.StatusNotImplemented, "This engine cannot rebuild counts.", nil)
		return
	}
	body, ok := api.JSONBody(c)
	if !ok {
		return
	}
	var r counting.RebuildRequest
	err := site.ReadObject(body, site.Fields{
		"slos":   site.Value(&r.SLOs, "a list of SLOs, such as shop/checkout"),
		"all":    site.Bool(&r.All),
		"cancel": site.Bool(&r.Cancel),
	})
	if err == nil && r.All == (len(r.SLOs) > 0) {
		err = errors.New("want either slos or all")
	}
	if err != nil {
		respond.Problem(c, http.StatusBadRequest, "body: "+err.Error(), nil)
		return
	}
	ctx, cancel := context.WithTimeout(c.Request.Context(), forgetTime)
	defer cancel()
	done, err := api.Opt.Rebuild(ctx, r)
	api.Opt.Audit(c, "rebuild", fmt.Sprintf("cancel=%t slos=%q activated=%q", r.Cancel, done.SLOs, done.Activated), err)
	switch {
	case errors.Is(err, counting.ErrUnknownSLO), errors.Is(err, counting.ErrNoRebuild):
		respond.Problem(c, http.StatusNotFound, "Nothing was done: "+err.Error()+".", nil)
	case errors.Is(err, counting.ErrRebuildOff), errors.Is(err, counting.ErrNotWanted),
		errors.Is(err, counting.ErrSpecChanged):
		respond.Problem(c, http.StatusConflict, "Nothing was done: "+err.Error()+".", nil)
	case err != nil:
		respond.Problem(c, http.StatusServiceUnavailable, "The request may or may not have an effect: "+err.Error()+".", nil)
	default:
		respond.JSON(c, http.StatusOK, "application/json", done)
	}
}

func (api *Handler) apiForget(c *gin.Context) {
	c.Header("Cache-Control", "no-store")
	if api.Opt.Forget == nil {
		respond.Problem(c, http.StatusNotImplemented, "This engine cannot forget counts.", nil)
		return
	}
	body, ok := api.JSONBody(c)
	if !ok {
		return
	}
	var r counting.ForgetRequest
	err := site.ReadObject(body, site.Fields{
		"service": site.Value(&r.Service, "the name of a service"),
		"restart": site.Bool(&r.Restart),
	})
	if err == nil && r.Service == "" {
		err = errors.New("service is missing")
	}
	if err != nil {
		respond.Problem(c, http.StatusBadRequest, "body: "+err.Error(), nil)
		return
	}
	ctx, cancel := context.WithTimeout(c.Request.Context(), forgetTime)
	defer cancel()
	done, err := api.Opt.Forget(ctx, r)
	detail := fmt.Sprintf("service=%s restart=%t parked=%d restarted=%d", strconv.QuoteToASCII(r.Service), r.Restart,
		done.Parked, done.Restarted)
	api.Opt.Audit(c, "forget", detail, err)
	switch {
	case errors.Is(err, counting.ErrNothingCounted):
		respond.Problem(c, http.StatusNotFound, "Nothing was done: "+err.Error()+".", nil)
	case errors.Is(err, counting.ErrServiceInUse), errors.Is(err, counting.ErrSpecChanged):
		respond.Problem(c, http.StatusConflict, "Nothing was done: "+err.Error()+".", nil)
	case err != nil:
		respond.Problem(
			c, http.StatusServiceUnavailable, "Counts may or may not have been forgotten: "+err.Error()+".", nil)
	default:
		respond.JSON(c, http.StatusOK, "application/json", done)
	}
}
