package ui

import (
	"context"
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
	"github.com/sloengine/sloengine/web/alertpage"
	"github.com/sloengine/sloengine/web/chart"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/overview"
	"github.com/sloengine/sloengine/web/respond"
	"github.com/sloengine/sloengine/web/site"
)

// listPage is the data of the page "/".
type listPage struct {
	listHead
	HasAlerts  bool            // the engine evaluates alerts
	Alerts     []alertpage.Row // the worst
	Others     []alertpage.Row // shown on request
	MoreAlerts int
	AllAlerts  string
	Cards      []slaCard // the worst agreements
	MoreSLAs   int
	AllSLAs    string
	Rows       []row
	First      *firstEvent
	NoSLOs     bool
	Source     string
	Open       string // how many incidents are open; "" if none is
}

// firstAlerts is how many alerts stand above the list; the others are a click away.
const firstAlerts = 5

// Parameters of the list's address. Those of the view survive a change of the
// filter, and the other way round.
var (
	viewParams   = []string{"sort", "dir", "refresh"}
	filterParams = []string{"service", "state", "q", "slo", labelChoice, site.LabelParam, site.GroupParam}
	listParams   = slices.Concat(viewParams, filterParams)
)

// labelChoice is the parameter that picks one label as name=value; a form can't
// make the label.<name> that links and the API use.
const labelChoice = "label"

func (ui *Handler) listPage(c *gin.Context) {
	v := ui.View()
	q := c.Request.URL.Query()
	f := site.NewFilter(q)
	if name, value, ok := strings.Cut(q.Get(labelChoice), "="); ok {
		f.Labels[name] = value
	}
	if !site.KnownState(f.State) && f.State != stateFiring {
		f.State = ""
	}
	alerts, digest := ui.Alerts(site.AlertFilter{Active: true})
	incidents := ui.openIncidents()
	key := strings.Join([]string{incidents, v.Key(), c.Request.URL.RawQuery, c.Request.Host,
		strconv.FormatBool(c.Request.TLS != nil), digest,
		strconv.FormatBool(alertpage.MaySilence(ui.Site, c)), respond.Theme(c)}, "\x00")
	site.RefreshHeader(c)
	if respond.NotModified(c, `W/"`+respond.Hash("list", key)+`"`) {
		return
	}
	p := listPage{listHead: ui.newListHead(c, v, "Service levels", "list", v.Rep != nil && len(v.Rep.SLOs) > 0),
		Source: format.Safe(string(f.SLO), format.MaxTitle), Open: incidents}
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

// stateFiring filters the list by groups on which a page fires. They are in none of the other states there.
const stateFiring = "firing"

// pick returns the groups that a filter of the list lets through.
func (ui *Handler) pick(rep *sla.Report, f site.Filter, active site.ActiveAlerts) []*sla.SLOReport {
	want := f.State
	if want == stateFiring {
		f.State = ""
	}
	return slices.DeleteFunc(f.Pick(rep), func(r *sla.SLOReport) bool {
		return want != "" && active.Paging(r) != (want == stateFiring)
	})
}

// fillList fills in what a report says. It reports whether everything could be
// had in time.
func (ui *Handler) fillList(c *gin.Context, v site.View, p *listPage, q url.Values, f site.Filter,
	alerts []*state.Alert) (complete bool) {
	active := ui.ActiveAlerts()
	p.NoSLOs = len(v.Rep.SLOs) == 0
	p.First = ui.firstEvent(c.Request, v.Rep)
	p.Selects = ui.choices(v.Rep, q, f)
	ui.summarise(v.Rep, p, q, alerts, active)
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
	by[byAlerts] = sorting[sla.SLOReport]{by: mostAlerts(active)}
	rows := ui.pick(v.Rep, f, active)
	by[byWorst] = sorting[sla.SLOReport]{by: pagesFirst(active, rows)}
	if p.Total = format.Plural(len(rows), "service level"); p.Filtered {
		p.Total = shownOf(len(rows), len(v.Rep.SLOs))
	}
	l := listAddress{"/", q, listParams}
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
	for i, r := range rows {
		out := ui.NewRow(r, active.Paging(r))
		out.State, out.Bar, out.Hours = ui.drawn.marks[out.Mark], out.Gauge.SVG(), ui.drawn.none
		out.Alerts, out.AlertsClass = alertsText(active.Of(r))
		if i < len(hours) && hours[i] != "" {
			out.Hours = hours[i]
		}
		p.Rows = append(p.Rows, out)
	}
	return ctx.Err() == nil
}

// summarise says how things are: one sentence, and how many are in each state. It is always about everything, whatever
// the filter shows: no page may be overlooked because of a filter.
func (ui *Handler) summarise(rep *sla.Report, p *listPage, q url.Values, alerts []*state.Alert,
	active site.ActiveAlerts) {
	all, services := overview.Summarise(rep, alerts, ui.Silencing())
	quiet, firing := maps.Clone(all.States), 0
	for i := range rep.SLOs {
		if r := &rep.SLOs[i]; active.Paging(r) {
			quiet[r.State]--
			firing++
		}
	}
	l := listAddress{"/", q, viewParams}
	if ui.Opt.Alerts != nil {
		p.Tiles = append(p.Tiles, ui.newTile(l, chart.Firing, stateFiring, firing))
	}
	for _, s := range site.States {
		p.Tiles = append(p.Tiles, ui.newTile(l, chart.StateMark(s), string(s), quiet[s]))
	}
	p.Verdict, p.Headline = all.Mark(), all.Headline()
	p.Scope = fmt.Sprintf("%s, %s in %s", format.Plural(all.Objectives, "objective"), format.Plural(all.Groups, "group"),
		format.Plural(len(services), "service"))
}
