package app

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/sloengine/sloengine/cmd/sloengine/config"
	"github.com/sloengine/sloengine/ingest/servicebudget"
	"github.com/sloengine/sloengine/slo/spec"
	"github.com/sloengine/sloengine/web/status"
)

// checkGroups refuses a spec by which a service could have more groups than its budget. Every SLO and event threshold is
// bounded by its own max_groups, so their sum bounds the service.
func checkGroups(c *config.Config, sp *spec.Spec) error {
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
	for _, service := range slices.Sorted(maps.Keys(sums)) {
		if most := c.MaxGroups(service); most > 0 && sums[service] > most {
			return fmt.Errorf("service %s: its SLOs and event thresholds may have %d groups, and its budget is %d (lower max_groups in the spec, or raise budgets.groups)", service, sums[service], most)
		}
	}
	return nil
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
