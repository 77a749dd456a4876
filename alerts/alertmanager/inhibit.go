package alertmanager

import (
	"slices"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

const labelAlertName = "alertname"

// agreementAlerts match all alerts of one agreement.
func agreementAlerts(a *sla.Agreement) []string {
	return []string{equal(series.LabelService, a.Service), equal(series.LabelAgreement, a.Name)}
}

// common are the intervals that mute every component of an agreement: only then
// is there nothing left that its score could say.
func (g *generator) common(cs []sla.Component) []string {
	var out []string
	for i, c := range cs {
		mine := g.mutes.bySLO[c.SLO]
		if i == 0 {
			out = slices.Clone(mine)
			continue
		}
		out = slices.DeleteFunc(out, func(name string) bool { return !slices.Contains(mine, name) })
	}
	return out
}

// inhibit keeps quiet what somebody is already told about: the tickets of an SLO
// that pages, the forecast of a budget that is empty by now, the warning of a promise that is critical, and the components of an
// agreement whose score is told about. Alertmanager takes two missing labels for
// equal, hence the matchers that a label is there.
func (g *generator) inhibit() []inhibitRule {
	groups := g.groupLabels()
	out := []inhibitRule{
		{
			Source: []string{oneOf(series.LabelSeverity, g.class[Critical]), present(series.LabelSLOID)},
			Target: []string{oneOf(series.LabelSeverity, g.class[Warning]), present(series.LabelSLOID)},
			Equal:  append([]string{series.LabelSLOID}, groups...),
		},
		{
			Source: []string{equal(series.LabelImpact, alerts.ImpactHigh), present(series.LabelAgreement)},
			Target: []string{oneOf(series.LabelImpact, []string{alerts.ImpactLow, alerts.ImpactMedium}), present(series.LabelAgreement), oneOf(series.LabelSeverity, g.class[Warning])},
			Equal:  append([]string{series.LabelService, series.LabelSLOID, series.LabelAgreement, series.LabelKind}, groups...),
		},
	}
	if slices.ContainsFunc(g.in.SLOs, func(s *slo.SLO) bool { return s.Alerting.Soon.Within > 0 }) {
		out = append(out, inhibitRule{ // what was forecast has come
			Source: []string{equal(labelAlertName, alerts.NameBudgetExhausted), present(series.LabelSLOID)},
			Target: []string{equal(labelAlertName, alerts.NameExhaustedSoon), present(series.LabelSLOID)},
			Equal:  append([]string{series.LabelSLOID}, groups...),
		})
	}
	told := slices.Concat(g.class[Critical], g.class[Warning])
	slices.Sort(told)
	for _, a := range g.in.Agreements {
		if a.Warning == 0 && a.Critical == 0 {
			continue
		}
		var components []slo.ID
		for _, c := range a.Components {
			components = append(components, c.SLO)
		}
		slices.Sort(components)
		components = slices.Compact(components)
		rule := func(alert string, severities []string) {
			source := append(agreementAlerts(a), equal(labelAlertName, alert))
			same := series.GroupLabels(a.GroupBy)
			severity := oneOf(series.LabelSeverity, severities)
			out = append(out,
				inhibitRule{Source: source, Target: []string{oneOf(series.LabelSLOID, components), severity}, Equal: same},
				inhibitRule{Source: source, Target: append(agreementAlerts(a), severity, notOneOf(labelAlertName, []string{alerts.NameCompositeCritical, alerts.NameCompositeWarning})), Equal: same},
			)
		}
		if a.Critical > 0 {
			rule(alerts.NameCompositeCritical, told)
		}
		if a.Warning > 0 {
			rule(alerts.NameCompositeWarning, g.class[Warning])
		}
	}
	return out
}
