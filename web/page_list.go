package web

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

// listPage is the data of the page "/".
type listPage struct {
	layout
	Loaded     bool // there is a report
	Filtered   bool
	Tiles      []tile
	HasAlerts  bool // the engine evaluates alerts
	Alerts     []alertRow
	MoreAlerts int
	AllAlerts  string
	Cards      []slaCard
	MoreSLAs   int
	AllSLAs    string
	Columns    []column
	Rows       []row
	Shown      string // such as "1 to 100 of 1,200"
	Prev       string
	Next       string
	Service    string
	StateIs    string
	Search     string
	Hidden     [][2]string // parameters that the filter form keeps
	Services   []string
	States     []stateOption
	Clear      string
	Limits     []limitRow
	Ingest     []figure
	First      *firstEvent
	NoSLOs     bool
	Source     string
}

// tile counts the SLOs in one state and links to them.
type tile struct {
	Mark  mark
	Count string
	Href  string
	On    bool
}

type column struct {
	Name  string
	Class string
	Href  string // sorts by it; "" if it can't be sorted
	Sort  string // aria-sort of the column that the list is sorted by
}

type stateOption struct{ Value, Word string }

// row is one SLO's group in the list.
type row struct {
	Mark        mark
	Informative bool
	Href        string
	Service     string
	Name        string
	Title       string
	Group       []label
	Objective   string
	Window      string
	SLI, RawSLI string
	Left        string
	RawLeft     string
	Gauge       gauge
	Spark       *spark
	Burn        string
	BurnWindow  string
	BurnClass   string
	Rate        string
	Events      string
	EventsFull  string
	Coverage    string
	Partial     bool
}

// gauge is a bar of what is left of a budget.
type gauge struct {
	Width string // 0 to 100
	Class string
	Label string
}

func sloMark(r *sla.SLOReport) mark {
	switch r.State {
	case slo.StateOK:
		return mark{"ok", "ok"}
	case slo.StateAtRisk:
		return mark{"risk", "at risk"}
	case slo.StateExhausted:
		return mark{"bad", "exhausted"}
	}
	return mark{"none", "no data"}
}

func stateMark(s slo.State) mark { return sloMark(&sla.SLOReport{State: s}) }

func newGauge(b slo.Budget, shape string) gauge {
	if !b.HasData {
		return gauge{"0", "none", "no data"}
	}
	g := gauge{Width: coord(100 * min(1, max(0, b.Remaining))), Class: shape, Label: percent(b.Remaining, 1) + " of the budget left"}
	if b.Remaining <= 0 {
		g.Width = "100" // the whole bar says that nothing is left
	}
	return g
}

func (w *Web) newRow(r *sla.SLOReport) row {
	s := r.SLO
	out := row{
		Mark: sloMark(r), Informative: r.Informative, Href: w.sloHref(r), Service: show(s.ID.Service(), shownName), Name: show(s.ID.Name(), shownName), Title: show(s.Description, shownTitle),
		Group: newLabels(s.GroupBy, r.Group), Objective: s.Objective.String(), Window: s.Window.String(),
		SLI: noValue, Left: noValue, Burn: noValue,
		Rate: perTime(r.Rate), Events: compact(r.Events.Valid()), EventsFull: count(r.Events.Valid()),
		Coverage: percent(r.Coverage, 0), Partial: r.Coverage < partialCoverage,
	}
	out.Gauge = newGauge(r.Budget, out.Mark.Shape)
	if r.Budget.HasData {
		out.SLI, out.Left = percent(r.Budget.SLI, sliDecimals(s.Objective)), percent(r.Budget.Remaining, 1)
	}
	if r.Corrected > 0 && r.Raw.HasData {
		out.RawSLI, out.RawLeft = percent(r.Raw.SLI, sliDecimals(s.Objective)), percent(r.Raw.Remaining, 1)
	}
	if b := worstBurn(r); b.HasData {
		out.Burn, out.BurnWindow = times(b.Rate), slo.FormatDuration(b.Window)
		switch {
		case burning(r):
			out.BurnClass = "hot"
		case b.Rate > 1:
			out.BurnClass = "warn"
		}
	}
	return out
}

// partialCoverage is the share of a window below which its numbers are marked
// as resting on a part of it.
const partialCoverage = 0.9

func (w *Web) listPage(c *gin.Context) {
	v := w.view()
	q := c.Request.URL.Query()
	f := newFilter(q)
	alerts, digest := w.alerts(alertFilter{active: true, service: f.service})
	if fresh(c, v.tag("list", c.Request.URL.RawQuery, c.Request.Host, digest)) {
		refreshHeader(c)
		return
	}
	if !knownState(f.state) {
		f.state = ""
	}
	p := listPage{layout: w.layout(c, v, "Service levels", "list"), Loaded: v.rep != nil, Service: f.service, StateIs: string(f.state), Search: show(q.Get("q"), shownTitle), Source: show(string(f.slo), shownTitle)}
	p.Filtered = f.service != "" || f.state != "" || f.search != "" || f.slo != "" || len(f.labels) > 0 || len(f.group) > 0
	p.Clear = w.href("/", keep(q, "sort", "dir", "refresh"))
	p.Ingest = ingestFigures(v.eng.Ingest)
	for _, s := range states {
		p.States = append(p.States, stateOption{string(s), stateMark(s).Word})
	}
	if v.rep != nil {
		w.fillAlerts(v, &p, alerts)
		w.fillList(c, v, &p, q, f)
	}
	w.page(c, http.StatusOK, "list", p)
}

func (w *Web) fillList(c *gin.Context, v view, p *listPage, q url.Values, f filter) {
	p.NoSLOs = len(v.rep.SLOs) == 0
	p.First = w.firstEvent(c.Request, v.rep)
	p.Services = services(v.rep)
	p.Tiles = w.tiles(v.rep, q, f)
	p.Limits = newLimitRows(v.rep, v.now)

	cards := worstFirst(v.rep, f.service)
	if n := len(cards); n > shownCards {
		p.MoreSLAs, p.AllSLAs = n-shownCards, w.href("/slas", keep(q, "service"))
		cards = cards[:shownCards]
	}
	for _, r := range cards {
		p.Cards = append(p.Cards, w.newCard(v.rep, r))
	}

	key, reverse := sortKey(q.Get("sort")), q.Get("dir") == "desc"
	if sorts[key] == nil {
		key = byWorst
	}
	p.Columns = w.columns(q, key, reverse)
	p.Hidden = hidden(keep(q, "sort", "dir", "refresh", "slo"))

	rows := f.pick(v.rep)
	order(rows, key, reverse)
	total := len(rows)
	start, _ := strconv.Atoi(q.Get("start"))
	start = max(0, start)
	if start >= total {
		start = 0
	}
	rows = rows[start:min(start+w.opt.PageSize, total)]
	if total > 0 {
		p.Shown = count(uint64(start+1)) + " to " + count(uint64(start+len(rows))) + " of " + count(uint64(total))
	}
	turn := func(to int) string {
		q := keep(q, "sort", "dir", "refresh", "service", "state", "q", "slo")
		if to > 0 {
			q.Set("start", strconv.Itoa(to))
		}
		return w.href("/", q)
	}
	if start > 0 {
		p.Prev = turn(max(0, start-w.opt.PageSize))
	}
	if start+len(rows) < total {
		p.Next = turn(start + len(rows))
	}

	ctx, cancel := context.WithTimeout(c.Request.Context(), sparkBudget)
	defer cancel()
	for _, r := range rows {
		out := w.newRow(r)
		if w.opt.History != nil {
			points, err := w.sparks.get(ctx, w.opt.History, v.rep, r)
			if err != nil {
				w.opt.LogError("draw a sparkline", err)
				cancel() // one failure is enough to know; the page goes on without the others
			}
			out.Spark = newSpark(points, r.SLO.Objective)
		}
		p.Rows = append(p.Rows, out)
	}
}

// keep copies the named parameters and those that filter by labels.
func keep(q url.Values, names ...string) url.Values {
	byLabel := slices.Contains(names, "slo") // the filters are kept
	out := url.Values{}
	for k, v := range q {
		switch {
		case len(v) == 0:
		case slices.Contains(names, k) && v[0] != "", byLabel && (strings.HasPrefix(k, labelParam) || strings.HasPrefix(k, groupParam)):
			out.Set(k, v[0])
		}
	}
	return out
}

// hidden are parameters for hidden fields of a form, in a fixed order. What
// can't be shown as it is is left out: it would not come back as it went.
func hidden(q url.Values) [][2]string {
	var out [][2]string
	for _, k := range slices.Sorted(maps.Keys(q)) {
		if v := q.Get(k); show(k, shownText) == k && show(v, shownText) == v {
			out = append(out, [2]string{k, v})
		}
	}
	return out
}

func (w *Web) tiles(rep *sla.Report, q url.Values, f filter) []tile {
	f.state = ""
	n := map[slo.State]uint64{}
	for _, r := range f.pick(rep) {
		n[r.State]++
	}
	var out []tile
	for _, s := range states {
		to := keep(q, "service", "q", "sort", "dir", "refresh", "slo")
		on := q.Get("state") == string(s)
		if !on {
			to.Set("state", string(s)) // the second click takes the filter off again
		}
		out = append(out, tile{stateMark(s), count(n[s]), w.href("/", to), on})
	}
	return out
}

func (w *Web) columns(q url.Values, key sortKey, reverse bool) []column {
	var out []column
	for _, col := range []struct {
		name, class string
		key         sortKey
	}{
		{"State", "", byWorst}, {"Service level", "", byName}, {"Objective", "num", byTarget}, {"Indicator", "num", bySLI}, {"Budget left", "budget", byBudget},
		{"Last 24 hours", "", ""}, {"Worst burn", "num", byBurn}, {"Traffic", "num", byTraffic}, {"Coverage", "num", byCoverage},
	} {
		x := column{Name: col.name, Class: col.class}
		if col.key != "" {
			to := keep(q, "service", "state", "q", "refresh", "slo")
			to.Set("sort", string(col.key))
			if col.key == key {
				x.Sort = "ascending"
				if reverse {
					x.Sort = "descending"
				} else {
					to.Set("dir", "desc")
				}
			}
			x.Href = w.href("/", to)
		}
		out = append(out, x)
	}
	return out
}

func services(rep *sla.Report) []string {
	var out []string
	for i := range rep.SLOs {
		// A name that can't be shown as it is can't be chosen; specs do not allow any.
		if s := rep.SLOs[i].SLO.ID.Service(); (len(out) == 0 || out[len(out)-1] != s) && show(s, shownName) == s {
			out = append(out, s)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

type figure struct {
	Name, Value, Title, Note string
	Bad                      bool
}

func ingestFigures(i IngestStatus) []figure {
	f := func(name string, n uint64, note string, bad bool) figure {
		return figure{name, compact(n), count(n), note, bad && n > 0}
	}
	return []figure{
		f("Accepted", i.Accepted, "durable and counted", false),
		f("Duplicate", i.Duplicates, "known ids, counted once", false),
		f("Late", i.Late, "put into their own minute", false),
		f("Rejected", i.Rejected, "not valid, not taken", true),
		f("Refused", i.Refused, "taken but not countable: dead letters", true),
	}
}
