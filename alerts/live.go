package alerts

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

// LiveKind says what a live alert looks at.
type LiveKind string

// The kinds of live alert.
const (
	LiveBurn      LiveKind = "burn"      // both windows of Tier burn faster than its factor
	LiveExhausted LiveKind = "exhausted" // no budget is left over the SLO's window
	LiveSoon      LiveKind = "soon"      // the budget is empty within Window with a probability of at least Above, by the forecast
	LiveNoData    LiveKind = "no_data"   // the SLO counted nothing over Window, in no group
	LiveRatio     LiveKind = "ratio"     // the error ratio over Window is in (Above, UpTo]
	LiveLimit     LiveKind = "limit"     // critical breaches of Limit, as a share of the SLO's events over Window, are above Above
	LiveScore     LiveKind = "score"     // the agreement's score, over its alert window, is below Below
	LiveSilent    LiveKind = "silent"    // a type of the service's events stopped coming
	LiveTrend     LiveKind = "trend"     // the error ratio over Window is above Above, and ten minutes are worse than the ten before
	LiveDecline   LiveKind = "decline"   // the events of a slice, at the present rate, are in [AtLeast, Below) while slices are judged
	LiveCascade   LiveKind = "cascade"   // more than Failures events fail, over the budget, and more than EffectFailures of the SLO Effect
	LiveRecovered LiveKind = "recovered" // the alert named After is over since less than Recent, and the error ratio over Window is at most Above
	LiveRestored  LiveKind = "restored"  // the alerts on the agreement's score are over since less than Recent, and the score is at least Below
	LiveEngine    LiveKind = "engine"    // Expr has a value, over the engine's own metrics
)

// Live is an alert as data, for who evaluates alerts without Prometheus. Name,
// labels and times are those of the generated rule, from which they are taken.
type Live struct {
	Kind               LiveKind
	Alert              string
	Labels             map[string]string // those of the rule; the labels of the group come on top
	Texts              *Texts            // annotations of the rule
	For, KeepFiringFor time.Duration

	SLO       *slo.SLO       // nil for LiveScore, LiveRestored, LiveSilent and LiveEngine
	Agreement *sla.Agreement // that chose the alert; nil for an SLO's own
	Service   string         // of LiveSilent

	Tier      Tier           // LiveBurn
	Window    time.Duration  // over which is counted
	Above     float64        // LiveRatio, LiveLimit, LiveTrend, LiveRecovered
	UpTo      float64        // LiveRatio; 0 = no upper bound
	Below     float64        // LiveScore, LiveDecline, LiveRestored
	Effect    *slo.SLO       // LiveCascade
	After     string         // LiveRecovered
	Recent    time.Duration  // LiveRecovered, LiveRestored
	Limit     *slo.Threshold // LiveLimit
	LimitBy   []int          // LiveLimit: where Limit's GroupBy has the attributes of SLO's groups; nil = over all groups together
	Expr      string         // LiveEngine: the rule's expression, in PromQL
	Rate      float64        // LiveRatio, LiveLimit: the ratio that the true one must exceed, with Evidence
	Evidence  float64        // of that; 0 = no such guard
	MinEvents uint64         // events that the window (of LiveBurn the long one) must have; LiveSilent: half an hour of last week
}

// LiveAlerts lists the alerts of a spec that an engine evaluates from its own
// reports, in the order of the rules: all of them, except those on SLOs on
// Prometheus series, and on the tables of the rules themselves.
func LiveAlerts(in rules.Spec, o Options) []Live {
	g := newGenerator(in, o)
	var out []Live
	add := func(l Live, r rules.Rule) { out = append(out, l.of(r)) }
	services := map[string]bool{}
	for _, s := range in.SLOs {
		if s.Indicator.Kind == slo.KindPrometheus {
			continue
		}
		tiers, _ := Tiers(s)
		for _, t := range tiers {
			add(Live{Kind: LiveBurn, SLO: s, Tier: t, Window: t.Long, MinEvents: s.Alerting.MinEvents}, g.burnRule(s, t))
		}
		exhausted := Live{Kind: LiveExhausted, SLO: s}
		if s.Window.Calendar == "" {
			exhausted.MinEvents = s.Alerting.MinEvents
		}
		if !s.Alerting.Ticket.Disabled {
			add(exhausted, g.exhausted(s))
		}
		if alertsSoon(s) {
			add(Live{Kind: LiveSoon, SLO: s, Window: s.Alerting.Soon.Within, Above: s.Alerting.Soon.Probability}, g.exhaustedSoon(s))
		}
		if !s.Alerting.NoData.Disabled {
			add(Live{Kind: LiveNoData, SLO: s, Window: quietTime(s)}, g.noData(s))
		}
	}
	for _, a := range in.Agreements {
		all := g.choose(a)
		for _, c := range all {
			g.liveEntry(a, c, all, add)
		}
	}
	for _, s := range in.SLOs {
		if service := s.ID.Service(); s.Indicator.Kind != slo.KindPrometheus && !services[service] {
			services[service] = true
			add(Live{Kind: LiveSilent, Service: service, Window: 30 * time.Minute, MinEvents: g.o.SilentMinEvents}, g.senderSilent(service))
		}
	}
	return out
}

func onPrometheus(s *slo.SLO) bool { return s.Indicator.Kind == slo.KindPrometheus }

// liveRecovery adds the notices of recovery.
func (g *generator) liveRecovery(a *sla.Agreement, all []chosen, add func(Live, rules.Rule)) {
	for _, c := range all {
		k, ok := kinds[c.entry]
		if !ok {
			continue
		}
		for _, s := range c.slos {
			if !onPrometheus(s) {
				w, bound := recovering(c.entry, s)
				add(Live{Kind: LiveRecovered, SLO: s, Agreement: a, Window: w, Above: bound, After: k.violation, Recent: g.o.Recent}, g.recovered(a, c.entry, s))
			}
		}
	}
	if bound := max(a.Warning, a.Critical); bound > 0 {
		add(Live{Kind: LiveRestored, Agreement: a, Below: bound, Recent: g.o.Recent}, g.compositeRecovered(a))
	}
}

// of takes over what a live alert has from its generated rule.
func (l Live) of(r rules.Rule) Live {
	l.Alert, l.For, l.KeepFiringFor = r.Alert, r.For, r.KeepFiringFor
	l.Labels = maps.Clone(r.Labels)
	for k, v := range l.Labels {
		l.Labels[k] = strings.ReplaceAll(v, literalBraces, "{{")
	}
	l.Texts = newTexts(r.Annotations)
	return l
}

func (g *generator) liveEntry(a *sla.Agreement, c chosen, all []chosen, add func(Live, rules.Rule)) {
	switch c.entry {
	case sla.CatalogueComposite:
		for _, r := range g.composite(a, NameCompositeWarning, a.Warning) {
			add(Live{Kind: LiveScore, Agreement: a, Below: a.Warning}, r)
		}
		for _, r := range g.composite(a, NameCompositeCritical, a.Critical) {
			add(Live{Kind: LiveScore, Agreement: a, Below: a.Critical}, r)
		}
		return
	case sla.CatalogueCascading:
		causes, effects := cascade(slices.DeleteFunc(slices.Clone(c.slos), onPrometheus))
		for _, cause := range causes {
			for _, effect := range effects {
				add(Live{Kind: LiveCascade, SLO: cause, Agreement: a, Effect: effect, Window: shortWindow}, g.cascadeRule(a, cause, effect))
			}
		}
		return
	case sla.CatalogueRecovery:
		g.liveRecovery(a, all, add)
		return
	}
	for _, s := range c.slos {
		if onPrometheus(s) {
			continue
		}
		l := Live{Kind: LiveRatio, SLO: s, Agreement: a, Window: shortWindow, MinEvents: s.Alerting.MinEvents}
		budget := s.Objective.Budget()
		switch c.entry {
		case sla.CatalogueLatency, sla.CatalogueErrorRate:
			l.Above = budget
		case sla.CatalogueLimit80:
			l.Above, l.UpTo = exact(nearShare*budget), budget
		case sla.CatalogueSlowIntegration:
			l.Above = exact(nearShare * budget)
		case sla.CatalogueErrorRateCritical:
			l.Above = exact(criticalTimes * budget)
		case sla.CatalogueErrorTrend:
			l.Kind, l.Above = LiveTrend, exact(trendShare*budget)
		case sla.CatalogueThroughputDecline:
			l.Kind, l.Below, l.Window, l.MinEvents = LiveDecline, exact(declineRoom*float64(s.Indicator.AtLeast)), sliceWindow(s), 0
		case sla.CatalogueAvailability:
			l.Above, l.Window = budget, hour
		case sla.CatalogueThroughput:
			l.Above, l.Window, l.MinEvents = 0.5, sliceWindow(s), 0
		case sla.CatalogueLatencyCritical:
			if l.Kind, l.Above, l.Limit = LiveLimit, budget, g.criticalThreshold(s); l.Limit != nil {
				l.LimitBy = limitGroups(l.Limit, s)
			}
		default:
			continue
		}
		if (l.Kind == LiveRatio || l.Kind == LiveLimit) && rules.CountsEvents(s) {
			l.Rate, l.Evidence = chanceRate(s, l.Above), slo.EvidenceNeeded(s.Alerting.MaxFalsePages())
		}
		if r, ok := g.sloEntry(a, c.entry, s); ok {
			add(l, r)
		}
	}
}
