package brokers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts/notify/notifytest"
	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
)

const pagedSpec = `version: sloengine/v1
service: shop
slos:
  - name: availability
    objective: 99.999 # so small a budget that a few seconds are proof
    group_by: [route]
    indicator:
      prometheus: {total: 'http_requests_total{job="web"}', bad: 'http_requests_total{job="web",code=~"5.."}'}
    alerting: {%sticket: {disabled: true}, no_data: {disabled: true},
        tiers: [{severity: page, long: 1h, short: 5m, budget: 2}]}
`

// watched is the address of a proxy in front of an Alertmanager, which notes whether the page goes through it.
func watched(t *testing.T, alertmanager string) (address string, sent *atomic.Bool) {
	to, err := url.Parse(alertmanager)
	require.NoError(t, err)
	sent = &atomic.Bool{}
	proxy := httputil.NewSingleHostReverseProxy(to)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil && strings.Contains(string(body), "ErrorBudgetBurnPage") {
			sent.Store(true)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL, sent
}

// sendsAlerts is who sends the alerts, on the page of the SLO shop/availability.
func sendsAlerts(t *testing.T, p *e2etest.Process) string {
	_, rest, _ := strings.Cut(string(e2etest.Get(t, p.Base+"/slo?id=shop%2Favailability&group.route=%2Fcart")),
		`<h2 id="alerts">`)
	text, _, _ := strings.Cut(rest, "</p>")
	return html.UnescapeString(text)
}

// TestWhoAlerts: whoever alerts on the counters of a real Prometheus, rules in it, the engine or both, one outage is
// one page of a real Alertmanager, also over kills of the engine while the Prometheus is down, and one incident.
func TestWhoAlerts(t *testing.T) {
	t.Parallel()
	needPrometheus(t)
	for name, mode := range map[string]struct {
		by, spec string // of the source and of the SLO
		rules    bool   // are loaded
		labels   string // of the Prometheus
		want     string // on the page of the SLO
		sends    bool   // the engine
	}{
		"rules are seen": {"", "", true, "eu", "Rules in Prometheus send these alerts, and the engine sends none of them",
			false},
		"no rules are there": {"", "", false, "eu", "The engine sends these alerts (no rules for it are in", true},
		"rules are set":      {"rules", "", true, "eu", "the engine sends none of them (it is set so", false},
		"live by the spec":   {"rules", "by: live, ", false, "eu", "The engine sends these alerts (it is set so", true},
		"both": {"both", "", true, "eu",
			"Alertmanager deduplicates them (it is set so, and the labels are equal", true},
		"both, but labels differ": {"both", "", true, "us",
			"the engine sends none of them (both would notify twice: ErrorBudgetBurnPage in", false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			am := notifytest.Start(t,
				`route: {receiver: hook, group_by: ['...'], group_wait: 0s, group_interval: 500ms, repeat_interval: 24h}
receivers: [{name: hook, webhook_configs: [{url: '`+notifytest.Hook+`', send_resolved: true}]}]
`)
			web := &requests{counts: map[string]int{`route="/cart",code="200"`: 100, `route="/cart",code="500"`: 0}}
			target := httptest.NewServer(web)
			defer target.Close()
			spec := e2etest.WriteFile(t, dir, "spec.yaml", fmt.Sprintf(pagedSpec, mode.spec))
			toRules, byRules := watched(t, am.URL)
			toEngine, byEngine := watched(t, am.URL)
			more := fmt.Sprintf("alerting: {alertmanagers: [{static_configs: [{targets: [%q]}]}]}\n",
				strings.TrimPrefix(toRules, "http://"))
			if mode.rules {
				out, errOut, code := e2etest.Command(t, "generate", "rules", "-f", spec, "--out", "-")
				require.Zero(t, code, errOut)
				e2etest.WriteFile(t, dir, "rules.yaml", strings.ReplaceAll(out, "interval: 30s", "interval: 1s"))
				more += "rule_files: [rules.yaml]\n"
			}
			address := startPrometheus(t, dir, target.URL, fmt.Sprintf(", external_labels: {cluster: %s}", mode.labels), more)
			proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: address})
			var down atomic.Bool
			front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if down.Load() {
					panic(http.ErrAbortHandler)
				}
				proxy.ServeHTTP(w, r)
			}))
			defer front.Close()

			by := ""
			if mode.by != "" {
				by = ", alerts: " + mode.by
			}
			settings := fmt.Sprintf(`evaluator: {interval: 200ms}
notifications: {resend: 30s, timeout: 2s, external_labels: {cluster: eu}, alertmanagers: [{url: %q}]}
sources: [{name: metrics, prometheus: {url: %q, interval: 500ms, scrape_interval: 1s%s}}]
`, toEngine, front.URL, by)
			p := e2etest.Serve(t, dir, spec, settings)
			testkit.Eventually(t, "the engine counts", func() bool {
				web.add(`route="/cart",code="200"`, 1)
				return strings.Contains(string(e2etest.Get(t, p.Base+"/api/v1/slos")), `"route":"/cart"`)
			})
			require.Contains(t, sendsAlerts(t, p), mode.want)

			outage := func() {
				web.add(`route="/cart",code="200"`, 50)
				web.add(`route="/cart",code="500"`, 50)
			}
			pages := func() (n int) {
				for _, told := range am.Notifications() {
					for _, a := range told.Alerts {
						if a.Labels["severity"] == "page" && a.Status == "firing" {
							n++
						}
					}
				}
				return n
			}
			open := func() int {
				var list struct{ Items []json.RawMessage }
				require.NoError(t, json.Unmarshal(e2etest.Get(t, p.Base+"/api/v1/incidents"), &list))
				return len(list.Items)
			}
			for end := time.Now().Add(90 * time.Second); pages() == 0 || open() == 0; {
				require.True(t, time.Now().Before(end), "%d pages, %d incidents", pages(), open())
				outage()
				testkit.Pause(500 * time.Millisecond)
			}
			for range 2 {
				p.Kill()
				down.Store(true)
				p = e2etest.Serve(t, dir, spec, settings)
				testkit.Pause(2 * time.Second)
				down.Store(false)
				outage()
				testkit.Pause(2 * time.Second)
			}
			require.Equal(t, 1, pages())
			require.Equal(t, 1, open())
			require.Contains(t, sendsAlerts(t, p), mode.want)
			require.Equal(t, mode.sends, byEngine.Load(), "the engine sent it")
			require.Equal(t, mode.rules, byRules.Load(), "a rule sent it")
			p.Stop(t)
		})
	}
}
