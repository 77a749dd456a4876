package ui

import (
	"fmt"
	"strings"
	"time"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/forecast"
	"github.com/sloengine/sloengine/sla/history"
	"github.com/sloengine/sloengine/sla/report"
	"github.com/sloengine/sloengine/web/chart"
	"github.com/sloengine/sloengine/web/format"
)

// forecastPart is the section of a forecast.
type forecastPart struct {
	None   string // why there is none
	Head   string // the pace
	Notes  []string
	Rows   []forecastRow
	Score  string
	Stands format.Stamp // when it was made
}

// forecastRow is one time ahead. The bar shows the range between the least of all and the whole budget.
type forecastRow struct {
	Ahead, Low, Median, High, Exhausted string
	Class                               string
	Bar                                 forecastBar
}

type forecastBar struct{ X, Width, Middle, Zero, Class, Label string }

// newForecastPart is nil if the engine forecasts nothing. onset is the earliest onset of the firing alerts, which is
// more exact than the hours that a forecast is made of; zero if none fires.
func newForecastPart(r *sla.SLOReport, all *sla.Outlooks, onset, now time.Time) *forecastPart {
	switch {
	case all == nil:
		return nil
	case r.Outlook == nil && all.Failed != "":
		return &forecastPart{
			None: "The counts for forecasts could not be read: " + format.Safe(all.Failed, format.MaxText) + "."}
	case r.Outlook == nil && all.Groups < all.Of:
		return &forecastPart{None: fmt.Sprintf(
			"This group is not forecast: %s of %s groups are, and those that burn fastest go first. Raise forecast.groups in "+
				"engine.yaml to have more.", format.Count(all.Groups), format.Count(all.Of))}
	case r.Outlook == nil:
		return &forecastPart{
			None: "The engine is still reading the hours that the forecast is made of. After a start that takes some minutes."}
	}
	f := &r.Outlook.Forecast
	if f.TooLittle != "" {
		return &forecastPart{None: "There is no forecast: " + f.TooLittle + "."}
	}
	out := &forecastPart{Head: sentence(format.Pace(f)), Stands: format.NewStamp(f.Time, now),
		Score: scoreText(&r.Outlook.Record)}
	if f.Level != nil {
		out.Notes = append(out.Notes, sentence(format.LevelChange(f.Level, now)))
	}
	if f.Running != nil {
		text := sentence(format.RunningIncident(f, onset, now))
		// The forecast goes by the last sixty minutes or the present hour, which an incident may have left.
		if b, ok := found(r.Burn(5 * time.Minute)); ok && b.Rate <= 1 {
			text += " It may be over: the burn rate of the last 5m is " + format.BurnRate(b.Rate) + "."
		}
		out.Notes = append(out.Notes, text)
	}
	if f.Relief != nil {
		out.Notes = append(out.Notes, sentence(format.Relief(f.Relief)))
	}
	if e := &f.Exhaustion; !e.Already && e.Probability > 0 {
		text := fmt.Sprintf("The budget is exhausted within %s with a probability of %s", format.Ahead(e.Within),
			format.Odds(e.Probability))
		if e.Low != forecast.Beyond {
			text += fmt.Sprintf(", not before %s", format.Ahead(e.Low))
		}
		out.Notes = append(out.Notes, text+".")
	}
	least := 0.0
	for i := range f.Points {
		least = min(least, f.Points[i].Low)
	}
	least = max(least, -4) // further down only the number says it
	x := func(v float64) float64 { return 100 * (max(v, least) - least) / (1 - least) }
	for i := range f.Points {
		p := &f.Points[i]
		row := forecastRow{
			Ahead: format.Lead(p), Low: format.Percent(p.Low, 0), Median: format.Percent(p.Median, 0),
			High:      format.Percent(p.High, 0),
			Exhausted: format.Odds(p.Exhausted), Class: "",
		}
		if p.Exhausted >= 0.5 {
			row.Class = "warn"
		}
		class := "good"
		if p.Median <= 0 {
			class = "bad"
		}
		row.Bar = forecastBar{
			X: chart.Coord(x(p.Low)), Width: chart.Coord(max(1, x(p.High)-x(p.Low))), Middle: chart.Coord(x(p.Median)),
			Zero: chart.Coord(x(0)), Class: class,
			Label: row.Low + " to " + row.High,
		}
		out.Rows = append(out.Rows, row)
	}
	return out
}

// scoreText says how past forecasts did.
func scoreText(r *forecast.Record) string {
	var parts []string
	var made uint64
	for i, name := range forecast.LeadNames {
		made += r[i].Made
		if r[i].Checked > 0 {
			parts = append(parts, fmt.Sprintf("%s of %s at %s", format.Count(r[i].Inside), format.Count(r[i].Checked),
				strings.ReplaceAll(name, "_", " ")))
		}
	}
	if len(parts) == 0 {
		return fmt.Sprintf("None of %s forecasts of this SLO has been checked yet.", format.Count(made))
	}
	return "Past ranges that contained the actual budget, in all groups of this SLO: " +
		strings.Join(parts, ", ") + "."
}

// sentence begins with a capital and ends with a full stop.
func sentence(s string) string { return strings.ToUpper(s[:1]) + s[1:] + "." }

// capacityFacts compare the traffic with the capacity of the spec.
func capacityFacts(r *sla.SLOReport) *capacityPart {
	c := r.SLO.Indicator.Capacity
	if c.IsZero() {
		return nil
	}
	limit := c.PerSecond()
	out := &capacityPart{
		Capacity: c.String(), Used: format.Percent(r.Rate/limit, 0), Headroom: format.Rate(max(0, limit-r.Rate)),
		Peak: format.NoValue, Reached: string(forecast.ReachUnknown),
	}
	if r.Rate > limit {
		out.Class = "hot"
	}
	if r.Outlook == nil || r.Outlook.Capacity == nil {
		return out
	}
	x := r.Outlook.Capacity
	if out.Reached = format.Reach(x); x.HasPeak {
		zone := history.Zone(r.SLO.Window)
		out.Peak, out.PeakHour = format.Percent(x.Utilization(), 0), format.HourOfWeek(x.Peak, zone)
	}
	if x.Reached != forecast.ReachUnknown {
		out.Growth = format.Signed(100*x.Growth, 1) + "% a week"
	}
	return out
}

type capacityPart struct{ Capacity, Used, Class, Headroom, Peak, PeakHour, Reached, Growth string }

// reportForecast is how the budget of one line of a report will probably develop.
type reportForecast struct {
	Href, Name, Service                    string
	Group                                  []format.Label
	Left, Ahead, Range, Empty, Class, Pace string
	Held                                   string
}

// shownReportForecasts is how many forecasts a report does not fold, if fewer budgets are probably exhausted.
const shownReportForecasts = 3

// fillReportForecasts adds the forecasts of a period that reaches to now.
func (ui *Handler) fillReportForecasts(p *reportPage, r *report.Report) {
	all := r.Forecasts()
	for i, f := range all {
		if i == mostReportRows {
			p.MoreForecasts = len(all) - mostReportRows
			break
		}
		now := f.Line.Now
		row := reportForecast{
			Href: ui.SLOHref(now), Name: format.Safe(now.SLO.ID.Name(), format.MaxName),
			Service: format.Safe(now.SLO.ID.Service(), format.MaxName), Group: format.Labels(now.SLO.GroupBy, now.Group),
			Left: format.NoValue, Ahead: format.NoValue, Range: format.NoValue, Empty: format.NoValue,
			Pace: format.PaceSince(&f.Outlook.Forecast, f.Since, r.Now()), Held: format.NoValue,
		}
		if now.Budget.HasData {
			row.Left = format.Percent(now.Budget.Remaining, 0)
		}
		if x := f.Point; x != nil {
			row.Ahead, row.Range, row.Empty, row.Held = format.Lead(x), format.Range(x),
				format.Odds(x.Exhausted), format.Held(f.Score)
			if x.Exhausted >= 0.5 {
				row.Class = "warn"
			}
		}
		if i < shownReportForecasts || row.Class != "" {
			p.Forecasts = append(p.Forecasts, row)
		} else {
			p.OtherForecasts = append(p.OtherForecasts, row)
		}
	}
	if len(all) > 0 {
		p.Notes = append(p.Notes, format.ForecastNotes(all[0].Outlook.Forecast.Time, r.ForecastScore())...)
	}
}
