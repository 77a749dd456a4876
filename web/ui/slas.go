package ui

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/report"
	"github.com/sloengine/sloengine/web/chart"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/respond"
	"github.com/sloengine/sloengine/web/site"
)

// slasPage is the data of the page "/slas".
type slasPage struct {
	listHead
	Any     bool // the spec has agreements
	Cards   []slaCard
	Reports []site.Link
}

// CardsPerPage is how many agreements a page lists.
const CardsPerPage = 60

// slaParams are the parameters of the list's address.
var slaParams = []string{"sort", "dir", "refresh", "service", "state", "q", site.GroupParam}

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
	f := slaFilter{q.Get("service"), state, strings.ToLower(strings.TrimSpace(q.Get("q"))),
		site.Prefixed(q, site.GroupParam)}
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
	if !site.GroupHas(r.SLA.GroupBy, r.Group, f.group) {
		return false
	}
	has := func(s string) bool { return strings.Contains(strings.ToLower(s), f.search) }
	return f.search == "" || has(r.SLA.Service+"/"+r.SLA.Name) || has(r.SLA.Description) ||
		slices.ContainsFunc(r.Group, has) ||
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

func hasScore(r *sla.SLAReport) bool { return r.HasData }

var slaSorts = map[sortKey]sorting[sla.SLAReport]{
	byWorst: {By: compareWorst},
	byName:  {},
	byScore: {By: func(a, b *sla.SLAReport) int { return cmp.Compare(a.Score, b.Score) }, Has: hasScore},
	byLost:  {By: func(a, b *sla.SLAReport) int { return cmp.Compare(worstLoss(b), worstLoss(a)) }, Has: hasScore},
}

func worstLoss(r *sla.SLAReport) float64 {
	if c := chart.WorstComponent(r); c != nil {
		return c.Lost
	}
	return 0
}

func (ui *Handler) slasPage(c *gin.Context) {
	v := ui.View()
	site.RefreshHeader(c)
	key := strings.Join([]string{v.Key(), "slas", c.Request.URL.RawQuery, respond.Theme(c)}, "\x00")
	if respond.NotModified(c, `W/"`+respond.Hash("slas", key)+`"`) {
		return
	}
	q := c.Request.URL.Query()
	p := slasPage{listHead: ui.newListHead(c, v, "SLAs", "slas", v.Rep != nil && len(v.Rep.SLAs) > 0)}
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
	p.Thresholds = newThresholdRows(v.Rep, v.Now, f.service)
	p.Reports = ui.reportLinks(v, report.Query{Service: f.service})
	p.Selects = slaChoices(v.Rep, f)
	ui.summariseSLAs(p, v.Rep, q)

	all := f.pick(v.Rep)
	if p.Total = format.Plural(len(all), "group"); p.Filtered {
		p.Total = shownOf(len(all), len(v.Rep.SLAs))
	}
	l := listAddress{"/slas", q, slaParams}
	p.Columns = arrange(ui, l, all, slaSorts, slaColumns())
	for _, r := range turnPage(ui, &p.listHead, l, all, CardsPerPage) {
		p.Cards = append(p.Cards, ui.newCard(v.Rep, r))
	}
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
	return []site.Choice{
		{Name: "service", Label: "Service", Any: "All services", Options: site.SelectOptions(services, f.service)}, by}
}

// summariseSLAs fills the headline and one tile per state with its count, of all agreements whatever the filter shows.
func (ui *Handler) summariseSLAs(p *slasPage, rep *sla.Report, q url.Values) {
	n := map[chart.Mark]int{}
	names := map[*sla.Agreement]bool{}
	all := slaFilter{}.pick(rep)
	for _, r := range all {
		n[chart.AgreementMark(r)]++
		names[r.SLA] = true
	}
	for _, m := range chart.AgreementMarks {
		if m.Word == "not judged" && n[m] == 0 {
			continue // most specs have none
		}
		p.Tiles = append(p.Tiles, ui.newTile(listAddress{"/slas", q, viewParams}, m, stateParam(m), n[m]))
	}
	breached := chart.Bad("breached")
	switch {
	case len(all) == 0:
		p.Verdict, p.Headline = chart.None(""), "Nothing to show"
	case n[breached] > 0:
		p.Verdict, p.Headline = breached, "SLAs: "+format.Count(n[breached])+" breached"
	case n[chart.OK("met")] == 0:
		p.Verdict, p.Headline = chart.None(""), "No data yet"
	default:
		p.Verdict, p.Headline = chart.OK(""), "All SLAs are met"
		if n[chart.None("no data")] > 0 {
			p.Headline = "All SLAs with data are met"
		}
	}
	p.Scope = format.Plural(len(names), "SLA") + ", " + format.Plural(len(all), "group")
}

func slaColumns() []column {
	return []column{
		{Name: "State", Key: byWorst},
		{Name: "Agreement", Key: byName},
		{Name: "Score", Class: "num", Key: byScore},
		{Name: "Points earned and lost", Class: "pts"},
		{Name: "Worst component", Key: byLost},
	}
}
