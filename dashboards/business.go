package dashboards

import (
	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/rules/series"
)

// businessBoard is for who owns the product: how many succeed, how long they
// wait, and what failures cost.
func (g *generator) businessBoard() *board {
	b := g.board(UIDBusiness, "SLA business", "For who owns the product: how many customers get what they came for, how long they wait, and what broken promises cost.")
	var known []string
	for _, l := range g.labels {
		if g.business[l] {
			known = append(known, l)
		}
	}
	s := g.picked(known)
	b.Templating.List = append(g.sloVariables(known),
		textVariable("cost", "Cost of a failure", "What one failed event costs, in whatever currency. It multiplies the panels on cost.", "1"),
		hidden(varLatency, g.ids(both(isLatency, g.forBusiness))), hidden(varErrors, g.ids(both(isErrors, g.forBusiness))),
		hidden(varEvents, g.ids(both(rules.CountsEvents, g.forBusiness))), g.processVariable())
	process := g.processMatcher()
	done := g.traffic("service, type", process, `outcome="success"`)
	all := g.traffic("service, type", process)
	failed := g.traffic("service, type", process, `outcome="failure"`)

	b.row("Conversion")
	if g.counted() {
		b.add(6, 8, stat(view{
			title: "Succeeded", about: "Share of the processes that ended well, on average over the time range.",
			unit: unitRatio, decimals: 2, none: "no process has ended", steps: above(bad, from(0.95, warning), from(0.99, good)),
			queries: []query{{done + " / (" + all + " > 0)", "{{service}} {{type}}"}},
		}).averaged())
		b.add(9, 8, lines(view{
			title: "Conversion over time", about: "Share of the processes that ended well: refusals for good reasons count against it, too.",
			unit: unitRatio, none: "no process has ended", steps: plain(), max: number(1),
			queries: []query{{done + " / (" + all + " > 0)", "{{service}} {{type}}"}},
		}, lineStyle{}))
		b.add(9, 8, lines(view{
			title: "Event thresholds and conversion", about: "Conversion against the rate at which event thresholds are exceeded (bars, right): whether slowness drives customers away.",
			unit: unitRatio, none: "no process has ended", steps: plain(), max: number(1),
			queries: []query{
				{done + " / (" + all + " > 0)", "conversion of {{service}} {{type}}"},
				{"sum(rate(" + selection{`service=~"$service"`}.of(series.Violations.Name) + interval + "))", "violations"},
			},
			overrides: []override{rightAxis(1, unitRate, "violations")},
		}, lineStyle{}))
	}
	if g.any(both(isErrors, g.forBusiness)) {
		b.add(24, 8, lines(view{
			title: "Actual against agreed", about: "Share of good events of the last day for the SLOs that the agreements are made of; dashes are the objectives.",
			unit: unitRatio, none: noEvents, steps: plain(), max: number(1),
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
			title: "Good events by " + l, about: "Share of good events of the last hour by " + l + ", for the SLOs that agreements are made of.",
			unit: unitRatio, none: noEvents, steps: plain(), max: number(1),
			queries: []query{{"1 - " + g.errorRatio(of, hour), braces([]string{g.name, l})}}, links: g.detailLinks("__field.labels." + g.id),
		}, lineStyle{}))
	}

	if g.timed() && g.counted() {
		const unmeasured = "no data: no process with a duration has ended"
		b.row("What customers feel")
		bucket := "sum by (service, type, le) (rate(" + selection{`service=~"$service"`, process}.of(series.EventDuration.Name+"_bucket") + interval + "))"
		b.add(8, 8, lines(view{
			title: "How long they wait", about: "Duration of a process: of half of them, and of 95 %. Interpolated between the thresholds that the specs use.",
			unit: unitSeconds, none: unmeasured, steps: plain(), min: number(0),
			queries: []query{
				{"histogram_quantile(0.5, " + bucket + ")", "half of {{service}} {{type}}"},
				{"histogram_quantile(0.95, " + bucket + ")", "95 % of {{service}} {{type}}"},
			},
		}, lineStyle{}))
		b.add(8, 8, lines(view{
			title: "Customers waiting", about: "How many processes are under way at a time: the seconds that end in a second.",
			unit: unitShort, none: unmeasured, steps: plain(), min: number(0),
			queries: []query{{"sum by (service, type) (rate(" + selection{`service=~"$service"`, process}.of(series.EventDuration.Name+"_sum") + interval + "))", "{{service}} {{type}}"}},
		}, lineStyle{}))
		b.add(8, 8, lines(view{
			title: "Served in time", about: "Share of the last hour's successes that were within the agreed time.",
			unit: unitRatio, none: noEvents, steps: plain(), max: number(1),
			queries: []query{{"1 - " + g.errorRatio(g.only(s, varLatency), hour), g.legend()}},
		}, lineStyle{}))
	}

	b.row("What it costs")
	if g.counted() {
		b.add(6, 8, stat(view{
			title: "Cost of failures per hour", about: "Failed processes per hour, on average over the time range, times the cost of one.",
			unit: unitMoney, decimals: 2, none: "no process has ended", steps: plain(),
			queries: []query{{"$cost * 3600 * " + failed, "{{service}} {{type}}"}},
		}).averaged())
		b.add(9, 8, lines(view{
			title: "Cost of failures over time", about: "Failed processes per hour, times the cost of one.",
			unit: unitMoney, none: "no process has ended", steps: plain(), min: number(0),
			queries: []query{{"$cost * 3600 * " + failed, "{{service}} {{type}}"}},
		}, lineStyle{}))
	}
	lost := g.eventsOver(g.only(s, varEvents), series.BadEventsIncrease, day)
	v := view{
		title: "Bad events of the last day", about: "Bad events by SLO and group, and their cost. SLOs overlap: an event may be bad for several, so do not add them up.",
		unit: unitShort, none: noEvents, steps: plain(),
		queries: []query{{"1 * " + lost, g.legend()}, {"$cost * " + lost, g.legend()}},
	}
	columns := append([]column{{field: g.id, name: "SLO", links: g.detailLinks("__value.text")}}, labelColumns(known)...)
	columns = append(columns, column{field: value(v, 0), name: "Bad events", unit: unitShort, steps: plain()}, column{field: value(v, 1), name: "Cost", unit: unitMoney, steps: plain()})
	b.add(9, 8, table(v, "-Bad events", columns...).hide(g.service, g.name))
	return b
}
