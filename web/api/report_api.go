package api

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/sla/report"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/api/v1"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/respond"
	"github.com/sloengine/sloengine/web/site"
)

func newCovered(c *report.Covered) v1.Covered {
	return v1.Covered{Zone: c.Zone.String(), From: timeOrNil(c.Span.From), To: timeOrNil(c.Span.To), Running: c.Running,
		KeptFrom: timeOrNil(c.KeptFrom), Coverage: c.Coverage, Rounded: c.Rounded}
}

func newMoney(all []slo.Money) (out []v1.Money) {
	for _, m := range all {
		out = append(out, v1.Money{Currency: m.Currency, Amount: m})
	}
	return out
}

func newIncidentFigures(f *report.IncidentFigures) v1.IncidentFigures {
	seconds := func(d *time.Duration) *float64 {
		if d == nil {
			return nil
		}
		return number(d.Seconds(), true)
	}
	return v1.IncidentFigures{
		Critical: f.Critical, Warnings: f.Warnings, Automated: f.Automated,
		Detection: seconds(f.Detection), Response: seconds(f.Response),
	}
}

func newReportIncidents(p *report.Report) *v1.ReportIncidents {
	if p.Incidents == nil {
		return nil
	}
	out := &v1.ReportIncidents{IncidentFigures: newIncidentFigures(&p.Incidents.IncidentFigures),
		Items: []v1.ReportIncident{}}
	if b := p.Incidents.Before; b != nil {
		before := newIncidentFigures(b)
		out.Before = &before
	}
	for i := range p.Incidents.List {
		x := &p.Incidents.List[i]
		response, answered := x.Response()
		out.Items = append(out.Items, v1.ReportIncident{
			ID: x.ID, Title: x.Title, Service: x.Service, Severity: x.Severity(), Onset: x.Onset.UTC(),
			Detected: x.Detected.UTC(), Resolved: timeOrNil(x.Resolved),
			Automated: x.Automated, Detection: x.Detection().Seconds(), Response: number(response.Seconds(), answered),
			Duration: x.Duration(p.Now()).Seconds(), Spent: number(x.Spent, x.Spent >= 0), Cost: newMoney(x.Cost),
		})
	}
	return out
}

func newReportDay(s *slo.SLO, d *report.Day) v1.ReportDay {
	b := d.Net.Budget(s)
	return v1.ReportDay{
		Date: d.Date, Net: NewCounts(d.Net.Counts), Raw: NewCounts(d.Raw.Counts),
		SLI: number(b.SLI, b.HasData), Share: d.Share,
		Rounded: d.Rounded,
	}
}

func newReportSLO(p *report.Report, r *report.SLO, days bool) v1.ReportSLO {
	s := r.Now.SLO
	out := v1.ReportSLO{
		ID: s.ID, Service: s.ID.Service(), SLO: s.ID.Name(), Group: groupJSON(s.GroupBy, r.Now.Group),
		Informative: r.Now.Informative, Kind: s.Indicator.Kind,
		Objective: s.Objective.Ratio(), Percent: s.Objective.Percent(), Slice: r.Now.Slice.Seconds(),
		Covered: newCovered(&r.Covered),
		Events:  r.Events, Verdict: string(r.Verdict), Budget: newBudget(r.Net), Raw: newBudget(r.Raw), Cost: r.Cost(),
		Corrected: r.Corrected.Seconds(),
	}
	if f := p.Forecast(r); f != nil {
		out.Forecast = newForecast(r.Now, f.Since)
	}
	out.Ledger = newLedger(r.Ledger, s, r.Net)
	if r.Worst >= 0 {
		d := newReportDay(s, &r.Days[r.Worst])
		out.WorstDay = &d
	}
	if days {
		for i := range r.Days {
			out.Days = append(out.Days, newReportDay(s, &r.Days[i]))
		}
	}
	return out
}

func newReportSLA(p *report.Report, r *report.SLA, days bool) v1.ReportSLA {
	out := v1.ReportSLA{SLA: NewSLA(&r.SLAReport, p.AgreementCosts(r)), Covered: newCovered(&r.Covered),
		Verdict: string(r.Verdict), Violations: v1.Violations(r.Violations)}
	if days {
		for i := range r.Days {
			d := &r.Days[i]
			out.Days = append(out.Days, v1.ReportSLADay{
				Date: d.From.In(r.Zone).Format(time.DateOnly), Score: number(d.Report.Score, d.Has()),
				Low: number(d.Report.Low, d.Has()), High: number(d.Report.High, d.Has()),
			})
		}
	}
	return out
}

func newReportThreshold(r *report.Threshold) v1.ReportThreshold {
	out := v1.ReportThreshold{
		ThresholdDefinition: newThresholdDefinition(r.Now.Threshold), Covered: newCovered(&r.Covered),
		Violations: v1.Violations(r.Violations),
	}
	for _, g := range r.Groups {
		out.Groups = append(out.Groups, v1.ReportThresholdGroup{
			Group: groupJSON(r.Now.Threshold.GroupBy, g.Group), Violations: v1.Violations(g.Violations),
		})
	}
	return out
}

func newPeriodReport(p *report.Report, v site.View, days bool) v1.PeriodReport {
	out := v1.PeriodReport{
		Report: newReportJSON(v), Period: p.Period.String(), Unit: p.Period.Unit, Previous: p.Period.Shift(-1).String(),
		Next:    p.Period.Shift(1).String(),
		Service: p.Service, Agreement: string(p.Agreement), Begun: p.Begun, Running: p.Running,
		SLOs: []v1.ReportSLO{}, SLAs: []v1.ReportSLA{},
		Thresholds: []v1.ReportThreshold{},
	}
	if p.Zone != nil {
		out.Zone = p.Zone.String()
	}
	for i := range p.SLOs {
		out.SLOs = append(out.SLOs, newReportSLO(p, &p.SLOs[i], days))
	}
	for i := range p.SLAs {
		out.SLAs = append(out.SLAs, newReportSLA(p, &p.SLAs[i], days))
	}
	for i := range p.Thresholds {
		out.Thresholds = append(out.Thresholds, newReportThreshold(&p.Thresholds[i]))
	}
	out.Limits, out.Incidents, out.Costs = out.Thresholds, newReportIncidents(p), p.Costs()
	return out
}

func (api *Handler) apiReport(c *gin.Context) {
	q := c.Request.URL.Query()
	kind := q.Get("format")
	ask, err := site.ReportQuery(q, api.Opt.Now())
	if err == nil && !slices.Contains([]string{"", "json", "csv", "html", "text"}, kind) {
		err = fmt.Errorf("format %q: want json, csv, html or text", format.Safe(kind, format.MaxName))
	}
	if err == nil && q.Get("days") != "" && q.Get("days") != "true" && q.Get("days") != "false" {
		err = fmt.Errorf("days: want true or false")
	}
	if err != nil {
		respond.Problem(c, http.StatusBadRequest, err.Error(), nil)
		return
	}
	v, done := api.begin(c)
	switch {
	case done:
		return
	case v.Rep == nil:
		c.Header("Retry-After", "5")
		respond.Problem(c, http.StatusServiceUnavailable, "There is no report yet.", nil)
		return
	}
	if !api.BuildsReport(c, v) {
		return
	}
	r, err := api.Reports.Make(c.Request.Context(), api.ReportSource(), v.Rep, ask)
	switch {
	case errors.Is(err, report.ErrNoHistory):
		respond.Problem(c, http.StatusNotImplemented, "This engine has no history.", nil)
	case err != nil:
		api.Opt.LogError("make the report of "+ask.Period.String(), err)
		respond.Problem(c, http.StatusServiceUnavailable, "The report could not be made now.", nil)
	case kind == "csv":
		body, err := reportCSV(r)
		if err != nil {
			api.Opt.LogError("write the report of "+ask.Period.String(), err)
			respond.Problem(c, http.StatusInternalServerError, "The report could not be written.", nil)
			return
		}
		c.Header("Content-Disposition", `attachment; filename="sloengine-report-`+ask.Period.String()+`.csv"`)
		respond.Send(c, http.StatusOK, "text/csv; charset=utf-8; header=present", body)
	case kind == "html" || kind == "text":
		out, err := api.writeReport(c.Request.Context(), mailInput{Report: r, Whole: kind == "text"}, v)
		if err != nil {
			api.Opt.LogError("write the report of "+ask.Period.String(), err)
			respond.Problem(c, http.StatusServiceUnavailable, "The report could not be made now.", nil)
			return
		}
		if kind == "text" {
			respond.Send(c, http.StatusOK, "text/plain; charset=utf-8", []byte(out.Text))
			return
		}
		c.Header("Content-Disposition", `inline; filename="sloengine-report-`+ask.Period.String()+`.html"`)
		c.Header("Content-Security-Policy", reportPolicy)
		respond.Send(c, http.StatusOK, "text/html; charset=utf-8", []byte(out.HTML))
	default:
		respond.JSON(c, http.StatusOK, "application/json", newPeriodReport(r, v, q.Get("days") == "true"))
	}
}
