package reportmail

import (
	"github.com/sloengine/sloengine/sla/report"
	"github.com/sloengine/sloengine/web/format"
)

type forecastRow struct {
	Name, Group, Left, Ahead, Range, Empty, Pace, Held string
}

// fillForecasts adds how budgets will probably develop, if the period reaches to now.
func (m *model) fillForecasts(r *report.Report) {
	all := r.Forecasts()
	for _, f := range all {
		if len(m.Forecasts) == maxRows {
			m.MoreForecasts = len(all) - maxRows
			break
		}
		m.Forecasts = append(m.Forecasts, newForecast(f))
	}
	if len(all) > 0 {
		m.Notes = append(m.Notes, format.ForecastNotes(all[0].Outlook.Forecast.Time, r.ForecastScore())...)
	}
}

func newForecast(f *report.Forecast) forecastRow {
	now := f.Line.Now
	out := forecastRow{
		Name: format.Safe(string(now.SLO.ID), format.MaxTitle), Group: group(now.SLO.GroupBy, now.Group), Pace: format.Pace(&f.Outlook.Forecast),
		Left: format.NoValue, Ahead: format.NoValue, Range: format.NoValue, Empty: format.NoValue, Held: format.NoValue,
	}
	if now.Budget.HasData {
		out.Left = format.Percent(now.Budget.Remaining, 0)
	}
	if p := f.Point; p != nil {
		out.Ahead, out.Range, out.Empty, out.Held = format.Lead(p), format.Range(p), format.Odds(p.Exhausted), format.Held(f.Score)
	}
	return out
}
