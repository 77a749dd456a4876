package ui

import (
	"cmp"
	"maps"
	"net/url"
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
	byAlerts   sortKey = "alerts" // see orderByAlerts
)

func severity(r *sla.SLOReport) int {
	i := slices.Index(site.States, r.State)
	if r.Informative {
		i += len(site.States) // informs only: after everything that counts
	}
	return i
}

// noDataLast orders reports without data behind all others, whatever the direction.
func noDataLast(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

var sorts = map[sortKey]func(a, b *sla.SLOReport) int{
	byWorst: func(a, b *sla.SLOReport) int {
		return cmp.Or(severity(a)-severity(b), cmp.Compare(a.Budget.Remaining, b.Budget.Remaining))
	},
	byName:     func(a, b *sla.SLOReport) int { return 0 },
	byTarget:   func(a, b *sla.SLOReport) int { return cmp.Compare(b.SLO.Objective.Ratio(), a.SLO.Objective.Ratio()) },
	byNow:      func(a, b *sla.SLOReport) int { return cmp.Compare(lastHour(a).SLI, lastHour(b).SLI) },
	bySLI:      func(a, b *sla.SLOReport) int { return cmp.Compare(a.Budget.SLI, b.Budget.SLI) },
	byBudget:   func(a, b *sla.SLOReport) int { return cmp.Compare(a.Budget.Remaining, b.Budget.Remaining) },
	byBurn:     func(a, b *sla.SLOReport) int { return cmp.Compare(worstBurn(b).Rate, worstBurn(a).Rate) },
	byTraffic:  func(a, b *sla.SLOReport) int { return cmp.Compare(b.Rate, a.Rate) },
	byCoverage: func(a, b *sla.SLOReport) int { return cmp.Compare(a.Coverage, b.Coverage) },
}

// order sorts reports by a column; equal ones keep the order of ID and group.
func order(rs []*sla.SLOReport, key sortKey, reverse bool) {
	by := sorts[key]
	slices.SortStableFunc(rs, func(a, b *sla.SLOReport) int {
		last := 0
		switch key {
		case bySLI, byBudget, byBurn:
			last = noDataLast(a.Budget.HasData, b.Budget.HasData)
		case byNow:
			last = noDataLast(lastHour(a).HasData, lastHour(b).HasData)
		}
		if last != 0 {
			return last
		}
		c := by(a, b)
		if key == byName {
			c = site.CompareReports(a, b)
		}
		if reverse {
			return -c
		}
		return c
	})
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

// sortable gives the columns the addresses that sort the list at path by them, and
// keep the rest of its query; the column it is sorted by turns the order round.
func (ui *Handler) sortable(columns []column, path string, kept url.Values, key sortKey, reverse bool) []column {
	for i := range columns {
		c := &columns[i]
		if c.key == "" {
			continue
		}
		to := maps.Clone(kept)
		to.Del("dir")
		to.Set("sort", string(c.key))
		if c.key == key {
			c.Sort = "ascending"
			if reverse {
				c.Sort = "descending"
			} else {
				to.Set("dir", "desc")
			}
		}
		c.Href = ui.Href(path, to)
	}
	return columns
}

func (ui *Handler) columns(q url.Values, key sortKey, reverse bool) []column {
	columns := []column{
		{Name: "State", key: byWorst},
		{Name: "Service level", key: byName},
		{Name: "Objective", Class: "num", key: byTarget},
		{Name: "Last hour", Class: "num", key: byNow},
		{Name: "Indicator", Class: "num", key: bySLI},
		{Name: "Budget left", Class: "budget", key: byBudget},
		{Name: "24 hours", Class: "hours"},
		{Name: "Worst burn", Class: "num", key: byBurn},
		{Name: "Traffic", Class: "num", key: byTraffic},
		{Name: "Coverage", Class: "num", key: byCoverage},
	}
	if ui.Opt.Alerts != nil {
		columns = append(columns, column{Name: "Alerts", Class: "num", key: byAlerts})
	}
	return ui.sortable(columns, "/", keep(q, listParams...), key, reverse)
}
