package alertmanager

import (
	"cmp"
	"maps"
	"slices"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/internal/order"
	"github.com/sloengine/sloengine/rules"
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

// inhibit mutes alerts of which people are notified already: tickets by the page of their SLO, the forecast of a budget
// by the empty budget, less by more of the same requirement, alerts by the page of a declared cause, and those of an
// agreement and its components by each other. A page is kept quiet by another page only, and only in equal groups.
// Alertmanager takes two missing labels for equal, hence the matchers that a label is there.
func (g *generator) inhibit() []inhibitRule {
	groups := g.groupLabels()
	out := []inhibitRule{
		{
			Source: g.pages(present(g.idLabel())),
			Target: []string{g.sloSeverity(Warning), present(g.idLabel())},
			Equal:  append([]string{g.idLabel()}, groups...),
		},
		{
			Source: []string{equal(series.LabelImpact, alerts.ImpactHigh), present(series.LabelAgreement)},
			Target: []string{g.severity(Warning), oneOf(series.LabelImpact, []string{alerts.ImpactLow, alerts.ImpactMedium}),
				present(series.LabelAgreement)},
			Equal: append([]string{series.LabelService, series.LabelSLOID, series.LabelAgreement, series.LabelKind}, groups...),
		},
	}
	if slices.ContainsFunc(g.in.SLOs, func(s *slo.SLO) bool { return s.Alerting.Soon.Within > 0 }) {
		out = append(out, inhibitRule{ // what was forecast has come
			Source: []string{equal(labelAlertName, alerts.NameBudgetExhausted), present(series.LabelSLOID)},
			Target: []string{equal(labelAlertName, alerts.NameExhaustedSoon), present(series.LabelSLOID)},
			Equal:  append([]string{series.LabelSLOID}, groups...),
		})
	}
	out = append(out, g.byBudget(groups)...)
	out = append(out, g.byCause()...)
	for _, a := range g.in.Agreements {
		if a.Warning > 0 || a.Critical > 0 {
			out = append(out, g.byScore(a, groups)...)
		}
	}
	return out
}

// pages match the paging alerts on SLOs that keep others quiet: not those on what is left of a budget, which fire as
// long as little is left, whatever else happens.
func (g *generator) pages(of string) []string {
	out := []string{g.sloSeverity(Critical), of}
	if g.opt.Names != rules.Sloth && slices.ContainsFunc(g.in.SLOs, func(s *slo.SLO) bool {
		return slices.ContainsFunc(s.Alerting.Left, func(a slo.LeftAlert) bool { return a.Page })
	}) {
		out = append(out, notOneOf(labelAlertName, []string{alerts.NameBudgetLow}))
	}
	return out
}

// byBudget keeps the alerts on what is left of a budget quiet by those on less: a page by a page only.
func (g *generator) byBudget(groups []string) (out []inhibitRule) {
	var shares []slo.LeftAlert
	for _, s := range g.in.SLOs {
		for _, a := range s.Alerting.Left {
			if !slices.ContainsFunc(shares, func(o slo.LeftAlert) bool { return o.Share == a.Share }) {
				shares = append(shares, a)
			}
		}
	}
	if len(shares) == 0 {
		return nil
	}
	order.By(shares, func(a, b *slo.LeftAlert) int { return cmp.Compare(a.Share, b.Share) })
	low := equal(labelAlertName, alerts.NameBudgetLow)
	add := func(source []string, target ...string) {
		out = append(out, inhibitRule{Source: append(source, present(series.LabelSLOID)),
			Target: append(target, low, present(series.LabelSLOID)), Equal: append([]string{series.LabelSLOID}, groups...)})
	}
	add([]string{equal(labelAlertName, alerts.NameBudgetExhausted)}, g.severity(Warning))
	var more []string
	for i := len(shares) - 1; i > 0; i-- {
		more = append(more, alerts.LowTier(shares[i]))
		source := []string{low, equal(series.LabelTier, alerts.LowTier(shares[i-1]))}
		add(slices.Clone(source), g.severity(Warning), oneOf(series.LabelTier, more))
		add(append(source, g.severity(Critical)), oneOf(series.LabelTier, more))
	}
	return out
}

// byCause keeps the alerts of SLOs quiet while a cause that they declare pages.
func (g *generator) byCause() []inhibitRule {
	byID := map[slo.ID]*slo.SLO{}
	for _, s := range g.in.SLOs {
		byID[s.ID] = s
	}
	var out []inhibitRule
	for _, s := range g.in.SLOs {
		for _, c := range s.CausedBy {
			cause := byID[c.SLO]
			if cause == nil {
				continue // alerts.Lint says so
			}
			rule := inhibitRule{cause: true,
				Source: g.pages(equal(g.idLabel(), g.idOf(c.SLO))),
				Target: []string{g.sloSeverity(Critical, Warning), equal(g.idLabel(), g.idOf(s.ID))},
			}
			for _, name := range slices.Sorted(maps.Keys(c.Group)) {
				rule.Source = append(rule.Source, equal(series.GroupLabel(name), c.Group[name]))
			}
			for _, name := range slices.Sorted(maps.Keys(c.Affects)) {
				if values := c.Affects[name]; len(values) > 0 {
					rule.Target = append(rule.Target, oneOf(series.GroupLabel(name), values))
				}
			}
			for _, name := range s.GroupBy {
				_, fixed := c.Group[name]
				_, listed := c.Affects[name]
				if !fixed && !listed && slices.Contains(cause.GroupBy, name) {
					rule.Equal = append(rule.Equal, series.GroupLabel(name))
				}
			}
			out = append(out, rule)
		}
	}
	return out
}

// byScore joins the alerts of an agreement: that of its score says more than its components and the other
// alerts of the agreement, and the page of a component says more than the ticket of the score.
func (g *generator) byScore(a *sla.Agreement, groups []string) []inhibitRule {
	var components []slo.ID
	for _, c := range a.Components {
		components = append(components, c.SLO)
	}
	slices.Sort(components)
	components = slices.Compact(components)
	scores := []string{alerts.NameCompositeCritical, alerts.NameCompositeWarning}
	out := []inhibitRule{{
		Source: g.pages(g.ofSLOs(components)),
		Target: append(agreementAlerts(a), g.severity(Warning), oneOf(labelAlertName, scores)), Equal: groups,
	}}
	rule := func(alert string, quiet ...Class) {
		source := append(agreementAlerts(a), equal(labelAlertName, alert))
		out = append(out,
			inhibitRule{Source: source, Target: []string{g.ofSLOs(components), g.sloSeverity(quiet...)}, Equal: groups},
			inhibitRule{Source: source, Target: append(agreementAlerts(a), g.severity(quiet...),
				notOneOf(labelAlertName, scores)), Equal: groups},
		)
	}
	if a.Critical > 0 {
		quiet := []Class{Warning}
		if a.SeedSeverities { // it pages itself
			quiet = append(quiet, Critical)
		}
		rule(alerts.NameCompositeCritical, quiet...)
	}
	if a.Warning > 0 {
		rule(alerts.NameCompositeWarning, Warning)
	}
	return out
}
