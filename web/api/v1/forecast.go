package v1

import (
	"time"

	"github.com/sloengine/sloengine/sla/forecast"
)

// Forecast is how a budget will probably develop. Its times ahead are seconds after time.
type Forecast struct {
	Time        time.Time           `json:"time"`
	Summary     string              `json:"summary"`     // such as "empty in 6h to 9h at this pace"
	NoForecast  string              `json:"no_forecast"` // why there is none; then the rest is empty
	Probability float64             `json:"probability"` // of the ranges
	Points      []ForecastPoint     `json:"points"`
	Exhaustion  *ForecastExhaustion `json:"exhaustion"`
	Pace        *ForecastRange      `json:"pace"`
	Running     *ForecastRunning    `json:"running_incident"`
	Level       *ForecastLevel      `json:"level_change"`
	Relief      *ForecastRelief     `json:"relief"`
	Score       []ForecastScore     `json:"score"`
}

// ForecastRange has null for what is beyond the forecast.
type ForecastRange struct {
	Low  *float64 `json:"low_seconds"`
	High *float64 `json:"high_seconds"`
}

// ForecastPoint is the range of a budget at one time ahead. A budget of 1 is full, and a negative one is overspent.
type ForecastPoint struct {
	Ahead     string  `json:"ahead"` // 1h, 1d, 3d, 7d or window_end
	Seconds   float64 `json:"seconds"`
	Low       float64 `json:"low"`
	Median    float64 `json:"median"`
	High      float64 `json:"high"`
	Exhausted float64 `json:"exhausted_probability"`
}

// ForecastExhaustion is when a budget will probably be empty.
type ForecastExhaustion struct {
	Already     bool     `json:"already"`
	Within      float64  `json:"within_seconds"`
	Probability float64  `json:"probability"`
	Low         *float64 `json:"low_seconds"`
	Median      *float64 `json:"median_seconds"`
	High        *float64 `json:"high_seconds"`
}

// ForecastRunning is an incident that goes on.
type ForecastRunning struct {
	Since time.Time `json:"since"`
	Burn  float64   `json:"burn_rate"`
	Empty *float64  `json:"empty_seconds"`
}

// ForecastLevel is a lasting change of the ratio of bad events.
type ForecastLevel struct {
	Since  time.Time `json:"since"`
	Before float64   `json:"bad_ratio_before"`
	After  float64   `json:"bad_ratio_since"`
}

// ForecastRelief is the next large incident that leaves the window.
type ForecastRelief struct {
	From   time.Time `json:"incident_from"`
	To     time.Time `json:"incident_to"`
	Leaves time.Time `json:"leaves_from"`
	Left   time.Time `json:"leaves_to"`
	Share  float64   `json:"budget_share"`
}

// ForecastScore is how past forecasts of the SLO did, in all of its groups.
type ForecastScore struct {
	Ahead string `json:"ahead"`
	forecast.Score
}

// Capacity compares traffic with the capacity of the spec. Rates are events per second.
type Capacity struct {
	Capacity    string   `json:"capacity"` // as in the spec
	PerSecond   float64  `json:"events_per_second"`
	Utilization *float64 `json:"utilization"` // over the last 5 minutes
	Headroom    *float64 `json:"headroom"`

	// Of the hour of the week that comes closest; null until there is one.
	Peak            *time.Time `json:"peak_hour"`
	PeakUtilization *float64   `json:"peak_utilization"`

	Growth  *float64       `json:"growth_per_week"` // 0.1: a tenth more each week
	Reached string         `json:"reached"`         // reached, within, not within twelve weeks, or too little data
	Within  *ForecastRange `json:"reached_within"`
}
