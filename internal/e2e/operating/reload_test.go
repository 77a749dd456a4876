// Package operating has the end-to-end tests of what an operator does with a running engine, and sees of it.
package operating

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/nettest"
	"github.com/stretchr/testify/require"
)

const reloadSpec = `version: sloengine/v1
service: shop
slos:
  - name: checkout
    objective: %s
    indicator:
      events: {valid: '{type="%s"}', bad: '{outcome="failure"}'}
`

// TestReload changes the spec under a running engine: a bad one changes nothing
// and is shown, another objective keeps the counts, another matcher starts from zero,
// and all of that is still so after a kill.
func TestReload(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	spec := e2etest.WriteFile(t, dir, "spec.yaml", fmt.Sprintf(reloadSpec, "99.9", "order"))
	serve := func() *e2etest.Process {
		return e2etest.Serve(t, dir, spec, "evaluator: {interval: 50ms}\nrebuild: off\n")
	}
	p := serve()
	status, answer := e2etest.Post(t, p.Base+"/api/v1/events", "", `{"id":"1","service":"shop","type":"order"}`)
	require.Equal(t, 202, status, answer)
	counts := func(want float64) {
		t.Helper()
		require.Eventually(t, func() bool {
			return e2etest.Counter(t, p, "slo_events_total") == want
		}, testkit.Patience, 20*time.Millisecond)
	}
	counts(1)

	// A bad spec: problems in the answer, the metric and the page; nothing else changes.
	e2etest.WriteFile(t, dir, "spec.yaml", "version: sloengine/v1\nservice: shop\nslos:\n  - nam: checkout\n")
	status, answer = e2etest.Post(t, p.Base+"/-/reload", "", "")
	require.Equal(t, 422, status, answer)
	require.Contains(t, answer, `"line":4`)
	require.Contains(t, answer, "did you mean")
	require.Zero(t, e2etest.Counter(t, p, "sloengine_reload_last_ok"))
	require.Contains(t, string(e2etest.Get(t, p.Base+"/")), "spec.yaml:4")
	counts(1)

	// Another objective, by signal: the counts stay, and the hash is that of what runs now.
	hash := func() string {
		var e struct{ Spec struct{ Hash string } }
		require.NoError(t, json.Unmarshal(e2etest.Get(t, p.Base+"/api/v1/engine"), &e))
		require.Regexp(t, "^[0-9a-f]{12}$", e.Spec.Hash)
		return e.Spec.Hash
	}
	first := hash()
	e2etest.WriteFile(t, dir, "spec.yaml", fmt.Sprintf(reloadSpec, "99", "order"))
	require.NoError(t, p.Cmd.Process.Signal(syscall.SIGHUP))
	require.Eventually(t, func() bool {
		return strings.Contains(string(e2etest.Get(t, p.Base+"/api/v1/slos")), `"objective":0.99,`)
	}, testkit.Patience, 20*time.Millisecond)
	require.Eventually(t, func() bool {
		return e2etest.Counter(t, p, "sloengine_reload_last_ok") == 1
	}, testkit.Patience, 20*time.Millisecond)
	counts(1)
	second := hash()
	require.NotEqual(t, first, second)
	require.Eventually(t, func() bool {
		return strings.Contains(p.Log.String(), "msg=reloaded hash="+second)
	}, testkit.Patience, 20*time.Millisecond)

	// Another matcher: a new generation, from zero, and the old type is unknown now.
	e2etest.WriteFile(t, dir, "spec.yaml", fmt.Sprintf(reloadSpec, "99", "purchase"))
	status, answer = e2etest.Post(t, p.Base+"/-/reload", "", "")
	require.Equal(t, 200, status, answer)
	require.Contains(t, answer, `"hash":"`+hash()+`"`)
	require.NotEqual(t, second, hash())
	counts(0)
	status, answer = e2etest.Post(t, p.Base+"/api/v1/events", "", `{"id":"2","service":"shop","type":"order"}`)
	require.Equal(t, 422, status, answer)
	require.Contains(t, answer, "unknown_type")
	require.Regexp(t,
		`"code":"unknown_type","events":1,.*"address":"127\.0\.0\.1","service":"shop","count":1,`+
			`.*"sample":"\{\\"id\\":\\"2\\"`, string(e2etest.Get(t, p.Base+"/api/v1/rejects")))
	status, answer = e2etest.Post(t, p.Base+"/api/v1/events", "", `{"id":"3","service":"shop","type":"purchase"}`)
	require.Equal(t, 202, status, answer)
	counts(1)

	p.Stop(t)
	p = serve()
	p.Kill()
	p = serve()
	counts(1)
	require.Regexp(t, `"types":\[\{"code":"unknown_type","service":"shop","type":"order","events":1,"first":`,
		string(e2etest.Get(t, p.Base+"/api/v1/rejects")), "what was rejected outlasts restarts and kills")
	require.Contains(t, string(e2etest.Get(t, p.Base+"/api/v1/slos")), `"generation":2,`)
	changes := string(e2etest.Get(t, p.Base+"/api/v1/annotations"))
	require.Equal(t, 2, strings.Count(changes, `"kind":"spec"`),
		"both changes are annotated, by themselves and for good: %s", changes)
	require.Contains(t, changes, "spec "+first+" replaced by "+second)
	p.Stop(t)
}

// TestAudit: whoever changes something leaves a line, and so does who failed to.
func TestAudit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	spec := e2etest.WriteFile(t, dir, "spec.yaml", fmt.Sprintf(reloadSpec, "99.9", "order"))
	const token = "operator-token-0123456789"
	e2etest.WriteFile(t, dir, "tokens.yaml",
		fmt.Sprintf("- {name: ann, sha256: %x, services: ['*'], allow: [send, read, operate]}\n",
			sha256.Sum256([]byte(token))))
	p := e2etest.Serve(t, dir, spec, "auth: {tokens_file: tokens.yaml}\n")
	act := func(path, body string, want int) {
		t.Helper()
		req, err := http.NewRequest(http.MethodPost, p.Base+path, strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+token)
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer res.Body.Close()
		answer, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.Equal(t, want, res.StatusCode, string(answer))
	}
	act("/api/v1/events", `{"id":"1","service":"shop","type":"order"}`, 202)
	act("/-/reload", "", 200)
	act("/api/v1/dlq/replay", `{"all":true}`, 200)
	act("/api/v1/dlq/discard", `{"ids":["a-b"]}`, 200)
	act("/api/v1/dlq/purge", `{"older_than":"1d"}`, 200)
	act("/api/v1/forget", `{"service":"shop","restart":true}`, 200)
	act("/api/v1/dlq/replay", `{"all":true,"dry_run":true}`, 200)
	e2etest.WriteFile(t, dir, "spec.yaml", "slos: [")
	act("/-/reload", "", 422)
	require.NoError(t, p.Cmd.Process.Signal(syscall.SIGHUP))
	var lines []string
	require.Eventually(t, func() bool {
		lines = nil
		for line := range strings.SplitSeq(p.Log.String(), "\n") {
			if strings.Contains(line, "msg=audit") {
				lines = append(lines, line)
			}
		}
		return len(lines) >= 7
	}, testkit.Patience, 10*time.Millisecond, "%v", p.Log)
	for i, want := range []string{
		`action=reload detail="hash=`, `action=dlq.replay detail="all replayed=0`,
		`action=dlq.discard detail="ids=1 [a-b] discarded=0"`,
		`action=dlq.purge detail="before=`, `action=forget detail="service=`, `action=reload detail="error=`,
		`action=reload detail="error=`,
	} {
		require.Contains(t, lines[i], want)
		if i < 6 {
			require.Regexp(t, ` token=ann remote=127\.0\.0\.1:\d+$`, lines[i])
		} else {
			require.Regexp(t, ` token="" remote=signal$`, lines[i])
		}
	}
	require.Len(t, lines, 7, "a dry run changes nothing")
	require.NotContains(t, p.Log.String(), token)

	// The same is in the audit log, which survives a kill.
	p.Kill()
	p = e2etest.Serve(t, dir, e2etest.WriteFile(t, dir, "spec.yaml", fmt.Sprintf(reloadSpec, "99.9", "order")),
		"auth: {tokens_file: tokens.yaml}\n")
	secret := e2etest.WriteFile(t, dir, "token", token)
	stdout, stderr, code := e2etest.Command(t, "audit", "--url", p.Base, "--token-file", secret, "-o", "json")
	require.Zero(t, code, stderr)
	var recorded struct {
		Items []struct{ Action, Token, Remote, Result, Detail string }
	}
	require.NoError(t, json.Unmarshal([]byte(stdout), &recorded))
	require.Len(t, recorded.Items, 7)
	for i, want := range []string{"reload", "dlq.replay", "dlq.discard", "dlq.purge", "forget", "reload", "reload"} {
		e := recorded.Items[6-i]
		require.Equal(t, want, e.Action)
		require.Equal(t, i >= 5, e.Result == "failed", "%+v", e)
		require.Equal(t, i == 6, e.Remote == "signal" && e.Token == "")
	}
	stdout, stderr, code = e2etest.Command(t, "audit", "--url", p.Base, "--token-file", secret,
		"--action", "dlq", "--limit", "1")
	require.Zero(t, code, stderr)
	require.Regexp(t, `(?s)^TIME.*dlq.purge +ok +ann +127\.0\.0\.1:\d+ +before=[^\n]*\n$`, stdout)
	p.Stop(t)
}

// TestTokens lets each token do what it may, and no more.
func TestTokens(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	spec := e2etest.WriteFile(t, dir, "spec.yaml", fmt.Sprintf(reloadSpec, "99.9", "order"))
	const sender, reader = "sender-token-0123456789", "reader-token-0123456789"
	e2etest.WriteFile(t, dir, "tokens.yaml", fmt.Sprintf(`- {name: sender, sha256: %x, services: [shop], allow: [send]}
- {name: reader, sha256: %x, services: ["*"], allow: [read, operate]}
`, sha256.Sum256([]byte(sender)), sha256.Sum256([]byte(reader))))
	p := e2etest.Serve(t, dir, spec, "auth: {tokens_file: tokens.yaml}\n")

	const order = `{"id":"1","service":"shop","type":"order"}`
	for _, tc := range []struct {
		name, path, token, body string
		status                  int
	}{
		{"no token", "/api/v1/events", "", order, 401},
		{"unknown token", "/api/v1/events", "nobody-knows-this-one", order, 401},
		{"may not send", "/api/v1/events", reader, order, 403},
		{"may send", "/api/v1/events", sender, order, 202},
		{"may not backfill", "/api/v1/events?backfill=true", sender, order, 403},
		{"not its service", "/api/v1/events", sender, `{"id":"1","service":"bank","type":"order"}`, 422},
		{"may not operate", "/-/reload", sender, "", 403},
		{"may operate", "/-/reload", reader, "", 200},
	} {
		t.Run(tc.name, func(t *testing.T) {
			status, answer := e2etest.Post(t, p.Base+tc.path, tc.token, tc.body)
			require.Equal(t, tc.status, status, answer)
		})
	}
	res, err := http.Get(p.Base + "/")
	require.NoError(t, err)
	res.Body.Close()
	require.Equal(t, 401, res.StatusCode, "the page needs a token that may read")
	require.NotContains(t, p.Log.String(), sender, "tokens never reach the log")
	p.Stop(t)
}

// TestTLS serves with a certificate and a password, from Prometheus' own kind of
// web config file.
func TestTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := nettest.SelfSigned(t)
	e2etest.WriteFile(t, dir, "cert.pem", string(cert))
	e2etest.WriteFile(t, dir, "key.pem", string(key))
	e2etest.WriteFile(t, dir, "web.yaml", "tls_server_config: {cert_file: cert.pem, key_file: key.pem}\n")
	spec := e2etest.WriteFile(t, dir, "spec.yaml", fmt.Sprintf(reloadSpec, "99.9", "order"))
	p, ok := e2etest.ServeIn(t, dir, spec, "web: {config_file: web.yaml}\n")
	require.True(t, ok, p.Log.String())
	require.True(t, strings.HasPrefix(p.Base, "https://"), p.Base)
	client := trusting(t, cert)
	require.Eventually(t, func() bool {
		res, err := client.Get(p.Base + "/-/ready")
		if err != nil {
			return false
		}
		res.Body.Close()
		return res.StatusCode == http.StatusOK
	}, testkit.Patience, 20*time.Millisecond, p.Log.String())

	// A web config that cannot work stops the start and says so.
	require.NoError(
		t, os.WriteFile(dir+"/web.yaml", []byte("tls_server_config: {cert_file: nowhere.pem, key_file: key.pem}\n"), 0o644))
	p.Stop(t)
	bad, _ := e2etest.ServeIn(t, dir, spec, "web: {config_file: web.yaml}\n")
	<-bad.Done
	require.Equal(t, 1, bad.Cmd.ProcessState.ExitCode())
	require.Contains(t, bad.Log.String(), "nowhere.pem")
}

// TestReloadSettings changes limits and redaction under a running engine: counts go on,
// wrong settings change nothing and are named, and what needs a restart is said.
func TestReloadSettings(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	spec := e2etest.WriteFile(t, dir, "spec.yaml", fmt.Sprintf(reloadSpec, "99.9", "order"))
	settings :=
		"evaluator: {interval: 50ms}\nlimits:\n  global: off\n  default: off\n  types: [{match: order, limit: %d, window: " +
			"1h, on_exceeded: drop}]\n"
	p := e2etest.Serve(t, dir, spec, fmt.Sprintf(settings, 5))
	send := func(from int) (a e2etest.Answered) {
		t.Helper()
		var body strings.Builder
		for i := from; i < from+10; i++ {
			fmt.Fprintf(&body, `{"id":"%d","service":"shop","type":"order","attributes":{"email":"a@example.org"}}`+"\n", i)
		}
		status, answer := e2etest.Post(t, p.Base+"/api/v1/events", "", body.String())
		require.Equal(t, 202, status, answer)
		require.NoError(t, json.Unmarshal([]byte(answer), &a))
		return a
	}
	first := send(0)
	require.Equal(t, 5, first.Accepted)
	require.Equal(t, 5, first.Limited)

	e2etest.WriteFile(t, dir, "engine.yaml", fmt.Sprintf(settings, 0))
	status, answer := e2etest.Post(t, p.Base+"/-/reload", "", "")
	require.GreaterOrEqual(t, status, 400)
	require.Contains(t, answer, "limits.types[0].limit")
	require.Contains(t, answer, ":5:33: ")
	require.Equal(t, 10, send(100).Limited, "the old limit holds")

	e2etest.WriteFile(t, dir, "engine.yaml",
		fmt.Sprintf(settings, 12)+"redact: [{attributes: [email], action: remove}]\nlog: {segment: 1MiB}\n")
	status, answer = e2etest.Post(t, p.Base+"/-/reload", "", "")
	require.Equal(t, 200, status, answer)
	second := send(200)
	require.Equal(t, 7, second.Accepted, "twelve, of which five were used up")
	require.Eventually(t, func() bool {
		return strings.Contains(p.Log.String(), "take effect after a restart") &&
			strings.Contains(p.Log.String(), "sections=[log]")
	},
		testkit.Patience, 20*time.Millisecond, p.Log.String())
	p.Stop(t)
	// What was stored before and after the rule.
	log, err := os.ReadFile(walSegment(t, dir))
	require.NoError(t, err)
	require.Equal(t, 5, strings.Count(string(log), "a@example.org"))
}

func walSegment(t *testing.T, dir string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "data", "wal", "*.wal"))
	require.NoError(t, err)
	require.Len(t, names, 1)
	return names[0]
}

// Sinks come, go and change by a reload. A changed one goes on where it was.
func TestSinksChangeByReload(t *testing.T) {
	t.Parallel()
	first := e2etest.NewReceiver(t)
	var got atomic.Int64
	moved := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var events []json.RawMessage
		_ = json.NewDecoder(r.Body).Decode(&events)
		got.Add(int64(len(events)))
	}))
	defer moved.Close()
	dir := t.TempDir()
	spec := e2etest.WriteFile(t, dir, "spec.yaml", troubleSpec)
	settings := func(sinks string) string { return troublePolicies + "sinks:\n" + sinks }
	archive := "  - {name: archive, file: {dir: archive}, max_lag_bytes: 0}\n"
	p := e2etest.Serve(
		t, dir, spec, settings(fmt.Sprintf("  - {name: hook, http: {url: \"http://%s/in\"}}\n", first.Address)+archive))
	reload := func(want int, text string) string {
		t.Helper()
		e2etest.WriteFile(t, dir, "engine.yaml", settings(text))
		status, answer := e2etest.Post(t, p.Base+"/-/reload", "", "")
		require.Equal(t, want, status, answer)
		return answer
	}
	delivered := func(sink string, n int) {
		t.Helper()
		require.Eventually(t, func() bool {
			return strings.Contains(string(e2etest.Get(t, p.Base+"/metrics")),
				fmt.Sprintf("sloengine_sink_delivered_items_total{sink=%q} %d\n", sink, n))
		}, testkit.Patience, 50*time.Millisecond, "%s", p.Log)
	}
	sendOrders(t, p, "a", 10)
	delivered("hook", 10)
	delivered("archive", 10)
	testkit.Pause(1500 * time.Millisecond) // the cursors are saved

	// The first is turned down; what it has not got waits for its new address.
	first.Mode.Store(e2etest.Refuses)
	sendOrders(t, p, "b", 10)
	reload(200, fmt.Sprintf("  - {name: hook, http: {url: %q}, batch: {items: 3}}\n", moved.URL)+archive)
	require.Eventually(t, func() bool {
		return got.Load() == 10
	}, testkit.Patience, 20*time.Millisecond, "not one more and not one less: the cursor is kept\n%s", p.Log)
	delivered("archive", 20)
	require.Len(t, p.LinesWith(`"sink changed"`), 1)
	require.NotContains(t, p.Log.String(), "take effect after a restart")

	// A file sink that changes takes its own folder over; another one is added and begins
	// at the oldest event that the log has.
	reload(200, "  - {name: archive, file: {dir: archive, fsync: batch}}\n  - {name: more, file: {dir: more}}\n")
	delivered("more", 20)
	sendOrders(t, p, "c", 5)
	delivered("archive", 25)
	delivered("more", 25)
	require.Len(t, p.LinesWith(`"sink removed"`), 1)
	require.Len(t, p.LinesWith(`"sink added"`), 1)
	require.EqualValues(t, 10, got.Load(), "it is gone")
	metrics := string(e2etest.Get(t, p.Base+"/metrics"))
	require.NotContains(t, metrics, `sink="hook"`)
	require.Contains(t, metrics, `sloengine_sink_max_lag_bytes{sink="archive"}`)
	require.NotContains(t, string(e2etest.Get(t, p.Base+"/api/v1/engine")), `"hook"`)

	// Policies of all sinks are those of each, and a mistake changes nothing.
	e2etest.WriteFile(t, dir, "engine.yaml",
		strings.Replace(settings("  - {name: archive, file: {dir: archive, fsync: batch}}\n"), "base: 10ms", "base: 20ms", 1))
	status, answer := e2etest.Post(t, p.Base+"/-/reload", "", "")
	require.Equal(t, 200, status, answer)
	require.Eventually(t, func() bool {
		return len(p.LinesWith(`"sink changed"`)) == 3
	}, testkit.Patience, 10*time.Millisecond, "%s", p.Log)
	require.Contains(t, reload(422, "  - {name: archive}\n"), "the sink has no destination")
	sendOrders(t, p, "d", 5)
	delivered("archive", 30)
	p.Stop(t)
}

// TestUnknownTypesAreAdmitted stores events of a type that no SLO counts, and names them, also after a kill.
func TestUnknownTypesAreAdmitted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	spec := e2etest.WriteFile(t, dir, "spec.yaml",
		strings.Replace(fmt.Sprintf(reloadSpec, "99.9", "order"), "slos:", "admit_unknown_types: true\nslos:", 1))
	serve := func() *e2etest.Process { return e2etest.Serve(t, dir, spec, "log: {retain: 1d}\n") }
	p := serve()
	const ordr = `{"id":"1","service":"shop","type":"ordr","outcome":"failure"}`
	for _, want := range []string{`"accepted":1`, `"duplicates":1`} {
		status, answer := e2etest.Post(t, p.Base+"/api/v1/events", "", ordr)
		require.Equal(t, 202, status, answer)
		require.Contains(t, answer, want)
	}
	stored := func() {
		t.Helper()
		testkit.Eventually(t, "the table names the type", func() bool {
			return strings.Contains(string(e2etest.Get(t, p.Base+"/api/v1/rejects")),
				`"types":[{"code":"uncounted","service":"shop","type":"ordr","events":1,"first":`)
		})
		require.Zero(t, e2etest.Counter(t, p, "slo_events_total"))
		require.Zero(t, e2etest.Counter(t, p, "sloengine_events_total"))
		require.Contains(t, string(e2etest.Get(t, p.Base+"/engine")), "stored, not counted")
	}
	stored()
	require.EqualValues(t, 1, e2etest.Counter(t, p, "sloengine_uncounted_events_total"))
	p.Kill()
	p = serve()
	stored()
	p.Stop(t)
	p = serve()
	stored()
	p.Kill()
	p = serve()
	stored()
	out, stderr, code := e2etest.Command(t, "export", "--data-dir", filepath.Join(dir, "data"))
	require.Zero(t, code, stderr)
	require.Contains(t, out, `"type":"ordr"`)

	// A spec that names the type counts what came before it did.
	e2etest.WriteFile(t, dir, "spec.yaml", fmt.Sprintf(reloadSpec, "99.9", "ordr"))
	out, stderr, code = e2etest.Command(t, "diff", "--running", "--url", p.Base, spec)
	require.Equal(t, 3, code, stderr)
	require.Regexp(t, `counts type ordr, of which since 20.* events are in the log, uncounted: 1`, out)
	status, answer := e2etest.Post(t, p.Base+"/-/reload", "", "")
	require.Equal(t, 200, status, answer)
	testkit.Eventually(t, "the history is counted", func() bool {
		return regexp.MustCompile(`"bad":1\b`).Match(e2etest.Get(t, p.Base+"/api/v1/slos"))
	}, func() string { return string(e2etest.Get(t, p.Base+"/api/v1/slos")) })
}
