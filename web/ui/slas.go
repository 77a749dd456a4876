package ui

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/web/chart"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/respond"
	"github.com/sloengine/sloengine/web/site"
)

// slasPage is the data of the page "/slas".
type slasPage struct {
	site.Layout
	Loaded     bool
	Any        bool // the spec has agreements
	Filtered   bool
	Verdict    chart.Mark
	Headline   string
	Scope      string
	Tiles      []tile
	Columns    []column
	Cards      []slaCard
	Total      string
	Shown      string
	Prev       string
	Next       string
	Search     string
	Selects    []site.Choice
	Hidden     [][2]string
	Clear      string
	Thresholds []slaThresholdRow
	Reports    []site.Link
}

// CardsPerPage is how many agreements a page lists.
const CardsPerPage = 60

// slaParams are the parameters of the list's address.
var slaParams = []string{"sort", "dir", "refresh", "service", "state", "q"}

// slaFilter picks agreements. Empty fields pick all.
type slaFilter struct {
	service, state, search string
	group                  map[string]string
}

func newSLAFilter(q url.Values) slaFilter {
	state := q.Get("state")
	if state == "critical" || state == "warning" {
		state = "breached" // what links of earlier versions ask for
	}
	f := slaFilter{q.Get("service"), state, strings.ToLower(strings.TrimSpace(q.Get("q"))), site.Prefixed(q, site.GroupParam)}
	if !slices.ContainsFunc(chart.AgreementMarks, func(m chart.Mark) bool { return stateParam(m) == f.state }) {
		f.state = ""
	}
	return f
}

// stateParam is a mark's word as a parameter.
func stateParam(m chart.Mark) string { return strings.ReplaceAll(m.Word, " ", "_") }

func (f slaFilter) match(r *sla.SLAReport) bool {
	if f.service != "" && r.SLA.Service != f.service || f.state != "" && stateParam(chart.AgreementMark(r)) != f.state {
		return false
	}
	for k, v := range f.group {
		i := slices.Index(r.SLA.GroupBy, k)
		if i < 0 || i >= len(r.Group) || r.Group[i] != v {
			return false
		}
	}
	has := func(s string) bool { return strings.Contains(strings.ToLower(s), f.search) }
	return f.search == "" || has(r.SLA.Service+"/"+r.SLA.Name) || has(r.SLA.Description) || slices.ContainsFunc(r.Group, has) ||
		slices.ContainsFunc(r.Components, func(c sla.ComponentReport) bool { return has(c.Name) })
}

func (f slaFilter) pick(rep *sla.Report) []*sla.SLAReport {
	var out []*sla.SLAReport
	for i := range rep.SLAs {
		if f.match(&rep.SLAs[i]) {
			out = append(out, &rep.SLAs[i])
		}
	}
	return out
}

// byScore is a column that only agreements have, beside byWorst and byName.
const (
	byScore sortKey = "score"
	byLost  sortKey = "lost" // what the worst component lost
)

var slaSorts = map[sortKey]func(a, b *sla.SLAReport) int{
	byWorst: func(a, b *sla.SLAReport) int {
		return cmp.Or(slaSeverity(a)-slaSeverity(b), cmp.Compare(a.Score, b.Score))
	},
	byName:  func(a, b *sla.SLAReport) int { return 0 }, // as the report has them
	byScore: func(a, b *sla.SLAReport) int { return cmp.Compare(a.Score, b.Score) },
	byLost:  func(a, b *sla.SLAReport) int { return cmp.Compare(worstLoss(b), worstLoss(a)) },
}

func worstLoss(r *sla.SLAReport) float64 {
	if c := chart.WorstComponent(r); c != nil {
		return c.Lost
	}
	return 0
}

// orderSLAs sorts by a column; those without data are last by score whatever the
// direction, and equal ones keep the report's order.
func orderSLAs(rs []*sla.SLAReport, key sortKey, reverse bool) {
	if key == byName && reverse {
		slices.Reverse(rs)
		return
	}
	by := slaSorts[key]
	slices.SortStableFunc(rs, func(a, b *sla.SLAReport) int {
		if key != byWorst && key != byName {
			if last := noDataLast(a.HasData, b.HasData); last != 0 {
				return last
			}
		}
		if reverse {
			return -by(a, b)
		}
		return by(a, b)
	})
}

func (ui *Handler) slasPage(c *gin.Context) {
	v := ui.View()
	site.RefreshHeader(c)
	key := strings.Join([]string{v.Key(), "slas", c.Request.URL.RawQuery, respond.Theme(c)}, "\x00")
	if respond.NotModified(c, `W/"`+respond.Hash("slas", key)+`"`) {
		return
	}
	q := c.Request.URL.Query()
	p := slasPage{Layout: ui.Layout(c, v, "Agreements", "slas"), Loaded: v.Rep != nil, Search: format.Safe(q.Get("q"), format.MaxTitle)}
	if v.Rep != nil {
		ui.fillSLAs(&p, v, q)
	}
	ui.Page(c, http.StatusOK, "slas", p)
}

func (ui *Handler) fillSLAs(p *slasPage, v site.View, q url.Values) {
	f := newSLAFilter(q)
	p.Any = len(v.Rep.SLAs) > 0
	p.Filtered = f.service != "" || f.state != "" || f.search != "" || len(f.group) > 0
	p.Clear = ui.Href("/slas", keep(q, viewParams...))
	p.Hidden = site.Hidden(keep(q, viewParams...))
	p.Thresholds = thresholdRowsOf(v.Rep, v.Now, f.service)
	p.Reports = ui.reportLinks(v, f.service)
	p.Selects = slaChoices(v.Rep, f)
	ui.summariseSLAs(p, v.Rep, q, f)

	sort, reverse := sortKey(q.Get("sort")), q.Get("dir") == "desc"
	if slaSorts[sort] == nil {
		sort = byWorst
	}
	p.Columns = ui.slaColumns(q, sort, reverse)
	all := f.pick(v.Rep)
	orderSLAs(all, sort, reverse)
	p.Total = format.Plural(len(all), "group")
	start, _ := strconv.Atoi(q.Get("start"))
	if start < 0 || start >= len(all) {
		start = 0
	}
	end := min(start+CardsPerPage, len(all))
	for _, r := range all[start:end] {
		p.Cards = append(p.Cards, ui.newCard(v.Rep, r))
	}
	if len(all) > 0 {
		p.Shown = format.Count(start+1) + " to " + format.Count(end) + " of " + format.Count(len(all))
	}
	turn := func(to int) string {
		q := ui.keepSLA(q)
		if to > 0 {
			q.Set("start", strconv.Itoa(to))
		}
		return ui.Href("/slas", q)
	}
	if start > 0 {
		p.Prev = turn(max(0, start-CardsPerPage))
	}
	if end < len(all) {
		p.Next = turn(end)
	}
}

// keepSLA copies the parameters of the list that say what is shown and how.
func (ui *Handler) keepSLA(q url.Values) url.Values {
	out := keep(q, slaParams...)
	for k, v := range site.Prefixed(q, site.GroupParam) {
		out.Set(site.GroupParam+k, v)
	}
	return out
}

func slaChoices(rep *sla.Report, f slaFilter) []site.Choice {
	services := map[string]bool{}
	for i := range rep.SLAs {
		services[rep.SLAs[i].SLA.Service] = true
	}
	by := site.Choice{Name: "state", Label: "State", Any: "All states"}
	for _, m := range chart.AgreementMarks {
		by.Options = append(by.Options, site.Option{Value: stateParam(m), Word: m.Word, On: stateParam(m) == f.state})
	}
	return []site.Choice{{Name: "service", Label: "Service", Any: "All services", Options: site.SelectOptions(services, f.service)}, by}
}

// summariseSLAs fills the headline and one tile per state with its count.
func (ui *Handler) summariseSLAs(p *slasPage, rep *sla.Report, q url.Values, f slaFilter) {
	state := f.state
	f.state = ""
	n := map[chart.Mark]int{}
	names := map[*sla.Agreement]bool{}
	all := f.pick(rep)
	for _, r := range all {
		n[chart.AgreementMark(r)]++
		names[r.SLA] = true
	}
	for _, m := range chart.AgreementMarks {
		if m.Word == "informs only" && n[m] == 0 {
			continue // most specs have none
		}
		to := ui.keepSLA(q)
		on := state == stateParam(m)
		if to.Del("state"); !on {
			to.Set("state", stateParam(m)) // the second click takes the filter off again
		}
		p.Tiles = append(p.Tiles, tile{m, format.Count(n[m]), ui.Href("/slas", to), on, n[m] == 0})
	}
	breached := chart.Bad("breached")
	switch {
	case len(all) == 0:
		p.Verdict, p.Headline = chart.None(""), "Nothing to show"
	case n[breached] > 0:
		p.Verdict, p.Headline = breached, "Agreements: "+format.Count(n[breached])+" breached"
	case n[chart.OK("met")] == 0:
		p.Verdict, p.Headline = chart.None(""), "No data yet"
	default:
		p.Verdict, p.Headline = chart.OK(""), "All agreements are met"
		if n[chart.None("no data")] > 0 {
			p.Headline = "All agreements with data are met"
		}
	}
	p.Scope = format.Plural(len(names), "agreement") + ", " + format.Plural(len(all), "group")
}

func (ui *Handler) slaColumns(q url.Values, key sortKey, reverse bool) []column {
	return ui.sortable([]column{
		{Name: "State", key: byWorst},
		{Name: "Agreement", key: byName},
		{Name: "Score", Class: "num", key: byScore},
		{Name: "Points earned and lost", Class: "pts"},
		{Name: "Worst component", key: byLost},
	}, "/slas", ui.keepSLA(q), key, reverse)
}
