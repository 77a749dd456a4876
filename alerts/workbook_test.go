package alerts

import (
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/slo"
)

// The detection and reset times of chapter 5 of the SRE workbook for constant
// traffic at 99.9 % over 30 days: 0 means never.
func TestWorkbookTimes(t *testing.T) {
	const (
		never = 0
		m     = time.Minute
		h     = time.Hour
		eval  = 30 * time.Second
	)
	type times struct{ detect, reset time.Duration }
	for _, c := range []struct {
		name         string
		share        float64
		length       time.Duration
		page, ticket times
	}{
		{"100 % for 4h", 1, 4 * h, times{52 * time.Second, 29*m + 48*time.Second}, times{4*m + 19*time.Second, 6 * h}},
		{"15 % for 10m", 0.15, 10 * m, times{5*m + 46*time.Second, 4*m + 31*time.Second}, times{never, never}},
		{"10 % for 1h", 0.10, h, times{8*m + 38*time.Second, 28*m + 12*time.Second}, times{43*m + 12*time.Second, 5*h + 56*m}},
		{"1 % for 12h", 0.01, 12 * h, times{3*h + 36*m, 12 * m}, times{7*h + 12*m, 5*h + 24*m}},
		{"0.2 % for 3d", 0.002, 72 * h, times{never, never}, times{36 * h, 3 * h}},
	} {
		t.Run(c.name, func(t *testing.T) {
			groups, err := Rules(rules.Spec{SLOs: []*slo.SLO{simple(t, "shop/up", "99.9")}}, Options{})
			require.NoError(t, err)
			l := newLab(t, only(t, groups, NameBurnPage, NameBurnTicket)...)
			const start = 80 * h
			step := eval
			switch { // fewer steps where the answer is in hours
			case c.length > 24*h:
				step = 5 * m
			case c.length > 6*h:
				step = m
			}
			x := traffic{perSecond: 1e5, share: c.share, start: start, length: c.length}
			end := start + c.length + 7*h
			l.loadRatios(sloSeries("shop/up"), x, start-10*m, end, step)

			// Both windows fill until the incident ends and then empty, so an alert
			// fires once at most, and begins or ends only near the book's times or at
			// the turns of the incident. Elsewhere a look now and then is enough.
			turns := []time.Duration{start, start + c.length}
			for _, want := range []times{c.page, c.ticket} {
				turns = append(turns, start+want.detect, start+c.length+want.reset)
			}
			var instants []time.Duration
			for at := start; at <= end; at += step {
				near := slices.ContainsFunc(turns, func(turn time.Duration) bool { return (at - turn).Abs() <= 6*step })
				if near || (at-start)%(24*step) == 0 {
					instants = append(instants, at)
				}
			}
			edges := l.runAt(slices.Values(instants), func(l labels.Labels) string { return l.Get(labelSeverity) })
			for severity, want := range map[string]times{SeverityPage: c.page, SeverityTicket: c.ticket} {
				got := edges[severity]
				if want.detect == never {
					require.Empty(t, got, severity)
					continue
				}
				require.Len(t, got, 2, "%s fires once: %s", severity, minutes(got))
				detect, reset := got[0]-start, got[1]-start-c.length
				t.Logf("%-6s detected after %s (book %s), reset after %s (book %s)", severity, detect, want.detect, reset, want.reset)
				require.InDelta(t, want.detect.Seconds(), detect.Seconds(), step.Seconds()+2, "%s detection", severity)
				require.InDelta(t, want.reset.Seconds(), reset.Seconds(), step.Seconds()+30, "%s reset", severity)
			}
		})
	}
}
