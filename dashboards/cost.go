package dashboards

import (
	"time"

	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/slo"
)

const costWindow = 30 * 24 * time.Hour

func priced(s *slo.SLO) bool { return s.Cost != nil }

func compared(s *slo.SLO) bool { return priced(s) && s.Cost.Baseline.Per > 0 }

// costPanels show what the spec says that violations cost. Nothing adds up different SLOs, which can count the same
// event, or different currencies.
func (g *generator) costPanels(b *board, s selection, known []string) {
	cost := func(w time.Duration) string { return g.eventsOver(s, series.CostIncrease, w) }
	in := g.legend() + " in {{" + series.LabelCurrency + "}}"
	b.add(12, 8, lines(view{
		title: "Cost of violations per hour",
		about: "Cost of the bad events of each last hour by SLO and group, in the currency of the spec and without planned " +
			"maintenance.",
		unit: unitMoney, none: noEvents, steps: plain(), min: number(0),
		queries: []query{{cost(time.Hour), in}},
	}, lineStyle{}))
	v := view{
		title: "Cost of violations, last 30 days",
		about: "Cost by SLO and group, with its basis. An event can be bad for several SLOs, so do not add up the rows. " +
			"Planned maintenance is not included.",
		unit: unitMoney, none: noEvents, steps: plain(),
		queries: []query{{cost(costWindow), in}},
	}
	columns := append([]column{{field: g.id, name: "SLO", links: g.detailLinks("__value.text")}}, labelColumns(known)...)
	columns = append(columns, column{field: series.LabelBasis, name: "Basis"},
		column{field: series.LabelCurrency, name: "Currency"},
		column{field: value(v, 0), name: "Cost", unit: unitMoney, steps: plain()})
	b.add(12, 8, table(v, "-Cost", columns...).hide(g.service, g.name))
	if !g.any(compared) {
		return
	}
	all := selection{g.service + `=~"$service"`}
	seconds := " * on (" + g.id + ") group_left () " + g.observedOver(all, costWindow)
	before := all.of(series.CostBaseline) + seconds
	saving := "(" + before + " - on (" + g.id + ") (sum by (" + g.id + ") (" + g.eventsOver(all, series.CostIncrease,
		costWindow) + ") or on (" + g.id + ") 0 * " + all.of(series.CostBaseline) + "))"
	legend := "{{" + g.name + "}} in {{" + series.LabelCurrency + "}}"
	b.add(12, 8, stat(view{
		title: "Saving against the baseline, last 30 days",
		about: "Baseline of the spec for the time that was observed, without the cost of violations of all groups. Below " +
			"zero, violations cost more than before.",
		unit: unitMoney, decimals: 2, none: "no baseline", steps: above(bad, from(0, good)),
		queries: []query{{saving, legend}},
	}))
	if !g.any(func(s *slo.SLO) bool { return compared(s) && s.Cost.Investment.Per > 0 }) {
		return
	}
	invested := "(" + all.of(series.CostInvestment) + seconds + ")"
	b.add(12, 8, stat(view{
		title: "Return on investment, last 30 days",
		about: "Saving without the investment of the spec, as a share of the investment. Below zero, the investment does " +
			"not pay.",
		unit: unitRatio, decimals: 1, none: "no investment", steps: above(bad, from(0, good)),
		queries: []query{{"(" + saving + " - on (" + g.id + ") group_left () " + invested + ") / on (" + g.id +
			") group_left () " + invested, legend}},
	}))
}
