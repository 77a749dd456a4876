package web

import (
	"maps"
	"net/url"
)

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
func (ui *UI) sortable(columns []column, path string, kept url.Values, key sortKey, reverse bool) []column {
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

func (ui *UI) columns(q url.Values, key sortKey, reverse bool) []column {
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
