package alerting

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
)

// shopSpec has one objective for the orders of a shop.
const shopSpec = `
version: sloengine/v1
service: shop
slos:
  - name: checkout
    objective: 99
    window: 1d
    indicator: {events: {valid: '{type="order"}', bad: '{outcome="failure"}'}}
`

// TestOwnObjectives counts what an engine says about itself against what was done to it.
func TestOwnObjectives(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e2etest.WriteFile(t, dir, "shop.yaml", shopSpec)
	own, err := filepath.Abs("../../../testdata/specs/sloengine.yaml")
	require.NoError(t, err)
	settings := e2etest.WriteFile(t, dir, "engine.yaml", `evaluator: {interval: 100ms}
limits:
  global: {limit: 1000000, window: 1s, on_exceeded: drop}
  default: off
  contexts:
    - {name: user, from: ["attribute:user"], limit: 1, window: 1d, on_exceeded: drop}
sinks: [{name: out, file: {dir: out}}]
`)
	serve := func() *e2etest.Process {
		return e2etest.Ready(t, "serve", "-f", filepath.Join(dir, "shop.yaml"), "-f", own, "-c", settings, "--data-dir",
			filepath.Join(dir, "data"), "--web.listen-address", "127.0.0.1:0")
	}
	p := serve()
	require.Eventually(t, func() bool {
		return e2etest.OwnSLOs(t, p)["recovery"].Good == 1
	}, testkit.Patience, 200*time.Millisecond)
	var body strings.Builder
	for i := range 50 {
		fmt.Fprintf(&body, `{"id":"a%d","service":"shop","type":"order","attributes":{"user":"u%d"}}`+"\n", i, i%40)
	}
	status, answer := e2etest.Post(t, p.Base+"/api/v1/events", "", body.String())
	require.Equal(t, http.StatusAccepted, status, answer)
	require.Contains(t, answer, `"accepted":40,"duplicates":0,"limited":10`)
	require.Eventually(t, func() bool {
		got := e2etest.OwnSLOs(t, p)
		return got["event-loss"].Good == 40 && got["event-loss"].Bad == 10 && got["retry-overhead"].Good > 0
	}, testkit.Patience, 200*time.Millisecond, "%v", p.Log)

	// Another start is another recovery, and no loss is told twice.
	p.Stop(t)
	p = serve()
	require.Eventually(t, func() bool {
		return e2etest.OwnSLOs(t, p)["recovery"].Good == 2
	}, testkit.Patience, 200*time.Millisecond)
	testkit.Pause(11 * time.Second) // a batch of own events, and some
	require.Equal(t, struct{ Good, Bad int }{40, 10}, e2etest.OwnSLOs(t, p)["event-loss"])
	p.Stop(t)
}

// TestDemoEvaluatesItself: the demo shows the engine's own objectives with data.
func TestDemoEvaluatesItself(t *testing.T) {
	t.Parallel()
	p, ok := e2etest.Start(t, nil, "demo", "--history", "1h", "--data-dir", filepath.Join(t.TempDir(), "demo"),
		"--web.listen-address", "127.0.0.1:0")
	require.True(t, ok, p.Log.String())
	require.Eventually(t, func() bool {
		got := e2etest.OwnSLOs(t, p)
		return got["event-loss"].Good > 0 && got["recovery"].Good == 1 && got["retry-overhead"].Good > 0
	}, testkit.Patience, 500*time.Millisecond, "%v", p.Log)
	page := string(e2etest.Get(t, p.Base+"/?service=sloengine"))
	for _, name := range []string{"event-loss", "recovery", "retry-overhead"} {
		require.Contains(t, page, name)
	}
	p.Stop(t)
}

// TestOwnSpecIsAccepted by check, and generate makes all of it.
func TestOwnSpecIsAccepted(t *testing.T) {
	t.Parallel()
	file := "../../../testdata/specs/sloengine.yaml"
	dir := t.TempDir()
	for _, args := range [][]string{{"check", "-f", file}, {"generate", "all", "-f", file, "--out", dir}} {
		out, log, code := e2etest.Command(t, args...)
		require.Zero(t, code, "%s%s", out, log)
	}
	for name, alert := range map[string]string{"sloengine": "ErrorBudgetBurnPage",
		"sloengine-engine.alerts": "EngineNotReady"} {
		data, err := os.ReadFile(filepath.Join(dir, "rules", name+".yaml"))
		require.NoError(t, err)
		require.Contains(t, string(data), "alert: "+alert)
	}
}
