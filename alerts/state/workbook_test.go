package state

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/sla"
)

// TestWorkbook reproduces the detection and reset times that the Google SRE
// workbook, chapter 5, gives for 99.9 % over 30 days and steady traffic, with a
// report every ten seconds.
func TestWorkbook(t *testing.T) {
	const never = 0
	m := func(x float64) time.Duration { return time.Duration(x * float64(time.Minute)) }
	for _, c := range []struct {
		name                      string
		ratio                     float64
		lasts                     time.Duration
		pageDetect, pageReset     time.Duration
		ticketDetect, ticketReset time.Duration
	}{
		{"100 % for 4h", 1, 4 * time.Hour, 52 * time.Second, m(29.8), m(4.3), 6 * time.Hour},
		{"15 % for 10m", 0.15, 10 * time.Minute, m(5.8), m(4.5), never, never},
		{"10 % for 1h", 0.1, time.Hour, m(8.6), m(28.2), m(43.2), m(5.94 * 60)},
		{"1 % for 12h", 0.01, 12 * time.Hour, m(3.6 * 60), m(12), m(7.2 * 60), m(5.4 * 60)},
		{"0.2 % for 3d", 0.002, 3 * day, never, never, 36 * time.Hour, 3 * time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSLO(t, "shop/availability", "99.9")
			begin := start.Add(31 * day)
			end := begin.Add(c.lasts)
			traffic := stream{rate: 1000, from: start, incidents: []incident{{begin, end, c.ratio}}}
			machine := newMachine(t)
			fired, over := map[string]time.Time{}, map[string]time.Time{}
			detection := map[string]time.Duration{}
			now := begin.Add(-30 * time.Minute)
			for ; now.Before(end.Add(7 * time.Hour)); now = now.Add(10 * time.Second) {
				for _, tr := range machine.Step(&sla.Report{Time: now, SLOs: []sla.SLOReport{traffic.report(s, nil, now)}}) {
					sev := tr.Alert.Severity
					if tr.Alert.Label("slo_tier") == "" {
						continue // the budget runs out, too
					}
					if _, first := fired[sev]; tr.To == Firing && !first {
						fired[sev], detection[sev] = now, tr.Alert.Detection()
					}
					if tr.To == Resolved {
						over[sev] = now
					}
				}
			}
			for sev, want := range map[string][2]time.Duration{"page": {c.pageDetect, c.pageReset},
				"ticket": {c.ticketDetect, c.ticketReset}} {
				if want[0] == never {
					require.Zero(t, fired[sev], "%s", sev)
					continue
				}
				// The workbook rounds to tenths of a minute or of an hour.
				slack := 0.012*float64(want[0]) + float64(10*time.Second)
				require.InDelta(t, want[0], fired[sev].Sub(begin), slack, "%s: detection %s", sev, fired[sev].Sub(begin))
				require.InDelta(t, want[1], over[sev].Sub(end), 0.012*float64(want[1])+float64(10*time.Second), "%s: reset %s",
					sev, over[sev].Sub(end))
				// The beginning is an estimate: at twice the budget the shortest window
				// takes two and a half minutes to show it.
				require.InDelta(t, fired[sev].Sub(begin), detection[sev], float64(160*time.Second), "%s: measured detection", sev)
			}
			for _, a := range machine.View().Active {
				require.Equal(t, "ErrorBudgetExhausted", a.Name, "nothing burns any more")
			}
		})
	}
}
