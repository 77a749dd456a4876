package receivers

import (
	"testing"
	"time"

	"github.com/prometheus/alertmanager/timeinterval"
	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/sloengine/sloengine/slo/zonetest"
)

// The month in which the clocks go forward has all its days.
func TestMutedDaysOfMonths(t *testing.T) {
	for _, c := range []struct {
		days, zone, now string
		want            bool
	}{
		{"-1", "Europe/Berlin", "2026-03-31T10:00:00Z", true},
		{"-1", "Europe/Berlin", "2026-03-30T10:00:00Z", false},
		{"31", "Europe/Berlin", "2026-03-31T10:00:00Z", true},
		{"31", "Europe/London", "2026-03-31T10:00:00Z", true},
		{"-1", "America/New_York", "2026-03-31T10:00:00Z", true},
		{"-1", "America/Santiago", "2026-09-30T10:00:00Z", true},
		{"-1", "Australia/Lord_Howe", "2026-10-31T10:00:00Z", true},
		{"-1", "Europe/Berlin", "2026-10-31T10:00:00Z", true},
		{"-1", "Europe/Berlin", "2026-10-30T10:00:00Z", false},
	} {
		var i timeinterval.TimeInterval
		require.NoError(t, yaml.Unmarshal([]byte("{days_of_month: ['"+c.days+"'], location: "+c.zone+"}"), &i))
		p := plan{intervals: map[string][]timeinterval.TimeInterval{"i": {i}}}
		now, err := time.Parse(time.RFC3339, c.now)
		require.NoError(t, err)
		require.Equal(t, c.want, p.mutes([]string{"i"}, now), "%+v", c)
	}
}

// Around every change of the clocks, an interval mutes exactly while a clock shows its time of its day.
func TestMutesAgainstTheClock(t *testing.T) {
	t.Parallel()
	for _, c := range zonetest.Changes(t) {
		for _, r := range c.Readings() {
			minute := r.Hour()*60 + r.Minute()
			day := timeinterval.InclusiveRange{Begin: r.Day(), End: r.Day()}
			if r.Minute() == 0 { // the same day from the month's end
				day.Begin = r.Day() - 1 - time.Date(r.Year(), r.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day()
				day.End = day.Begin
			}
			i := timeinterval.TimeInterval{
				Times:       []timeinterval.TimeRange{{StartMinute: minute, EndMinute: minute + 15}},
				DaysOfMonth: []timeinterval.DayOfMonthRange{{InclusiveRange: day}},
				Location:    &timeinterval.Location{Location: c.Zone},
			}
			p := plan{intervals: map[string][]timeinterval.TimeInterval{"i": {i}}}
			shown := 0
			for at := c.Instant(
				r).Add(-3 * time.Hour); at.Before(c.Instant(r).Add(3 * time.Hour)); at = at.Add(15 * time.Minute) {
				want := at.In(c.Zone).Format("2 15:04") == r.Format("2 15:04")
				if got := p.mutes([]string{"i"}, at); got != want {
					t.Fatalf("%s in %s: muted is %t at %s", r, c.Zone, got, at)
				}
				if want {
					shown++
				}
			}
			if (shown == 0) != c.Skipped(r) {
				t.Fatalf("%s in %s is shown %d times", r, c.Zone, shown)
			}
		}
	}
}
