package alerts

import (
	"fmt"
	"strings"
	"time"

	"github.com/sloengine/sloengine/rules"
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
	var causes, effects []*slo.SLO
	for _, s := range slos {
		switch {
		case s.Budgeting.Method != slo.Occurrences && s.Budgeting.Method != "": // counts slices, not failures
		case about(s, "integration"):
			causes = append(causes, s)
		default:
			effects = append(effects, s)
		}
	}
	if len(slos) > 0 && (len(causes) == 0 || len(effects) == 0) {
		g.find(agreementID(a), FindingWarning, "alert "+sla.CatalogueCascading+" is left out: it needs an SLO on the events of integrations and one of stages", "name one of each")
		return nil
	}
	failing := func(s *slo.SLO, least int) string {
		return fmt.Sprintf("%s * 300 > %d and %s %s > %s", g.q.bad(s), least, g.q.on(s), g.q.ratio(s, shortWindow), number(s.Objective.Budget()))
	}
	var out []rules.Rule
	for _, cause := range causes {
		for _, effect := range effects {
			r := g.slaAlertRule(a, cause, slaAlert{NameCascading, "cascading_failure", SeverityCritical, ImpactHigh,
				"(" + failing(cause, cascadeCause) + ")\nand on ()\n(" + failing(effect, cascadeEffect) + ")", time.Minute,
				"A failure spreads: " + g.subject(cause) + " and " + string(effect.ID),
				fmt.Sprintf("{{ $value | humanize }} calls failed within 5m, more than %d, and %s fails at the same time with more than %d.", cascadeCause, effect.ID, cascadeEffect)})
			r.Labels["effect"] = string(effect.ID)
			out = append(out, r)
		}
	}
	return out
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
	if bound := max(a.Warning, a.Critical); bound > 0 {
		groups := g.q.agreementGroups(a)
		on := onLabels(groups)
		fired := firing(`alertname=~"`+NameCompositeWarning+"|"+NameCompositeCritical+`"`, "agreement="+quote(a.Name), "service="+quote(a.Service))
		out = append(out, rules.Rule{
			Alert: NameCompositeRecovered, For: 5 * time.Minute,
			Expr: g.q.score(a) + " >= " + number(bound) +
				"\nand " + on + " max_over_time(" + fired + g.recent() + ")" +
				"\nunless " + on + " " + fired,
			Labels: g.agreementLabels(a, "composite_recovery", SeverityInfo, ""),
			Annotations: g.annotations(NameCompositeRecovered, g.agreementNote(a,
				fmt.Sprintf("Score of %s/%s%s is back above %s", a.Service, a.Name, groupText(groups), number(bound)),
				fmt.Sprintf(`The composite score over the last %s is {{ $value | printf "%%.1f" }} of 100 again.`, slo.FormatDuration(alertWindow(a))))),
		})
	}
	if len(out) == 0 {
		g.find(agreementID(a), FindingWarning, "alert "+sla.CatalogueRecovery+" is left out: the agreement chose no violation to recover from", "choose latency, error_rate, availability, throughput or thresholds of the score")
	}
	return out
}

func (g *generator) recovered(a *sla.Agreement, entry string, s *slo.SLO) rules.Rule {
	k := kinds[entry]
	w, bound, wait := shortWindow, s.Objective.Budget(), 5*time.Minute
	switch entry {
	case sla.CatalogueLatency:
		wait = 2 * time.Minute
	case sla.CatalogueAvailability:
		w = hour
	case sla.CatalogueThroughput:
		w, bound = sliceWindow(s), 0.5
	}
	on := g.q.on(s)
	fired := firing("alertname="+quote(k.violation), "agreement="+quote(a.Name), "slo_id="+quote(string(s.ID)))
	return g.slaAlertRule(a, s, slaAlert{k.recovered, k.sla + "_recovery", SeverityInfo, "",
		g.q.ratio(s, w) + " <= " + number(bound) +
			"\nand " + on + " max_over_time(" + fired + g.recent() + ")" +
			"\nunless " + on + " " + fired, wait,
		"As agreed again: " + g.subject(s),
		"{{ $value | humanizePercentage }} is bad over the last " + slo.FormatDuration(w) + ", which is within the agreed " + percent(bound) + "; " + k.violation + " is over."})
}

func (g *generator) recent() string { return "[" + slo.FormatDuration(g.o.Recent) + "]" }

// firing selects what fires. Prometheus keeps one ALERTS series per alert and
// marks it stale when it is over, so that it is gone at once and still seen by a
// look back.
func firing(matchers ...string) string {
	return "ALERTS{" + strings.Join(append(matchers, `alertstate="firing"`), ",") + "}"
}
