package dlq

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/slo/zonetest"
)

// ticks are the times of a schedule from one time to another, both included.
func ticks(t testing.TB, text string, zone *time.Location, from, to time.Time) (all []time.Time) {
	s, err := ParseSchedule(text, zone)
	require.NoError(t, err)
	for at := from.Add(-time.Nanosecond); ; {
		next, err := s.Next(at)
		require.NoError(t, err)
		require.True(t, next.After(at), "%s in %s: %s is not after %s", text, zone, next, at)
		if at = next; at.After(to) {
			return all
		}
		all = append(all, at.UTC())
	}
}

func TestSchedulesWhereTheClocksChange(t *testing.T) {
	for _, c := range []struct {
		zone, text, from, to string
		want                 []string
	}{
		{"Europe/Berlin", "0 2 * * *", "2026-10-24T12:00:00Z", "2026-10-25T12:00:00Z", []string{"00:00"}},
		{"Europe/Berlin", "30 2 * * *", "2026-03-28T12:00:00Z", "2026-03-29T12:00:00Z", []string{"01:30"}},
		{"Europe/London", "0 1 * * *", "2026-10-24T12:00:00Z", "2026-10-25T12:00:00Z", []string{"00:00"}},
		{"Europe/London", "30 1 * * *", "2026-03-28T12:00:00Z", "2026-03-29T12:00:00Z", []string{"01:30"}},
		{"Australia/Lord_Howe", "45 1 * * *", "2026-04-04T03:00:00Z", "2026-04-05T03:00:00Z", []string{"14:45"}},
		{"Australia/Lord_Howe", "15 2 * * *", "2026-10-03T03:00:00Z", "2026-10-04T03:00:00Z", []string{"15:45"}},
		{"America/New_York", "30 2 * * *", "2026-03-07T12:00:00Z", "2026-03-08T12:00:00Z", []string{"07:30"}},
		{"America/New_York", "30 1 * * *", "2026-10-31T12:00:00Z", "2026-11-01T12:00:00Z", []string{"05:30"}},
		{"America/New_York", "30 2 8 3 *", "2026-01-01T00:00:00Z", "2026-12-31T00:00:00Z", []string{"07:30"}},
		{"America/Santiago", "0 0 * * *", "2026-09-05T12:00:00Z", "2026-09-06T12:00:00Z", []string{"04:00"}},
		{"America/Santiago", "30 23 * * *", "2026-04-04T12:00:00Z", "2026-04-05T12:00:00Z", []string{"02:30"}},
		{"America/New_York", "*/30 2-3 * * *", "2026-03-08T00:00:00Z", "2026-03-09T00:00:00Z", []string{"07:00", "07:30"}},
		{"America/New_York", "*/30 1 * * *", "2026-11-01T00:00:00Z", "2026-11-02T00:00:00Z", []string{"05:00", "05:30"}},
		// Every hour is every hour that passes.
		{"America/New_York", "*/30 * * * *", "2026-11-01T05:00:00Z", "2026-11-01T07:00:00Z",
			[]string{"05:00", "05:30", "06:00", "06:30", "07:00"}},
		{"America/New_York", "*/30 * * * *", "2026-03-08T06:00:00Z", "2026-03-08T08:00:00Z",
			[]string{"06:00", "06:30", "07:00", "07:30", "08:00"}},
		{"Australia/Lord_Howe", "15 * * * *", "2026-10-03T14:00:00Z", "2026-10-03T17:00:00Z",
			[]string{"14:45", "15:45", "16:15"}},
	} {
		loc, err := time.LoadLocation(c.zone)
		require.NoError(t, err)
		from, err := time.Parse(time.RFC3339, c.from)
		require.NoError(t, err)
		to, err := time.Parse(time.RFC3339, c.to)
		require.NoError(t, err)
		var got []string
		for _, at := range ticks(t, c.text, loc, from, to) {
			got = append(got, at.Format("15:04"))
		}
		require.Equal(t, c.want, got, "%s in %s", c.text, c.zone)
	}
}

// Around every change of the clocks, a schedule of a time of day runs once a day, at the instant that RFC 5545 says,
// and one of every half hour runs in each that passes.
func TestSchedulesAgainstTheRule(t *testing.T) {
	t.Parallel()
	for _, c := range zonetest.Changes(t) {
		for _, r := range c.Readings() {
			text := fmt.Sprintf("%d %d * * *", r.Minute(), r.Hour())
			s := &Schedule{text, c.Zone}
			want := c.Instant(r)
			got, err := s.Next(want.Add(-3 * time.Hour))
			if err != nil || !got.Equal(want) {
				t.Fatalf("%s in %s runs at %s, want %s (%v)", text, c.Zone, got.UTC(), want, err)
			}
			if next, err := s.Next(want); err != nil || next.Sub(want) < 20*time.Hour || next.Sub(want) > 28*time.Hour {
				t.Fatalf("%s in %s runs again at %s (%v)", text, c.Zone, next.UTC(), err)
			}
		}
		last := c.At.Add(-3 * time.Hour)
		for _, at := range ticks(t, "*/30 * * * *", c.Zone, last, c.At.Add(3*time.Hour)) {
			if at.Sub(last) > 30*time.Minute {
				t.Fatalf("every 30 minutes in %s does not run between %s and %s", c.Zone, last, at)
			}
			last = at
		}
	}
}
