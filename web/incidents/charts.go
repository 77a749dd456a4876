package incidents

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/history"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
	"github.com/sloengine/sloengine/web/annotations"
	"github.com/sloengine/sloengine/web/chart"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/site"
)

// historyWait is how long the page waits for its counts.
const historyWait = 3 * time.Second

// around is the time that the charts of an incident show: the incident, and half as much before and after it, but at
// least shortestMargin and at most a day.
func around(inc *incident.Incident, now time.Time) slo.Span {
	const shortestMargin = 15 * time.Minute
	end := inc.End(now)
	margin := min(24*time.Hour, max(shortestMargin, end.Sub(inc.Onset)/2))
	sp := slo.Span{From: inc.Onset.Add(-margin).Truncate(time.Minute).UTC(), To: end.Add(margin).UTC()}
	if sp.To.After(now) {
		sp.To = now.UTC()
	}
	return sp
}

// fillCharts draws the alerts of the incident, and good and bad of what it cost the most.
func (h *Handler) fillCharts(c *gin.Context, inc *incident.Incident, v site.View, p *detailPage) {
	sp := around(inc, v.Now)
	if sp.Duration() <= 0 {
		return // the clock was set back
	}
	marks := annotations.Of(h.Site, inc.Service, sp.From.AddDate(0, 0, -1)) // the first step of a chart may begin earlier
	p.Annotations = marks.In(sp, v.Now)
	if len(inc.Alerts) > 0 {
		p.Alerts = chart.NewAlertTimeline(&sla.SLOReport{}, stateAlerts(inc), sp, v.Now, 0)
		p.Alerts.Mark(marks.Moments)
		p.Alerts.Caption = "Each bar begins when the alert fired and ends when it was resolved."
	}
	if h.Opt.Counts == nil || v.Rep == nil {
		return
	}
	for i := range p.Affected {
		a := &p.Affected[i]
		r := site.FindSLO(v.Rep, a.id, a.group)
		if r == nil {
			continue
		}
		ctx, cancel := context.WithTimeout(c.Request.Context(), historyWait)
		f, err := h.events(ctx, r, inc, sp, marks.Moments, v)
		cancel()
		if err != nil {
			h.Opt.LogError("read the counts of "+inc.ID, err)
			f = chart.Figure{Note: "The counts could not be read. Reload the page in a moment."}
		}
		p.Chart, p.ChartOf = f, a
		return
	}
}

// events draws good and bad of one SLO around an incident.
func (h *Handler) events(ctx context.Context, r *sla.SLOReport, inc *incident.Incident, sp slo.Span,
	marks []chart.Moment, v site.View) (chart.Figure, error) {
	step := history.StepFor(sp, v.Now, r.Slice)
	sp.From = sp.From.Truncate(step)
	g := history.NewGrid(sp, step, history.Excluded(r.SLO, sp, r.Slice))
	answers, err := h.Opt.Counts.Ask(ctx, []fold.ReadRequest{g.Query(string(r.SLO.ID), []slo.Group{r.Group})})
	if err != nil {
		return chart.Figure{}, err
	}
	nothing := chart.Figure{Note: "Nothing of this time is counted any more."}
	a := &answers[0]
	if !a.Known || len(a.Groups) == 0 || a.Groups[0] == nil {
		return nothing, nil
	}
	shades := chart.NewShades(
		r.SLO, sp, r.Slice, a).Around(slo.Span{From: inc.Onset, To: inc.End(v.Now)}).Marked(chart.MomentsIn(marks, sp))
	if f := chart.NewEvents(r, &g, g.Points(r.SLO, r.Group, a, a.Groups[0]), shades, v.Now); len(f.Plots) > 0 {
		return f, nil
	}
	return nothing, nil
}

// stateAlerts are the alerts of an incident as the timeline takes them, one lane for each SLO and group.
func stateAlerts(inc *incident.Incident) []*state.Alert {
	var out []*state.Alert
	for i := range inc.Alerts {
		a := &inc.Alerts[i]
		name := a.Name
		if about := slices.Concat([]string{slo.ID(a.SLO).Name()}, a.Group); strings.Join(about, "") != "" {
			for k := range about {
				about[k] = format.GroupValue(about[k])
			}
			name += " " + strings.Join(about, " ")
		}
		x := &state.Alert{Name: name, Urgent: a.Severity == incident.Critical, State: state.Firing, ActiveSince: a.Fired,
			FiredAt: a.Fired, ResolvedAt: a.Resolved}
		if !a.Resolved.IsZero() {
			x.State = state.Resolved
		}
		out = append(out, x)
	}
	return out
}
