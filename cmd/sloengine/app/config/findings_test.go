package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What is allowed and cannot work as meant is told by check and at every start, with its place.
func TestSettingFindings(t *testing.T) {
	for name, tt := range map[string]struct {
		settings string
		want     []string
	}{
		"nothing": {"sinks: [{name: a, file: {dir: a}}]", nil},
		"long retries": {"sinks:\n  - {name: a, file: {dir: a}, ttl: 20s}",
			[]string{
				`line 2, column 36: sinks[0].ttl: all attempts to deliver a batch may take 20s820ms, longer than the ttl: events ` +
					`become dead letters before their last retry`}},
		"enough": {"sinks:\n  - {name: a, file: {dir: a}, ttl: 21s}", nil},
		"no end": {
			"sinks:\n  - {name: a, file: {dir: a}, ttl: 1s, retry: {max_retries: unlimited}}", nil},
		"bounded": {
			"sinks:\n  - {name: a, file: {dir: a}, ttl: 4s, timeout: 1s, retry: {max_retries: 100, max_elapsed: 2s}}", nil},
		"unlimited, but not for ever": {
			"sinks:\n  - {name: a, file: {dir: a}, ttl: 4s, timeout: 1s, retry: {max_retries: unlimited, max_elapsed: 1h}}",
			[]string{`line 2, column 36: sinks[0].ttl: all attempts to deliver a batch may take 1h1s120ms, longer`}},
		"jitter that grows by three": {
			"sinks:\n  - {name: a, file: {dir: a}, ttl: 10s, timeout: 1s, retry: {max_retries: 2, jitter: decorrelated, base: " +
				"1s, cap: 20s}}", []string{`line 2, column 36: sinks[0].ttl: all attempts to deliver a batch may take ` +
				`15s120ms, longer`}},
		"jitter above the delay": {
			"sinks:\n  - {name: a, file: {dir: a}, ttl: 7s, timeout: 1s, retry: {max_retries: 2, jitter: plusminus, spread: " +
				"0.5, base: 1s, cap: 20s}}", []string{`line 2, column 36: sinks[0].ttl: all attempts to deliver a batch may take ` +
				`7s620ms, longer`}},
		"no jitter": {
			"sinks:\n  - {name: a, file: {dir: a}, ttl: 7s, timeout: 1s, retry: {max_retries: 2, jitter: none, base: 1s, " +
				"cap: 20s}}", nil},
		"unknown in reports": {
			"reports:\n  - {name: a, every: month, service: shopp, to: {folder: a}}\n  - {name: b, every: month, agreement: " +
				"shop/silver, to: {folder: b}}\n  - {name: c, every: month, service: pay, to: {folder: c}}\n  - {name: d, every: " +
				"month, agreement: shop/gold, to: {folder: d}}",
			[]string{
				`line 2, column 38: reports[0].service: no spec has the service "shopp", so the report will be empty (did you ` +
					`mean "shop"?)`,
				`line 3, column 40: reports[1].agreement: no spec has the agreement "shop/silver", so the report ` +
					`will be empty (remove the report, or add it to the spec)`}},
		"dead alert": {"retry: {rate_limit: {limit: 40}}",
			[]string{`line 1, column 1: alerts.retries: the alert can never fire: retries are limited to 40 a second`}},
		"dead alert of a sink": {
			"alerts: {retries: 30}\nsinks: [{name: a, file: {dir: a}}, {name: b, file: {dir: b}, retry: {rate_limit: {limit: " +
				"60, interval: 2s}}}]",
			[]string{
				`line 1, column 19: alerts.retries: the alert can never fire: the retries of sink b are limited to 30 a second`}},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "engine.yaml")
			require.NoError(t, os.WriteFile(file, []byte(tt.settings), 0o600))
			got, err := Check(file, &Known{Services: []string{"shop", "pay"}, Agreements: []string{"shop/gold"}}, DataDir{})
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
}

// A history that is shorter than a window is said, with what would do.
func TestRetainIsShorterThanAWindow(t *testing.T) {
	name := filepath.Join(t.TempDir(), "engine.yaml")
	known := &Known{Longest: "shop/checkout", LongestWindow: 30 * 24 * time.Hour}
	for text, want := range map[string]int{"log: {retain: 19d}": 1, "log: {retain: 30d}": 0,
		"log: {retain: 0}": 0, "": 0} {
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
		found, err := Check(name, known, DataDir{})
		require.NoError(t, err)
		require.Len(t, found, want, text)
		if want > 0 {
			require.Contains(t, found[0].Message,
				"log.retain: the history reaches back 19d of the 30d that shop/checkout needs")
			require.Equal(t, "raise it to 32d", found[0].Suggestion)
		}
	}
}
