package ui

import (
	"cmp"
	"slices"
	"time"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/site"
)

type (
	sortKey        = site.SortKey
	sorting[T any] = site.Sorting[T]
	column         = site.Column
)

// The columns. Their natural order puts first what a reader looks for.
const (
	byWorst    sortKey = "worst"
	byName     sortKey = "name"
	byTarget   sortKey = "objective"
	byNow      sortKey = "now" // over the last hour
	bySLI      sortKey = "sli"
	byBudget   sortKey = "budget"
	byBurn     sortKey = "burn"
	byTraffic  sortKey = "traffic"
	byCoverage sortKey = "coverage"
	byAlerts   sortKey = "alerts" // see alertCounts.compare
)

func severity(r *sla.SLOReport) int {
	i := slices.Index(site.States, r.State)
	if r.Informative {
		i += len(site.States) // never alerts: after everything that does
	}
	return i
}

func hasBudget(r *sla.SLOReport) bool { return r.Budget.HasData }

var sorts = map[sortKey]sorting[sla.SLOReport]{
	byWorst: {By: func(a, b *sla.SLOReport) int {
		return cmp.Or(severity(a)-severity(b), cmp.Compare(a.Budget.Remaining, b.Budget.Remaining))
	}},
	byName: {},
	byTarget: {By: func(a, b *sla.SLOReport) int {
		return cmp.Compare(b.SLO.Objective.Ratio(), a.SLO.Objective.Ratio())
	}},
	byNow: {By: func(a, b *sla.SLOReport) int { return cmp.Compare(lastHour(a).SLI, lastHour(b).SLI) },
		Has: func(r *sla.SLOReport) bool { return lastHour(r).HasData }},
	bySLI: {By: func(a, b *sla.SLOReport) int { return cmp.Compare(a.Budget.SLI, b.Budget.SLI) }, Has: hasBudget},
	byBudget: {By: func(a, b *sla.SLOReport) int { return cmp.Compare(a.Budget.Remaining, b.Budget.Remaining) },
		Has: hasBudget},
	byBurn: {By: func(a, b *sla.SLOReport) int { return cmp.Compare(worstBurn(b).Rate, worstBurn(a).Rate) },
		Has: hasBudget},
	byTraffic:  {By: func(a, b *sla.SLOReport) int { return cmp.Compare(b.Rate, a.Rate) }},
	byCoverage: {By: func(a, b *sla.SLOReport) int { return cmp.Compare(a.Coverage, b.Coverage) }},
}

// lastHour is the budget over the last hour alone: its SLI is the indicator now.
// The zero Budget means that nothing is known.
func lastHour(r *sla.SLOReport) slo.Budget {
	for _, b := range r.Burns {
		if b.Window == time.Hour && !b.Period && b.HasData {
			return slo.NewBudget(r.SLO.Objective, b.Counts)
		}
	}
	return slo.Budget{}
}

// worstBurn is the fastest burn over the short windows; the period's own burn
// is the budget itself and left out. The zero Burn means that nothing is known.
func worstBurn(r *sla.SLOReport) slo.Burn {
	var worst slo.Burn
	for _, b := range r.Burns {
		if !b.Period && b.HasData && (!worst.HasData || b.Rate > worst.Rate) {
			worst = b
		}
	}
	return worst
}

func (ui *Handler) columns() []column {
	columns := []column{
		{Name: "State", Key: byWorst},
		{Name: "SLO", Key: byName},
		{Name: "Objective", Class: "num", Key: byTarget},
		{Name: "Last hour", Class: "num", Key: byNow},
		{Name: "SLI", Class: "num", Key: bySLI},
		{Name: "Budget left", Class: "budget", Key: byBudget},
		{Name: "24 hours", Class: "hours"},
		{Name: "Worst burn", Class: "num", Key: byBurn},
		{Name: "Traffic", Class: "num", Key: byTraffic},
		{Name: "Coverage", Class: "num", Key: byCoverage},
	}
	if ui.Opt.Alerts != nil {
		columns = append(columns, column{Name: "Alerts", Class: "num", Key: byAlerts})
	}
	return columns
}
