package receivers

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/alertmanager/notify/telegram"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts/alertmanager"
	"github.com/sloengine/sloengine/alerts/notify"
	"github.com/sloengine/sloengine/alerts/notify/notifytest"
	"github.com/sloengine/sloengine/alerts/silence"
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/slo"
)

// TestOneFaultOneCall lets mdm fail, then two products that declare it as their cause, a stage that declares one of
// them, and later a product that does not. The engine's receivers and a real Alertmanager with the generated routes
// call twice: for mdm, and under a key of its own for the product that has nothing to do with it.
func TestOneFaultOneCall(t *testing.T) {
	t.Parallel()
	const calls, apps, stages = "shop/calls", "shop/availability", "shop/stages"
	objective, err := slo.ParsePercent("99.9")
	require.NoError(t, err)
	in := rules.Spec{SLOs: []*slo.SLO{
		{ID: calls, GroupBy: []string{"integration"}},
		{ID: apps, GroupBy: []string{"product"},
			CausedBy: []slo.Cause{
				{SLO: stages, Group: map[string]string{"stage": "INFO"}, Affects: map[string][]string{"product": {"MED", "SOM"}}}}},
		{ID: stages, GroupBy: []string{"stage"},
			CausedBy: []slo.Cause{
				{SLO: calls, Group: map[string]string{"integration": "mdm"}, Affects: map[string][]string{"stage": {"INFO"}}}}},
	}}
	for _, s := range in.SLOs {
		s.Objective, s.Window, s.Indicator.Kind = objective, slo.Window{Rolling: 30 * 24 * time.Hour}, slo.KindEvents
	}
	h := newHook(t, nil)
	wait := 300 * time.Millisecond
	routes, err := alertmanager.NewRouting(in, alertmanager.Options{Receivers: alertmanager.Receivers{
		Receivers: []alertmanager.Receiver{{Name: "pager", Webhook: []alertmanager.Webhook{{URL: h.URL}}}}, Default: "pager",
		Timing: map[alertmanager.Class]alertmanager.Timing{
			alertmanager.Critical: {GroupWait: &wait, GroupInterval: wait},
			alertmanager.Warning:  {GroupWait: &wait, GroupInterval: wait},
		},
	}})
	require.NoError(t, err)
	am := notifytest.Start(t, strings.ReplaceAll(string(routes.Document), h.URL, notifytest.Hook))
	d, _ := run(t, Options{Settings: Settings{
		Routing: routes, Text: mustText(t, fmt.Sprintf("receivers: [{name: pager, webhook_configs: [{url: %q}]}]", h.URL))}})
	n, err := notify.New(notify.Options{Settings: notify.Settings{Peers: []notify.Peer{{URL: am.URL}}}})
	require.NoError(t, err)
	stop := notify.Start(t.Context(), func(ctx context.Context) { _ = n.Run(ctx) })
	t.Cleanup(stop)

	var a alarms
	page := func(id, group string) {
		a.fire("ErrorBudgetBurnPage", "severity=page", "service=shop", "slo_id="+id, group)
	}
	// both are the calls so far, by their keys: the groups of which a receiver was told that they fire.
	both := func() (own, real []string) {
		told := func(list []notifytest.Notification) []string {
			keys := map[string]bool{}
			for _, x := range list {
				if x.Status == "firing" {
					keys[x.GroupKey] = true
				}
			}
			return slices.Sorted(maps.Keys(keys))
		}
		var heard []notifytest.Notification
		for _, x := range h.all() {
			heard = append(heard, notifytest.Notification{Status: x.Status, GroupKey: x.GroupKey})
		}
		return told(heard), told(am.Notifications())
	}
	calledFor := func(what string, want ...string) {
		t.Helper()
		view := a.now()
		d.Update(view)
		n.Update(view)
		testkit.Within(30*time.Second, func() bool {
			own, real := both()
			return len(own) >= len(want) && len(real) >= len(want)
		})
		testkit.Pause(5 * wait) // nothing more comes, from Alertmanager either
		own, real := both()
		require.Equal(t, own, real, what)
		require.Len(t, own, len(want), what)
		for i, label := range want {
			require.Contains(t, own[i], label, what)
		}
	}
	page(calls, "integration=mdm")
	calledFor("the cause", `integration="mdm"`)
	page(apps, "product=MED")
	page(apps, "product=SOM")
	page(stages, "stage=INFO")
	a.fire("ErrorBudgetBurnTicket", "severity=ticket", "service=shop", "slo_id="+apps, "product=SOM")
	calledFor("its effects", `integration="mdm"`)
	page(apps, "product=TRVL")
	calledFor("another fault", `integration="mdm"`, `product="TRVL"`)
}

// TestOnsetOfCause: the page of a declared cause inhibits what began with it or later, also if it is silenced. What
// began more than a minute earlier is another failure. What still fires when the cause has resolved is sent.
func TestOnsetOfCause(t *testing.T) {
	h := newHook(t, nil)
	began := time.Date(2026, 11, 20, 3, 0, 0, 0, time.UTC)
	known := map[string]time.Time{} // onsets of incidents, by fingerprint
	r := routing(strings.ReplaceAll(quick, "[service, severity]", "[slo_id]") + `
inhibit_rules: [{source_matchers: ['severity="page"', 'slo_id="mdm"'], target_matchers: ['slo_id!="mdm"']}]
`)
	r.Causes = []int{0}
	var log testkit.Buffer
	d, _ := run(t, Options{Settings: Settings{Text: hooks(t, h), Routing: r},
		Logger:   slog.New(slog.NewTextHandler(&log, nil)),
		Incident: func(id string) (Incident, bool) { at, ok := known[id]; return Incident{Onset: at}, ok }})
	muted, err := d.AddSilence(silence.Silence{Matchers: `slo_id="mdm"`, Author: "ann", Comment: "known",
		Ends: time.Now().Add(time.Hour)})
	require.NoError(t, err)
	var a alarms
	fire := func(name string, after time.Duration, counted bool) {
		a.fire(name, "severity=page", "slo_id="+name)
		x := &a.view.Active[len(a.view.Active)-1]
		x.SLO = slo.ID(name)
		if x.FirstBad = began.Add(after); counted {
			known[x.Fingerprint], x.FirstBad = x.FirstBad, began.Add(-time.Hour)
		}
	}
	fire("mdm", 0, true)
	fire("same", -time.Minute, false)
	fire("later", time.Hour, true)
	fire("earlier", -time.Minute-time.Second, false)
	fire("counted earlier", -2*time.Minute, true)
	d.Update(a.now())
	testkit.Eventually(t, "those that began earlier", func() bool { return len(h.all()) == 2 })
	flushes(t, d)
	require.ElementsMatch(t, []string{"earlier=firing", "counted earlier=firing"}, h.told())
	by := d.Inhibiting()
	for i := range a.view.Active {
		x := &a.view.Active[i]
		want := map[bool]string{true: a.view.Active[0].Fingerprint}[x.Name == "same" || x.Name == "later"]
		require.Equal(t, want, by(x), x.Name)
	}
	require.EqualValues(t, 2, d.opt.Metrics.Inhibited.Get())
	_, err = d.ExpireSilence(muted.ID)
	require.NoError(t, err)
	testkit.Eventually(t, "the cause", func() bool { return len(h.all()) == 3 })
	require.Equal(t, "later, same", h.all()[2].Alerts[0].Annotations["affected"])
	d.Update(a.end("mdm").now())
	testkit.Eventually(t, "the others still fire", func() bool { return len(h.all()) == 6 })
	require.ElementsMatch(t, []string{"mdm=resolved", "same=firing", "later=firing"}, h.told()[3:])
	require.Nil(t, d.Inhibiting())
	require.Zero(t, d.opt.Metrics.Inhibited.Get())
	require.Contains(t, log.String(), `msg="notifications of alerts are inhibited" alerts=2 started=2 ended=0 first=`)
	require.Contains(t, log.String(), `msg="notifications of alerts are inhibited" alerts=0 started=0 ended=2`)
}

// TestAlsoAffected: the message of a declared cause lists the SLOs whose alerts it inhibits, each once and escaped, and
// names those of other services only by their number.
func TestAlsoAffected(t *testing.T) {
	cause := &item{alert: state.Alert{Fingerprint: "c", Service: "shop"}}
	for _, c := range []struct {
		name    string
		effects []state.Alert
		ticket  bool // they are not inhibited as effects of a declared cause
		want    string
	}{
		{name: "none"},
		{name: "tickets", effects: []state.Alert{{Service: "shop", SLO: "shop/a"}}, ticket: true},
		{name: "a page and a ticket", want: "shop/a",
			effects: []state.Alert{{Service: "shop", SLO: "shop/a"}, {Service: "shop", SLO: "shop/a"}}},
		{name: "groups", want: "shop/a (product=x, country=@\u200bde), shop/a (product=‹b›)", effects: []state.Alert{
			{Service: "shop", SLO: "shop/a", GroupBy: []string{"product", "country"}, Group: slo.Group{"x", "@de"}},
			{Service: "shop", SLO: "shop/a", GroupBy: []string{"product"}, Group: slo.Group{"<b>"}}}},
		{name: "another service", effects: []state.Alert{{Service: "pay", SLO: "pay/a"}}, want: "1 of other services"},
		{name: "many", want: "shop/a, shop/b, shop/c, shop/d, shop/e, 2 more", effects: []state.Alert{
			{Service: "pay", SLO: "pay/a"}, {Service: "shop", SLO: "shop/f"}, {Service: "shop", SLO: "shop/e"},
			{Service: "shop", SLO: "shop/d"}, {Service: "shop", SLO: "shop/c"}, {Service: "shop", SLO: "shop/b"},
			{Service: "shop", SLO: "shop/a"}}},
	} {
		d := &Dispatcher{items: map[string]*item{}, inhibited: inhibitions{}}
		for i, x := range c.effects {
			id := fmt.Sprint(i)
			d.items[id], d.inhibited[id] = &item{alert: x}, inhibition{"c", !c.ticket}
		}
		require.Equal(t, c.want, d.affected(cause, escapeFor("telegram", &telegram.TelegramConfig{})), c.name)
	}
}
