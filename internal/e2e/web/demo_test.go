package web

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/cmd/sloengine/demo"
	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
)

// startDemo starts a demo with an hour of history, whose story began a while ago, and in which mdm fails after a while.
// Zero leaves that to the demo.
func startDemo(t *testing.T, began, fails time.Duration) *e2etest.Process {
	t.Helper()
	dir := t.TempDir()
	now := time.Now()
	state := map[string]time.Time{"story": now.Add(-began), "until": now.Add(-time.Hour)}
	if fails > 0 {
		state["outage"] = now.Add(fails)
	}
	story, err := json.Marshal(state)
	require.NoError(t, err)
	e2etest.WriteFile(t, dir, "demo.json", string(story))
	p, ok := e2etest.Start(t, nil, "demo", "--data-dir", dir, "--web.listen-address", "127.0.0.1:0")
	require.True(t, ok, p.Log.String())
	require.Eventually(t, func() bool {
		return strings.Contains(p.Log.String(), "events of history sent")
	}, testkit.Patience, 100*time.Millisecond, "%v", p.Log)
	return p
}

// figure is the sum of the samples of a family whose labels match.
func figure(t *testing.T, p *e2etest.Process, family, labels string) (sum float64) {
	t.Helper()
	braces := ""
	if labels != "" {
		braces = `\{[^}]*` + labels + `[^}]*\}`
	}
	for _, m := range regexp.MustCompile(
		`(?m)^`+family+braces+` (\S+)$`).FindAllStringSubmatch(string(e2etest.Get(t, p.Base+"/metrics?name[]="+family)), -1) {
		n, err := strconv.ParseFloat(m[1], 64)
		require.NoError(t, err)
		sum += n
	}
	return sum
}

// TestDemoIsAlive: a demo has work in flight, an event over each kind of rate limit, a sink with an outage and dead
// letters, and none of that is a lost event.
func TestDemoIsAlive(t *testing.T) {
	t.Parallel()
	p := startDemo(t, 12*time.Minute, 0) // the outage of the warehouse begins now
	wait := func(what, family, labels string) {
		t.Helper()
		require.Eventually(t, func() bool {
			return figure(t, p, family, labels) > 0
		}, 2*testkit.Patience, 500*time.Millisecond, "%s\n%v", what, p.Log)
	}
	wait("dead letters", "sloengine_dlq_entries", `origin="sink"`)
	wait("an open breaker", "sloengine_breaker_transitions_total", `breaker="warehouse",to="open"`)
	wait("sampled views of the crawler", "sloengine_ratelimit_sampled_total", `kept="false"`)
	wait("merged views", "sloengine_ratelimit_aggregated_total", "")
	wait("work in flight", "slo_in_flight", `slo_stage="GENERATE_POLICY"`)
	require.Contains(t, string(e2etest.Get(t, p.Base+"/engine")), demo.Crawler)
	require.NotContains(t, string(e2etest.Get(t, p.Base+"/engine")), "(default)", "there is no such limit")
	require.Contains(t, string(e2etest.Get(t, p.Base+"/engine/dead-letters")), "warehouse")
	require.Regexp(t, `<code><bdi>A-[0-9a-f]+-\d+</bdi></code>`,
		string(e2etest.Get(t, p.Base+"/slo?id=insurance-unpaid/completion&group.product=MEDCARE")))
	require.Zero(t, e2etest.OwnSLOs(t, p)["event-loss"].Bad)
	require.Zero(t, figure(t, p, "sloengine_ratelimit_dropped_total", "type="))

	// After the outage everything that waited is delivered.
	require.Eventually(t, func() bool {
		return figure(t, p, "sloengine_breaker_state", `breaker="warehouse"`) == 0 &&
			figure(t, p, "sloengine_sink_lag_records", `sink="warehouse"`) < 100
	},
		2*testkit.Patience, time.Second, "%v", p.Log)
	p.Stop(t)
}

// TestDemoDeliversNoHistory: the sink of the warehouse begins after the history of a new demo, which no rate limit
// touches.
func TestDemoDeliversNoHistory(t *testing.T) {
	t.Parallel()
	p, ok := e2etest.Start(t, nil, "demo", "--history", "6h", "--data-dir", filepath.Join(t.TempDir(), "demo"),
		"--web.listen-address", "127.0.0.1:0")
	require.True(t, ok, p.Log.String())
	require.Eventually(t, func() bool {
		return figure(t, p, "sloengine_sink_delivered_items_total", `sink="warehouse"`) > 0 &&
			figure(t, p, "sloengine_sink_lag_records", `sink="warehouse"`) < 5
	}, testkit.Patience, 100*time.Millisecond, "%v", p.Log)
	m := regexp.MustCompile(`(\d+) events of history sent`).FindStringSubmatch(p.Log.String())
	require.NotNil(t, m, "%v", p.Log)
	history, err := strconv.ParseFloat(m[1], 64)
	require.NoError(t, err)
	require.Greater(t, history, 1000.0)
	delivered := figure(t, p, "sloengine_sink_delivered_items_total", `sink="warehouse"`)
	accepted := figure(t, p, "sloengine_ingest_events_total", `result="accepted"`)
	require.Less(t, delivered, accepted-history+100, "%v of history; the engine has some events of its own", history)
	for _, result := range []string{"rejected", "limited"} {
		require.Zero(t, figure(t, p, "sloengine_ingest_events_total", `result="`+result+`"`), result)
	}
	p.Stop(t)
}
