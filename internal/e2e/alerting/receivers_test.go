// Package alerting has the end-to-end tests of alerts, receivers, incidents and scheduled reports.
package alerting

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts/receivers"
	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
)

// notificationsFile is the engine's state of notifications in its data folder.
const notificationsFile = "notifications.json"

// webhook takes notifications as Alertmanager's receivers send them.
type webhook struct {
	*httptest.Server

	mu   sync.Mutex
	got  []notification
	then func() // nil: nothing
}

type notification struct {
	Receiver, Status string
	Alerts           []struct {
		Status              string
		Labels, Annotations map[string]string
	}
}

func newWebhook(t *testing.T) *webhook {
	h := &webhook{}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var got notification
		body, _ := io.ReadAll(r.Body)
		if json.Unmarshal(body, &got) != nil {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		h.got = append(h.got, got)
		if h.then != nil {
			h.then()
		}
	}))
	t.Cleanup(h.Close)
	return h
}

// of lists the states of an alert in the order in which they came.
func (h *webhook) of(name string) (states []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, n := range h.got {
		for _, a := range n.Alerts {
			if a.Labels["alertname"] == name {
				states = append(states, a.Status)
			}
		}
	}
	return states
}

func (h *webhook) wait(t *testing.T, name string, states ...string) {
	t.Helper()
	require.Eventually(t, func() bool {
		return slices.Equal(states, h.of(name))
	}, testkit.Patience, 10*time.Millisecond, "%s: %v", name, states)
}

// burningSpec has budgets so small that a new engine has proof within seconds.
func burningSpec(t *testing.T, dir string, services ...string) string {
	var b strings.Builder
	for i, s := range services {
		if i > 0 {
			b.WriteString("---\n")
		}
		fmt.Fprintf(&b, `version: sloengine/v1
service: %s
slos:
  - name: checkout
    objective: 99.999
    indicator:
      events: {valid: '{type="order"}', bad: '{outcome="failure"}'}
    alerting: {ticket: {disabled: true}, no_data: {disabled: true},
        tiers: [{severity: page, long: 1h, short: 5m, budget: 2}]}
`, s)
	}
	return e2etest.WriteFile(t, dir, "spec.yaml", b.String())
}

func burn(t *testing.T, p *e2etest.Process, service string) {
	for range 10 {
		status, answer := e2etest.Post(t, p.Base+"/api/v1/events", "",
			fmt.Sprintf(`{"service":%q,"type":"order","outcome":"failure"}`, service))
		require.Equal(t, 202, status, answer)
	}
}

// TestReceivers notifies without an Alertmanager: by class and service, with escalation, templates, kills and reloads.
func TestReceivers(t *testing.T) {
	oncall, pay, lead, ping := newWebhook(t), newWebhook(t), newWebhook(t), newWebhook(t)
	chat := make(chan string, 100)
	slack := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		chat <- string(body)
		fmt.Fprint(w, "ok")
	}))
	defer slack.Close()
	dir := t.TempDir()
	spec := burningSpec(t, dir, "shop", "pay")
	t.Setenv("SLACK_HUSH", slack.URL+"/services/hush")
	e2etest.WriteFile(
		t, dir, "footer.tmpl", `{{ define "slack.default.footer" }}from {{ .CommonLabels.cluster }}{{ end }}`)
	e2etest.WriteFile(t, dir, "hook.url", pay.URL+"/?token=hush")
	settings := fmt.Sprintf(`evaluator: {interval: 100ms}
web: {external_url: "https://slo.example.org"}
notifications:
  external_labels: {cluster: eu-1}
  receivers:
    - name: oncall
      webhook_configs: [{url: %q}]
      slack_configs: [{channel: "#sla"}]
    - {name: pay, webhook_configs: [{url_file: hook.url}]}
    - {name: lead, webhook_configs: [{url: %q}]}
    - {name: ping, webhook_configs: [{url: %q}]}
    - {name: nobody}
  global: {slack_api_url_env: SLACK_HUSH}
  templates: [footer.tmpl]
  default: nobody
  routes: {critical: oncall}
  services: {pay: {critical: pay}}
  watchdog: ping
  timing: {critical: {group_wait: 100ms, group_interval: 300ms, repeat_interval: 1h}}
  escalation: {critical: [{after: 2s, receiver: lead}]}
`, oncall.URL, lead.URL, ping.URL)
	serve := func() *e2etest.Process {
		return e2etest.Serve(t, dir, spec, settings)
	}
	p := serve()
	burn(t, p, "shop")
	oncall.wait(t, "ErrorBudgetBurnPage", "firing")
	require.Regexp(t, `"title":"CRITICAL: shop/checkout failing since \d\d:\d\d UTC \(\d+% of events in 5m\)"`, <-chat)
	require.Eventually(t, func() bool { return len(ping.of("Watchdog")) == 1 }, testkit.Patience, 10*time.Millisecond)
	require.Empty(t, pay.of("ErrorBudgetBurnPage"))
	burn(t, p, "pay")
	pay.wait(t, "ErrorBudgetBurnPage", "firing")
	a := pay.got[0].Alerts[0]
	require.Equal(t, "eu-1", a.Labels["cluster"])
	require.Equal(t, "https://slo.example.org/slo?id=pay%2Fcheckout", a.Annotations["page"])
	require.Contains(t, a.Annotations["incident"], "https://slo.example.org/incident?id=")
	require.Contains(t, a.Annotations["acknowledge"], "signature=")
	lead.wait(t, "ErrorBudgetBurnPage", "firing", "firing") // both are unacknowledged
	require.Contains(t, string(e2etest.Get(t, p.Base+"/metrics")),
		`sloengine_notify_sent_total{target="pay/webhook[0]"} 1`)

	// Neither a kill nor a reload repeats anything, once it is on disk who was told.
	require.Eventually(t, func() bool {
		var saved []byte // the groups of both services, in the file or in its journal
		for _, suffix := range []string{"", receivers.JournalSuffix} {
			data, _ := os.ReadFile(filepath.Join(dir, "data", notificationsFile+suffix))
			saved = append(saved, data...)
		}
		told := map[string]bool{} // by key of the group
		for _, group := range strings.Split(string(saved), `"key":"`) {
			if strings.Contains(group, `"lead/webhook[0]"`) {
				key, _, _ := strings.Cut(group, `","due"`)
				told[key] = true
			}
		}
		return len(told) == 2
	}, testkit.Patience, 20*time.Millisecond)
	p.Kill()
	p = serve()
	status, answer := e2etest.Post(t, p.Base+"/-/reload", "", "")
	require.Equal(t, 200, status, answer)
	testkit.Pause(time.Second) // three group intervals
	require.Equal(t, []string{"firing"}, oncall.of("ErrorBudgetBurnPage"))
	require.Equal(t, []string{"firing"}, pay.of("ErrorBudgetBurnPage"))
	require.Len(t, lead.of("ErrorBudgetBurnPage"), 2)

	// A receiver that is down is seen everywhere, and secrets are seen nowhere.
	pay.Close()
	data, err := os.ReadFile(spec)
	require.NoError(t, err)
	// its alert is over
	e2etest.WriteFile(t, dir, "spec.yaml", strings.Replace(string(data), "service: pay", "service: paid", 1))
	status, answer = e2etest.Post(t, p.Base+"/-/reload", "", "")
	require.Equal(t, 200, status, answer)
	require.Eventually(t, func() bool {
		return strings.Contains(string(e2etest.Get(t, p.Base+"/metrics")),
			`sloengine_notify_failing{target="pay/webhook[0]"} 1`)
	}, testkit.Patience, 20*time.Millisecond)
	ready := string(e2etest.Get(t, p.Base+"/-/ready"))
	require.Contains(t, ready, `"part":"receiver","name":"pay/webhook[0]"`)
	page := string(e2etest.Get(t, p.Base+"/engine"))
	require.Contains(t, page, "pay/webhook[0]")
	for _, text := range []string{ready, page, string(e2etest.Get(t, p.Base+"/api/v1/engine")), p.Log.String()} {
		require.NotContains(t, text, "hush")
	}
	status, answer = e2etest.Post(t, p.Base+"/api/v1/backup", "", "")
	require.Equal(t, 200, status)
	require.Contains(t, answer, notificationsFile)
	p.Stop(t)
}

// TestReceiverKills kills the engine again and again while it notifies: no alert is lost, and each kill repeats one
// notification at most.
func TestReceiverKills(t *testing.T) {
	t.Parallel()
	const kills = 3
	h := newWebhook(t)
	dir := t.TempDir()
	var services []string
	for i := range 12 {
		services = append(services, fmt.Sprintf("shop%d", i))
	}
	spec := burningSpec(t, dir, services...)
	settings := onCall(h)
	killed, killing := 0, make(chan struct{}, 100)
	h.then = func() { // the engine has not heard yet that this one arrived
		if killed < kills && len(h.got)%3 == 0 {
			killed++
			killing <- struct{}{}
			testkit.Pause(300 * time.Millisecond)
		}
	}
	p := e2etest.Serve(t, dir, spec, settings)
	for _, s := range services {
		burn(t, p, s)
	}
	for range kills {
		<-killing
		p.Kill()
		p = e2etest.Serve(t, dir, spec, settings)
	}
	told := func() map[string]int {
		h.mu.Lock()
		defer h.mu.Unlock()
		out := map[string]int{}
		for _, n := range h.got {
			for _, a := range n.Alerts {
				out[a.Labels["service"]]++
			}
		}
		return out
	}
	require.Eventually(t, func() bool { return len(told()) == len(services) }, testkit.Patience, 20*time.Millisecond)
	testkit.Pause(500 * time.Millisecond)
	extra := 0
	for _, n := range told() {
		extra += n - 1
	}
	t.Logf("%d extra notifications after %d kills", extra, kills)
	require.LessOrEqual(t, extra, kills)
	p.Stop(t)
}

// TestNotifyTestReceiver sends the test alert through a receiver.
func TestNotifyTestReceiver(t *testing.T) {
	t.Parallel()
	h := newWebhook(t)
	dir := t.TempDir()
	file := e2etest.WriteFile(t, dir, "engine.yaml", fmt.Sprintf(`notifications:
  send: false
  receivers: [{name: oncall, webhook_configs: [{url: %q}, {url: "http://127.0.0.1:1/hush"}]}]
  default: oncall
`, h.URL))
	notify := func(more ...string) (out, stderr string, code int) {
		return e2etest.Command(t, append([]string{"notify", "test", "-c", file}, more...)...)
	}
	out, stderr, code := notify("--receiver", "oncall")
	require.Equal(t, cli.ExitFailure, code)
	require.Regexp(t, `oncall/webhook\[0\] .* accepted`, out)
	require.Regexp(t, `oncall/webhook\[1\] .* failed: no connection`, out)
	require.NotContains(t, out+stderr, "hush")
	require.Equal(t, []string{"firing"}, h.of("SloengineTest"))
	_, stderr, code = notify("--receiver", "nobody")
	require.Equal(t, cli.ExitFailure, code)
	require.Contains(t, stderr, `unknown receiver "nobody" (want one of: oncall)`)
}

// onCall are settings of an engine that evaluates often and notifies a webhook at once.
func onCall(h *webhook) string {
	return fmt.Sprintf(`evaluator: {interval: 100ms}
notifications:
  receivers: [{name: oncall, webhook_configs: [{url: %q}]}]
  default: oncall
  timing: {critical: {group_wait: 0s, group_interval: 200ms, repeat_interval: 1h}}
`, h.URL)
}

// TestSilenceCommand silences over the API, with a token that may.
func TestSilenceCommand(t *testing.T) {
	t.Parallel()
	h := newWebhook(t)
	dir := t.TempDir()
	spec := burningSpec(t, dir, "shop", "pay")
	p := e2etest.Serve(t, dir, spec, onCall(h))
	silence := func(args ...string) (out, stderr string, code int) {
		out, stderr, code = e2etest.Command(t, append(append([]string{"silence"}, args...), "--url", p.Base)...)
		return strings.TrimSpace(out), stderr, code
	}
	id, stderr, code := silence("add", `service="shop"`, `severity=~"page|critical"`, "--author",
		"ann", "--comment", "known")
	require.Equal(t, cli.ExitOK, code, stderr)
	burn(t, p, "shop")
	burn(t, p, "pay")
	h.wait(t, "ErrorBudgetBurnPage", "firing")
	require.Equal(t, "pay", h.got[0].Alerts[0].Labels["service"])
	out, _, _ := silence("list")
	require.Regexp(t, id+` +active +service="shop",severity=~"page\|critical" .* ann +known`, out)
	require.Regexp(t, `action=silence.add .*known`, p.Log.String())
	_, stderr, code = silence("expire", id)
	require.Equal(t, cli.ExitOK, code, stderr)
	h.wait(t, "ErrorBudgetBurnPage", "firing", "firing")
	out, _, _ = silence("list")
	require.NotContains(t, out, id)
	out, _, _ = silence("list", "--all")
	require.Regexp(t, id+" +expired", out)

	_, stderr, code = silence("add", `service`, "--comment", "c", "--author", "a")
	require.Equal(t, cli.ExitFailure, code)
	require.Contains(t, stderr, "matchers: bad matcher format")
	_, stderr, code = silence("expire", "nosuch")
	require.Equal(t, cli.ExitFailure, code)
	require.Contains(t, stderr, "There is no silence with this id")
	p.Stop(t)
}

// TestUnsavedNotifications tells people although notifications.json cannot be written, and says so.
func TestUnsavedNotifications(t *testing.T) {
	t.Parallel()
	h := newWebhook(t)
	dir := t.TempDir()
	spec := burningSpec(t, dir, "shop")
	p := e2etest.Serve(t, dir, spec, onCall(h))
	inTheWay := filepath.Join(dir, "data", notificationsFile)
	require.Eventually(t, func() bool { // the engine may be writing it
		_ = os.Remove(inTheWay)
		return os.Mkdir(inTheWay, 0o700) == nil
	}, testkit.Patience, time.Millisecond)
	burn(t, p, "shop")
	h.wait(t, "ErrorBudgetBurnPage", "firing")
	ready := func() string { return string(e2etest.Get(t, p.Base+"/-/ready")) }
	require.Eventually(t, func() bool {
		return strings.Contains(ready(), `"part":"notifications"`)
	}, testkit.Patience, 20*time.Millisecond)
	require.Contains(t, string(e2etest.Get(t, p.Base+"/engine")), "it cannot be saved who was notified")
	require.NoError(t, os.Remove(inTheWay))
	require.Eventually(t, func() bool {
		return !strings.Contains(ready(), `"part":"notifications"`)
	}, testkit.Patience, 20*time.Millisecond)
	require.Eventually(t, func() bool {
		return strings.Contains(p.Log.String(), "notifications are saved again")
	}, testkit.Patience, 20*time.Millisecond)
	require.Equal(t, 1, strings.Count(p.Log.String(), "saving notifications failed"))
	require.Equal(t, []string{"firing"}, h.of("ErrorBudgetBurnPage"))
	p.Stop(t)
}
