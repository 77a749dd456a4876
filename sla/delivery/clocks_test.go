package delivery

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/sla/report"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/zonetest"
)

// A report is sent at the first of two times that a clock shows, and at one that the clocks skip by the offset from
// before it.
func TestReportsWhereTheClocksChange(t *testing.T) {
	for _, c := range []struct {
		zone, now string
		at        Clock
		want      string
	}{
		{"Europe/Berlin", "2026-10-26T12:00:00Z", Clock{2, 30}, "2026-10-25T00:30:00Z"},
		{"America/New_York", "2026-03-09T12:00:00Z", Clock{2, 30}, "2026-03-08T07:30:00Z"},
		{"America/Santiago", "2026-09-07T12:00:00Z", Clock{0, 0}, "2026-09-06T04:00:00Z"},
	} {
		loc, err := time.LoadLocation(c.zone)
		require.NoError(t, err)
		now, err := time.Parse(time.RFC3339, c.now)
		require.NoError(t, err)
		r := Report{Every: slo.Week, Weekday: time.Sunday, At: c.at}
		p := report.PeriodOf(slo.Week, now.In(loc)).Shift(-2)
		require.Equal(t, c.want, r.due(p, loc).UTC().Format(time.RFC3339), c.zone)
	}
}

// Around every change of the clocks, a report on a week or a month is due once, at the instant that RFC 5545 says.
func TestReportsAgainstTheRule(t *testing.T) {
	t.Parallel()
	for _, c := range zonetest.Changes(t) {
		for _, r := range c.Readings() {
			for _, every := range []slo.CalendarUnit{slo.Week, slo.Month} {
				if every == slo.Month && r.Day() > 28 {
					continue
				}
				rep := Report{Every: every, Weekday: r.Weekday(), Day: r.Day(), At: Clock{r.Hour(), r.Minute()}}
				want, before := c.Instant(r), report.PeriodOf(every, r).Shift(-1)
				if p, at := rep.latest(want, c.Zone); p != before || !at.Equal(want) {
					t.Fatalf("%s in %s: the report on %s is due at %s, want %s at %s", r, c.Zone, p, at.UTC(), before, want)
				}
				if p, _ := rep.latest(want.Add(-1), c.Zone); p != before.Shift(-1) {
					t.Fatalf("%s in %s: before it, the last report is that on %s", r, c.Zone, p)
				}
				if at := rep.next(want.Add(-1), c.Zone); !at.Equal(want) {
					t.Fatalf("%s in %s: the next report is due at %s, want %s", r, c.Zone, at.UTC(), want)
				}
			}
		}
	}
}
