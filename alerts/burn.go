package alerts

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/slo"
)

// sloGroup makes the alerts of one SLO.
func (g *generator) sloGroup(s *slo.SLO) rules.Group {
	tiers, left := Tiers(s)
	g.findings = append(g.findings, left...)
	all := g.slothRules
	if g.o.Names != rules.Sloth {
		all = func(s *slo.SLO, tiers []Tier) []rules.Rule { return rulesOf(g.sloAlerts(s, tiers)) }
	}
	return rules.Group{Name: "sloengine-alerts-" + string(s.ID), Rules: all(s, tiers)}
}

// sloAlerts are the alerts that an SLO has by itself.
func (g *generator) sloAlerts(s *slo.SLO, tiers []Tier) []defined {
	var out []defined
	for _, t := range tiers {
		out = append(out, g.burn(s, t))
	}
	if !s.Alerting.Ticket.Disabled {
		out = append(out, g.exhausted(s))
	}
	out = append(out, g.budgetLow(s)...)
	if alertsSoon(s) {
		out = append(out, g.exhaustedSoon(s))
	}
	if !s.Alerting.NoData.Disabled {
		out = append(out, g.noData(s))
	}
	return out
}

func (g *generator) burn(s *slo.SLO, t Tier) defined {
	runbook, impact, burns := NameBurnTicket, ImpactMedium, " is using up its error budget"
	if t.Page {
		runbook, impact, burns = NameBurnPage, ImpactHigh, " burns its error budget fast"
	}
	labels := g.sloLabels(s, t.Severity, impact, promise(s))
	labels[series.LabelTier], labels[series.LabelLong], labels[series.LabelShort] = t.Name, slo.FormatDuration(t.Long),
		slo.FormatDuration(t.Short)
	return g.define(Live{Kind: LiveBurn, SLO: s, Tier: t, Window: t.Long, MinEvents: minEvents(s)}, rules.Rule{
		Alert: burnName(s, t), For: t.For, Labels: merge(labels, t.Labels),
		Annotations: merge(g.annotations(runbook, g.sloNote(s,
			g.subject(s)+burns,
			g.untilObserved("eq $value 0.0", slo.FormatDuration(t.Short), fmt.Sprintf(
				"{{ $value | humanizePercentage }} of the %s of the last %s were bad. More than %s (burn rate %s) uses %s of the "+
					"budget of %s in %s.",
				unit(s), slo.FormatDuration(t.Long), percent(t.Threshold), number(t.Factor),
				percent(t.Share), s.Window, slo.FormatDuration(t.Long))))), t.Annotations),
	})
}

// burnName is the name of the alert of a tier: that of the spec, if it gives one.
func burnName(s *slo.SLO, t Tier) string {
	if t.Page {
		return cmp.Or(s.Alerting.Name, NameBurnPage)
	}
	return cmp.Or(s.Alerting.Name, NameBurnTicket)
}

// burns is the condition of a tier.
func (g *generator) burns(l *Live) string {
	s, t := l.SLO, l.Tier
	if g.o.Minimal() {
		return g.minimalBurn(s, t)
	}
	q, threshold := g.q, number(t.Threshold)
	long, short := q.ratio(s, t.Long), q.ratio(s, t.Short)
	if few := t.Quiet; few.Window > t.Short && g.o.Names == rules.Own {
		short = "(" + short + " and " + q.on(s) + " " + g.enough(s, t) + "\nor max_over_time(" + q.ratio(s, few.Window) +
			"[" + slo.FormatDuration(few.For) + "]))"
	}
	cond := g.guardedSLO(s, l.Alert, series.LabelTier+"="+quote(t.Name))
	if g.o.Names == rules.Sloth {
		cond.mine = slothMatchers(g.o.Identity(s)[0].Value, l.Alert, t.Severity)
	}
	cond.recovery = q.observed(s, t.Short)
	cond.above(long, threshold, q.observed(s, t.Long))
	cond.above(short, threshold, q.observed(s, t.Short))
	cond.also = g.busy(s, t.Long, l.MinEvents)
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
	return g.q.events(s, slo.Hold) + " >= on () group_left () " + number(t.QuietEvents(t.Threshold)) + " * " +
		g.q.observed(s, slo.Hold)
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

func (g *generator) exhausted(s *slo.SLO) defined {
	return g.define(emptied(s), rules.Rule{
		Alert: NameBudgetExhausted, For: 2 * g.o.LongEval,
		Labels: merge(g.sloLabels(s, SeverityTicket, ImpactMedium, promise(s)), s.Alerting.Ticket.Labels),
		Annotations: g.annotations(NameBudgetExhausted, g.sloNote(s,
			g.subject(s)+" has no error budget left",
			g.untilObserved("gt $value 1.0", slo.FormatDuration(shortWindow),
				fmt.Sprintf("{{ $value | humanizePercentage }} of the budget is left. As it stands, the objective of %s over %s "+
					"is missed.", s.Objective, s.Window)))),
	})
}

// emptied is the condition that no budget is left.
func emptied(s *slo.SLO) Live {
	l := Live{Kind: LiveExhausted, SLO: s}
	if s.Window.Calendar == "" {
		l.MinEvents = minEvents(s)
	}
	return l
}

// lowKeeps bridges what leaves a rolling window and is spent again: one alert, and not one an hour.
const lowKeeps = time.Hour

// budgetLow are the alerts on the shares of the budget that the spec names, the largest first.
func (g *generator) budgetLow(s *slo.SLO) (out []defined) {
	for _, a := range slices.SortedFunc(slices.Values(s.Alerting.Left), func(a, b slo.LeftAlert) int {
		return cmp.Compare(b.Share, a.Share)
	}) {
		severity, impact, set := SeverityTicket, ImpactMedium, s.Alerting.Ticket
		if a.Page {
			severity, impact, set = SeverityPage, ImpactHigh, s.Alerting.Page
		}
		if set.Disabled {
			continue
		}
		l := emptied(s)
		l.Below, l.Tier.Name, l.Tier.Page = a.Share, LowTier(a), a.Page
		labels := g.sloLabels(s, severity, impact, promise(s))
		labels[series.LabelTier] = l.Tier.Name
		texts := g.annotations(NameBudgetLow, g.sloNote(s,
			g.subject(s)+" has at most "+percent(a.Share)+" of its error budget left",
			g.untilObserved("gt $value 1.0", slo.FormatDuration(shortWindow), fmt.Sprintf(
				"{{ if le $value 0.0 }}Nothing{{ else }}{{ $value | humanizePercentage }}{{ end }} of the budget over %s is "+
					"left. Once it is empty, the objective of %s is missed. If no burn-rate alert of this SLO fires, the budget "+
					"was spent before, and is not being spent fast now.", s.Window, s.Objective))))
		if s.Indicator.Kind != slo.KindPrometheus && g.o.Names == rules.Own {
			texts[AnnotationForecast] = g.emptyWhen(s)
		}
		out = append(out, g.define(l, rules.Rule{
			Alert: NameBudgetLow, For: max(2*g.o.LongEval, set.For), KeepFiringFor: lowKeeps,
			Labels: merge(labels, set.Labels), Annotations: merge(texts, set.Annotations),
		}))
	}
	return out
}

// LowTier is the value of the label slo_tier of the alert on what is left of a budget.
func LowTier(a slo.LeftAlert) string { return "budget-" + number(100*a.Share) }

// spent is the condition that at most a share of the budget is left, of so many events.
func (g *generator) spent(l *Live) string {
	s := l.SLO
	if g.o.Minimal() {
		return g.minimalExhausted(l)
	}
	left := g.q.o.Alertable(s).PeriodRemaining(s)
	cond := g.guardedSLO(s, l.Alert, l.tierMatcher()...)
	cond.missing = missingBudget
	// Consumed x observed >= 1 - Below.
	cond.start = []string{left + " <= on () group_left () 1 - " + number(1-l.Below) + " / " + g.q.o.PeriodObserved(s)}
	cond.goesOn = []string{left + " <= " + number(l.Below)}
	cond.also = g.busy(s, s.Window.Rolling, l.MinEvents)
	return cond.expr()
}

// tierMatcher selects the alert among those of its name on one SLO.
func (l *Live) tierMatcher() []string {
	if l.Tier.Name == "" {
		return nil
	}
	return []string{series.LabelTier + "=" + quote(l.Tier.Name)}
}

// noData fires when an SLO's counters are missing, or nothing was counted for
// longer than its quiet times last. It is about the SLO as a whole: a group may
// lawfully fall silent.
func (g *generator) noData(s *slo.SLO) defined {
	labels := g.sloLabels(s, SeverityTicket, ImpactMedium, promise(s))
	quiet, wait := quietTime(s), s.Alerting.NoData.For
	set(&wait, g.o.NoDataAfter)
	return g.define(Live{Kind: LiveNoData, SLO: s, Window: quiet}, rules.Rule{
		Alert: NameNoData, For: wait, Labels: merge(labels, s.Alerting.NoData.Labels),
		Annotations: merge(g.annotations(NameNoData, g.wholeNote(s,
			string(s.ID)+" has no data",
			fmt.Sprintf("{{ if eq $value 0.0 }}No events within %s{{ else }}No counters for at least %s{{ end }}. The state "+
				"is unknown, not good.", slo.FormatDuration(quiet), slo.FormatDuration(wait)))), s.Alerting.NoData.Annotations),
	})
}

// withoutData is the condition that counters are missing, or that nothing was counted for a while.
func (g *generator) withoutData(s *slo.SLO, quiet time.Duration) string {
	if g.o.Minimal() {
		return g.minimalNoData(s, quiet)
	}
	return "absent(" + g.q.anyValid(s) + ")\nor sum(" + g.q.o.EventsOver(s, quiet) + ") == 0" +
		// While no engine observes, the state is unknown.
		"\nand on () " + g.q.observed(s, quiet) + " >= " + number(MinObserved)
}

// quietTime is how long an SLO may count nothing: a day, and a long weekend for
// one that is only judged in open hours.
func quietTime(s *slo.SLO) time.Duration {
	if (s.Indicator.Kind == slo.KindThroughput || s.Indicator.Kind == slo.KindVolume) && !s.Indicator.During.Always() {
		return 3 * 24 * time.Hour
	}
	return 24 * time.Hour
}

// sloLabels are the labels of an alert on an SLO: those of its spec, those that name it, and those of the alert.
// impact may be "".
func (g *generator) sloLabels(s *slo.SLO, severity, impact, kind string) map[string]string {
	out := map[string]string{}
	if !s.Alerting.NoSpecLabels {
		for name, value := range rules.SpecLabels(s) {
			out[name] = strings.ReplaceAll(value, "{{", literalBraces)
		}
	}
	out[series.LabelSLOID], out[series.LabelService], out[series.LabelSLO] = string(s.ID), s.ID.Service(), s.ID.Name()
	out[labelSeverity], out[series.LabelKind] = severity, kind
	if impact != "" {
		out[series.LabelImpact] = impact
	}
	return out
}
