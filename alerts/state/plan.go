package state

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

// plan is which alerts there are for what a report shows. It belongs to one spec.
type plan struct {
	slos     map[*slo.SLO]*sloPlan
	slas     map[*sla.Agreement][]condition
	services map[string][]condition
	limits   map[*slo.Threshold][]limitBy // that some alert is about
	effects  map[*slo.SLO]bool            // that some failure may cascade to
	recent   time.Duration                // how far notices of recovery look back; 0 without any
	known    int                          // limits of the spec
}

type sloPlan struct {
	group []condition // evaluated in every group
	whole []condition // evaluated over all groups together
}

// condition is one alert before it has a group.
type condition struct {
	alerts.Live
	key         string // tells the conditions of one row apart, over changes of the spec
	service     string
	agreement   string
	severity    string
	urgent      bool
	groupBy     []string // what the group is by
	names       []string // label names of the group
	long, short int      // where the windows are among the burns, most likely
	limit       limitBy  // of LiveLimit

	rule *alerts.Live // of an alert on the engine: tells whether the rules have changed
}

// fits reports whether the plan was made from the spec of a report.
func (p *plan) fits(r *sla.Report) bool {
	if p == nil {
		return false
	}
	var last *slo.SLO
	n := 0
	for i := range r.SLOs {
		if s := r.SLOs[i].SLO; s != last {
			if p.slos[s] == nil {
				return false
			}
			last = s
			n++
		}
	}
	if n != len(p.slos) || len(r.Thresholds) != p.known {
		return false
	}
	var a *sla.Agreement
	n = 0
	for i := range r.SLAs {
		if r.SLAs[i].SLA != a {
			a = r.SLAs[i].SLA
			if _, ok := p.slas[a]; !ok {
				return false
			}
			n++
		}
	}
	return n == len(p.slas)
}

// newPlan finds the alerts of the spec that a report is about.
func newPlan(r *sla.Report, o Options) *plan {
	p := &plan{
		slos: map[*slo.SLO]*sloPlan{}, slas: map[*sla.Agreement][]condition{}, services: map[string][]condition{},
		limits: map[*slo.Threshold][]limitBy{}, effects: map[*slo.SLO]bool{}, known: len(r.Thresholds),
	}
	var in rules.Spec
	for i := range r.SLOs {
		if s := r.SLOs[i].SLO; p.slos[s] == nil {
			p.slos[s] = &sloPlan{}
			in.SLOs = append(in.SLOs, s)
		}
	}
	for i := range r.SLAs {
		if a := r.SLAs[i].SLA; p.slas[a] == nil {
			p.slas[a] = []condition{}
			in.Agreements = append(in.Agreements, a)
		}
	}
	for i := range r.Thresholds {
		in.Thresholds = append(in.Thresholds, r.Thresholds[i].Threshold)
	}
	for _, l := range alerts.LiveAlerts(in, o.Alerts) {
		p.add(l)
	}
	return p
}

// define gives resolved alerts of an earlier process the definitions that they had, as far as the spec still has them.
// Readers of a view share the old list, so it makes another.
func (p *plan) define(resolved []Alert) []Alert {
	if !slices.ContainsFunc(resolved, func(a Alert) bool { return a.live == nil }) {
		return resolved
	}
	known := map[string]*alerts.Live{}
	for _, conditions := range p.all() {
		for k := range conditions {
			c := &conditions[k]
			known[definitionKey(c.Alert, c.Labels[series.LabelTier], c.Labels[series.LabelSLOID], c.Labels[series.LabelEffect],
				c.agreement, c.service)] = &c.Live
		}
	}
	resolved = slices.Clone(resolved)
	for i := range resolved {
		if a := &resolved[i]; a.live == nil {
			a.live = known[definitionKey(a.Name, a.Label(series.LabelTier), a.Label(series.LabelSLOID),
				a.Label(series.LabelEffect), a.Agreement, a.Service)]
		}
	}
	return resolved
}

func definitionKey(parts ...string) string { return strings.Join(parts, "\xff") }

// all lists the conditions of every row.
func (p *plan) all() [][]condition {
	var out [][]condition
	for _, s := range p.slos {
		out = append(out, s.group, s.whole)
	}
	return slices.AppendSeq(slices.AppendSeq(out, maps.Values(p.slas)), maps.Values(p.services))
}

func (p *plan) add(l alerts.Live) {
	c := condition{Live: l, severity: l.Labels[series.LabelSeverity], long: burnIndex(l.Window),
		short: burnIndex(l.Recovery())}
	c.urgent = l.Tier.Page || alerts.Pages(c.severity)
	c.key = l.Alert + "/" + l.Tier.Name
	if l.Agreement != nil {
		c.agreement = l.Agreement.Name
		c.key += "/" + l.Agreement.Name
	}
	p.recent = max(p.recent, l.Recent)
	if l.Effect != nil {
		c.key += "/" + string(l.Effect.ID)
		p.effects[l.Effect] = true
	}
	if l.Limit != nil {
		c.limit = newLimitBy(l.Limit, l.LimitBy)
		if by := p.limits[l.Limit]; !slices.ContainsFunc(by, func(o limitBy) bool { return o.key == c.limit.key }) {
			p.limits[l.Limit] = append(by, c.limit)
		}
	}
	switch l.Kind {
	case alerts.LiveNoData, alerts.LiveLimit:
		if l.LimitBy == nil {
			c.service = l.SLO.ID.Service()
			s := p.slos[l.SLO]
			s.whole = append(s.whole, c)
			return
		}
		fallthrough
	case alerts.LiveBurn, alerts.LiveExhausted, alerts.LiveSoon, alerts.LiveRatio, alerts.LiveTrend, alerts.LiveDecline,
		alerts.LiveCascade, alerts.LiveRecovered:
		c.service = l.SLO.ID.Service()
		c.groupBy, c.names = l.SLO.GroupBy, rules.GroupLabels(l.SLO)
		s := p.slos[l.SLO]
		s.group = append(s.group, c)
	case alerts.LiveScore, alerts.LiveRestored:
		c.service = l.Agreement.Service
		c.groupBy, c.names = l.Agreement.GroupBy, rules.AgreementLabels(l.Agreement)
		p.slas[l.Agreement] = append(p.slas[l.Agreement], c)
	case alerts.LiveSilent:
		c.service = l.Service
		c.groupBy, c.names = []string{series.LabelType}, []string{series.LabelType}
		p.services[l.Service] = append(p.services[l.Service], c)
	}
}
