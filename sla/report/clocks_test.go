package report

import (
	"testing"
	"time"

	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/zonetest"
)

// Around every change of the clocks, a period begins and ends when a clock first shows its days, and the next one
// follows it.
func TestPeriodsAgainstTheRule(t *testing.T) {
	t.Parallel()
	for _, c := range zonetest.Changes(t) {
		for unit, first := range map[slo.CalendarUnit]func(time.Time) bool{
			slo.Week:  func(day time.Time) bool { return day.Weekday() == time.Monday },
			slo.Month: func(day time.Time) bool { return day.Day() == 1 },
		} {
			for _, days := range []int{-1, 0, 1} {
				y, m, d := c.At.In(c.Zone).Date()
				noon := time.Date(y, m, d+days, 12, 0, 0, 0, c.Zone)
				from, to := zonetest.Period(first, noon, c.Zone)
				p := PeriodOf(unit, noon)
				if sp := p.In(c.Zone); !sp.From.Equal(from) || !sp.To.Equal(to) {
					t.Fatalf("%s in %s is %s to %s, want %s to %s", p, c.Zone, sp.From.UTC(), sp.To.UTC(), from, to)
				}
				if next := p.Shift(1).In(c.Zone).From; !next.Equal(to) {
					t.Fatalf("%s in %s ends at %s, and the next begins at %s", p, c.Zone, to, next.UTC())
				}
			}
		}
	}
}
