package dashboards

import (
	"slices"
	"time"

	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/slo"
)

const (
	hour = time.Hour
	day  = 24 * time.Hour
)

// Words that stand where there is no value.
const (
	noEvents     = "no data: no valid events in the window"
	noScore      = "no data: no component has data"
	notRules     = "no data: are the recording rules loaded?"
	noViolations = "no event threshold was exceeded"
	notEngine    = "no data: the engine is not scraped"
)

// budgetSteps colours what is left of a budget as the engine judges it.
func budgetSteps() []step { return above(bad, from(1e-9, warning), from(slo.AtRiskRemaining, good)) }

// burnSteps colours a burn rate: at 1 the budget lasts exactly its period.
func burnSteps() []step { return above(good, from(1, warning), from(6, bad)) }

// overviewBoard answers whether what was agreed is kept, and where not.
func (g *generator) overviewBoard() *board {
	b := g.board(UIDOverview, "SLA overview",
		"Whether agreements are met: composite scores, the components that lost the most points, error budgets, and "+
			"violations of event thresholds.")
	b.Templating.List = g.slaVariables()
	s, a := g.picked(g.labels), g.pickedAgreements()

	b.row("Now")
	if g.agreements {
		b.add(12, 6, stat(view{
			title: "Composite score",
			about: "Score of each agreement over its window, 0 to 100. Red below its critical threshold, orange below its " +
				"warning threshold. A score can look good while a component misses its objective: see the components below.",
			unit: unitScore, decimals: 2, none: noScore, steps: g.scoreSteps(),
			queries: []query{{g.long(a, series.RecordedCompositeScore), g.slaLegend()}},
		}))
	}
	count := func(title, about, expr string, steps []step) *panel {
		return stat(
			view{title: title, about: about, unit: unitShort, none: notRules, steps: steps, queries: []query{{expr, title}}})
	}
	b.add(3, 6, count("Budgets exhausted", "SLOs and groups with no error budget left in their window.",
		"count("+g.remaining(s)+" <= 0) or vector(0)", above(good, from(1, bad))))
	b.add(3, 6, count("Budgets at risk", "SLOs and groups with less than a fifth of their error budget left.",
		"count("+g.remaining(s)+" < "+slo.FormatRatio(slo.AtRiskRemaining)+" > 0) or vector(0)",
		above(good, from(1, warning))))
	b.add(
		3, 6, count("Without data", "SLOs without a valid event in the window of any group. No data never counts as good.",
			"count("+selection{g.service + `=~"$service"`}.of(series.Objective)+" unless on ("+g.id+") "+
				g.remaining(selection{g.service + `=~"$service"`})+") or vector(0)",
			above(good, from(1, warning))))
	b.add(3, 6, count("Firing alerts", "Firing alerts of the selected services.",
		`count(ALERTS{alertstate="firing",`+g.service+`=~"$service"}) or vector(0)`, above(good, from(1, bad))))

	if g.agreements {
		b.row("Agreements")
		scores := []query{{g.long(a, series.RecordedCompositeScore), g.slaLegend()}}
		b.add(12, 8, lines(view{
			title: "Scores over time", about: "Score of each agreement over its window. Dashed lines are the alert thresholds.",
			unit: unitScore, none: noScore, steps: g.scoreSteps(), max: number(100), queries: scores,
		}, lineStyle{thresholds: true}))
		var recent []query
		for _, w := range g.alertWindows() {
			recent = append(recent, query{g.windowed(a, series.CompositeScoreOver(slo.FormatDuration(w)), w),
				g.slaLegend() + ", " + slo.FormatDuration(w)})
		}
		if recent == nil {
			recent = scores
		}
		b.add(12, 8, lines(view{
			title: "Recent scores",
			about: "Scores over the alert window of each agreement that has one. A score over a month hardly changes within " +
				"minutes.",
			unit: unitScore, none: noScore, steps: g.scoreSteps(), max: number(100), queries: recent,
		}, lineStyle{thresholds: true}))

		agreements := view{
			title: "Agreements",
			about: "Score of each agreement, and its lowest and highest possible value if components have no data. The three " +
				"are equal if all components have data.",
			unit: unitScore, none: noScore, steps: plain(),
			queries: []query{
				{"1 * " + g.long(a, series.RecordedCompositeScore), g.slaLegend()},
				{"1 * " + g.long(a, series.RecordedCompositeLow), g.slaLegend()},
				{"1 * " + g.long(a, series.RecordedCompositeHigh), g.slaLegend()},
			},
		}
		columns := append([]column{{field: series.LabelService, name: "Service"},
			{field: series.LabelSLA, name: "Agreement"}}, labelColumns(g.slaLabels)...)
		columns = append(columns,
			column{field: value(agreements, 0), name: "Score", unit: unitScore, steps: g.scoreSteps()},
			column{field: value(agreements, 1), name: "Lowest", unit: unitScore, steps: plain()},
			column{field: value(agreements, 2), name: "Highest", unit: unitScore, steps: plain()},
		)
		b.add(12, 9, table(agreements, "Score", columns...))

		points := g.long(a, series.RecordedComponentScore)
		weight := " * on (" + series.LabelService + ", " + series.LabelSLA + ", " +
			series.LabelComponent + ") group_left () " +
			selection{series.LabelService + `=~"$service"`}.of(series.ComponentWeight)
		components := view{
			title: "Components that lost the most points",
			about: "Points that each component lost, and its attainment. Below 100 % its objective is missed, whatever the " +
				"score.",
			unit: unitScore, none: noScore, steps: plain(),
			queries: []query{
				{"100 * (1 - " + points + ")" + weight, g.slaLegend(series.LabelComponent)},
				{"1 * " + points, g.slaLegend(series.LabelComponent)},
			},
		}
		columns = append([]column{{field: series.LabelService, name: "Service"}, {field: series.LabelSLA, name: "Agreement"},
			{field: series.LabelComponent, name: "Component"}}, labelColumns(g.slaLabels)...)
		columns = append(columns,
			column{field: value(components, 0), name: "Points lost", unit: unitScore,
				steps: above(good, from(0.5, warning), from(5, bad))},
			column{field: value(components, 1), name: "Attainment", unit: unitRatio,
				steps: above(bad, from(0.9, warning), from(1, good))},
		)
		b.add(12, 9, table(components, "-Points lost", columns...))
	}

	b.row("Objectives")
	b.add(24, 11, g.budgetTable(s, g.labels, "Error budgets",
		"Every SLO and group, lowest remaining budget first. The indicator is the share of good events over the SLO's "+
			"window. A burn rate of 1 spends the budget in exactly one window."))
	b.add(24, 8, lines(view{
		title: "Error budgets over time",
		about: "Share of the error budget that is left in each SLO's window. Below 0 the budget is overspent.",
		unit:  unitRatio, none: noEvents, steps: budgetSteps(), max: number(1),
		queries: []query{{g.remaining(s), g.legend()}},
		links:   g.detailLinks("__field.labels." + g.id),
	}, lineStyle{thresholds: true}))

	if g.in.ReadsEvents() {
		b.add(24, 8, timeline(view{
			title: "Up or down",
			about: "Whether the last 5 minutes of each SLO and group met the objective, as the engine sees it.",
			unit:  unitNone, none: notEngine, steps: above(bad, from(1, good)),
			maps: []mapping{{Type: "value", Options: map[string]mappedValue{
				"0": {Text: "down", Color: bad, Index: 0}, "1": {Text: "up", Color: good, Index: 1},
			}}},
			queries: []query{{selection{series.LabelService + `=~"$service"`}.of(series.Up.Name),
				braces(append([]string{series.LabelSLO}, g.labels...))}},
		}))
	}

	if len(g.in.Thresholds) > 0 {
		b.row("Event thresholds")
		b.add(12, 8, g.thresholdBars())
		b.add(12, 8, g.thresholdLines())
		for _, p := range g.thresholdGroups() {
			b.add(12, 8, p)
		}
	}
	return b
}

// windowed selects a series that is recorded for a window of that length.
func (g *generator) windowed(s selection, name string, w time.Duration) string {
	if w > 6*hour {
		return g.long(s, name)
	}
	return s.of(name)
}

func labelColumns(labels []string) []column {
	var out []column
	for _, l := range labels {
		out = append(out, column{field: l, name: l})
	}
	return out
}

// sameLabels drops the label by which Sloth's names tell windows apart, so that
// values of several windows can stand in one row.
func (g *generator) sameLabels(expr string) string {
	if g.o.Names != rules.Sloth {
		return expr
	}
	return "max without (" + series.LabelSlothWindow + ") (" + expr + ")"
}

// budgetTable lists SLOs and groups, which have some of labels, with objective,
// indicator, budget and burn.
func (g *generator) budgetTable(s selection, labels []string, title, about string) *panel {
	v := view{
		title: title, about: about, unit: unitRatio, none: noEvents, steps: plain(),
		queries: []query{
			{g.sameLabels(g.objective(s)), g.legend()},
			{g.sameLabels(g.indicator(s)), g.legend()},
			{g.sameLabels("1 * " + g.remaining(s)), g.legend()},
			{g.sameLabels(g.burn(s, hour)), g.legend()},
			{g.sameLabels(g.burn(s, day)), g.legend()},
		},
	}
	columns := append([]column{{field: g.id, name: "SLO", links: g.detailLinks("__value.text")}}, labelColumns(labels)...)
	columns = append(columns,
		column{field: value(v, 0), name: "Objective", unit: unitRatio, steps: plain()},
		column{field: value(v, 1), name: "Indicator", unit: unitRatio, steps: plain()},
		column{field: value(v, 2), name: "Budget left", unit: unitRatio, steps: budgetSteps()},
		column{field: value(v, 3), name: "Burn 1h", unit: unitBurn, steps: burnSteps()},
		column{field: value(v, 4), name: "Burn 1d", unit: unitBurn, steps: burnSteps()},
	)
	return table(v, "Budget left", columns...).hide(g.service, g.name).precise("Objective", "Indicator")
}

// violations is how often event thresholds are exceeded, per second.
func violations() string {
	return "sum by (" + series.LabelSLAType + ", " + series.LabelSeverity + ") (rate(" +
		selection{series.LabelService + `=~"$service"`}.of(series.Violations.Name) + interval + "))"
}

// thresholdBars counts the violations of each event threshold in the last 24 hours.
func (g *generator) thresholdBars() *panel {
	return bars(view{
		title: "Violations in the last 24 hours",
		about: "Number of events of the last 24 hours that exceeded an event threshold, by threshold and severity.",
		unit:  unitShort, none: noViolations, steps: above(good, from(1, warning), from(1000, bad)), min: number(0),
		queries: []query{{
			"sum by (" + series.LabelSLAType + ", " + series.LabelSeverity + ") (" +
				selection{series.LabelService + `=~"$service"`}.of(series.ViolationsDay.Name) + ")",
			"{{" + series.LabelSLAType + "}}, {{" + series.LabelSeverity + "}}",
		}},
	})
}

// thresholdGroups counts them by the labels that thresholds are grouped by, a panel for each.
func (g *generator) thresholdGroups() []*panel {
	var labels []string
	for _, t := range g.in.Thresholds {
		labels = append(labels, series.GroupLabels(t.GroupBy)...)
	}
	slices.Sort(labels)
	labels = slices.Compact(labels)
	var out []*panel
	for _, l := range labels[:min(len(labels), MaxLabels)] {
		out = append(out, bars(view{
			title: "Violations by " + l + " in the last 24 hours",
			about: "Number of events of the last 24 hours that exceeded an event threshold, by " + l +
				" and severity, for thresholds that are grouped by it.",
			unit: unitShort, none: noViolations, steps: above(good, from(1, warning), from(1000, bad)), min: number(0),
			queries: []query{{
				"sum by (" + l + ", " + series.LabelSeverity + ") (" + selection{series.LabelService + `=~"$service"`,
					l + `!=""`}.of(series.ViolationsDay.Name) + ")",
				"{{" + l + "}}, {{" + series.LabelSeverity + "}}",
			}},
		}))
	}
	return out
}

// thresholdLines shows when event thresholds are exceeded.
func (g *generator) thresholdLines() *panel {
	return lines(view{
		title: "Violations over time", about: "Violations per second, by event threshold and severity.",
		unit: unitRate, none: noViolations, steps: above(good, from(0.001, bad)),
		queries: []query{{violations() + " > 0", "{{" + series.LabelSLAType + "}}, {{" + series.LabelSeverity + "}}"}},
	}, lineStyle{stacked: true})
}
