package delivery

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/sla/report"
	"github.com/sloengine/sloengine/slo"
)

// A report is sent at the first of two times that a clock shows, and at one that the clocks skip by the offset from before it.
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
