package alerting

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts/notify/notifytest"
	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
)

var outage = flag.Duration(
	"outage", 0, "how long Alertmanager stays down in TestAlertmanagerKills, beyond what the test needs")

// TestAlertmanagerKills kills the engine again and again while alerts begin and end, also while a real Alertmanager is
// down: people are told of each state, and of at most one more for each kill.
func TestAlertmanagerKills(t *testing.T) {
	t.Parallel()
	am := notifytest.Start(t,
		`route: {receiver: hook, group_by: ['...'], group_wait: 0s, group_interval: 500ms, repeat_interval: 24h}
receivers: [{name: hook, webhook_configs: [{url: '`+notifytest.Hook+`', send_resolved: true}]}]
`)
	told := func() map[string]int {
		out := map[string]int{}
		for _, n := range am.Notifications() {
			for _, a := range n.Alerts {
				if a.Labels["alertname"] == "ErrorBudgetBurnPage" {
					out[a.Labels["service"]+" "+a.Status]++
				}
			}
		}
		return out
	}
	wait := func(states ...string) {
		t.Helper()
		require.Eventually(t, func() bool {
			got := told()
			for _, s := range states {
				if got[s] == 0 {
					return false
				}
			}
			return true
		}, testkit.Patience, 20*time.Millisecond, "%v", states)
	}
	dir := t.TempDir()
	spec := burningSpec(t, dir, "s0", "s1", "s2", "s3", "s4", "s5")
	var p *e2etest.Process
	serve := func() {
		t.Helper()
		// An engine that is down for less than four times resend ends no alert.
		p = e2etest.Serve(t, dir, spec,
			fmt.Sprintf(
				"evaluator: {interval: 100ms}\nnotifications: {resend: 30s, timeout: 2s, alertmanagers: [{url: %q}]}\n", am.URL))
	}
	kills := 0
	kill := func() {
		t.Helper()
		p.Kill()
		kills++
		serve()
	}
	left := func(services ...string) { // the alerts of the others end
		t.Helper()
		burningSpec(t, dir, services...)
		status, answer := e2etest.Post(t, p.Base+"/-/reload", "", "")
		require.Equal(t, 200, status, answer)
	}
	pause := func(services ...string) { // their alerts fire on
		t.Helper()
		for end := time.Now().Add(*outage / 2); time.Now().Before(end); testkit.Pause(min(20*time.Second, time.Until(end))) {
			for _, s := range services {
				burn(t, p, s)
			}
		}
	}
	serve()
	burn(t, p, "s0")
	wait("s0 firing")
	burn(t, p, "s1")
	kill() // nobody may have heard of s1
	wait("s1 firing")

	am.Stop()
	burn(t, p, "s2")
	left("s1", "s2", "s3", "s4", "s5")
	require.Eventually(t, func() bool {
		return e2etest.Counter(t, p, "sloengine_notify_failing") == 1
	}, testkit.Patience, 20*time.Millisecond)
	pause("s1", "s2")
	kill()
	burn(t, p, "s3")
	kill()
	pause("s1", "s2", "s3")
	require.Eventually(t, func() bool {
		return e2etest.Counter(t, p, "sloengine_notify_failing") == 1
	}, testkit.Patience, 20*time.Millisecond)
	am.Start()
	wait("s0 resolved", "s2 firing", "s3 firing")

	left("s2", "s3", "s4", "s5")
	kill() // nobody may have heard that s1 is over
	wait("s1 resolved")
	burn(t, p, "s4")
	wait("s4 firing")
	kill() // everybody has heard of everything
	left("s5")
	wait("s2 resolved", "s3 resolved", "s4 resolved")
	require.Eventually(t, func() bool {
		return e2etest.Counter(t, p, "sloengine_notify_pending") == 0
	}, testkit.Patience, 20*time.Millisecond)

	extra, got := 0, told()
	require.Len(t, got, 10, "five alerts began and ended: %v", got)
	for _, n := range got {
		extra += n - 1
	}
	t.Logf("%d extra notifications after %d kills", extra, kills)
	require.LessOrEqual(t, extra, kills)
	p.Stop(t)
}
