package main

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// oneSlothSLO is the smallest file that somebody who comes from Sloth has.
const oneSlothSLO = `version: prometheus/v1
service: booking
labels: {owner: bookers, tier: "2"}
slos:
  - name: availability
    objective: 99.9
    sli:
      events:
        error_query: sum(rate(http_requests_total{code=~"5.."}[{{.window}}]))
        total_query: sum(rate(http_requests_total[{{.window}}]))
    alerting:
      name: BookingFails
      page_alert: {labels: {severity: page}}
      ticket_alert: {labels: {severity: ticket}}
`

// generated runs generate into a new folder, and counts the lines of each file below it.
func generated(t *testing.T, spec string, args ...string) map[string]int {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "spec.yaml")
	require.NoError(t, os.WriteFile(file, []byte(spec), 0o600))
	out := filepath.Join(dir, "out")
	var log bytes.Buffer
	args = append([]string{"generate"}, append(args, "-f", file, "--out", out)...)
	require.Zero(t, run(t.Context(), args, strings.NewReader(""), io.Discard, &log), log.String())
	lines := map[string]int{}
	require.NoError(t, filepath.WalkDir(out, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == outManifest {
			return err
		}
		data, err := os.ReadFile(path)
		lines[strings.TrimPrefix(filepath.ToSlash(path), filepath.ToSlash(out)+"/")] = bytes.Count(data, []byte("\n"))
		return err
	}))
	return lines
}

// TestNoEngineNoFiles: whose counters Prometheus has already needs no engine, and nothing that watches one.
func TestNoEngineNoFiles(t *testing.T) {
	t.Parallel()
	lines := generated(t, oneSlothSLO, "all")
	total := 0
	for name, n := range lines {
		total += n
		require.NotContains(t, name, "k8s/")
	}
	require.Less(t, total, 4000)
	for _, name := range []string{"rules/booking.yaml", "alertmanager.yaml",
		"dashboards/sloengine-overview.json", "dashboards/sloengine-slo.json", "dashboards/sloengine.yaml"} {
		require.Contains(t, lines, name)
		delete(lines, name)
	}
	for name := range lines {
		require.True(t, strings.HasPrefix(name, "tests/"), "%s needs an engine", name)
	}

	for _, engine := range [][]string{{"--engine"}, {"--engine-url", "http://slo:8080"}} {
		lines = generated(t, oneSlothSLO, append([]string{"all"}, engine...)...)
		require.Contains(t, lines, "rules/sloengine.alerts.yaml", engine)
		require.Contains(t, lines, "dashboards/sloengine-ingest.json", engine)
		require.Contains(t, lines, "prometheus.yaml", engine)
	}
	require.Contains(t, generated(t, oneSlothSLO, "all", "--relay-url", "http://relay:9464"),
		"dashboards/sloengine-outbox.json")
	require.Contains(t, generated(t, oneSlothSLO, "all", "--format", "operator"), "k8s/slo-booking.yaml")
	require.Contains(t, generated(t, oneSlothSLO, "all", "--namespace", "slo"), "k8s/dashboard-sloengine-slo.yaml")
	require.Contains(t, generated(t, oneSlothSLO, "prometheus"), "prometheus.yaml")
}
