package ui

import (
	"net/url"
	"time"

	"github.com/sloengine/sloengine/sla/report"
	"github.com/sloengine/sloengine/web/chart"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/site"
)

// reportIncident is an incident that was detected in the period.
type reportIncident struct {
	Mark                chart.Mark
	ID, Href            string
	Title, Service      string
	Onset               format.Stamp
	Detection, Response string
	Duration, Spent     string
	Cost                string // "" if no affected SLO has a cost
}

// reportLedger is where the budget of a line went.
type reportLedger struct {
	Href, Name string
	Group      []format.Label
	*site.Ledger
}

// fillReportLedgers adds where the budgets went.
func (ui *Handler) fillReportLedgers(p *reportPage, r *report.Report) {
	for i := range r.SLOs {
		x := &r.SLOs[i]
		if x.Ledger == nil || !x.Ledger.Explains() {
			continue
		}
		if l := ui.NewLedger(x.Ledger, x.Now.SLO, x.Net); l != nil {
			p.Ledgers = append(p.Ledgers, reportLedger{ui.SLOHref(x.Now), format.Safe(string(x.Now.SLO.ID), format.MaxTitle),
				format.Labels(x.Now.SLO.GroupBy, x.Now.Group), l})
		}
	}
}

const shownReportIncidents = 100

// fillReportIncidents adds the incidents of the period, if they are known.
func (ui *Handler) fillReportIncidents(p *reportPage, r *report.Report) {
	all := r.Incidents
	if all == nil {
		return
	}
	p.Figures = append(p.Figures,
		site.Figure{Name: "Incidents", Value: format.Count(all.Critical),
			Note: beside(all.Before, func(f *report.IncidentFigures) string {
				return format.Count(f.Critical)
			})},
		site.Figure{Name: "Median detection", Value: tookText(all.Detection),
			Note: beside(all.Before, func(f *report.IncidentFigures) string {
				return tookText(f.Detection)
			})},
		site.Figure{Name: "Median response", Value: tookText(all.Response),
			Note: beside(all.Before, func(f *report.IncidentFigures) string {
				return tookText(f.Response)
			})},
	)
	for i := range all.List {
		if len(p.Incidents) == shownReportIncidents {
			p.MoreIncidents = len(all.List) - i
			break
		}
		x := &all.List[i]
		row := reportIncident{
			Mark: chart.Risk(x.Severity()), ID: x.ID, Href: ui.Href(site.IncidentPath, url.Values{"id": {x.ID}}),
			Title: format.Safe(x.Title, format.MaxTitle), Service: format.Safe(x.Service, format.MaxName),
			Onset: format.NewStamp(x.Onset, r.Now()), Detection: format.Duration(x.Detection()), Response: format.NoValue,
			Duration: format.Duration(x.Duration(r.Now())), Spent: format.NoValue,
		}
		if x.Critical {
			row.Mark = chart.Bad(x.Severity())
		}
		if d, ok := x.Response(); ok {
			row.Response = format.Duration(d)
		}
		if x.Spent >= 0 {
			row.Spent = format.Percent(x.Spent, 1)
		}
		if len(x.Cost) > 0 {
			row.Cost = format.MoneyTexts(x.Cost)
		}
		p.Incidents = append(p.Incidents, row)
	}
}

// beside is a figure of the period before.
func beside(before *report.IncidentFigures, of func(*report.IncidentFigures) string) string {
	if before == nil {
		return "the period before is unknown"
	}
	return of(before) + " in the period before"
}

func tookText(d *time.Duration) string {
	if d == nil {
		return format.NoValue
	}
	return format.Duration(*d)
}
