package web

import (
	"net/url"
	"slices"
	"time"

	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/web/chart"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/site"
)

// shownAlerts is how many alerts a page lists.
const shownAlerts = 20

// alertRow is one alert in a list.
type alertRow struct {
	Mark      chart.Mark
	Name      string
	Windows   string // of a burn-rate tier
	Severity  string
	Service   string
	About     string // the SLO, the agreement, or nothing
	Href      string // what it is about; "" if no page shows that
	Group     []format.Label
	Since     format.Stamp
	Lasted    string // until now, or until it was over
	Fired     format.Stamp
	Detection string // from the first bad event to firing
	Resolved  format.Stamp
	Removed   bool
}

func (ui *UI) newAlertRow(a *state.Alert, now time.Time) alertRow {
	r := alertRow{
		Mark: chart.AlertMark(a), Name: format.Safe(a.Name, format.MaxName), Severity: format.Safe(a.Severity, format.MaxName), Service: format.Safe(a.Service, format.MaxName),
		Since: format.NewStamp(a.ActiveSince, now), Fired: format.NewStamp(a.FiredAt, now), Resolved: format.NewStamp(a.ResolvedAt, now), Removed: a.Removed,
	}
	end := now
	if !a.ResolvedAt.IsZero() {
		end = a.ResolvedAt
	}
	r.Lasted = format.Duration(end.Sub(a.ActiveSince))
	if !a.FiredAt.IsZero() {
		r.Detection = format.Duration(a.Detection())
	}
	r.Windows, r.Group = format.Safe(chart.AlertWindows(a), format.MaxName), format.Labels(a.GroupBy, a.Group)
	q := site.GroupQuery(a.GroupBy, a.Group)
	switch {
	case a.SLO != "":
		r.About = format.Safe(a.SLO.Name(), format.MaxName)
		q.Set("id", string(a.SLO))
		r.Href = ui.Href("/slo", q) // without a group, the page leads on to all of them
	case a.Agreement != "":
		r.About = format.Safe(a.Agreement, format.MaxName)
		r.Href = ui.Href("/slas", url.Values{"service": {a.Service}})
	case a.Service != "":
		r.Href = ui.Href("/", url.Values{"service": {a.Service}})
	}
	return r
}

// fillAlerts lists what is firing or pending, worst first.
func (ui *UI) fillAlerts(v site.View, p *listPage, all []*state.Alert) {
	p.HasAlerts = ui.Opt.Alerts != nil && len(v.Rep.SLOs) > 0
	for _, a := range all {
		if len(p.Alerts) == shownAlerts {
			p.MoreAlerts++
			continue
		}
		p.Alerts = append(p.Alerts, ui.newAlertRow(a, v.Now))
	}
	p.AllAlerts = ui.Opt.ExternalPath + "/api/v1/alerts"
}

// sloAlerts lists the alerts of one SLO in one group, and those on all its groups:
// the present ones, then what is over, newest first.
func (ui *UI) sloAlerts(v site.View, r *sla.SLOReport, all []*state.Alert) []alertRow {
	var out []alertRow
	for _, a := range all {
		if len(out) < shownAlerts && (len(a.Group) == 0 || slices.Equal(a.Group, r.Group)) {
			out = append(out, ui.newAlertRow(a, v.Now))
		}
	}
	return out
}
