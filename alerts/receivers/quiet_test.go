package receivers

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts/alertmanager"
	"github.com/sloengine/sloengine/alerts/silence"
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/internal/testkit"
)

const inhibiting = quick + `
inhibit_rules:
  - source_matchers: ['severity=~"critical|page"', 'slo_id!=""']
    target_matchers: ['severity=~"ticket|warning"', 'slo_id!=""']
    equal: [slo_id, product]
`

// TestInhibition hides the ticket of an SLO while its page fires.
func TestInhibition(t *testing.T) {
	h := newHook(t, nil)
	d, _ := run(t, Options{Settings: Settings{Text: hooks(t, h), Routing: routing(inhibiting)}})
	var a alarms
	d.Update(a.fire("Page", "service=shop", "severity=page", "slo_id=shop/a", "product=x").
		fire("Hidden", "service=shop", "severity=ticket", "slo_id=shop/a", "product=x").
		fire("Other", "service=shop", "severity=ticket", "slo_id=shop/a", "product=y").now())
	testkit.Eventually(t, "two are notified", func() bool { return len(h.all()) == 2 })
	require.ElementsMatch(t, []string{"Page=firing", "Other=firing"}, h.told())
	d.Update(a.end("Page").now())
	testkit.Eventually(t, "then the ticket", func() bool { return len(h.all()) == 4 })
	require.ElementsMatch(t, []string{"Page=resolved", "Hidden=firing Other=firing"}, h.told()[2:])
}

// TestMaintenance tells nobody while a time interval mutes a route.
func TestMaintenance(t *testing.T) {
	h := newHook(t, nil)
	d, _ := run(t, Options{Settings: Settings{Text: hooks(t, h), Routing: routing(quick + `
time_intervals: [{name: always, time_intervals: [{years: ['2000:2999']}]}]
`)}})
	d.mu.Lock()
	d.plan.root.RouteOpts.MuteTimeIntervals = []string{"always"} // the root of a configuration cannot have any
	d.mu.Unlock()
	var a alarms
	d.Update(a.fire("A", "service=shop").now())
	flushes(t, d)
	require.Len(t, d.dues(), 1)
	require.Empty(t, h.all())
}

// TestEscalation goes on to the next receiver, as long as nobody acknowledges.
func TestEscalation(t *testing.T) {
	first, second, third := newHook(t, nil), newHook(t, nil), newHook(t, nil)
	var acknowledged atomic.Bool
	var ahead atomic.Int64 // of the Dispatcher's clock
	d, _ := run(t, Options{
		Settings: Settings{Text: hooks(t, first, second, third), Routing: routing(quick),
			Escalation: map[alertmanager.Class][]Step{
				alertmanager.Critical: {{After: 10 * time.Minute, Receiver: "r1"}, {After: 20 * time.Minute, Receiver: "r2"}},
			}},
		Incident: func(string) (Incident, bool) { return Incident{ID: "1", Acknowledged: acknowledged.Load()}, true },
		Now:      func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) },
	})
	var a alarms
	a.fire("A", "service=shop", "severity=page").fire("B", "service=shop", "severity=ticket")
	tick := func(until func() bool) {
		testkit.Eventually(t, "it continues", func() bool { d.Update(a.now()); return until() })
	}
	// looked ticks until the Dispatcher has looked at the alerts as of now.
	looked := func() {
		now := d.opt.Now()
		tick(func() bool {
			d.mu.Lock()
			defer d.mu.Unlock()
			return d.read != nil && !d.read.at.Before(now)
		})
	}
	tick(func() bool { return len(first.all()) == 2 })
	looked()
	require.Empty(t, second.all(), "it is not time")
	ahead.Store(int64(10 * time.Minute))
	tick(func() bool { return len(second.all()) == 1 })
	require.Equal(t, []string{"A=firing"}, second.told())
	acknowledged.Store(true)
	ahead.Store(int64(21 * time.Minute))
	looked()
	d.mu.Lock()
	groups := slices.Collect(maps.Values(d.groups))
	d.mu.Unlock()
	require.False(t, slices.ContainsFunc(groups, func(g *group) bool { return g.receiver == "r2" }), "somebody has it")
	a.end("A")
	tick(func() bool { return len(second.all()) == 2 && len(first.all()) == 3 })
	require.Equal(t, "A=resolved", second.told()[1])
	require.Empty(t, third.all(), "somebody has it")
}

// TestEscalationSurvives escalates what began before a restart, once.
func TestEscalationSurvives(t *testing.T) {
	first, second := newHook(t, nil), newHook(t, nil)
	o := Options{File: t.TempDir() + "/notifications.json", Settings: Settings{
		Text: hooks(t, first, second), Routing: routing(quick),
		Escalation: map[alertmanager.Class][]Step{alertmanager.Critical: {{After: 50 * time.Millisecond, Receiver: "r1"}}},
	}}
	var a alarms
	a.fire("A", "service=shop", "severity=page")
	for range 2 {
		d, stop := run(t, o)
		testkit.Eventually(t, "escalated", func() bool {
			d.Update(a.now())
			return len(second.all()) == 1 && status(t, d, "r1/webhook[0]").Pending == 0 && len(first.all()) == 1
		})
		flushes(t, d)
		d.Update(a.now())
		stop()
	}
	require.Len(t, first.all(), 1)
	require.Len(t, second.all(), 1)
}

// TestSilences keeps quiet what a silence matches, for as long as it holds, also over a restart.
func TestSilences(t *testing.T) {
	h := newHook(t, nil)
	o := Options{File: t.TempDir() + "/notifications.json", Settings: Settings{Text: hooks(t, h), Routing: routing(quick)}}
	d, stop := run(t, o)
	s, err := d.AddSilence(silence.Silence{Matchers: ` {service="shop",severity=~"page|critical"} `,
		Ends: time.Now().Add(time.Hour), Author: "me", Comment: "known"})
	require.NoError(t, err)
	require.Equal(t, `{service="shop",severity=~"page|critical"}`, s.Matchers)
	var a alarms
	d.Update(a.fire("A", "service=shop", "severity=page").fire("B", "service=pay", "severity=page").now())
	testkit.Eventually(t, "the other one", func() bool { return len(h.all()) == 1 })
	require.Equal(t, []string{"B=firing"}, h.told())
	stop()
	d, _ = run(t, o)
	d.Update(a.now())
	require.Len(t, d.Silences(), 1)
	flushes(t, d)
	require.Len(t, h.all(), 1)
	of := func(name string) *state.Alert {
		active := a.now().Active
		return &active[slices.IndexFunc(active, func(a state.Alert) bool { return a.Name == name })]
	}
	require.True(t, d.HasReceivers())
	require.Equal(t, []string{s.ID}, d.Silencing()(of("A")))
	require.Empty(t, d.Silencing()(of("B")))
	expired, err := d.ExpireSilence(s.ID)
	require.NoError(t, err)
	require.Equal(t, silence.Expired, expired.State(time.Now()))
	require.Nil(t, d.Silencing())
	testkit.Eventually(t, "then it is notified", func() bool { return len(h.all()) == 2 })
	_, err = d.ExpireSilence("x")
	require.ErrorIs(t, err, silence.ErrNotFound)
}

// TestSilenceOfLabels silences an alert by its own labels, whatever is in them.
func TestSilenceOfLabels(t *testing.T) {
	d, _ := run(t, Options{Settings: Settings{Text: hooks(t, newHook(t, nil)), Routing: routing(quick)}})
	for _, value := range []string{"", "shop", `a"b,c="d"`, `\`, `\n`, "a\nb", "{}", "=~!", " x ", "\u202e", "'", `\"`} {
		a := state.Alert{
			State: state.Firing, Labels: []state.Label{{Name: "alertname", Value: "A"}, {Name: "service", Value: value}}}
		s, err := d.AddSilence(silence.Silence{
			Matchers: silence.Equal("alertname", "A") + "," + silence.Equal("service", value), Ends: time.Now().Add(time.Hour),
			Author: "a", Comment: "c",
		})
		require.NoError(t, err, "%q", value)
		require.Equal(t, []string{s.ID}, d.Silencing()(&a), "%q", value)
		a.State = state.Pending
		require.Empty(t, d.Silencing()(&a), "only what fires")
	}
	none, _ := run(t, Options{})
	_, err := none.AddSilence(
		silence.Silence{Matchers: `a="b"`, Ends: time.Now().Add(time.Hour), Author: "a", Comment: "c"})
	require.NoError(t, err)
	require.False(t, none.HasReceivers())
	require.Nil(t, none.Silencing(), "nobody is told of anything")
}

func TestBadSilences(t *testing.T) {
	d, _ := run(t, Options{})
	soon := time.Now().Add(time.Hour)
	for want, s := range map[string]silence.Silence{
		"matchers: bad matcher":            {Matchers: "service", Ends: soon, Author: "a", Comment: "c"},
		"matchers would match every alert": {Matchers: `service=~".*"`, Ends: soon, Author: "a", Comment: "c"},
		"matchers would match every":       {Matchers: "", Ends: soon, Author: "a", Comment: "c"},
		"it must end after it starts":      {Matchers: `a="b"`, Author: "a", Comment: "c"},
		"it has ended already": {Matchers: `a="b"`, Starts: soon.Add(-3 * time.Hour),
			Ends: soon.Add(-2 * time.Hour), Author: "a", Comment: "c"},
		"it lasts longer than 366 days": {Matchers: `a="b"`, Ends: soon.AddDate(2, 0, 0),
			Author: "a", Comment: "c"},
		"author is missing":                {Matchers: `a="b"`, Ends: soon, Comment: "c"},
		"comment holds control characters": {Matchers: `a="b"`, Ends: soon, Author: "a", Comment: "\x1b[2J"},
		"author is longer than 200 characters": {Matchers: `a="b"`, Ends: soon,
			Author: strings.Repeat("я", 201), Comment: "c"},
		"matchers are longer than 4096 characters": {Matchers: `a="` + strings.Repeat("я", 4096) + `"`, Ends: soon,
			Author: "a", Comment: "c"},
		"comment is longer than 1000 characters": {Matchers: `a="b"`, Ends: soon, Author: "a",
			Comment: string(make([]byte, 1001))},
		"matchers: error parsing regexp: missing argume": {Matchers: `a=~"*"`, Ends: soon, Author: "a", Comment: "c"},
	} {
		_, err := d.AddSilence(s)
		require.ErrorIs(t, err, silence.ErrInvalid, want)
		require.ErrorContains(t, err, want)
	}
	longest := silence.Silence{Matchers: `a="b"`, Starts: time.Now(), Ends: soon, Author: strings.Repeat("я", 200),
		Comment: strings.Repeat("🚨", 1000)}
	require.NoError(t, (&heldSilence{Silence: longest}).check(), "characters count, not bytes")
	for range silence.Max {
		d.silences.list = append(d.silences.list, &heldSilence{Silence: silence.Silence{Ends: soon}})
	}
	_, err := d.AddSilence(silence.Silence{Matchers: `a="b"`, Ends: soon, Author: "a", Comment: "c"})
	require.ErrorIs(t, err, silence.ErrTooMany)
	d.silences.list[5].Ends = time.Now().Add(-time.Second) // gives way
	_, err = d.AddSilence(silence.Silence{Matchers: `a="b"`, Ends: soon, Author: "a", Comment: "c"})
	require.NoError(t, err)
	require.Len(t, d.Silences(), silence.Max)
}

// TestSourceThatIsATarget: an alert that is both keeps no other one of that kind quiet, so that one of them is sent.
func TestSourceThatIsATarget(t *testing.T) {
	both, target := role{source: true, target: true}, role{target: true}
	for _, c := range []struct {
		fires []role
		role  role
		by    string
	}{
		{[]role{both}, both, ""},
		{[]role{both, both}, both, ""},
		{[]role{both, {source: true}}, both, "1"},
		{[]role{both}, target, "0"},
		{nil, target, ""},
	} {
		d := &Dispatcher{sources: map[sourceKey]inhibitors{}}
		for i, r := range c.fires {
			d.inhibits(&item{alert: state.Alert{Fingerprint: fmt.Sprint(i)}, roles: []role{r}})
		}
		require.Equal(t, c.by, d.inhibitedBy(&item{roles: []role{c.role}}).id, c)
	}
}

func TestExpiredSilencesAreForgotten(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	ended := func(ago time.Duration) *heldSilence {
		return &heldSilence{Silence: silence.Silence{Ends: now.Add(-ago)}}
	}
	s := silences{list: []*heldSilence{ended(keepExpired), ended(keepExpired - 1), ended(-time.Hour)}}
	want := slices.Clone(s.list[1:])
	s.forget(now)
	require.Equal(t, want, s.list)
}
