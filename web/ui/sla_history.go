package ui

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/history"
	"github.com/sloengine/sloengine/sla/report"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/annotations"
	"github.com/sloengine/sloengine/web/chart"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/site"
)

// slaDays are how far back the history of a score may reach, in days.
var slaDays = []int{14, 30, 90}

const defaultSLADays = 30

// slaHistory is the score of each day alone.
type slaHistory struct {
	Days    []site.Link
	Zone    string
	Score   chart.Figure
	Note    string // instead of the charts
	Summary string
	Hints   []string // what these numbers are not

	Annotations annotations.Listed
}

func (ui *Handler) slaHistory(ctx context.Context, v site.View, r *sla.SLAReport, q url.Values) slaHistory {
	n, err := strconv.Atoi(q.Get("days"))
	if err != nil || !slices.Contains(slaDays, n) {
		n = defaultSLADays
	}
	zone := history.Zone(r.SLA.Window)
	h := slaHistory{Zone: zone.String()}
	for _, d := range slaDays {
		to := slaQuery(r)
		if d != defaultSLADays {
			to.Set("days", strconv.Itoa(d))
		}
		if s := q.Get("refresh"); s != "" {
			to.Set("refresh", s)
		}
		h.Days = append(h.Days, site.Link{Text: strconv.Itoa(d) + " days", Href: ui.Href("/sla", to), On: d == n})
	}
	if ui.Opt.Counts == nil {
		h.Note = "This engine has no history."
		return h
	}
	ctx, cancel := context.WithTimeout(ctx, historyBudget)
	defer cancel()
	days, err := report.DayScores(ctx, ui.Opt.Counts, v.Rep, r, n, zone)
	if err != nil {
		ui.Opt.LogError("read history of SLA "+r.SLA.Service+"/"+r.SLA.Name, err)
		h.Note = historyFailed
		return h
	}
	if !slices.ContainsFunc(days, func(d report.DayScore) bool { return d.Has() }) {
		h.Note = "No day in this range has a score: no component has counts that are still retained."
		return h
	}
	shown := slo.Span{From: days[0].From, To: days[len(days)-1].To}
	marks := annotations.Of(ui.Site, r.SLA.Service, shown.From)
	h.Score, h.Summary = chart.NewScores(r, days, zone, marks.Moments)
	h.Annotations = marks.In(shown, v.Now)
	h.Hints = scoreHints(r.SLA, days)
	return h
}

// scoreHints say what the scores of days are not.
func scoreHints(a *sla.Agreement, days []report.DayScore) []string {
	out := []string{
		fmt.Sprintf("The score of a day uses the counts of that day only. The score of the SLA covers its window "+
			"(%s), so the two can differ.", format.Window(a.Window))}
	gone := 0
	for i := range days {
		if !days[i].Kept {
			gone++
		}
	}
	if gone > 0 {
		out = append(out, format.Plural(gone, "day")+
			" at the start are left out: the counts of at least one component do not go back that far, and a score without "+
			"that component would not be comparable.")
	}
	if len(days) == 0 {
		return out
	}
	for _, c := range days[0].Report.Components {
		if c.Note == report.NotCounted {
			out = append(out, format.Safe(c.Name, format.MaxName)+" is measured by Prometheus and is not in these scores.")
		}
	}
	return out
}
