package incidents

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/web/chart"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/site"
)

// listPage lists the incidents: those that are not resolved first, and those of severity warning apart.
type listPage struct {
	site.Layout
	Note     string // instead of everything else
	Verdict  chart.Mark
	Headline string
	Scope    string
	Tables   []table
	Filters  []site.Choice
	Hidden   [][2]string
	Filtered bool
	Action   string // of the filter
	Clear    string
	CSV      string
	API      string
	Trend    *trend
	New      string // opens an incident by hand; "" if the reader may not
}

// table is the incidents of one severity.
type table struct {
	ID, Title, Note string
	Columns         []site.Column
	Rows            []row
	Empty           string // instead of rows
	Prev, Next      string
	Shown           string
	All             string // link to all of them; "" if they are shown
}

const (
	rowsPerPage  = 50
	shownBeside  = 10 // warnings below the first page of incidents
	paramStart   = "start"
	maxListStart = incident.MaxIncidents
)

// ready sends a page that says why incidents cannot be shown or changed now.
func (h *Handler) ready(c *gin.Context) bool {
	c.Header("Cache-Control", "no-store")
	if h.Opt.Incidents == nil {
		h.Message(c, http.StatusNotImplemented, "No incidents", "This engine does not store incidents.")
		return false
	}
	if !h.Opt.Brief().State.Recovered() {
		c.Header("Retry-After", "5")
		h.Message(c, http.StatusServiceUnavailable, "Not now",
			"Incidents are available once the engine has recovered. Try again in a few seconds.")
		return false
	}
	return true
}

func (h *Handler) listPage(c *gin.Context) {
	if !h.ready(c) {
		return
	}
	v := h.View()
	q := c.Request.URL.Query()
	f, err := ParseFilter(q)
	if err != nil {
		h.Message(c, http.StatusBadRequest, "Invalid filter", "The filter cannot be read: "+err.Error()+".")
		return
	}
	site.RefreshHeader(c)
	p := listPage{
		Layout: h.Layout(c, v, "Incidents", "incidents"), Filtered: f.Service != "" || f.State != "" ||
			!f.From.IsZero() || !f.To.IsZero(),
		Action: h.Href(site.IncidentListPath, nil), Clear: h.Href(site.IncidentListPath, nil),
		API: h.Opt.ExternalPath + "/api/v1/incidents",
	}
	kept := keep(q, "service", "state", "from", "to", "severity", "refresh", "sort", "dir", paramStart)
	p.CSV = h.Opt.ExternalPath + "/api/v1/incidents.csv"
	if x := keep(q, "service", "state", "from", "to", "severity"); len(x) > 0 {
		p.CSV += "?" + x.Encode()
	}
	p.Hidden = site.Hidden(keep(q, "from", "to", "severity", "refresh", "sort", "dir"))
	if h.Opt.May(c, site.Operate) {
		p.New = h.Opt.ExternalPath + newPath
	}

	view := h.Opt.Incidents.View()
	services := map[string]bool{}
	by := map[incident.Severity][]*incident.Incident{}
	severity := f.Severity
	f.Severity = ""
	for inc := range view.All() {
		if inc.Service != "" {
			services[inc.Service] = true
		}
		if f.Match(inc) {
			by[inc.Severity] = append(by[inc.Severity], inc)
		}
	}
	p.Filters = []site.Choice{
		{Name: "service", Label: "Service", Any: "Every service", Options: site.SelectOptions(services, f.Service)},
		{Name: "state", Label: "State", Any: "Every state", Options: stateOptions(f.State)},
	}
	var warnings int
	p.Verdict, p.Headline, warnings = site.OpenIncidents(view)
	p.Scope = "No warning is open."
	if warnings > 0 {
		p.Scope = "Open warnings: " + format.Count(warnings) + "."
	}
	for _, s := range []incident.Severity{incident.Critical, incident.Warning} {
		if severity == "" || severity == s {
			p.Tables = append(p.Tables, h.newTable(by[s], s, severity == "" && s == incident.Warning, p.Filtered, kept, v))
		}
	}
	p.Trend = h.newTrend(view, v.Now)
	h.Page(c, http.StatusOK, "incidents", p)
}

func stateOptions(on incident.State) (out []site.Option) {
	for _, s := range []incident.State{StateUnresolved, incident.Open, incident.Acknowledged, incident.Resolved} {
		out = append(out, site.Option{Value: string(s), Word: string(s), On: s == on})
	}
	return out
}

// newTable shows one page of incidents in the order that the address names.
func (h *Handler) newTable(list []*incident.Incident, s incident.Severity, beside, filtered bool,
	kept url.Values, v site.View) table {
	t := table{ID: "incidents", Title: "Incidents", Note: "a paging alert fired, or a person opened them"}
	if s == incident.Warning {
		t = table{ID: "warnings", Title: "Warnings", Note: "only tickets and warnings fired"}
	}
	orders := h.sortings(v.Now)
	by, reverse := site.SortedBy(kept, orders, byState)
	orders[by].Order(list, reverse)
	sortedBy := maps.Clone(kept) // from its first page on, and one table beside the other as before
	sortedBy.Del(paramStart)
	t.Columns = h.Headings(site.IncidentListPath, sortedBy, columns(), by, reverse)
	link := func(start int) string {
		q := url.Values{}
		for k := range kept {
			q.Set(k, kept.Get(k))
		}
		q.Set("severity", string(s))
		q.Del(paramStart)
		if start > 0 {
			q.Set(paramStart, strconv.Itoa(start))
		}
		return h.Href(site.IncidentListPath, q)
	}
	start, size := 0, rowsPerPage
	if beside {
		size = shownBeside
	} else if n, err := strconv.Atoi(kept.Get(paramStart)); err == nil && n > 0 && n < len(list) && n <= maxListStart {
		start = n
	}
	end := min(start+size, len(list))
	for _, inc := range list[start:end] {
		t.Rows = append(t.Rows, h.newRow(inc, v.Now))
	}
	switch {
	case len(list) == 0 && filtered:
		t.Empty = "None matches this filter."
	case len(list) == 0 && s == incident.Warning:
		t.Empty = "None yet. One opens when a ticket or a warning fires."
	case len(list) == 0:
		t.Empty = "None yet. A paging alert opens one, and so can you."
	case beside && end < len(list):
		t.All = link(0)
		t.Shown = format.Count(len(list))
	case len(list) > size:
		t.Shown = format.Count(start+1) + " to " + format.Count(end) + " of " + format.Count(len(list))
		if start > 0 {
			t.Prev = link(max(0, start-size))
		}
		if end < len(list) {
			t.Next = link(end)
		}
	}
	return t
}

// The columns. Their natural order puts first what a reader looks for.
const (
	byState     site.SortKey = "state"
	byTitle     site.SortKey = "title"
	byService   site.SortKey = "service"
	byStatus    site.SortKey = "status"
	byOwner     site.SortKey = "owner"
	byStarted   site.SortKey = "started"
	byDetection site.SortKey = "detection"
	byResponse  site.SortKey = "response"
	byDuration  site.SortKey = "duration"
	bySpent     site.SortKey = "budget"
)

func columns() []site.Column {
	return []site.Column{
		{Name: "State", Key: byState}, {Name: "Incident", Key: byTitle}, {Name: "Service", Key: byService},
		{Name: "Status", Key: byStatus}, {Name: "Owner", Key: byOwner}, {Name: "Started", Key: byStarted},
		{Name: "Detection", Class: "num", Key: byDetection}, {Name: "Response", Class: "num", Key: byResponse},
		{Name: "Duration", Class: "num", Key: byDuration}, {Name: "Budget spent", Class: "num", Key: bySpent},
	}
}

// sortings are the orders of the list. Equal incidents stay in the order in which they were opened, the last one first.
func (h *Handler) sortings(now time.Time) map[site.SortKey]site.Sorting[incident.Incident] {
	type inc = incident.Incident
	text := func(of func(*inc) string) site.Sorting[inc] {
		return site.Sorting[inc]{By: func(a, b *inc) int { return cmp.Compare(of(a), of(b)) },
			Has: func(x *inc) bool { return of(x) != "" }}
	}
	longest := func(of func(*inc) time.Duration) func(a, b *inc) int {
		return func(a, b *inc) int { return cmp.Compare(of(b), of(a)) }
	}
	response := func(x *inc) time.Duration { d, _ := x.Response(); return d }
	spent := func(x *inc) float64 { most, _ := largest(h.Opt.Incidents.Spent(x)); return most }
	return map[site.SortKey]site.Sorting[inc]{
		byState:   {By: func(a, b *inc) int { return rank(a) - rank(b) }},
		byTitle:   text(func(x *inc) string { return x.Title }),
		byService: text(func(x *inc) string { return x.Service }),
		byOwner:   text(func(x *inc) string { return x.ResponseOwner() }),
		byStatus: {By: func(a, b *inc) int {
			return slices.Index(incident.Statuses, a.CurrentStatus(false).Status) -
				slices.Index(incident.Statuses, b.CurrentStatus(false).Status)
		}},
		byStarted:   {By: func(a, b *inc) int { return b.Onset.Compare(a.Onset) }},
		byDetection: {By: longest(func(x *inc) time.Duration { return x.Detection() })},
		byResponse:  {By: longest(response), Has: func(x *inc) bool { return x.Ack != nil }},
		byDuration:  {By: longest(func(x *inc) time.Duration { return x.End(now).Sub(x.Onset) })},
		bySpent: {By: func(a, b *inc) int { return cmp.Compare(spent(b), spent(a)) },
			Has: func(x *inc) bool { return len(h.Opt.Incidents.Spent(x)) > 0 }},
	}
}

// rank orders states: what needs somebody first.
func rank(inc *incident.Incident) int {
	return slices.Index([]incident.State{incident.Open, incident.Acknowledged, incident.Resolved}, inc.State)
}

// keep copies parameters that are there.
func keep(q url.Values, names ...string) url.Values {
	out := url.Values{}
	for _, name := range names {
		if v := q.Get(name); v != "" {
			out.Set(name, v)
		}
	}
	return out
}
