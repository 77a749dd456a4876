package ui

import (
	"cmp"
	"context"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/alertpage"
	"github.com/sloengine/sloengine/web/annotations"
	"github.com/sloengine/sloengine/web/chart"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/respond"
	"github.com/sloengine/sloengine/web/site"
)

type sloPage struct {
	site.Layout
	Row         row
	ID          string
	Description string
	Why         string // what is different about the bad events while the SLO pages; "" if nothing is known
	Labels      []format.Label
	Links       []site.Link
	Last        site.Fact
	Notes       []string
	Groups      []groupLink // of the same SLO, without the shown one
	MoreGroups  int
	Siblings    string // link to all groups of the SLO; "" if it has only one

	Range       rangeNav
	BurnDown    chart.Figure
	Daily       chart.Figure
	Events      chart.Figure
	Burn        chart.Figure
	Latency     *chart.Figure // nil unless the indicator is a latency
	Calendar    *chart.Calendar
	Attribution *Attribution
	Ledger      *site.Ledger // of the window; nil if nothing was spent
	Unledgered  string       // why there is no ledger
	EventsHref  string       // "" without a log
	TryHref     string       // likewise
	Work        *work        // nil unless the indicator is of completion
	Traces      *tracesPart
	HistNote    string // why there are no charts

	Annotations annotations.Listed // of the range

	Forecast *forecastPart // nil if nothing is forecast
	Capacity *capacityPart // nil without a capacity
	Blind    *blindPart    // nil while the usual traffic is unknown

	Incidents   []openIncident
	Burns       []burnRow
	Tiers       []tierRow
	Unfit       []string // tiers that cannot fire
	Held        []string // other alerts that do not start, and why
	HasAlerts   bool     // the engine evaluates alerts
	SentBy      string   // who sends them, of an SLO on counters of Prometheus
	Timeline    *chart.AlertTimeline
	Alerts      []alertpage.Row
	Firing      bool // some of them is active
	Counts      []countRow
	Parts       []partRow // of the engines of a view
	Corrected   string
	Costs       *site.Costs // of all groups; nil if the spec states no cost
	OwnCost     string      // of this group of several
	Corrections []correctionRow
	Facts       []site.Fact
	Beside      *besidePart // nil: the SLO is not on counters of a Prometheus
	Source      *sloSource
	Queries     []promQuery
	API         string
	HistoryAPI  string // the numbers of the charts
}

type groupLink struct {
	Href   string
	Labels []format.Label
	Mark   chart.Mark
	Value  string        // what is left of the budget, or the score
	Hours  template.HTML // a sparkline of 24 hours; "" if it is not known
}

// countRow is one way of counting: corrected, or raw.
type countRow struct {
	Name, Good, Bad, Valid, SLI, Consumed, Left string
}

type correctionRow struct {
	Name, Author, Reason, RRule, Length string
	Start                               format.Stamp
}

// shownGroups is how many other groups of an SLO its page links to.
const shownGroups = 12

func (ui *Handler) sloPage(c *gin.Context) {
	v := ui.View()
	q := c.Request.URL.Query()
	id := slo.ID(q.Get("id"))
	r, exists := site.FindGroup(v.Rep, id, q)
	switch {
	case v.Rep == nil:
		ui.Message(c, http.StatusServiceUnavailable, "No report yet",
			"The engine has not made its first report. Try again in a few seconds.")
		return
	case r == nil && exists:
		c.Redirect(http.StatusFound, ui.Href("/", url.Values{"slo": {string(id)}}))
		return
	case r == nil:
		ui.Message(c, http.StatusNotFound, "No such SLO",
			"The current spec has no SLO with this name. It may have been renamed or removed.")
		return
	}
	list, digest := ui.Alerts(site.AlertFilter{SLO: id})
	open := ui.incidentsOf(r, v.Now)
	if respond.NotModified(c, v.ReportTag("slo", c.Request.URL.RawQuery, c.Request.Host, digest,
		fmt.Sprint(open, alertpage.MaySilence(ui.Site, c)), annotations.Tag(ui.Site))) {
		site.RefreshHeader(c)
		return
	}
	tiers, unfit := alerts.Tiers(r.SLO)
	active := ui.ActiveAlerts()
	p := sloPage{
		Layout: ui.Layout(c, v, site.Title(string(id), r.SLO.GroupBy, r.Group), "slo"), Row: ui.NewRow(r, active.Paging(r)),
		ID: format.Safe(string(id), format.MaxTitle), Description: format.Safe(r.SLO.Description, format.MaxText),
		Counts: countRows(r), Burns: BurnRows(r, tiers), Tiers: TierRows(r, tiers), Facts: ui.facts(r, &v),
		Notes: append(ui.findings(r), notes(r)...), API: ui.APIHref(r), Incidents: open,
		Last:   site.Fact{Value: format.Ago(r.LastEvent, v.Now), At: format.NewStamp(r.LastEvent, v.Now)},
		Source: ui.sources.Get(r.SLO, ui.ExternalURL(c.Request), v.Now), Queries: PromQueries(r),
	}
	p.Crumbs = ui.GroupCrumbs(site.Link{Text: "SLOs", Href: "/"}, id.Service(), id.Name(),
		url.Values{"slo": {string(id)}}, r.SLO.GroupBy, r.Group)
	p.Why = ui.Why(id, r.Group)
	p.TryHref = ui.TryHref(r.SLO)
	p.Work, p.EventsHref = newWork(v.Rep, r, v.Now), ui.EventsHref(r.SLO.ID, r.SLO.GroupBy, r.Group, time.Time{})
	p.Parts, p.Traces = ui.partRows(r, v.Now), ui.newTraces(r, v.Now)
	fillCosts(&p, v.Rep, r)
	p.Unledgered = r.SLO.Indicator.Kind.Unledgered()
	p.Forecast, p.Capacity = newForecastPart(r, v.Rep.Outlooks, ui.Onset(r), v.Now), capacityFacts(r)
	p.Blind, p.Beside = ui.newBlindPart(r, v.Now), ui.newBeside(r, v.Now)
	for _, f := range unfit {
		p.Unfit = append(p.Unfit, format.Safe(f.Message, format.MaxText))
	}
	ui.holdBack(r, tiers, &p)
	if r.Corrected > 0 {
		p.Corrected = format.Duration(r.Corrected)
	}
	for _, k := range slices.Sorted(maps.Keys(r.SLO.Labels)) {
		p.Labels = append(p.Labels, format.Label{Name: format.Safe(k, format.MaxName),
			Value: format.Safe(r.SLO.Labels[k], format.MaxName), Title: format.Safe(r.SLO.Labels[k], format.MaxTitle)})
	}
	for _, k := range slices.Sorted(maps.Keys(r.SLO.Links)) {
		p.Links = site.AddLink(p.Links, k, r.SLO.Links[k])
	}
	for _, x := range r.SLO.Corrections {
		p.Corrections = append(p.Corrections, correctionRow{
			Name: format.Safe(x.Name, format.MaxName), Author: format.Safe(x.Author, format.MaxName),
			Reason: format.Safe(x.Reason, format.MaxTitle), RRule: format.Safe(x.RRule, format.MaxTitle),
			Length: format.Duration(x.Duration), Start: format.NewStamp(x.Start, v.Now),
		})
	}
	ui.fillGroups(c.Request.Context(), &p, v.Rep, r, active)
	rng := newRange(q, v.Rep.Time, r.Slice, active.Paging(r))
	p.Range = ui.rangeNav(r, rng, q, v.Rep.Time.UTC())
	if p.HasAlerts = ui.Opt.Alerts != nil && !r.Informative; p.HasAlerts {
		p.Alerts, p.Timeline = sloAlerts(alertpage.NewRows(ui.Site, c, v.Now), r, list),
			chart.NewAlertTimeline(r, list, rng.Span, v.Now, ui.Opt.AlertsKept)
		p.SentBy = sentBy(ui.Opt.Alerts().SentBy[id], v.Now)
	}
	p.Firing = len(p.Alerts) > 0 && p.Alerts[0].Resolved.ISO == "" // active ones come first
	p.HistoryAPI = ui.historyHref(r, rng)
	from := v.Now.AddDate(0, 0, -chart.CalendarDays)
	for _, at := range []time.Time{rng.From, r.Period.From} {
		if !at.IsZero() && at.Before(from) {
			from = at
		}
	}
	marks := annotations.Of(ui.Site, id.Service(), from)
	p.Annotations = marks.In(rng.Span, v.Now)
	if p.Timeline != nil {
		p.Timeline.Mark(marks.Moments)
	}
	ui.fillHistory(c.Request.Context(), v, r, rng, tiers, marks.Moments, &p)
	if p.HistNote == historyFailed {
		respond.Partial(c)
	}
	ui.Page(c, http.StatusOK, "slo", p)
}

func fillCosts(p *sloPage, rep *sla.Report, r *sla.SLOReport) {
	p.Costs = site.NewCosts(site.SLOCosts(rep, r.SLO.ID))
	if p.Costs != nil && len(r.SLO.GroupBy) > 0 {
		p.OwnCost = format.Money(r.Counted(false).Cost().Amount)
	}
}

// fillGroups links to the other groups of an SLO, worst first.
func (ui *Handler) fillGroups(ctx context.Context, p *sloPage, rep *sla.Report, r *sla.SLOReport,
	active site.ActiveAlerts) {
	if len(r.SLO.GroupBy) == 0 {
		return
	}
	p.Siblings = ui.Href("/", url.Values{"slo": {string(r.SLO.ID)}})
	others := slices.DeleteFunc(site.RowsOf(rep, r.SLO.ID), func(x *sla.SLOReport) bool { return x == r })
	sorting[sla.SLOReport]{By: pagesFirst(others, active.OwnPaging)}.Order(others, false)
	p.MoreGroups = max(0, len(others)-shownGroups)
	others = others[:len(others)-p.MoreGroups]
	hours := make([]template.HTML, len(others))
	if ui.Opt.Counts != nil {
		ctx, cancel := context.WithTimeout(ctx, sparkBudget)
		defer cancel()
		var err error
		if hours, err = ui.sparks.draw(ctx, ui, rep, others); err != nil {
			ui.Opt.LogError("read history of groups", err)
		}
	}
	for i, x := range others {
		g := groupLink{Href: ui.SLOHref(x), Labels: format.Labels(x.SLO.GroupBy, x.Group),
			Mark: chart.LevelMark(x, active.Paging(x)), Value: format.NoValue, Hours: hours[i]}
		if x.Budget.HasData {
			g.Value = format.Percent(x.Budget.Remaining, 1)
		}
		p.Groups = append(p.Groups, g)
	}
}

func (ui *Handler) APIHref(r *sla.SLOReport) string { return ui.apiPath(r, "", url.Values{}) }

// historyHref is where the API gives the counts behind the charts.
func (ui *Handler) historyHref(r *sla.SLOReport, rng sloRange) string {
	return ui.apiPath(r, "/history", url.Values{
		"from": {rng.From.UTC().Format(time.RFC3339)}, "to": {rng.To.UTC().Format(time.RFC3339)},
		"step": {slo.FormatDuration(rng.Step)},
	})
}

func (ui *Handler) apiPath(r *sla.SLOReport, below string, q url.Values) string {
	maps.Copy(q, site.GroupQuery(r.SLO.GroupBy, r.Group))
	href := ui.Opt.ExternalPath + "/api/v1/slos/" + url.PathEscape(r.SLO.ID.Service()) + "/" +
		url.PathEscape(r.SLO.ID.Name()) + below
	if len(q) > 0 {
		href += "?" + q.Encode()
	}
	return href
}

func countRows(r *sla.SLOReport) []countRow {
	one := func(name string, b slo.Budget) countRow {
		out := countRow{Name: name, Good: format.Count(b.Counts.Good), Bad: format.Count(b.Counts.Bad),
			Valid: format.Count(b.Counts.Valid()), SLI: format.NoValue, Consumed: format.NoValue, Left: format.NoValue}
		if b.HasData {
			out.SLI, out.Consumed, out.Left = format.Percent(b.SLI, format.Decimals(r.SLO.Objective)),
				format.Percent(b.Consumed, 1), format.Percent(b.Remaining, 1)
		}
		return out
	}
	if r.Corrected > 0 && r.Raw.Counts != r.Budget.Counts {
		return []countRow{one("Without planned maintenance (counts)", r.Budget),
			one("Raw, including planned maintenance", r.Raw)}
	}
	return []countRow{one("Period", r.Budget)}
}

// sentBy says who sends the alerts of an SLO on counters; "" for others.
func sentBy(by state.SentBy, now time.Time) string {
	who := "The engine sends none of these alerts until it knows whether rules in Prometheus do"
	switch by.By {
	case slo.AlertsRules:
		who = "Rules in Prometheus send these alerts, and the engine sends none of them"
	case slo.AlertsLive:
		who = "The engine sends these alerts"
	case slo.AlertsBoth:
		who = "Rules in Prometheus and the engine send these alerts, and Alertmanager deduplicates them"
	}
	if by.Source == "" {
		return ""
	}
	return fmt.Sprintf("%s (%s, since %s).", who, format.Safe(by.Why, format.MaxText), format.NewStamp(by.Since, now).Text)
}

// rebuildNote says how far an SLO is with its counts from the history, and which definition is in force until then.
func rebuildNote(far string, held bool) string {
	if held {
		return "the earlier definition, in force until the changed one is counted from the history: " + far
	}
	return "rebuilt from the history: " + far
}

func (ui *Handler) facts(r *sla.SLOReport, v *site.View) []site.Fact {
	s, ind, now := r.SLO, r.SLO.Indicator, v.Now
	generation := fmt.Sprintf("generation %d", r.Generation)
	if p := v.Eng.Rebuild; p != nil && slices.Contains(p.Waiting, string(s.ID)) {
		far := "waits"
		if slices.Contains(p.SLOs, string(s.ID)) {
			far = format.Percent(p.Share, 0)
		}
		generation += ", " + rebuildNote(far, slices.Contains(p.Held, string(s.ID)))
	}
	fs := []site.Fact{
		{Name: "Period", Value: format.Span(r.Period)},
		{Name: "Counts since", Value: format.NewStamp(r.Since, now).Text, Note: generation},
		{Name: "Last valid event", Value: format.Ago(r.LastEvent, now), At: format.NewStamp(r.LastEvent, now)},
	}
	if ind.Kind != slo.KindCompletion && ind.Kind != slo.KindPrometheus {
		fs = append(fs, site.Fact{Name: "Valid events", Value: format.Safe(ind.Valid.String(), format.MaxText), Code: true})
	}
	switch ind.Kind {
	case slo.KindCompletion:
		fs = append(fs, workFacts(&ind.Completion)...)
	case slo.KindEvents:
		fs = append(fs, site.Fact{Name: "Bad events", Value: format.Safe(ind.Bad.String(), format.MaxText), Code: true})
	case slo.KindLatency:
		fs = append(fs, site.Fact{Name: "Bad if slower than", Value: slo.FormatDuration(ind.Threshold)})
	case slo.KindThroughput:
		open := "always open"
		if !ind.During.Always() {
			open = ind.During.String()
		}
		fs = append(fs, site.Fact{Name: "Good slice",
			Value: fmt.Sprintf("at least %s events per %s", format.Count(ind.AtLeast), slo.FormatDuration(ind.Per)), Note: open})
	case slo.KindRatio:
		fs[len(fs)-1] = site.Fact{Name: "Denominator", Value: format.Safe(ind.Valid.String(), format.MaxText), Code: true}
		fs = append(fs, site.Fact{Name: "Numerator", Value: format.Safe(ind.Numerator.String(), format.MaxText), Code: true,
			Note: "bad is what it is short of the denominator"})
	case slo.KindApdex:
		fs = append(fs, site.Fact{Name: "Satisfied within", Value: slo.FormatDuration(ind.Satisfied)},
			site.Fact{Name: "Tolerating up to", Value: slo.FormatDuration(ind.Tolerating),
				Note: "counts half, so counts are in half events"})
	case slo.KindVolume:
		fs = append(fs, site.Fact{Name: "Good " + string(ind.Calendar),
			Value: fmt.Sprintf("at least %s events", format.Count(ind.AtLeast)),
			Note:  cmp.Or(ind.During.String(), ind.Location.String())})
	case slo.KindPrometheus:
		fs = append(append(fs, seriesFacts(&ind)...),
			site.Fact{Name: "Read by", Value: "source " + format.Safe(ind.PromSource, format.MaxName)})
	}
	fs = append(fs, counted(r, now)...)
	budgeting := site.Fact{Name: "Budgeting", Value: string(s.Budgeting.Method)}
	if r.Slice > 0 {
		budgeting.Note = "slices of " + slo.FormatDuration(r.Slice)
		if !s.Budgeting.Target.IsZero() && s.Budgeting.Method == slo.Timeslices {
			budgeting.Note += ", each good at " + s.Budgeting.Target.String() + " or more"
		}
		fs = append(fs, site.Fact{Name: "Events in the period", Value: format.Count(r.Events.Valid())})
	}
	fs = append(fs, budgeting)
	if ui.Opt.Source != nil {
		if src, ok := ui.Opt.Source(s.ID); ok {
			fs = append(fs, site.Fact{
				Name: "Source", Value: format.Safe(fmt.Sprintf("%s:%d", src.File, src.Line), format.MaxTitle), Code: true})
		}
	}
	return fs
}

// findings are what makes the numbers of an SLO wrong.
func (ui *Handler) findings(r *sla.SLOReport) (out []string) {
	if ui.Opt.Findings == nil {
		return nil
	}
	for _, f := range ui.Opt.Findings() {
		if f.Service == r.SLO.ID.Service() && (!f.OfWork() || r.SLO.Indicator.Kind == slo.KindCompletion) &&
			(!f.OfLatency() || r.SLO.Indicator.Kind == slo.KindLatency || r.SLO.Indicator.Kind == slo.KindApdex) {
			out = append(out, f.Text())
		}
	}
	return out
}

// notes explain what a reader must know before trusting the numbers.
func notes(r *sla.SLOReport) []string {
	var out []string
	if !r.Budget.HasData {
		out = append(out,
			"The period has no valid event, so there is neither an SLI nor a budget. The state is unknown, not good.")
	}
	if r.Coverage < 0.9995 {
		out = append(out,
			fmt.Sprintf("Coverage is %s: that share of the period was observed or backfilled. The numbers do not include the "+
				"rest.", format.Percent(r.Coverage, 1)))
	}
	if r.Corrected > 0 {
		out = append(out,
			fmt.Sprintf("Planned maintenance takes %s out of the period. Raw numbers include it, and are shown where they "+
				"differ.", format.Duration(r.Corrected)))
	}
	if r.Unmeasured > 0 {
		lacks := "duration"
		if r.SLO.Indicator.Kind == slo.KindCompletion {
			lacks = format.Safe(r.SLO.Indicator.Completion.Key, format.MaxName)
		}
		out = append(
			out, fmt.Sprintf("%s matching events had no %s and were not counted.", format.Count(r.Unmeasured), lacks))
	}
	if r.Informative {
		out = append(out, "All values beyond max_groups share this group. It is shown but never alerts.")
	}
	if r.Understated {
		out = append(out,
			"The numbers may be too low: all groups of another engine are taken, and it counts events of this group in "+
				"__other__. Raise max_groups, or send all events of a group to one engine.")
	}
	return out
}
