package alerts

import (
	"maps"
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
	LiveExhausted LiveKind = "exhausted" // at most Below of the budget is left over the SLO's window
	// the budget is empty within Window with a probability of at least Above, by the forecast
	LiveSoon   LiveKind = "soon"
	LiveNoData LiveKind = "no_data" // the SLO counted nothing over Window, in no group
	LiveRatio  LiveKind = "ratio"   // the error ratio over Window is in (Above, UpTo]
	// critical breaches of Limit, as a share of the SLO's events over Window, are above Above
	LiveLimit  LiveKind = "limit"
	LiveScore  LiveKind = "score"  // the agreement's score, over its alert window, is below Below
	LiveSilent LiveKind = "silent" // a type of the service's events stopped coming
	// the error ratio over Window is above Above, and ten minutes are worse than the ten before
	LiveTrend LiveKind = "trend"
	// the events of a slice, at the present rate, are in [AtLeast, Below) while slices are judged
	LiveDecline LiveKind = "decline"
	// more than Failures events fail, over the budget, and more than EffectFailures of the SLO Effect
	LiveCascade LiveKind = "cascade"
	// the alert named After is over since less than Recent, and the error ratio over Window is at most Above
	LiveRecovered LiveKind = "recovered"
	// the alerts on the agreement's score are over since less than Recent, and the score is at least Below
	LiveRestored LiveKind = "restored"
	LiveEngine   LiveKind = "engine" // Expr has a value, over the engine's own metrics
)

// Live is an alert as data, for who evaluates alerts without Prometheus. Name,
// labels and times are those of the generated rule, from which they are taken.
type Live struct {
	Kind               LiveKind
	Alert              string
	Labels             map[string]string // those of the rule; the labels of the group come on top
	Texts              *Texts            // annotations of the rule
	PageURL            string            // address of the status page; "" if it is not known
	For, KeepFiringFor time.Duration

	SLO       *slo.SLO       // nil for LiveScore, LiveRestored, LiveSilent and LiveEngine
	Agreement *sla.Agreement // that chose the alert; nil for an SLO's own
	Service   string         // of LiveSilent

	Tier   Tier           // LiveBurn; LiveExhausted of a share: Name and Page
	Window time.Duration  // over which is counted
	Above  float64        // LiveRatio, LiveLimit, LiveTrend, LiveRecovered
	UpTo   float64        // LiveRatio; 0 = no upper bound
	Below  float64        // LiveScore, LiveDecline, LiveRestored, LiveExhausted
	Effect *slo.SLO       // LiveCascade
	After  string         // LiveRecovered
	Recent time.Duration  // LiveRecovered, LiveRestored
	Limit  *slo.Threshold // LiveLimit
	// LiveLimit: where Limit's GroupBy has the attributes of SLO's groups; nil = over all groups together
	LimitBy  []int
	Expr     string  // LiveEngine: the rule's expression, in PromQL
	Rate     float64 // LiveRatio, LiveLimit: the ratio that the true one must exceed, with Evidence
	Evidence float64 // of that; 0 = no such guard
	// events that the window (of LiveBurn the long one) must have; LiveSilent: half an hour of last week
	MinEvents uint64
}

// defined is an alert of a spec: its condition, and the rule with the condition as PromQL.
type defined struct {
	Live // Kind "": only Prometheus evaluates it
	rule rules.Rule
}

// define completes an alert.
func (g *generator) define(l Live, r rules.Rule) defined {
	l.Alert, l.For, l.KeepFiringFor, l.PageURL = r.Alert, r.For, r.KeepFiringFor, g.o.PageURL
	if l.Kind != "" {
		r.Expr = g.promQL(&l)
	}
	return defined{l, r}
}

// promQL is a condition as the expression of its rule.
func (g *generator) promQL(l *Live) string {
	switch l.Kind {
	case LiveBurn:
		return g.burns(l)
	case LiveExhausted:
		return g.spent(l)
	case LiveSoon:
		return g.emptySoon(l)
	case LiveNoData:
		return g.withoutData(l.SLO, l.Window)
	case LiveRatio:
		return g.inRange(l)
	case LiveLimit:
		return g.breaching(l)
	case LiveScore:
		return g.scoreBelow(l)
	case LiveSilent:
		return g.silent(l)
	case LiveTrend:
		return g.rising(l)
	case LiveDecline:
		return g.declining(l)
	case LiveCascade:
		return g.failingTogether(l.SLO, l.Effect)
	case LiveRecovered:
		return g.recovered(l)
	case LiveRestored:
		return g.restored(l)
	}
	return l.Expr
}

// live is the alert for who evaluates it without Prometheus.
func (d defined) live() Live {
	l := d.Live
	l.Labels = maps.Clone(d.rule.Labels)
	for k, v := range l.Labels {
		l.Labels[k] = LabelText(v)
	}
	l.Texts = newTexts(d.rule.Annotations)
	return l
}

// LabelText is the value that the label of a rule has on its alerts.
func LabelText(ofRule string) string { return strings.ReplaceAll(ofRule, literalBraces, "{{") }

// rulesOf are the rules of some alerts.
func rulesOf(all []defined) []rules.Rule {
	var out []rules.Rule
	for _, d := range all {
		out = append(out, d.rule)
	}
	return out
}

// LiveAlerts lists the alerts of a spec that an engine evaluates from its own
// reports, in the order of the rules: all of them, except those on SLOs that
// it does not count, and on the tables of the rules themselves.
func LiveAlerts(in rules.Spec, o Options) []Live {
	g := newGenerator(in, o)
	var out []Live
	add := func(all ...defined) {
		for _, d := range all {
			if !rulesOnly(d.SLO) && !rulesOnly(d.Effect) {
				out = append(out, d.live())
			}
		}
	}
	for _, s := range in.SLOs {
		if !rulesOnly(s) {
			tiers, _ := Tiers(s)
			add(g.sloAlerts(s, tiers)...)
		}
	}
	for _, a := range in.Agreements {
		add(g.agreementAlerts(a)...)
	}
	services := map[string]bool{}
	for _, s := range in.SLOs {
		if service := s.ID.Service(); s.Indicator.Kind != slo.KindPrometheus && !services[service] {
			services[service] = true
			add(g.senderSilent(service))
		}
	}
	return out
}

// rulesOnly reports whether the alerts on an SLO, if there is one, can only be rules in Prometheus.
func rulesOnly(s *slo.SLO) bool { return s != nil && s.Indicator.RulesOnly() }
