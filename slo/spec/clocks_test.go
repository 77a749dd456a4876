package spec

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/zonetest"
)

// RFC 5545: of a time that the clocks show twice an occurrence has the first, and one in a gap the offset from before
// it.
func TestRecurrencesWhereTheClocksChange(t *testing.T) {
	for _, c := range []struct{ zone, start, rule, day, want string }{
		{"Europe/Berlin", "2026-10-01T02:00:00+02:00", "FREQ=DAILY", "2026-10-25", "2026-10-25T00:00:00Z"},
		{"Europe/London", "2026-10-01T01:00:00+01:00", "FREQ=DAILY", "2026-10-25", "2026-10-25T00:00:00Z"},
		{"Australia/Lord_Howe", "2026-03-01T01:45:00+11:00", "FREQ=DAILY", "2026-04-05", "2026-04-04T14:45:00Z"},
		{"America/New_York", "2026-03-01T02:30:00-05:00", "FREQ=DAILY", "2026-03-08", "2026-03-08T07:30:00Z"},
		{"America/Santiago", "2026-08-30T00:00:00-04:00", "FREQ=WEEKLY;BYDAY=SU", "2026-09-06", "2026-09-06T04:00:00Z"},
		{"America/Santiago", "2026-08-30T00:00:00-04:00", "FREQ=DAILY;COUNT=9", "2026-09-06", "2026-09-06T04:00:00Z"},
		{"America/New_York", "2026-03-01T02:30:00-05:00", "FREQ=DAILY;UNTIL=20260308T073000Z", "2026-03-08",
			"2026-03-08T07:30:00Z"},
		{"America/New_York", "2026-03-01T02:30:00-05:00", "FREQ=DAILY;UNTIL=20260308T072959Z", "2026-03-08", ""},
		// start is the second
		{"Europe/Berlin", "2026-10-25T02:30:00+01:00", "FREQ=DAILY", "2026-10-25", "2026-10-25T01:30:00Z"},
	} {
		loc, err := time.LoadLocation(c.zone)
		require.NoError(t, err)
		start, err := time.Parse(time.RFC3339, c.start)
		require.NoError(t, err)
		r, err := parseRRule(c.rule, start.In(loc), time.Minute)
		require.NoError(t, err)
		noon, err := time.ParseInLocation(time.DateOnly+" 15", c.day+" 12", loc)
		require.NoError(t, err)
		var got string
		for _, sp := range r.between(slo.Span{From: noon.Add(-13 * time.Hour), To: noon.Add(13 * time.Hour)}) {
			if sp.From.In(loc).Day() == noon.Day() {
				require.Empty(t, got, "%+v", c)
				got = sp.From.UTC().Format(time.RFC3339)
			}
		}
		require.Equal(t, c.want, got, "%+v", c)
	}
	// Readings in a gap come behind later ones, and are in order nevertheless.
	loc, err := time.LoadLocation("America/New_York")
	require.NoError(t, err)
	r, err := parseRRule("FREQ=DAILY;BYHOUR=2,3;BYMINUTE=0,45", time.Date(2026, 3, 7, 2, 0, 0, 0, loc), time.Minute)
	require.NoError(t, err)
	var got []string
	for _, sp := range r.between(
		slo.Span{From: time.Date(2026, 3, 8, 0, 0, 0, 0, loc), To: time.Date(2026, 3, 8, 3, 30, 0, 0, loc)}) {
		got = append(got, sp.From.UTC().Format("15:04"))
	}
	require.Equal(t, []string{"07:00", "07:00"}, got)
	require.Len(
		t, r.between(slo.Span{From: time.Date(2026, 3, 8, 0, 0, 0, 0, loc), To: time.Date(2026, 3, 8, 4, 0, 0, 0, loc)}), 4)
}

// Around every change of the clocks, a rule occurs once, at the instant that RFC 5545 says.
func TestRecurrencesAgainstTheRule(t *testing.T) {
	t.Parallel()
	rules := []struct {
		text               string
		years, months, day int // from the first occurrence to that near the change
	}{
		{"FREQ=DAILY;COUNT=5", 0, 0, 3}, {"FREQ=WEEKLY;COUNT=3", 0, 0, 7}, {"FREQ=MONTHLY;COUNT=3", 0, 1, 0},
		{"FREQ=YEARLY;COUNT=3", 1, 0, 0},
	}
	checked := 0
	for n, c := range zonetest.Changes(t) {
		for i, r := range c.Readings() {
			rule := rules[(n+i)%len(rules)]
			first := r.AddDate(-rule.years, -rule.months, -rule.day)
			start := slo.WallTime(first, c.Zone)
			if wall(start) != first || first.Day() != r.AddDate(0, 0, -rule.day).Day() {
				continue // in another gap, or no day of its month
			}
			rec, err := parseRRule(rule.text, start, time.Minute)
			require.NoError(t, err)
			want := c.Instant(r)
			got := rec.between(slo.Span{From: want.Add(-20 * time.Hour), To: want.Add(20 * time.Hour)})
			if len(got) != 1 || !got[0].From.Equal(want) {
				t.Fatalf("%s from %s in %s occurs at %v, want %s", rule.text, start, c.Zone, got, want)
			}
			checked++
		}
	}
	require.Greater(t, checked, 1000)
}
