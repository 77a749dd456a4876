package alerting

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/stretchr/testify/require"
)

// pager takes alerts as Alertmanager does. It can be down.
type pager struct {
	*httptest.Server
	down atomic.Bool

	mu    sync.Mutex
	state map[string]pagedAlert // the last of each name
	count map[string]int
}

type pagedAlert struct {
	Labels, Annotations map[string]string
	StartsAt, EndsAt    time.Time
}

func newPager(t *testing.T) *pager {
	p := &pager{state: map[string]pagedAlert{}, count: map[string]int{}}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var got []pagedAlert
		if p.down.Load() || json.NewDecoder(r.Body).Decode(&got) != nil || r.URL.Path != "/api/v2/alerts" {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, a := range got {
			p.state[a.Labels["alertname"]] = a
			p.count[a.Labels["alertname"]]++
		}
	}))
	t.Cleanup(p.Close)
	return p
}

func (p *pager) get(name string) (a pagedAlert, times int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state[name], p.count[name]
}

func (p *pager) wait(t *testing.T, name string, is func(a pagedAlert, times int) bool) pagedAlert {
	t.Helper()
	require.Eventually(t, func() bool { return is(p.get(name)) }, testkit.Patience, 10*time.Millisecond, name)
	a, _ := p.get(name)
	return a
}

// TestNotifications follows one alert from events to two Alertmanagers: one is down for a while, and the engine is
// killed meanwhile.
func TestNotifications(t *testing.T) {
	t.Parallel()
	first, second := newPager(t), newPager(t)
	dir := t.TempDir()
	spec := e2etest.WriteFile(t, dir, "spec.yaml", `version: sloengine/v1
service: shop
slos:
  - name: checkout
    objective: 99.999 # so small a budget that a new engine has proof within seconds
    indicator:
      events: {valid: '{type="order"}', bad: '{outcome="failure"}'}
    alerting: {ticket: {disabled: true}, no_data: {disabled: true},
        tiers: [{severity: page, long: 1h, short: 5m, budget: 2}]}
`)
	settings := func(more string) string {
		return fmt.Sprintf(`evaluator: {interval: 100ms}
web: {external_url: "https://slo.example.org"}
notifications:
  resend: 1s
  timeout: 2s
  external_labels: {cluster: eu-1}
  runbook_url: https://wiki.example.org
  dashboard_url: https://grafana.example.org
  alertmanagers: [{url: %q, name: first}, {url: %q, name: second}]
  %s
`, first.URL, second.URL, more)
	}
	serve := func() *e2etest.Process {
		return e2etest.Serve(t, dir, spec, settings(""))
	}
	p := serve()
	first.wait(t, "Watchdog", func(_ pagedAlert, times int) bool { return times > 1 })
	second.down.Store(true)
	for i := range 10 {
		status, answer := e2etest.Post(t, p.Base+"/api/v1/events", "",
			fmt.Sprintf(`{"id":"%d","service":"shop","type":"order","outcome":"failure"}`, i))
		require.Equal(t, 202, status, answer)
	}
	a := first.wait(t, "ErrorBudgetBurnPage", func(a pagedAlert, times int) bool { return times > 1 })
	require.Equal(t, "eu-1", a.Labels["cluster"])
	require.Equal(t, "shop/checkout", a.Labels["slo_id"])
	require.Equal(t, "shop/checkout burns its error budget fast", a.Annotations["summary"])
	require.Contains(t, a.Annotations["description"], "100% of the events of the last 1h were bad.")
	require.Equal(t, "https://slo.example.org/slo?id=shop%2Fcheckout", a.Annotations["page"])
	require.Equal(t, "https://wiki.example.org/ErrorBudgetBurnPage.md", a.Annotations["runbook_url"])
	require.True(t, strings.HasPrefix(a.Annotations["dashboard"], "https://grafana.example.org/d/sloengine-slo?"),
		a.Annotations["dashboard"])
	require.WithinDuration(t, time.Now().Add(4*time.Second), a.EndsAt, 4*time.Second)

	// Everybody sees that the other one is down, and only those who may read see why.
	require.Eventually(t, func() bool {
		return e2etest.Counter(t, p, "sloengine_notify_failing") == 1
	}, testkit.Patience, 20*time.Millisecond)
	require.Contains(t, string(e2etest.Get(t, p.Base+"/-/ready")), `"part":"alertmanager","name":"second"`)
	require.Contains(t, string(e2etest.Get(t, p.Base+"/api/v1/engine")), `"brief":"503 Service Unavailable"`)
	page := string(e2etest.Get(t, p.Base+"/engine"))
	require.Contains(t, page, "second")
	require.Contains(t, page, "503 Service Unavailable")
	require.Equal(t, 1, strings.Count(p.Log.String(), "alertmanager does not accept alerts"))

	p.Kill()
	second.down.Store(false)
	p = serve()
	b := second.wait(t, "ErrorBudgetBurnPage", func(_ pagedAlert, times int) bool { return times > 0 })
	require.True(t, a.StartsAt.Equal(b.StartsAt), "the same alert")
	require.Equal(t, a.Labels, b.Labels)

	// A reload sends nothing more, and then to the second one only, with other labels and links.
	e2etest.WriteFile(t, dir, "engine.yaml", settings("send: false"))
	status, answer := e2etest.Post(t, p.Base+"/-/reload", "", "")
	require.Equal(t, 200, status, answer)
	require.Contains(t, string(e2etest.Get(t, p.Base+"/-/ready")), `"notifications_off":true`)
	require.Contains(t, string(e2etest.Get(t, p.Base+"/api/v1/engine")), `"notifications_off":true`)
	require.Contains(t, string(e2etest.Get(t, p.Base+"/engine")), "Off. This engine sends its alerts nowhere")
	require.Eventually(t, func() bool {
		return strings.Contains(p.Log.String(), "notifications are off")
	}, testkit.Patience, 20*time.Millisecond)
	_, before := first.get("ErrorBudgetBurnPage")
	testkit.Pause(1500 * time.Millisecond)
	_, after := first.get("ErrorBudgetBurnPage")
	require.LessOrEqual(t, after, before+1)
	require.Zero(t, e2etest.Counter(t, p, "sloengine_notify_sent_total"))
	e2etest.WriteFile(t, dir, "engine.yaml",
		strings.NewReplacer("eu-1", "eu-2", "wiki.example", "books.example",
			fmt.Sprintf("{url: %q, name: first}, ", first.URL), "").Replace(settings("")))
	status, answer = e2etest.Post(t, p.Base+"/-/reload", "", "")
	require.Equal(t, 200, status, answer)
	second.wait(t, "ErrorBudgetBurnPage", func(a pagedAlert, _ int) bool {
		return a.Labels["cluster"] == "eu-2" && strings.HasPrefix(a.Annotations["runbook_url"], "https://books.example.org")
	})
	require.NotContains(t, string(e2etest.Get(t, p.Base+"/-/ready")), "notifications_off")
	e2etest.WriteFile(t, dir, "engine.yaml", "notifications: {alertmanagers: [{url: nowhere}]}")
	status, answer = e2etest.Post(t, p.Base+"/-/reload", "", "")
	require.Equal(t, 422, status, answer)
	require.Contains(t, answer, "1:39: notifications.alertmanagers[0].url")
	p.Stop(t)
}

// TestNotifyTest sends the test alert of the command.
func TestNotifyTest(t *testing.T) {
	t.Parallel()
	good, bad := newPager(t), newPager(t)
	bad.down.Store(true)
	dir := t.TempDir()
	notify := func(settings string, more ...string) (out, stderr string, code int) {
		return e2etest.Command(
			t, append([]string{"notify", "test", "-c", e2etest.WriteFile(t, dir, "engine.yaml", settings)}, more...)...)
	}
	out, _, code := notify(fmt.Sprintf(
		"notifications: {send: false, external_labels: {cluster: a}, alertmanagers: [{url: %q, name: good}]}", good.URL),
		"--severity", "page")
	require.Equal(t, cli.ExitOK, code)
	require.Regexp(t, `good +`+good.URL+` +\S+ +accepted`, out)
	a, _ := good.get("SloengineTest")
	require.Equal(t, "page", a.Labels["severity"])
	require.Equal(t, "a", a.Labels["cluster"])
	require.WithinDuration(t, time.Now().Add(5*time.Minute), a.EndsAt, time.Minute)

	out, stderr, code := notify(fmt.Sprintf(
		"notifications: {alertmanagers: [{url: %q, name: good}, {url: %q, name: bad}]}", good.URL, bad.URL), "-o", "json")
	require.Equal(t, cli.ExitFailure, code)
	require.Contains(t, stderr, "1 of 2 targets did not accept the alert")
	var rows []struct {
		OK    bool
		Error string
	}
	require.NoError(t, json.Unmarshal([]byte(out), &rows))
	require.True(t, rows[0].OK)
	require.Equal(t, "503 Service Unavailable", rows[1].Error)

	_, stderr, code = notify("{}")
	require.Equal(t, cli.ExitFailure, code)
	require.Contains(t, stderr, "names no Alertmanager")
}
