package web

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

type sloPage struct {
	layout
	Row         row
	ID          string
	Description string
	Labels      []label
	Counts      []countRow
	Corrected   string
	Burns       []burnRow
	Tiers       []tierRow
	HasAlerts   bool // the engine evaluates alerts
	Alerts      []alertRow
	Ranges      []refreshLink
	Chart       *chart
	ChartNote   string
	Facts       []fact
	Notes       []string
	Corrections []correctionRow
	Siblings    string // link to all groups of the SLO; "" if it has only one
	API         string
}

type fact struct {
	Name, Value, Note string
	Code              bool
	At                stamp
}

// countRow is one way of counting: corrected, or raw.
type countRow struct {
	Name, Good, Bad, Valid, SLI, Consumed, Left string
}

type burnRow struct {
	Window, Rate, RawRate, Good, Bad string
	Gauge                            gauge
	Fast                             bool
}

// tierRow is a pair of windows that alerts watch.
type tierRow struct {
	Kind, Long, Short, Factor, LongRate, ShortRate, Verdict string
	On                                                      bool
}

type correctionRow struct {
	Name, Author, Reason, RRule, Length string
	Start                               stamp
}

// ranges are the spans that the history chart can show.
var ranges = []struct {
	name       string
	span, step time.Duration
}{
	{"24h", 24 * time.Hour, 30 * time.Minute},
	{"7d", 7 * 24 * time.Hour, 3 * time.Hour},
	{"30d", 30 * 24 * time.Hour, 12 * time.Hour},
	{"90d", 90 * 24 * time.Hour, 24 * time.Hour},
}

func (w *Web) sloPage(c *gin.Context) {
	v := w.view()
	q := c.Request.URL.Query()
	id := slo.ID(q.Get("id"))
	r, exists := findGroup(v.rep, id, q)
	switch {
	case v.rep == nil:
		w.message(c, http.StatusServiceUnavailable, "No report yet", "The engine has not made its first report. Try again in a few seconds.")
		return
	case r == nil && exists:
		c.Redirect(http.StatusFound, w.href("/", url.Values{"slo": {string(id)}}))
		return
	case r == nil:
		w.message(c, http.StatusNotFound, "No such service level", "The spec in force has no service level of this name. It may have been renamed or removed.")
		return
	}
	alerts, digest := w.alerts(alertFilter{slo: id})
	if fresh(c, v.tag("slo", c.Request.URL.RawQuery, c.Request.Host, digest)) {
		refreshHeader(c)
		return
	}
	p := sloPage{
		layout: w.layout(c, v, show(string(id), shownTitle), "slo"), Row: w.newRow(r), ID: show(string(id), shownTitle), Description: show(r.SLO.Description, shownText),
		Counts: countRows(r), Burns: burnRows(r), Tiers: tierRows(r), Facts: w.facts(r, v.now), Notes: notes(r), API: w.apiHref(r),
	}
	p.HasAlerts, p.Alerts = w.opt.Alerts != nil && !r.Informative, w.sloAlerts(v, r, alerts)
	if r.Corrected > 0 {
		p.Corrected = span(r.Corrected)
	}
	for _, k := range slices.Sorted(maps.Keys(r.SLO.Labels)) {
		p.Labels = append(p.Labels, label{show(k, shownName), show(r.SLO.Labels[k], shownName), show(r.SLO.Labels[k], shownTitle)})
	}
	for _, x := range r.SLO.Corrections {
		p.Corrections = append(p.Corrections, correctionRow{
			Name: show(x.Name, shownName), Author: show(x.Author, shownName), Reason: show(x.Reason, shownTitle), RRule: show(x.RRule, shownTitle),
			Length: span(x.Duration), Start: newStamp(x.Start, v.now),
		})
	}
	if len(r.SLO.GroupBy) > 0 {
		p.Siblings = w.href("/", url.Values{"slo": {string(id)}})
	}
	w.fillChart(c, v, r, q, &p)
	w.page(c, http.StatusOK, "slo", p)
}

func (w *Web) fillChart(c *gin.Context, v view, r *sla.SLOReport, q url.Values, p *sloPage) {
	if w.opt.History == nil {
		p.ChartNote = "This engine keeps no history."
		return
	}
	chosen := ranges[0]
	for _, x := range ranges {
		if x.span > 24*time.Hour && x.span > r.SLO.Window.Longest() {
			continue // nothing is kept for longer than the window
		}
		if x.name == q.Get("range") {
			chosen = x
		}
		to := url.Values{}
		for k := range q {
			to.Set(k, q.Get(k))
		}
		to.Set("range", x.name)
		p.Ranges = append(p.Ranges, refreshLink{Text: x.name, Href: w.href("/slo", to)})
	}
	for i := range p.Ranges {
		p.Ranges[i].On = p.Ranges[i].Text == chosen.name
	}
	to := v.rep.Time.UTC()
	from := to.Add(-chosen.span).Truncate(chosen.step).Add(chosen.step)
	points, err := w.opt.History(c.Request.Context(), string(r.SLO.ID), r.Group, from, to, chosen.step)
	switch {
	case err != nil:
		w.opt.LogError("read history of "+string(r.SLO.ID), err)
		p.ChartNote = "The history could not be read now."
	case len(points) == 0:
		p.ChartNote = "There is no history of this group yet."
	default:
		p.Chart = newChart(points, r.SLO, slo.Span{From: from, To: to}, chosen.step)
	}
}

func (w *Web) apiHref(r *sla.SLOReport) string {
	q := url.Values{}
	for i, n := range r.SLO.GroupBy {
		if i < len(r.Group) {
			q.Set(groupParam+n, r.Group[i])
		}
	}
	href := w.opt.ExternalPath + "/api/v1/slos/" + url.PathEscape(r.SLO.ID.Service()) + "/" + url.PathEscape(r.SLO.ID.Name())
	if len(q) > 0 {
		href += "?" + q.Encode()
	}
	return href
}

func countRows(r *sla.SLOReport) []countRow {
	one := func(name string, b slo.Budget) countRow {
		out := countRow{Name: name, Good: count(b.Counts.Good), Bad: count(b.Counts.Bad), Valid: count(b.Counts.Valid()), SLI: noValue, Consumed: noValue, Left: noValue}
		if b.HasData {
			out.SLI, out.Consumed, out.Left = percent(b.SLI, sliDecimals(r.SLO.Objective)), percent(b.Consumed, 1), percent(b.Remaining, 1)
		}
		return out
	}
	if r.Corrected > 0 {
		return []countRow{one("Without planned maintenance (counts)", r.Budget), one("Raw, with everything", r.Raw)}
	}
	return []countRow{one("Period", r.Budget)}
}

func burnRows(r *sla.SLOReport) []burnRow {
	var out []burnRow
	for i, b := range r.Burns {
		x := burnRow{Window: slo.FormatDuration(b.Window), Rate: noValue, Good: count(b.Counts.Good), Bad: count(b.Counts.Bad), Gauge: gauge{"0", "none", "no data"}}
		if b.Period {
			x.Window = "period (" + r.SLO.Window.String() + ")"
		}
		if b.HasData {
			x.Rate, x.Fast = times(b.Rate), b.Rate > 1
			x.Gauge = gauge{coord(100 * burnHeight(b.Rate)), burnClass(b.Rate), times(b.Rate)}
		}
		if r.Corrected > 0 && i < len(r.RawBurns) && r.RawBurns[i].HasData && r.RawBurns[i].Rate != b.Rate {
			x.RawRate = times(r.RawBurns[i].Rate)
		}
		out = append(out, x)
	}
	return out
}

func tierRows(r *sla.SLOReport) []tierRow {
	period := r.SLO.Window.Rolling
	if period == 0 {
		period = r.SLO.Window.Longest()
	}
	rate := func(d time.Duration) (float64, bool) {
		for _, b := range r.Burns {
			if b.Window == d && !b.Period {
				return b.Rate, b.HasData
			}
		}
		return 0, false
	}
	text := func(x float64, ok bool) string {
		if !ok {
			return noValue
		}
		return times(x)
	}
	var out []tierRow
	for _, t := range slo.Tiers {
		if t.Long >= period {
			continue
		}
		f := t.Factor(period)
		long, ok1 := rate(t.Long)
		short, ok2 := rate(t.Short)
		x := tierRow{
			Kind: map[bool]string{true: "page", false: "ticket"}[t.Page], Long: slo.FormatDuration(t.Long), Short: slo.FormatDuration(t.Short),
			Factor: times(f), LongRate: text(long, ok1), ShortRate: text(short, ok2), Verdict: "quiet",
		}
		if !ok1 {
			x.Verdict = "no data"
		}
		if ok1 && ok2 && long > f && short > f {
			x.On, x.Verdict = true, "burning"
		}
		out = append(out, x)
	}
	return out
}

// burning reports whether some pair of windows burns faster than its factor.
func burning(r *sla.SLOReport) bool {
	return slices.ContainsFunc(tierRows(r), func(t tierRow) bool { return t.On })
}

func (w *Web) facts(r *sla.SLOReport, now time.Time) []fact {
	s, ind := r.SLO, r.SLO.Indicator
	fs := []fact{
		{Name: "Period", Value: newStamp(r.Period.From, now).Text + " to " + newStamp(r.Period.To, now).Text},
		{Name: "Counts since", Value: newStamp(r.Since, now).Text, Note: fmt.Sprintf("generation %d", r.Generation)},
		{Name: "Last valid event", Value: ago(r.LastEvent, now), At: newStamp(r.LastEvent, now)},
		{Name: "Valid events", Value: show(ind.Valid.String(), shownText), Code: true},
	}
	switch ind.Kind {
	case slo.KindEvents:
		fs = append(fs, fact{Name: "Bad among them", Value: show(ind.Bad.String(), shownText), Code: true})
	case slo.KindLatency:
		fs = append(fs, fact{Name: "Bad if slower than", Value: slo.FormatDuration(ind.Threshold)})
	case slo.KindThroughput:
		open := "always open"
		if !ind.During.Always() {
			open = ind.During.String()
		}
		fs = append(fs, fact{Name: "A slice is good with", Value: fmt.Sprintf("at least %s events per %s", count(ind.AtLeast), slo.FormatDuration(ind.Per)), Note: open})
	case slo.KindPrometheus:
		fs = append(fs, fact{Name: "Bad series", Value: show(ind.PromBad, shownText), Code: true}, fact{Name: "All series", Value: show(ind.PromTotal, shownText), Code: true})
	}
	budgeting := fact{Name: "Budgeting", Value: string(s.Budgeting.Method)}
	if r.Slice > 0 {
		budgeting.Note = "slices of " + slo.FormatDuration(r.Slice)
		if !s.Budgeting.Target.IsZero() && s.Budgeting.Method == slo.Timeslices {
			budgeting.Note += ", each good from " + s.Budgeting.Target.String()
		}
		fs = append(fs, fact{Name: "Events in the period", Value: count(r.Events.Valid())})
	}
	fs = append(fs, budgeting)
	if w.opt.Source != nil {
		if src, ok := w.opt.Source(s.ID); ok {
			fs = append(fs, fact{Name: "Written in", Value: show(fmt.Sprintf("%s:%d", src.File, src.Line), shownTitle), Code: true})
		}
	}
	return fs
}

// notes explain what a reader must know before trusting the numbers.
func notes(r *sla.SLOReport) []string {
	var out []string
	if !r.Budget.HasData {
		out = append(out, "No valid event lies in the period, so there is neither an indicator nor a budget. No data is not the same as good.")
	}
	if r.Coverage < 0.9995 {
		out = append(out, fmt.Sprintf("Coverage is %s: in that share of the period the engine was up and counted by the present definition. What happened in the rest is not in these numbers.", percent(r.Coverage, 1)))
	}
	if r.Corrected > 0 {
		out = append(out, fmt.Sprintf("Planned maintenance takes %s out of the period. The raw numbers with everything in them are shown beside.", span(r.Corrected)))
	}
	if r.Unmeasured > 0 {
		out = append(out, fmt.Sprintf("%s matching events had no duration and could not be judged.", count(r.Unmeasured)))
	}
	if r.Informative {
		out = append(out, "This group collects all groups beyond max_groups. It informs and never alerts.")
	}
	return out
}
