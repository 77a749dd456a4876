package alerts

import (
	"fmt"
	"strings"
	"time"

	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/slo"
)

// sloGroup makes the alerts of one SLO.
func (g *generator) sloGroup(s *slo.SLO) rules.Group {
	out := rules.Group{Name: "sloengine-alerts-" + string(s.ID)}
	tiers, left := Tiers(s)
	g.findings = append(g.findings, left...)
	if g.o.Names == rules.Sloth {
		out.Rules = g.slothRules(s, tiers)
		return out
	}
	for _, t := range tiers {
		out.Rules = append(out.Rules, g.burnRule(s, t))
	}
	if !s.Alerting.Ticket.Disabled {
		out.Rules = append(out.Rules, g.exhausted(s))
	}
	if alertsSoon(s) {
		out.Rules = append(out.Rules, g.exhaustedSoon(s))
	}
	if !s.Alerting.NoData.Disabled {
		out.Rules = append(out.Rules, g.noData(s))
	}
	return out
}

func (g *generator) burnRule(s *slo.SLO, t Tier) rules.Rule {
	name, impact, burns := NameBurnTicket, ImpactMedium, " is using up its error budget"
	if t.Page {
		name, impact, burns = NameBurnPage, ImpactHigh, " burns its error budget fast"
	}
	runbook := name
	if s.Alerting.Name != "" {
		name = s.Alerting.Name
	}
	labels := g.sloLabels(s)
	labels[series.LabelTier], labels[series.LabelLong], labels[series.LabelShort] = t.Name, slo.FormatDuration(t.Long), slo.FormatDuration(t.Short)
	labels[labelSeverity], labels[series.LabelImpact], labels[series.LabelKind] = t.Severity, impact, promise(s)

	return rules.Rule{
		Alert: name, Expr: g.burns(s, t, name), For: t.For, Labels: merge(labels, t.Labels),
		Annotations: merge(g.annotations(runbook, g.sloNote(s,
			g.subject(s)+burns,
			g.untilObserved("eq $value 0.0", slo.FormatDuration(t.Short), fmt.Sprintf(
				"{{ $value | humanizePercentage }} of the %s of the last %s were bad. More than %s (burn rate %s) uses %s of the budget of %s in %s.",
				unit(s), slo.FormatDuration(t.Long), percent(t.Threshold), number(t.Factor),
				percent(t.Share), s.Window, slo.FormatDuration(t.Long))))), t.Annotations),
	}
}

// burns is the condition of a tier, of an alert with a name.
func (g *generator) burns(s *slo.SLO, t Tier, name string) string {
	if g.o.Minimal() {
		return g.minimalBurn(s, t)
	}
	q, threshold := g.q, number(t.Threshold)
	long, short := q.ratio(s, t.Long), q.ratio(s, t.Short)
	if few := t.Quiet; few.Window > t.Short && g.o.Names == rules.Own {
		short = "(" + short + " and " + q.on(s) + " " + g.enough(s, t) + "\nor max_over_time(" + q.ratio(s, few.Window) + "[" + slo.FormatDuration(few.For) + "]))"
	}
	cond := g.guardedSLO(s, name, series.LabelTier+"="+quote(t.Name))
	if g.o.Names == rules.Sloth {
		cond.mine = slothMatchers(g.o.Identity(s)[0].Value, name, t.Severity)
	}
	cond.recovery = q.observed(s, t.Short)
	cond.above(long, threshold, q.observed(s, t.Long))
	cond.above(short, threshold, q.observed(s, t.Short))
	cond.also = g.busy(s, t.Long)
	if t.Page && counted(s) {
		cond.proves(g.o.Options, long, q.events(s, t.Long), t.Rate, t.Evidence)
		if t.Quiet.Window == t.Short {
			cond.holdsOn(t, long, short, g.enough(s, t))
		}
	}
	return cond.expr()
}

// enough is the condition that a page is not read as at little traffic. See slo.Quiet.
func (g *generator) enough(s *slo.SLO, t Tier) string {
	return g.q.events(s, slo.Hold) + " >= on () group_left () " + number(t.QuietEvents(t.Threshold)) + " * " + g.q.observed(s, slo.Hold)
}

// unit is what an SLO counts, for the texts of its alerts.
func unit(s *slo.SLO) string {
	switch {
	case rules.Slices(s):
		return "slices of time"
	case !counted(s):
		return "time"
	case s.Indicator.Kind == slo.KindRatio:
		return "events of the denominator"
	case s.Indicator.Kind == slo.KindCompletion:
		return "work"
	}
	return "events"
}

// promise is the value of the label sla for an SLO.
func promise(s *slo.SLO) string {
	switch s.Indicator.Kind {
	case slo.KindLatency, slo.KindCompletion:
		return "processing_time"
	case slo.KindThroughput:
		return "throughput"
	case slo.KindRatio:
		return "conversion"
	case slo.KindApdex:
		return "apdex"
	case slo.KindVolume:
		return "volume"
	}
	return "error_rate"
}

func (g *generator) exhausted(s *slo.SLO) rules.Rule {
	labels := g.sloLabels(s)
	labels[labelSeverity], labels[series.LabelImpact], labels[series.LabelKind] = SeverityTicket, ImpactMedium, promise(s)
	return rules.Rule{
		Alert: NameBudgetExhausted, Expr: g.spent(s), For: 2 * g.o.LongEval, Labels: merge(labels, s.Alerting.Ticket.Labels),
		Annotations: g.annotations(NameBudgetExhausted, g.sloNote(s,
			g.subject(s)+" has no error budget left",
			g.untilObserved("gt $value 1.0", slo.FormatDuration(shortWindow), fmt.Sprintf("{{ $value | humanizePercentage }} of the budget is left. As it stands, the objective of %s over %s is missed.", s.Objective, s.Window)))),
	}
}

// spent is the condition that no budget is left.
func (g *generator) spent(s *slo.SLO) string {
	if g.o.Minimal() {
		return g.minimalExhausted(s)
	}
	left := g.q.remaining(s)
	cond := g.guardedSLO(s, NameBudgetExhausted)
	cond.missing = missingBudget
	// Consumed x observed >= 1.
	cond.start = []string{left + " <= on () group_left () 1 - 1 / " + g.q.periodObserved(s)}
	cond.goesOn = []string{left + " <= 0"}
	if s.Window.Calendar == "" {
		cond.also = g.busy(s, s.Window.Rolling)
	}
	return cond.expr()
}

// noData fires when an SLO's counters are missing, or nothing was counted for
// longer than its quiet times last. It is about the SLO as a whole: a group may
// lawfully fall silent.
func (g *generator) noData(s *slo.SLO) rules.Rule {
	labels := g.sloLabels(s)
	labels[labelSeverity], labels[series.LabelImpact], labels[series.LabelKind] = SeverityTicket, ImpactMedium, promise(s)
	quiet, wait := quietTime(s), s.Alerting.NoData.For
	set(&wait, g.o.NoDataAfter)
	expr := "absent(" + g.q.anyValid(s) + ")\nor sum(" + g.q.anyEvents(s, quiet) + ") == 0" +
		// Nothing was counted either while nobody counted.
		"\nand on () " + g.q.observed(s, quiet) + " >= " + number(MinObserved)
	if g.o.Minimal() {
		expr = g.minimalNoData(s, quiet)
	}
	return rules.Rule{
		Alert:  NameNoData,
		Expr:   expr,
		For:    wait,
		Labels: merge(labels, s.Alerting.NoData.Labels),
		Annotations: merge(g.annotations(NameNoData, g.wholeNote(s,
			string(s.ID)+" has no data",
			fmt.Sprintf("{{ if eq $value 0.0 }}No events within %s{{ else }}No counters for at least %s{{ end }}. The state is unknown, not good.", slo.FormatDuration(quiet), slo.FormatDuration(wait)))), s.Alerting.NoData.Annotations),
	}
}

// quietTime is how long an SLO may count nothing: a day, and a long weekend for
// one that is only judged in open hours.
func quietTime(s *slo.SLO) time.Duration {
	if (s.Indicator.Kind == slo.KindThroughput || s.Indicator.Kind == slo.KindVolume) && !s.Indicator.During.Always() {
		return 3 * 24 * time.Hour
	}
	return 24 * time.Hour
}

// sloLabels are the labels of an SLO on its alerts: those of its spec, and those that name it.
func (g *generator) sloLabels(s *slo.SLO) map[string]string {
	out := map[string]string{}
	if !s.Alerting.NoSpecLabels {
		for name, value := range rules.SpecLabels(s) {
			out[name] = strings.ReplaceAll(value, "{{", literalBraces)
		}
	}
	out[series.LabelSLOID], out[series.LabelService], out[series.LabelSLO] = string(s.ID), s.ID.Service(), s.ID.Name()
	return out
}
