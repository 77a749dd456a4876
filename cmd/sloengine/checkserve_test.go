package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/cmd/sloengine/app"
	"github.com/sloengine/sloengine/cmd/sloengine/cli"
)

const grouped = `
version: sloengine/v1
service: shop
slos:
  - {name: orders, objective: 99, group_by: [product], max_groups: 100,
      indicator: {events: {valid: '{type="order"}', bad: '{outcome="failure"}'}}}
`

// check finds what stops serve, says the same about it, and ends with 3.
func TestCheckAndServeAgree(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, os.WriteFile(at("spec.yaml"), []byte(grouped), 0o600))
	require.NoError(t, os.WriteFile(at("empty"), nil, 0o600))
	require.NoError(t, syscall.Mkfifo(at("fifo"), 0o600))
	for _, settings := range []string{
		"auth: {tokens_file: nope}", "auth: {tokens_file: .}", "auth: {tokens_file: empty}", "auth: {tokens_file: fifo}",
		"web: {config_file: nope}", "web: {external_url: 'javascript:alert(1)'}", "dead_letters: {dir: /proc}",
		"forecast: {groups: -1}", "budgets: [{service: shop, groups: 99}]", "sinks: [{name: a, file: {dir: data/wal}}]",
		"evaluator: {interval: 0s}",
	} {
		require.NoError(t, os.WriteFile(at("engine.yaml"), []byte(settings), 0o600))
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		args := []string{"-f", at("spec.yaml"), "-c", at("engine.yaml"), "--data-dir", at("data")}
		var found, serves, rest bytes.Buffer
		require.Equal(t, cli.ExitFindings, run(ctx, append([]string{"check"}, args...), nil, &found, &rest),
			"%s: %s", settings, &rest)
		require.Equal(t, cli.ExitFailure,
			run(ctx, append([]string{"serve", "--web.listen-address", "127.0.0.1:0"}, args...), nil, &rest, &serves), settings)
		cancel()
		for line := range strings.Lines(found.String()) {
			if line, isError := strings.CutSuffix(strings.Replace(line, " error:", "", 1), "\n"); isError &&
				!strings.Contains(line, " warning:") {
				require.Contains(t, serves.String(), line, settings)
			}
		}
		require.NoDirExists(t, at("data"), "%s: nothing was started", settings)
	}
}

// check reads, and neither writes nor connects.
func TestCheckOnlyReads(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	connected := make(chan string, 100)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				close(connected)
				return
			}
			connected <- c.RemoteAddr().String()
			_ = c.Close()
		}
	}()
	require.NoError(t, os.WriteFile(at("spec.yaml"), []byte(grouped), 0o600))
	require.NoError(t, os.WriteFile(at("secret"), []byte("hush-hush-hush-hush"), 0o600))
	require.NoError(t, os.WriteFile(at("engine.yaml"), []byte(strings.ReplaceAll(`
redis: {address: ADDR, password_file: secret}
smtp: {smarthost: ADDR, from: slo@example.org}
notifications: {alertmanagers: [{url: 'http://ADDR'}]}
dead_letters: {dir: dead}
reports: [{name: monthly, every: month, to: {folder: reports, webhooks: [{url: 'http://ADDR/', token_file: secret}]}}]
sources:
  - {name: k, kafka: {brokers: [ADDR], topics: [t]}}
  - {name: r, rabbitmq: {url: 'amqp://ADDR', queue: q}}
  - {name: o, outbox: {dsn: 'postgres://u@ADDR/shop', password_file: secret}}
sinks:
  - {name: f, file: {dir: out/events}}
  - {name: h, http: {url: 'http://ADDR/', header_files: {authorization: secret}}}
  - {name: k, kafka: {brokers: [ADDR], topic: t}}
  - {name: r, rabbitmq: {url: 'amqp://ADDR', exchange: x}}
`, "ADDR", l.Addr().String())), 0o600))
	state := func() (out []string) {
		require.NoError(t, filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
			require.NoError(t, err)
			info, err := d.Info()
			out = append(out, name+" "+info.ModTime().String())
			return err
		}))
		return out
	}
	before := state()
	var out, errs bytes.Buffer
	require.Equal(t, cli.ExitOK, run(t.Context(),
		[]string{"check", "-f", at("spec.yaml"), "-c", at("engine.yaml"), "--data-dir", at("data")}, nil, &out, &errs),
		out.String()+errs.String())
	require.Equal(t, before, state())
	require.NoError(t, l.Close())
	for from := range connected {
		t.Errorf("check connected from %s", from)
	}
}

// A key that the author of a backup knows would let them acknowledge incidents.
func TestBackupHoldsNoKeys(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"LINK_KEY": false, "LOCK": false, "wal": false, "positions-import.json": false, "x/y": false,
		"FORMAT": true, "INSTANCE": true, "wal/00000001.wal": true, "kept/a/b": true, "alerts.json": true,
		"history/00000000000000000001.hist": true, "history": false,
	} {
		require.Equal(t, want, app.BackupHolds(name), name)
	}
}

// Rules for a scrape every 15s are silent on counters that are scraped every minute: check says which, and with what to
// generate. With that interval, it is content.
func TestCheckScrapeInterval(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(
			w, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"10"]}]}}`)
	}))
	t.Cleanup(s.Close)
	file := filepath.Join(t.TempDir(), "spec.yaml")
	require.NoError(t, os.WriteFile(file, []byte(grouped), 0o600))
	args := []string{"check", "-f", file, "--fail-on", "warning", "--prometheus", s.URL}
	var out, errs bytes.Buffer
	require.Equal(t, cli.ExitFindings, run(t.Context(), args, nil, &out, &errs), errs.String())
	require.Regexp(t,
		`spec.yaml:5:12: warning: slo_events_total\{.*\} has a sample every 1m, but rules read its rate over 45s`,
		out.String())
	require.Contains(t, out.String(), "(generate with --scrape-interval 1m)")
	out.Reset()
	require.Equal(t, cli.ExitOK, run(t.Context(), append(args, "--scrape-interval", "1m"), nil, &out, &errs),
		out.String()+errs.String())

	s.Close()
	require.Equal(t, cli.ExitFailure, run(t.Context(), args, nil, &out, &errs), "not reachable is no finding")
	require.Contains(t, errs.String(), "query Prometheus")
	require.Equal(
		t, cli.ExitUsage, run(t.Context(), []string{"check", "-f", file, "--prometheus", "localhost:9090"}, nil, &out, &errs))
}
