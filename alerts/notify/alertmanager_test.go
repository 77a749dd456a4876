package notify

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/alerts/notify/notifytest"
	"github.com/sloengine/sloengine/internal/testkit"
)

// alertmanager is the real one.
type alertmanager struct{ *notifytest.Alertmanager }

// notified is one alert of a notification.
type notified struct{ product, status string }

// newAlertmanager starts one that groups by a label, or tells of each alert alone ("..."). It tells of a group at once
// and never repeats it.
func newAlertmanager(t *testing.T, groupBy string) *alertmanager {
	t.Helper()
	return &alertmanager{notifytest.Start(t,
		fmt.Sprintf("route: {receiver: hook, group_by: ['%s'], group_wait: 0s, group_interval: 1s, repeat_interval: 24h}\n"+
			"receivers: [{name: hook, webhook_configs: [{url: '%s', send_resolved: true}]}]\n", groupBy, notifytest.Hook))}
}

// active asks which alerts Alertmanager has, by product.
func (a *alertmanager) active() map[string]notifytest.Alert {
	out := map[string]notifytest.Alert{}
	for _, x := range a.Active() {
		out[x.Labels["product"]] = x
	}
	return out
}

// notifications counts the alerts in notifications.
func (a *alertmanager) notifications() map[notified]int {
	out := map[notified]int{}
	for _, n := range a.Notifications() {
		for _, x := range n.Alerts {
			out[notified{x.Labels["product"], x.Status}]++
		}
	}
	return out
}

func TestAlertmanager(t *testing.T) {
	am := newAlertmanager(t, "...")
	s := settingsFor(am.URL)
	s.Watchdog = alerts.Watchdog(options())
	n, _ := run(t, Options{Settings: s})
	w := newWorld(t, "МЕД \"1\"\n", "AUTO")
	n.Update(w.tick())
	w.bad[w.groups[0]] = true
	began := time.Now()
	n.Update(w.tick())
	testkit.Eventually(t, "it appears", func() bool { return len(am.active()) == 2 })
	took := time.Since(began)
	t.Logf("the alert was in Alertmanager after %s", took)
	require.Less(t, took, 20*time.Second) // a second, and much room for a busy machine
	got := am.active()[w.groups[0]]
	require.Equal(t, "page", got.Labels["severity"])
	require.Contains(t, got.Annotations["summary"], "burns its error budget fast")
	require.NotEmpty(t, got.GeneratorURL)
	require.Equal(t, "none", am.active()[""].Labels["severity"], "the watchdog")
	testkit.Eventually(t, "people are notified", func() bool {
		return am.notifications()[notified{w.groups[0], "firing"}] == 1
	})
	w.bad[w.groups[0]] = false
	n.Update(w.tick())
	testkit.Eventually(t, "it ends", func() bool {
		return len(am.active()) == 1 && am.notifications()[notified{w.groups[0], "resolved"}] == 1
	})
}

// TestAlertmanagerOutage kills the engine while Alertmanager is down.
func TestAlertmanagerOutage(t *testing.T) {
	am := newAlertmanager(t, "...")
	n, stop := run(t, Options{Settings: settingsFor(am.URL)})
	w := newWorld(t, "A", "B", "C", "D")
	w.bad["A"], w.bad["B"] = true, true
	n.Update(w.tick())
	testkit.Eventually(t, "two fire", func() bool {
		return len(am.notifications()) == 2
	})
	am.Stop()
	w.bad["A"], w.bad["C"], w.bad["D"] = false, true, true
	n.Update(w.tick())
	testkit.Eventually(t, "it fails", func() bool { return !n.Status()[0].FailingSince.IsZero() })
	w.bad["D"] = false
	n.Update(w.tick())
	stop() // kill -9
	w.restart()
	n, stop = run(t, Options{Settings: settingsFor(am.URL)})
	n.Update(w.tick())
	testkit.Eventually(t, "it fails again", func() bool { return !n.Status()[0].FailingSince.IsZero() })
	am.Start()
	testkit.Eventually(t, "each state is delivered", func() bool {
		got := am.notifications()
		return n.Status()[0].Pending == 0 && got[notified{"A", "resolved"}] > 0 && got[notified{"C", "firing"}] > 0
	})
	stop() // and once more, with Alertmanager up
	w.restart()
	n, _ = run(t, Options{Settings: settingsFor(am.URL)})
	n.Update(w.tick())
	testkit.Eventually(t, "all is sent again", func() bool { return n.Status()[0].Sent == 4 })
	w.bad["B"], w.bad["C"] = false, false
	n.Update(w.tick())
	testkit.Eventually(t, "the rest resolves", func() bool {
		got := am.notifications()
		return got[notified{"B", "resolved"}] > 0 && got[notified{"C", "resolved"}] > 0
	})
	require.Empty(t, am.active())
	// Two kills and an outage, and no notification is sent twice. D was over before one could be sent.
	require.Equal(t, map[notified]int{
		{"A", "firing"}: 1, {"A", "resolved"}: 1, {"B", "firing"}: 1, {"B", "resolved"}: 1,
		{"C", "firing"}: 1, {"C", "resolved"}: 1,
	}, am.notifications())
}

func TestAlertmanagerTenThousand(t *testing.T) {
	am := newAlertmanager(t, "alertname")
	n, _ := run(t, Options{Settings: settingsFor(am.URL)})
	w := newWorld(t, products(10_000)...)
	for _, g := range w.groups {
		w.bad[g] = true
	}
	v := w.tick()
	require.Len(t, v.Active, 10_000)
	began := time.Now()
	n.Update(v)
	testkit.Eventually(t, "all are accepted", func() bool {
		s := n.Status()[0]
		return s.Sent == 10_000 && s.Pending == 0
	})
	t.Logf("10,000 alerts were accepted after %s", time.Since(began))
	require.Len(t, am.active(), 10_000)
}
