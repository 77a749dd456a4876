package state

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/sla"
)

func engineRule(name string, wait time.Duration) *alerts.Live {
	return &alerts.Live{Kind: alerts.LiveEngine, Alert: name, For: wait,
		Labels: map[string]string{"severity": "critical", "slo_kind": "engine"}}
}

func sample(value float64, labels ...string) EngineSample {
	s := EngineSample{Value: value}
	for i := 0; i < len(labels); i += 2 {
		s.Labels = append(s.Labels, Label{labels[i], labels[i+1]})
	}
	return s
}

func TestEngineAlerts(t *testing.T) {
	m := newMachine(t)
	open, lag := engineRule("BreakerOpen", time.Minute), engineRule("SinkLagging", 0)
	now := start
	step := func(rules ...EngineRule) []string {
		m.StepEngine(&EngineReport{Time: now, Rules: rules})
		now = now.Add(15 * time.Second)
		return names(m.View().Active)
	}
	a, b := sample(2, "breaker", "a", "job", "j"), sample(2, "breaker", "b", "job", "j")
	require.Equal(t, []string{"BreakerOpen pending", "BreakerOpen pending"},
		step(EngineRule{Rule: open, Known: true, Found: []EngineSample{a, b}}, EngineRule{Rule: lag, Known: true}))
	for range 3 {
		step(EngineRule{Rule: open, Known: true, Found: []EngineSample{a}}, EngineRule{Rule: lag, Known: true})
	}
	require.Equal(t, []string{"BreakerOpen firing", "SinkLagging firing"},
		step(EngineRule{Rule: open, Known: true, Found: []EngineSample{a}},
			EngineRule{Rule: lag, Known: true, Found: []EngineSample{sample(9)}}))
	x := m.View().Active[0]
	require.True(t, x.Urgent)
	require.True(t, x.Engine)
	require.Equal(t, []Label{{"alertname", "BreakerOpen"}, {"breaker", "a"}, {"job", "j"}, {"severity", "critical"},
		{"slo_kind", "engine"}}, x.Labels)
	require.Equal(t, start, x.ActiveSince)
	require.Equal(t, start.Add(time.Minute), x.FiredAt)

	// Reports and engine reports do not touch each other's alerts, and their resolved alerts are in order of time.
	s := newSLO(t, "shop/availability", "99.9")
	bad := stream{
		rate: 100, from: now.Add(-40 * day), incidents: []incident{{now.Add(-time.Hour), now.Add(time.Minute), 0.5}}}
	report := func(at time.Time) *sla.Report {
		return &sla.Report{Time: at, SLOs: []sla.SLOReport{bad.report(s, nil, at)}}
	}
	m.Step(report(now))
	require.Contains(t, names(m.View().Active), "ErrorBudgetBurnPage/page-1h firing")
	require.Contains(t, names(m.View().Active), "BreakerOpen firing")
	require.Contains(t, step(EngineRule{Rule: open}, EngineRule{Rule: lag, Known: true}), "BreakerOpen firing")
	require.Equal(t, []string{"SinkLagging resolved"}, names(m.View().Resolved))
	require.True(t, m.View().Active[len(m.View().Active)-1].Kept)
	view := m.View()
	now = now.Add(2 * time.Hour)
	step(EngineRule{Rule: open, Known: true})
	m.Step(report(now.Add(-time.Hour))) // an evaluation that took long
	order := m.View().Resolved
	for i := 1; i < len(order); i++ {
		require.False(t, order[i].ResolvedAt.Before(order[i-1].ResolvedAt))
	}
	require.Equal(t, "BreakerOpen", order[len(order)-1].Name)
	require.Greater(t, len(order), 2)
	require.Len(t, view.Resolved, 1, "a view does not change")

	// Rules that are gone end their alerts, and restored ones find their rules.
	step(EngineRule{Rule: open, Known: true, Found: []EngineSample{a}},
		EngineRule{Rule: lag, Known: true, Found: []EngineSample{sample(9)}})
	for range 4 {
		step(EngineRule{Rule: open, Known: true, Found: []EngineSample{a}},
			EngineRule{Rule: lag, Known: true, Found: []EngineSample{sample(9)}})
	}
	again := newMachine(t)
	require.NoError(t, again.Restore(m.Snapshot()))
	require.Len(t, again.View().OnEngine().Active, 2)
	require.Equal(t, m.View().OnEngine().Active[0].Fingerprint, again.View().OnEngine().Active[0].Fingerprint)
	m = again
	require.Error(t, m.Restore(m.Snapshot()))
	fresh := engineRule("BreakerOpen", time.Minute)
	step(EngineRule{Rule: fresh})
	require.Equal(t, []string{"BreakerOpen firing"}, names(m.View().OnEngine().Active))
	require.Len(t, m.kept, 2, "those of the SLO wait for a report")
	require.Same(t, fresh, m.rows[scopeEngine].list[0].plan[0].rule)
	last := m.View().Resolved[len(m.View().Resolved)-1]
	require.Equal(t, "SinkLagging", last.Name)
	require.True(t, last.Removed)
	step()
	require.Empty(t, m.View().OnEngine().Active)
	require.Zero(t, m.active)

	// A report of the past is ignored.
	require.Nil(t, m.StepEngine(&EngineReport{Time: now.Add(-20 * time.Second),
		Rules: []EngineRule{{Rule: lag, Known: true, Found: []EngineSample{sample(9)}}}}))
}
