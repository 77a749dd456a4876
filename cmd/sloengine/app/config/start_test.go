package config

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/slo"
)

// What would stop a start is an error of check, with its place.
func TestStartProblems(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, text string) { require.NoError(t, os.WriteFile(at(name), []byte(text), 0o600)) }
	require.NoError(t, os.MkdirAll(at("data/wal"), 0o700))
	require.NoError(t, os.Symlink(at("data/wal"), at("elsewhere")))
	require.NoError(t, os.Symlink("nowhere", at("dangling")))
	require.NoError(t, syscall.Mkfifo(at("fifo"), 0o600))
	write("empty", "")
	write("tokens.yaml", "- {name: ops, sha256: "+strings.Repeat("5e", 32)+", services: ['*'], allow: [send]}")
	write("short.yaml", "- {name: ops, sha256: 5e, services: ['*'], allow: [send]}")
	write("plain.web.yaml", "tls_server_config: {cert_file: a.pem}")
	write("zero.web.yaml", "tls_server_config: {cert_file: /dev/zero, key_file: /dev/zero}")

	for settings, want := range map[string]string{
		"auth: {tokens_file: nope}": "1:21: error: auth.tokens_file: " +
			"read tokens file: open DIR/nope: no such file or directory",
		"auth: {tokens_file: data}": "1:21: error: auth.tokens_file: read tokens file: read DIR/data: not a regular file",
		"auth: {tokens_file: fifo}": "1:21: error: auth.tokens_file: read tokens file: read DIR/fifo: not a regular file",
		"auth: {tokens_file: /dev/zero}": "1:21: error: auth.tokens_file: " +
			"read tokens file: read /dev/zero: not a regular file",
		"auth: {tokens_file: empty}": "empty:1:1: error: the tokens file is empty (write the file as a list of tokens)",
		"auth: {tokens_file: short.yaml}": "short.yaml:1:23: error: sha256 " +
			"must be 64 hexadecimal digits (printf %s \"$TOKEN\" | sha256sum)",
		"auth: {tokens_file: tokens.yaml}":                                      "",
		"auth: {tokens_file: tokens.yaml}\nlimits: {bypass: [{tokens: [ops]}]}": "",
		"auth: {tokens_file: tokens.yaml}\nlimits: {bypass: [{tokens: [ops, opps]}]}": `2:34: error: ` +
			`limits.bypass[0].tokens[1]: unknown token "opps" (name a token of auth.tokens_file)`,

		"web: {config_file: nope}":           "1:20: error: web.config_file: open DIR/nope: no such file or directory",
		"web: {config_file: fifo}":           "1:20: error: web.config_file: read DIR/fifo: not a regular file",
		"web: {config_file: plain.web.yaml}": "1:20: error: web.config_file: open DIR/a.pem: no such file or directory",
		"web: {config_file: zero.web.yaml}":  "1:20: error: web.config_file: read /dev/zero: not a regular file",
		"web: {external_url: 'javascript:alert(1)'}": "1:21: error: web.external_url: must begin with " +
			"http:// or https:// and have a host",
		"forecast: {groups: -1}": `1:20: error: forecast.groups: must be at least 0, got "-1"`,
		"budgets: [{service: shop, groups: 99}]": "1:35: error: budgets[0].groups: service shop: its " +
			"SLOs and event thresholds may have 100 groups, and its budget is 99 (lower max_groups in the spec, or raise it)",
		"budgets: [{service: shop, groups: 100}]": "",
		"otlp: {sampling: {pay: 0.1, shop: 0.5}}": "1:35: error: otlp.sampling.shop: shop/delivery " +
			"follows work by trace_id, which needs every span (send all spans of shop and remove the entry, or let the " +
			"SLO count single spans)",
		"otlp: {sampling: {pay: 0.1, shop: 1}}": "",
		"dead_letters: {dir: /proc}": "1:21: error: dead_letters.dir: write /proc: " +
			"read-only file system (want a folder that the engine may write to)",
		"dead_letters: {dir: empty/dead}": "1:21: error: dead_letters.dir: open DIR/empty: not " +
			"a directory (want a folder that the engine may write to)",
		"dead_letters: {dir: dangling}": "1:21: error: dead_letters.dir: open DIR/dangling: " +
			"no such file or directory (want a folder that the engine may write to)",
		"dead_letters: {dir: dead/new}":          "",
		"dead_letters: {dir: data/dead-letters}": "",
		"sinks: [{name: a, file: {dir: data/wal}}]": "1:31: error: sinks[0].file.dir: DIR/data/wal is the " +
			"engine's own, in the data directory (set a separate directory)",
		"sinks: [{name: a, file: {dir: data/wal/x}}]":   "1:31: error: sinks[0].file.dir: DIR/data/wal/x is the engine's own",
		"sinks: [{name: a, file: {dir: elsewhere}}]":    "1:31: error: sinks[0].file.dir: DIR/elsewhere is the engine's own",
		"sinks: [{name: a, file: {dir: data}}]":         "1:31: error: sinks[0].file.dir: DIR/data is the engine's own",
		"sinks: [{name: a, file: {dir: data/archive}}]": "",
		"reports: [{name: a, every: month, to: {folder: data/wal}}]": "1:48: error: reports[0].to.folder: DIR/data/wal is " +
			"the engine's own",

		"notifications: {receivers: [{name: a, webhook_configs: [{url: 'http://a'}]}], default: a, " +
			"templates: [fifo]}": "notifications.templates: templates DIR/fifo: read DIR/fifo: not a regular file",
		"notifications: {receivers: [{name: a, webhook_configs: [{url: 'http://a'}]}], default: a, templates: " +
			"[/dev/zero]}": "notifications.templates: templates /dev/zero: read /dev/zero: not a regular file",
		"notifications: {receivers: [{name: a, webhook_configs: [{url_file: /dev/zero}]}], " +
			"default: a}": "read /dev/zero: not a regular file",
		"sources: [{name: a, outbox: {dsn_file: /dev/zero}}]": "dsn_file: read /dev/zero: not a regular file",
		"sinks: [{name: a, http: {url: 'http://a', tls: {cert_file: /dev/zero, key_file: " +
			"/dev/zero}}}]": "cert_file: read /dev/zero: not a regular file",
		"sinks: [{name: a, http: {url: 'http://a', header_files: {x: /dev/zero}}}]": "read /dev/zero: not a regular file",
		"redact: [{attributes: [a], action: hash, key_file: " +
			"/dev/zero}]": "redact[0].key_file: read /dev/zero: not a regular file",
	} {
		t.Run(settings, func(t *testing.T) {
			file := at("engine.yaml")
			write("engine.yaml", settings)
			problems, err := Check(file, &Known{Groups: map[string]int{"shop": 100},
				Traced: map[string]slo.ID{"shop": "shop/delivery"}},
				DataDir{at("data"), []string{"wal", "dead-letters"}})
			require.NoError(t, err)
			if want == "" {
				require.Empty(t, problems)
				return
			}
			require.True(t, problems.HasErrors(), problems)
			got := strings.ReplaceAll(strings.ReplaceAll(problems.String(), file+":", ""), dir, "DIR")
			require.Contains(t, got, want)
		})
	}
}
