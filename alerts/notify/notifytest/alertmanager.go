// Package notifytest runs a real Alertmanager for tests, with a webhook that notes what people would be told. It knows
// no engine.
package notifytest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/sloengine/sloengine/reliability/nettest"
	"github.com/stretchr/testify/require"
)

// Hook stands for the address of the webhook in a configuration.
const Hook = "WEBHOOK"

// Alertmanager is a process that a test starts and stops.
type Alertmanager struct {
	URL string

	t   testing.TB
	dir string
	cmd *exec.Cmd // nil while it is down

	mu       sync.Mutex
	requests int // to the webhook since the process began
	told     []Notification
}

// Notification is one that the webhook received.
type Notification struct {
	Receiver, Status, GroupKey string
	GroupLabels                map[string]string
	Alerts                     []Alert
}

// Alert is one of a notification, or one that Alertmanager holds.
type Alert struct {
	Status              string // only of a notification
	Labels, Annotations map[string]string
	StartsAt, EndsAt    time.Time
	GeneratorURL        string
}

// Start runs an Alertmanager with a configuration until the test ends.
func Start(t testing.TB, config string) *Alertmanager {
	t.Helper()
	if os.Getenv("SLOENGINE_QUICK") != "" {
		t.Skip("make quick runs no Alertmanager")
	}
	if _, err := exec.LookPath("prometheus-alertmanager"); err != nil {
		t.Skip("Alertmanager is not installed: apt-get install prometheus-alertmanager")
	}
	a := &Alertmanager{t: t, dir: t.TempDir()}
	hook := httptest.NewServer(http.HandlerFunc(a.serve))
	t.Cleanup(func() { hook.CloseClientConnections(); hook.Close() })
	require.NoError(
		t, os.WriteFile(filepath.Join(a.dir, "alertmanager.yml"), []byte(strings.ReplaceAll(config, Hook, hook.URL)), 0o600))
	a.URL = "http://" + nettest.FreeAddress(t)
	t.Cleanup(a.Stop)
	a.Start()
	return a
}

// serve is the webhook.
func (a *Alertmanager) serve(w http.ResponseWriter, r *http.Request) {
	var got Notification
	if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
		http.Error(w, err.Error(), http.StatusTeapot)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.requests++
	a.told = append(a.told, got)
}

// Start starts it after a Stop and waits until it is ready.
func (a *Alertmanager) Start() {
	a.t.Helper()
	out, err := os.OpenFile(filepath.Join(a.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(a.t, err)
	defer out.Close()
	a.cmd = exec.Command("prometheus-alertmanager", "--config.file="+filepath.Join(a.dir, "alertmanager.yml"),
		"--storage.path="+filepath.Join(a.dir, "data"),
		"--web.listen-address="+strings.TrimPrefix(a.URL, "http://"), "--cluster.listen-address=")
	a.cmd.Stdout, a.cmd.Stderr = out, out
	a.mu.Lock()
	a.requests = 0
	a.mu.Unlock()
	require.NoError(a.t, a.cmd.Start())
	a.eventually("Alertmanager is ready", func() bool {
		resp, err := http.Get(a.URL + "/-/ready")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

// Stop ends it in an orderly way, since it saves what it has told only then and every 15 minutes. It forgets a
// notification whose answer it has not read by then, so Stop waits for that.
func (a *Alertmanager) Stop() {
	if a.cmd == nil {
		return
	}
	a.eventually("Alertmanager has read the answers", a.idle)
	http.DefaultClient.CloseIdleConnections()
	_ = a.cmd.Process.Signal(syscall.SIGTERM)
	_ = a.cmd.Wait()
	a.cmd = nil
}

// idle reports whether it has counted every request that the webhook got.
func (a *Alertmanager) idle() bool {
	resp, err := http.Get(a.URL + "/metrics")
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	p := expfmt.NewTextParser(model.UTF8Validation)
	families, err := p.TextToMetricFamilies(resp.Body)
	if err != nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, m := range families["alertmanager_notification_requests_total"].GetMetric() {
		if m.GetLabel()[0].GetValue() == "webhook" {
			return int(m.GetCounter().GetValue()) >= a.requests
		}
	}
	return a.requests == 0
}

// Notifications lists what the webhook received so far.
func (a *Alertmanager) Notifications() []Notification {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.told)
}

// Active asks which alerts it holds as firing.
func (a *Alertmanager) Active() []Alert {
	a.t.Helper()
	resp, err := http.Get(a.URL + "/api/v2/alerts")
	require.NoError(a.t, err)
	defer resp.Body.Close()
	var got []struct {
		Labels, Annotations map[string]string
		StartsAt, EndsAt    time.Time
		GeneratorURL        string
	}
	require.NoError(a.t, json.NewDecoder(resp.Body).Decode(&got))
	var out []Alert
	for _, x := range got {
		out = append(out, Alert{Labels: x.Labels, Annotations: x.Annotations, StartsAt: x.StartsAt, EndsAt: x.EndsAt,
			GeneratorURL: x.GeneratorURL})
	}
	return out
}

func (a *Alertmanager) eventually(what string, holds func() bool) {
	a.t.Helper()
	require.Eventually(a.t, holds, time.Minute, 5*time.Millisecond, what)
}
