package alerts

import (
	"fmt"
	"time"

	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/slo"
)

// MinCoverage is the share of a tier's long window that the engine must have
// observed before the tier may start to fire.
const MinCoverage = 0.9

// Covered says whether enough is observed for a new alert of a tier, from the
// coverage of the SLO's whole window in [0,1]. A young engine knows little of the
// last 30 days and still may know all of the last hour. Low coverage stops new
// alerts and never ends one that fires.
func Covered(coverage float64, period, long time.Duration) bool {
	return coverage >= coverageBound(period, long)
}

func coverageBound(period, long time.Duration) float64 {
	return exact(MinCoverage * float64(long) / float64(period))
}

// sloGroup makes the alerts of one SLO.
func (g *generator) sloGroup(s *slo.SLO) rules.Group {
	out := rules.Group{Name: "sloengine-alerts-" + string(s.ID)}
	tiers, left := Tiers(s)
	g.findings = append(g.findings, left...)
	for _, t := range tiers {
		out.Rules = append(out.Rules, g.burnRule(s, t))
	}
	if !s.Alerting.Ticket.Disabled {
		out.Rules = append(out.Rules, g.exhausted(s))
	}
	if !s.Alerting.NoData.Disabled {
		out.Rules = append(out.Rules, g.noData(s))
	}
	return out
}

func (g *generator) burnRule(s *slo.SLO, t Tier) rules.Rule {
	name, impact := NameBurnTicket, ImpactMedium
	if t.Page {
		name, impact = NameBurnPage, ImpactHigh
	}
	runbook := name
	if s.Alerting.Name != "" {
		name = s.Alerting.Name
	}
	labels := g.sloLabels(s)
	labels[LabelTier], labels[LabelLong], labels[LabelShort] = t.Name, slo.FormatDuration(t.Long), slo.FormatDuration(t.Short)
	labels[labelSeverity], labels[LabelImpact], labels[LabelSLA] = t.Severity, impact, promise(s)

	q, on := g.q, g.q.on(s)
	long, short := q.ratio(s, t.Long), q.ratio(s, t.Short)
	events := q.events(s, t.Long)
	expr := long + " > " + number(t.Threshold) +
		"\nand " + on + " " + short + " > " + number(t.Threshold)
	if t.Page && counted(s) {
		expr += "\nand " + on + " " + lowerBound(long, events) + " > " + number(t.Threshold)
	}
	if s.Alerting.MinEvents > 0 && counted(s) {
		expr += "\nand " + on + " " + events + fmt.Sprintf(" >= %d", s.Alerting.MinEvents)
	}
	expr += g.observed(s, t.Long, "alertname="+quote(name), "slo_id="+quote(string(s.ID)), "tier="+quote(t.Name))
	return rules.Rule{
		Alert: name, Expr: expr, For: t.For, Labels: merge(labels, t.Labels),
		Annotations: merge(g.annotations(runbook, g.sloNote(s,
			g.subject(s)+" burns its error budget fast",
			fmt.Sprintf("{{ $value | humanizePercentage }} of the %s of the last %s were bad. Over that and over the last %s it is more than %s: a burn rate above %s, at which %s of the budget of %s is gone within %s.",
				unit(s), slo.FormatDuration(t.Long), slo.FormatDuration(t.Short), percent(t.Threshold), number(t.Factor),
				percent(t.Share), s.Window, slo.FormatDuration(t.Long)))), t.Annotations),
	}
}

// observed keeps an alert of an SLO from starting before enough of a window was
// observed. What fires already, which mine selects, goes on firing.
func (g *generator) observed(s *slo.SLO, w time.Duration, mine ...string) string {
	if s.Indicator.Kind == slo.KindPrometheus {
		return ""
	}
	on := g.q.on(s)
	return "\nunless " + on + " (" + g.q.coverage(s) + " < " + number(coverageBound(Period(s.Window), w)) +
		" unless " + on + " " + firing(mine...) + ")"
}

// unit is what an SLO counts, for the texts of its alerts.
func unit(s *slo.SLO) string {
	switch {
	case rules.Slices(s):
		return "slices of time"
	case !counted(s):
		return "time"
	}
	return "events"
}

// promise is the value of the label sla for an SLO.
func promise(s *slo.SLO) string {
	switch s.Indicator.Kind {
	case slo.KindLatency:
		return "processing_time"
	case slo.KindThroughput:
		return "throughput"
	}
	return "error_rate"
}

func (g *generator) exhausted(s *slo.SLO) rules.Rule {
	labels := g.sloLabels(s)
	labels[labelSeverity], labels[LabelImpact], labels[LabelSLA] = SeverityTicket, ImpactMedium, promise(s)
	expr := g.q.remaining(s) + " <= 0"
	if s.Alerting.MinEvents > 0 && counted(s) && s.Window.Calendar == "" {
		expr += "\nand " + g.q.on(s) + " " + g.q.events(s, s.Window.Rolling) + fmt.Sprintf(" >= %d", s.Alerting.MinEvents)
	}
	expr += g.observed(s, Period(s.Window), "alertname="+quote(NameBudgetExhausted), "slo_id="+quote(string(s.ID)))
	return rules.Rule{
		Alert: NameBudgetExhausted, Expr: expr, For: 2 * g.o.LongEval, Labels: merge(labels, s.Alerting.Ticket.Labels),
		Annotations: g.annotations(NameBudgetExhausted, g.sloNote(s,
			g.subject(s)+" has no error budget left",
			fmt.Sprintf("{{ $value | humanizePercentage }} of the budget is left (below zero: overspent). The objective of %s over %s is missed as things stand.", s.Objective, s.Window))),
	}
}

// noData fires when an SLO's counters are missing, or nothing was counted for
// longer than its quiet times last. It is about the SLO as a whole: a group may
// lawfully fall silent.
func (g *generator) noData(s *slo.SLO) rules.Rule {
	labels := g.sloLabels(s)
	labels[labelSeverity], labels[LabelImpact], labels[LabelSLA] = SeverityWarning, ImpactMedium, promise(s)
	quiet, wait := quietTime(s), s.Alerting.NoData.For
	set(&wait, g.o.NoDataAfter)
	// Nothing was counted either before there was anything to count with.
	known := time.Duration(MinCoverage * float64(quiet))
	return rules.Rule{
		Alert: NameNoData,
		Expr: "absent(" + g.q.anyValid(s) + ")\nor sum(" + g.q.anyEvents(s, quiet) + ") == 0" +
			"\nand on () last_over_time(" + g.q.anyValid(s) + "[1h] offset " + slo.FormatDuration(known) + ")",
		For:    wait,
		Labels: merge(labels, s.Alerting.NoData.Labels),
		Annotations: merge(g.annotations(NameNoData, g.wholeNote(s,
			string(s.ID)+" has no data",
			fmt.Sprintf("{{ if eq $value 0.0 }}Nothing was counted within %s{{ else }}There are no counters to read, for at least %s{{ end }}. That is not the same as good: nobody knows how the service does.", slo.FormatDuration(quiet), slo.FormatDuration(wait)))), s.Alerting.NoData.Annotations),
	}
}

// quietTime is how long an SLO may count nothing: a day, and a long weekend for
// one that is only judged in open hours.
func quietTime(s *slo.SLO) time.Duration {
	if s.Indicator.Kind == slo.KindThroughput && !s.Indicator.During.Always() {
		return 3 * 24 * time.Hour
	}
	return 24 * time.Hour
}

// sloLabels are the labels that name an SLO on its alerts.
func (g *generator) sloLabels(s *slo.SLO) map[string]string {
	return map[string]string{
		series.LabelSLOID: string(s.ID), series.LabelService: s.ID.Service(), series.LabelSLO: s.ID.Name(),
	}
}
