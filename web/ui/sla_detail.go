package ui

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/report"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/alertpage"
	"github.com/sloengine/sloengine/web/annotations"
	"github.com/sloengine/sloengine/web/chart"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/respond"
	"github.com/sloengine/sloengine/web/site"
)

// slaPage is the data of the page "/sla".
type slaPage struct {
	site.Layout
	Card        slaCard
	Description string
	Cells       []site.Figure
	Groups      []groupLink
	MoreGroups  int
	Siblings    string
	Notes       []string
	Period      string
	Alerts      []alertpage.Row // active, of the agreement and its components
	Alert       string          // the score over the alert window
	Lost        string          // all points lost
	Rule        string          // how the score is made
	Missing     []string
	History     slaHistory
	Thresholds  []thresholdRow
	Costs       *site.Costs // nil if no component has a cost
	Reports     []site.Link
	API         string
}

func (ui *Handler) slaPage(c *gin.Context) {
	v := ui.View()
	q := c.Request.URL.Query()
	r, exists := site.FindSLA(v.Rep, q)
	switch {
	case v.Rep == nil:
		ui.Message(c, http.StatusServiceUnavailable, "No report yet",
			"The engine has not made its first report. Try again in a few seconds.")
		return
	case r == nil && exists:
		c.Redirect(http.StatusFound, ui.Href("/slas", url.Values{"service": {q.Get("service")}}))
		return
	case r == nil:
		ui.Message(c, http.StatusNotFound, "No such SLA",
			"The current spec has no SLA with this name. It may have been renamed or removed.")
		return
	}
	active, digest := ui.Alerts(site.AlertFilter{Active: true})
	if respond.NotModified(c, v.ReportTag("sla", c.Request.URL.RawQuery, digest, annotations.Tag(ui.Site),
		strconv.FormatBool(alertpage.MaySilence(ui.Site, c)))) {
		site.RefreshHeader(c)
		return
	}
	a := r.SLA
	p := slaPage{
		Layout: ui.Layout(c, v, site.Title(a.Service+"/"+a.Name, a.GroupBy, r.Group), "slas"), Card: ui.newCard(v.Rep, r),
		Description: format.Safe(a.Description, format.MaxText),
		Period:      format.Span(r.Period), Rule: scoreRule(a), Thresholds: newThresholdRows(v.Rep, v.Now, a.Service),
		Reports: ui.reportLinks(v, report.Query{Service: a.Service}),
		API:     ui.Opt.ExternalPath + "/api/v1/slas?" + url.Values{"service": {a.Service}}.Encode(),
	}
	p.Crumbs = ui.GroupCrumbs(site.Link{Text: "SLAs", Href: "/slas"}, a.Service, a.Name,
		url.Values{"service": {a.Service}, "q": {a.Service + "/" + a.Name}}, a.GroupBy, r.Group)
	p.Cells = slaCells(r, &p.Card)
	lost := 0.0
	for _, x := range r.Components {
		lost += x.Lost
	}
	p.Lost = format.PointsLost(lost)
	if x := r.Alert; x != nil {
		p.Alert = "Alerts use a shorter window of " + slo.FormatDuration(a.AlertWindow) + ", which has no data."
		if x.HasData {
			p.Alert = fmt.Sprintf("Alerts use a shorter window of %s, over which the score is %s.",
				slo.FormatDuration(a.AlertWindow), format.Score(x.Score))
		}
	}
	p.Costs = site.NewCosts(site.AgreementCosts(v.Rep, r))
	p.Alerts = slaAlerts(alertpage.NewRows(ui.Site, c, v.Now), r, active)
	p.Notes, p.Missing = slaNotes(r), missingTexts(r)
	ui.fillSLAGroups(&p, v.Rep, r)
	p.History = ui.slaHistory(c.Request.Context(), v, r, q)
	if p.History.Note == historyFailed {
		respond.Partial(c)
	}
	ui.Page(c, http.StatusOK, "sla", p)
}

func slaCells(r *sla.SLAReport, card *slaCard) []site.Figure {
	a := r.SLA
	score := site.Figure{Name: "Score", Value: card.Score, Note: "of 100, over " + card.Window,
		Bad: card.Mark.Shape == "bad"}
	if card.Range != "" {
		score.Note = "of 100, possibly " + card.Range + " with the missing data"
	}
	state := site.Figure{Name: "State", Mark: &card.Mark, Note: cmp.Or(card.Levels, "no alert thresholds")}
	worst := site.Figure{Name: "Worst component", Value: "none", Note: "no points were lost"}
	if card.Worst != nil {
		worst.Value, worst.Note = card.Worst.Name, card.Worst.Lost+" points lost of "+card.Worst.Of
	}
	met, known := 0, 0
	for i := range r.Components {
		if c := &r.Components[i]; c.HasData {
			known++
			if c.Attainment >= 1 {
				met++
			}
		}
	}
	objectives := site.Figure{Name: "Objectives met", Value: fmt.Sprintf("%d of %d", met, known),
		Note: "no component missed its objective"}
	switch {
	case known == 0:
		objectives.Value, objectives.Note = format.NoValue, "no component has data"
	case r.Informative:
		objectives.Note = "no SLA covers this group"
	case r.Breached:
		objectives.Note, objectives.Bad = "the SLA is breached", true
	}
	data := site.Figure{Name: "Components with data", Value: fmt.Sprintf("%d of %d", known, len(r.Components)),
		Note: "every component has data", Partial: r.Missing > 0}
	if r.Missing > 0 {
		data.Note = "missing data " + noDataText(a.NoData)
	}
	low := 1.0
	for i := range r.Components {
		low = min(low, r.Components[i].Coverage)
	}
	return []site.Figure{score, state, worst, objectives, data,
		{Name: "Coverage", Value: format.Percent(low, 1), Note: "of the window, lowest of all components",
			Partial: low < partialCoverage}}
}

// scoreRule says how an agreement's score is made.
func scoreRule(a *sla.Agreement) string {
	rule := map[sla.Method]string{
		sla.Attainment: "A component earns its full weight while its objective is met. Otherwise it earns its weight times " +
			"the allowed errors divided by the actual errors.",
		sla.Ratio: "A component earns its weight times its SLI. A throughput component earns its weight times " +
			"the share of its target volume.",
		sla.Bands: "A component with bands earns its weight times the score of the first band it satisfies. Other " +
			"components earn their weight times their SLI.",
	}[a.Method]
	switch a.NoData {
	case sla.NoDataGood:
		rule += " A component without data earns its full weight."
	case sla.NoDataBad:
		rule += " A component without data earns nothing."
	default:
		rule += " A component without data is left out, and the others share its weight."
	}
	return rule
}

// slaNotes explain what a reader must know before trusting the numbers.
func slaNotes(r *sla.SLAReport) []string {
	var out []string
	switch {
	case r.Informative:
		out = append(out,
			"All values beyond max_groups share this group. No SLA covers it: it is shown, but it never alerts and is "+
				"never breached.")
	case r.Breached && r.Missing > 0 && r.SLA.NoData == sla.NoDataBad:
		out = append(out, "Breached: a component has no data, which this SLA declares bad.")
	case r.Breached && r.Level == sla.LevelOK:
		out = append(out,
			"Breached although the score is above its alert thresholds: a component missed its own objective, which a "+
				"weighted mean can hide.")
	case r.Breached:
		out = append(out, "Breached: at least one component missed its own objective.")
	}
	for i := range r.Components {
		if r.Components[i].Coverage < 0.9995 && r.Components[i].HasData {
			out = append(out,
				"Coverage is below 100%: for the rest of the window the engine was not running or counted by another definition, "+
					"or rate limits dropped events. The score does not include unobserved events.")
			break
		}
	}
	return out
}

// missingTexts say which components have no data and what that did to the score.
func missingTexts(r *sla.SLAReport) []string {
	var out []string
	for i := range r.Components {
		c := &r.Components[i]
		if c.HasData {
			continue
		}
		out = append(out, fmt.Sprintf("%s, %s of the weight: %s.", format.Safe(c.Name, format.MaxName),
			format.WrittenPercent(c.Weight), cmp.Or(format.Safe(strings.TrimSuffix(c.Note, "."), format.MaxTitle), "no data")))
	}
	if len(out) > 0 && r.HasData && r.Missing < len(r.Components) {
		out = append(out,
			fmt.Sprintf("The score would be %s if the missing components had failed completely, and %s if they were perfect.",
				format.Score(r.Low), format.Score(r.High)))
	}
	return out
}

// fillSLAGroups links to the other groups of an agreement, worst first.
func (ui *Handler) fillSLAGroups(p *slaPage, rep *sla.Report, r *sla.SLAReport) {
	if len(r.SLA.GroupBy) == 0 {
		return
	}
	p.Siblings = ui.Href("/slas", url.Values{"service": {r.SLA.Service}, "q": {r.SLA.Service + "/" + r.SLA.Name}})
	var others []*sla.SLAReport
	for _, x := range worstFirst(rep, r.SLA.Service) {
		if x.SLA == r.SLA && x != r {
			others = append(others, x)
		}
	}
	p.MoreGroups = max(0, len(others)-shownGroups)
	for _, x := range others[:len(others)-p.MoreGroups] {
		g := groupLink{Href: ui.SLAHref(x), Labels: format.Labels(x.SLA.GroupBy, x.Group), Mark: chart.AgreementMark(x),
			Value: format.NoValue}
		if x.HasData {
			g.Value = format.Score(x.Score)
		}
		p.Groups = append(p.Groups, g)
	}
}
