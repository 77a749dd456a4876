package ui

import (
	"context"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/chart"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/respond"
	"github.com/sloengine/sloengine/web/site"
	"github.com/sloengine/sloengine/web/status"
)

// listPage is the data of the page "/".
type listPage struct {
	site.Layout
	Loaded     bool // there is a report
	Filtered   bool
	Verdict    chart.Mark // the worst that there is
	Headline   string     // the same as a sentence
	Scope      string     // how much the list is about
	Tiles      []tile
	HasAlerts  bool       // the engine evaluates alerts
	Alerts     []alertRow // the worst
	Others     []alertRow // shown on request
	MoreAlerts int
	AllAlerts  string
	Cards      []scoreCard
	MoreSLAs   int
	AllSLAs    string
	Columns    []column
	Rows       []row
	Total      string // rows on all pages
	Shown      string // such as "1 to 100 of 1,200"
	Prev       string
	Next       string
	Search     string
	Selects    []site.Choice
	Hidden     [][2]string // parameters that the filter form keeps
	Clear      string
	Thresholds []slaThresholdRow
	First      *firstEvent
	NoSLOs     bool
	Source     string
}

// scoreCard is an agreement in short, as a link to all that is known of it.
type scoreCard struct {
	slaCard
	Href string
}

// firstAlerts is how many alerts stand above the list; the others are a click away.
const firstAlerts = 5

// Parameters of the list's address. Those of the view survive a change of the
// filter, and the other way round.
var (
	viewParams   = []string{"sort", "dir", "refresh"}
	filterParams = []string{"service", "state", "q", "slo", labelChoice}
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
	if !site.KnownState(f.State) {
		f.State = ""
	}
	alerts, digest := ui.Alerts(site.AlertFilter{Active: true, Service: f.Service})
	key := strings.Join([]string{v.Key(), c.Request.URL.RawQuery, c.Request.Host, strconv.FormatBool(c.Request.TLS != nil), digest, respond.Theme(c)}, "\x00")
	site.RefreshHeader(c)
	if respond.NotModified(c, `W/"`+respond.Hash("list", key)+`"`) {
		return
	}
	p := listPage{Layout: ui.Layout(c, v, "Service levels", "list"), Loaded: v.Rep != nil, Search: format.Safe(q.Get("q"), format.MaxTitle), Source: format.Safe(string(f.SLO), format.MaxTitle)}
	p.Filtered = f.Service != "" || f.State != "" || f.Search != "" || f.SLO != "" || len(f.Labels) > 0 || len(f.Group) > 0
	p.Clear = ui.Href("/", keep(q, viewParams...))
	if v.Rep != nil {
		ui.fillAlerts(v, &p, alerts)
		if len(p.Alerts) > firstAlerts+1 {
			p.Alerts, p.Others = p.Alerts[:firstAlerts], p.Alerts[firstAlerts:]
		}
		if !ui.fillList(c, v, &p, q, f) {
			respond.Partial(c)
		}
	}
	ui.Page(c, http.StatusOK, "list", p)
}

// fillList fills in what a report says. It reports whether everything could be
// had in time.
func (ui *Handler) fillList(c *gin.Context, v site.View, p *listPage, q url.Values, f site.Filter) (complete bool) {
	p.NoSLOs = len(v.Rep.SLOs) == 0
	p.First = ui.firstEvent(c.Request, v.Rep)
	p.Selects = ui.choices(v.Rep, q, f)
	ui.summarise(v.Rep, p, q, f)
	p.Thresholds = newThresholdRows(v.Rep, v.Now)

	cards := worstFirst(v.Rep, f.Service)
	if n := len(cards); n > shownCards {
		p.MoreSLAs, p.AllSLAs = n-shownCards, ui.Href("/slas", keep(q, "service"))
		cards = cards[:shownCards]
	}
	for _, r := range cards {
		p.Cards = append(p.Cards, scoreCard{ui.newCard(v.Rep, r), ui.Href("/slas", url.Values{"service": {r.SLA.Service}})})
	}

	key, reverse := sortKey(q.Get("sort")), q.Get("dir") == "desc"
	if sorts[key] == nil && key != byAlerts {
		key = byWorst
	}
	p.Columns = ui.columns(q, key, reverse)
	p.Hidden = site.Hidden(keep(q, slices.Concat(viewParams, []string{"slo"})...))

	active := countAlerts(ui.Opt.Alerts)
	rows := f.Pick(v.Rep)
	if key == byAlerts {
		orderByAlerts(rows, active, reverse)
	} else {
		order(rows, key, reverse)
	}
	total := len(rows)
	start, _ := strconv.Atoi(q.Get("start"))
	start = max(0, start)
	if start >= total {
		start = 0
	}
	rows = rows[start:min(start+ui.Opt.PageSize, total)]
	p.Total = format.Plural(total, "service level")
	if total > 0 {
		p.Shown = format.Count(start+1) + " to " + format.Count(start+len(rows)) + " of " + format.Count(total)
	}
	turn := func(to int) string {
		q := keep(q, listParams...)
		if to > 0 {
			q.Set("start", strconv.Itoa(to))
		}
		return ui.Href("/", q)
	}
	if start > 0 {
		p.Prev = turn(max(0, start-ui.Opt.PageSize))
	}
	if start+len(rows) < total {
		p.Next = turn(start + len(rows))
	}

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
		out := ui.NewRow(r)
		out.State, out.Bar, out.Hours = ui.drawn.marks[out.Mark], out.Gauge.SVG(), ui.drawn.none
		out.Alerts, out.AlertsClass = active.text(r)
		if i < len(hours) && hours[i] != "" {
			out.Hours = hours[i]
		}
		p.Rows = append(p.Rows, out)
	}
	return ctx.Err() == nil
}

// tile counts the SLOs in one state and links to them.
type tile struct {
	Mark  chart.Mark
	Count string
	Href  string
	On    bool
	None  bool // nothing is in this state
}

// summarise says how things are: one sentence, and how many are in each state.
func (ui *Handler) summarise(rep *sla.Report, p *listPage, q url.Values, f site.Filter) {
	f.State = ""
	n := map[slo.State]int{}
	services, ids := map[string]bool{}, map[slo.ID]bool{}
	all := f.Pick(rep)
	for _, r := range all {
		n[r.State]++
		services[r.SLO.ID.Service()], ids[r.SLO.ID] = true, true
	}
	for _, s := range site.States {
		to := keep(q, listParams...)
		on := q.Get("state") == string(s)
		if to.Del("state"); !on {
			to.Set("state", string(s)) // the second click takes the filter off again
		}
		p.Tiles = append(p.Tiles, tile{chart.StateMark(s), format.Count(n[s]), ui.Href("/", to), on, n[s] == 0})
	}
	switch bad, risk := n[slo.StateExhausted], n[slo.StateAtRisk]; {
	case len(all) == 0:
		p.Verdict, p.Headline = chart.None(""), "Nothing to show"
	case bad > 0 && risk > 0:
		p.Verdict, p.Headline = chart.StateMark(slo.StateExhausted), format.Plural(bad, "error budget")+" exhausted, "+format.Count(risk)+" at risk"
	case bad > 0:
		p.Verdict, p.Headline = chart.StateMark(slo.StateExhausted), format.Plural(bad, "error budget")+" exhausted"
	case risk > 0:
		p.Verdict, p.Headline = chart.StateMark(slo.StateAtRisk), format.Plural(risk, "error budget")+" at risk"
	case n[slo.StateOK] == 0:
		p.Verdict, p.Headline = chart.StateMark(slo.StateNoData), "No data yet"
	default:
		p.Verdict, p.Headline = chart.StateMark(slo.StateOK), "All objectives are met"
		if n[slo.StateNoData] > 0 {
			p.Headline = "All objectives with data are met"
		}
	}
	p.Scope = fmt.Sprintf("%s, %s in %s", format.Plural(len(ids), "objective"), format.Plural(len(all), "group"), format.Plural(len(services), "service"))
}

// keep copies the named parameters and, where the filter is kept, those that
// filter by labels.
func keep(q url.Values, names ...string) url.Values {
	byLabel := slices.Contains(names, "slo") // the filters are kept
	out := url.Values{}
	for k, v := range q {
		switch {
		case len(v) == 0:
		case slices.Contains(names, k) && v[0] != "", byLabel && (strings.HasPrefix(k, site.LabelParam) || strings.HasPrefix(k, site.GroupParam)):
			out.Set(k, v[0])
		}
	}
	return out
}

func ingestFigures(i status.IngestStatus) []site.Figure {
	f := func(name string, n uint64, note string, bad bool) site.Figure {
		return site.Figure{Name: name, Value: format.Compact(n), Title: format.Count(n), Note: note, Bad: bad && n > 0}
	}
	return []site.Figure{
		f("Accepted", i.Accepted, "durable and counted", false),
		f("Duplicate", i.Duplicates, "known ids, counted once", false),
		f("Late", i.Late, "put into their own minute", false),
		f("Rejected", i.Rejected, "not valid, not taken", true),
		f("Refused", i.Refused, "taken but not countable: dead letters", true),
	}
}
