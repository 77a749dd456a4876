package alerts

import (
	"fmt"
	"maps"
	"strings"

	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/slo"
)

// slothRules are the alerts of an SLO in the naming of Sloth: the two that Sloth has, for pages and for tickets, and
// those on what is left of the budget and on a forecast if the spec asks for them.
func (g *generator) slothRules(s *slo.SLO, tiers []Tier) []rules.Rule {
	var out []rules.Rule
	for _, page := range []bool{true, false} {
		var of []Tier
		for _, t := range tiers {
			if t.Page == page {
				of = append(of, t)
			}
		}
		if len(of) > 0 {
			out = append(out, g.slothRule(s, of))
		}
	}
	out = append(out, rulesOf(g.budgetLow(s))...)
	if alertsSoon(s) {
		out = append(out, g.exhaustedSoon(s).rule)
	}
	return out
}

// slothRule fires if one of its tiers does, with the labels that an alert of Sloth has: those of its series,
// sloth_severity, and the user's.
func (g *generator) slothRule(s *slo.SLO, tiers []Tier) rules.Rule {
	conditions, windows := make([]string, len(tiers)), make([]string, len(tiers))
	for i, t := range tiers {
		conditions[i] = "max without (" + series.LabelSlothWindow + ") (\n" + g.burn(s, t).rule.Expr + "\n)"
		windows[i] = slo.FormatDuration(t.Long)
	}
	out := g.burn(s, tiers[0]).rule
	severity := tiers[0].Severity
	out.Expr = strings.Join(conditions, "\nor\n")
	out.Labels = merge(map[string]string{series.LabelSlothSeverity: severity}, tiers[0].Labels)
	subject := "{{ $labels." + series.LabelSlothService + " }} {{ $labels." + series.LabelSlothSLO + " }}" +
		groupText(g.q.groups(s))
	burns := subject + " is using up its error budget"
	if tiers[0].Page {
		burns = subject + " burns its error budget fast"
	}
	out.Annotations["title"] = "(" + severity + ") " + burns
	out.Annotations["summary"] = burns
	out.Annotations["description"] = g.untilObserved("eq $value 0.0", slo.FormatDuration(tiers[0].Short), fmt.Sprintf(
		"{{ $value | humanizePercentage }} of the %s of the last %s were bad. The objective of %s over %s allows %s.",
		unit(s), strings.Join(windows, " or "), s.Objective, s.Window, percent(exact(s.Objective.Budget()))))
	maps.Copy(out.Annotations, tiers[0].Annotations)
	return out
}

// slothMatchers select the alert among the series of Prometheus.
func slothMatchers(id, name, severity string) []string {
	return []string{"alertname=" + quote(name), series.LabelSlothID + "=" + quote(id),
		series.LabelSlothSeverity + "=" + quote(severity)}
}
