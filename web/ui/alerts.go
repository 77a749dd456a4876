package ui

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/web/chart"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/site"
)

// ShownAlerts is how many alerts a page lists.
const ShownAlerts = 20

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
	Silenced  bool   // receivers do not hear of it
	Silences  string // address of the silences
	Silence   string // address of the form that silences it; "" if it is, or if the reader may not
}

// alertRows makes rows of one answer.
type alertRows struct {
	ui         *Handler
	now        time.Time
	silences   func(*state.Alert) []string
	maySilence bool
}

func (ui *Handler) newAlertRows(c *gin.Context, now time.Time) alertRows {
	return alertRows{ui, now, ui.Silencing(), ui.maySilence(c)}
}

// maySilence reports whether the reader may silence alerts, and that would have an effect.
func (ui *Handler) maySilence(c *gin.Context) bool {
	return ui.Opt.Silences != nil && ui.Opt.Silences.HasReceivers() && ui.Opt.May(c, site.Operate)
}

func (rows *alertRows) row(a *state.Alert) alertRow {
	ui, now := rows.ui, rows.now
	r := alertRow{
		Mark: chart.AlertMark(a), Name: format.Safe(a.Name, format.MaxName),
		Severity: format.Safe(a.Severity, format.MaxName), Service: format.Safe(a.Service, format.MaxName),
		Since: format.NewStamp(a.ActiveSince, now), Fired: format.NewStamp(a.FiredAt, now),
		Resolved: format.NewStamp(a.ResolvedAt, now), Removed: a.Removed,
	}
	if ids := rows.silences(a); len(ids) > 0 {
		r.Silenced, r.Silences = true, ui.Href(site.SilenceListPath, nil)+"#"+url.PathEscape(ids[0])
	}
	if rows.maySilence && a.State == state.Firing && !r.Silenced {
		r.Silence = ui.SilenceHref(a)
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
	case a.Engine:
		r.Service, r.Href = "engine", ui.Href("/engine", nil)
	case a.Service != "":
		r.Href = ui.Href("/", url.Values{"service": {a.Service}})
	}
	return r
}

// fillAlerts lists what is firing or pending, worst first.
func (ui *Handler) fillAlerts(rows alertRows, v site.View, p *listPage, all []*state.Alert) {
	p.HasAlerts = ui.Opt.Alerts != nil && len(v.Rep.SLOs) > 0
	for _, a := range all {
		if len(p.Alerts) == ShownAlerts {
			p.MoreAlerts++
			continue
		}
		p.Alerts = append(p.Alerts, rows.row(a))
	}
	p.AllAlerts = ui.Opt.ExternalPath + "/api/v1/alerts"
}

// isOf reports whether an alert of r's service level is about its group, or about all groups.
func isOf(a *state.Alert, r *sla.SLOReport) bool {
	return len(a.Group) == 0 || slices.Equal(a.Group, r.Group)
}

// sloAlerts lists the alerts of one SLO in one group, and those on all its groups: the present ones, then what is over,
// newest first.
func sloAlerts(rows alertRows, r *sla.SLOReport, all []*state.Alert) []alertRow {
	var out []alertRow
	for _, a := range all {
		if len(out) < ShownAlerts && isOf(a, r) {
			out = append(out, rows.row(a))
		}
	}
	return out
}

// pagesFirst is the order of the worst first, before which come the groups that have a page firing: what goes on now is
// more urgent than a budget that was spent weeks ago. A page about all groups of a service level raises none of them.
func pagesFirst(c site.ActiveAlerts, rows []*sla.SLOReport) func(a, b *sla.SLOReport) int {
	worst := sorts[byWorst].by
	paging := map[*sla.SLOReport]bool{}
	for _, r := range rows {
		if c.Own(r).Pages > 0 {
			paging[r] = true
		}
	}
	if len(paging) == 0 {
		return worst
	}
	return func(a, b *sla.SLOReport) int {
		if paging[a] != paging[b] {
			if paging[a] {
				return -1
			}
			return 1
		}
		return worst(a, b)
	}
}

// alertsText counts the active alerts of a group.
func alertsText(n site.AlertCount) (text, class string) {
	switch {
	case n.Firing > 0:
		return strconv.Itoa(n.Firing) + " firing", "hot"
	case n.Pending > 0:
		return strconv.Itoa(n.Pending) + " pending", "dim"
	}
	return format.NoValue, "dim"
}

// mostAlerts puts the reports with most firing alerts first, then those with most pending ones.
func mostAlerts(c site.ActiveAlerts) func(a, b *sla.SLOReport) int {
	return func(a, b *sla.SLOReport) int {
		x, y := c.Of(a), c.Of(b)
		return cmp.Or(y.Firing-x.Firing, y.Pending-x.Pending)
	}
}

// holdBack says on the page of an SLO which of its alerts are held back, and why:
// at their tier, or below all tiers.
func (ui *Handler) holdBack(r *sla.SLOReport, tiers []alerts.Tier, p *sloPage) {
	for _, h := range ui.Held(site.AlertFilter{SLO: r.SLO.ID}) {
		if len(h.Group) > 0 && !slices.Equal(h.Group, r.Group) {
			continue
		}
		var why []string
		for _, x := range h.Why {
			why = append(why, x.String())
		}
		at := slices.IndexFunc(tiers, func(t alerts.Tier) bool { return h.Tier != "" && t.Name == h.Tier })
		if at >= 0 && at < len(p.Tiers) {
			p.Tiers[at].On, p.Tiers[at].Verdict, p.Tiers[at].Held = false, "held back", why
			continue
		}
		for _, text := range why {
			p.Held = append(p.Held, format.Safe(h.Name, format.MaxName)+" is held back: "+text)
		}
	}
}
