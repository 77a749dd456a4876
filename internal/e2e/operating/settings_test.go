package operating

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/stretchr/testify/require"
)

// What the settings of the process do, seen from outside.
func TestProcessSettings(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	spec := e2etest.WriteFile(t, dir, "spec.yaml", limitSpec)
	p := e2etest.Serve(t, dir, spec, `
ingest: {allowed_lateness: 1h, max_future: 1m, max_body: 64KiB, max_event: 1KiB, max_batch: 5}
known_ids: {max_age: 2h}
checkpoint: {interval: 100ms}
web: {external_url: "https://slo.example.org/below", pprof: true, allowed_hosts: [slo.example.org]}
`)
	send := func(events ...string) string {
		_, answer := e2etest.Post(t, p.Base+"/api/v1/events", "", strings.Join(events, "\n"))
		return answer
	}
	at := func(d time.Duration) string {
		return fmt.Sprintf(`{"service":"shop","type":"order","time":%q}`, time.Now().Add(d).UTC().Format(time.RFC3339))
	}
	order := at(0)
	require.Contains(t, send(at(-50*time.Minute)), `"accepted":1`)
	require.Contains(t, send(at(-70*time.Minute)), `"time_too_old"`)
	require.Contains(t, send(at(30*time.Second)), `"accepted":1`)
	require.Contains(t, send(at(2*time.Minute)), `"time_in_future"`)
	require.Contains(t, send(order, order, order, order, order), `"accepted":5`)
	require.Contains(t, send(order, order, order, order, order, order), `"batch_too_large"`)
	long := func(n int) string {
		return fmt.Sprintf(`{"service":"shop","type":"order","attributes":{"x":%q}}`, strings.Repeat("x", n))
	}
	require.Contains(t, send(long(500)), `"accepted":1`)
	require.Contains(t, send(long(1000)), `"event_too_large"`)
	require.Contains(t, send(long(70_000)), `"body_too_large"`)
	require.Contains(t, string(e2etest.Get(t, p.Base+"/api/v1/engine")), `"horizon_seconds":7200`,
		"max_age")
	require.Eventually(t, func() bool {
		return e2etest.Counter(t, p, "sloengine_checkpoint_written_total") > 0
	}, testkit.Patience, 20*time.Millisecond)
	require.Contains(t, string(e2etest.Get(t, p.Base+"/debug/pprof/cmdline")), "serve")
	require.Contains(t, string(e2etest.Get(t, p.Base+"/engine")), "/below/")
}

// check and every start report settings that are allowed and cannot work as meant.
func TestFindingsAreReported(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	settings := e2etest.WriteFile(t, dir, "engine.yaml", "sinks:\n  - {name: a, file: {dir: a}, ttl: 1s}\n")
	spec := e2etest.WriteFile(t, dir, "spec.yaml", limitSpec)
	out, errs, code := e2etest.Command(t, "check", "--fail-on", "warning", "-f", spec, "-c", settings)
	require.Equal(t, cli.ExitFindings, code, out)
	require.Contains(t, out+errs, "sinks[0].ttl")
	p, ok := e2etest.ServeIn(t, dir, spec, "sinks:\n  - {name: a, file: {dir: a}, ttl: 1s}\n")
	require.True(t, ok, p.Log.String())
	require.Contains(t, p.Log.String(), "questionable setting")
	p.Stop(t)
}

// The thresholds of the alerts on the engine come from its settings.
func TestAlertThresholdsAreSettings(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	spec := e2etest.WriteFile(t, dir, "spec.yaml", limitSpec)
	generate := func(settings string) string {
		args := []string{"generate", "rules", "-f", spec, "--out", "-"}
		if settings != "" {
			args = append(args, "-c", e2etest.WriteFile(t, dir, "engine.yaml", settings))
		}
		out, errs, code := e2etest.Command(t, args...)
		require.Equal(t, cli.ExitOK, code, errs)
		return out
	}
	before := generate("")
	require.Equal(t, before, generate("alerts: {}"))
	require.Contains(t, before, "rate(sloengine_retry_attempted_items_total[5m])) > 50\n")
	for setting, want := range map[string]string{
		"disk_free: 7MiB": "< 7340032\n", "dead_letters: 77": "> 77\n", "dead_letters_growth: 78": "> 78",
		"retries: 79":    "> 79\n",
		"limit_hits: 71": "> 71\n", "limit_drops: 72": "> 72\n", "type_hits: 73": "> 73\n", "context_hits: 74": "> 74\n",
		"critical_limited: 75": "> 75\n", "client_failures: 76": "> 76\n", "rejected_share: 0.77": "> 0.77\n",
		"sink_lag: 78s": "> 78", "fold_lag: 7100": "> 7100\n",
		"dead_lettered_rate: 79.5": "> 79.5\n", "dead_lettered_share: 0.78": "> 0.78\n",
		"dead_letter_queue_depth: 7101": "> 7101\n",
		"outbox_pending: 7102":          "> 7102\n", "outbox_failures: 0.77": "> 0.77\n", "outbox_latency: 6m": "> 360\n",
	} {
		require.NotContains(t, before, want)
		require.Contains(t, generate("alerts: {"+setting+"}"), want, setting)
	}
}
