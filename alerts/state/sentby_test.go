package state

import (
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

// TestSentBy: who sends the alerts of an SLO on counters follows what the Prometheus has, never on a single answer that
// could be one of a reload, never while an alert of the engine is on its way, and outlives a restart.
func TestSentBy(t *testing.T) {
	counted := newSLO(t, "shop/a", "99.9")
	counted.Indicator = slo.Indicator{Kind: slo.KindPrometheus, PromTotal: "all", PromBad: "bad", PromSource: "metrics"}
	other := newSLO(t, "shop/b", "99.9")
	outage := stream{rate: 100, from: start.Add(-40 * day),
		incidents: []incident{{start.Add(10 * time.Minute), start.Add(20 * time.Minute), 1}}}
	labels := map[string]string{}
	for _, l := range alerts.LiveAlerts(rules.Spec{SLOs: []*slo.SLO{counted}}, alerts.Options{}) {
		if l.Alert == alerts.NameBurnPage {
			labels = maps.Clone(l.Labels)
			labels["alertname"] = l.Alert
			break
		}
	}
	external := map[string]string{"cluster": "eu"}
	server := func(name string, all ...map[string]string) ServerRules {
		r := ServerRules{Server: name, Rules: map[string][]map[string]string{}}
		for _, l := range all {
			r.Rules[l["slo_id"]] = append(r.Rules[l["slo_id"]], l)
		}
		r.Sent = func(of map[string]string) (map[string]string, error) {
			out := maps.Clone(external)
			maps.Copy(out, of)
			return out, nil
		}
		return r
	}
	now, round := start, uint64(0)
	m := newMachine(t, func(o *Options) { o.Sending.ExternalLabels = map[string]string{"cluster": "eu"} })
	step := func() {
		now = now.Add(time.Minute)
		m.Step(&sla.Report{Time: now, SLOs: []sla.SLOReport{
			outage.report(counted, nil, now), (&stream{rate: 1, from: start}).report(other, nil, now)}})
	}
	see := func(servers ...ServerRules) SentBy {
		round++
		m.SeeRules("metrics", &RulesSeen{Round: round, Servers: servers})
		step()
		return m.View().SentBy["shop/a"]
	}
	sent := func() (n int) {
		for _, a := range m.View().ToSend().Active {
			if a.SLO == "shop/a" && a.State == Firing {
				n++
			}
		}
		return n
	}

	step()
	require.Len(t, m.View().SentBy, 1)
	require.Empty(t, m.View().SentBy["shop/a"].By, "nothing is known yet")
	require.Equal(t, slo.AlertsLive, see(server("http://eu")).By)
	require.Equal(t, slo.AlertsLive, see(server("http://eu", labels)).By, "one answer")
	step()
	require.Equal(t, slo.AlertsLive, m.View().SentBy["shop/a"].By, "the same answer")
	by := see(server("http://eu", labels))
	require.Equal(t, slo.AlertsRules, by.By)
	require.Equal(t, "rules for it are in http://eu", by.Why)
	require.Equal(t, now, by.Since)

	restart := func() {
		data := m.Snapshot()
		m = newMachine(t, func(o *Options) { o.Sending.ExternalLabels = map[string]string{"cluster": "eu"} })
		require.NoError(t, m.Restore(data))
	}
	for now.Before(start.Add(15 * time.Minute)) {
		step() // no answer comes any more
	}
	require.NotEmpty(t, m.View().Active)
	require.Zero(t, sent())
	restart()
	require.Zero(t, sent())
	step()
	require.NotEmpty(t, m.View().Active)
	require.Zero(t, sent(), "after a restart, with a Prometheus that does not answer")
	require.Equal(t, by, m.View().SentBy["shop/a"])

	// The rules are removed while they fire: the engine sends their alerts instead.
	require.Equal(t, slo.AlertsRules, see(server("http://eu")).By)
	require.Equal(t, slo.AlertsRules, see(server("http://eu")).By)
	require.Equal(t, slo.AlertsLive, see(server("http://eu")).By)
	require.NotZero(t, sent())
	// They are back, but the alert is the engine's to end.
	for range 4 {
		require.Equal(t, slo.AlertsLive, see(server("http://eu", labels)).By)
	}
	require.NotZero(t, sent())
	for len(m.View().Active) > 0 {
		step()
	}
	by = see(server("http://eu", labels))
	require.Equal(t, slo.AlertsRules, by.By)
	ended := 0
	for _, a := range m.View().ToSend().Resolved {
		if a.SLO == "shop/a" {
			ended++
		}
	}
	require.NotZero(t, ended, "what the engine began is told to be over")

	// Only one of two servers has them.
	for range 3 {
		by = see(server("http://eu", labels), server("http://us"))
	}
	require.Equal(t, "rules for it are in http://eu only, and not in http://us", by.Why)
	require.Equal(t, slo.AlertsLive, by.By)

	set := func(to slo.AlertsBy) {
		counted = &slo.SLO{}
		*counted = *m.planned("shop/a")
		counted.Indicator.PromAlerts = to
	}
	set(slo.AlertsBoth)
	see(server("http://eu", labels))
	by = see(server("http://eu", labels))
	require.Equal(t, slo.AlertsBoth, by.By, by.Why)
	external["cluster"] = "us"
	see(server("http://eu", labels))
	by = see(server("http://eu", labels))
	require.Equal(t, slo.AlertsRules, by.By)
	require.Equal(t, `both would notify twice: ErrorBudgetBurnPage in http://eu: cluster is "us" by the rule and "eu" `+
		`by the engine`, by.Why)
	unknown := server("http://eu", labels)
	unknown.Sent = func(map[string]string) (map[string]string, error) { return nil, errors.New("forbidden") }
	require.Equal(t, "both would notify twice: http://eu: forbidden", see(unknown).Why)
	m.SetLinks(alerts.Options{}, Sending{NotBoth: "without an Alertmanager"})
	require.Equal(t, "both would notify twice: without an Alertmanager", see(server("http://eu", labels)).Why)

	set(slo.AlertsLive)
	step()
	require.Equal(t, slo.AlertsLive, m.View().SentBy["shop/a"].By, "at once")

	// Another source has to answer first.
	counted = &slo.SLO{}
	*counted = *m.planned("shop/a")
	counted.Indicator.PromSource, counted.Indicator.PromAlerts = "new", ""
	step()
	require.Empty(t, m.View().SentBy["shop/a"].By)
}

// planned is the SLO of the last report.
func (m *Machine) planned(id slo.ID) *slo.SLO {
	for s := range m.plan.slos {
		if s.ID == id {
			return s
		}
	}
	return nil
}

// TestRulesOf: rules are those of an SLO by its ID and their name, or by the group that sloengine and Sloth make.
func TestRulesOf(t *testing.T) {
	s := newSLO(t, "shop/a", "99.9")
	p := newPlan(&sla.Report{SLOs: []sla.SLOReport{{SLO: s}}}, Options{})
	r := ServerRules{Rules: map[string][]map[string]string{
		"shop/a":                  {{"alertname": "ErrorBudgetBurnPage"}, {"alertname": "SomebodysOwn"}},
		"shop/ab":                 {{"alertname": "ErrorBudgetBurnPage"}},
		"sloth-slo-alerts-shop-a": {{"alertname": "ShopA"}},
		"sloengine-alerts-shop/a": {{"alertname": "Own"}},
	}}
	var names []string
	for _, l := range r.of(s, p.slos[s]) {
		names = append(names, l["alertname"])
	}
	require.Equal(t, []string{"ErrorBudgetBurnPage", "Own", "ShopA"}, names)
}
