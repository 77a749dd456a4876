package notify

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts"
)

// alertmanager is the real one, with a webhook that counts what people would be told.
type alertmanager struct {
	t    *testing.T
	dir  string
	addr string
	cmd  *exec.Cmd

	mu       sync.Mutex
	requests int    // of this process to the webhook
	told     []told // in order
}

// told is one alert of a notification.
type told struct{ product, status string }

// newAlertmanager starts one that groups by a label, or tells of each alert alone ("...").
func newAlertmanager(t *testing.T, groupBy string) *alertmanager {
	t.Helper()
	if os.Getenv("SLOENGINE_QUICK") != "" {
		t.Skip("make quick runs no Alertmanager")
	}
	if _, err := exec.LookPath("prometheus-alertmanager"); err != nil {
		t.Skip("Alertmanager is not installed: apt-get install prometheus-alertmanager")
	}
	a := &alertmanager{t: t, dir: t.TempDir()}
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var got struct {
			Alerts []struct {
				Status string            `json:"status"`
				Labels map[string]string `json:"labels"`
			} `json:"alerts"`
		}
		if json.NewDecoder(r.Body).Decode(&got) != nil {
			return
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		a.requests++
		for _, x := range got.Alerts {
			a.told = append(a.told, told{x.Labels["product"], x.Status})
		}
	}))
	t.Cleanup(func() { hook.CloseClientConnections(); hook.Close() })
	// A group is told about at once and never repeated.
	config := fmt.Sprintf("route: {receiver: hook, group_by: ['%s'], group_wait: 0s, group_interval: 1s, repeat_interval: 24h}\n"+
		"receivers: [{name: hook, webhook_configs: [{url: '%s', send_resolved: true}]}]\n", groupBy, hook.URL)
	require.NoError(t, os.WriteFile(filepath.Join(a.dir, "alertmanager.yml"), []byte(config), 0o600))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	a.addr = l.Addr().String()
	require.NoError(t, l.Close())
	t.Cleanup(a.stop)
	a.start()
	return a
}

func (a *alertmanager) url() string { return "http://" + a.addr }

func (a *alertmanager) start() {
	a.t.Helper()
	out, err := os.OpenFile(filepath.Join(a.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(a.t, err)
	defer out.Close()
	a.cmd = exec.Command("prometheus-alertmanager", "--config.file="+filepath.Join(a.dir, "alertmanager.yml"), "--storage.path="+filepath.Join(a.dir, "data"),
		"--web.listen-address="+a.addr, "--cluster.listen-address=")
	a.cmd.Stdout, a.cmd.Stderr = out, out
	a.mu.Lock()
	a.requests = 0
	a.mu.Unlock()
	require.NoError(a.t, a.cmd.Start())
	eventually(a.t, "Alertmanager is ready", func() bool {
		resp, err := http.Get(a.url() + "/-/ready")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == 200
	})
}

// stop ends it in an orderly way, since it saves what it has told only then and every 15 minutes. It forgets a
// notification whose answer it has not read by then, so stop waits for that.
func (a *alertmanager) stop() {
	if a.cmd != nil {
		eventually(a.t, "Alertmanager has read the answers", a.idle)
		http.DefaultClient.CloseIdleConnections()
		_ = a.cmd.Process.Signal(syscall.SIGTERM)
		_ = a.cmd.Wait()
		a.cmd = nil
	}
}

// idle reports whether it has counted every request that the webhook got.
func (a *alertmanager) idle() bool {
	resp, err := http.Get(a.url() + "/metrics")
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	p := expfmt.NewTextParser(model.UTF8Validation)
	families, err := p.TextToMetricFamilies(resp.Body)
	require.NoError(a.t, err)
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, m := range families["alertmanager_notification_requests_total"].GetMetric() {
		if m.GetLabel()[0].GetValue() == "webhook" {
			return int(m.GetCounter().GetValue()) >= a.requests
		}
	}
	return a.requests == 0
}

// active asks which alerts Alertmanager has, by product.
func (a *alertmanager) active() map[string]posted {
	resp, err := http.Get(a.url() + "/api/v2/alerts")
	require.NoError(a.t, err)
	defer resp.Body.Close()
	var got []posted
	require.NoError(a.t, json.NewDecoder(resp.Body).Decode(&got))
	out := map[string]posted{}
	for _, x := range got {
		out[x.Labels["product"]] = x
	}
	return out
}

// notifications is what people were told, and how often.
func (a *alertmanager) notifications() map[told]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := map[told]int{}
	for _, x := range a.told {
		out[x]++
	}
	return out
}

func TestAlertmanager(t *testing.T) {
	am := newAlertmanager(t, "...")
	s := settingsFor(am.url())
	s.Watchdog = alerts.Watchdog(options())
	n, _ := run(t, Options{Settings: s})
	w := newWorld(t, "МЕД \"1\"\n", "AUTO")
	n.Update(w.tick())
	w.bad[w.groups[0]] = true
	began := time.Now()
	n.Update(w.tick())
	eventually(t, "it appears", func() bool { return len(am.active()) == 2 })
	took := time.Since(began)
	t.Logf("the alert was in Alertmanager after %s", took)
	require.Less(t, took, 5*time.Second) // a second, and much room for a busy machine
	got := am.active()[w.groups[0]]
	require.Equal(t, "page", got.Labels["severity"])
	require.Contains(t, got.Annotations["summary"], "burns its error budget fast")
	require.NotEmpty(t, got.GeneratorURL)
	require.Equal(t, "none", am.active()[""].Labels["severity"], "the watchdog")
	eventually(t, "people are told", func() bool { return am.notifications()[told{w.groups[0], "firing"}] == 1 })
	w.bad[w.groups[0]] = false
	n.Update(w.tick())
	eventually(t, "it ends", func() bool { return len(am.active()) == 1 && am.notifications()[told{w.groups[0], "resolved"}] == 1 })
}

// TestAlertmanagerOutage kills the engine while Alertmanager is down.
func TestAlertmanagerOutage(t *testing.T) {
	am := newAlertmanager(t, "...")
	n, stop := run(t, Options{Settings: settingsFor(am.url())})
	w := newWorld(t, "A", "B", "C", "D")
	w.bad["A"], w.bad["B"] = true, true
	n.Update(w.tick())
	eventually(t, "two fire", func() bool {
		told := am.notifications()
		return len(told) == 2
	})
	am.stop()
	w.bad["A"], w.bad["C"], w.bad["D"] = false, true, true
	n.Update(w.tick())
	eventually(t, "it fails", func() bool { return !n.Status()[0].FailingSince.IsZero() })
	w.bad["D"] = false
	n.Update(w.tick())
	stop() // kill -9
	w.restart()
	n, stop = run(t, Options{Settings: settingsFor(am.url())})
	n.Update(w.tick())
	eventually(t, "it fails again", func() bool { return !n.Status()[0].FailingSince.IsZero() })
	am.start()
	eventually(t, "each state is delivered", func() bool {
		got := am.notifications()
		return n.Status()[0].Pending == 0 && got[told{"A", "resolved"}] > 0 && got[told{"C", "firing"}] > 0
	})
	stop() // and once more, with Alertmanager up
	w.restart()
	n, _ = run(t, Options{Settings: settingsFor(am.url())})
	n.Update(w.tick())
	eventually(t, "all is sent again", func() bool { return n.Status()[0].Sent == 4 })
	w.bad["B"], w.bad["C"] = false, false
	n.Update(w.tick())
	eventually(t, "the rest resolves", func() bool {
		got := am.notifications()
		return got[told{"B", "resolved"}] > 0 && got[told{"C", "resolved"}] > 0
	})
	require.Empty(t, am.active())
	// Two kills and an outage, and nobody is told anything twice. D was over before anybody could be told.
	require.Equal(t, map[told]int{
		{"A", "firing"}: 1, {"A", "resolved"}: 1, {"B", "firing"}: 1, {"B", "resolved"}: 1, {"C", "firing"}: 1, {"C", "resolved"}: 1,
	}, am.notifications())
}

func TestAlertmanagerTenThousand(t *testing.T) {
	am := newAlertmanager(t, "alertname")
	n, _ := run(t, Options{Settings: settingsFor(am.url())})
	w := newWorld(t, products(10_000)...)
	for _, g := range w.groups {
		w.bad[g] = true
	}
	v := w.tick()
	require.Len(t, v.Active, 10_000)
	began := time.Now()
	n.Update(v)
	eventually(t, "all are accepted", func() bool { s := n.Status()[0]; return s.Sent == 10_000 && s.Pending == 0 })
	t.Logf("10,000 alerts were accepted after %s", time.Since(began))
	require.Len(t, am.active(), 10_000)
}
