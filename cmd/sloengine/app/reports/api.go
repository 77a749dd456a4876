package reports

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/sla/delivery"
	"github.com/sloengine/sloengine/web/respond"
	"github.com/sloengine/sloengine/web/site"
)

// Path is where scheduled reports are, by name. Below it, /send sends one by hand.
const Path = "/api/v1/reports/"

// Sent is what became of a report that was sent by hand.
type Sent struct {
	Name    string       `json:"name"`
	Period  string       `json:"period"`
	Targets []SentTarget `json:"targets"`
}

// SentTarget is one mail address, webhook or folder.
type SentTarget struct {
	Kind    string  `json:"kind"`
	Name    string  `json:"name"`
	OK      bool    `json:"ok"`
	Seconds float64 `json:"seconds"`
	Error   string  `json:"error,omitempty"`
}

// API sends scheduled reports by hand.
type API struct {
	Sender *delivery.Sender
	Make   delivery.MakeFunc
	Body   func(c *gin.Context) ([]byte, bool) // reads a body that changes something, or sends a problem
	Audit  func(c *gin.Context, action, detail string, err error)
	Fail   func(msg string, err error)
}

// Serve sends the report in the path.
func (a *API) Serve(c *gin.Context) {
	c.Header("Cache-Control", "no-store")
	body, ok := a.Body(c)
	if !ok {
		return
	}
	period, name := "", c.Param("name")
	if !site.ReadFields(c, body, site.Fields{"period": site.Value(&period, "a text")}) {
		return
	}
	p, results, err := a.Sender.SendNow(c.Request.Context(), name, period, a.Make)
	detail := fmt.Sprintf("report=%q period=%q", name, period)
	if err != nil {
		a.Audit(c, "report.send", detail, err)
		a.problem(c, err)
		return
	}
	out := Sent{Name: name, Period: p.String(), Targets: []SentTarget{}}
	failed := 0
	for _, r := range results {
		x := SentTarget{Kind: string(r.Kind), Name: r.Name, OK: r.Err == nil, Seconds: r.Took.Seconds()}
		if r.Err != nil {
			x.Error = r.Err.Error()
			failed++
		}
		out.Targets = append(out.Targets, x)
	}
	a.Audit(c, "report.send", fmt.Sprintf("report=%q period=%s targets=%d failed=%d", name, p, len(results), failed), nil)
	c.JSON(http.StatusOK, out)
}

func (a *API) problem(c *gin.Context, err error) {
	switch {
	case errors.Is(err, delivery.ErrUnknown):
		respond.Problem(c, http.StatusNotFound, "There is no report with this name under reports in engine.yaml.", nil)
	case errors.Is(err, delivery.ErrPeriod):
		respond.Problem(c, http.StatusBadRequest, err.Error(), nil)
	case errors.Is(err, delivery.ErrBusy), errors.Is(err, delivery.ErrNoData):
		c.Header("Retry-After", "5")
		respond.Problem(c, http.StatusServiceUnavailable, "Not now: "+err.Error()+". Try again in a few seconds.", nil)
	default:
		if c.Request.Context().Err() == nil { // else the caller went away
			a.Fail("send a report by hand", err)
		}
		respond.Problem(
			c, http.StatusServiceUnavailable, "The report could not be made now. The engine's log has the cause.", nil)
	}
}
