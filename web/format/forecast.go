package format

import (
	"cmp"
	"math"
	"strconv"
	"time"

	"github.com/sloengine/sloengine/sla/forecast"
)

// RunsOut reports whether a budget that is not empty will be within a week at some recent pace.
func RunsOut(f *forecast.Forecast) bool {
	return f.TooLittle == "" && !f.Exhaustion.Already && f.Pace.Low <= 7*24*time.Hour
}

// Pace says when a budget is empty at the burn rates of the last hours, such as "exhausted in 6h to 9h at this pace".
func Pace(f *forecast.Forecast) string { return f.AtThisPace(Duration) }

// PaceSince is Pace after the onset of the incident that runs, such as
// "incident since 13:39 UTC, exhausted in 6h at this pace". A zero onset means that none does.
func PaceSince(f *forecast.Forecast, onset, now time.Time) string {
	if onset.IsZero() {
		return Pace(f)
	}
	return "incident since " + Minute(onset, now) + ", " + Pace(f)
}

// ahead prints a time ahead by its two largest units, minutes only if it is less than a day.
func ahead(d time.Duration) string { return forecast.Ahead(d, Duration) }

// Ahead prints a time ahead, and what lies beyond the forecast.
func Ahead(d time.Duration) string {
	if d == forecast.Beyond {
		return "beyond"
	}
	return ahead(d)
}

// Lead names the time ahead of a point of a forecast.
func Lead(p *forecast.Point) string {
	if p.WindowEnd {
		return "end of the window, in " + ahead(p.Ahead)
	}
	return "in " + ahead(p.Ahead)
}

// Held says how many past ranges contained the actual budget.
func Held(s forecast.Score) string {
	if s.Checked == 0 {
		return "none checked"
	}
	return Count(s.Inside) + " of " + Count(s.Checked)
}

// Relief says how much budget comes back when, such as "the incident of 13 Nov leaves the window on 13 Dec: +72%".
func Relief(r *forecast.Relief) string {
	const day = "2 Jan"
	out := "the incident of " + r.Incident.From.UTC().Format(day) + " leaves the window on " +
		r.Leaves.From.UTC().Format(day)
	if to := r.Leaves.To.UTC().Format(day); to != r.Leaves.From.UTC().Format(day) {
		out = "the incident of " + r.Incident.From.UTC().Format(day) + " leaves the window from " +
			r.Leaves.From.UTC().Format(day) + " to " + to
	}
	return out + ": " + Signed(100*r.Share, 0) + "%"
}

// RunningIncident says what an incident that runs now does to a budget that is not empty. onset is when it began; zero
// if only the hour is known.
func RunningIncident(f *forecast.Forecast, onset, now time.Time) string {
	r := f.Running
	out := "an incident has been running since " + Minute(cmp.Or(onset, r.Since), now) + " at a burn rate of " +
		BurnRate(r.Burn)
	switch {
	case f.Exhaustion.Already:
		return out
	case r.Empty == forecast.Beyond:
		return out + ". If it continues at this burn rate, the budget lasts"
	}
	return out + ". If it continues at this burn rate, the budget is exhausted in " + ahead(r.Empty)
}

// LevelChange says since when failures have had another level, such as "the level of failures changed 2d 6h ago, from
// 0.1% to 0.74%".
func LevelChange(l *forecast.Level, now time.Time) string {
	percent := func(x float64) string { return strconv.FormatFloat(100*x, 'g', 2, 64) + "%" }
	return "the level of failures changed " + ahead(now.Sub(l.Since).Round(time.Hour)) + " ago, from " +
		percent(l.Before) + " to " + percent(l.After)
}

// Odds prints a probability in percent. It is only 0 or 100 % if no path, or every one, says so.
func Odds(p float64) string {
	switch {
	case p > 0 && p < 0.01:
		return "<1%"
	case p < 1 && p > 0.99:
		return ">99%"
	}
	return strconv.FormatFloat(math.Round(100*p), 'f', 0, 64) + "%"
}

// Reach says when the busiest hour of the week will be at the capacity.
func Reach(c *forecast.Capacity) string {
	switch c.Reached {
	case forecast.ReachedAlready:
		return "reached"
	case forecast.ReachedWithin:
		low := weeks(c.Low)
		if c.High == forecast.Beyond {
			return "in " + low + " at the earliest"
		}
		if high := weeks(c.High); high != low {
			return "in " + low + " to " + high
		}
		return "in " + low
	}
	return string(c.Reached)
}

// weeks prints a time ahead in days or weeks: a trend of weeks tells no hours.
func weeks(d time.Duration) string {
	if days := int(math.Round(d.Hours() / 24)); days < 14 {
		return strconv.Itoa(max(1, days)) + "d"
	}
	return strconv.Itoa(int(math.Round(d.Hours()/24/7))) + " weeks"
}

// HourOfWeek names an hour of the week in a zone, such as "Wednesday 14:00".
func HourOfWeek(t time.Time, loc *time.Location) string { return t.In(loc).Format("Monday 15:04 MST") }

// Range prints the ends of a range of remaining budgets.
func Range(p *forecast.Point) string { return Percent(p.Low, 0) + " to " + Percent(p.High, 0) }

// ForecastNotes explain the forecasts of a report that were made at a time, and say how past ones did.
func ForecastNotes(made time.Time, score forecast.Score) []string {
	out := []string{"Forecasts are those of " + made.UTC().Format("2006-01-02 15:04 UTC") +
		". They are about the budget of the objective's window: 90% of the futures lie in the range. The probability is " +
		"that of a budget that is exhausted at some time until then."}
	if share, ok := score.Share(); ok {
		return append(out, "The engine has checked "+Plural(score.Checked, "past range")+" of these SLOs: "+
			Percent(share, 0)+" contained the actual budget.")
	}
	return append(out, "None of "+Plural(score.Made, "past forecast")+" of these SLOs has been checked yet.")
}
