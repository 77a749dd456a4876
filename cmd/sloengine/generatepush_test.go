package main

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/sloengine/sloengine/cmd/sloengine/cli"
)

// fakeRuler stands in for Mimir's ruler, which is not on this machine: the routes of its rule API with their status
// codes, groups that are checked by Prometheus' own reader of rules and written again, names escaped in paths, tenants,
// and credentials.
type fakeRuler struct {
	mu       sync.Mutex
	groups   map[string]map[string]rulefmt.RuleGroup // by namespace and name
	requests []string
	fail     map[string]int // status, by method and name of the group
}

func (r *fakeRuler) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	user, password, _ := req.BasicAuth()
	if req.Header.Get("X-Scope-OrgID") != "team-a" || user != "me" || password != "secret" {
		http.Error(w, "no org id", http.StatusUnauthorized)
		return
	}
	rest, ok := strings.CutPrefix(req.URL.EscapedPath(), "/prometheus/config/v1/rules")
	if !ok {
		http.NotFound(w, req)
		return
	}
	parts := strings.Split(rest, "/")[1:]
	for i := range parts {
		parts[i], _ = url.PathUnescape(parts[i])
	}
	body, _ := io.ReadAll(req.Body)
	switch {
	case req.Method == http.MethodGet && len(parts) == 0:
		if len(r.groups) == 0 {
			http.Error(w, "no rule groups found", http.StatusNotFound)
			return
		}
		out := map[string][]rulefmt.RuleGroup{}
		for namespace, groups := range r.groups {
			for _, name := range slices.Sorted(maps.Keys(groups)) {
				out[namespace] = append(out[namespace], groups[name])
			}
		}
		_ = yaml.NewEncoder(w).Encode(out)
	case req.Method == http.MethodPost && len(parts) == 1:
		var g rulefmt.RuleGroup
		if err := yaml.Unmarshal(body, &g); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		whole, _ := yaml.Marshal(map[string]any{"groups": []rulefmt.RuleGroup{g}})
		if _, errs := rulefmt.Parse(whole, false, model.UTF8Validation, parser.NewParser(parser.Options{}),
			nil); errs != nil {
			http.Error(w, errs[0].Error(), http.StatusBadRequest)
			return
		}
		r.requests = append(r.requests, "POST "+parts[0]+" "+g.Name)
		if len(g.Rules) > 20 { // Mimir's default
			http.Error(w, "per-user rules per rule group limit (limit: 20) exceeded", http.StatusBadRequest)
			return
		}
		if status := r.fail["POST "+g.Name]; status != 0 {
			http.Error(w, "per-user rules per rule group limit (limit: 2 actual: 9) exceeded", status)
			return
		}
		if r.groups[parts[0]] == nil {
			r.groups[parts[0]] = map[string]rulefmt.RuleGroup{}
		}
		r.groups[parts[0]][g.Name] = g
		w.WriteHeader(http.StatusAccepted)
	case req.Method == http.MethodDelete && len(parts) == 2:
		r.requests = append(r.requests, "DELETE "+parts[0]+" "+parts[1])
		if _, ok := r.groups[parts[0]][parts[1]]; !ok {
			http.Error(w, "group does not exist", http.StatusNotFound)
			return
		}
		delete(r.groups[parts[0]], parts[1])
		w.WriteHeader(http.StatusAccepted)
	default:
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
	}
}

func (r *fakeRuler) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.requests
	r.requests = nil
	return out
}

// Every rule arrives, in groups that Mimir accepts by default.
func TestPushSplitsGroups(t *testing.T) {
	t.Parallel()
	r := &fakeRuler{groups: map[string]map[string]rulefmt.RuleGroup{}}
	srv := httptest.NewServer(r)
	defer srv.Close()
	dir := t.TempDir()
	file, auth, out := filepath.Join(dir, "spec.yaml"), filepath.Join(dir, "http.yaml"), filepath.Join(dir, "out")
	require.NoError(t, os.WriteFile(file, []byte("version: sloengine/v1\nservice: shop\nslos:\n"+
		"  - {name: checkout, objective: 99.9, indicator: {events: {bad: '{outcome=\"failure\"}'}}}\n"), 0o600))
	require.NoError(t, os.WriteFile(auth, []byte("basic_auth: {username: me, password: secret}\n"), 0o600))
	generate := func(more ...string) string {
		var log bytes.Buffer
		args := append([]string{"generate", "rules", "-f", file, "--profile", "full", "--from", "2026-11-01T00:00:00Z"},
			more...)
		require.Zero(t, run(t.Context(), args, nil, io.Discard, &log), log.String())
		return log.String()
	}
	push := []string{"--push", "mimir", "--push-url", srv.URL, "--push-tenant", "team-a", "--push-http-config", auth}
	generate(push...)
	require.Contains(t, generate(push...), ": 0 rule groups added, 0 changed, 0 removed, ")
	generate("--out", out)
	files, err := filepath.Glob(filepath.Join(out, "rules", "*.yaml"))
	require.NoError(t, err)
	want, got, split := 0, 0, 0
	for _, name := range files {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		var set rulefmt.RuleGroups
		require.NoError(t, yaml.Unmarshal(data, &set))
		for _, g := range set.Groups {
			if want += len(g.Rules); len(g.Rules) > 20 {
				split++
			}
		}
	}
	for _, groups := range r.groups {
		for _, g := range groups {
			got += len(g.Rules)
		}
	}
	require.Equal(t, want, got)
	require.Greater(t, split, 1)
}

const pushedSLO = "version: sloengine/v1\nservice: shop\nslos:\n" +
	"  - {name: checkout, objective: 99.9, indicator: {prometheus: {total: 'http_requests_total', bad: " +
	"'http_errors_total'}}}\n"

func TestPushRules(t *testing.T) {
	t.Parallel()
	r := &fakeRuler{groups: map[string]map[string]rulefmt.RuleGroup{}, fail: map[string]int{}}
	srv := httptest.NewServer(r)
	defer srv.Close()
	dir := t.TempDir()
	file, auth, secret := filepath.Join(dir, "spec.yaml"), filepath.Join(dir, "http.yaml"), filepath.Join(dir, "password")
	write := func(name, text string) { require.NoError(t, os.WriteFile(name, []byte(text), 0o600)) }
	write(file, pushedSLO)
	write(secret, "secret\n")
	write(auth, "basic_auth: {username: me, password_file: password}\n")
	push := func(want int, more ...string) (out, log string) {
		t.Helper()
		var o, l bytes.Buffer
		args := append([]string{"generate", "rules", "-f", file, "--push", "mimir", "--push-url", srv.URL, "--push-tenant",
			"team-a",
			"--push-http-config", auth, "--from", "2026-11-01T00:00:00Z"}, more...)
		require.Equal(t, want, run(t.Context(), args, nil, &o, &l), l.String())
		return o.String(), l.String()
	}

	out, log := push(cli.ExitOK, "--dry-run")
	require.Regexp(t, `(?m)^\+ sloengine-shop: sloengine-slo/shop/checkout/\w+ \(\d+ rules\)$`, out)
	require.Contains(t, log, "rule groups would be added")
	require.Empty(t, r.take())

	_, log = push(cli.ExitOK)
	sent := r.take()
	require.NotEmpty(t, sent)
	require.Regexp(t, `: [1-9]\d* rule groups added, 0 changed, 0 removed, 0 unchanged`, log)
	_, log = push(cli.ExitOK)
	require.Empty(t, r.take(), "what is equal is not sent")
	require.Regexp(t, `: 0 rule groups added, 0 changed, 0 removed, [1-9]\d* unchanged`, log)

	// Groups of others stay, in every namespace but ours.
	other := rulefmt.RuleGroup{Name: "theirs", Rules: []rulefmt.Rule{{Record: "x", Expr: "up"}}}
	r.groups["team"] = map[string]rulefmt.RuleGroup{"theirs": other}
	r.groups["sloengine-gone"] = map[string]rulefmt.RuleGroup{
		"sloengine-slo/gone/a/short": {Name: "sloengine-slo/gone/a/short"}, "..": {Name: ".."}}
	_, log = push(cli.ExitOK)
	require.Contains(t, log, "stale: namespace sloengine-gone, group sloengine-slo/gone/a/short is no longer generated")
	out, _ = push(cli.ExitOK, "--prune", "--dry-run")
	require.Contains(t, out, "- sloengine-gone: sloengine-slo/gone/a/short\n")
	require.Empty(t, r.take())
	_, log = push(cli.ExitFailure, "--prune")
	require.Contains(t, log, `namespace sloengine-gone, group ..: the name ".." cannot be part of an address`)
	require.Empty(t, r.take())
	delete(r.groups["sloengine-gone"], "..")
	push(cli.ExitOK, "--prune")
	require.Equal(t, []string{"DELETE sloengine-gone sloengine-slo/gone/a/short"}, r.take())
	require.Contains(t, r.groups["team"], "theirs")

	// Only what differs is sent, and a refusal says what stands.
	write(file, strings.Replace(pushedSLO, "99.9,", "99.5,", 1))
	out, _ = push(cli.ExitOK, "--dry-run")
	require.Contains(t, out, "~ sloengine-shop: sloengine-slo/shop/checkout/")
	require.Contains(t, out, "    ~ alert ")
	require.Contains(t, out, ": expr")
	_, name, _ := strings.Cut(sent[0], " sloengine-shop ")
	r.fail["POST "+name] = http.StatusBadRequest
	r.groups["sloengine-gone"]["old"] = rulefmt.RuleGroup{Name: "old"}
	_, log = push(cli.ExitFailure, "--prune")
	require.Contains(t, log, "namespace sloengine-shop, group "+name+": 400 Bad Request: "+
		"per-user rules per rule group limit")
	require.Regexp(t, `[1-9]\d* of [1-9]\d* changes were made and stay; the other groups were sent, `+
		`and 1 to be removed are still there`, log)
	require.Contains(t, r.groups["sloengine-gone"], "old")
	clear(r.fail)
	_, log = push(cli.ExitOK, "--prune")
	require.Contains(t, log, ": 0 rule groups added, 1 changed, 1 removed, ")
}

// Grafana's rules are written on request only: with those of Prometheus, each alert would fire twice. all leaves them.
func TestGrafanaAlertsAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, out := filepath.Join(dir, "spec.yaml"), filepath.Join(dir, "out")
	require.NoError(t, os.WriteFile(file, []byte(pushedSLO), 0o600))
	for _, kind := range []string{"grafana-alerts", "all"} {
		var log bytes.Buffer
		require.Zero(t, run(t.Context(), []string{"generate", kind, "-f", file, "--out", out, "--prune"}, nil, io.Discard,
			&log),
			log.String())
		require.NotContains(t, log.String(), "stale")
	}
	data, err := os.ReadFile(filepath.Join(out, "grafana-alerts", "shop.yaml"))
	require.NoError(t, err)
	require.Contains(t, string(data), "title: ErrorBudgetBurnPage shop/checkout page-1h")
	require.Contains(t, string(data), "datasourceUid: prometheus")
}

func TestPushIsRefused(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "spec.yaml")
	require.NoError(t, os.WriteFile(file, []byte(pushedSLO), 0o600))
	followed := false
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/moved"):
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		case r.URL.Path == "/elsewhere":
			followed = true
		case strings.HasPrefix(r.URL.Path, "/page"):
			_, _ = io.WriteString(w, "<html>")
		default:
			http.Error(w, "no org id\x1b[31m", http.StatusUnauthorized)
		}
	}))
	defer srv.Close()
	for _, c := range []struct {
		want int
		args []string
		text string
	}{
		{cli.ExitUsage, []string{"--push", "mimir"}, "--push requires --push-url"},
		{cli.ExitUsage, []string{"--dry-run"}, "--dry-run requires --push mimir"},
		{cli.ExitUsage, []string{"--push", "mimir", "--push-url", "mimir:8080"}, "invalid --push-url"},
		{cli.ExitUsage, []string{"--push", "mimir", "--push-url", srv.URL, "--push-prefix", ""},
			"--push-prefix must not be empty"},
		{cli.ExitUsage, []string{"--push", "mimir", "--push-url", srv.URL, "--out", "x"}, "--push writes no files"},
		{cli.ExitUsage, []string{"--push", "mimir", "--push-url", srv.URL, "--format", "operator"}, "not manifests"},
		{cli.ExitFailure, []string{"--push", "mimir", "--push-url", srv.URL}, "401 Unauthorized: no org id [31m"},
		{cli.ExitFailure, []string{"--push", "mimir", "--push-url", srv.URL + "/moved"}, "redirects are not followed"},
		{cli.ExitFailure, []string{"--push", "mimir", "--push-url", srv.URL + "/page"}, "the answer is no rule groups"},
		{cli.ExitFailure, []string{"--push", "mimir", "--push-url", srv.URL, "--push-http-config", "missing"},
			"read --push-http-config missing"},
	} {
		var log bytes.Buffer
		require.Equal(t, c.want, run(t.Context(), append([]string{"generate", "rules", "-f", file}, c.args...), nil,
			io.Discard,
			&log), "%v: %s", c.args, &log)
		require.Contains(t, log.String(), c.text)
	}
	require.False(t, followed)
}
