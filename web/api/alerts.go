package api

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/respond"
	"github.com/sloengine/sloengine/web/site"
)

type AlertJSON struct {
	Fingerprint string            `json:"fingerprint"`
	Name        string            `json:"name"`
	State       state.State       `json:"state"`
	Severity    string            `json:"severity"`
	Urgent      bool              `json:"urgent"`
	Service     string            `json:"service"`
	SLO         *slo.ID           `json:"slo_id"`
	Agreement   *string           `json:"agreement"`
	Group       map[string]string `json:"group"`
	Labels      map[string]string `json:"labels"`
	Value       *float64          `json:"value"`
	ActiveSince *time.Time        `json:"active_since"`
	FirstBad    *time.Time        `json:"first_bad"`
	FiredAt     *time.Time        `json:"fired_at"`
	ResolvedAt  *time.Time        `json:"resolved_at"`
	Detection   *float64          `json:"detection_seconds"` // from the first bad event to firing
	Removed     bool              `json:"removed"`
	SilencedBy  []string          `json:"silenced_by"` // ids of silences
}

func newAlert(a *state.Alert, silences []string) AlertJSON {
	out := AlertJSON{
		Fingerprint: a.Fingerprint, Name: a.Name, State: a.State, Severity: a.Severity, Urgent: a.Urgent, Service: a.Service,
		Group: groupJSON(a.GroupBy, a.Group), Labels: map[string]string{}, Value: number(a.Value, true), Removed: a.Removed,
		ActiveSince: timeOrNil(a.ActiveSince), FirstBad: timeOrNil(a.FirstBad), FiredAt: timeOrNil(a.FiredAt), ResolvedAt: timeOrNil(a.ResolvedAt),
		Detection: number(a.Detection().Seconds(), !a.FiredAt.IsZero()), SilencedBy: append([]string{}, silences...),
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

type alertList struct {
	Report reportJSON  `json:"report"`
	Total  int         `json:"total"`
	Items  []AlertJSON `json:"items"`
	Next   string      `json:"next_cursor,omitempty"` // absent on the last page

	Held      []HeldJSON `json:"held"` // as many as a page has rows
	HeldTotal int        `json:"held_total"`
}

func (api *Handler) apiAlerts(c *gin.Context) {
	q := c.Request.URL.Query()
	f := site.AlertFilter{State: state.State(q.Get("state")), Service: q.Get("service"), Severity: q.Get("severity"), SLO: slo.ID(q.Get("slo"))}
	v := api.View()
	all, digest := api.Alerts(f)
	if respond.NotModified(c, v.ReportTag("api", c.Request.URL.Path, c.Request.URL.RawQuery, digest)) {
		return
	}
	if f.State != "" && !slices.Contains(site.AlertStates, f.State) {
		respond.Problem(c, http.StatusBadRequest, fmt.Sprintf("state %q: want pending, firing or resolved", format.Safe(string(f.State), format.MaxName)), nil)
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
	out := alertList{Report: newReportJSON(v), Total: len(all), Items: []AlertJSON{}, Next: next}
	silences := api.Silencing()
	for _, a := range page {
		out.Items = append(out.Items, newAlert(a, silences(a)))
	}
	held := api.Held(f)
	out.Held, out.HeldTotal = []HeldJSON{}, len(held)
	for _, h := range held[:min(limit, len(held))] {
		out.Held = append(out.Held, newHeld(h))
	}
	respond.JSON(c, http.StatusOK, "application/json", out)
}
