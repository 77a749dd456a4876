package alerting

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
)

// TestBackfillOfTheProgram sends history in the ways that there are to a running
// program: `send --backfill`, and a replay of an old dead letter.
func TestBackfillOfTheProgram(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	specFile := e2etest.WriteFile(t, dir, "spec.yaml", strings.ReplaceAll(shopSpec, "window: 1d", "window: 30d")+
		"limits:\n  - {name: slow, match: '{type=\"order\"}', warning: 1s}\n")
	p := e2etest.Serve(t, dir, specFile,
		"evaluator: {interval: 50ms}\nlimits:\n  default: off\n  contexts:\n    - {name: user, from: [\"attribute:user\"], "+
			"limit: 1, window: 1d, on_exceeded: drop}\ndead_letters: {filter: {always_save: [order]}}\n")
	now := time.Now()
	line := func(id string, age time.Duration, user string) string {
		return fmt.Sprintf(
			`{"id":%q,"time":%q,"service":"shop","type":"order","outcome":"failure","duration_ms":2000,`+
				`"attributes":{"user":%q}}`+"\n", id, now.Add(-age).UTC().Format(time.RFC3339Nano), user)
	}
	var past strings.Builder
	for i := range 3000 {
		past.WriteString(line(fmt.Sprintf("past-%d", i), time.Duration(i)*14*time.Minute, fmt.Sprintf("u%d", i)))
	}
	send := exec.Command(p.Cmd.Path, "send", "--backfill", "--url", p.Base,
		e2etest.WriteFile(t, dir, "past.ndjson", past.String()))
	send.Env = p.Cmd.Env
	out, err := send.CombinedOutput()
	require.NoError(t, err, string(out))
	status, answer := e2etest.Post(t, p.Base+"/api/v1/events", "",
		line("live", 0, "live")+line("refused", 2*time.Hour, "live"))
	require.Equal(t, http.StatusAccepted, status, answer)
	require.Contains(t, answer, `"dead_lettered":1`)
	require.Equal(t, 1, e2etest.ReplayAll(t, p))

	check := func(p *e2etest.Process) {
		t.Helper()
		require.Eventually(t, func() bool {
			return e2etest.Counter(t, p, "slo_backfilled_events_total") == 3001
		}, testkit.Patience, 50*time.Millisecond)
		for _, family := range []string{"slo_events_total", "sloengine_events_total", "sla_violations_total"} {
			require.Equal(t, 1.0, e2etest.Counter(t, p, family), "%s is of live traffic only", family)
		}
		h := e2etest.Scrape(t, p)["sloengine_event_duration_seconds"].GetMetric()
		require.Len(t, h, 1)
		require.EqualValues(t, 1, h[0].GetHistogram().GetSampleCount())
		require.Equal(t, 3001.0, e2etest.Counter(t, p, "sloengine_fold_backfilled_events_total"))
		var list struct {
			Items []struct {
				Total, Backfilled, Events struct{ Bad int }
				Coverage                  float64
			}
		}
		require.NoError(t, json.Unmarshal(e2etest.Get(t, p.Base+"/api/v1/slos"), &list))
		require.Equal(t, 1, list.Items[0].Total.Bad)
		require.Equal(t, 3001, list.Items[0].Backfilled.Bad)
		require.Equal(t, 3002, list.Items[0].Events.Bad, "the window has them all")
		require.Greater(t, list.Items[0].Coverage, 0.95, "the file has all events of its time, 14 minutes apart")
	}
	check(p)
	p.Kill()
	p = e2etest.Serve(t, dir, specFile, "evaluator: {interval: 50ms}\n")
	check(p)
	p.Stop(t)
}
