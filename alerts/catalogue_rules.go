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

// agreementAlerts are the alerts that an agreement chose.
func (g *generator) agreementAlerts(a *sla.Agreement) []defined {
	var out []defined
	for _, c := range g.choose(a) {
		switch c.entry {
		case sla.CatalogueComposite:
			out = append(out, g.composite(a)...)
		case sla.CatalogueCascading:
			out = append(out, g.cascading(a, c.slos)...)
		case sla.CatalogueRecovery:
			out = append(out, g.recovery(a, out)...)
		default:
			for _, s := range c.slos {
				if d, ok := g.sloEntry(a, c.entry, s); ok {
					out = append(out, d)
				}
			}
		}
	}
	return out
}

// severity is the label of a catalogue alert that has the given severity in the seed. Only burn rates page by
// themselves.
func severity(a *sla.Agreement, seed string) string {
	if a.SeedSeverities || seed == SeverityInfo {
		return seed
	}
	return SeverityTicket
}

// slaAlert is how an alert of the catalogue on one SLO is labelled and read.
type slaAlert struct {
	name, sla, severity, impact string // severity is that of the seed
	wait                        time.Duration
	summary, description        string
}

func (g *generator) defineSLA(l Live, p slaAlert) defined {
	labels := g.sloLabels(l.SLO, severity(l.Agreement, p.severity), p.impact, p.sla)
	labels[series.LabelAgreement] = l.Agreement.Name
	text := g.sloNote(l.SLO, p.summary, p.description)
	if l.Limit != nil && l.LimitBy == nil {
		text = g.wholeNote(l.SLO, p.summary, p.description)
	}
	return g.define(l, rules.Rule{Alert: p.name, For: p.wait, Labels: labels, Annotations: g.annotations(p.name, text)})
}

// sloEntry makes one entry's alert on one SLO; ok is false if it can never fire, or lacks what it compares with.
func (g *generator) sloEntry(a *sla.Agreement, entry string, s *slo.SLO) (d defined, ok bool) {
	budget, what := s.Objective.Budget(), g.subject(s)
	limit, per := slo.FormatDuration(s.Indicator.Threshold), slo.FormatDuration(s.Indicator.Per)
	agreed, bad := percent(budget), "{{ $value | humanizePercentage }} of the "+unit(s)+" of the last 5m "
	l := Live{Kind: LiveRatio, SLO: s, Agreement: a, Window: shortWindow, Above: budget, MinEvents: minEvents(s)}
	var p slaAlert
	switch entry {
	case sla.CatalogueLatency:
		p = slaAlert{NameLatencyViolation, "processing_time", SeverityWarning, ImpactMedium, 2 * time.Minute,
			"Slower than agreed: " + what, bad + "took longer than " + limit + "; " + agreed + " may."}
	case sla.CatalogueLatencyCritical:
		if l.Kind, l.Limit = LiveLimit, g.criticalThreshold(s); l.Limit == nil {
			g.find(
				s.ID, FindingWarning, "alert "+entry+" is left out: no event threshold with a critical time covers these events",
				fmt.Sprintf("add to thresholds: {name: %s, match: '%s', critical: %s}",
					s.ID.Name(), s.Indicator.Valid, slo.FormatDuration(2*s.Indicator.Threshold)))
			return d, false
		}
		if l.LimitBy = limitGroups(l.Limit, s); l.LimitBy == nil {
			what = string(s.ID)
		}
		p = slaAlert{NameLatencyCritical, "processing_time", SeverityCritical, ImpactHigh, time.Minute,
			"Far slower than agreed: " + what,
			bad + "took longer than " + slo.FormatDuration(l.Limit.Critical) + ", the critical limit; " +
				agreed + " may take longer than " + limit + "."}
	case sla.CatalogueLimit80:
		l.Above, l.UpTo = exact(nearShare*budget), budget
		p = slaAlert{NameLatencyNear, "processing_time_warning", SeverityWarning, ImpactLow, 5 * time.Minute,
			"Close to the agreed limit of time: " + what,
			bad + "took longer than " + limit + ", which is over 80 % of the agreed " + agreed + "."}
	case sla.CatalogueSlowIntegration:
		l.Above = exact(nearShare * budget)
		p = slaAlert{NameSlowIntegration, "integration_latency", SeverityWarning, ImpactMedium, 3 * time.Minute,
			"An integration answers slowly: " + what,
			"{{ $value | humanizePercentage }} of the calls of the last 5m took longer than " + limit +
				", its own limit; that is over 80 % of the agreed " + agreed + "."}
	case sla.CatalogueErrorRate:
		p = slaAlert{NameErrorRateViolation, "error_rate", SeverityWarning, ImpactMedium, 2 * time.Minute,
			"More errors than agreed: " + what, bad + "were bad; " + agreed + " may be."}
	case sla.CatalogueErrorRateCritical:
		if l.Above = exact(criticalTimes * budget); criticalTimes*budget >= 1 {
			g.find(s.ID, FindingWarning, "alert "+entry+" is left out because it can never fire: five times the budget is "+
				percent(l.Above),
				"raise the objective")
			return d, false
		}
		p = slaAlert{NameErrorRateCritical, "error_rate", SeverityCritical, ImpactHigh, time.Minute,
			"Far more errors than agreed: " + what, bad + "were bad, more than five times the agreed " + agreed + "."}
	case sla.CatalogueErrorTrend:
		l.Kind, l.Above = LiveTrend, exact(trendShare*budget)
		p = slaAlert{NameErrorRateTrend, "error_rate_trend", SeverityWarning, ImpactLow, 2 * time.Minute,
			"Errors are on the rise: " + what,
			bad + "were bad, over half of the agreed " + agreed +
				", and the last 10m were at least a fifth worse than the 10m before."}
	case sla.CatalogueAvailability:
		l.Window = hour
		p = slaAlert{NameAvailabilityViolation, "availability", SeverityCritical, ImpactHigh, 5 * time.Minute,
			"Less available than agreed: " + what,
			"{{ $value | humanizePercentage }} of the " + unit(s) + " of the last hour were bad; " + agreed + " may be."}
	case sla.CatalogueThroughput:
		l.Above, l.Window, l.MinEvents = 0.5, sliceWindow(s), 0
		p = slaAlert{NameThroughputViolation, "throughput", SeverityWarning, ImpactMedium, 3 * time.Minute,
			"Throughput below target: " + what,
			"{{ $value | humanizePercentage }} of the slices of " + per + " that were judged over the last " +
				slo.FormatDuration(l.Window) +
				fmt.Sprintf(" had fewer than %d events.", s.Indicator.AtLeast)}
	case sla.CatalogueThroughputDecline:
		if _, ok := g.traffic(s); !ok {
			g.find(s.ID, FindingWarning, "alert "+entry+" is left out: no SLO counts the same events, by the same groups",
				fmt.Sprintf("add an SLO with valid: '%s'", s.Indicator.Valid))
			return d, false
		}
		l.Kind, l.Above, l.Window, l.MinEvents = LiveDecline, 0, sliceWindow(s), 0
		l.Below = exact(declineRoom * float64(s.Indicator.AtLeast))
		p = slaAlert{NameThroughputDecline, "throughput_decline", SeverityWarning, ImpactLow, 10 * time.Minute,
			"Throughput falls towards its target: " + what,
			fmt.Sprintf("{{ $value | humanize }} events per %s over the last 5m; the target is %d.", per, s.Indicator.AtLeast)}
	default:
		return d, false
	}
	if l.Kind == LiveRatio || l.Kind == LiveLimit {
		p.description = g.untilObserved("eq $value 0.0", slo.FormatDuration(shortWindow), p.description)
		if rules.CountsEvents(s) {
			l.Rate, l.Evidence = chanceRate(s, l.Above), slo.EvidenceNeeded(s.Alerting.MaxFalsePages())
		}
	}
	return g.defineSLA(l, p), true
}

// rising is the condition of LiveTrend.
func (g *generator) rising(l *Live) string {
	q, s := g.q, l.SLO
	return strings.Join(append([]string{
		q.ratio(s, l.Window) + " > " + number(l.Above),
		q.ratioTen(s, 0) + " > " + number(trendGrowth) + " * " + q.ratioTen(s, 10*time.Minute),
	}, g.busy(s, l.Window, l.MinEvents)...), "\nand "+q.on(s)+" ")
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

// minEvents is how many events the alerts of an SLO need in their window: none if its events cannot be counted.
func minEvents(s *slo.SLO) uint64 {
	if !counted(s) {
		return 0
	}
	return s.Alerting.MinEvents
}

// busy is the guard against too few events; nil if there is none.
func (g *generator) busy(s *slo.SLO, w time.Duration, least uint64) []string {
	if least == 0 {
		return nil
	}
	return []string{g.q.events(s, w) + fmt.Sprintf(" >= %d", least)}
}

// inRange is the condition of LiveRatio.
func (g *generator) inRange(l *Live) string {
	q := g.guardedSLO(l.SLO, l.Alert, series.LabelAgreement+"="+quote(l.Agreement.Name))
	ratio, seen := g.q.ratio(l.SLO, l.Window), g.q.observed(l.SLO, l.Window)
	q.above(ratio, number(l.Above), seen)
	if l.UpTo > 0 {
		q.start[0] += " <= on () group_left () " + number(l.UpTo) + " / " + seen
		q.goesOn[0] += " <= " + number(l.UpTo)
	}
	q.also = g.busy(l.SLO, l.Window, l.MinEvents)
	q.proves(g.o.Options, ratio, g.q.events(l.SLO, l.Window), l.Rate, l.Evidence)
	return q.expr()
}

// breaching is the condition of LiveLimit. It compares against the critical time of an event threshold on the
// same events. The threshold counts each violation, so the share is exact. It holds
// in each group of the SLO if the threshold tells these groups apart.
func (g *generator) breaching(l *Live) string {
	cond := g.guardedSLO(l.SLO, l.Alert, series.LabelAgreement+"="+quote(l.Agreement.Name))
	cond.identity = nil // sums have no labels but the groups
	if l.LimitBy == nil {
		cond.groups = nil
	}
	total := g.q.total(l.SLO, cond.groups)
	ratio := g.q.criticalBreaches(l.Limit, cond.groups) + " / " + total
	cond.above(ratio, number(l.Above), g.q.observed(l.SLO, l.Window))
	cond.proves(g.o.Options, "("+ratio+")", total+" * 300", l.Rate, l.Evidence)
	if l.MinEvents > 0 {
		cond.also = []string{total + fmt.Sprintf(" * 300 >= %d", l.MinEvents)}
	}
	return cond.expr()
}

// limitGroups finds the attributes of an SLO's groups among those of an event threshold: their places in its GroupBy.
// It is nil if the threshold lacks one or has room for fewer groups: then only all groups
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

// declining is the condition of LiveDecline.
func (g *generator) declining(l *Live) string {
	s, ind := l.SLO, l.SLO.Indicator
	traffic, _ := g.traffic(s)
	return "(" + traffic + ") * " + number(ind.Per.Seconds()) + fmt.Sprintf(" >= %d < %s", ind.AtLeast, number(l.Below)) +
		"\nand " + g.q.on(s) + " " + g.q.events(s, l.Window) + " > 0" // slices are judged: these are open hours
}

// traffic is the rate of the events of a throughput SLO. Its own counters
// hold slices, so the events come from an SLO that counts the same ones, or from
// the service's counters where those can tell them.
func (g *generator) traffic(s *slo.SLO) (string, bool) {
	for _, o := range g.in.SLOs {
		if o.ID.Service() != s.ID.Service() || o.Indicator.Kind != slo.KindEvents ||
			o.Budgeting.Method != slo.Occurrences && o.Budgeting.Method != "" {
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
func (g *generator) composite(a *sla.Agreement) []defined {
	if a.Warning <= 0 && a.Critical <= 0 {
		g.find(agreementID(a), FindingWarning, "alert "+sla.CatalogueComposite+" is left out: the score has no thresholds",
			"add `alerts: {warning: 95, critical: 90}`")
	}
	var out []defined
	add := func(bound float64, name, seed, impact string) {
		if bound <= 0 {
			return
		}
		out = append(out, g.define(Live{Kind: LiveScore, Agreement: a, Below: bound}, rules.Rule{
			Alert: name, For: 5 * time.Minute, Labels: g.agreementLabels(a, "composite", severity(a, seed), impact),
			Annotations: g.annotations(name, g.agreementNote(a, g.scoreOf(a)+" is below "+number(bound),
				g.untilObserved("lt $value 0.0", slo.FormatDuration(shortWindow),
					scoreText(a)+", below "+number(bound)+". The page names the component that costs most."))),
		}))
	}
	add(a.Warning, NameCompositeWarning, SeverityWarning, ImpactMedium)
	add(a.Critical, NameCompositeCritical, SeverityCritical, ImpactHigh)
	return out
}

// scoreOf names the score of an agreement with its group in the texts of an alert.
func (g *generator) scoreOf(a *sla.Agreement) string {
	return "Score of " + a.Service + "/" + a.Name + groupText(g.q.agreementGroups(a))
}

func scoreText(a *sla.Agreement) string {
	return "The composite score over the last " + slo.FormatDuration(alertWindow(a)) +
		` is {{ $value | printf "%.1f" }} of 100`
}

// scoreBelow is the condition of LiveScore.
func (g *generator) scoreBelow(l *Live) string {
	a, below := l.Agreement, " < "+number(l.Below)
	return guarded{
		groups: g.q.agreementGroups(a), identity: []string{series.LabelService},
		recovery: g.recentlyObserved(a), missing: missingScore, plain: g.o.Minimal(),
		mine: []string{
			"alertname=" + quote(l.Alert), series.LabelService + "=" + quote(a.Service),
			series.LabelAgreement + "=" + quote(a.Name),
		},
		start:  []string{g.q.score(a), g.q.o.AlertableAgreement(a).ObservedScore(a) + below},
		goesOn: []string{g.q.score(a) + below},
	}.expr()
}

// alertWindow is over which window a score is alerted on.
func alertWindow(a *sla.Agreement) time.Duration {
	if a.AlertWindow > 0 {
		return a.AlertWindow
	}
	return a.Window.Nominal()
}
