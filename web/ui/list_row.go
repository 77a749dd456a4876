package ui

import (
	"cmp"
	"html/template"
	"net/url"
	"slices"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/chart"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/respond"
	"github.com/sloengine/sloengine/web/site"
)

// row is one SLO's group in the list.
type row struct {
	ID          string // of the row in the page, the same in every report
	Mark        chart.Mark
	Informative bool
	Understated bool
	Href        string
	Service     string
	Name        string
	Title       string
	Group       []format.Label
	Objective   string
	Window      string
	Now         string // indicator over the last hour
	NowClass    string
	SLI, RawSLI string // over the period
	Left        string
	RawLeft     string
	Empty       string // when the budget runs out at the fastest recent pace, if that is within a week
	Pace        string // the same with the slowest pace
	Gauge       chart.Gauge
	Burn        string
	BurnWindow  string
	BurnClass   string
	Rate        string
	Events      string
	EventsFull  string
	Peak        string // events of the busiest minute of the last hour; "" if there are none
	Coverage    string
	Partial     bool

	// Of the list only: the pictures are drawn before, since a page has hundreds
	// and most are the same as before. No embedded struct: templates find promoted
	// fields slowly.
	State, Bar, Hours   template.HTML
	Alerts, AlertsClass string

	// Of an SLO with several groups in the list by SLO: the row shows the worst of them.
	Groups     template.HTML // a bar of all of them; "" for a row of one group
	GroupCount string
	Toggle     string // address that opens or closes them
	Opened     bool
	Nested     bool   // a row of an opened SLO
	More       string // "and 950 more", after the last row that is shown
}

// Bounds of the groups that readers open in the list.
const (
	maxOpened    = 20 // SLOs; opening one more closes the first
	openedGroups = 50 // of each
)

// level is an SLO in the list.
type level struct {
	shown  *sla.SLOReport   // the group that stands for it
	groups []*sla.SLOReport // that the filter picks, in the report's order; shown is one of them
	of     int              // how many the SLO has
}

// byLevel groups picked reports by their SLO, whose groups follow each other, and says how many SLOs the report has.
// first orders the groups of one.
func byLevel(rep *sla.Report, picked []*sla.SLOReport, first func(a, b *sla.SLOReport) int) (out []*level, slos int) {
	total := map[*slo.SLO]int{}
	for at := 0; at < len(rep.SLOs); {
		end := at + 1
		for end < len(rep.SLOs) && rep.SLOs[end].SLO == rep.SLOs[at].SLO {
			end++
		}
		total[rep.SLOs[at].SLO] = end - at
		at = end
	}
	for at := 0; at < len(picked); {
		end := at + 1
		for end < len(picked) && picked[end].SLO == picked[at].SLO {
			end++
		}
		groups := picked[at:end:end]
		out = append(out, &level{slices.MinFunc(groups, first), groups, total[picked[at].SLO]})
		at = end
	}
	return out, len(total)
}

// worstGroup orders the groups of one SLO: groups with a paging alert of their own, then by state and by what is left.
// A group without data comes after those that have some: an idle group says nothing of its SLO.
func worstGroup(active site.ActiveAlerts) func(a, b *sla.SLOReport) int {
	return func(a, b *sla.SLOReport) int {
		return cmp.Or(groupRank(a, active)-groupRank(b, active), cmp.Compare(a.Budget.Remaining, b.Budget.Remaining))
	}
}

func groupRank(r *sla.SLOReport, active site.ActiveAlerts) int {
	n := severity(r)
	if r.State == slo.StateNoData {
		n += 2 * len(site.States)
	}
	if active.OwnPaging(r) {
		n -= 4 * len(site.States)
	}
	return n
}

// groupBar draws the groups of an SLO by their state.
func groupBar(l *level, active site.ActiveAlerts) template.HTML {
	n := map[chart.Mark]int{}
	for _, r := range l.groups {
		n[chart.LevelMark(r, active.Paging(r))]++
	}
	label := format.Plural(l.of, "group")
	if len(l.groups) < l.of {
		label = format.Count(len(l.groups)) + " of " + label
	}
	return chart.StateBar(label, stateMarks, n)
}

// stateMarks are the marks of the list, worst first.
var stateMarks = func() []chart.Mark {
	out := []chart.Mark{chart.Firing}
	for _, s := range site.States {
		out = append(out, chart.StateMark(s))
	}
	return append(out, chart.Waiting)
}()

// openParam names an SLO whose groups are open in the list.
const openParam = "open"

// levelRows are the row of an SLO and, if they are open, those of its groups.
func (ui *Handler) levelRows(l *level, address listAddress, active site.ActiveAlerts) []row {
	out := ui.listRow(l.shown, active)
	if len(l.groups) < 2 {
		return []row{out}
	}
	out.ID = "r" + respond.Hash(string(l.shown.SLO.ID))
	out.Groups, out.GroupCount = groupBar(l, active), format.Plural(len(l.groups), "group")
	to := address.kept()
	opened := to[openParam]
	to.Del(openParam)
	for _, id := range opened {
		if id == string(l.shown.SLO.ID) {
			out.Opened = true
		} else {
			to.Add(openParam, id)
		}
	}
	if !out.Opened {
		to.Add(openParam, string(l.shown.SLO.ID))
		if len(to[openParam]) > maxOpened {
			to[openParam] = to[openParam][1:]
		}
	}
	if start := address.query.Get("start"); start != "" {
		to.Set("start", start) // the groups open on the page where the SLO is
	}
	out.Toggle = ui.Href(address.path, to)
	if !out.Opened {
		return []row{out}
	}
	rows := []row{out}
	groups := slices.Clone(l.groups)
	slices.SortStableFunc(groups, worstGroup(active))
	for _, r := range groups[:min(len(groups), openedGroups)] {
		one := ui.listRow(r, active)
		one.Nested = true
		rows = append(rows, one)
	}
	if more := len(groups) - openedGroups; more > 0 {
		last := &rows[len(rows)-1]
		last.More = "and " + format.Count(more) + " more"
		last.Toggle = ui.Href(address.path, url.Values{"slo": {string(l.shown.SLO.ID)}})
	}
	return rows
}

// listRow is a group with the pictures that rows of a list share.
func (ui *Handler) listRow(r *sla.SLOReport, active site.ActiveAlerts) row {
	out := ui.NewRow(r, active.Paging(r))
	out.State, out.Bar, out.Hours = ui.drawn.marks[out.Mark], out.Gauge.SVG(), ui.drawn.none
	out.Alerts, out.AlertsClass = alertsText(active.Of(r))
	return out
}

// NewRow is a group as the list and its page show it. paging says that a page fires on it.
func (ui *Handler) NewRow(r *sla.SLOReport, paging bool) row {
	s := r.SLO
	out := row{
		ID:   "r" + respond.Hash(slices.Concat([]string{string(s.ID)}, r.Group)...),
		Mark: chart.LevelMark(r, paging), Informative: r.Informative, Understated: r.Understated, Href: ui.SLOHref(r),
		Service: format.Safe(s.ID.Service(), format.MaxName), Name: format.Safe(s.ID.Name(), format.MaxName),
		Title: format.Safe(s.Description, format.MaxTitle),
		Group: format.Labels(s.GroupBy, r.Group), Objective: s.Objective.String(), Window: s.Window.String(),
		Now: format.NoValue, SLI: format.NoValue, Left: format.NoValue, Burn: format.NoValue,
		Rate: format.Rate(r.Rate), Events: compactEvents(r.Events.Valid()),
		EventsFull: format.Plural(r.Events.Valid(), "event"),
		Coverage:   format.Percent(r.Coverage, 0), Partial: r.Coverage < partialCoverage,
	}
	out.Gauge = chart.BudgetGauge(r.Budget, chart.LevelMark(r, false).Shape)
	if b := lastHour(r); b.HasData {
		out.Now = format.Percent(b.SLI, format.Decimals(s.Objective))
		if b.Consumed > 1 {
			out.NowClass = "warn"
		}
	}
	if r.Budget.HasData {
		out.SLI, out.Left = format.Percent(r.Budget.SLI, format.Decimals(s.Objective)), format.Percent(r.Budget.Remaining, 1)
	}
	if r.Outlook != nil && format.RunsOut(&r.Outlook.Forecast) {
		out.Empty, out.Pace = "exhausted in "+format.Ahead(r.Outlook.Forecast.Pace.Low), format.Pace(&r.Outlook.Forecast)
	}
	if r.Corrected > 0 && r.Raw.HasData {
		out.RawSLI, out.RawLeft = unlessSame(format.Percent(r.Raw.SLI, format.Decimals(s.Objective)), out.SLI),
			unlessSame(format.Percent(r.Raw.Remaining, 1), out.Left)
	}
	if r.PeakMinute > 0 {
		out.Peak = format.Count(r.PeakMinute)
	}
	if b := worstBurn(r); b.HasData {
		out.Burn, out.BurnWindow = format.BurnRate(b.Rate), slo.FormatDuration(b.Window)
		out.BurnClass = BurnClass(r)
	}
	return out
}

// compactEvents is a number of events in short, such as "1.2M events".
func compactEvents(n uint64) string {
	if n == 1 {
		return "1 event"
	}
	return format.Compact(n) + " events"
}

// BurnClass is the colour of the worst burn: what the number itself says. A rate of at most 1 spends no more than the
// budget, also where a short window gives a tier a factor below 1.
func BurnClass(r *sla.SLOReport) string {
	switch b := worstBurn(r); {
	case !b.HasData || b.Rate <= 1:
		return ""
	case Burning(r):
		return "hot"
	}
	return "warn"
}

// unlessSame is a raw value as it is shown; "" if it reads like the value without planned maintenance.
func unlessSame(raw, value string) string {
	if raw == value {
		return ""
	}
	return raw
}

// partialCoverage is the share of a window below which its numbers are marked
// as resting on a part of it.
const partialCoverage = 0.9

// rowBytes is about as much as a row with all its cells has.
const rowBytes = 3 << 10

// write adds the row to the list. The cells are those of the columns.
func (r *row) write(m *site.Markup, alerts bool) {
	text := site.Text
	m.Add(`<tr id="`, text(r.ID), `" class="`, text(r.Mark.Shape))
	m.AddIf(r.Informative, ` informative`)
	m.AddIf(r.Nested, ` nested`)
	m.Add("\">\n<td class=\"state\">", r.State, "</td>\n")
	r.writeName(m)
	m.Add(`<td class="num" data-name="Objective">`, text(r.Objective), ` <span class="note">`, text(r.Window),
		"</span></td>\n<td class=\"num")
	m.AddIf(r.NowClass != "", ` `, text(r.NowClass))
	m.Add(`" data-name="Last hour">`, text(r.Now), "</td>\n<td class=\"num\" data-name=\"SLI\">", text(r.SLI))
	m.AddIf(r.RawSLI != "", ` <span class="note" title="including planned maintenance">raw `, text(r.RawSLI), `</span>`)
	m.Add("</td>\n<td class=\"budget\" data-name=\"Budget left\">", r.Bar, `<span class="left">`, text(r.Left), `</span>`)
	m.AddIf(r.RawLeft != "", ` <span class="note" title="including planned maintenance">raw `, text(r.RawLeft), `</span>`)
	m.AddIf(r.Empty != "", ` <span class="note warn" title="`, text(r.Pace), `">`, text(r.Empty), `</span>`)
	m.Add("</td>\n<td class=\"hours\" data-name=\"24 hours\">", r.Hours, "</td>\n<td class=\"num")
	m.AddIf(r.BurnClass != "", ` `, text(r.BurnClass))
	m.Add(`" data-name="Worst burn">`, text(r.Burn))
	m.AddIf(r.BurnWindow != "", ` <span class="note">in `, text(r.BurnWindow), `</span>`)
	m.Add("</td>\n<td class=\"num\" data-name=\"Traffic\">", text(r.Rate),
		` <span class="note" title="`, text(r.EventsFull), ` in the period">`, text(r.Events),
		"</span></td>\n<td class=\"num\" data-name=\"Coverage\">", text(r.Coverage))
	m.AddIf(r.Partial, ` <span class="note warn">partial</span>`)
	m.Add("</td>\n")
	m.AddIf(alerts, `<td class="num `, text(r.AlertsClass), `" data-name="Alerts">`, text(r.Alerts), "</td>\n")
	m.Add("</tr>\n")
}

// writeName adds the cell that names the SLO and its group.
func (r *row) writeName(m *site.Markup) {
	text := site.Text
	m.Add(`<th scope="row"><a href="`, text(r.Href), `"`)
	m.AddIf(r.Title != "", ` title="`, text(r.Title), `"`)
	m.Add(`><span class="svc"><bdi>`, text(r.Service), `</bdi> /</span> <bdi>`, text(r.Name), `</bdi></a>`)
	if r.Groups != "" {
		m.Add(` <a class="states" href="`, text(r.Toggle),
			`" hx-boost='target:body swap:"innerMorph show:none"' aria-expanded="`)
		m.AddIf(r.Opened, `true`)
		m.AddIf(!r.Opened, `false`)
		m.Add(`">`, r.Groups, text(r.GroupCount), `</a>`)
	}
	m.AddIf(len(r.Group) > 0, ` <span class="labels">`, site.Labels(r.Group), `</span>`)
	m.AddIf(r.Informative, ` <span class="tag">never alerts</span>`)
	m.AddIf(r.Understated,
		` <span class="tag" title="Another engine counts events of this group in __other__">understated</span>`)
	m.AddIf(r.More != "", ` <a href="`, text(r.Toggle), `">`, text(r.More), `</a>`)
	m.Add("</th>\n")
}
