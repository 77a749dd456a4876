package rules

import (
	"slices"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

// Expressible is the part of a spec that PromQL can compute: without SLOs on volumes, since the days, weeks and months
// of a time zone are no windows of PromQL, and without the agreements that one is a component of. The engine exports
// what it knows of both.
func (in Spec) Expressible() Spec {
	if !slices.ContainsFunc(in.SLOs, onCalendar) {
		return in
	}
	left := map[slo.ID]bool{}
	for _, s := range in.SLOs {
		left[s.ID] = onCalendar(s)
	}
	in.SLOs = slices.DeleteFunc(slices.Clone(in.SLOs), onCalendar)
	in.Agreements = slices.DeleteFunc(slices.Clone(in.Agreements), func(a *sla.Agreement) bool {
		return slices.ContainsFunc(a.Components, func(c sla.Component) bool { return left[c.SLO] })
	})
	return in
}

func onCalendar(s *slo.SLO) bool { return s.Indicator.Kind == slo.KindVolume }
