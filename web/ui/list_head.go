package ui

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/chart"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/site"
)

// listHead is what the lists of service levels and of agreements show around their rows.
type listHead struct {
	site.Layout
	Loaded     bool // there is a report
	Filtered   bool
	Verdict    chart.Mark // the worst that there is
	Headline   string     // the same as a sentence
	Scope      string     // how much the list is about
	Tiles      []tile
	Columns    []column
	Total      string // rows on all pages
	Shown      string // such as "1 to 100 of 1,200"
	Prev       string
	Next       string
	Selects    []site.Choice
	Hidden     [][2]string // parameters that the filter form keeps
	Clear      string
	Thresholds []thresholdRow
}

// newListHead begins the page of a list, which has a filter form if there is anything to filter.
func (ui *Handler) newListHead(c *gin.Context, v site.View, title, nav string, form bool) listHead {
	p := listHead{Layout: ui.Layout(c, v, title, nav), Loaded: v.Rep != nil}
	if form {
		p.Search = site.Search{Text: format.Safe(c.Query("q"), format.MaxTitle), What: title, Form: "filter"}
	}
	return p
}

// shownOf says how much of a list a filter lets through.
func shownOf(n, of int) string { return format.Count(n) + " of " + format.Count(of) + " shown" }

type listAddress struct {
	path   string
	query  url.Values
	params []string // the parameters that links to other views of the list keep
}

// kept are the parameters of the address that a link keeps.
func (l listAddress) kept() url.Values { return keep(l.query, l.params...) }

// keep copies the named parameters. A name that ends in a dot stands for all that begin with it.
func keep(q url.Values, names ...string) url.Values {
	out := url.Values{}
	for k, v := range q {
		named := func(name string) bool {
			return k == name && v[0] != "" || strings.HasSuffix(name, ".") && strings.HasPrefix(k, name)
		}
		switch {
		case len(v) == 0 || !slices.ContainsFunc(names, named):
		case k == openParam:
			out[k] = slices.Clone(v[max(0, len(v)-maxOpened):])
		default:
			out.Set(k, v[0])
		}
	}
	return out
}

// tile counts the rows in one state and links to them.
type tile struct {
	Mark  chart.Mark
	Count string
	Href  string
	On    bool
	None  bool // nothing is in this state
}

// newTile counts everything, so it leads to everything in its state: l keeps no other filter.
func (ui *Handler) newTile(l listAddress, m chart.Mark, state string, n int) tile {
	to := l.kept()
	on := l.query.Get("state") == state
	if !on {
		to.Set("state", state) // the second click takes the filter off again
	}
	return tile{m, format.Count(n), ui.Href(l.path, to), on, n == 0}
}

// arrange sorts rows by the column that the address names, or the worst first, and returns the columns with the
// addresses that sort by them.
func arrange[T any](ui *Handler, l listAddress, rows []*T, sorts map[sortKey]sorting[T], columns []column) []column {
	key, reverse := site.SortedBy(l.query, sorts, byWorst)
	sorts[key].Order(rows, reverse)
	return ui.Headings(l.path, l.kept(), columns, key, reverse)
}

// turnPage returns the rows of the page that begins where the address says, and links to the pages around it.
func turnPage[T any](ui *Handler, p *listHead, l listAddress, rows []*T, size int) []*T {
	start, _ := strconv.Atoi(l.query.Get("start"))
	if start < 0 || start >= len(rows) {
		start = 0
	}
	end := min(start+size, len(rows))
	if len(rows) > 0 {
		p.Shown = format.Count(start+1) + " to " + format.Count(end) + " of " + format.Count(len(rows))
	}
	turn := func(to int) string {
		q := l.kept()
		if to > 0 {
			q.Set("start", strconv.Itoa(to))
		}
		return ui.Href(l.path, q)
	}
	if start > 0 {
		p.Prev = turn(max(0, start-size))
	}
	if end < len(rows) {
		p.Next = turn(end)
	}
	return rows[start:end]
}

// choices are what the filter offers: services, labels of the spec, groups, states.
func (ui *Handler) choices(rep *sla.Report, q url.Values, f site.Filter) []site.Choice {
	services, labels, groups := map[string]bool{}, map[string]bool{}, map[string]map[string]bool{}
	var last *slo.SLO
	var of []map[string]bool // the values of its groupings
	for i := range rep.SLOs {
		r := &rep.SLOs[i]
		if r.SLO != last { // the groups of an SLO follow each other
			last, of = r.SLO, of[:0]
			services[r.SLO.ID.Service()] = true
			for k, v := range r.SLO.Labels {
				labels[k+"="+v] = true
			}
			for _, name := range r.SLO.GroupBy {
				if groups[name] == nil {
					groups[name] = map[string]bool{}
				}
				of = append(of, groups[name])
			}
		}
		for k, v := range r.Group {
			if k < len(of) && len(of[k]) <= shownValues && !of[k][v] {
				of[k][v] = true
			}
		}
	}
	out := []site.Choice{
		{Name: "service", Label: "Service", Any: "All services", Options: site.SelectOptions(services, f.Service)}}
	if len(labels) > 0 {
		out = append(out, site.Choice{Name: labelChoice, Label: "Label", Any: "All labels",
			Options: site.SelectOptions(labels, q.Get(labelChoice))})
	}
	pairs := map[string]bool{}
	for name, values := range groups {
		for v := range values {
			if len(values) <= shownValues { // too many to choose from are searched for
				pairs[name+"="+v] = true
			}
		}
	}
	if len(pairs) > 0 {
		options := site.SelectOptions(pairs, q.Get(groupChoice))
		for k := range options {
			if v := options[k].Value; strings.IndexByte(v, '=') == len(v)-1 {
				options[k].Word += slo.None
			}
		}
		out = append(out, site.Choice{Name: groupChoice, Label: "Group", Any: "All groups", Options: options})
	}
	byState := site.Choice{Name: "state", Label: "State", Any: "All states"}
	if ui.Opt.Alerts != nil {
		byState.Options = append(
			byState.Options, site.Option{Value: stateFiring, Word: chart.Firing.Word, On: f.State == stateFiring})
	}
	for _, s := range site.States {
		byState.Options = append(
			byState.Options, site.Option{Value: string(s), Word: chart.StateMark(s).Word, On: s == f.State})
	}
	return append(out, byState)
}

// shownValues is how many values of a grouping the filter offers.
const shownValues = 50

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
