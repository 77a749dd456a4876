package api

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/gin-gonic/gin"
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/web/api/v1"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/respond"
	"github.com/sloengine/sloengine/web/site"
)

func newAlert(a *state.Alert, silences []string, inhibitedBy string) v1.Alert {
	out := v1.Alert{
		Fingerprint: a.Fingerprint, Name: a.Name, State: string(a.State), Severity: a.Severity,
		Urgent: a.Urgent, Service: a.Service,
		Group: groupJSON(a.GroupBy, a.Group), Labels: map[string]string{}, Value: number(a.Value, true), Removed: a.Removed,
		ActiveSince: timeOrNil(a.ActiveSince), FirstBad: timeOrNil(a.FirstBad), FiredAt: timeOrNil(a.FiredAt),
		ResolvedAt: timeOrNil(a.ResolvedAt),
		Detection:  number(a.Detection().Seconds(), !a.FiredAt.IsZero()), SilencedBy: append([]string{}, silences...),
		InhibitedBy: inhibitedBy,
	}
	if a.SLO != "" {
		out.SLO = &a.SLO
	}
	if a.Agreement != "" {
		out.Agreement = &a.Agreement
	}
	for _, l := range a.Labels {
		out.Labels[l.Name] = l.Value
	}
	return out
}

func (api *Handler) apiAlerts(c *gin.Context) {
	q := c.Request.URL.Query()
	f := site.NewAlertFilter(q)
	v := api.View()
	all, digest := api.Alerts(f)
	if respond.NotModified(c, v.ReportTag("api", c.Request.URL.Path, c.Request.URL.RawQuery, digest)) {
		return
	}
	if f.State != "" && !slices.Contains(site.AlertStates, f.State) {
		respond.Problem(c, http.StatusBadRequest,
			fmt.Sprintf("state %q: want pending, firing or resolved", format.Safe(string(f.State), format.MaxName)), nil)
		return
	}
	limit, ok := pageLimit(c)
	if !ok {
		return
	}
	page, next, err := cutPage(all, q.Get("cursor"), limit, site.NewAlertKey, site.AlertKey.Before)
	if err != nil {
		respond.Problem(c, http.StatusBadRequest, err.Error(), nil)
		return
	}
	out := v1.AlertList{Report: newReportJSON(v), Total: len(all), Items: []v1.Alert{}, Next: next}
	silences, inhibiting := api.Silencing(), api.Inhibiting()
	for _, a := range page {
		out.Items = append(out.Items, newAlert(a, silences(a), inhibiting(a)))
	}
	held := api.Held(f)
	out.Held, out.HeldTotal = []v1.HeldAlert{}, len(held)
	for _, h := range held[:min(limit, len(held))] {
		out.Held = append(out.Held, newHeld(h))
	}
	respond.JSON(c, http.StatusOK, "application/json", out)
}
