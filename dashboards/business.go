package dashboards

import (
	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/rules/series"
)

// businessBoard is for who owns the product: how many succeed, how long they
// wait, and what failures cost.
func (g *generator) businessBoard() *board {
	b := g.board(UIDBusiness, "SLA business",
		"For product owners: how many customers succeed, how long they wait, and what failures cost.")
	var known []string
	for _, l := range g.labels {
		if g.business[l] {
			known = append(known, l)
		}
	}
	s := g.picked(known)
	b.Templating.List = g.sloVariables(known)
	if !g.any(priced) {
		b.Templating.List = append(b.Templating.List,
			textVariable(
				"cost", "Cost of a failure", "Cost of one failed event, in any currency. The cost panels multiply by it.", "1"))
	}
	b.Templating.List = append(b.Templating.List,
		hidden(varLatency, g.ids(both(isLatency, g.forBusiness))), hidden(varErrors, g.ids(both(isErrors, g.forBusiness))),
		hidden(varEvents, g.ids(both(rules.CountsEvents, g.forBusiness))), g.processVariable())
	process := g.processMatcher()
	done := g.traffic("service, type", process, `outcome="success"`)
	all := g.traffic("service, type", process)
	failed := g.traffic("service, type", process, `outcome="failure"`)

	b.row("Conversion")
	if g.in.ReadsEvents() {
		b.add(6, 8, stat(view{
			title: "Succeeded", about: "Share of successful processes, averaged over the time range.",
			unit: unitRatio, decimals: 2, none: "no process ended", steps: above(bad, from(0.95, warning), from(0.99, good)),
			queries: []query{{done + " / (" + all + " > 0)", "{{service}} {{type}}"}},
		}).averaged())
		b.add(9, 8, lines(view{
			title: "Conversion over time",
			about: "Share of successful processes. Business refusals count as failures here, too.",
			unit:  unitRatio, none: "no process ended", steps: plain(), max: number(1),
			queries: []query{{done + " / (" + all + " > 0)", "{{service}} {{type}}"}},
		}, lineStyle{}))
		b.add(9, 8, lines(view{
			title: "Event thresholds and conversion",
			about: "Conversion beside the rate of violations of event thresholds (bars, right axis). Shows whether slowness " +
				"costs customers.",
			unit: unitRatio, none: "no process ended", steps: plain(), max: number(1),
			queries: []query{
				{done + " / (" + all + " > 0)", "conversion of {{service}} {{type}}"},
				{"sum(rate(" + selection{`service=~"$service"`}.of(series.Violations.Name) + interval + "))", "violations"},
			},
			overrides: []override{rightAxis(1, unitRate, "violations")},
		}, lineStyle{}))
	}
	if g.any(both(isErrors, g.forBusiness)) {
		b.add(24, 8, lines(view{
			title: "Actual and agreed",
			about: "Share of good events over the last day, for the SLOs in agreements. Dashed lines are the objectives.",
			unit:  unitRatio, none: noEvents, steps: plain(), max: number(1),
			queries: []query{
				{"1 - " + g.errorRatio(g.only(s, varErrors), day), g.legend()},
				{g.only(selection{g.service + `=~"$service"`}, varErrors).of(series.Objective), "objective of {{" + g.name + "}}"},
			},
			overrides: []override{dashed(1, bad)}, links: g.detailLinks("__field.labels." + g.id),
		}, lineStyle{}))
	}
	for _, l := range known {
		of := g.only(s, varEvents).and(l + `!=""`)
		b.add(gridColumns/min(len(known), 3), 8, lines(view{
			title: "Good events by " + l, about: "Share of good events over the last hour by " + l +
				", for the SLOs in agreements.",
			unit: unitRatio, none: noEvents, steps: plain(), max: number(1),
			queries: []query{{"1 - " + g.errorRatio(of, hour), braces([]string{g.name, l})}},
			links:   g.detailLinks("__field.labels." + g.id),
		}, lineStyle{}))
	}

	if g.timed() && g.in.ReadsEvents() {
		const unmeasured = "no data: no process with a duration ended"
		b.row("Customer experience")
		bucket := "sum by (service, type, le) (rate(" + selection{`service=~"$service"`,
			process}.of(series.EventDuration.Name+"_bucket") + interval + "))"
		b.add(8, 8, lines(view{
			title: "Waiting time",
			about: "Duration of a process: median and 95th percentile, interpolated between the bounds of the buckets.",
			unit:  unitSeconds, none: unmeasured, steps: plain(), min: number(0),
			queries: []query{
				{"histogram_quantile(0.5, " + bucket + ")", "median of {{service}} {{type}}"},
				{"histogram_quantile(0.95, " + bucket + ")", "95 % of {{service}} {{type}}"},
			},
		}, lineStyle{}))
		b.add(8, 8, lines(view{
			title: "Customers waiting",
			about: "Average number of processes in progress: seconds of duration completed per second.",
			unit:  unitShort, none: unmeasured, steps: plain(), min: number(0),
			queries: []query{{"sum by (service, type) (rate(" + selection{`service=~"$service"`,
				process}.of(series.EventDuration.Name+"_sum") + interval + "))", "{{service}} {{type}}"}},
		}, lineStyle{}))
		b.add(8, 8, lines(view{
			title: "Served in time", about: "Share of successful events over the last hour that were within the agreed time.",
			unit: unitRatio, none: noEvents, steps: plain(), max: number(1),
			queries: []query{{"1 - " + g.errorRatio(g.only(s, varLatency), hour), g.legend()}},
		}, lineStyle{}))
	}

	b.row("Cost")
	if g.any(priced) {
		g.costPanels(b, s, known)
		return b
	}
	if g.in.ReadsEvents() {
		b.add(6, 8, stat(view{
			title: "Cost of failures per hour",
			about: "Failed processes per hour, averaged over the time range, times the cost of one failure.",
			unit:  unitMoney, decimals: 2, none: "no process ended", steps: plain(),
			queries: []query{{"$cost * 3600 * " + failed, "{{service}} {{type}}"}},
		}).averaged())
		b.add(9, 8, lines(view{
			title: "Cost of failures over time", about: "Failed processes per hour, times the cost of one failure.",
			unit: unitMoney, none: "no process ended", steps: plain(), min: number(0),
			queries: []query{{"$cost * 3600 * " + failed, "{{service}} {{type}}"}},
		}, lineStyle{}))
	}
	lost := g.badOver(g.only(s, varEvents), day)
	v := view{
		title: "Bad events of the last day",
		about: "Bad events by SLO and group, and their cost. An event can be bad for several SLOs, so do not add up the rows.",
		unit:  unitShort, none: noEvents, steps: plain(),
		queries: []query{{"1 * " + lost, g.legend()}, {"$cost * " + lost, g.legend()}},
	}
	columns := append([]column{{field: g.id, name: "SLO", links: g.detailLinks("__value.text")}}, labelColumns(known)...)
	columns = append(columns, column{field: value(v, 0), name: "Bad events", unit: unitShort, steps: plain()},
		column{field: value(v, 1), name: "Cost", unit: unitMoney, steps: plain()})
	b.add(9, 8, table(v, "-Bad events", columns...).hide(g.service, g.name))
	return b
}
