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

// cascading makes an alert for each pair of an SLO on what fails below and one on what fails above.
func (g *generator) cascading(a *sla.Agreement, slos []*slo.SLO) []defined {
	causes, effects := cascade(slos)
	if len(slos) > 0 && (len(causes) == 0 || len(effects) == 0) {
		g.find(agreementID(a), FindingWarning,
			"alert "+sla.CatalogueCascading+" is left out: it needs an SLO on the events of integrations and one of stages",
			"name one of each")
		return nil
	}
	var out []defined
	for _, cause := range causes {
		for _, effect := range effects {
			d := g.defineSLA(Live{Kind: LiveCascade, SLO: cause, Agreement: a, Effect: effect, Window: shortWindow},
				slaAlert{NameCascading, "cascading_failure", SeverityCritical, ImpactHigh, time.Minute,
					"A failure spreads: " + g.subject(cause) + " and " + string(effect.ID),
					fmt.Sprintf("{{ $value | humanize }} calls failed within 5m, more than %d, "+
						"and %s fails at the same time with more than %d.", cascadeCause, effect.ID, cascadeEffect)})
			d.rule.Labels[series.LabelEffect] = string(effect.ID)
			out = append(out, d)
		}
	}
	return out
}

// cascade tells the SLOs on integrations from those on what they may take down. Those that count slices count no
// failures.
func cascade(slos []*slo.SLO) (causes, effects []*slo.SLO) {
	for _, s := range slos {
		switch {
		case s.Budgeting.Method != slo.Occurrences && s.Budgeting.Method != "":
		case s.About("integration"):
			causes = append(causes, s)
		default:
			effects = append(effects, s)
		}
	}
	return causes, effects
}

// failingTogether joins what fails below with what fails above. The two share no
// label, so the join is on nothing; and both sides are rates over the same five
// minutes, so that each falls silent once its failures stop.
func (g *generator) failingTogether(cause, effect *slo.SLO) string {
	failing := func(s *slo.SLO, least int) string {
		return fmt.Sprintf("(%s * 300 > %d and %s %s > %s)",
			g.q.bad(s), least, g.q.on(s), g.q.ratio(s, shortWindow), number(s.Objective.Budget()))
	}
	return failing(cause, cascadeCause) + "\nand on ()\n" + failing(effect, cascadeEffect)
}

// recoveries names the notice that follows a violation.
var recoveries = map[string]string{
	NameLatencyViolation:      NameLatencyRecovered,
	NameErrorRateViolation:    NameErrorRateRecovered,
	NameAvailabilityViolation: NameAvailabilityRecovered,
	NameThroughputViolation:   NameThroughputRecovered,
}

// recovery makes a notice for every violation that the agreement alerts on: it fired a moment ago, it does not now, and
// there is data that says so.
func (g *generator) recovery(a *sla.Agreement, all []defined) []defined {
	var out []defined
	for _, v := range all {
		name, ok := recoveries[v.Alert]
		if !ok {
			continue
		}
		wait := 5 * time.Minute
		if v.Alert == NameLatencyViolation {
			wait = 2 * time.Minute
		}
		l := Live{
			Kind: LiveRecovered, SLO: v.SLO, Agreement: a, Window: v.Window, Above: v.Above, After: v.Alert, Recent: g.o.Recent,
		}
		out = append(out, g.defineSLA(l,
			slaAlert{name, v.rule.Labels[series.LabelKind] + "_recovery", SeverityInfo, "", wait,
				"As agreed again: " + g.subject(v.SLO),
				"{{ $value | humanizePercentage }} is bad over the last " + slo.FormatDuration(v.Window) +
					", which is within the agreed " + percent(v.Above) + "; " + v.Alert + " is over."}))
	}
	if bound := max(a.Warning, a.Critical); bound > 0 {
		out = append(out, g.define(Live{Kind: LiveRestored, Agreement: a, Below: bound, Recent: g.o.Recent}, rules.Rule{
			Alert: NameCompositeRecovered, For: 5 * time.Minute,
			Labels: g.agreementLabels(a, "composite_recovery", SeverityInfo, ""),
			Annotations: g.annotations(NameCompositeRecovered, g.agreementNote(a,
				g.scoreOf(a)+" is back above "+number(bound), scoreText(a)+" again.")),
		}))
	}
	if len(out) == 0 {
		g.find(agreementID(a), FindingWarning,
			"alert "+sla.CatalogueRecovery+" is left out: the agreement chose no violation to recover from",
			"choose latency, error_rate, availability, throughput or thresholds of the score")
	}
	return out
}

// recovered is the condition of LiveRecovered.
func (g *generator) recovered(l *Live) string {
	fired := firing("alertname="+quote(l.After), series.LabelAgreement+"="+quote(l.Agreement.Name),
		series.LabelSLOID+"="+quote(string(l.SLO.ID)))
	return g.q.ratio(l.SLO, l.Window) + " <= " + number(l.Above) + isOver(g.q.on(l.SLO), fired, l.Recent)
}

// restored is the condition of LiveRestored.
func (g *generator) restored(l *Live) string {
	a := l.Agreement
	fired := firing(`alertname=~"`+NameCompositeWarning+"|"+NameCompositeCritical+`"`,
		series.LabelAgreement+"="+quote(a.Name), series.LabelService+"="+quote(a.Service))
	return g.q.score(a) + " >= " + number(l.Below) + isOver(onLabels(g.q.agreementGroups(a)), fired, l.Recent)
}

// isOver is the condition that what fired lately does not fire now.
func isOver(on, fired string, recent time.Duration) string {
	return "\nand " + on + " max_over_time(" + fired + "[" + slo.FormatDuration(recent) + "])\nunless " + on + " " + fired
}

// firing selects what fires. Prometheus keeps one ALERTS series per alert and
// marks it stale when it is over, so that it is gone at once and still seen by a
// look back.
func firing(matchers ...string) string {
	return "ALERTS{" + strings.Join(append(matchers, `alertstate="firing"`), ",") + "}"
}
