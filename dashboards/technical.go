package dashboards

import (
	"slices"

	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/slo"
)

// technicalBoard is for who looks for the cause: durations by type of event, and
// the parts that a process is made of, such as stages, tasks and integrations.
func (g *generator) technicalBoard() *board {
	b := g.board(UIDTechnical, "SLA technical",
		"For root-cause analysis: durations by event type, and the parts of a process, such as its stages, tasks and "+
			"integrations.")
	inner := not(g.forBusiness)
	labels := g.innerLabels()
	s := g.picked(labels)
	b.Templating.List = g.sloVariables(labels)
	if g.timed() {
		b.Templating.List = append(b.Templating.List,
			several("type", "Event type", "Types of events.", series.LabelType,
				series.EventDuration.Name+`_count{service=~"$service"}`))
	}
	b.Templating.List = append(b.Templating.List, hidden(varLatency, g.ids(both(isLatency, inner))),
		hidden(varErrors, g.ids(both(isErrors, inner))))

	if g.timed() {
		const unmeasured = "no data: no events with a duration"
		picked := selection{`service=~"$service"`, `type=~"$type"`}
		bucket := "sum by (service, type, le) (rate(" + picked.of(series.EventDuration.Name+"_bucket") + interval + "))"
		b.row("Durations")
		for _, q := range []struct{ share, name string }{{"0.5", "Median"}, {"0.95", "95th percentile"},
			{"0.99", "99th percentile"}} {
			v := view{
				title: q.name, about: q.name +
					" of durations by event type, interpolated between the bounds of the buckets. Use it for trends, not to judge " +
					"an objective.",
				unit: unitSeconds, none: unmeasured, steps: plain(),
				queries: []query{{"histogram_quantile(" + q.share + ", " + bucket + ")", "{{service}} {{type}}"}},
			}
			if q.share == "0.95" {
				v.about += " Dashed lines are the thresholds."
				g.markThresholds(&v)
			}
			b.add(8, 8, lines(v, lineStyle{log: true}))
		}
		b.add(12, 9, heat(view{
			title: "Distribution of durations",
			about: "Events per second by duration. The cells are the buckets of the service.",
			unit:  unitRate, none: unmeasured, steps: plain(),
			queries: []query{
				{"sum by (le) (rate(" + picked.of(series.EventDuration.Name+"_bucket") + interval + "))", "{{le}}"}},
		}))
		b.add(12, 9, lines(view{
			title: "Mean duration",
			about: "Mean duration by event type. A very slow event in a thousand is visible here before it affects a percentile.",
			unit:  unitSeconds, none: unmeasured, steps: plain(),
			queries: []query{{
				"sum by (service, type) (rate(" + picked.of(series.EventDuration.Name+"_sum") + interval +
					")) / (sum by (service, type) (rate(" +
					picked.of(series.EventDuration.Name+"_count") + interval + ")) > 0)", "{{service}} {{type}}",
			}},
		}, lineStyle{log: true}))
	}

	if g.in.ReadsEvents() {
		for _, d := range g.o.Dimensions {
			g.dimensionRow(b, d)
		}
	}
	for _, l := range labels {
		of := s.and(l + `!=""`)
		legend := braces([]string{g.name, l})
		b.row("By " + l)
		b.add(12, 10, g.budgetTable(of, g.besides(l), "Each "+l,
			"SLOs by "+l+", lowest remaining budget first. The indicator is over the window of each SLO."))
		b.add(12, 10, lines(view{
			title: "Error ratio by " + l, about: "Share of bad events over the last hour, by " + l + ".",
			unit: unitRatio, none: noEvents, steps: plain(), min: number(0),
			queries: []query{{g.errorRatio(of, hour), legend}}, links: g.detailLinks("__field.labels." + g.id),
		}, lineStyle{}))
		b.add(24, 7, lines(view{
			title: "Volume by " + l, about: "Valid events per second over the last five minutes, by " + l +
				". Slices per second for SLOs that count slices.",
			unit: unitRate, none: notRules, steps: plain(),
			queries: []query{{g.valid(of), legend}},
		}, lineStyle{}))
	}

	if g.any(hasCapacity) {
		g.capacityRow(b, s)
	}
	if g.any(both(isLatency, inner)) {
		b.row("Latency")
		b.add(12, 8, lines(view{
			title: "Events within threshold",
			about: "Share of events over the last hour within the threshold of their SLO. Each integration or task has its " +
				"own threshold. Dashed lines are the objectives.",
			unit: unitRatio, none: noEvents, steps: plain(), max: number(1),
			queries: []query{
				{"1 - " + g.errorRatio(g.only(s, varLatency), hour), g.legend()},
				{g.only(selection{g.service + `=~"$service"`}, varLatency).of(series.Objective), "objective of {{" + g.name + "}}"},
			},
			overrides: []override{dashed(1, bad)}, links: g.detailLinks("__field.labels." + g.id),
		}, lineStyle{}))
		b.add(12, 8, bars(view{
			title: "Latency budget left", about: "Share of the error budget of each latency SLO that is left in its window.",
			unit: unitRatio, decimals: 1, none: noEvents, steps: budgetSteps(), max: number(1),
			queries: []query{{g.remaining(g.only(s, varLatency)), g.legend()}}, links: g.detailLinks("__field.labels." + g.id),
		}))
	}
	if len(g.in.Thresholds) > 0 {
		b.row("Violations of event thresholds")
		b.add(12, 9, g.thresholdBars())
		b.add(12, 9, g.thresholdLines())
	}
	if g.any(both(isErrors, inner)) && len(labels) == 0 {
		b.row("Errors")
		b.add(24, 9, g.budgetTable(g.only(s, varErrors), g.labels, "Other SLOs",
			"SLOs that are in no agreement, lowest remaining budget first."))
	}
	return b
}

// besides lists a group label and those that SLOs are grouped by together with it.
func (g *generator) besides(label string) []string {
	return slices.DeleteFunc(slices.Clone(g.labels), func(l string) bool {
		return !g.any(func(s *slo.SLO) bool {
			of := g.facts[s].labels
			return slices.Contains(of, label) && slices.Contains(of, l)
		})
	})
}

// innerLabels are the group labels that no customer knows; without agreements
// nobody can say which those are, and all are.
func (g *generator) innerLabels() []string {
	return slices.DeleteFunc(slices.Clone(g.labels), func(l string) bool { return g.agreements && g.business[l] })
}
