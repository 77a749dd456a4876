package alerts

import (
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

// generator holds what the making of one set of alerts needs.
type generator struct {
	in       rules.Spec
	o        Options
	q        query
	byID     map[slo.ID]*slo.SLO
	senders  []*slo.SLO // whose services send events, also those that PromQL has no rules for
	findings []Finding
}

func newGenerator(in rules.Spec, o Options) *generator {
	g := &generator{in: in, o: o.withDefaults(), byID: map[slo.ID]*slo.SLO{}}
	g.q = query{g.o.Options}
	for _, s := range in.SLOs {
		g.byID[s.ID] = s
	}
	return g
}

func (g *generator) find(id slo.ID, severity FindingSeverity, message, hint string) {
	g.findings = append(g.findings, Finding{SLO: id, Severity: severity, Message: message, Hint: hint})
}

// Rules makes the alert rules of a spec: a group for each SLO, for each
// agreement that alerts, for the services' senders, and for the engine. They read
// the series of rules.Recording with the same rules.Options. The order is that of
// the spec, and the same input gives the same output. What cannot fire is left
// out; Lint says so.
func Rules(in rules.Spec, o Options) []rules.Group {
	g := newGenerator(in.Expressible(), o)
	g.senders = in.SLOs
	var out []rules.Group
	add := func(group rules.Group) {
		if len(group.Rules) > 0 {
			if group.Interval == 0 {
				group.Interval = g.o.Eval
			}
			out = append(out, group)
		}
	}
	for _, s := range g.in.SLOs {
		if g.o.Minimal() {
			for _, group := range g.minimalGroups(s) {
				add(group)
			}
			continue
		}
		add(g.sloGroup(s))
	}
	for _, a := range g.in.Agreements {
		add(rules.Group{Name: "sloengine-alerts-sla-" + a.Service + "/" + a.Name, Rules: rulesOf(g.agreementAlerts(a))})
	}
	add(g.serviceGroup())
	if !g.o.NoEngine {
		add(g.engineGroup())
	}
	return out
}

// serviceGroup makes the alerts on senders, and those on tables that end.
func (g *generator) serviceGroup() rules.Group {
	out := rules.Group{Name: "sloengine-alerts-services"}
	var services []string
	sends := map[string]bool{}
	for _, s := range g.senders {
		service := s.ID.Service()
		if !slices.Contains(services, service) {
			services = append(services, service)
		}
		sends[service] = sends[service] || s.Indicator.Kind != slo.KindPrometheus
	}
	for _, service := range services {
		if sends[service] {
			out.Rules = append(out.Rules, g.senderSilent(service).rule)
		}
		if rules.NeedsTables(g.in, service) {
			out.Rules = append(out.Rules, g.tablesRunOut(service))
		}
	}
	return out
}

func (g *generator) senderSilent(service string) defined {
	l := Live{Kind: LiveSilent, Service: service, Window: 30 * time.Minute, MinEvents: g.o.SilentMinEvents}
	return g.define(l, rules.Rule{
		Alert: NameSenderSilent, For: 15 * time.Minute,
		Labels: map[string]string{
			series.LabelService: service, labelSeverity: SeverityTicket, series.LabelImpact: ImpactMedium,
			series.LabelKind: "data",
		},
		Annotations: g.annotations(NameSenderSilent, note{
			summary: service + " has stopped sending {{ $labels.type }} events",
			description: "Not one event came in 30m, where at this time of the week (or yesterday) it was {{ $value | " +
				"humanize }}. " +
				"Either nothing happens there or its events do not get here.",
			dashboard: DashboardIngest, page: "/?service=" + url.QueryEscape(service),
		}),
	})
}

// silent compares the traffic of half an hour with that of the same time
// last week, or yesterday as long as there is no last week, so that quiet nights
// and weekends are quiet here, too.
func (g *generator) silent(l *Live) string {
	now := g.q.serviceEvents(l.Service, 0)
	week, day := g.q.serviceEvents(l.Service, 7*24*time.Hour), g.q.serviceEvents(l.Service, 24*time.Hour)
	return fmt.Sprintf("(%s or %s) >= %d\nand on (service, type) %s == 0", week, day, l.MinEvents, now)
}

// tablesRunOut asks for new rules before calendar windows and corrections, which
// rules know as literal tables, end.
func (g *generator) tablesRunOut(service string) rules.Rule {
	return rules.Rule{
		Alert: NameTablesRunOut,
		Expr:  fmt.Sprintf("%s - time() < %s", g.q.o.TablesEnd(service), number(g.o.TablesMargin.Seconds())),
		Labels: map[string]string{
			series.LabelService: service, labelSeverity: SeverityTicket, series.LabelImpact: ImpactMedium,
			series.LabelKind: "data",
		},
		Annotations: g.annotations(NameTablesRunOut, note{
			summary: "The rules of " + service + " know calendar windows and maintenance not much longer",
			description: "In {{ $value | humanizeDuration }} their tables end. From then on budgets of calendar windows are " +
				"missing, " +
				"and planned maintenance counts against those of others. Generate the rules again.",
			dashboard: DashboardSLO, page: "/?service=" + url.QueryEscape(service),
		}),
	}
}

// wholeNote is sloNote for an alert on all groups together.
func (g *generator) wholeNote(s *slo.SLO, summary, description string) note {
	return note{
		summary: summary, description: description, dashboard: DashboardSLO,
		variables: []string{"slo_id", g.dashboardID(s)}, page: "/?slo=" + url.QueryEscape(string(s.ID)),
		links: s.Links,
	}
}

func (g *generator) agreementNote(a *sla.Agreement, summary, description string) note {
	return note{
		summary: summary, description: description, dashboard: DashboardSLA,
		variables: []string{"service", url.QueryEscape(a.Service), "sla", url.QueryEscape(a.Name)},
		page:      "/slas?service=" + url.QueryEscape(a.Service),
	}
}

func (g *generator) agreementLabels(a *sla.Agreement, promise, severity, impact string) map[string]string {
	labels := map[string]string{
		series.LabelService: a.Service, series.LabelSLA: a.Name, series.LabelAgreement: a.Name, series.LabelKind: promise,
		labelSeverity: severity,
	}
	if impact != "" {
		labels[series.LabelImpact] = impact
	}
	return labels
}
