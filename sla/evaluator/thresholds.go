package evaluator

import (
	"cmp"
	"slices"

	"github.com/sloengine/sloengine/internal/order"
	"github.com/sloengine/sloengine/sla"
)

func (t *tick) thresholdReport(p *thresholdPlan) sla.ThresholdReport {
	r := sla.ThresholdReport{Threshold: p.threshold}
	groups := t.of(p.indicator)
	for i := range groups {
		g := &groups[i]
		x := sla.ThresholdGroup{Group: g.Values, LastEvent: g.LastEvent}
		p.add(&x.Total, g.Total)
		p.add(&x.Day, g.Spans[t.day])
		p.add(&x.Month, g.Spans[t.month])
		r.Total.Add(x.Total)
		r.Day.Add(x.Day)
		r.Month.Add(x.Month)
		if x.LastEvent.After(r.LastEvent) {
			r.LastEvent = x.LastEvent
		}
		if len(p.threshold.GroupBy) > 0 {
			r.Groups = append(r.Groups, x)
		}
	}
	return r
}

// add puts the bins of a threshold where they belong: the first is within it, the others exceed it at one level each.
func (p *thresholdPlan) add(v *sla.Violations, bins []uint64) {
	for i, n := range bins {
		switch {
		case i == 0:
			v.Within += n
		case i <= len(p.levels) && p.levels[i-1].severity == critical:
			v.Critical += n
		default:
			v.Warning += n
		}
	}
}

func (t *tick) traffic() []sla.TrafficReport {
	out := make([]sla.TrafficReport, len(t.sums.Traffic))
	for i, x := range t.sums.Traffic {
		names, values := t.dimensionsOf(x.Service, x.Dimensions)
		out[i] = sla.TrafficReport{
			Service: x.Service, Type: x.Type, Outcome: x.Outcome, Severity: x.Severity,
			DimensionNames: names, DimensionValues: values,
			Count: x.Count, LastEvent: x.LastEvent,
		}
	}
	order.By(out, compareTraffic)
	return out
}

// dimensionsOf are the names of a service's dimensions, and the values for them. While a changed spec is on its way,
// one side may know more than the other.
func (t *tick) dimensionsOf(service string, values []string) (names, known []string) {
	names = t.dimensions[service]
	n := min(len(names), len(values))
	return names[:n], values[:n]
}

func compareTraffic(x, y *sla.TrafficReport) int {
	return cmp.Or(cmp.Compare(x.Service, y.Service), cmp.Compare(x.Type, y.Type), cmp.Compare(x.Outcome, y.Outcome),
		cmp.Compare(x.Severity, y.Severity), slices.Compare(x.DimensionValues, y.DimensionValues))
}

func (t *tick) durations() []sla.DurationReport {
	out := make([]sla.DurationReport, len(t.sums.Durations))
	for i, d := range t.sums.Durations {
		names, values := t.dimensionsOf(d.Service, d.Dimensions)
		out[i] = sla.DurationReport{
			Service: d.Service, Type: d.Type, Outcome: d.Outcome, DimensionNames: names, DimensionValues: values,
			Buckets: d.Buckets, Counts: d.Counts, Sum: d.Sum, SumSeconds: d.SumSeconds,
		}
	}
	order.By(out, func(x, y *sla.DurationReport) int {
		return cmp.Or(cmp.Compare(x.Service, y.Service), cmp.Compare(x.Type, y.Type), cmp.Compare(x.Outcome, y.Outcome),
			slices.Compare(x.DimensionValues, y.DimensionValues))
	})
	return out
}
