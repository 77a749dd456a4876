package slo

import "time"

// clockTime is the first instant at which a clock in the zone shows the minute
// of the day, or, where the clocks skip it, the instant of the skip. Package
// time promises neither.
func clockTime(y int, m time.Month, d, minute int, loc *time.Location) time.Time {
	t := time.Date(y, m, d, 0, minute, 0, 0, loc)
	want := time.Date(y, m, d, 0, minute, 0, 0, time.UTC) // as a reading of the clock
	from, to := t.ZoneBounds()
	if shown := reading(t); !shown.Equal(want) {
		// Skipped: t is beside the gap. The skip is the end of its zone, or the start.
		if shown.Before(want) {
			return to
		}
		return from
	}
	if !from.IsZero() {
		// Shown twice if the offset before would have shown it before it ended.
		_, offset := from.Add(-time.Nanosecond).Zone()
		if first := want.Add(-time.Duration(offset) * time.Second); first.Before(from) {
			return first.In(loc)
		}
	}
	return t
}

// reading is what a clock shows, as if it were UTC.
func reading(t time.Time) time.Time {
	y, m, d := t.Date()
	h, mi, s := t.Clock()
	return time.Date(y, m, d, h, mi, s, t.Nanosecond(), time.UTC)
}
