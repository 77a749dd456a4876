package api

import (
	"cmp"
	"time"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/forecast"
	"github.com/sloengine/sloengine/web/api/v1"
	"github.com/sloengine/sloengine/web/format"
)

func secondsAhead(d time.Duration) *float64 { return number(d.Seconds(), d != forecast.Beyond) }

func rangeAhead(low, high time.Duration) *v1.ForecastRange {
	return &v1.ForecastRange{Low: secondsAhead(low), High: secondsAhead(high)}
}

// newForecast is nil if the group has none.
func newForecast(r *sla.SLOReport, onset time.Time) *v1.Forecast {
	if r.Outlook == nil {
		return nil
	}
	f := &r.Outlook.Forecast
	out := &v1.Forecast{
		Time: f.Time.UTC(), Summary: format.Pace(f), NoForecast: f.TooLittle, Probability: forecast.Probability,
		Points: []v1.ForecastPoint{}, Score: NewScores(&r.Outlook.Record),
	}
	if f.TooLittle != "" {
		return out
	}
	for i := range f.Points {
		p := &f.Points[i]
		out.Points = append(out.Points, v1.ForecastPoint{
			Ahead: p.LeadName(), Seconds: p.Ahead.Seconds(), Low: p.Low, Median: p.Median, High: p.High, Exhausted: p.Exhausted,
		})
	}
	e := &f.Exhaustion
	out.Exhaustion = &v1.ForecastExhaustion{
		Already: e.Already, Within: e.Within.Seconds(), Probability: e.Probability,
		Low: secondsAhead(e.Low), Median: secondsAhead(e.Median), High: secondsAhead(e.High),
	}
	out.Pace = rangeAhead(f.Pace.Low, f.Pace.High)
	if x := f.Running; x != nil {
		out.Running = &v1.ForecastRunning{Since: cmp.Or(onset, x.Since).UTC(), Burn: x.Burn, Empty: secondsAhead(x.Empty)}
	}
	if x := f.Level; x != nil {
		out.Level = &v1.ForecastLevel{Since: x.Since.UTC(), Before: x.Before, After: x.After}
	}
	if x := f.Relief; x != nil {
		out.Relief = &v1.ForecastRelief{
			From: x.Incident.From.UTC(), To: x.Incident.To.UTC(), Leaves: x.Leaves.From.UTC(),
			Left: x.Leaves.To.UTC(), Share: x.Share,
		}
	}
	return out
}

// NewScores are the scores of all times ahead.
func NewScores(r *forecast.Record) []v1.ForecastScore {
	var out []v1.ForecastScore
	for i, name := range forecast.LeadNames {
		out = append(out, v1.ForecastScore{Ahead: name, Score: r[i]})
	}
	return out
}

// newCapacity is nil without a capacity in the spec.
func newCapacity(r *sla.SLOReport) *v1.Capacity {
	c := r.SLO.Indicator.Capacity
	if c.IsZero() {
		return nil
	}
	limit := c.PerSecond()
	out := &v1.Capacity{
		Capacity: c.String(), PerSecond: limit, Utilization: number(r.Rate/limit, true), Headroom: number(limit-r.Rate, true),
		Reached: string(forecast.ReachUnknown),
	}
	if r.Outlook == nil || r.Outlook.Capacity == nil {
		return out
	}
	x := r.Outlook.Capacity
	out.Reached = string(x.Reached)
	if x.HasPeak {
		out.Peak, out.PeakUtilization = timeOrNil(x.Peak), number(x.Utilization(), true)
	}
	if x.Reached != forecast.ReachUnknown {
		out.Growth = number(x.Growth, true)
	}
	if x.Reached == forecast.ReachedWithin {
		out.Within = rangeAhead(x.Low, x.High)
	}
	return out
}
