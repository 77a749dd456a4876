package incidents

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/internal/order"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/annotations"
	"github.com/sloengine/sloengine/web/chart"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/site"
)

// detailPage is the page of one incident.
type detailPage struct {
	site.Layout
	ID, Name   string
	Mark       chart.Mark
	Public     bool
	Done       string // what the last form did
	Steps      []step // statuses, oldest first
	Owner      string // "" if unassigned
	Facts      []site.Fact
	Reasons    []reason
	Changes    changes
	Runbooks   []runbook
	Similar    []similar
	Figures    []site.Figure
	PostMortem string // address
	Forms      *forms // nil if the reader may not change anything
	Timeline   []moment
	MoreTimes  int // moments that are left out, before the ones shown
	Chart      chart.Figure
	ChartOf    *affected // the SLO that the chart is of
	Alerts     *chart.AlertTimeline

	Annotations annotations.Listed // of the time that the charts show

	AlertRows  []alertRow
	MoreAlerts int
	Affected   []affected
	MoreOf     int
	Costs      *site.Costs // nil if no affected SLO had a cost
	API        string
}

// affected is an SLO or an agreement in one group, with what the incident cost of it.
type affected struct {
	Service, Name string
	Href          string // "" if the report does not have it any more
	Traces        string // the failing traces of the group; "" if none are known
	Events        string // its events since the start; "" without a log
	Agreement     bool
	Group         []format.Label
	Bad, Valid    string
	Spent         string
	Over          bool

	id    slo.ID
	group slo.Group
}

// reason is what is different about the bad events that an alert was on.
type reason struct {
	Name, Value, Href string
}

type alertRow struct {
	Mark            chart.Mark
	Name, About     string
	Page            string // "" once the alert is no longer kept
	Severity        string
	Group           []format.Label
	Fired, Resolved format.Stamp
	Lasted          string
}

// Bounds of the page.
const (
	shownAffected = 50
	shownAlerts   = 50
	shownReasons  = 3
)

const gone = "There is no incident with this id. Incidents are removed 400 days after they were resolved."

func (h *Handler) detailPage(c *gin.Context) {
	if !h.ready(c) {
		return
	}
	v := h.View()
	inc := h.Opt.Incidents.View().Get(c.Query("id"))
	if inc == nil {
		h.Message(c, http.StatusNotFound, "Not there", gone)
		return
	}
	spent := h.Opt.Incidents.Spent(inc)
	p := detailPage{
		Layout: h.Layout(c, v, inc.ID, "incidents"), ID: inc.ID, Name: format.Safe(inc.Title, format.MaxTitle),
		Mark: mark(inc), Public: inc.Public, Done: doneTexts[c.Query("did")], PostMortem: inc.PostMortem,
		Steps: newSteps(inc, v.Now), Owner: format.Safe(inc.ResponseOwner(), format.MaxName), Facts: facts(inc, v),
		Changes: h.newChanges(inc, v.Now), Runbooks: runbooks(inc), Similar: h.newSimilar(inc, v.Now),
		API: h.Opt.ExternalPath + "/api/v1/incidents/" + url.PathEscape(inc.ID), Figures: figures(inc, spent, v),
	}
	p.Crumbs = h.Crumb("Incidents", site.IncidentListPath, inc.ID)
	if h.Opt.May(c, site.Operate) {
		p.Forms = h.newForms(c, inc)
		site.FormPage(c)
	}
	p.Timeline, p.MoreTimes = newTimeline(inc, v.Now)
	p.Affected, p.MoreOf = h.newAffected(inc, spent, v.Rep)
	p.Costs = site.NewCosts(site.IncidentCosts(spent))
	p.AlertRows, p.MoreAlerts = h.newAlertRows(inc, v)
	p.Reasons = h.newReasons(inc)
	h.fillCharts(c, inc, v, &p)
	h.Page(c, http.StatusOK, "incident", p)
}

func figures(inc *incident.Incident, spent []incident.Spent, v site.View) []site.Figure {
	detected := "by a person"
	if inc.Automated {
		detected = "from the start to the first alert"
	}
	response := site.Figure{Name: "Time to acknowledge", Value: format.NoValue, Note: "not acknowledged"}
	if d, ok := inc.Response(); ok {
		response.Value, response.Note = format.Duration(d), "from the first alert"
		if inc.Raised.After(inc.Detected) {
			response.Note = "since it became critical"
		}
	}
	lasted := "ongoing"
	if inc.IsResolved() {
		lasted = "from the start to the resolution"
	}
	budget, over := mostSpent(spent)
	note := "of the error budget that lost most"
	if len(spent) == 0 {
		note = "unknown"
	}
	return []site.Figure{
		{Name: "Time to detect", Value: format.Duration(inc.Detection()), Note: detected}, response,
		{Name: "Duration", Value: format.Duration(inc.End(v.Now).Sub(inc.Onset)), Note: lasted},
		{Name: "Budget spent", Value: budget, Note: note, Bad: over},
		{Name: "Alerts", Value: format.Count(len(inc.Alerts) + inc.More),
			Note: format.Plural(firing(inc), "alert") + " firing"},
	}
}

func firing(inc *incident.Incident) (n int) {
	for i := range inc.Alerts {
		if inc.Alerts[i].Resolved.IsZero() {
			n++
		}
	}
	return n
}

// newAffected lists what the alerts were about and what it cost, the most expensive first.
func (h *Handler) newAffected(inc *incident.Incident, spent []incident.Spent,
	rep *sla.Report) (out []affected, more int) {
	type cost struct {
		incident.Affected
		spent *incident.Spent
	}
	var all []cost
	for i := range spent {
		all = append(all, cost{incident.Affected{SLO: spent[i].SLO, Group: spent[i].Group}, &spent[i]})
	}
	for _, x := range inc.Affected() {
		if !slices.ContainsFunc(all, func(y cost) bool {
			return x.SLO == y.SLO && x.Agreement == y.Agreement && slices.Equal(x.Group, y.Group)
		}) {
			all = append(all, cost{x, nil})
		}
	}
	budget := func(x *cost) float64 {
		if x.spent == nil {
			return -1
		}
		return x.spent.Budget
	}
	order.By(all, func(a, b *cost) int { return cmp.Compare(budget(b), budget(a)) })
	more = max(0, len(all)-shownAffected)
	for _, x := range all[:len(all)-more] {
		a := affected{Bad: format.NoValue, Valid: format.NoValue, Spent: format.NoValue, group: x.Group}
		if x.spent != nil {
			a.Bad, a.Valid, a.Spent, a.Over = format.Count(x.spent.Bad), format.Count(x.spent.Valid),
				budgetShare(x.spent.Budget), x.spent.Budget > 1
		}
		h.identify(&a, inc, x.Affected, rep)
		out = append(out, a)
	}
	return out, more
}

// identify fills in the names of what was affected, and where its page is.
func (h *Handler) identify(a *affected, inc *incident.Incident, x incident.Affected, rep *sla.Report) {
	if x.SLO == "" {
		a.Agreement, a.Service, a.Name = true, format.Safe(inc.Service, format.MaxName),
			format.Safe(x.Agreement, format.MaxName)
		a.Group = plainLabels(x.Group)
		a.Href = h.Href("/slas", url.Values{"service": {inc.Service}})
		return
	}
	a.id = slo.ID(x.SLO)
	a.Service, a.Name, a.Group = format.Safe(a.id.Service(), format.MaxName), format.Safe(a.id.Name(), format.MaxName),
		plainLabels(x.Group)
	if rep == nil {
		return
	}
	if s := site.SLOOf(rep, a.id); s != nil {
		q := url.Values{}
		if len(s.GroupBy) == len(x.Group) {
			a.Group, q = format.Labels(s.GroupBy, x.Group), site.GroupQuery(s.GroupBy, x.Group)
		}
		q.Set("id", x.SLO)
		a.Href = h.Href("/slo", q)
		if len(h.Traces(a.id, x.Group, h.Opt.Now())) > 0 {
			a.Traces = a.Href + site.TracesAnchor
		}
		if len(s.GroupBy) == len(x.Group) {
			a.Events = h.EventsHref(a.id, s.GroupBy, x.Group, inc.Onset)
		}
	}
}

// newReasons lists the first ones that are known.
func (h *Handler) newReasons(inc *incident.Incident) (out []reason) {
	for i := range inc.Alerts {
		a := h.FindAlert(inc.Alerts[i].Fingerprint)
		if a == nil || a.Why == "" || !a.FiredAt.Equal(inc.Alerts[i].Fired) {
			continue
		}
		x := reason{site.Title(string(a.SLO), a.GroupBy, a.Group), format.Safe(a.Why, format.MaxText),
			h.AlertHref(a.Fingerprint)}
		if !slices.ContainsFunc(out, func(y reason) bool { return x.Name == y.Name }) {
			out = append(out, x)
		}
		if len(out) == shownReasons {
			break
		}
	}
	return out
}

// plainLabels shows the values of a group whose attributes are not known.
func plainLabels(group []string) []format.Label {
	return format.Labels(make([]string, len(group)), group)
}

func (h *Handler) newAlertRows(inc *incident.Incident, v site.View) (out []alertRow, more int) {
	for i := range inc.Alerts {
		if i == shownAlerts {
			break
		}
		a := &inc.Alerts[i]
		end := v.Now
		m := chart.OK("resolved")
		if !a.Resolved.IsZero() {
			end = a.Resolved
		} else if m = chart.Risk("firing"); a.Severity == incident.Critical {
			m = chart.Bad("firing")
		}
		about := a.Agreement
		if a.SLO != "" {
			about = slo.ID(a.SLO).Name()
		}
		page := ""
		if h.FindAlert(a.Fingerprint) != nil {
			page = h.AlertHref(a.Fingerprint)
		}
		out = append(out, alertRow{
			Mark: m, Name: format.Safe(a.Name, format.MaxName), About: format.Safe(about, format.MaxName),
			Page:     page,
			Severity: format.Safe(cmp.Or(a.Labels["severity"], string(a.Severity)), format.MaxName),
			Group:    alertLabels(a, v.Rep),
			Fired:    format.NewStamp(a.Fired, v.Now), Resolved: format.NewStamp(a.Resolved, v.Now),
			Lasted: format.Duration(end.Sub(a.Fired)),
		})
	}
	return out, len(inc.Alerts) + inc.More - len(out)
}

func alertLabels(a *incident.Alert, rep *sla.Report) []format.Label {
	if a.SLO != "" && rep != nil {
		if s := site.SLOOf(rep, slo.ID(a.SLO)); s != nil && len(s.GroupBy) == len(a.Group) {
			return format.Labels(s.GroupBy, a.Group)
		}
	}
	return plainLabels(a.Group)
}

func facts(inc *incident.Incident, v site.View) []site.Fact {
	var out []site.Fact
	text := func(name, value, note string) {
		if value != "" {
			out = append(out, site.Fact{Name: name, Value: format.Safe(value, format.MaxTitle), Note: note})
		}
	}
	at := func(name string, s format.Stamp, note string) {
		out = append(out, site.Fact{Name: name, Value: s.Text, At: s, Note: note})
	}
	text("Service", inc.Service, "")
	text("Severity", string(inc.Severity), "")
	text("Team", inc.ResponseTeam(), "")
	at("Started", format.NewStamp(inc.Onset, v.Now), onsetNotes[inc.OnsetBy])
	first := "First alert"
	if !inc.Automated {
		first = "Opened"
	}
	at(first, format.NewStamp(inc.Detected, v.Now), format.Safe(inc.OpenedBy, format.MaxName))
	if paged, ok := inc.Paged(); ok {
		at("First paging alert", format.NewStamp(paged, v.Now), "")
	}
	return out
}

// onsetNotes say how the onset was found.
var onsetNotes = map[string]string{
	incident.OnsetByCounts: "first bad events",
	incident.OnsetByAlert:  "estimated by the alert",
	incident.OnsetByHand:   "entered by hand",
}
