package reportmail

import (
	"time"

	"github.com/sloengine/sloengine/sla/report"
	"github.com/sloengine/sloengine/web/format"
)

type incidentRow struct {
	State               mark
	Title, ID, Service  string
	Onset               string
	Detection, Response string
	Duration, Spent     string
	Cost                string
}

// fillIncidents adds the incidents of the period, if they are known.
func (m *model) fillIncidents(r *report.Report) {
	all := r.Incidents
	if all == nil {
		return
	}
	before := all.Before
	if before == nil || m.Compared == "" {
		before = &report.IncidentFigures{Critical: -1, Warnings: -1}
	}
	count := func(n int) string {
		if n < 0 {
			return format.NoValue
		}
		return format.Count(n)
	}
	m.Figures = append(m.Figures,
		figure{Name: "Incidents", Value: count(all.Critical), Before: count(before.Critical)},
		figure{Name: "Incidents of severity warning", Value: count(all.Warnings), Before: count(before.Warnings)},
		figure{Name: "Median detection", Value: took(all.Detection), Before: took(before.Detection)},
		figure{Name: "Median response", Value: took(all.Response), Before: took(before.Response)},
	)
	for i := range all.List {
		if len(m.Incidents) == maxRows {
			m.MoreIncidents = len(all.List) - maxRows
			break
		}
		m.Incidents = append(m.Incidents, newIncident(&all.List[i], r.Now()))
		m.IncidentCosts = m.IncidentCosts || len(all.List[i].Cost) > 0
	}
	if len(all.List) > 0 {
		m.Notes = append(m.Notes, "Incidents are those that were detected in the period. Medians leave out those of severity warning. The budget that an incident spent is a share of the budget of the objective's window.")
	}
}

func took(d *time.Duration) string {
	if d == nil {
		return format.NoValue
	}
	return format.Duration(*d)
}

func newIncident(x *report.Incident, now time.Time) incidentRow {
	out := incidentRow{
		State: mark{x.Severity(), grey}, Title: format.Safe(x.Title, format.MaxTitle), ID: x.ID, Service: format.Safe(x.Service, format.MaxName),
		Onset: x.Onset.UTC().Format("Mon 2 Jan 15:04 UTC"), Detection: format.Duration(x.Detection()), Response: format.NoValue, Duration: format.Duration(x.Duration(now)), Spent: format.NoValue,
	}
	out.Cost = format.MoneyTexts(x.Cost)
	if x.Critical {
		out.State.Color = red
	}
	if d, ok := x.Response(); ok {
		out.Response = format.Duration(d)
	}
	if x.Resolved.IsZero() {
		out.Duration += ", open"
	}
	if x.Spent >= 0 {
		out.Spent = format.Percent(x.Spent, 1)
	}
	return out
}
