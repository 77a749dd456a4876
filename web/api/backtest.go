package api

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/alerts/backtest"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/spec"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/respond"
	"github.com/sloengine/sloengine/web/site"
)

// BacktestPath is the path of the request to try a spec on the past.
const BacktestPath = "/api/v1/backtest"

// Bounds of a request.
const (
	MaxBacktestBody = 512 << 10
	maxBacktestLast = 400 * 24 * time.Hour
	backtestFor     = 10 * time.Minute
)

// BacktestRequest asks for a replay of the log by a spec and by the one in force.
type BacktestRequest struct {
	Spec      string              `json:"spec"`
	Last      string              `json:"last,omitempty"`
	Zone      string              `json:"zone,omitempty"`
	Incidents []backtest.Incident `json:"incidents,omitempty"`
}

// BacktestAnswer is how far a replay is.
type BacktestAnswer struct {
	Progress float64          `json:"progress"`
	Busy     bool             `json:"busy"`
	Result   *backtest.Result `json:"result"`
}

// apiBacktest begins a replay, or says how far it is. The client repeats the request until it has the result.
func (api *Handler) apiBacktest(c *gin.Context) {
	c.Header("Cache-Control", "no-store")
	if api.Opt.Try == nil {
		respond.Problem(c, http.StatusNotImplemented, "This engine has no log.", nil)
		return
	}
	body, ok := api.JSONBodyOf(c, MaxBacktestBody)
	if !ok {
		return
	}
	q, err := api.readBacktest(body)
	if invalid, is := errors.AsType[*spec.InvalidError](err); is {
		respond.Problem(c, http.StatusUnprocessableEntity, "The spec has errors.", invalid.Problems)
		return
	}
	if err != nil {
		respond.Problem(c, http.StatusBadRequest, "body: "+err.Error(), nil)
		return
	}
	got := api.Opt.Try(*q)
	if got.Began {
		names := make([]string, len(q.After.Services))
		for i, s := range q.After.Services {
			names[i] = s.Name
		}
		api.Opt.Audit(c, "backtest", fmt.Sprintf("services=%q last=%s", names, slo.FormatDuration(q.Last)), nil)
	}
	switch {
	case errors.Is(got.Err, site.ErrOtherService):
		respond.Problem(c, http.StatusForbidden, "The spec has a service that your token is not for.", nil)
	case got.Err != nil:
		respond.Problem(c, http.StatusUnprocessableEntity, format.Safe(got.Err.Error(), format.MaxText)+".", nil)
	case got.Result != nil:
		respond.JSON(c, http.StatusOK, "application/json", BacktestAnswer{Progress: 1, Result: got.Result})
	default:
		c.Header("Retry-After", "2")
		respond.JSON(c, http.StatusAccepted, "application/json", BacktestAnswer{Progress: got.Progress, Busy: got.Busy})
	}
}

func (api *Handler) readBacktest(body []byte) (*backtest.Request, error) {
	r := BacktestRequest{Last: "30d", Zone: "UTC"}
	if err := site.ReadObject(body, site.Fields{
		"spec":      site.String(&r.Spec),
		"last":      site.String(&r.Last),
		"zone":      site.String(&r.Zone),
		"incidents": site.Value(&r.Incidents, "a list of incidents"),
	}); err != nil {
		return nil, err
	}
	key := sha256.Sum256(body)
	q := &backtest.Request{Key: string(key[:]), Given: r.Incidents, Within: backtestFor}
	var err error
	if q.Last, err = slo.ParseDuration(r.Last); err != nil || q.Last < time.Minute || q.Last > maxBacktestLast {
		return nil, errors.New("last: want a duration from 1m to 400d, such as 30d")
	}
	if q.Zone, err = time.LoadLocation(r.Zone); err != nil || r.Zone == "Local" {
		return nil, errors.New("zone: want a time zone such as Europe/Moscow")
	}
	if err := backtest.CheckIncidents(r.Incidents); err != nil {
		return nil, fmt.Errorf("incidents: %w", err)
	}
	if strings.TrimSpace(r.Spec) == "" {
		return nil, errors.New("spec: want the text of a spec")
	}
	api.specs.Lock()
	defer api.specs.Unlock()
	sp, problems := spec.Load([]spec.File{{Name: "spec", Data: []byte(r.Spec)}})
	if problems.HasErrors() {
		return nil, &spec.InvalidError{Problems: problems}
	}
	q.After = sp
	return q, nil
}
