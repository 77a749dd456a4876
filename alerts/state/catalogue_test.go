package state

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

// catalogueOf is an agreement that chose one entry, without other alerts.
func catalogueOf(entry string, slos ...*slo.SLO) *sla.Agreement {
	a := &sla.Agreement{Service: "shop", Name: "gold", Window: slo.Window{Rolling: 30 * day},
		Catalogue: []sla.CatalogueAlert{{Name: entry}}}
	for _, s := range slos {
		s.Alerting.Page.Disabled, s.Alerting.Ticket.Disabled, s.Alerting.NoData.Disabled = true, true, true
		a.Components = append(a.Components, sla.Component{Name: s.ID.Name(), SLO: s.ID, Weight: 1})
		a.Catalogue[0].SLOs = append(a.Catalogue[0].SLOs, s.ID)
	}
	return a
}

// within is a group of which so many of the events of the last five minutes were bad.
func within(s *slo.SLO, group slo.Group, bad, valid uint64) sla.SLOReport {
	b := slo.NewBurn(5*time.Minute, slo.NewBudget(s.Objective, slo.Counts{Good: valid - bad, Bad: bad}))
	b.Observed = 1
	return sla.SLOReport{SLO: s, Group: group, Burns: []slo.Burn{b}, RawBurns: []slo.Burn{b}, Rate: float64(valid) / 300}
}

func TestTrend(t *testing.T) {
	s := newSLO(t, "shop/errors", "99")
	s.Alerting.MinEvents = 50
	a := catalogueOf(sla.CatalogueErrorTrend, s)
	over := func(bad, valid uint64) slo.Burn {
		return slo.NewBurn(10*time.Minute, slo.NewBudget(s.Objective, slo.Counts{Good: valid - bad, Bad: bad}))
	}
	for _, c := range []struct {
		name                        string
		bad, valid                  uint64
		now, nowOf, before, beforOf uint64
		want                        []string
	}{
		{"rises by more than a fifth", 6, 1000, 13, 2000, 10, 2000, []string{"ErrorRateTrendWarning pending"}},
		{"rises by a fifth", 6, 1000, 12, 2000, 10, 2000, []string{}},
		{"the first errors", 6, 1000, 6, 2000, 0, 2000, []string{"ErrorRateTrendWarning pending"}},
		{"half of the budget", 5, 1000, 13, 2000, 10, 2000, []string{}},
		{"few events", 6, 49, 13, 2000, 10, 2000, []string{}},
		{"nothing to compare with", 6, 1000, 13, 2000, 0, 0, []string{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMachine(t)
			r := within(s, nil, c.bad, c.valid)
			r.Trend = []slo.Burn{over(c.now, c.nowOf), over(c.before, c.beforOf)}
			m.Step(&sla.Report{Time: start, SLOs: []sla.SLOReport{r}, SLAs: []sla.SLAReport{{SLA: a}}})
			require.Equal(t, c.want, names(m.View().Active))
		})
	}
}

func TestDecline(t *testing.T) {
	events, s := newSLO(t, "shop/events", "99", "product"), newSLO(t, "shop/throughput", "99", "product")
	s.Indicator = slo.Indicator{Kind: slo.KindThroughput, AtLeast: 100, Per: time.Minute}
	a := catalogueOf(sla.CatalogueThroughputDecline, s)
	catalogueOf("", events)
	m, now := newMachine(t), start
	step := func(perMinute, judged uint64) []string {
		r := within(s, slo.Group{"a"}, 0, judged)
		r.Arrivals = float64(perMinute) / 60
		now = now.Add(time.Minute)
		m.Step(&sla.Report{Time: now, SLOs: []sla.SLOReport{within(events, slo.Group{"a"}, 0, 1), r},
			SLAs: []sla.SLAReport{{SLA: a}}})
		return names(m.View().Active)
	}
	require.Empty(t, step(120, 5))
	require.Equal(t, []string{"ThroughputDeclineWarning pending"}, step(119, 5))
	require.Equal(t, 119.0, m.View().Active[0].Value)
	require.Empty(t, step(119, 0), "closed")
	require.NotEmpty(t, step(100, 5))
	require.Empty(t, step(99, 5), "below the target is another alert")
	for range 11 {
		step(110, 5)
	}
	require.Equal(t, []string{"ThroughputDeclineWarning firing"}, step(110, 5))
}

func TestCascade(t *testing.T) {
	cause, effect := newSLO(t, "shop/calls", "99", "integration"), newSLO(t, "shop/stages", "99", "stage")
	a := catalogueOf(sla.CatalogueCascading, cause, effect)
	step := func(cause1, cause2, effect1, other sla.SLOReport) []string {
		m := newMachine(t)
		m.Step(
			&sla.Report{Time: start, SLOs: []sla.SLOReport{cause1, cause2, effect1, other}, SLAs: []sla.SLAReport{{SLA: a}}})
		for i := range m.View().Active {
			x := &m.View().Active[i]
			require.Equal(t, "shop/stages", x.Label(series.LabelEffect))
			require.Equal(t, "bank", x.Label("integration"))
			require.Equal(t, 11.0, x.Value)
			require.False(t, x.Urgent)
		}
		return names(m.View().Active)
	}
	other := within(effect, slo.Group{slo.OtherGroup}, 50, 50)
	other.Informative = true
	bank, post := within(cause, slo.Group{"bank"}, 11, 100), within(cause, slo.Group{"post"}, 10, 100)
	pay := within(effect, slo.Group{"pay"}, 6, 100)
	require.Equal(t, []string{"CascadingFailure pending"}, step(bank, post, pay, other))
	require.Empty(t, step(bank, post, within(effect, slo.Group{"pay"}, 5, 100), other),
		"too few, and the other group never alerts")
	require.Empty(t, step(bank, post, within(effect, slo.Group{"pay"}, 6, 600), other), "within the budget")
	require.Empty(t, step(within(cause, slo.Group{"bank"}, 11, 1100), post, pay, other), "within the budget")
}

// TestRestored: the notice that a score is back outlives a restart, and a removed alert is no recovery.
func TestRestored(t *testing.T) {
	a := catalogueOf(sla.CatalogueRecovery)
	a.Warning = 95
	m, now := newMachine(t), start
	step := func(score float64) []string {
		now = now.Add(time.Minute)
		m.Step(&sla.Report{Time: now, SLAs: []sla.SLAReport{{
			SLA: a, HasData: true, Score: score,
			Components: []sla.ComponentReport{{Name: "x", HasData: true, Weight: 1, Points: score / 100, Observed: 1}},
		}}})
		return names(m.View().Active)
	}
	for range 7 {
		step(93)
	}
	require.Equal(t, []string{"CompositeSLAWarning firing"}, step(93))
	require.Empty(t, step(96))
	again := newMachine(t)
	require.NoError(t, again.Restore(m.Snapshot()))
	m = again
	require.Equal(t, []string{"CompositeSLARecovered pending"}, step(96))
	for range 5 {
		step(96)
	}
	require.Equal(t, []string{"CompositeSLARecovered firing"}, step(96))
	require.Equal(t, alerts.SeverityInfo, m.View().Active[0].Severity)
	for range 7 {
		require.NotEmpty(t, step(96))
	}
	require.Empty(t, step(96), "a quarter of an hour later")
}
