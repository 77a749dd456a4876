package dashboards

import (
	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/slo"
)

// leadOrder is the label that a table of lead times is sorted by, of a name that no group can have. As text, a day is
// before an hour.
const leadOrder = "slo_lead"

// leading gives series their place in the order of lead times, as text: that of the hour is 0.
func leading(expr string) string {
	return `label_replace(label_join(` + expr + `, "` + leadOrder + `", "", "` + series.LabelAhead + `"), "` + leadOrder +
		`", "0", "` + series.LabelAhead + `", "1h")`
}

// forecastRow shows how the budget of one SLO will probably develop. Each engine forecasts from its own part of the
// events, so series of several engines are not added up.
func (g *generator) forecastRow(b *board, engine selection, legend func(string) string) {
	const none = "no data: the engine has no forecast of this SLO. Its page says why"
	remaining := func(ahead, quantile string) string {
		return engine.and(series.LabelAhead+`="`+ahead+`"`,
			series.LabelQuantile+`="`+quantile+`"`).of(series.ForecastRemaining.Name)
	}
	each := func(quantile string) string {
		return "sum without (" + series.LabelQuantile + ") (" +
			engine.and(series.LabelQuantile+`="`+quantile+`"`).of(series.ForecastRemaining.Name) + ")"
	}
	b.row("Forecast")
	v := view{
		title: "Budget ahead",
		about: "Error budget that will remain at times ahead: 90 % of the futures lie between low and high. The last " +
			"column is the probability that the budget is exhausted at some time until then.",
		unit: unitRatio, none: none, steps: plain(),
		queries: []query{
			{leading(each("0.05")), "Low"}, {leading(each("0.5")), "Median"}, {leading(each("0.95")), "High"},
			{leading(engine.and(series.LabelAhead + `=~"1h|1d|3d|7d|window_end"`).of(series.ForecastExhausted.Name)),
				"Exhausted by then"},
		},
	}
	columns := []column{{field: series.LabelAhead, name: "Ahead"}}
	for i, name := range []string{"Low", "Median", "High"} {
		columns = append(columns, column{field: value(v, i), name: name, unit: unitRatio, steps: budgetSteps()})
	}
	columns = append(columns, column{field: value(v, 3), name: "Exhausted by then", unit: unitRatio,
		steps: above(good, from(0.5, warning), from(0.8, bad))})
	b.add(12, 9, table(v, "", columns...).sorted(leadOrder).hide(series.LabelSLOID, series.LabelService, series.LabelSLO))
	b.add(12, 9, lines(view{
		title: "Budget now and in a week",
		about: "Error budget that is left, and the range that was forecast at each time for a week and for a day later.",
		unit:  unitRatio, none: none, steps: budgetSteps(), max: number(1),
		queries: []query{
			{engine.of(series.BudgetRemaining.Name), legend("now")},
			{remaining("7d", "0.05"), legend("in 7d, low")}, {remaining("7d", "0.95"), legend("in 7d, high")},
			{remaining("1d", "0.05"), legend("in 1d, low")}, {remaining("1d", "0.95"), legend("in 1d, high")},
		},
		overrides: []override{dashed(1, bad), dashed(2, good)},
	}, lineStyle{thresholds: true}))
	b.add(12, 7, lines(view{
		title: "Probability of an empty budget",
		about: "Probability that the budget is exhausted at some time up to the lead time. ErrorBudgetExhaustedSoon fires by " +
			"the one that the spec names.",
		unit: unitRatio, none: none, steps: above(good, from(0.5, warning), from(0.8, bad)), min: number(0), max: number(1),
		queries: []query{{engine.of(series.ForecastExhausted.Name), legend("{{" + series.LabelAhead + "}}")}},
	}, lineStyle{}))
	b.add(12, 7, stat(view{
		title: "Time until the budget is exhausted",
		about: "Time until the budget is exhausted: earlier in 5 % of the futures, and in half of them. Nothing is shown for " +
			"what lies beyond the forecast.",
		unit: unitSeconds, none: "not within the forecast", steps: above(bad, from(86400, warning), from(7*86400, good)),
		queries: []query{
			{engine.and(series.LabelQuantile + `="0.05"`).of(series.ForecastExhaustion.Name), legend("at the earliest")},
			{engine.and(series.LabelQuantile + `="0.5"`).of(series.ForecastExhaustion.Name), legend("median")},
		},
	}))
}

// hasForecast reports whether an engine can forecast the budget of an SLO.
func hasForecast(s *slo.SLO) bool {
	return s.Indicator.Kind != slo.KindPrometheus && s.Indicator.Kind != slo.KindVolume
}

func hasCapacity(s *slo.SLO) bool { return !s.Indicator.Capacity.IsZero() }

// capacityRow compares traffic with the capacities of the spec. The rules add up the events of all engines. What takes
// weeks of hours only an engine knows, of its own part of the events.
func (g *generator) capacityRow(b *board, s selection) {
	const none = "no data: no traffic, or the engine or the generated rules are missing"
	engine := append(selection{series.LabelService + `=~"$service"`}, s[1:]...) // the engine's own series have our labels
	legend := braces(append([]string{series.LabelSLO}, g.labels...))
	link := g.detailLinks("__field.labels." + g.id)
	used := s.of(series.CapacityUsed5m)
	b.row("Capacity")
	b.add(12, 8, lines(view{
		title: "Utilization",
		about: "Valid events of the last five minutes as a share of the capacity in the spec, by SLO and group, of all " +
			"engines together.",
		unit: unitRatio, none: none, steps: above(good, from(0.8, warning), from(1, bad)), min: number(0),
		queries: []query{{used, g.legend()}}, links: link,
	}, lineStyle{thresholds: true}))
	b.add(12, 8, lines(view{
		title: "Headroom",
		about: "Events per second that the capacity leaves, by SLO and group. Below zero, there is more traffic than " +
			"capacity.",
		unit: unitRate, none: none, steps: above(bad, from(0, good)),
		queries: []query{{g.perSLO("(1 - "+used+")", "*", series.Capacity), g.legend()}}, links: link,
	}, lineStyle{thresholds: true}))
	b.add(12, 7, bars(view{
		title: "Busiest hour",
		about: "Share of the capacity in the busiest hour of the last 7 days by the rules, and in the busiest hour of the " +
			"week by each engine, which looks at five weeks and their growth.",
		unit: unitRatio, decimals: 1, none: none, steps: above(good, from(0.8, warning), from(1, bad)), min: number(0),
		queries: []query{{g.long(s, series.CapacityUsedPeak), g.legend() + " last 7 days"},
			{engine.of(series.CapacityPeak.Name), legend + " with growth, {{instance}}"}},
	}))
	b.add(12, 7, stat(view{
		title: "Capacity reached on",
		about: "Day on which the busiest hour of the week is at the capacity, if traffic keeps growing as in the last " +
			"weeks: at the fastest and at the slowest growth. By each engine, of its own part of the events.",
		unit: "dateTimeAsIso", none: "not within twelve weeks", steps: plain(),
		queries: []query{
			{"(time() + " + engine.of(series.CapacityReached.Name) + ") * 1000", legend + " {{" + series.LabelBound + "}}"}},
	}))
}
