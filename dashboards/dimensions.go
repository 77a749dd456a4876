package dashboards

import "github.com/sloengine/sloengine/rules/series"

// dimensionRow shows the events of each value of a dimension, such as a stage, a task or an integration: how long they
// take, and how many fail. The reader picks values.
func (g *generator) dimensionRow(b *board, d string) {
	if d == dimensionErrorType && !g.timed() {
		return // every event that has one failed, so only its duration says something
	}
	name := "each_" + variableName(d)
	b.Templating.List = append(b.Templating.List,
		several(name, d, "Values of "+d+" in the panels by "+d+".", d,
			series.EngineEvents.Name+`{service=~"$service",`+d+`!=""}`))
	of := selection{`service=~"$service"`, d + `!=""`, d + `=~"$` + name + `"`}
	b.row("Events by " + d)
	if g.timed() {
		const unmeasured = "no data: no events with a duration"
		bucket := of.of(series.EventDuration.Name + "_bucket")
		b.add(8, 9, lines(view{
			title: "95th percentile by " + d,
			about: "95th percentile of durations by " + d + ", interpolated between the bounds of the buckets.",
			unit:  unitSeconds, none: unmeasured, steps: plain(),
			queries: []query{
				{"histogram_quantile(0.95, sum by (" + d + ", le) (rate(" + bucket + interval + "))) >= 0", "{{" + d + "}}"}},
		}, lineStyle{log: true}))
		b.add(8, 9, heat(view{
			title: "Distribution of durations by " + d, about: "Events per second by duration, of the picked values of " + d +
				". The cells are the buckets of the service.",
			unit: unitRate, none: unmeasured, steps: plain(),
			queries: []query{{"sum by (le) (rate(" + bucket + interval + "))", "{{le}}"}},
		}))
	}
	if d == dimensionErrorType {
		return
	}
	count := func(matchers ...string) string {
		return "sum by (" + d + ") (rate(" + of.and(matchers...).of(series.EngineEvents.Name) + interval + "))"
	}
	b.add(8, 9, lines(view{
		title: "Error rate by " + d, about: "Share of failed events by " + d +
			". Business refusals count as failures here, too.",
		unit: unitRatio, none: "no events", steps: plain(), min: number(0),
		queries: []query{{count(`outcome="failure"`) + " / (" + count() + " > 0)", "{{" + d + "}}"}},
	}, lineStyle{}))
}

// dimensionErrorType is the dimension that services have by default.
const dimensionErrorType = "error_type"
