package slo

import (
	"fmt"
	"time"
)

// CalendarUnit is the unit of a calendar-aligned window.
type CalendarUnit string

// The calendar units. A week starts on Monday.
const (
	Day     CalendarUnit = "day"
	Week    CalendarUnit = "week"
	Month   CalendarUnit = "month"
	Quarter CalendarUnit = "quarter"
	Year    CalendarUnit = "year"
)

// Window is the period over which an objective is held: rolling (the last
// Rolling before now) or aligned to the calendar of a time zone.
type Window struct {
	Rolling  time.Duration  // > 0 for a rolling window
	Calendar CalendarUnit   // set for a calendar window
	Location *time.Location // of a calendar window; never nil for one
}

// Span is the half-open interval [From, To).
type Span struct {
	From, To time.Time
}

// Duration is the length of the span, never negative.
func (s Span) Duration() time.Duration { return max(0, s.To.Sub(s.From)) }

// Intersect is the part that both spans share; its Duration is 0 if there is none.
func (s Span) Intersect(t Span) Span {
	if t.From.After(s.From) {
		s.From = t.From
	}
	if t.To.Before(s.To) {
		s.To = t.To
	}
	return s
}

// Start is the left edge of the window that contains now. A calendar window
// starts at the first instant of its first day in the window's zone, which is
// not midnight where the clocks skip it; days of 23 and 25 hours are right.
func (w Window) Start(now time.Time) time.Time {
	from, _ := w.edges(now)
	return from
}

// End is the right edge of the window that contains now: now itself for a
// rolling window, the next boundary for a calendar window.
func (w Window) End(now time.Time) time.Time {
	_, to := w.edges(now)
	return to
}

func (w Window) edges(now time.Time) (from, to time.Time) {
	if w.Calendar == "" {
		return now.Add(-w.Rolling), now
	}
	t := now.In(w.Location)
	y, m, d := t.Date()
	switch w.Calendar {
	case Day:
	case Week:
		d -= (int(t.Weekday()) + 6) % 7
	case Month:
		d = 1
	case Quarter:
		m, d = (m-1)/3*3+1, 1
	case Year:
		m, d = time.January, 1
	}
	from = clockTime(y, m, d, 0, w.Location)
	for {
		switch w.Calendar {
		case Day:
			d++
		case Week:
			d += 7
		case Month:
			m++
		case Quarter:
			m += 3
		case Year:
			y++
		}
		to = clockTime(y, m, d, 0, w.Location)
		// Clocks set back over midnight show the old day again; it stays over.
		// A day that the zone never had is empty.
		if to.After(now) {
			return from, to
		}
		from = to
	}
}

// unitDays are the lengths of the units of a calendar in days: the usual one, and the longest.
var unitDays = map[CalendarUnit]struct{ nominal, longest time.Duration }{
	Day: {1, 1}, Week: {7, 7}, Month: {30, 31}, Quarter: {91, 92}, Year: {365, 366},
}

// Longest is an upper bound of the window's length, for retention.
func (w Window) Longest() time.Duration {
	if w.Calendar == "" {
		return w.Rolling
	}
	const clocks = 3 * time.Hour // no zone moves its clocks by more
	return unitDays[w.Calendar].longest*24*time.Hour + clocks
}

// Nominal is the usual length of the window, for what has to be one number, such as a burn-rate factor: a calendar
// month counts as 30 days, a quarter as 91, a year as 365.
func (w Window) Nominal() time.Duration {
	if w.Calendar == "" {
		return w.Rolling
	}
	return unitDays[w.Calendar].nominal * 24 * time.Hour
}

// String is the window as a spec writes it: "30d", or "month Europe/Moscow".
func (w Window) String() string {
	if w.Calendar == "" {
		return FormatDuration(w.Rolling)
	}
	return fmt.Sprintf("%s %s", w.Calendar, w.Location)
}
