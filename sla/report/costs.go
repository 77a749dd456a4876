package report

import (
	"cmp"
	"slices"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

// Counted is what the line counted over the period, for its cost.
func (r *SLO) Counted() sla.Counted {
	return sla.Counted{
		SLO: r.Now.SLO, Group: r.Now.Group, Bad: r.Net.Counts.Bad, Time: max(0, r.Span.Duration()-r.Corrected),
		Coverage: r.Coverage, Sampled: r.Now.Sampled(), Whole: true,
	}
}

// Cost is what the violations of one line cost; nil if its SLO has no cost. It is compared with nothing unless the SLO
// has no groups.
func (r *SLO) Cost() *sla.SLOCost {
	x := r.Counted()
	x.Whole = len(x.SLO.GroupBy) == 0
	return x.Cost()
}

// Costs are what the violations of all lines cost; nil if no SLO has a cost.
func (r *Report) Costs() *sla.Costs {
	all := make([]sla.Counted, len(r.SLOs))
	for i := range r.SLOs {
		all[i] = r.SLOs[i].Counted()
	}
	return sla.NewCosts(all)
}

// AgreementCosts are what the violations of an agreement's components cost; nil if none has a cost.
func (r *Report) AgreementCosts(x *SLA) *sla.Costs {
	return sla.AgreementCosts(&x.SLAReport, func(id slo.ID) *sla.SLOReport {
		i, ok := slices.BinarySearchFunc(r.SLOs, id, func(s SLO, id slo.ID) int { return cmp.Compare(s.Now.SLO.ID, id) })
		if !ok {
			return nil
		}
		return r.SLOs[i].Now
	})
}
