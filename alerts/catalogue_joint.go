package alerts

import (
	"fmt"
	"strings"
	"time"

	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

// cascadeCause and cascadeEffect are the bad events within 5m from which a
// failure of an integration, and of a stage, counts.
const (
	cascadeCause  = 10
	cascadeEffect = 5
)

// cascading joins what fails below with what fails above. The two share no
// label, so the join is on nothing; and both sides are rates over the same five
// minutes, so that each falls silent once its failures stop.
func (g *generator) cascading(a *sla.Agreement, slos []*slo.SLO) []rules.Rule {
	causes, effects := cascade(slos)
	if len(slos) > 0 && (len(causes) == 0 || len(effects) == 0) {
		g.find(agreementID(a), FindingWarning, "alert "+sla.CatalogueCascading+" is left out: it needs an SLO on the events of integrations and one of stages", "name one of each")
		return nil
	}
	var out []rules.Rule
	for _, cause := range causes {
		for _, effect := range effects {
			out = append(out, g.cascadeRule(a, cause, effect))
		}
	}
	return out
}

// cascade tells the SLOs on integrations from those on what they may take down. Those that count slices count no failures.
func cascade(slos []*slo.SLO) (causes, effects []*slo.SLO) {
	for _, s := range slos {
		switch {
		case s.Budgeting.Method != slo.Occurrences && s.Budgeting.Method != "":
		case about(s, "integration"):
			causes = append(causes, s)
		default:
			effects = append(effects, s)
		}
	}
	return causes, effects
}

func (g *generator) cascadeRule(a *sla.Agreement, cause, effect *slo.SLO) rules.Rule {
	failing := func(s *slo.SLO, least int) string {
		return fmt.Sprintf("%s * 300 > %d and %s %s > %s", g.q.bad(s), least, g.q.on(s), g.q.ratio(s, shortWindow), number(s.Objective.Budget()))
	}
	r := g.slaAlertRule(a, cause, slaAlert{NameCascading, "cascading_failure", SeverityCritical, ImpactHigh,
		"(" + failing(cause, cascadeCause) + ")\nand on ()\n(" + failing(effect, cascadeEffect) + ")", time.Minute,
		"A failure spreads: " + g.subject(cause) + " and " + string(effect.ID),
		fmt.Sprintf("{{ $value | humanize }} calls failed within 5m, more than %d, and %s fails at the same time with more than %d.", cascadeCause, effect.ID, cascadeEffect)})
	r.Labels[series.LabelEffect] = string(effect.ID)
	return r
}

// recovery makes a notice for every kind of violation that the agreement alerts
// on: it fired a moment ago, it does not now, and there is data that says so.
func (g *generator) recovery(a *sla.Agreement, all []chosen) []rules.Rule {
	var out []rules.Rule
	for _, c := range all {
		switch c.entry {
		case sla.CatalogueLatency, sla.CatalogueErrorRate, sla.CatalogueAvailability, sla.CatalogueThroughput:
			for _, s := range c.slos {
				out = append(out, g.recovered(a, c.entry, s))
			}
		}
	}
	if max(a.Warning, a.Critical) > 0 {
		out = append(out, g.compositeRecovered(a))
	}
	if len(out) == 0 {
		g.find(agreementID(a), FindingWarning, "alert "+sla.CatalogueRecovery+" is left out: the agreement chose no violation to recover from", "choose latency, error_rate, availability, throughput or thresholds of the score")
	}
	return out
}

func (g *generator) compositeRecovered(a *sla.Agreement) rules.Rule {
	bound := max(a.Warning, a.Critical)
	groups := g.q.agreementGroups(a)
	on := onLabels(groups)
	fired := firing(`alertname=~"`+NameCompositeWarning+"|"+NameCompositeCritical+`"`, series.LabelAgreement+"="+quote(a.Name), series.LabelService+"="+quote(a.Service))
	return rules.Rule{
		Alert: NameCompositeRecovered, For: 5 * time.Minute,
		Expr: g.q.score(a) + " >= " + number(bound) +
			"\nand " + on + " max_over_time(" + fired + g.recent() + ")" +
			"\nunless " + on + " " + fired,
		Labels: g.agreementLabels(a, "composite_recovery", SeverityInfo, ""),
		Annotations: g.annotations(NameCompositeRecovered, g.agreementNote(a,
			fmt.Sprintf("Score of %s/%s%s is back above %s", a.Service, a.Name, groupText(groups), number(bound)),
			fmt.Sprintf(`The composite score over the last %s is {{ $value | printf "%%.1f" }} of 100 again.`, slo.FormatDuration(alertWindow(a))))),
	}
}

func (g *generator) recovered(a *sla.Agreement, entry string, s *slo.SLO) rules.Rule {
	k := kinds[entry]
	w, bound := recovering(entry, s)
	wait := 5 * time.Minute
	if entry == sla.CatalogueLatency {
		wait = 2 * time.Minute
	}
	on := g.q.on(s)
	fired := firing("alertname="+quote(k.violation), series.LabelAgreement+"="+quote(a.Name), series.LabelSLOID+"="+quote(string(s.ID)))
	return g.slaAlertRule(a, s, slaAlert{k.recovered, k.sla + "_recovery", SeverityInfo, "",
		g.q.ratio(s, w) + " <= " + number(bound) +
			"\nand " + on + " max_over_time(" + fired + g.recent() + ")" +
			"\nunless " + on + " " + fired, wait,
		"As agreed again: " + g.subject(s),
		"{{ $value | humanizePercentage }} is bad over the last " + slo.FormatDuration(w) + ", which is within the agreed " + percent(bound) + "; " + k.violation + " is over."})
}

// recovering is the window, and the error ratio that it must not exceed, by which a violation counts as over.
func recovering(entry string, s *slo.SLO) (w time.Duration, bound float64) {
	switch entry {
	case sla.CatalogueAvailability:
		return hour, s.Objective.Budget()
	case sla.CatalogueThroughput:
		return sliceWindow(s), 0.5
	}
	return shortWindow, s.Objective.Budget()
}

func (g *generator) recent() string { return "[" + slo.FormatDuration(g.o.Recent) + "]" }

// firing selects what fires. Prometheus keeps one ALERTS series per alert and
// marks it stale when it is over, so that it is gone at once and still seen by a
// look back.
func firing(matchers ...string) string {
	return "ALERTS{" + strings.Join(append(matchers, `alertstate="firing"`), ",") + "}"
}
