package ui

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/alertpage"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/site"
)

// ShownAlerts is how many alerts a page lists.
const ShownAlerts = 20

// fillAlerts lists what is firing or pending, worst first.
func (ui *Handler) fillAlerts(rows alertpage.Rows, v site.View, p *listPage, all []*state.Alert) {
	p.HasAlerts = ui.Opt.Alerts != nil && len(v.Rep.SLOs) > 0
	for _, a := range all {
		if site.OfEngine(a) {
			if len(p.Own) < ShownAlerts {
				p.Own = append(p.Own, rows.Row(a))
			} else {
				p.MoreAlerts++
			}
			continue
		}
		if len(p.Alerts) == ShownAlerts {
			p.MoreAlerts++
			continue
		}
		p.Alerts = append(p.Alerts, rows.Row(a))
	}
	p.AllAlerts = ui.Href(site.AlertListPath, nil)
}

// sloAlerts lists the alerts of one SLO in one group, and those on all its groups: the present ones, then what is over,
// newest first.
func sloAlerts(rows alertpage.Rows, r *sla.SLOReport, all []*state.Alert) []alertpage.Row {
	var out []alertpage.Row
	for _, a := range all {
		if len(out) < ShownAlerts && (len(a.Group) == 0 || slices.Equal(a.Group, r.Group)) {
			out = append(out, rows.Row(a))
		}
	}
	return out
}

// slaAlerts lists the active alerts of an agreement and of the SLOs that it is made of, in its group, worst first.
func slaAlerts(rows alertpage.Rows, r *sla.SLAReport, active []*state.Alert) []alertpage.Row {
	var out []alertpage.Row
	for _, a := range active {
		part := slices.ContainsFunc(r.SLA.Components, func(c sla.Component) bool { return c.SLO == a.SLO })
		own := a.Agreement == r.SLA.Name && a.Service == r.SLA.Service
		if len(out) < ShownAlerts && (part || own) && sameGroup(a.GroupBy, a.Group, r.SLA.GroupBy, r.Group) {
			out = append(out, rows.Row(a))
		}
	}
	return out
}

// sameGroup reports whether two groups agree in every label that both have.
func sameGroup(names []string, g slo.Group, otherNames []string, other slo.Group) bool {
	for i, name := range names {
		if k := slices.Index(otherNames, name); k >= 0 && i < len(g) && k < len(other) && g[i] != other[k] {
			return false
		}
	}
	return true
}

// pagesFirst is the order of the worst first, before which come the SLOs that have a paging alert firing: an outage is
// more urgent than a budget that was spent weeks ago. An alert about all groups of an SLO raises none of them above the
// others. The SLOs of the engine itself come after those of its users.
func pagesFirst(rows []*sla.SLOReport, pages func(*sla.SLOReport) bool) func(a, b *sla.SLOReport) int {
	worst := sorts[byWorst].By
	place := map[*sla.SLOReport]int{} // of those before or after the others
	for _, r := range rows {
		switch {
		case r.SLO.ID.Service() == incident.EngineService:
			place[r] = 1
		case pages(r):
			place[r] = -1
		}
	}
	if len(place) == 0 {
		return worst
	}
	return func(a, b *sla.SLOReport) int { return cmp.Or(place[a]-place[b], worst(a, b)) }
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
