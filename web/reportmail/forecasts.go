package reportmail

import (
	"github.com/sloengine/sloengine/sla/report"
	"github.com/sloengine/sloengine/web/format"
)

// fillForecasts adds how budgets will probably develop, if the period reaches to now.
func (m *model) fillForecasts(r *report.Report) {
	all := r.Forecasts()
	t := m.table("Forecast").left("SLO/Forecast", "Group").right("Budget left").left("Ahead").
		right("Budget then", "Exhausted until then").left("Pace").right("Past ranges that contained it")
	for _, f := range all {
		now := f.Line.Now
		left, ahead, then, empty, held := format.NoValue, format.NoValue, format.NoValue, format.NoValue, format.NoValue
		if now.Budget.HasData {
			left = format.Percent(now.Budget.Remaining, 0)
		}
		if p := f.Point; p != nil {
			ahead, then, empty, held = format.Lead(p), format.Range(p), format.Odds(p.Exhausted), format.Held(f.Score)
		}
		t.add(format.Safe(string(now.SLO.ID), format.MaxTitle), group(now.SLO.GroupBy, now.Group), left, ahead, then, empty,
			format.PaceSince(&f.Outlook.Forecast, f.Since, r.Now()), held)
	}
	m.show(t)
	if len(all) > 0 {
		m.Notes = append(m.Notes, format.ForecastNotes(all[0].Outlook.Forecast.Time, r.ForecastScore())...)
	}
}
