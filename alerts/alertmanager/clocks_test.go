package alertmanager

import (
	"slices"
	"testing"
	"time"

	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/zonetest"
)

// Around every change of the clocks, all of a daily maintenance is muted, and at most the hour that they skip or repeat
// as well.
func TestMutingAgainstTheRule(t *testing.T) {
	t.Parallel()
	for _, c := range zonetest.Changes(t) {
		for n, r := range c.Readings() {
			length := time.Duration(1+n%3) * 45 * time.Minute
			real := slo.Span{From: c.Instant(r), To: c.Instant(r).Add(length)}
			cor := slo.Correction{Start: slo.WallTime(r.AddDate(0, 0, -3), c.Zone), Duration: length, RRule: "FREQ=DAILY"}
			cor.Between = func(slo.Span) []slo.Span { return []slo.Span{real} }
			list, _ := muting(cor, c.At.AddDate(0, 0, -2), c.At.AddDate(0, 0, 2))
			more := time.Duration(0)
			for at := real.From.Add(-3 * time.Hour); at.Before(real.To.Add(3 * time.Hour)); at = at.Add(15 * time.Minute) {
				muted := slices.ContainsFunc(list, func(iv interval) bool { return iv.holds(t, at) })
				switch in := !at.Before(real.From) && at.Before(real.To); {
				case in && !muted:
					t.Fatalf("%s for %s in %s is not muted at %s", r, length, c.Zone, at)
				case muted && !in:
					more += 15 * time.Minute
				}
			}
			if more > (c.After - c.Before).Abs() {
				t.Fatalf("%s for %s in %s mutes %s more", r, length, c.Zone, more)
			}
		}
	}
}
