package ui

import (
	"cmp"
	"slices"
	"time"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/site"
)

// sortKey is a column by which the list can be sorted.
type sortKey string

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

// sorting is the order of a list by one column.
type sorting[T any] struct {
	by  func(a, b *T) int // nil: as the report has them
	has func(r *T) bool   // rows without data are last, whatever the direction; nil: all rows have data
}

// order sorts rows; equal ones keep the order of the report.
func (s sorting[T]) order(rows []*T, reverse bool) {
	if s.by == nil {
		if reverse {
			slices.Reverse(rows)
		}
		return
	}
	slices.SortStableFunc(rows, func(a, b *T) int { return s.compare(a, b, reverse) })
}

func (s sorting[T]) compare(a, b *T, reverse bool) int {
	switch {
	case s.has != nil && s.has(a) != s.has(b):
		if s.has(a) {
			return -1
		}
		return 1
	case reverse:
		return -s.by(a, b)
	}
	return s.by(a, b)
}

func hasBudget(r *sla.SLOReport) bool { return r.Budget.HasData }

var sorts = map[sortKey]sorting[sla.SLOReport]{
	byWorst: {by: func(a, b *sla.SLOReport) int {
		return cmp.Or(severity(a)-severity(b), cmp.Compare(a.Budget.Remaining, b.Budget.Remaining))
	}},
	byName: {},
	byTarget: {by: func(a, b *sla.SLOReport) int {
		return cmp.Compare(b.SLO.Objective.Ratio(), a.SLO.Objective.Ratio())
	}},
	byNow: {func(a, b *sla.SLOReport) int {
		return cmp.Compare(lastHour(a).SLI, lastHour(b).SLI)
	}, func(r *sla.SLOReport) bool { return lastHour(r).HasData }},
	bySLI:      {func(a, b *sla.SLOReport) int { return cmp.Compare(a.Budget.SLI, b.Budget.SLI) }, hasBudget},
	byBudget:   {func(a, b *sla.SLOReport) int { return cmp.Compare(a.Budget.Remaining, b.Budget.Remaining) }, hasBudget},
	byBurn:     {func(a, b *sla.SLOReport) int { return cmp.Compare(worstBurn(b).Rate, worstBurn(a).Rate) }, hasBudget},
	byTraffic:  {by: func(a, b *sla.SLOReport) int { return cmp.Compare(b.Rate, a.Rate) }},
	byCoverage: {by: func(a, b *sla.SLOReport) int { return cmp.Compare(a.Coverage, b.Coverage) }},
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

// column is one heading of a sorted list.
type column struct {
	Name  string
	Class string
	Href  string // sorts by it; "" if it can't be sorted
	Sort  string // aria-sort of the column that the list is sorted by

	key sortKey // "" if it can't be sorted
}

func (ui *Handler) columns() []column {
	columns := []column{
		{Name: "State", key: byWorst},
		{Name: "SLO", key: byName},
		{Name: "Objective", Class: "num", key: byTarget},
		{Name: "Last hour", Class: "num", key: byNow},
		{Name: "SLI", Class: "num", key: bySLI},
		{Name: "Budget left", Class: "budget", key: byBudget},
		{Name: "24 hours", Class: "hours"},
		{Name: "Worst burn", Class: "num", key: byBurn},
		{Name: "Traffic", Class: "num", key: byTraffic},
		{Name: "Coverage", Class: "num", key: byCoverage},
	}
	if ui.Opt.Alerts != nil {
		columns = append(columns, column{Name: "Alerts", Class: "num", key: byAlerts})
	}
	return columns
}
