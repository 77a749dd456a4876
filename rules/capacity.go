package rules

import (
	"github.com/sloengine/sloengine/rules/series"
)

// utilization records which share of its capacity a throughput uses, by the events of all engines together. When the
// capacity will be reached is no rule: PromQL cannot compare the same hours of five weeks and follow their median
// trend.
func (r *sloRules) utilization() (short, long []Rule) {
	c := r.s.Indicator.Capacity
	if c.IsZero() {
		return nil, nil
	}
	events := sumBy(r.groups, r.rate5m(series.CapacityEvents.Name+"{"+series.LabelSLOID+`="`+string(r.s.ID)+`"}`))
	short = []Rule{{Record: series.CapacityUsed5m, Expr: events + " / " + num(c.PerSecond()), Labels: r.labels}}
	long = []Rule{
		{Record: series.CapacityUsed1h, Expr: "avg_over_time(" + r.series(series.CapacityUsed5m) + "[1h])"},
		{Record: series.CapacityUsedPeak, Expr: "max_over_time(" + r.series(series.CapacityUsed1h) + "[7d])"},
	}
	return short, long
}
