package slo_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/zonetest"
)

// firstDays say on which days a unit of the calendar begins.
var firstDays = map[slo.CalendarUnit]func(day time.Time) bool{
	slo.Day:     func(time.Time) bool { return true },
	slo.Week:    func(day time.Time) bool { return day.Weekday() == time.Monday },
	slo.Month:   func(day time.Time) bool { return day.Day() == 1 },
	slo.Quarter: func(day time.Time) bool { return day.Day() == 1 && day.Month()%3 == 1 },
	slo.Year:    func(day time.Time) bool { return day.YearDay() == 1 },
}

// Around every change of the clocks, a reading is the instant that RFC 5545 says, and the hours of schedules and all
// calendar windows begin and end when a clock first shows them.
func TestClocksAgainstTheRule(t *testing.T) {
	t.Parallel()
	for _, c := range zonetest.Changes(t) {
		for _, r := range c.Readings() {
			if got, want := slo.WallTime(r, c.Zone), c.Instant(r); !got.Equal(want) {
				t.Fatalf("%s: %s is %s, want %s", c.Zone, r.Format("2006-01-02 15:04"), got.UTC(), want)
			}
			text := fmt.Sprintf("Mon-Sun %s-24:00 %s", r.Format("15:04"), c.Zone)
			s, err := slo.ParseSchedule(text)
			require.NoError(t, err)
			noon := time.Date(r.Year(), r.Month(), r.Day(), 12, 0, 0, 0, c.Zone)
			if hours, ok := s.On(noon); !ok || !hours.From.Equal(c.First(r)) {
				t.Fatalf("%s on %s opens at %s, want %s", text, r.Format(time.DateOnly), hours.From.UTC(), c.First(r))
			}
		}
		for unit, first := range firstDays {
			w := slo.Window{Calendar: unit, Location: c.Zone}
			for _, at := range []time.Time{c.At.Add(-90 * time.Minute), c.At.Add(-1), c.At, c.At.Add(time.Hour),
				c.At.Add(25 * time.Hour)} {
				from, to := zonetest.Period(first, at, c.Zone)
				if got := w.Start(at); !got.Equal(from) {
					t.Fatalf("%s at %s begins at %s, want %s", w, at, got.UTC(), from)
				}
				if got := w.End(at); !got.Equal(to) {
					t.Fatalf("%s at %s ends at %s, want %s", w, at, got.UTC(), to)
				}
			}
		}
	}
}
