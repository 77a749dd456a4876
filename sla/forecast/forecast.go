package forecast

import (
	"time"

	"github.com/sloengine/sloengine/slo"
)

// Probability is that of every range: 5 % of the paths end below it and 5 % above.
const Probability = 0.9

// LeadTimes are the times ahead for which a remaining budget is given.
var LeadTimes = []time.Duration{time.Hour, 24 * time.Hour, 3 * 24 * time.Hour, 7 * 24 * time.Hour}

const (
	// Lookback is how much of the past a forecast learns from: five whole weeks. What leaves a longer window is taken from
	// further back.
	Lookback = 5 * week

	day  = 24 * time.Hour
	week = 7 * day
)

// Hour is what was counted in an hour of the clock, without planned maintenance: events or slices.
type Hour struct {
	Valid, Bad float64
	// Observed is the share of the hour, in [0,1], that was observed and not taken out by a correction.
	Observed float64
}

// Question is what a forecast is asked about a budget.
type Question struct {
	Now    time.Time // not before the first hour of the past, nor after the last
	Window slo.Window
	Budget float64 // 1 - objective, in (0,1)

	// Valid and Bad are the counts of the window that ends now, and anchor the forecast to the budget that is shown beside
	// it. If Valid is 0 they are taken from the hours, which are exact to a part of an hour.
	Valid, Bad float64

	// Ahead is the share of each of the next hours of the clock, in [0,1], that planned maintenance leaves; 1 beyond its
	// end. The first is the hour that Now lies in.
	Ahead []float64

	// Soon is how far ahead Exhaustion.Soon looks, at most a week; 0 asks for nothing.
	Soon time.Duration

	// Seed tells groups apart. The random numbers follow from it and from the hour of Now, so two engines and a replay
	// give the same forecast, and it does not flicker within the hour.
	Seed uint64
}

// Forecast is the answer to a Question.
type Forecast struct {
	Time time.Time // of the question

	// TooLittle says why there is no forecast; "" if there is one. The fields below are then zero.
	TooLittle string

	Points     []Point // at LeadTimes, in order, and then at the end of a calendar window
	Exhaustion Exhaustion
	Pace       Pace
	Running    *Running // the incident that runs now; nil if there is none
	Level      *Level   // a change of the level of failures; nil if there is none
	Relief     *Relief  // the largest that is known; nil if none is worth a word
}

// Point is the budget remaining at one time ahead, where 1 is the whole budget and less than 0 is overspent.
type Point struct {
	Ahead     time.Duration
	WindowEnd bool // the end of a calendar window, just before the budget is renewed

	Low, Median, High float64 // the range that holds with Probability, and its middle
	Exhausted         float64 // probability, in [0,1], that the budget is empty then or was in between
}

// Exhaustion is when a budget that is not empty yet will be.
type Exhaustion struct {
	Already     bool          // it is empty now
	Within      time.Duration // how far ahead was looked: a week, or up to the end of a calendar window if that is later
	Probability float64       // in [0,1], that it is empty within that time
	Soon        float64       // the same within Question.Soon

	// The time to exhaustion is between Low and High with forecast.Probability. Beyond stands for "not within Within".
	Low, Median, High time.Duration
}

// Beyond is a time to exhaustion that is further away than was looked.
const Beyond = time.Duration(1<<63 - 1)

// Pace is when the budget is empty if it goes on being spent as it was in the last hour, six hours and three days.
// Beyond stands for never: at that rate, what leaves the window makes up for what comes.
type Pace struct{ Low, High time.Duration }

// AtThisPace says when the budget is empty at the burn rates of the last hours, such as "exhausted in 6h to 9h at this
// pace". text prints a duration.
func (f *Forecast) AtThisPace(text func(time.Duration) string) string {
	p := f.Pace
	low, high := Ahead(p.Low, text), Ahead(p.High, text)
	switch {
	case f.TooLittle != "":
		return "no forecast: " + f.TooLittle
	case f.Exhaustion.Already:
		return "exhausted now"
	case p.Low == Beyond:
		return "not exhausted within the window at this pace"
	case p.High == Beyond:
		return "exhausted in " + low + " at the fastest recent pace, not at the slowest"
	case low == high:
		return "exhausted in " + low + " at this pace"
	}
	return "exhausted in " + low + " to " + high + " at this pace"
}

// Ahead prints a time ahead to the minute, and from a day on to the hour.
func Ahead(d time.Duration, text func(time.Duration) string) string {
	switch {
	case d < time.Minute:
		return "a minute"
	case d < 24*time.Hour:
		return text(d.Round(time.Minute))
	}
	return text(d.Round(time.Hour))
}

// Running is an incident that has not ended.
type Running struct {
	Since time.Time     // start of the hour in which it began
	Burn  float64       // its present burn rate
	Empty time.Duration // how far ahead the budget is empty if it goes on like that; Beyond if it never is
}

// Relief is budget that comes back because an incident leaves a rolling window.
type Relief struct {
	Incident slo.Span // hours of the incident
	Leaves   slo.Span // when these leave the window
	Share    float64  // of the whole budget
}
