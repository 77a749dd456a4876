package slo

import "time"

// WallTime is when a clock in the zone shows a reading, which is given as if it were UTC. RFC 5545, 3.3.5: of two such
// instants it is the first, and a reading that the clocks skip has the offset from before the gap. Package time
// promises neither.
func WallTime(reading time.Time, loc *time.Location) time.Time {
	y, m, d := reading.Date()
	h, mi, s := reading.Clock()
	t := time.Date(y, m, d, h, mi, s, reading.Nanosecond(), loc)
	if shown := readingOf(t); !shown.Equal(reading) {
		if shown.Before(reading) { // t is before the gap
			_, offset := t.Zone()
			t = reading.Add(-time.Duration(offset) * time.Second).In(loc)
		}
		return t
	}
	if from, _ := t.ZoneBounds(); !from.IsZero() {
		// Shown twice if the offset before would have shown it before it ended.
		_, offset := from.Add(-time.Nanosecond).Zone()
		if first := reading.Add(-time.Duration(offset) * time.Second); first.Before(from) {
			return first.In(loc)
		}
	}
	return t
}

// clockTime is the first instant at which a clock in the zone shows the minute
// of the day, or, where the clocks skip it, the instant of the skip.
func clockTime(y int, m time.Month, d, minute int, loc *time.Location) time.Time {
	want := time.Date(y, m, d, 0, minute, 0, 0, time.UTC)
	t := WallTime(want, loc)
	if !readingOf(t).Equal(want) {
		t, _ = t.ZoneBounds() // WallTime is behind the gap
	}
	return t
}

// readingOf is what a clock shows, as if it were UTC.
func readingOf(t time.Time) time.Time {
	y, m, d := t.Date()
	h, mi, s := t.Clock()
	return time.Date(y, m, d, h, mi, s, t.Nanosecond(), time.UTC)
}
