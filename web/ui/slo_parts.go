package ui

import (
	"net/url"
	"slices"
	"time"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo/traces"
	"github.com/sloengine/sloengine/web/chart"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/site"
)

// openIncident is an incident that is not resolved.
type openIncident struct {
	Mark            chart.Mark
	ID, Title, Href string
	Since, Ack      string
}

// incidentsOf are those that an alert on a group joined, or one on all groups of its SLO, the latest first.
func (ui *Handler) incidentsOf(r *sla.SLOReport, now time.Time) (out []openIncident) {
	if ui.Opt.Incidents == nil {
		return nil
	}
	for _, inc := range ui.Opt.Incidents.View().Open() {
		if !slices.ContainsFunc(inc.Affected(), func(a incident.Affected) bool {
			return a.SLO == string(r.SLO.ID) && (len(a.Group) == 0 || slices.Equal(a.Group, r.Group))
		}) {
			continue
		}
		x := openIncident{Mark: chart.Bad("open"), ID: inc.ID, Title: format.Safe(inc.Title, format.MaxTitle),
			Href: ui.Href(site.IncidentPath, url.Values{"id": {inc.ID}}), Since: format.Minute(inc.Onset, now),
			Ack: "not acknowledged"}
		if inc.Ack != nil {
			x.Mark = chart.Wait("acknowledged")
			x.Ack = "acknowledged by " + format.Safe(inc.Ack.By, format.MaxName) + " " + format.Minute(inc.Ack.Time, now)
		}
		out = append(out, x)
	}
	return out
}

// partRow is what one engine counted of a group over the period.
type partRow struct {
	Engine, Good, Bad, Note string
	Stale                   bool
}

// partRows are those of a service level; none unless this is a view.
func (ui *Handler) partRows(r *sla.SLOReport, now time.Time) (out []partRow) {
	if ui.Opt.Parts == nil {
		return nil
	}
	for _, p := range ui.Opt.Parts(r) {
		row := partRow{Engine: format.Safe(p.Engine, format.MaxTitle), Good: format.NoValue,
			Bad: format.NoValue, Stale: p.Stale}
		if p.Known {
			row.Good, row.Bad = format.Count(p.Counts.Good), format.Count(p.Counts.Bad)
		}
		switch {
		case p.Stale && p.Answered.IsZero():
			row.Note = "missing, and it has not answered yet"
		case p.Stale:
			row.Note = "stale: its last answer is " + format.Duration(now.Sub(p.Answered)) + " old, and not in the numbers"
		case p.Other && !p.Known:
			row.Note = "all its groups are taken, so its events of this group are in __other__"
		case !p.Known:
			row.Note = "no event of this group"
		}
		out = append(out, row)
	}
	return out
}

// shownTraces is how many traces a page lists. The API has the rest.
const shownTraces = 5

// tracesPart is the traces of the last bad events of a group.
type tracesPart struct {
	Within string
	Rows   []traceRow
	More   int
}

type traceRow struct {
	At             format.Stamp
	Type, Duration string
	ID, Href       string // Href is "" without web.trace_url
}

// newTraces is nil if none are known.
func (ui *Handler) newTraces(r *sla.SLOReport, now time.Time) *tracesPart {
	list := ui.Traces(r.SLO.ID, r.Group, now)
	if len(list) == 0 {
		return nil
	}
	p := &tracesPart{Within: format.Duration(traces.Retention), More: max(0, len(list)-shownTraces)}
	for i := range list[:len(list)-p.More] {
		t := &list[i]
		row := traceRow{At: format.NewStamp(t.Time, now), Type: format.Safe(t.Type, format.MaxName),
			Duration: format.NoValue, ID: t.ID.String(), Href: site.TraceURL(ui.Opt.TraceURL, t.ID)}
		if t.Duration >= 0 {
			row.Duration = format.Took(t.Duration)
		}
		p.Rows = append(p.Rows, row)
	}
	return p
}
