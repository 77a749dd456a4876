package api

import (
	"time"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/forecast"
	"github.com/sloengine/sloengine/web/format"
)

// forecastJSON is how a budget will probably develop. Its times ahead are seconds after time.
type forecastJSON struct {
	Time        time.Time       `json:"time"`
	Summary     string          `json:"summary"`     // such as "empty in 6h to 9h at this pace"
	NoForecast  string          `json:"no_forecast"` // why there is none; then the rest is empty
	Probability float64         `json:"probability"` // of the ranges
	Points      []futureJSON    `json:"points"`
	Exhaustion  *exhaustJSON    `json:"exhaustion"`
	Pace        *rangeJSON      `json:"pace"`
	Running     *runningJSON    `json:"running_incident"`
	Level       *levelJSON      `json:"level_change"`
	Relief      *reliefJSON     `json:"relief"`
	Score       []forecastScore `json:"score"`
}

// rangeJSON has null for what is beyond the forecast.
type rangeJSON struct {
	Low  *float64 `json:"low_seconds"`
	High *float64 `json:"high_seconds"`
}

type futureJSON struct {
	Ahead     string  `json:"ahead"` // 1h, 1d, 3d, 7d or window_end
	Seconds   float64 `json:"seconds"`
	Low       float64 `json:"low"`
	Median    float64 `json:"median"`
	High      float64 `json:"high"`
	Exhausted float64 `json:"exhausted_probability"`
}

type exhaustJSON struct {
	Already     bool     `json:"already"`
	Within      float64  `json:"within_seconds"`
	Probability float64  `json:"probability"`
	Low         *float64 `json:"low_seconds"`
	Median      *float64 `json:"median_seconds"`
	High        *float64 `json:"high_seconds"`
}

type runningJSON struct {
	Since time.Time `json:"since"`
	Burn  float64   `json:"burn_rate"`
	Empty *float64  `json:"empty_seconds"`
}

type levelJSON struct {
	Since  time.Time `json:"since"`
	Before float64   `json:"bad_ratio_before"`
	After  float64   `json:"bad_ratio_since"`
}

type reliefJSON struct {
	From   time.Time `json:"incident_from"`
	To     time.Time `json:"incident_to"`
	Leaves time.Time `json:"leaves_from"`
	Left   time.Time `json:"leaves_to"`
	Share  float64   `json:"budget_share"`
}

// forecastScore is how past forecasts of the SLO did, in all of its groups.
type forecastScore struct {
	Ahead string `json:"ahead"`
	forecast.Score
}

func secondsAhead(d time.Duration) *float64 { return number(d.Seconds(), d != forecast.Beyond) }

// newForecast is nil if the group has none.
func newForecast(r *sla.SLOReport) *forecastJSON {
	if r.Outlook == nil {
		return nil
	}
	f := &r.Outlook.Forecast
	out := &forecastJSON{
		Time: f.Time.UTC(), Summary: format.Pace(f), NoForecast: f.TooLittle, Probability: forecast.Probability,
		Points: []futureJSON{}, Score: NewScores(&r.Outlook.Record),
	}
	if f.TooLittle != "" {
		return out
	}
	for i := range f.Points {
		p := &f.Points[i]
		out.Points = append(out.Points, futureJSON{p.LeadName(), p.Ahead.Seconds(), p.Low, p.Median, p.High, p.Exhausted})
	}
	e := &f.Exhaustion
	out.Exhaustion = &exhaustJSON{e.Already, e.Within.Seconds(), e.Probability, secondsAhead(e.Low), secondsAhead(e.Median), secondsAhead(e.High)}
	out.Pace = &rangeJSON{secondsAhead(f.Pace.Low), secondsAhead(f.Pace.High)}
	if x := f.Running; x != nil {
		out.Running = &runningJSON{x.Since.UTC(), x.Burn, secondsAhead(x.Empty)}
	}
	if x := f.Level; x != nil {
		out.Level = &levelJSON{x.Since.UTC(), x.Before, x.After}
	}
	if x := f.Relief; x != nil {
		out.Relief = &reliefJSON{x.Incident.From.UTC(), x.Incident.To.UTC(), x.Leaves.From.UTC(), x.Leaves.To.UTC(), x.Share}
	}
	return out
}

// NewScores are the scores of all times ahead.
func NewScores(r *forecast.Record) []forecastScore {
	var out []forecastScore
	for i, name := range forecast.LeadNames {
		out = append(out, forecastScore{name, r[i]})
	}
	return out
}

// capacityJSON compares traffic with the capacity of the spec. Rates are events per second.
type capacityJSON struct {
	Capacity    string   `json:"capacity"` // as in the spec
	PerSecond   float64  `json:"events_per_second"`
	Utilization *float64 `json:"utilization"` // over the last 5 minutes
	Headroom    *float64 `json:"headroom"`

	// Of the hour of the week that comes closest; null until there is one.
	Peak            *time.Time `json:"peak_hour"`
	PeakUtilization *float64   `json:"peak_utilization"`

	Growth  *float64   `json:"growth_per_week"` // 0.1: a tenth more each week
	Reached string     `json:"reached"`         // reached, within, not within twelve weeks, or too little data
	Within  *rangeJSON `json:"reached_within"`
}

// newCapacity is nil without a capacity in the spec.
func newCapacity(r *sla.SLOReport) *capacityJSON {
	c := r.SLO.Indicator.Capacity
	if c.IsZero() {
		return nil
	}
	limit := c.PerSecond()
	out := &capacityJSON{
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
		out.Within = &rangeJSON{secondsAhead(x.Low), secondsAhead(x.High)}
	}
	return out
}
