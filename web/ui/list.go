package ui

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/alertpage"
	"github.com/sloengine/sloengine/web/chart"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/overview"
	"github.com/sloengine/sloengine/web/respond"
	"github.com/sloengine/sloengine/web/site"
)

type listPage struct {
	listHead
	Say        *site.Headline  // nil if nothing fails
	HasAlerts  bool            // the engine evaluates alerts
	Alerts     []alertpage.Row // the worst
	Own        []alertpage.Row // on the engine itself
	Others     []alertpage.Row // shown on request
	MoreAlerts int
	AllAlerts  string
	Cards      []slaCard // the worst agreements
	MoreSLAs   int
	AllSLAs    string
	Rows       template.HTML
	First      *firstEvent
	Seen       string // "3 services send", of a page without data; "" if all spans are counted
	SeenHref   string
	URL        string // of this engine
	NoSLOs     bool
	Source     string
	Open       string // how many incidents are open; "" if none is
	Flat       bool   // a row is a group, not an SLO
	Other      site.Link
	Found      []site.Found // what else a search found
	Days       *daysPart    // nil without history
}

// firstAlerts is how many alerts stand above the list; the others are a click away.
const firstAlerts = 5

// Parameters of the list's address. Those of the view survive a change of the
// filter, and the other way round.
var (
	viewParams   = []string{"sort", "dir", "refresh", rowsParam, openParam}
	filterParams = []string{"service", "state", "q", "slo", labelChoice, groupChoice, site.LabelParam, site.GroupParam}
	listParams   = slices.Concat(viewParams, filterParams)
)

// labelChoice and groupChoice are the parameters that pick one label or group as name=value. A form can't make the
// label.<name> and group.<name> that links and the API use.
const (
	labelChoice = "label"
	groupChoice = "group"
)

// The list has a row for each SLO, or with rows=groups, and for a single SLO, a row for each group.
const (
	rowsParam = "rows"
	allGroups = "groups"
)

func (ui *Handler) listPage(c *gin.Context) {
	v := ui.View()
	q := c.Request.URL.Query()
	f := site.NewFilter(q)
	for param, of := range map[string]map[string]string{labelChoice: f.Labels, groupChoice: f.Group} {
		if name, value, ok := strings.Cut(q.Get(param), "="); ok {
			of[name] = value
		}
	}
	if !site.KnownState(f.State) && f.State != stateFiring && f.State != stateWaiting {
		f.State = ""
	}
	alerts, digest := ui.Alerts(site.AlertFilter{Active: true})
	incidents, say := ui.openIncidents(), ui.NewHeadline(ui.Situation(v), v.Now)
	told := ""
	if say != nil {
		told = say.Text
	}
	key := strings.Join([]string{incidents, told, v.Key(), c.Request.URL.RawQuery, c.Request.Host,
		strconv.FormatBool(c.Request.TLS != nil), digest,
		strconv.FormatBool(alertpage.MaySilence(ui.Site, c)), respond.Theme(c)}, "\x00")
	site.RefreshHeader(c)
	if respond.NotModified(c, `W/"`+respond.Hash("list", key)+`"`) {
		return
	}
	p := listPage{listHead: ui.newListHead(c, v, "SLOs", "list", v.Rep != nil && len(v.Rep.SLOs) > 0),
		Source: format.Safe(string(f.SLO), format.MaxTitle), Say: say}
	if say == nil || say.Sentence == nil { // else the sentence says it
		p.Open = incidents
	}
	p.Found = ui.Find(v.Rep, f.Search)
	p.Filtered = f.Service != "" || f.State != "" || f.Search != "" || f.SLO != "" || len(f.Labels) > 0 || len(f.Group) > 0
	p.Clear = ui.Href("/", keep(q, viewParams...))
	if v.Rep != nil {
		ui.fillAlerts(alertpage.NewRows(ui.Site, c, v.Now), v, &p, alerts)
		if len(p.Alerts) > firstAlerts+1 {
			p.Alerts, p.Others = p.Alerts[:firstAlerts], p.Alerts[firstAlerts:]
		}
		if !ui.fillList(c, v, &p, q, f, alerts) {
			respond.Partial(c)
		}
	}
	ui.Page(c, http.StatusOK, "list", p)
}

// openIncidents says which incidents are open; "" if none of severity critical is.
func (ui *Handler) openIncidents() string {
	if ui.Opt.Incidents == nil || !ui.Opt.Brief().State.Recovered() {
		return ""
	}
	mark, text, _ := site.OpenIncidents(ui.Opt.Incidents.View())
	if mark.Shape == "ok" {
		return ""
	}
	return text
}

// stateFiring filters the list by SLOs on which a paging alert fires. They are never ok, and else in the state of their
// worst budget, too.
const stateFiring = "firing"

// stateWaiting filters it by SLOs that are ok by old counts only.
const stateWaiting = "waiting"

// rowState is the state of a row as the filter has it.
func rowState(r *sla.SLOReport, active site.ActiveAlerts) slo.State {
	switch {
	case active.Paging(r):
		return stateFiring
	case r.Waiting():
		return stateWaiting
	}
	return r.State
}

// states are those in which the list counts and finds a row: that of the row, and the worst of its budgets if a paging
// alert fires and that budget is exhausted or at risk.
func (l *level) states(active site.ActiveAlerts) []slo.State {
	out := []slo.State{rowState(l.shown, active)}
	if out[0] != stateFiring {
		return out
	}
	for _, s := range []slo.State{slo.StateExhausted, slo.StateAtRisk} {
		if slices.ContainsFunc(l.groups, func(r *sla.SLOReport) bool { return r.State == s && !r.Waiting() }) {
			return append(out, s)
		}
	}
	return out
}

// levels are the rows of the list before they are sorted and paged, and how many there would be without a filter. Each
// SLO has the state of the group that stands for it, and is filtered by that.
func levels(rep *sla.Report, f site.Filter, flat bool, active site.ActiveAlerts) (out []*level, total int) {
	state := f.State
	f.State = ""
	picked := f.Pick(rep)
	if flat {
		total = len(rep.SLOs)
		for i, r := range picked {
			out = append(out, &level{r, picked[i : i+1 : i+1], 1})
		}
	} else {
		out, total = byLevel(rep, picked, worstGroup(active))
	}
	return slices.DeleteFunc(out, func(l *level) bool {
		return state != "" && !slices.Contains(l.states(active), state)
	}), total
}

// fillList fills in what a report says. It reports whether everything could be
// had in time.
func (ui *Handler) fillList(c *gin.Context, v site.View, p *listPage, q url.Values, f site.Filter,
	alerts []*state.Alert) (complete bool) {
	active := ui.ActiveAlerts()
	p.NoSLOs = len(v.Rep.SLOs) == 0
	p.First = ui.firstEvent(c.Request, v.Rep)
	if ui.Opt.Seen != nil && (p.NoSLOs || p.First != nil) {
		if n := len(ui.Opt.Seen()); n > 0 {
			p.Seen, p.URL = format.Plural(n, "service")+" sent", ui.ExternalURL(c.Request)
			p.SeenHref = ui.Href("/engine", nil) + "#seen"
		}
	}
	p.Selects = ui.choices(v.Rep, q, f)
	p.Thresholds = newThresholdRows(v.Rep, v.Now, "")

	cards := worstFirst(v.Rep, "")
	if n := len(cards); n > shownCards {
		p.MoreSLAs, p.AllSLAs = n-shownCards, ui.Href("/slas", nil)
		cards = cards[:shownCards]
	}
	for _, r := range cards {
		p.Cards = append(p.Cards, ui.newCard(v.Rep, r))
	}

	p.Hidden = site.Hidden(keep(q, slices.Concat(viewParams, []string{"slo", site.LabelParam, site.GroupParam})...))
	by := maps.Clone(sorts)
	by[byAlerts] = sorting[sla.SLOReport]{By: mostAlerts(active)}
	p.Flat = f.SLO != "" || q.Get(rowsParam) == allGroups // one SLO has its groups
	paging := active.Paging
	if p.Flat {
		paging = active.OwnPaging
	}
	of, total := levels(v.Rep, f, p.Flat, active)
	all := of
	if p.Filtered {
		all, _ = levels(v.Rep, site.Filter{}, q.Get(rowsParam) == allGroups, active)
	}
	ui.summarise(v.Rep, p, q, alerts, all, active)
	what := "SLO"
	if p.Flat {
		what = "group"
	}
	if p.Total = format.Plural(len(of), what); p.Filtered {
		p.Total = shownOf(len(of), total)
	}
	l := listAddress{"/", q, listParams}
	if f.SLO == "" {
		p.Other = ui.otherRows(l, p.Flat)
	}
	rows, shown := make([]*sla.SLOReport, len(of)), make(map[*sla.SLOReport]*level, len(of))
	for i, x := range of {
		rows[i], shown[x.shown] = x.shown, x
	}
	by[byWorst] = sorting[sla.SLOReport]{By: pagesFirst(rows, paging)}
	p.Columns = arrange(ui, l, rows, by, ui.columns())
	rows = turnPage(ui, &p.listHead, l, rows, ui.Opt.PageSize)

	// The page may be for more readers than the one who asked first.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Request.Context()), sparkBudget)
	defer cancel()
	var hours []template.HTML
	if ui.Opt.Counts != nil {
		var err error
		if hours, err = ui.sparks.draw(ctx, ui, v.Rep, rows); err != nil {
			ui.Opt.LogError("draw sparklines", err)
			cancel() // the page goes on without them
		}
	}
	complete = ctx.Err() == nil
	if ui.Opt.Counts != nil && !p.Flat && len(rows) > 0 {
		long, cancel := context.WithTimeout(context.WithoutCancel(ctx), daysBudget)
		defer cancel()
		part, err := ui.fillDays(long, v.Rep, rows[:min(len(rows), matrixSLOs)], active)
		switch {
		case err == nil:
			part.Open = !slices.ContainsFunc(alerts, func(a *state.Alert) bool { return a.State == state.Firing })
			if n := len(of); n > len(part.Rows) {
				part.Of = format.Count(len(part.Rows)) + " of " + format.Plural(n, "SLO") + ", "
			}
			p.Days = part
		case !errors.Is(err, context.DeadlineExceeded) && complete: // the hours say the same of a failure
			ui.Opt.LogError("draw the days", err)
			fallthrough
		default:
			complete = false
		}
	}
	var b site.Markup
	b.Grow(len(rows) * rowBytes)
	for i, r := range rows {
		out := ui.levelRows(shown[r], l, active)
		if i < len(hours) && hours[i] != "" {
			out[0].Hours = hours[i]
		}
		for k := range out {
			out[k].write(&b, p.HasAlerts)
		}
	}
	p.Rows = b.HTML()
	return complete
}

// summarise says how things are: one sentence, and how many are in each state. It is always about everything, whatever
// the filter shows: no page may be overlooked because of a filter.
func (ui *Handler) summarise(rep *sla.Report, p *listPage, q url.Values, alerts []*state.Alert, rows []*level,
	active site.ActiveAlerts) {
	all, services := overview.Summarise(rep, alerts, ui.Silencing())
	n := map[slo.State]int{}
	for _, x := range rows {
		for _, s := range x.states(active) {
			n[s]++
		}
	}
	l := listAddress{"/", q, viewParams}
	if ui.Opt.Alerts != nil {
		p.Tiles = append(p.Tiles, ui.newTile(l, chart.Firing, stateFiring, n[stateFiring]))
	}
	for _, s := range site.States {
		p.Tiles = append(p.Tiles, ui.newTile(l, chart.StateMark(s), string(s), n[s]))
	}
	if n[stateWaiting] > 0 || q.Get("state") == stateWaiting { // for minutes after a start
		p.Tiles = append(p.Tiles, ui.newTile(l, chart.Waiting, stateWaiting, n[stateWaiting]))
	}
	p.Verdict, p.Headline = all.Mark(), cmp.Or(tilesText(n, p.Flat, all.Silenced), all.Headline())
	p.Scope = fmt.Sprintf("%s (%s with breakdown) in %s", format.Plural(all.Objectives, "SLO"), format.Count(all.Groups),
		format.Plural(len(services), "service"))
	if all.Groups == all.Objectives {
		p.Scope = format.Plural(all.Objectives, "SLO") + " in " + format.Plural(len(services), "service")
	}
}

// stateWord is that of a state in a tile.
func stateWord(s slo.State) string {
	if s == stateFiring {
		return chart.Firing.Word
	}
	return chart.StateMark(s).Word
}

// tilesText says the tiles of what is bad in words, such as "2 SLOs firing, 1 exhausted"; "" if nothing is.
func tilesText(n map[slo.State]int, groups bool, silenced int) string {
	unit := "SLO"
	if groups {
		unit = "group"
	}
	var parts []string
	for _, s := range []slo.State{stateFiring, slo.StateExhausted, slo.StateAtRisk} {
		if n[s] == 0 {
			continue
		}
		text := format.Count(n[s])
		if len(parts) == 0 {
			text = format.Plural(n[s], unit)
		}
		text += " " + stateWord(s)
		if s == stateFiring && silenced > 0 {
			text += " (" + format.Plural(silenced, "paging alert") + " silenced)"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

// otherRows links to the other form of the list: with a row for each SLO, or for each group.
func (ui *Handler) otherRows(l listAddress, flat bool) site.Link {
	to := l.kept()
	if flat {
		to.Del(rowsParam)
		return site.Link{Text: "One row per SLO", Href: ui.Href(l.path, to)}
	}
	to.Set(rowsParam, allGroups)
	return site.Link{Text: "One row per group", Href: ui.Href(l.path, to)}
}
