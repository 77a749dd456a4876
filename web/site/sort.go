package site

import (
	"maps"
	"net/url"
	"slices"
)

// SortKey is a column by which a list can be sorted.
type SortKey string

// Sorting is the order of a list by one column.
type Sorting[T any] struct {
	By  func(a, b *T) int // nil: as the report has them
	Has func(r *T) bool   // rows without data are last, whatever the direction; nil: all rows have data
}

// Order sorts rows; equal ones keep their order.
func (s Sorting[T]) Order(rows []*T, reverse bool) {
	if s.By == nil {
		if reverse {
			slices.Reverse(rows)
		}
		return
	}
	slices.SortStableFunc(rows, func(a, b *T) int { return s.compare(a, b, reverse) })
}

func (s Sorting[T]) compare(a, b *T, reverse bool) int {
	switch {
	case s.Has != nil && s.Has(a) != s.Has(b):
		if s.Has(a) {
			return -1
		}
		return 1
	case reverse:
		return -s.By(a, b)
	}
	return s.By(a, b)
}

// Column is one heading of a sorted list.
type Column struct {
	Name  string
	Class string
	Href  string // sorts by it; "" if it can't be sorted
	Sort  string // aria-sort of the column that the list is sorted by

	Key SortKey // "" if it can't be sorted
}

// SortedBy reads from a query how a list is sorted: by one of the sortings, or else by that of first.
func SortedBy[T any](q url.Values, sortings map[SortKey]Sorting[T], first SortKey) (key SortKey, reverse bool) {
	key = SortKey(q.Get("sort"))
	if _, ok := sortings[key]; !ok {
		key = first
	}
	return key, q.Get("dir") == "desc"
}

// Headings gives the columns the addresses that sort by them, with the parameters that the list keeps. The column that
// the list is sorted by turns the order round.
func (site *Site) Headings(path string, kept url.Values, columns []Column, key SortKey, reverse bool) []Column {
	for i := range columns {
		c := &columns[i]
		if c.Key == "" {
			continue
		}
		to := maps.Clone(kept)
		to.Del("dir")
		to.Set("sort", string(c.Key))
		if c.Key == key {
			c.Sort = "ascending"
			if reverse {
				c.Sort = "descending"
			} else {
				to.Set("dir", "desc")
			}
		}
		c.Href = site.Href(path, to)
	}
	return columns
}
