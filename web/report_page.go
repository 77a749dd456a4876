package web

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/format"
)

// reportPage is the data of the page "/report".
type reportPage struct {
	layout
	Heading  string
	Dates    string
	Zones    string
	Running  string // "" or how far the period is
	Problem  string // what is wrong with the address
	Asked    string // the period, for the form
	Zone     string // the zone, for the form
	Selects  []choice
	Prev     refreshLink
	Next     refreshLink // Href "" if it has not begun
	Units    []refreshLink
	CSV      string
	JSON     string
	Figures  []slaCell
	Services []reportService
	Notes    []string
	Empty    string
	Made     format.Stamp
}

type reportService struct {
	Name     string
	ID       string
	Cards    []reportCard
	Rows     []reportRow
	MoreRows int
	MoreSLAs int
	Limits   []reportLimit
}

type reportCard struct {
	slaCard
	Verdict    mark
	Coverage   string
	Partial    bool
	Since      string
	Violations string
}

type reportRow struct {
	Verdict            mark
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

type reportLimit struct {
	Name, Match         string
	Warning, Critical   string
	Warnings, Criticals figure
	Within, Coverage    string
	Partial             bool
	Since               string
}

// mostReportRows is how many lines of a kind a service shows on the page; the CSV
// has them all.
const mostReportRows = 500

// reportLinks lead to the reports that people mostly want.
func (w *Web) reportLinks(v view, service string) []refreshLink {
	now := v.rep.Time.UTC()
	var out []refreshLink
	for _, l := range []struct {
		text string
		p    reportPeriod
	}{
		{"last week", periodOf(slo.Week, now).shift(-1)}, {"this week", periodOf(slo.Week, now)},
		{"last month", periodOf(slo.Month, now).shift(-1)}, {"this month", periodOf(slo.Month, now)},
	} {
		out = append(out, refreshLink{Text: l.text, Href: w.reportHref(l.p, service, "")})
	}
	return out
}

func (w *Web) reportHref(p reportPeriod, service, zone string) string {
	return w.href("/report", reportQuery(p, service, zone))
}

func reportQuery(p reportPeriod, service, zone string) url.Values {
	q := url.Values{"period": {p.String()}}
	if service != "" {
		q.Set("service", service)
	}
	if zone != "" {
		q.Set("zone", zone)
	}
	return q
}

func (w *Web) reportPage(c *gin.Context) {
	v := w.view()
	if v.rep == nil {
		w.message(c, http.StatusServiceUnavailable, "No report yet", "The engine has not made its first report. Try again in a few seconds.")
		return
	}
	q := c.Request.URL.Query()
	asked := q.Get("period")
	if asked == "" { // the last week is the newest that is over
		q.Set("period", periodOf(slo.Week, v.rep.Time.UTC()).shift(-1).String())
	}
	ask, err := reportAskOf(q)
	if err == nil && fresh(c, v.tag("report", c.Request.URL.RawQuery)) {
		return
	}
	p := reportPage{layout: w.layout(c, v, "Report", "slas"), Asked: format.Safe(q.Get("period"), format.MaxName), Zone: format.Safe(q.Get("zone"), format.MaxName), Made: format.NewStamp(v.rep.Time, time.Time{})}
	p.Refresh, p.Stream = nil, "" // a report stays as it was when it was asked for
	p.Selects = []choice{{Name: "service", Label: "Service", Any: "All services", Options: options(servicesOf(v.rep), ask.service)}}
	status := http.StatusOK
	if err != nil {
		p.Heading, p.Problem, status = "Report", err.Error(), http.StatusBadRequest
		c.Header("Cache-Control", "no-store")
		w.page(c, status, "report", p)
		return
	}
	w.fillReportHead(&p, v, ask)
	r, err := w.periodReport(c.Request.Context(), v, ask)
	switch {
	case errors.Is(err, errNoCounts):
		p.Empty = "This engine keeps no history, so there is nothing to report from."
	case err != nil:
		w.opt.LogError("make the report of "+ask.period.String(), err)
		c.Writer.Header().Del("ETag")
		c.Header("Cache-Control", "no-store")
		p.Empty, status = "The report could not be made now. Load the page again in a moment.", http.StatusServiceUnavailable
	case !r.begun:
		p.Empty = "This period has not begun yet."
	case len(r.slos)+len(r.slas)+len(r.limits) == 0:
		p.Empty = "The spec has nothing of this service to report on."
	default:
		w.fillReport(&p, v, r)
	}
	w.page(c, status, "report", p)
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

func (w *Web) fillReportHead(p *reportPage, v view, ask reportAsk) {
	zone := ""
	if ask.zone != nil {
		zone = ask.zone.String()
	}
	p.Heading, p.Dates = ask.period.title(), ask.period.dates()
	p.Title = "Report " + ask.period.String()
	prev, next := ask.period.shift(-1), ask.period.shift(1)
	p.Prev = refreshLink{Text: prev.String(), Href: w.reportHref(prev, ask.service, zone)}
	p.Next = refreshLink{Text: next.String()}
	if next.in(time.UTC).From.Before(v.rep.Time.Add(14 * time.Hour)) { // it may have begun further east
		p.Next.Href = w.reportHref(next, ask.service, zone)
	}
	noon := ask.period.noon()
	for _, u := range []struct {
		unit slo.CalendarUnit
		text string
	}{{slo.Week, "Week"}, {slo.Month, "Month"}} {
		to := ask.period
		if u.unit != ask.period.unit {
			to = periodOf(u.unit, noon)
		}
		p.Units = append(p.Units, refreshLink{u.text, w.reportHref(to, ask.service, zone), u.unit == ask.period.unit})
	}
	q := reportQuery(ask.period, ask.service, zone)
	p.JSON = w.opt.ExternalPath + "/api/v1/report?" + q.Encode()
	q.Set("format", "csv")
	p.CSV = w.opt.ExternalPath + "/api/v1/report?" + q.Encode()
}

func (w *Web) fillReport(p *reportPage, v view, r *periodReport) {
	zones := map[string]bool{}
	var until time.Time
	kept, partial, corrected := false, false, false
	see := func(c *covered) {
		zones[c.zone.String()] = true
		if c.span.To.After(until) {
			until = c.span.To
		}
		kept = kept || !c.keptFrom.IsZero()
		partial = partial || c.coverage < 0.9995
	}
	counts := map[verdict]int{}
	var agreed [2]int // met, breached
	for i := range r.slos {
		see(&r.slos[i].covered)
		counts[r.slos[i].verdict]++
		corrected = corrected || r.slos[i].corrected > 0
	}
	for i := range r.slas {
		x := &r.slas[i]
		see(&x.covered)
		switch x.verdict {
		case attained:
			agreed[0]++
		case missed:
			agreed[1]++
		}
	}
	for i := range r.limits {
		see(&r.limits[i].covered)
	}
	for z := range zones {
		if p.Zones != "" {
			p.Zones = "in the zone of each line"
			break
		}
		p.Zones = z
	}
	if r.running {
		p.Running = "The period is not over: these are the numbers up to " + until.In(time.UTC).Format("2006-01-02 15:04 UTC") + "."
	}
	p.Figures = reportFigures(r, counts, agreed)
	p.Services = w.reportServices(v, r)
	p.Notes = reportNotes(kept, partial, corrected)
}

func reportFigures(r *periodReport, counts map[verdict]int, agreed [2]int) []slaCell {
	low, events := 1.0, uint64(0)
	for i := range r.slos {
		low = min(low, r.slos[i].coverage)
		if !r.slos[i].now.Informative {
			events += r.slos[i].net.Counts.Bad
		}
	}
	var warn, crit uint64
	for i := range r.limits {
		warn, crit = warn+r.limits[i].violations.Warning, crit+r.limits[i].violations.Critical
	}
	judged := counts[attained] + counts[missed]
	out := []slaCell{
		{Name: "Objectives attained", Value: fmt.Sprintf("%s of %s", format.Count(counts[attained]), format.Count(judged)), Note: format.Plural(counts[noData], "group") + " without data"},
		{Name: "Objectives missed", Value: format.Count(counts[missed]), Note: "service levels and groups", Bad: counts[missed] > 0},
		{Name: "Agreements met", Value: fmt.Sprintf("%s of %s", format.Count(agreed[0]), format.Count(agreed[0]+agreed[1])), Note: "every component attained", Bad: agreed[1] > 0},
		{Name: "Violations", Value: format.Count(warn + crit), Note: format.Count(crit) + " critical, " + format.Count(warn) + " warnings"},
		{Name: "Coverage", Value: format.Percent(low, 1), Note: "of the period, of the least observed", Partial: low < partialCoverage},
	}
	return out
}

func reportNotes(kept, partial, corrected bool) []string {
	out := []string{"Attained: over this period alone the errors stayed within what the objective allows. Budget spent is the share of the period's own error budget; it may differ from that of the objective's window."}
	if corrected {
		out = append(out, "Planned maintenance is taken out, rounded outward to five minutes; the raw numbers with everything in them stand beside.")
	}
	if kept {
		out = append(out, "Some counts do not reach back to the start of the period: such lines say since when. What happened before is not in their numbers, and an agreement leaves out whole days then.")
	}
	if partial {
		out = append(out, "Coverage below 100%: in the rest of the time the engine was not running, did not count by the present definition, or limits dropped events.")
	}
	return append(out, "Late events are put into the minute in which they happened, so a report that is made again later may count more.")
}

// sinceText says since when a line counts, if not from the start.
func sinceText(c *covered) string {
	if c.keptFrom.IsZero() {
		return ""
	}
	return "since " + c.keptFrom.In(c.zone).Format("2 Jan 15:04")
}

func (w *Web) reportServices(v view, r *periodReport) []reportService {
	var out []reportService
	at := map[string]int{}
	get := func(name string) *reportService {
		i, ok := at[name]
		if !ok {
			i = len(out)
			at[name] = i
			out = append(out, reportService{Name: format.Safe(name, format.MaxName), ID: "svc-" + hash(name)})
		}
		return &out[i]
	}
	for _, i := range worstAgreements(r.slas) {
		x := &r.slas[i]
		s := get(x.SLA.Service)
		if len(s.Cards) >= mostReportRows {
			s.MoreSLAs++
			continue
		}
		card := reportCard{slaCard: w.newCard(v.rep, &x.SLAReport), Verdict: x.verdict.mark(), Coverage: format.Percent(x.coverage, 1), Partial: x.coverage < partialCoverage, Since: sinceText(&x.covered)}
		card.Levels = ""
		if x.Level == sla.LevelWarning || x.Level == sla.LevelCritical {
			card.Levels = string(x.Level)
		}
		s.Cards = append(s.Cards, card)
	}
	for _, i := range worstRows(r.slos) {
		x := &r.slos[i]
		s := get(x.now.SLO.ID.Service())
		if len(s.Rows) >= mostReportRows {
			s.MoreRows++
			continue
		}
		s.Rows = append(s.Rows, w.newReportRow(x))
	}
	for i := range r.limits {
		x := &r.limits[i]
		s := get(x.now.Limit.Service)
		l := reportLimit{
			Name: format.Safe(x.now.Limit.Name, format.MaxName), Match: format.Safe(x.now.Limit.Match.String(), format.MaxTitle), Within: format.Count(x.violations.Within),
			Coverage: format.Percent(x.coverage, 1), Partial: x.coverage < partialCoverage, Since: sinceText(&x.covered),
		}
		var warns, crits bool
		l.Warning, l.Critical, warns, crits = limitTexts(x.now.Limit)
		l.Warnings, l.Criticals = violations(x.violations.Warning, warns), violations(x.violations.Critical, crits)
		s.Limits = append(s.Limits, l)
	}
	return out
}

// worstRows orders lines: by service, then what was missed, without data, attained
// and informs only; equal ones as the report has them.
func worstRows(rows []sloResult) []int {
	return worstLines(len(rows), func(i int) (string, verdict) { return rows[i].now.SLO.ID.Service(), rows[i].verdict })
}

// worstAgreements is worstRows for agreements.
func worstAgreements(rows []slaResult) []int {
	return worstLines(len(rows), func(i int) (string, verdict) { return rows[i].SLA.Service, rows[i].verdict })
}

func worstLines(n int, line func(int) (service string, v verdict)) []int {
	rank := map[verdict]int{missed: 0, noData: 1, attained: 2, informative: 3}
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		as, av := line(a)
		bs, bv := line(b)
		return cmp.Or(cmp.Compare(as, bs), rank[av]-rank[bv])
	})
	return order
}

func (w *Web) newReportRow(x *sloResult) reportRow {
	s := x.now.SLO
	out := reportRow{
		Verdict: x.verdict.mark(), Informative: x.now.Informative, Href: w.sloHref(x.now), Name: format.Safe(s.ID.Name(), format.MaxName), Title: format.Safe(s.Description, format.MaxTitle),
		Group: format.Labels(s.GroupBy, x.now.Group), Objective: s.Objective.String(), Events: format.Count(x.events), Good: format.Count(x.net.Counts.Good), Bad: format.Count(x.net.Counts.Bad),
		SLI: format.NoValue, Spent: format.NoValue, Coverage: format.Percent(x.coverage, 1), Partial: x.coverage < partialCoverage, Since: sinceText(&x.covered), Worst: format.NoValue,
	}
	if x.now.Slice > 0 {
		out.Counted = countedName(x.now)
	}
	decimals := format.Decimals(s.Objective)
	if x.net.HasData {
		out.SLI, out.Spent, out.Over = format.Percent(x.net.SLI, decimals), format.Percent(x.net.Consumed, 1), x.verdict == missed
	}
	if x.corrected > 0 && x.raw.HasData {
		out.RawSLI, out.RawSpent = format.Percent(x.raw.SLI, decimals), format.Percent(x.raw.Consumed, 1)
	}
	if x.worst >= 0 {
		d := &x.days[x.worst]
		at, err := time.Parse(time.DateOnly, d.date)
		if err == nil {
			out.Worst = at.Format("Mon 2 Jan")
		}
		out.WorstNote = format.Percent(d.share, 0) + " of what was bad"
		if b := d.net.Budget(s); b.HasData {
			out.WorstNote = format.Percent(b.SLI, decimals) + ", " + out.WorstNote
		}
	}
	return out
}
