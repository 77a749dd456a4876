package slo_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sloengine/sloengine/slo"
)

// zones are chosen for their odd clocks: skipped midnights (Sao_Paulo, Havana,
// Beirut, Cairo), midnights shown twice (Havana), half hours (Lord_Howe, Kolkata),
// two hours (Troll), a skipped day (Apia), a move over midnight (St_Johns).
var zones = []string{
	"UTC", "Europe/Berlin", "Europe/Moscow", "America/Sao_Paulo", "America/Havana", "Asia/Beirut", "Africa/Cairo",
	"Australia/Lord_Howe",
	"Asia/Kolkata", "Antarctica/Troll", "Pacific/Apia", "America/St_Johns", "America/Asuncion", "Asia/Tehran",
}

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation(name)
	require.NoError(t, err)
	return loc
}

func at(t testing.TB, s string) time.Time {
	t.Helper()
	x, err := time.Parse(time.RFC3339, s)
	require.NoError(t, err)
	return x
}

func TestCalendarWindow(t *testing.T) {
	for _, c := range []struct {
		name, zone     string
		unit           slo.CalendarUnit
		now, from, end string
	}{
		{"ordinary day", "Europe/Moscow", slo.Day, "2026-11-20T09:00:00Z", "2026-11-19T21:00:00Z", "2026-11-20T21:00:00Z"},
		{"the first instant belongs to it", "UTC", slo.Day, "2026-11-20T00:00:00Z", "2026-11-20T00:00:00Z",
			"2026-11-21T00:00:00Z"},
		{"day of 23 hours", "Europe/Berlin", slo.Day, "2026-03-29T12:00:00Z", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"},
		{"day of 25 hours", "Europe/Berlin", slo.Day, "2026-10-25T12:00:00Z", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"},
		{"week begins on Monday", "UTC", slo.Week, "2026-11-22T23:59:59Z", "2026-11-16T00:00:00Z", "2026-11-23T00:00:00Z"},
		{"week over a new year", "UTC", slo.Week, "2026-01-01T12:00:00Z", "2025-12-29T00:00:00Z", "2026-01-05T00:00:00Z"},
		{"week with a change of clocks", "Europe/Berlin", slo.Week, "2026-10-25T23:30:00Z", "2026-10-25T23:00:00Z",
			"2026-11-01T23:00:00Z"},
		{"February", "UTC", slo.Month, "2026-02-28T23:59:59Z", "2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z"},
		{"February of a leap year", "UTC", slo.Month, "2028-02-29T12:00:00Z", "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z"},
		{"December", "Europe/Moscow", slo.Month, "2026-12-31T20:59:59Z", "2026-11-30T21:00:00Z", "2026-12-31T21:00:00Z"},
		{"month with a change of clocks", "Europe/Berlin", slo.Month, "2026-10-30T00:00:00Z", "2026-09-30T22:00:00Z",
			"2026-10-31T23:00:00Z"},
		{"quarter", "UTC", slo.Quarter, "2026-05-31T00:00:00Z", "2026-04-01T00:00:00Z", "2026-07-01T00:00:00Z"},
		{"last quarter", "UTC", slo.Quarter, "2026-12-31T23:59:59Z", "2026-10-01T00:00:00Z", "2027-01-01T00:00:00Z"},
		{"year", "Europe/Moscow", slo.Year, "2026-12-31T20:59:59Z", "2025-12-31T21:00:00Z", "2026-12-31T21:00:00Z"},
		{"midnight skipped", "America/Sao_Paulo", slo.Day, "2018-11-04T12:00:00Z", "2018-11-04T03:00:00Z",
			"2018-11-05T02:00:00Z"},
		{"day before a skipped midnight", "America/Sao_Paulo", slo.Day, "2018-11-03T12:00:00Z", "2018-11-03T03:00:00Z",
			"2018-11-04T03:00:00Z"},
		{"23h shown twice", "America/Sao_Paulo", slo.Day, "2018-02-18T02:30:00Z", "2018-02-17T02:00:00Z",
			"2018-02-18T03:00:00Z"},
		{"midnight shown twice", "America/Havana", slo.Day, "2024-11-03T05:30:00Z", "2024-11-03T04:00:00Z",
			"2024-11-04T05:00:00Z"},
		{"skipped day", "Pacific/Apia", slo.Day, "2011-12-30T09:00:00Z", "2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z"},
		{"after a skipped day", "Pacific/Apia", slo.Day, "2011-12-30T12:00:00Z", "2011-12-30T10:00:00Z",
			"2011-12-31T10:00:00Z"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := slo.Window{Calendar: c.unit, Location: zone(t, c.zone)}
			require.Equal(t, c.from, w.Start(at(t, c.now)).UTC().Format(time.RFC3339))
			require.Equal(t, c.end, w.End(at(t, c.now)).UTC().Format(time.RFC3339))
		})
	}
}

func TestRollingWindow(t *testing.T) {
	now := at(t, "2026-03-29T12:00:00+02:00")
	w := slo.Window{Rolling: 30 * 24 * time.Hour}
	require.Equal(t, now.Add(-720*time.Hour), w.Start(now))
	require.Equal(t, now, w.End(now))
	require.Equal(t, 720*time.Hour, w.Longest())
	require.Equal(t, "30d", w.String())
	require.Equal(t, "month Europe/Moscow", slo.Window{Calendar: slo.Month, Location: zone(t, "Europe/Moscow")}.String())
}

var calendarUnits = []slo.CalendarUnit{slo.Day, slo.Week, slo.Month, slo.Quarter, slo.Year}

// Windows tile time: no instant is in none, or in two.
func TestCalendarWindowsTileTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		loc, err := time.LoadLocation(rapid.SampledFrom(zones).Draw(t, "zone"))
		require.NoError(t, err)
		w := slo.Window{Calendar: rapid.SampledFrom(calendarUnits).Draw(t, "unit"), Location: loc}
		now := time.Unix(rapid.Int64Range(631152000, 2208988800).Draw(t, "now"), 0) // 1990 to 2040
		if rapid.Bool().Draw(t, "near a change of clocks") {
			if _, end := now.In(loc).ZoneBounds(); !end.IsZero() {
				now = end.Add(time.Duration(rapid.IntRange(-100, 100).Draw(t, "minutes")) * time.Minute)
			}
		}
		from, to := w.Start(now), w.End(now)
		require.False(t, from.After(now), "%s %s", from, now)
		require.True(t, to.After(now), "%s %s", to, now)
		require.LessOrEqual(t, to.Sub(from), w.Longest())
		require.True(t, w.Start(from).Equal(from))
		require.True(t, w.End(from).Equal(to))
		last := to.Add(-time.Nanosecond)
		require.True(t, w.Start(last).Equal(from))
		require.True(t, w.Start(to).Equal(to))
	})
}

// naiveStart walks back minute by minute for as long as the calendar of the
// zone shows the same unit.
func naiveStart(w slo.Window, now time.Time) time.Time {
	unit := func(t time.Time) [2]int {
		t = t.In(w.Location)
		switch y, m, d := t.Date(); w.Calendar {
		case slo.Day:
			return [2]int{y, int(m)*100 + d}
		case slo.Week:
			y, week := t.ISOWeek()
			return [2]int{y, week}
		case slo.Month:
			return [2]int{y, int(m)}
		case slo.Quarter:
			return [2]int{y, int(m+2) / 3}
		default:
			return [2]int{y, 0}
		}
	}
	t := now.Truncate(time.Minute)
	for unit(t.Add(-time.Minute)) == unit(now) {
		t = t.Add(-time.Minute)
	}
	return t
}

func TestCalendarWindowAgainstNaiveWalk(t *testing.T) {
	walk := func(t *rapid.T, units []slo.CalendarUnit) {
		name := rapid.SampledFrom(zones).Draw(t, "zone")
		if name == "America/St_Johns" {
			t.Skip("shows the end of a day again after the next has begun")
		}
		loc, err := time.LoadLocation(name)
		require.NoError(t, err)
		w := slo.Window{Calendar: rapid.SampledFrom(units).Draw(t, "unit"), Location: loc}
		now := time.Unix(rapid.Int64Range(1230768000, 1893456000).Draw(t, "now"), 0) // 2009 to 2030
		require.Equal(t, naiveStart(w, now).UTC(), w.Start(now).UTC())
	}
	t.Run("short", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) { walk(t, []slo.CalendarUnit{slo.Day, slo.Week}) })
	})
	t.Run("long", func(t *testing.T) {
		// Walking a year takes a while, so this looks at a few only.
		loc := zone(t, "Europe/Berlin")
		for _, now := range []string{"2026-03-31T23:30:00+02:00", "2026-12-31T23:59:00+01:00", "2028-02-29T10:00:00+01:00"} {
			for _, u := range []slo.CalendarUnit{slo.Month, slo.Quarter, slo.Year} {
				w := slo.Window{Calendar: u, Location: loc}
				require.Equal(t, naiveStart(w, at(t, now)).UTC(), w.Start(at(t, now)).UTC())
			}
		}
	})
}

func TestIntersect(t *testing.T) {
	base := at(t, "2026-01-01T00:00:00Z")
	span := func(a, b int) slo.Span {
		return slo.Span{From: base.Add(time.Duration(a) * time.Hour), To: base.Add(time.Duration(b) * time.Hour)}
	}
	require.Equal(t, span(2, 3), span(0, 3).Intersect(span(2, 5)))
	require.Equal(t, span(2, 3), span(2, 5).Intersect(span(0, 3)))
	require.Equal(t, span(1, 2), span(0, 9).Intersect(span(1, 2)))
	require.Zero(t, span(0, 1).Intersect(span(1, 2)).Duration())
	require.Zero(t, span(0, 1).Intersect(span(5, 6)).Duration())
	require.Equal(t, time.Hour, span(0, 1).Duration())
}

func TestNominalWindow(t *testing.T) {
	for unit, days := range map[slo.CalendarUnit]int{slo.Day: 1, slo.Week: 7, slo.Month: 30,
		slo.Quarter: 91, slo.Year: 365} {
		require.Equal(t, time.Duration(days)*24*time.Hour, slo.Window{Calendar: unit, Location: time.UTC}.Nominal(), unit)
	}
	require.Equal(t, time.Hour, slo.Window{Rolling: time.Hour}.Nominal())
}
