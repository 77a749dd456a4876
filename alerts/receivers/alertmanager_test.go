package receivers

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts/notify"
	"github.com/sloengine/sloengine/alerts/notify/notifytest"
	"github.com/sloengine/sloengine/internal/testkit"
)

// compared is one configuration for both. Times are as short as a busy machine allows, and one group beats: it is
// notified at every interval, so a few beats tell that every other group was looked at, too.
const compared = `
route:
  receiver: all
  group_by: [service, severity]
  group_wait: 300ms
  group_interval: 200ms
  repeat_interval: 1h
  routes:
    - {matchers: ['alertname="Beat"'], receiver: beat, group_by: [alertname], group_wait: 1ms, repeat_interval: 1ms}
    - {matchers: ['alertname=~"Muted.*"'], mute_time_intervals: [always]}
    - {matchers: ['alertname=~"Open.*"'], mute_time_intervals: [never]}
    - {matchers: ['alertname=~"Later.*"'], group_wait: 1h}
    - matchers: ['service="pay"']
      receiver: pay
      group_by: ['...']
      routes:
        - {matchers: ['severity=~"ticket|warning"'], receiver: unresolved, group_by: [product]}
inhibit_rules:
  - {source_matchers: ['severity="page"'], target_matchers: ['severity=~"ticket|warning"'], equal: [slo_id, product]}
  - {source_matchers: ['alertname="ErrorBudgetExhausted"', 'slo_id!=""'],
      target_matchers: ['alertname="ErrorBudgetExhaustedSoon"', 'slo_id!=""'], equal: [slo_id, product]}
  - {source_matchers: ['severity=~"page|ticket"', 'product="b"'], target_matchers: ['severity=~"ticket|warning"',
      'product="b"'], equal: [service, region]}
time_intervals:
  - {name: always, time_intervals: [{years: ['2000:2999']}]}
  - {name: never, time_intervals: [{years: ['2000:2001']}]}
receivers:
  - {name: all, webhook_configs: [{url: '` + notifytest.Hook + `'}]}
  - {name: pay, webhook_configs: [{url: '` + notifytest.Hook + `'}]}
  - {name: unresolved, webhook_configs: [{url: '` + notifytest.Hook + `', send_resolved: false}]}
  - {name: beat, webhook_configs: [{url: '` + notifytest.Hook + `'}]}
`

// pair is a real Alertmanager and a Dispatcher that are given the same alerts.
type pair struct {
	alarms
	t           *testing.T
	am          *notifytest.Alertmanager
	hook        *hook
	n           *notify.Notifier
	d           *Dispatcher
	told, heard int               // notifications that earlier steps had
	real, own   map[string]string // the last state of an alert that a receiver was told, but for resolved
}

func newPair(t *testing.T) *pair {
	t.Helper()
	p := &pair{t: t, am: notifytest.Start(t, compared), hook: newHook(t, nil), real: map[string]string{},
		own: map[string]string{}}
	document := strings.ReplaceAll(compared, notifytest.Hook, p.hook.URL)
	p.d, _ = run(t, Options{Settings: Settings{Text: mustText(t, document), Routing: routing(document)}})
	var err error
	p.n, err = notify.New(notify.Options{Settings: notify.Settings{Peers: []notify.Peer{{URL: p.am.URL}}}})
	require.NoError(t, err)
	t.Cleanup(sync.OnceFunc(notify.Start(t.Context(), func(ctx context.Context) { _ = p.n.Run(ctx) })))
	p.fire("Beat")
	return p
}

// changes are what people learn from notifications: the states of alerts that were told otherwise before, or not at
// all. A group that is looked at while its alerts arrive is notified of twice, and people learn the same.
func changes(last map[string]string, list []notifytest.Notification) (out []string, beats int) {
	for _, n := range list {
		if n.Receiver == "beat" {
			beats++
			continue
		}
		for _, a := range n.Alerts {
			key := fmt.Sprintf("%s %v %v", n.Receiver, n.GroupLabels, a.Labels)
			if last[key] == a.Status {
				continue
			}
			out = append(out, key+" "+a.Status)
			if last[key] = a.Status; a.Status == "resolved" { // resolved twice is a change, too
				delete(last, key)
			}
		}
	}
	slices.Sort(out)
	return out, beats
}

// step gives both the alerts of now. Each has to look at all groups three times, and people have to learn the same. It
// returns what that is.
func (p *pair) step(what string, differs ...string) []string {
	p.t.Helper()
	view := p.now()
	p.d.Update(view)
	p.n.Update(view)
	var real, own []string
	var realLast, ownLast map[string]string
	var told []notifytest.Notification
	var heard []hooked
	if !testkit.Within(30*time.Second, func() bool {
		told, heard = p.am.Notifications(), p.hook.all()
		realLast, ownLast = maps.Clone(p.real), maps.Clone(p.own)
		var realBeats, ownBeats int
		real, realBeats = changes(realLast, told[p.told:])
		own, ownBeats = changes(ownLast, notifications(heard[p.heard:]))
		return realBeats >= 3 && ownBeats >= 3 && slices.Equal(append(real, differs...), own)
	}) {
		require.Equal(p.t, append(real, differs...), own, what)
		p.t.Fatalf("%s: no beat", what)
	}
	p.told, p.heard, p.real, p.own = len(told), len(heard), realLast, ownLast
	return own
}

func notifications(list []hooked) (out []notifytest.Notification) {
	for _, h := range list {
		n := notifytest.Notification{Receiver: h.Receiver, GroupLabels: h.GroupLabels}
		for _, a := range h.Alerts {
			n.Alerts = append(n.Alerts, notifytest.Alert{Status: a.Status, Labels: a.Labels})
		}
		out = append(out, n)
	}
	return out
}

// TestAlertmanagerAgrees follows a script of what configurations can say: groups, nested routes, inhibition, muted
// times, send_resolved and repeats.
func TestAlertmanagerAgrees(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.fire("A", "service=shop", "severity=page", "slo_id=s", "product=a").fire("B", "service=shop", "severity=page",
		"slo_id=s", "product=b")
	require.Len(t, p.step("a group begins"), 2)
	p.fire("C", "service=shop", "severity=ticket", "slo_id=s", "product=a").fire("D", "service=shop", "severity=warning",
		"slo_id=t", "product=a")
	require.Len(t, p.step("a ticket is inhibited"), 1)
	require.Empty(t, p.step("nothing has changed"))
	p.end("A")
	require.Len(t, p.step("a page resolves, and its ticket is told"), 2)
	p.fire("A2", "service=shop", "severity=page", "slo_id=s", "product=a")
	require.Len(t, p.step("the ticket that was told is inhibited"), 1)
	p.end("A2")
	require.Len(t, p.step("the ticket goes on"), 1)
	p.fire("E", "service=pay", "severity=page").fire("F", "service=pay", "severity=ticket", "product=a", "slo_id=p").
		fire("G", "service=pay", "severity=ticket", "product=c", "slo_id=p").fire("Muted", "service=shop").fire("Open",
		"service=shop").fire("Later", "service=web")
	require.Len(t, p.step("nested routes, muted times and a group that waits"), 4)
	p.end("Muted").end("Open").end("Later")
	require.Len(t, p.step("what nobody was told resolves quietly"), 1)
	p.end("F").end("E")
	require.Len(t, p.step("a receiver without send_resolved"), 1)
	p.fire("F", "service=pay", "severity=ticket", "product=a", "slo_id=p").fire("E", "service=pay", "severity=page")
	p.step("both fire again")
	p.fire("H", "service=web", "severity=ticket", "product=b", "region=eu").fire("I", "service=web", "severity=warning",
		"product=b", "region=eu").
		fire("J", "service=web", "severity=ticket", "product=b", "region=eu")
	require.Len(t, p.step("tickets are source and target: they inhibit the warning, and not each other"), 2)
	p.end("H").end("J")
	require.Len(t, p.step("then the warning is told"), 3)

	p.fire("ErrorBudgetExhausted", "service=web", "severity=ticket", "product=d", "slo_id=w").
		fire("ErrorBudgetExhaustedSoon", "service=web", "severity=ticket", "product=d", "slo_id=w")
	require.Len(t, p.step("a forecast is inhibited by the empty budget"), 1)
	p.end("ErrorBudgetExhausted")
	require.Len(t, p.step("the budget is not empty any more, and the forecast is told"), 2)
	p.end("ErrorBudgetExhaustedSoon")
	require.Len(t, p.step("the forecast is over"), 1)

	// The difference that is intended: an alert that resolves while it is inhibited, and fires again, is new. Alertmanager
	// remembers that its receiver knows it as firing, and notifies again after repeat_interval only.
	p.fire("K", "service=web", "severity=page", "product=b", "region=eu")
	require.Len(t, p.step("the warning that was told is inhibited"), 1)
	p.end("I")
	require.Empty(t, p.step("it resolves"))
	p.end("K").fire("I", "service=web", "severity=warning", "product=b", "region=eu")
	delete(
		p.own, "all map[service:web severity:warning] map[alertname:I product:b region:eu service:web severity:warning]")
	p.step("it fires again",
		"all map[service:web severity:warning] map[alertname:I product:b region:eu service:web severity:warning] firing")
}

// TestAlertmanagerAgreesAtRandom begins and ends alerts at random. It leaves out the intended difference above: no
// inhibited alert resolves.
func TestAlertmanagerAgreesAtRandom(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed", seed), func(t *testing.T) {
			t.Parallel()
			p, r := newPair(t), rand.New(rand.NewPCG(seed, 1))
			pick := func(of ...string) string { return of[r.IntN(len(of))] }
			learned := 0
			for step := range 10 {
				if step%2 == 0 {
					for i := range 2 + r.IntN(5) {
						p.fire(fmt.Sprintf("A%d-%d", step, i), "service="+pick("shop", "pay"),
							"severity="+pick("page", "ticket", "warning"),
							"slo_id="+pick("s", "t", ""), "product="+pick("a", "b"), "region="+pick("eu", "us"))
					}
				} else {
					for _, name := range p.loud() {
						if r.IntN(2) == 0 {
							p.end(name)
						}
					}
				}
				learned += len(p.step(fmt.Sprint("step ", step)))
			}
			require.Greater(t, learned, 10)
		})
	}
}

// loud lists the alerts that are not inhibited.
func (p *pair) loud() (names []string) {
	p.d.mu.Lock()
	defer p.d.mu.Unlock()
	for _, a := range p.view.Active {
		if it := p.d.items[a.Fingerprint]; a.Name != "Beat" && it != nil && p.d.inhibitedBy(it).id == "" {
			names = append(names, a.Name)
		}
	}
	return names
}
