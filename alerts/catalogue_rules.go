package alerts

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

const (
	shortWindow = 5 * time.Minute
	hour        = time.Hour

	nearShare     = 0.8 // of the agreed share of bad events: close to the limit
	trendShare    = 0.5 // of it: worth looking at the trend
	trendGrowth   = 1.2 // now against ten minutes ago; less is noise
	criticalTimes = 5   // the agreed share, for a critical error rate
	declineRoom   = 1.2 // times the target: a decline towards it
)

// kind is what the alerts on one sort of promise have in common.
type kind struct{ sla, violation, recovered string }

var kinds = map[string]kind{
	sla.CatalogueLatency:      {"processing_time", NameLatencyViolation, NameLatencyRecovered},
	sla.CatalogueErrorRate:    {"error_rate", NameErrorRateViolation, NameErrorRateRecovered},
	sla.CatalogueAvailability: {"availability", NameAvailabilityViolation, NameAvailabilityRecovered},
	sla.CatalogueThroughput:   {"throughput", NameThroughputViolation, NameThroughputRecovered},
}

// agreementGroup makes the rules that an agreement chose.
func (g *generator) agreementGroup(a *sla.Agreement) (rules.Group, error) {
	out := rules.Group{Name: "sloengine-alerts-sla-" + a.Service + "/" + a.Name}
	all := g.choose(a)
	for _, c := range all {
		more, err := g.entryRules(a, c, all)
		if err != nil {
			return out, fmt.Errorf("alerts of agreement %s/%s: %w", a.Service, a.Name, err)
		}
		out.Rules = append(out.Rules, more...)
	}
	return out, nil
}

func (g *generator) entryRules(a *sla.Agreement, c chosen, all []chosen) ([]rules.Rule, error) {
	switch c.entry {
	case sla.CatalogueComposite:
		if a.Warning <= 0 && a.Critical <= 0 {
			g.find(agreementID(a), FindingWarning, "alert "+c.entry+" is left out: the score has no thresholds", "add `alerts: {warning: 95, critical: 90}`")
		}
		return append(g.composite(a, NameCompositeWarning, a.Warning), g.composite(a, NameCompositeCritical, a.Critical)...), nil
	case sla.CatalogueCascading:
		return g.cascading(a, c.slos), nil
	case sla.CatalogueRecovery:
		return g.recovery(a, all), nil
	}
	var out []rules.Rule
	for _, s := range c.slos {
		r, ok := g.sloEntry(a, c.entry, s)
		if !ok {
			continue
		}
		out = append(out, r)
	}
	return out, nil
}

// severity is the label of a catalogue alert that has the given severity in the seed. Only burn rates page by themselves.
func severity(a *sla.Agreement, seed string) string {
	if a.SeedSeverities || seed == SeverityInfo {
		return seed
	}
	return SeverityTicket
}

// slaAlert is one alert of the catalogue on one SLO.
type slaAlert struct {
	name, sla, severity, impact string // severity is that of the seed
	expr                        string
	wait                        time.Duration
	summary, description        string
}

func (g *generator) slaAlertRule(a *sla.Agreement, s *slo.SLO, p slaAlert) rules.Rule {
	labels := g.sloLabels(s)
	labels[labelSeverity], labels[series.LabelKind], labels[series.LabelAgreement] = severity(a, p.severity), p.sla, a.Name
	if p.impact != "" {
		labels[series.LabelImpact] = p.impact
	}
	return rules.Rule{Alert: p.name, Expr: p.expr, For: p.wait, Labels: labels,
		Annotations: g.annotations(p.name, g.sloNote(s, p.summary, p.description))}
}

// sloEntry makes one entry's rule for one SLO; ok is false if rules cannot express it.
func (g *generator) sloEntry(a *sla.Agreement, entry string, s *slo.SLO) (rules.Rule, bool) {
	q, budget, what := g.q, s.Objective.Budget(), g.subject(s)
	ratio := q.ratio(s, shortWindow)
	limit := slo.FormatDuration(s.Indicator.Threshold)
	agreed := percent(budget)
	var p slaAlert
	switch entry {
	case sla.CatalogueLatency:
		p = slaAlert{NameLatencyViolation, "processing_time", SeverityWarning, ImpactMedium,
			g.ratioAlert(a, s, NameLatencyViolation, shortWindow, budget, 0), 2 * time.Minute,
			"Slower than agreed: " + what,
			"{{ $value | humanizePercentage }} of the " + unit(s) + " of the last 5m took longer than " + limit + "; " + agreed + " may."}
	case sla.CatalogueLatencyCritical:
		return g.latencyCritical(a, s)
	case sla.CatalogueLimit80:
		p = slaAlert{NameLatencyNear, "processing_time_warning", SeverityWarning, ImpactLow,
			g.ratioAlert(a, s, NameLatencyNear, shortWindow, nearShare*budget, budget), 5 * time.Minute,
			"Close to the agreed limit of time: " + what,
			"{{ $value | humanizePercentage }} of the " + unit(s) + " of the last 5m took longer than " + limit + ", which is over 80 % of the agreed " + agreed + "."}
	case sla.CatalogueSlowIntegration:
		p = slaAlert{NameSlowIntegration, "integration_latency", SeverityWarning, ImpactMedium,
			g.ratioAlert(a, s, NameSlowIntegration, shortWindow, nearShare*budget, 0), 3 * time.Minute,
			"An integration answers slowly: " + what,
			"{{ $value | humanizePercentage }} of the calls of the last 5m took longer than " + limit + ", its own limit; that is over 80 % of the agreed " + agreed + "."}
	case sla.CatalogueErrorRate:
		p = slaAlert{NameErrorRateViolation, "error_rate", SeverityWarning, ImpactMedium,
			g.ratioAlert(a, s, NameErrorRateViolation, shortWindow, budget, 0), 2 * time.Minute,
			"More errors than agreed: " + what,
			"{{ $value | humanizePercentage }} of the " + unit(s) + " of the last 5m were bad; " + agreed + " may be."}
	case sla.CatalogueErrorRateCritical:
		bound := criticalTimes * budget
		if bound >= 1 {
			g.find(s.ID, FindingWarning, fmt.Sprintf("alert %s is left out because it can never fire: five times the budget is %s", entry, percent(bound)), "raise the objective")
			return rules.Rule{}, false
		}
		p = slaAlert{NameErrorRateCritical, "error_rate", SeverityCritical, ImpactHigh,
			g.ratioAlert(a, s, NameErrorRateCritical, shortWindow, bound, 0), time.Minute,
			"Far more errors than agreed: " + what,
			"{{ $value | humanizePercentage }} of the " + unit(s) + " of the last 5m were bad, more than five times the agreed " + agreed + "."}
	case sla.CatalogueErrorTrend:
		now, before := q.ratioTen(s, 0), q.ratioTen(s, 10*time.Minute)
		p = slaAlert{NameErrorRateTrend, "error_rate_trend", SeverityWarning, ImpactLow,
			strings.Join(append([]string{ratio + " > " + number(trendShare*budget), now + " > " + number(trendGrowth) + " * " + before}, g.busy(s, shortWindow)...), "\nand "+q.on(s)+" "), 2 * time.Minute,
			"Errors are on the rise: " + what,
			"{{ $value | humanizePercentage }} of the " + unit(s) + " of the last 5m were bad, over half of the agreed " + agreed + ", and the last 10m were at least a fifth worse than the 10m before."}
	case sla.CatalogueAvailability:
		p = slaAlert{NameAvailabilityViolation, "availability", SeverityCritical, ImpactHigh,
			g.ratioAlert(a, s, NameAvailabilityViolation, hour, budget, 0), 5 * time.Minute,
			"Less available than agreed: " + what,
			"{{ $value | humanizePercentage }} of the " + unit(s) + " of the last hour were bad; " + agreed + " may be."}
	case sla.CatalogueThroughput:
		w := sliceWindow(s)
		p = slaAlert{NameThroughputViolation, "throughput", SeverityWarning, ImpactMedium,
			g.inRange(a, s, NameThroughputViolation, w, 0.5, 0).expr(), 3 * time.Minute,
			"Throughput below target: " + what,
			fmt.Sprintf("{{ $value | humanizePercentage }} of the slices of %s that were judged over the last %s had fewer than %d events.", slo.FormatDuration(s.Indicator.Per), slo.FormatDuration(w), s.Indicator.AtLeast)}
	case sla.CatalogueThroughputDecline:
		return g.decline(a, s)
	default:
		return rules.Rule{}, false
	}
	if entry != sla.CatalogueErrorTrend {
		p.description = g.untilObserved("eq $value 0.0", slo.FormatDuration(shortWindow), p.description)
	}
	return g.slaAlertRule(a, s, p), true
}

// sliceWindow is the shortest window that holds at least three slices.
func sliceWindow(s *slo.SLO) time.Duration {
	for _, w := range slo.BurnWindows {
		if w >= 3*s.Indicator.Per {
			return w
		}
	}
	return slo.BurnWindows[len(slo.BurnWindows)-1]
}

// busy is the SLO's guard against too few events; nil if it has none.
func (g *generator) busy(s *slo.SLO, w time.Duration) []string {
	if s.Alerting.MinEvents == 0 || !counted(s) {
		return nil
	}
	return []string{g.q.events(s, w) + fmt.Sprintf(" >= %d", s.Alerting.MinEvents)}
}

// inRange is the condition that the error ratio over a window is in (above, upTo],
// or above if upTo is 0.
func (g *generator) inRange(a *sla.Agreement, s *slo.SLO, name string, w time.Duration, above, upTo float64) guarded {
	q := g.guardedSLO(s, name, series.LabelAgreement+"="+quote(a.Name))
	ratio, seen := g.q.ratio(s, w), g.q.observed(s, w)
	q.above(ratio, number(above), seen)
	if upTo > 0 {
		q.start[0] += " <= on () group_left () " + number(upTo) + " / " + seen
		q.goesOn[0] += " <= " + number(upTo)
	}
	return q
}

// ratioAlert is inRange over enough events.
func (g *generator) ratioAlert(a *sla.Agreement, s *slo.SLO, name string, w time.Duration, above, upTo float64) string {
	q := g.inRange(a, s, name, w, above, upTo)
	q.also = g.busy(s, w)
	if rules.CountsEvents(s) {
		needed := slo.EvidenceNeeded(s.Alerting.MaxFalsePages())
		q.proves(g.o.Options, g.q.ratio(s, w), g.q.events(s, w), chanceRate(s, above), needed)
	}
	return q.expr()
}

// latencyCritical compares against the critical time of an event threshold on the
// same events. The threshold counts each violation, so the share is exact. It is an
// alert in each group of the SLO if the threshold tells these groups apart.
func (g *generator) latencyCritical(a *sla.Agreement, s *slo.SLO) (rules.Rule, bool) {
	l := g.criticalThreshold(s)
	if l == nil {
		g.find(s.ID, FindingWarning, "alert "+sla.CatalogueLatencyCritical+" is left out: no event threshold with a critical time covers these events", fmt.Sprintf("add to thresholds: {name: %s, match: '%s', critical: %s}", s.ID.Name(), s.Indicator.Valid, slo.FormatDuration(2*s.Indicator.Threshold)))
		return rules.Rule{}, false
	}
	cond := g.guardedSLO(s, NameLatencyCritical, series.LabelAgreement+"="+quote(a.Name))
	cond.identity = nil // sums have no labels but the groups
	subject := g.subject(s)
	if limitGroups(l, s) == nil {
		cond.groups, subject = nil, string(s.ID)
	}
	total := g.q.total(s, cond.groups)
	ratio := g.q.criticalBreaches(l, cond.groups) + " / " + total
	cond.above(ratio, number(s.Objective.Budget()), g.q.observed(s, shortWindow))
	if rules.CountsEvents(s) {
		needed := slo.EvidenceNeeded(s.Alerting.MaxFalsePages())
		cond.proves(g.o.Options, "("+ratio+")", total+" * 300", s.Objective.Budget(), needed)
	}
	if s.Alerting.MinEvents > 0 {
		cond.also = []string{total + fmt.Sprintf(" * 300 >= %d", s.Alerting.MinEvents)}
	}
	r := g.slaAlertRule(a, s, slaAlert{NameLatencyCritical, "processing_time", SeverityCritical, ImpactHigh, cond.expr(), time.Minute,
		"Far slower than agreed: " + subject,
		g.untilObserved("eq $value 0.0", slo.FormatDuration(shortWindow), "{{ $value | humanizePercentage }} of the "+unit(s)+" of the last 5m took longer than "+slo.FormatDuration(l.Critical)+", the critical limit; "+percent(s.Objective.Budget())+" may take longer than "+slo.FormatDuration(s.Indicator.Threshold)+".")})
	if cond.groups == nil {
		r.Annotations = g.annotations(NameLatencyCritical, g.wholeNote(s, r.Annotations["summary"], r.Annotations["description"]))
	}
	return r, true
}

// limitGroups finds the attributes of an SLO's groups among those of an event threshold: their places in its GroupBy. It
// is nil if the threshold lacks one or has room for fewer groups: then only all groups
// together can be compared.
func limitGroups(l *slo.Threshold, s *slo.SLO) []int {
	if l.MaxGroups < s.MaxGroups {
		return nil
	}
	var out []int
	for _, name := range s.GroupBy {
		at := slices.Index(l.GroupBy, name)
		if at < 0 {
			return nil
		}
		out = append(out, at)
	}
	return out
}

// criticalThreshold finds the narrowest limit with a critical time whose events
// include the SLO's: each of its matchers is one of the SLO's.
func (g *generator) criticalThreshold(s *slo.SLO) *slo.Threshold {
	have := map[string]bool{}
	for _, m := range s.Indicator.Valid {
		have[m.String()] = true
	}
	var best *slo.Threshold
	for _, l := range g.in.Thresholds {
		if l.Service != s.ID.Service() || l.Critical <= 0 || l.Each != "" || best != nil && len(l.Match) <= len(best.Match) {
			continue
		}
		if !slices.ContainsFunc(l.Match, func(m slo.Matcher) bool { return !have[m.String()] }) {
			best = l
		}
	}
	return best
}

// decline compares traffic with the target of a throughput SLO. Its own counters
// hold slices, so the events come from an SLO that counts the same ones, or from
// the service's counters where those can tell them.
func (g *generator) decline(a *sla.Agreement, s *slo.SLO) (rules.Rule, bool) {
	traffic, ok := g.traffic(s)
	if !ok {
		g.find(s.ID, FindingWarning, "alert "+sla.CatalogueThroughputDecline+" is left out: no SLO counts the same events, by the same groups", fmt.Sprintf("add an SLO with valid: '%s'", s.Indicator.Valid))
		return rules.Rule{}, false
	}
	ind := s.Indicator
	per := slo.FormatDuration(ind.Per)
	events := "(" + traffic + ") * " + number(ind.Per.Seconds())
	expr := events + fmt.Sprintf(" >= %d < %s", ind.AtLeast, number(declineRoom*float64(ind.AtLeast))) +
		"\nand " + g.q.on(s) + " " + g.q.events(s, sliceWindow(s)) + " > 0" // slices are judged: these are open hours
	return g.slaAlertRule(a, s, slaAlert{NameThroughputDecline, "throughput_decline", SeverityWarning, ImpactLow, expr, 10 * time.Minute,
		"Throughput falls towards its target: " + g.subject(s),
		fmt.Sprintf("{{ $value | humanize }} events per %s over the last 5m; the target is %d.", per, ind.AtLeast)}), true
}

func (g *generator) traffic(s *slo.SLO) (string, bool) {
	for _, o := range g.in.SLOs {
		if o.ID.Service() != s.ID.Service() || o.Indicator.Kind != slo.KindEvents || o.Budgeting.Method != slo.Occurrences && o.Budgeting.Method != "" {
			continue
		}
		if o.Indicator.Valid.String() == s.Indicator.Valid.String() && containsAll(o.GroupBy, s.GroupBy) {
			return g.q.validBy(o, s), true
		}
	}
	return g.q.serviceRate(s)
}

func containsAll(have, want []string) bool {
	return !slices.ContainsFunc(want, func(w string) bool { return !slices.Contains(have, w) })
}

// composite alerts on the score over the agreement's own alert window.
func (g *generator) composite(a *sla.Agreement, name string, bound float64) []rules.Rule {
	if bound <= 0 {
		return nil
	}
	seed, impact := SeverityWarning, ImpactMedium
	if name == NameCompositeCritical {
		seed, impact = SeverityCritical, ImpactHigh
	}
	groups := g.q.agreementGroups(a)
	cond := guarded{
		groups: groups, identity: []string{series.LabelService}, recovery: g.recentlyObserved(a), missing: missingScore, plain: g.o.Minimal(),
		mine:   []string{"alertname=" + quote(name), series.LabelService + "=" + quote(a.Service), series.LabelAgreement + "=" + quote(a.Name)},
		start:  []string{g.q.score(a), g.q.observedScore(a) + " < " + number(bound)},
		goesOn: []string{g.q.score(a) + " < " + number(bound)},
	}
	return []rules.Rule{{
		Alert: name, Expr: cond.expr(), For: 5 * time.Minute,
		Labels: g.agreementLabels(a, "composite", severity(a, seed), impact),
		Annotations: g.annotations(name, g.agreementNote(a,
			fmt.Sprintf("Score of %s/%s%s is below %s", a.Service, a.Name, groupText(groups), number(bound)),
			g.untilObserved("lt $value 0.0", slo.FormatDuration(shortWindow), fmt.Sprintf(`The composite score over the last %s is {{ $value | printf "%%.1f" }} of 100, below %s. The page names the component that costs most.`, slo.FormatDuration(alertWindow(a)), number(bound))))),
	}}
}

// alertWindow is over which window a score is alerted on.
func alertWindow(a *sla.Agreement) time.Duration {
	if a.AlertWindow > 0 {
		return a.AlertWindow
	}
	return a.Window.Nominal()
}
