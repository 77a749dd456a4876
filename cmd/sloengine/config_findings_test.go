package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is allowed and cannot work as meant is told by check and at every start, with its place.
func TestSettingFindings(t *testing.T) {
	for name, tt := range map[string]struct {
		settings string
		want     []string
	}{
		"nothing":                     {"sinks: [{name: a, file: {dir: a}}]", nil},
		"long retries":                {"sinks:\n  - {name: a, file: {dir: a}, ttl: 20s}", []string{`line 2, column 36: sinks[0].ttl: all attempts to deliver a batch may take 20s820ms, longer than the ttl: events become dead letters before their last retry`}},
		"enough":                      {"sinks:\n  - {name: a, file: {dir: a}, ttl: 21s}", nil},
		"no end":                      {"sinks:\n  - {name: a, file: {dir: a}, ttl: 1s, retry: {max_retries: unlimited}}", nil},
		"bounded":                     {"sinks:\n  - {name: a, file: {dir: a}, ttl: 4s, timeout: 1s, retry: {max_retries: 100, max_elapsed: 2s}}", nil},
		"unlimited, but not for ever": {"sinks:\n  - {name: a, file: {dir: a}, ttl: 4s, timeout: 1s, retry: {max_retries: unlimited, max_elapsed: 1h}}", []string{`line 2, column 36: sinks[0].ttl: all attempts to deliver a batch may take 1h1s120ms, longer`}},
		"jitter that grows by three":  {"sinks:\n  - {name: a, file: {dir: a}, ttl: 10s, timeout: 1s, retry: {max_retries: 2, jitter: decorrelated, base: 1s, cap: 20s}}", []string{`line 2, column 36: sinks[0].ttl: all attempts to deliver a batch may take 15s120ms, longer`}},
		"jitter above the delay":      {"sinks:\n  - {name: a, file: {dir: a}, ttl: 7s, timeout: 1s, retry: {max_retries: 2, jitter: plusminus, spread: 0.5, base: 1s, cap: 20s}}", []string{`line 2, column 36: sinks[0].ttl: all attempts to deliver a batch may take 7s620ms, longer`}},
		"no jitter":                   {"sinks:\n  - {name: a, file: {dir: a}, ttl: 7s, timeout: 1s, retry: {max_retries: 2, jitter: none, base: 1s, cap: 20s}}", nil},
		"dead alert":                  {"retry: {rate_limit: {limit: 40}}", []string{`line 1, column 1: alerts.retries: the alert can never fire: retries are limited to 40 a second`}},
		"dead alert of a sink": {"alerts: {retries: 30}\nsinks: [{name: a, file: {dir: a}}, {name: b, file: {dir: b}, retry: {rate_limit: {limit: 60, interval: 2s}}}]",
			[]string{`line 1, column 19: alerts.retries: the alert can never fire: the retries of sink b are limited to 30 a second`}},
	} {
		t.Run(name, func(t *testing.T) {
			file := writeFile(t, t.TempDir(), "engine.yaml", tt.settings)
			got, err := settingFindings(file)
			require.NoError(t, err)
			var lines []string
			for _, p := range got {
				lines = append(lines, strings.TrimPrefix(p.String(), file+":"))
			}
			require.Len(t, lines, len(tt.want), lines)
			for i, want := range tt.want {
				place, text, _ := strings.Cut(want, ": ")
				place = strings.NewReplacer("line ", "", ", column ", ":").Replace(place)
				require.Contains(t, lines[i], place+": warning: "+text)
			}
		})
	}
	dir := t.TempDir()
	settings := writeFile(t, dir, "engine.yaml", "sinks:\n  - {name: a, file: {dir: a}, ttl: 1s}\n")
	spec := writeFile(t, dir, "spec.yaml", limitSpec)
	var out, errs bytes.Buffer
	require.Equal(t, exitFindings, run(context.Background(), []string{"check", "--fail-on", "warning", "-f", spec, "-c", settings}, nil, &out, &errs), out.String())
	require.Contains(t, out.String()+errs.String(), "sinks[0].ttl")
	p, ok := serveIn(t, dir, spec, "sinks:\n  - {name: a, file: {dir: a}, ttl: 1s}\n")
	require.True(t, ok, p.log.String())
	require.Contains(t, p.log.String(), "questionable setting")
	p.stop(t)
}

// The thresholds of the alerts on the engine come from its settings.
func TestAlertThresholdsAreSettings(t *testing.T) {
	dir := t.TempDir()
	spec := writeFile(t, dir, "spec.yaml", limitSpec)
	generate := func(settings string) string {
		var out, errs bytes.Buffer
		args := []string{"generate", "rules", "-f", spec, "--out", "-"}
		if settings != "" {
			args = append(args, "-c", writeFile(t, dir, "engine.yaml", settings))
		}
		require.Equal(t, exitOK, run(context.Background(), args, nil, &out, &errs), errs.String())
		return out.String()
	}
	before := generate("")
	require.Equal(t, before, generate("alerts: {}"))
	require.Contains(t, before, "rate(sloengine_retry_attempted_items_total[5m])) > 50\n")
	for setting, want := range map[string]string{
		"disk_free: 7MiB": "< 7340032\n", "dead_letters: 77": "> 77\n", "dead_letters_growth: 78": "> 78", "retries: 79": "> 79\n",
		"limit_hits: 71": "> 71\n", "limit_drops: 72": "> 72\n", "type_hits: 73": "> 73\n", "context_hits: 74": "> 74\n",
		"critical_limited: 75": "> 75\n", "client_failures: 76": "> 76\n", "rejected_share: 0.77": "> 0.77\n", "sink_lag: 78s": "> 78", "fold_lag: 7100": "> 7100\n",
	} {
		require.NotContains(t, before, want)
		require.Contains(t, generate("alerts: {"+setting+"}"), want, setting)
	}
}
