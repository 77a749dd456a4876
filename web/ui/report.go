package ui

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/report"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/chart"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/respond"
	"github.com/sloengine/sloengine/web/site"
)

// reportPage is the data of the page "/report".
type reportPage struct {
	site.Layout
	Heading  string
	Dates    string
	Zones    string
	Running  string        // "" or how far the period is
	Problem  string        // what is wrong with the address
	Months   []site.Option // to choose the period from
	Weeks    []site.Option
	Usual    []site.Link
	Zone     string // the zone, for the form
	Selects  []site.Choice
	Prev     site.Link
	Next     site.Link // Href "" if it has not begun
	Units    []site.Link
	CSV      string
	JSON     string
	Figures  []site.Figure
	Services []reportService
	Costs    *site.Costs // nil if the spec states no cost

	Forecasts      []reportForecast // those that are most probably exhausted
	OtherForecasts []reportForecast
	MoreForecasts  int

	Ledgers       []reportLedger
	Incidents     []reportIncident
	MoreIncidents int

	Notes []string
	Empty string
	Made  format.Stamp
}

type reportService struct {
	Name       string
	ID         string
	SLAs       reportTable[reportCard]
	SLOs       reportTable[reportRow]
	Thresholds reportTable[reportThreshold]
}

// reportTable shows what is not as agreed, and folds the rest.
type reportTable[T any] struct {
	Open, Met reportRows[T]
	More      int // rows that only the CSV has
}

type reportRows[T any] struct {
	Service string
	Rows    []T
}

func (t *reportTable[T]) add(met bool, row T) {
	switch {
	case len(t.Open.Rows)+len(t.Met.Rows) >= mostReportRows:
		t.More++
	case met:
		t.Met.Rows = append(t.Met.Rows, row)
	default:
		t.Open.Rows = append(t.Open.Rows, row)
	}
}

type reportCard struct {
	slaCard
	Verdict    chart.Mark
	Coverage   string
	Partial    bool
	Since      string
	Violations string
}

type reportRow struct {
	Verdict            chart.Mark
	Informative        bool
	Href               string
	Name, Title        string
	Group              []format.Label
	Objective, Counted string
	Events             string
	Good, Bad          string
	SLI, RawSLI        string
	Spent, RawSpent    string
	Over               bool
	Coverage, Since    string
	Partial            bool
	Worst, WorstNote   string
}

type reportThreshold struct {
	Name, Match, Group  string
	Warning, Critical   string
	Warnings, Criticals site.Figure
	Within, Coverage    string
	Partial             bool
	Since               string
}

// mostReportRows is how many lines of a kind a service shows on the page; the CSV
// has them all.
const mostReportRows = 500

// offeredMonths and offeredWeeks are how many periods the form offers. Links lead to earlier ones.
const (
	offeredMonths = 13
	offeredWeeks  = 10
)

// periodOptions are the last months and weeks, the newest first, and the one that is shown.
func periodOptions(now time.Time, shown report.Period) (months, weeks []site.Option) {
	list := func(unit slo.CalendarUnit, n int) (out []site.Option) {
		add := func(p report.Period) {
			word := p.Title()
			if unit == slo.Week {
				word += ", " + p.Dates()
			}
			out = append(out, site.Option{Value: p.String(), Word: word, On: p == shown})
		}
		for i := range n {
			add(report.PeriodOf(unit, now).Shift(-i))
		}
		if shown.Unit == unit && !slices.ContainsFunc(out, func(o site.Option) bool { return o.On }) {
			add(shown)
		}
		return out
	}
	return list(slo.Month, offeredMonths), list(slo.Week, offeredWeeks)
}

// reportLinks lead to the reports that people mostly want.
func (ui *Handler) reportLinks(v site.View, ask report.Query) []site.Link {
	now := v.Rep.Time.UTC()
	var out []site.Link
	for _, l := range []struct {
		text string
		p    report.Period
	}{
		{"last week", report.PeriodOf(slo.Week, now).Shift(-1)}, {"this week", report.PeriodOf(slo.Week, now)},
		{"last month", report.PeriodOf(slo.Month, now).Shift(-1)}, {"this month", report.PeriodOf(slo.Month, now)},
	} {
		out = append(out, site.Link{Text: l.text, Href: ui.reportHref(ask, l.p), On: l.p == ask.Period})
	}
	return out
}

func (ui *Handler) reportHref(ask report.Query, p report.Period) string {
	ask.Period = p
	return ui.Href("/report", site.ReportValues(ask))
}

func (ui *Handler) reportPage(c *gin.Context) {
	v := ui.View()
	if v.Rep == nil {
		ui.Message(c, http.StatusServiceUnavailable, "No report yet",
			"The engine has not made its first report. Try again in a few seconds.")
		return
	}
	q := c.Request.URL.Query()
	asked := q.Get("period")
	if asked == "" { // the last week is the newest that is over
		q.Set("period", report.PeriodOf(slo.Week, v.Rep.Time.UTC()).Shift(-1).String())
	}
	ask, err := site.ReportQuery(q, v.Now)
	if err == nil && respond.NotModified(c, v.ReportTag("report", c.Request.URL.RawQuery)) {
		return
	}
	p := reportPage{Layout: ui.Layout(c, v, "Report", "report"),
		Zone: format.Safe(q.Get("zone"), format.MaxName), Made: format.NewStamp(v.Rep.Time, time.Time{})}
	p.Refresh, p.Stream = nil, "" // a report stays as it was when it was asked for
	p.Months, p.Weeks = periodOptions(v.Rep.Time.UTC(), ask.Period)
	p.Selects = []site.Choice{
		{Name: "service", Label: "Service", Any: "All services", Options: site.SelectOptions(servicesOf(v.Rep), ask.Service)}}
	status := http.StatusOK
	if err != nil {
		p.Heading, p.Problem, status = "Report", err.Error(), http.StatusBadRequest
		c.Header("Cache-Control", "no-store")
		ui.Page(c, status, "report", p)
		return
	}
	p.Usual = ui.reportLinks(v, ask)
	ui.fillReportHead(&p, v, ask)
	if !ui.BuildsReport(c, v) {
		return
	}
	r, err := ui.Reports.Make(c.Request.Context(), ui.ReportSource(), v.Rep, ask)
	switch {
	case errors.Is(err, report.ErrNoHistory):
		p.Empty = "This engine has no history to report from."
	case err != nil:
		ui.Opt.LogError("make the report of "+ask.Period.String(), err)
		c.Writer.Header().Del("ETag")
		c.Header("Cache-Control", "no-store")
		p.Empty, status = "The report could not be made. Reload the page in a moment.", http.StatusServiceUnavailable
	case !r.Begun:
		p.Empty = "This period has not begun yet."
	case len(r.SLOs)+len(r.SLAs)+len(r.Thresholds) == 0:
		p.Empty = "The spec has no SLOs or SLAs of this service."
	default:
		ui.fillReport(&p, v, r)
	}
	ui.Page(c, status, "report", p)
}

func servicesOf(rep *sla.Report) map[string]bool {
	out := map[string]bool{}
	for i := range rep.SLOs {
		out[rep.SLOs[i].SLO.ID.Service()] = true
	}
	for i := range rep.SLAs {
		out[rep.SLAs[i].SLA.Service] = true
	}
	return out
}

func (ui *Handler) fillReportHead(p *reportPage, v site.View, ask report.Query) {
	p.Heading, p.Dates = ask.Period.Title(), ask.Period.Dates()
	p.Title = "Report " + ask.Period.String()
	prev, next := ask.Period.Shift(-1), ask.Period.Shift(1)
	p.Prev = site.Link{Text: prev.String(), Href: ui.reportHref(ask, prev)}
	p.Next = site.Link{Text: next.String()}
	if next.In(time.UTC).From.Before(v.Rep.Time.Add(14 * time.Hour)) { // it may have begun further east
		p.Next.Href = ui.reportHref(ask, next)
	}
	noon := ask.Period.Noon()
	for _, u := range []struct {
		unit slo.CalendarUnit
		text string
	}{{slo.Week, "Week"}, {slo.Month, "Month"}} {
		to := ask.Period
		if u.unit != ask.Period.Unit {
			to = report.PeriodOf(u.unit, noon)
		}
		p.Units = append(p.Units, site.Link{Text: u.text, Href: ui.reportHref(ask, to), On: u.unit == ask.Period.Unit})
	}
	q := site.ReportValues(ask)
	p.JSON = ui.Opt.ExternalPath + "/api/v1/report?" + q.Encode()
	q.Set("format", "csv")
	p.CSV = ui.Opt.ExternalPath + "/api/v1/report?" + q.Encode()
}

func (ui *Handler) fillReport(p *reportPage, v site.View, r *report.Report) {
	zones := map[string]bool{}
	var until time.Time
	r.Each(func(c *report.Covered) {
		zones[c.Zone.String()] = true
		if c.Span.To.After(until) {
			until = c.Span.To
		}
	})
	for z := range zones {
		if p.Zones != "" {
			p.Zones = "each row in its own time zone"
			break
		}
		p.Zones = z
	}
	if r.Running {
		p.Running = "The period has not ended. These are the numbers up to " +
			until.In(time.UTC).Format("2006-01-02 15:04 UTC") + "."
	}
	p.Figures = reportFigures(r)
	p.Services, p.Costs = ui.reportServices(v, r), site.NewCosts(r.Costs())
	ui.fillReportIncidents(p, r)
	ui.fillReportLedgers(p, r)
	p.Notes = r.Notes()
	ui.fillReportForecasts(p, r)
}

func reportFigures(r *report.Report) []site.Figure {
	agreements, objectives, v := r.Agreements(), r.Objectives(), r.Violations()
	of := func(t report.Tally) string { return format.Count(t.Met) + " of " + format.Count(t.Judged()) }
	return []site.Figure{
		{Name: "Objectives met", Value: of(objectives), Note: format.Plural(objectives.NoData, "group") + " without data"},
		{Name: "Objectives breached", Value: format.Count(objectives.Breached), Note: "SLOs and groups",
			Bad: objectives.Breached > 0},
		{Name: "SLAs met", Value: of(agreements), Note: "every component met its objective",
			Bad: agreements.Breached > 0},
		{Name: "Violations", Value: format.Count(v.Warning + v.Critical),
			Note: format.Count(v.Critical) + " critical, " + format.Count(v.Warning) + " warnings"},
		coverageFigure(r),
	}
}

func coverageFigure(r *report.Report) site.Figure {
	f := site.Figure{Name: "Lowest coverage", Value: format.NoValue, Note: "of all SLOs, SLAs and event thresholds"}
	if low, ok := r.LowestCoverage(); ok {
		f.Value, f.Partial = format.Percent(low, 1), low < partialCoverage
	}
	if n := len(r.NewLines()); n > 0 {
		f.Note += ", without " + format.Count(n) + " new"
	}
	return f
}

// sinceText says since when a line counts, if not from the start, and whether its days are rounded.
func sinceText(c *report.Covered) string {
	var out []string
	if !c.KeptFrom.IsZero() {
		out = append(out, "since "+c.KeptFrom.In(c.Zone).Format("2 Jan 15:04"))
	}
	if !c.NewFrom.IsZero() {
		out = append(out, "new since "+c.NewFrom.In(c.Zone).Format("2 Jan 15:04"))
	}
	if c.Rounded {
		out = append(out, "whole hours")
	}
	return strings.Join(out, ", ")
}

func (ui *Handler) reportServices(v site.View, r *report.Report) []reportService {
	var out []reportService
	at := map[string]int{}
	get := func(name string) *reportService {
		i, ok := at[name]
		if !ok {
			i = len(out)
			at[name] = i
			s := reportService{Name: format.Safe(name, format.MaxName), ID: "svc-" + respond.Hash(name)}
			for _, to := range []*string{&s.SLAs.Open.Service, &s.SLAs.Met.Service, &s.SLOs.Open.Service,
				&s.SLOs.Met.Service, &s.Thresholds.Open.Service, &s.Thresholds.Met.Service} {
				*to = s.Name
			}
			out = append(out, s)
		}
		return &out[i]
	}
	agreements := report.WorstFirst(r.SLAs, func(x *report.SLA) report.Verdict { return x.Verdict })
	slices.SortStableFunc(agreements, func(a, b *report.SLA) int { return cmp.Compare(a.SLA.Service, b.SLA.Service) })
	for _, x := range agreements {
		card := reportCard{slaCard: ui.newCard(v.Rep, &x.SLAReport), Verdict: verdictMark(x.Verdict),
			Coverage: format.Percent(x.Coverage, 1), Partial: x.Coverage < partialCoverage, Since: sinceText(&x.Covered)}
		get(x.SLA.Service).SLAs.add(x.Verdict == report.Met, card)
	}
	rows := report.WorstFirst(r.SLOs, func(x *report.SLO) report.Verdict { return x.Verdict })
	slices.SortStableFunc(rows, func(a, b *report.SLO) int {
		return cmp.Compare(a.Now.SLO.ID.Service(), b.Now.SLO.ID.Service())
	})
	for _, x := range rows {
		get(x.Now.SLO.ID.Service()).SLOs.add(x.Verdict == report.Met, ui.newReportRow(x))
	}
	for i := range r.Thresholds {
		x := &r.Thresholds[i]
		s := get(x.Now.Threshold.Service)
		l := reportThreshold{
			Name:  format.Safe(x.Now.Threshold.Name, format.MaxName),
			Match: format.Safe(x.Now.Threshold.Match.String(), format.MaxTitle), Within: format.Count(x.Violations.Within),
			Coverage: format.Percent(x.Coverage, 1), Partial: x.Coverage < partialCoverage, Since: sinceText(&x.Covered),
		}
		var warns, crits bool
		l.Warning, l.Critical, warns, crits = thresholdTexts(x.Now.Threshold)
		l.Warnings, l.Criticals = violations(x.Violations.Warning, warns), violations(x.Violations.Critical, crits)
		s.Thresholds.add(x.Violations.Critical == 0, l)
		for _, g := range x.Worst(mostThresholdGroups) {
			of := l
			of.Group, of.Within = thresholdGroup(x.Now.Threshold.GroupBy, g.Group), format.Count(g.Violations.Within)
			of.Warnings, of.Criticals = violations(g.Violations.Warning, warns), violations(g.Violations.Critical, crits)
			s.Thresholds.add(x.Violations.Critical == 0, of)
		}
	}
	return out
}

func (ui *Handler) newReportRow(x *report.SLO) reportRow {
	s := x.Now.SLO
	out := reportRow{
		Verdict: verdictMark(x.Verdict), Informative: x.Now.Informative, Href: ui.SLOHref(x.Now),
		Name: format.Safe(s.ID.Name(), format.MaxName), Title: format.Safe(s.Description, format.MaxTitle),
		Group: format.Labels(s.GroupBy, x.Now.Group), Objective: s.Objective.String(), Events: format.Count(x.Events),
		Good: format.Count(x.Net.Counts.Good), Bad: format.Count(x.Net.Counts.Bad),
		SLI: format.NoValue, Spent: format.NoValue, Coverage: format.Percent(x.Coverage, 1),
		Partial: x.Coverage < partialCoverage, Since: sinceText(&x.Covered), Worst: format.NoValue,
	}
	if x.Now.Slice > 0 {
		out.Counted = chart.CountedName(x.Now)
	}
	decimals := format.Decimals(s.Objective)
	if x.Net.HasData {
		out.SLI, out.Spent, out.Over = format.Percent(x.Net.SLI, decimals), format.Percent(x.Net.Consumed, 1),
			x.Verdict == report.Breached
	}
	if x.Corrected > 0 && x.Raw.HasData {
		out.RawSLI, out.RawSpent = unlessSame(format.Percent(x.Raw.SLI, decimals), out.SLI),
			unlessSame(format.Percent(x.Raw.Consumed, 1), out.Spent)
	}
	if x.Worst >= 0 {
		d := &x.Days[x.Worst]
		at, err := time.Parse(time.DateOnly, d.Date)
		if err == nil {
			out.Worst = at.Format("Mon 2 Jan")
		}
		out.WorstNote = format.Percent(d.Share, 0) + " of the bad events"
		if b := d.Net.Budget(s); b.HasData {
			out.WorstNote = format.Percent(b.SLI, decimals) + ", " + out.WorstNote
		}
	}
	return out
}

// verdictMark is how a page shows a verdict.
func verdictMark(v report.Verdict) chart.Mark {
	switch v {
	case report.Met:
		return chart.OK("met")
	case report.Breached:
		return chart.Bad("breached")
	case report.Informative:
		return chart.None("not judged")
	}
	return chart.None("no data")
}
