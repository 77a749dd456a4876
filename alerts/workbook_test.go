package alerts

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/slo"
)

// TestWorkbookTimes holds the condition that the engine and the profile full share to the incidents of chapter 5 of the
// SRE workbook, for constant traffic at 99.9 % over 30 days, as docs/alerts.md has them.
func TestWorkbookTimes(t *testing.T) {
	table := workbookTable(t)["engine"]
	for i, c := range workbook {
		t.Run(fmt.Sprintf("%g for %s", c.share, c.length), func(t *testing.T) {
			groups := Rules(rules.Spec{SLOs: []*slo.SLO{simple(t, "shop/up", "99.9")}}, Options{})
			l := newLab(t, only(t, groups, NameBurnPage, NameBurnTicket)...)
			const start = 80 * time.Hour
			step := 30 * time.Second
			if c.length > 6*time.Hour { // fewer steps where the answer is in hours
				step = time.Minute
			}
			end := start + c.length + 7*time.Hour
			l.loadRatios(sloSeries("shop/up"), traffic{perSecond: 1e5, share: c.share, start: start, length: c.length},
				start-10*time.Minute, end, step)

			// Both windows fill until the incident ends and then empty, so an alert
			// fires once at most, and begins or ends only near the table's times or at
			// the turns of the incident. Elsewhere a look now and then is enough.
			turns := []time.Duration{start, start + c.length}
			for _, cells := range table {
				if begin, reset, fires := cellTimes(t, cells[i]); fires {
					turns = append(turns, start+begin, start+c.length+reset)
				}
			}
			var instants []time.Duration
			for at := start; at <= end; at += step {
				near := slices.ContainsFunc(turns, func(turn time.Duration) bool { return (at - turn).Abs() <= 6*step })
				if near || (at-start)%(24*step) == 0 {
					instants = append(instants, at)
				}
			}
			got := l.runAt(slices.Values(instants), byTier)
			for tier, cells := range table {
				compareTimes(t, tier, cells[i], got[tier], start, c.length, step)
			}
		})
	}
}

// workbook are the incidents of the SRE workbook: the share of bad events, how long it lasts, and for how long
// afterwards alerts are awaited.
var workbook = []struct {
	share         float64
	length, after time.Duration
}{
	{1, 4 * time.Hour, 6*time.Hour + 15*time.Minute},
	{0.15, 10 * time.Minute, 40 * time.Minute},
	{0.1, time.Hour, 6*time.Hour + 15*time.Minute},
	{0.01, 12 * time.Hour, 6*time.Hour + 15*time.Minute},
}

// workbookTable reads the table of docs/alerts.md: by "engine" or "rules" and by tier, a cell for each of the
// incidents.
func workbookTable(t *testing.T) map[string]map[string][]string {
	data, err := os.ReadFile(filepath.Join(docs, "alerts.md"))
	require.NoError(t, err)
	out := map[string]map[string][]string{"engine": {}, "rules": {}}
	for _, m := range regexp.MustCompile(
		"(?m)^\\| `([a-z]+-\\d\\w)`, (engine|rules) \\|(.*)\\|$").FindAllStringSubmatch(string(data), -1) {
		out[m[2]][m[1]] = strings.Split(m[3], "|")
		require.Len(t, out[m[2]][m[1]], len(workbook))
	}
	require.Len(t, out["engine"], 4)
	require.Len(t, out["rules"], 4)
	return out
}

// cellTimes are the times after the begin and after the end of an incident in a cell, such as "1.5 / 5.5" minutes, or
// "never".
func cellTimes(t *testing.T, cell string) (begin, end time.Duration, fires bool) {
	if strings.TrimSpace(cell) == "never" {
		return 0, 0, false
	}
	var b, e float64
	_, err := fmt.Sscanf(cell, "%g / %g", &b, &e)
	require.NoError(t, err, cell)
	return time.Duration(b * float64(time.Minute)), time.Duration(e * float64(time.Minute)), true
}

// compareTimes compares a cell with when an alert fired, to one evaluation.
func compareTimes(t *testing.T, tier, cell string, edges []time.Duration, start, length, eval time.Duration) {
	t.Helper()
	begin, end, fires := cellTimes(t, cell)
	if !fires {
		require.Empty(t, edges, "%s fires", tier)
		return
	}
	require.Len(t, edges, 2, "%s fires once: %s", tier, minutes(edges))
	t.Logf("%s %.1f / %.1f", tier, (edges[0] - start).Minutes(), (edges[1] - start - length).Minutes())
	const rounded = 6 * time.Second // a tenth of a minute
	require.InDelta(t, begin.Seconds(), (edges[0] - start).Seconds(), (eval + rounded).Seconds(), "%s begins", tier)
	require.InDelta(t, end.Seconds(), (edges[1] - start - length).Seconds(), (eval + rounded).Seconds(), "%s ends", tier)
}
