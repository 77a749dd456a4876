package reportmail

import (
	"slices"
	"time"

	"github.com/sloengine/sloengine/sla/report"
	"github.com/sloengine/sloengine/web/format"
)

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
	costs := slices.ContainsFunc(all.List, func(x report.Incident) bool { return len(x.Cost) > 0 })
	t := m.table("Incidents").left("Severity", "Incident", "Title", "Service", "Onset").
		right("Detection", "Response", "Duration", "Budget spent").
		columns(column{Number: true, hidden: !costs}, []string{"Cost"})
	for i := range all.List {
		x := &all.List[i]
		severity, response, spent := cell{Text: x.Severity(), Color: grey}, format.NoValue, format.NoValue
		if x.Critical {
			severity.Color = red
		}
		if d, ok := x.Response(); ok {
			response = format.Duration(d)
		}
		duration := format.Duration(x.Duration(r.Now()))
		if x.Resolved.IsZero() {
			duration += ", open"
		}
		if x.Spent >= 0 {
			spent = format.Percent(x.Spent, 1)
		}
		t.add(severity, x.ID, format.Safe(x.Title, format.MaxTitle), format.Safe(x.Service, format.MaxName),
			x.Onset.UTC().Format("Mon 2 Jan 15:04 UTC"), format.Duration(x.Detection()), response, duration, spent,
			format.MoneyTexts(x.Cost))
	}
	m.show(t)
	if len(all.List) > 0 {
		m.Notes = append(m.Notes,
			"Incidents are those that were detected in the period. Medians leave out those of severity warning. The budget "+
				"that an incident spent is a share of the budget of the objective's window.")
	}
}

func took(d *time.Duration) string {
	if d == nil {
		return format.NoValue
	}
	return format.Duration(*d)
}
