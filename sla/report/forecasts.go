package report

import (
	"cmp"
	"slices"
	"time"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/forecast"
)

// recent is how long ago a period may have ended whose report has forecasts, so that one that is sent on the next
// morning has them. They are made at the time of the report, and say nothing about an older period.
const recent = 24 * time.Hour

// Forecast is how the budget of one line will probably develop, as of the time of the report.
type Forecast struct {
	Line    *SLO
	Outlook *sla.Outlook

	// Point is the end of a calendar window, or a week ahead. It is nil if Outlook says why there is no forecast.
	Point *forecast.Point
	Score forecast.Score // of past forecasts of the SLO at the same time ahead, in all of its groups

	// Since is the onset of the incident on the line that is not resolved, or the hour since which the forecast sees one.
	// It is zero if there is none.
	Since time.Time
}

// Forecast is nil if the period has been over for more than a day, and if nothing is forecast.
func (r *Report) Forecast(x *SLO) *Forecast {
	o := x.Now.Outlook
	if o == nil || x.Span.Duration() == 0 || r.now.Sub(x.Span.To) > recent {
		return nil
	}
	out := &Forecast{Line: x, Outlook: o, Since: r.onset(x)}
	if out.Since.IsZero() && o.Forecast.Running != nil {
		out.Since = o.Forecast.Running.Since
	}
	if n := len(o.Forecast.Points); n > 0 {
		out.Point = &o.Forecast.Points[n-1]
		if i := slices.Index(forecast.LeadNames[:], out.Point.LeadName()); i >= 0 {
			out.Score = o.Record[i]
		}
	}
	return out
}

// onset is the earliest onset of the unresolved incidents on a line; zero if there is none.
func (r *Report) onset(x *SLO) (at time.Time) {
	if r.Incidents == nil {
		return at
	}
	for i := range r.Incidents.List {
		inc := &r.Incidents.List[i]
		on := func(a Affected) bool {
			return a.SLO == x.Now.SLO.ID && (len(a.Group) == 0 || slices.Equal(a.Group, x.Now.Group))
		}
		if inc.Resolved.IsZero() && (at.IsZero() || inc.Onset.Before(at)) && slices.ContainsFunc(inc.Affected, on) {
			at = inc.Onset
		}
	}
	return at
}

// probability is that of an empty budget, to order forecasts by.
func (f *Forecast) probability() float64 {
	switch {
	case f.Point == nil:
		return -1
	case f.Outlook.Forecast.Exhaustion.Already:
		return 2
	}
	return f.Point.Exhausted
}

// Forecasts are those of all lines: the most probable to be empty first, and at the end those with a reason for none.
func (r *Report) Forecasts() []*Forecast {
	var out []*Forecast
	for i := range r.SLOs {
		if f := r.Forecast(&r.SLOs[i]); f != nil {
			out = append(out, f)
		}
	}
	slices.SortStableFunc(out, func(a, b *Forecast) int { return cmp.Compare(b.probability(), a.probability()) })
	return out
}

// ForecastScore adds up how past forecasts of the report's SLOs did, at all times ahead and in all groups.
func (r *Report) ForecastScore() forecast.Score {
	var sum forecast.Record
	var last *SLO // whose record is in the sum: all of its groups have the same
	for i := range r.SLOs {
		x := &r.SLOs[i]
		if r.Forecast(x) != nil && (last == nil || last.Now.SLO != x.Now.SLO) {
			sum, last = sum.Add(x.Now.Outlook.Record), x
		}
	}
	return sum.Total()
}
