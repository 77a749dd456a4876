package dashboards

import (
	"slices"
	"strings"

	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/slo"
)

// detailBoard shows one SLO with all its groups.
func (g *generator) detailBoard() *board {
	b := g.board(UIDSLO, "SLO detail", "One SLO with its groups: objective, error budget, burn rates, events and alerts.")
	vars := []variable{sourceVariable(), one("slo_id", "SLO", "The SLO, as service/slo.", g.id, series.Objective)}
	if g.id != series.LabelSLOID {
		// The engine's own series have our labels, whatever the rules' are called.
		for _, v := range []variable{one("service", "", "", g.service, series.Objective+`{`+g.id+`="$slo_id"}`),
			one("slo", "", "", g.name, series.Objective+`{`+g.id+`="$slo_id"}`)} {
			v.Hide = 2
			vars = append(vars, v)
		}
	}
	whole := selection{g.id + `="$slo_id"`}
	s := slices.Clone(whole)
	engine := selection{series.LabelSLOID + `="$slo_id"`}
	if g.id != series.LabelSLOID {
		engine = selection{series.LabelService + `="$service"`, series.LabelSLO + `="$slo"`}
	}
	ofSLO := slices.Clone(engine) // for series without group labels
	for _, l := range g.labels {
		vars = append(vars, several(variableName(l), l, "Values of the group label "+l+", if the SLO is grouped by it.",
			l, g.groups(whole)))
		s = append(s, l+`=~"$`+variableName(l)+`"`)
		engine = append(engine, l+`=~"$`+variableName(l)+`"`)
	}
	b.Templating.List = vars
	legend := func(more string) string {
		names := g.labels
		if len(names) == 0 && more == "" {
			names = []string{g.name}
		}
		return strings.TrimSpace(braces(names) + " " + more)
	}
	const notCounted = "no data: the engine does not count this SLO, or is not scraped"
	budget := g.budget(whole)
	over := " * on (" + g.id + ") group_left () " + budget
	per := " / on (" + g.id + ") group_left () " + budget

	b.row("Now")
	width := 4
	if g.o.Minimal() {
		width = 8 // no series says how long the window is
	}
	b.add(width, 5, stat(view{
		title: "Objective", about: "Share of events (or slices of time) that must be good.",
		unit: "percentunit", decimals: 3, none: notRules, steps: plain(),
		queries: []query{{whole.of(series.Objective), "Objective"}},
	}))
	if !g.o.Minimal() {
		b.add(4, 5, stat(view{
			title: "Window",
			about: "Length of the SLO's window. A calendar window is as long as the current period, such as this month.",
			unit:  "d", none: notRules, steps: plain(), queries: []query{{whole.of(series.TimePeriod), "Window"}},
		}))
	}
	b.add(8, 5, stat(view{
		title: "Budget left",
		about: "Share of the error budget that is left in the SLO's window, by group. Below 0 the budget is overspent.",
		unit:  unitRatio, decimals: 1, none: noEvents, steps: budgetSteps(), queries: []query{{g.remaining(s), legend("")}},
	}))
	b.add(8, 5, stat(view{
		title: "Indicator", about: "Share of good events over the SLO's window, by group, with planned maintenance excluded.",
		unit: unitRatio, decimals: 3, none: noEvents, steps: plain(),
		queries: []query{{"1 - (1 - " + g.remaining(s) + ")" + over, legend("")}},
	}))

	b.row("Error budget")
	b.add(12, 9, lines(view{
		title: "Budget over time", about: "Share of the error budget that is left, by group.",
		unit: unitRatio, none: noEvents, steps: budgetSteps(), max: number(1), queries: []query{{g.remaining(s), legend("")}},
	}, lineStyle{thresholds: true}))
	var burns []query
	for _, w := range slo.BurnWindows {
		burns = append(burns, query{g.errorRatio(s, w) + per, legend(slo.FormatDuration(w))})
	}
	b.add(12, 9, lines(view{
		title: "Burn rates",
		about: "Burn rate over each window. A burn rate of 1 spends the budget in exactly the SLO's window. Pages and " +
			"tickets fire if the long and the short window of a tier exceed its factor.",
		unit: unitBurn, none: noEvents, steps: burnSteps(), min: number(0), queries: burns,
	}, lineStyle{thresholds: true}))
	b.add(12, 9, lines(view{
		title: "Error ratio",
		about: "Share of bad events over five minutes, an hour and a day. Dashed lines are the allowed share.",
		unit:  unitRatio, none: noEvents, steps: plain(), min: number(0),
		queries: []query{
			{g.errorRatio(s, slo.BurnWindows[0]), legend("5m")}, {g.errorRatio(s, hour), legend("1h")},
			{g.errorRatio(s, day), legend("1d")},
			{budget, "allowed"},
		},
		overrides: []override{dashed(3, bad)},
	}, lineStyle{}))
	b.add(12, 9, timeline(view{
		title: "Alerts", about: "Firing alerts of this SLO.",
		unit: unitNone, none: "no firing alerts", steps: above(good, from(1, bad)),
		maps: []mapping{{Type: "value", Options: map[string]mappedValue{"1": {Text: "firing", Color: bad}}}},
		queries: []query{{`max without (instance, job) (` + s.and(`alertstate="firing"`).of("ALERTS") + `)`,
			"{{alertname}} {{tier}} " + braces(g.labels)}},
	}))

	b.row("Events")
	b.add(12, 8, lines(view{
		title: "Valid and bad",
		about: "Events per second over the last five minutes. Slices per second if the SLO counts slices.",
		unit:  unitRate, none: notRules, steps: plain(), min: number(0),
		queries: []query{{g.valid(s), legend("valid")}, {g.bad(s), legend("bad")}},
	}, lineStyle{}))
	b.add(12, 8, bars(view{
		title: "Bad events of the last day", about: "Number of bad events in the last 24 hours, by group.",
		unit: unitShort, none: noEvents, steps: above(neutral), min: number(0),
		queries: []query{{g.badOver(s, day), legend("")}},
	}))

	if g.any(hasForecast) {
		g.forecastRow(b, engine, legend)
	}

	if g.any(func(s *slo.SLO) bool { return s.Indicator.Kind == slo.KindCompletion }) {
		const noWork = "no data: the SLO is not one of completion, or nothing is in flight"
		b.row("Work in flight")
		b.add(8, 8, lines(view{
			title: "In flight by stage", about: "Work that has started and not finished, by stage, including overdue work.",
			unit: unitShort, none: noWork, steps: plain(), min: number(0),
			queries: []query{
				{"sum by (" + series.LabelStage + ") (" + engine.of(series.InFlight.Name) + ")", "{{" + series.LabelStage + "}}"}},
		}, lineStyle{stacked: true}))
		b.add(8, 8, lines(view{
			title: "Overdue, and not tracked",
			about: "Work whose deadline passed, by stage, and starts of the last hour that were not tracked because " +
				"max_in_flight was reached.",
			unit: unitShort, none: noWork, steps: above(good, from(1, bad)), min: number(0),
			queries: []query{
				{"sum by (" + series.LabelStage + ") (" + engine.of(series.InFlightOverdue.Name) + ")",
					"overdue {{" + series.LabelStage + "}}"},
				{"sum (increase(" + ofSLO.of(series.InFlightUntracked.Name) + "[1h]))", "not tracked"},
			},
		}, lineStyle{}))
		b.add(8, 8, lines(view{
			title: "Oldest work in flight", about: "Time since the start of the oldest work that has not finished.",
			unit: "s", none: noWork, steps: plain(), min: number(0),
			queries: []query{{"max (" + ofSLO.of(series.InFlightOldest.Name) + ")", "oldest"}},
		}, lineStyle{}))
	}

	if g.any(func(s *slo.SLO) bool { return s.Indicator.Kind != slo.KindPrometheus }) {
		b.row("Engine")
		b.add(8, 8, lines(view{
			title: "Coverage", about: "Share of the SLO's window that was observed. Dropped events lower it.",
			unit: unitRatio, none: notCounted, steps: above(bad, from(0.5, warning), from(0.9, good)),
			min: number(0), max: number(1),
			queries: []query{{engine.of(series.Coverage.Name), legend("{{instance}}")}},
		}, lineStyle{thresholds: true}))
		b.add(8, 8, lines(view{
			title: "Budget by engine",
			about: "Error budget left according to each engine, which counts late events in the minute they happened. With " +
				"several engines, each sees its own part of the events.",
			unit: unitRatio, none: notCounted, steps: budgetSteps(), max: number(1),
			queries: []query{{engine.of(series.BudgetRemaining.Name), legend("{{instance}}")}},
		}, lineStyle{}))
		b.add(8, 8, lines(view{
			title: "Arrivals", about: "Events per second at the time of arrival, by result.",
			unit: unitRate, none: notCounted, steps: plain(), min: number(0),
			queries: []query{{"sum by (" + strings.Join(append(slices.Clone(g.labels), series.LabelResult), ", ") + ") (rate(" +
				engine.of(series.Events.Name) + interval + "))", legend("{{result}}")}},
		}, lineStyle{stacked: true}))
	}
	return b
}
