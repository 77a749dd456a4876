package app

import (
	"cmp"
	"slices"
	"time"

	"github.com/sloengine/sloengine/ingest/servicebudget"
	"github.com/sloengine/sloengine/slo/spec"
	"github.com/sloengine/sloengine/web/status"
)

// groups is how many groups the SLOs and event thresholds of each service may have.
func groups(sp *spec.Spec) map[string]int {
	sums := map[string]int{}
	for _, s := range sp.SLOs {
		if len(s.GroupBy) > 0 {
			sums[s.ID.Service()] += cmp.Or(s.MaxGroups, spec.DefaultMaxGroups)
		}
	}
	for _, l := range sp.Thresholds {
		if len(l.GroupBy) > 0 {
			sums[l.Service] += cmp.Or(l.MaxGroups, spec.DefaultMaxGroups)
		}
	}
	return sums
}

// budgetStatus lists the services that have exceeded a budget.
func budgetStatus(b *servicebudget.Budgets, now time.Time) (out []status.BudgetStatus) {
	for _, s := range b.Status(now) {
		out = append(out, status.BudgetStatus{
			Service: s.Service, BytesPerSecond: s.Rule.Bytes, QueueShare: s.Rule.Queue, Waiting: s.Waiting, Refused: s.Refused, Lately: s.Lately,
		})
	}
	slices.SortFunc(out, func(a, b status.BudgetStatus) int { return cmp.Compare(a.Service, b.Service) })
	return out
}
