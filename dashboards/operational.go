package dashboards

import (
	"cmp"
	"strings"

	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/slo"
)

// Hidden variables that list SLOs of a kind, by id.
const (
	varLatency    = "slos_latency"
	varErrors     = "slos_errors"
	varThroughput = "slos_throughput"
	varEvents     = "slos_events"
)

// only narrows a selection down to the SLOs that a hidden variable lists.
func (g *generator) only(s selection, variable string) selection {
	return s.and(g.id + `=~"$` + variable + `"`)
}

// processVariable lists the event types whose end a customer sees, as a pattern.
// A dot in a name may stand for itself or, as a pattern, for anything alike.
func (g *generator) processVariable() variable {
	return hidden("process", cmp.Or(strings.Join(g.processes, "|"), ".+"))
}

// operationalBoard is for who is on duty: what burns, and which of time, errors
// and volume it is.
func (g *generator) operationalBoard() *board {
	b := g.board(UIDOperational, "SLA operational",
		"For the engineer on call: what burns now, and whether the cause is latency, errors or volume.")
	s, a := g.picked(g.labels), g.pickedAgreements()
	b.Templating.List = append(g.slaVariables(),
		hidden(varLatency, g.ids(isLatency)), hidden(varErrors, g.ids(isErrors)), hidden(varThroughput, g.ids(isThroughput)))
	traffic := selection{series.LabelService + `=~"$service"`}

	b.row("Health")
	if g.agreements {
		b.add(8, 7, stat(view{
			title: "Composite score", about: "Score of each agreement over its window, 0 to 100.",
			unit: unitScore, decimals: 2, none: noScore, steps: g.scoreSteps(),
			queries: []query{{g.long(a, series.RecordedCompositeScore), g.slaLegend()}},
		}))
	}
	b.add(8, 7, bars(view{
		title: "Fastest burns of the last hour",
		about: "The ten SLOs and groups with the highest burn rates. At 1 the budget lasts exactly one window. At 14.4 a " +
			"budget of 30 days is spent in two days.",
		unit: unitBurn, decimals: 2, none: noEvents, steps: burnSteps(), min: number(0),
		queries: []query{{"topk(10, " + g.burn(s, hour) + ")", g.legend()}}, links: g.detailLinks("__field.labels." + g.id),
	}))
	b.add(8, 7, timeline(view{
		title: "Firing alerts", about: "Firing alerts of the selected services.",
		unit: unitNone, none: "no firing alerts", steps: above(good, from(1, bad)),
		maps: []mapping{{Type: "value", Options: map[string]mappedValue{"1": {Text: "firing", Color: bad}}}},
		queries: []query{{`max by (alertname, ` + g.name + `) (ALERTS{alertstate="firing",` + g.service + `=~"$service"})`,
			"{{alertname}} {{" + g.name + "}}"}},
	}))
	b.add(24, 8, lines(view{
		title: "Burn rates",
		about: "Burn rate of each error budget over the last hour. At 1 the budget lasts exactly one window.",
		unit:  unitBurn, none: noEvents, steps: burnSteps(), min: number(0),
		queries: []query{{g.burn(s, hour), g.legend()}}, links: g.detailLinks("__field.labels." + g.id),
	}, lineStyle{thresholds: true}))

	if g.any(isLatency) || g.timed() {
		b.row("Latency")
	}
	if g.any(isLatency) {
		v := view{
			title: "Events within threshold",
			about: "Share of events over the last hour that were within the threshold of their SLO. Dashed lines are the " +
				"objectives.",
			unit: unitRatio, none: noEvents, steps: plain(), max: number(1),
			queries: []query{
				{"1 - " + g.errorRatio(g.only(s, varLatency), hour), g.legend()},
				{g.only(selection{g.service + `=~"$service"`}, varLatency).of(series.Objective), "objective of {{" + g.name + "}}"},
			},
		}
		v.overrides = []override{dashed(1, bad)}
		b.add(12, 8, lines(v, lineStyle{}))
	}
	if g.timed() {
		v := view{
			title: "Duration",
			about: "95th percentile of durations by event type, interpolated between the bounds of the buckets. It shows the " +
				"trend. The exact share of events within the threshold is in the panel beside it. Dashed lines are the thresholds.",
			unit: unitSeconds, none: "no data: no events with a duration", steps: plain(),
			queries: []query{{"histogram_quantile(0.95, sum by (service, type, le) (rate(" +
				traffic.of(series.EventDuration.Name+"_bucket") + interval + ")))", "{{service}} {{type}}"}},
		}
		g.markThresholds(&v)
		b.add(12, 8, lines(v, lineStyle{log: true}))
	}

	if g.any(isErrors) {
		b.row("Errors")
		b.add(12, 8, lines(view{
			title: "Error ratio", about: "Share of bad events over the last hour, for SLOs that count failures.",
			unit: unitRatio, none: noEvents, steps: plain(), min: number(0),
			queries: []query{{g.errorRatio(g.only(s, varErrors), hour), g.legend()}},
			links:   g.detailLinks("__field.labels." + g.id),
		}, lineStyle{}))
		b.add(12, 8, bars(view{
			title: "Error ratio against the budget",
			about: "Share of bad events over the last hour, as a multiple of the allowed share. Above 1, the objective is " +
				"missed if this continues.",
			unit: unitBurn, decimals: 2, none: noEvents, steps: burnSteps(), min: number(0),
			queries: []query{{"topk(15, " + g.burn(g.only(s, varErrors), hour) + ")", g.legend()}},
			links:   g.detailLinks("__field.labels." + g.id),
		}))
	}
	if g.in.ReadsEvents() {
		b.add(12, 8, lines(view{
			title: "Failures by severity",
			about: "Failed events per second, by type and severity. Business failures are legitimate refusals, not outages.",
			unit:  unitRate, none: notEngine, steps: plain(),
			queries: []query{{g.traffic("service, type, severity", `outcome="failure"`), "{{service}} {{type}} {{severity}}"}},
		}, lineStyle{stacked: true}))
		for _, d := range g.o.Dimensions {
			b.add(12, 8, lines(view{
				title: "Failures by " + d, about: "Failed events per second, by " + d + ", which breaks down the errors above.",
				unit: unitRate, none: "no failures", steps: plain(),
				queries: []query{{g.traffic("service, "+d, `outcome="failure"`) + " > 0", "{{service}} {{" + d + "}}"}},
			}, lineStyle{stacked: true}))
		}
	}

	b.row("Volume")
	if g.in.ReadsEvents() {
		b.add(12, 8, lines(view{
			title: "Events", about: "Events per second by type, at the time of arrival.",
			unit: unitRate, none: notEngine, steps: plain(),
			queries: []query{{g.traffic("service, type"), "{{service}} {{type}}"}},
		}, lineStyle{}))
	}
	b.add(12, 8, lines(view{
		title: "Valid events by SLO",
		about: "Valid events per second for each SLO, over the last five minutes. Slices per second for SLOs that count " +
			"slices.",
		unit: unitRate, none: notRules, steps: plain(),
		queries: []query{{g.valid(s), g.legend()}},
	}, lineStyle{}))
	if g.any(isThroughput) {
		b.add(12, 8, lines(view{
			title: "Slices with enough volume",
			about: "Share of slices over the last day, within open hours, that had the agreed number of events. Only " +
				"completed slices are judged.",
			unit: unitRatio, none: "no data: no slice has been judged", steps: plain(), max: number(1),
			queries: []query{
				{"1 - " + g.errorRatio(g.only(s, varThroughput), day), g.legend()},
				{g.only(selection{g.service + `=~"$service"`}, varThroughput).of(series.Objective),
					"objective of {{" + g.name + "}}"},
			},
			overrides: []override{dashed(1, bad)},
		}, lineStyle{}))
		b.add(12, 8, lines(view{
			title: "Busiest minute of the last hour",
			about: "Valid events of the busiest whole minute of the last hour, for each SLO on throughput and group, as the " +
				"engine counts them.",
			unit: unitShort, none: notEngine, steps: plain(), min: number(0),
			queries: []query{{selection{series.LabelService + `=~"$service"`}.of(series.PeakMinute.Name),
				braces(append([]string{series.LabelSLO}, g.labels...))}},
		}, lineStyle{}))
		for _, t := range g.capacity() {
			b.add(12, 8, t)
		}
	}
	return b
}

// traffic is the rate of events of the services in view, from the engine's own
// counters.
func (g *generator) traffic(by string, matchers ...string) string {
	return "sum by (" + by + ") (rate(" + selection{
		series.LabelService + `=~"$service"`}.and(matchers...).of(series.EngineEvents.Name) + interval + "))"
}

// maxCapacity is how many throughput SLOs have a panel of their own.
const maxCapacity = 12

// capacity shows for each throughput SLO how much of its target comes in, where
// some other SLO counts the same events: its own counters hold intervals.
func (g *generator) capacity() []*panel {
	var out []*panel
	for _, s := range g.in.SLOs {
		if !isThroughput(s) || len(out) == maxCapacity {
			continue
		}
		twin, labels := g.counterOf(s)
		if twin == nil {
			continue
		}
		per := slo.FormatDuration(s.Indicator.Per)
		rate := g.o.ValidRate(twin)
		if len(labels) == 0 {
			rate = "sum(" + rate + ")"
		} else {
			rate = "sum by (" + strings.Join(labels, ", ") + ") (" + rate + ")"
		}
		rate += " * " + slo.FormatRatio(s.Indicator.Per.Seconds())
		about := "Events per " + per + ", compared with the agreed number (dashed line)"
		if h := s.Indicator.During.String(); h != "" {
			about += ", which applies " + h
		}
		legend := braces(labels)
		if len(labels) == 0 {
			legend = "events per " + per
		}
		target := float64(s.Indicator.AtLeast)
		out = append(out, lines(view{
			title: "Volume of " + string(s.ID), about: about + ". The legend shows the maximum over the time range.",
			unit: unitShort, none: noEvents, steps: above(bad, from(target, good)), min: number(0),
			queries:   []query{{rate, legend}, {"vector(" + slo.FormatRatio(target) + ")", "agreed"}},
			overrides: []override{dashed(1, bad)},
		}, lineStyle{}))
	}
	return out
}

// counterOf finds an SLO that counts the very events of another one and can tell
// its groups apart, and the labels of those.
func (g *generator) counterOf(s *slo.SLO) (*slo.SLO, []string) {
	labels := g.facts[s].labels
	var found *slo.SLO
	for _, t := range g.in.SLOs {
		if t == s || t.Indicator.Kind != slo.KindEvents || !rules.CountsEvents(t) || g.facts[s].events != g.facts[t].events {
			continue
		}
		have := map[string]bool{}
		for _, l := range g.facts[t].labels {
			have[l] = true
		}
		fits := true
		for _, l := range labels {
			fits = fits && have[l]
		}
		if fits && (found == nil || t.ID < found.ID) {
			found = t
		}
	}
	return found, labels
}
