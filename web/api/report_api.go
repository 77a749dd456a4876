package api

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/report"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/respond"
	"github.com/sloengine/sloengine/web/site"
)

type coveredJSON struct {
	Zone      string     `json:"zone"`
	From      *time.Time `json:"from"`
	To        *time.Time `json:"to"` // of what is over of the period
	Running   bool       `json:"running"`
	KeptFrom  *time.Time `json:"kept_from"` // null: everything since from
	Coverage  float64    `json:"coverage"`
	Rounded   bool       `json:"rounded"` // days or planned maintenance are rounded to whole hours
	Corrected *float64   `json:"corrected_seconds,omitempty"`
}

func newCovered(c *report.Covered) coveredJSON {
	return coveredJSON{Zone: c.Zone.String(), From: timeOrNil(c.Span.From), To: timeOrNil(c.Span.To), Running: c.Running, KeptFrom: timeOrNil(c.KeptFrom), Coverage: c.Coverage, Rounded: c.Rounded}
}

type reportDayJSON struct {
	Date  string     `json:"date"`
	Net   CountsJSON `json:"counts"` // planned maintenance taken out
	Raw   CountsJSON `json:"raw_counts"`
	SLI   *float64   `json:"sli"`
	Share float64    `json:"share_of_loss"`

	Rounded bool `json:"rounded"` // the day or planned maintenance is rounded to whole hours
}

type ReportSLOJSON struct {
	ID          slo.ID            `json:"id"`
	Service     string            `json:"service"`
	SLO         string            `json:"slo"`
	Group       map[string]string `json:"group"`
	Informative bool              `json:"informative"`
	Kind        slo.IndicatorKind `json:"kind"`
	Objective   float64           `json:"objective"`
	Percent     string            `json:"objective_percent"`
	Slice       float64           `json:"slice_seconds"` // 0: events are judged
	coveredJSON
	Events   uint64          `json:"events"` // with planned maintenance, in events whatever is judged
	Verdict  report.Verdict  `json:"verdict"`
	Budget   budgetJSON      `json:"budget"`     // planned maintenance taken out: what counts
	Raw      budgetJSON      `json:"raw_budget"` // everything
	WorstDay *reportDayJSON  `json:"worst_day"`
	Cost     *sla.SLOCost    `json:"cost,omitempty"`     // if the spec states one
	Forecast *forecastJSON   `json:"forecast,omitempty"` // if the period reaches to now
	Days     []reportDayJSON `json:"days,omitempty"`
}

type slaDayJSON struct {
	Date  string   `json:"date"`
	Score *float64 `json:"score"`
	Low   *float64 `json:"low"`
	High  *float64 `json:"high"`
}

type ReportSLAJSON struct {
	slaJSON
	coveredJSON
	Verdict    report.Verdict `json:"verdict"`
	Violations ViolationsJSON `json:"violations"` // of the event thresholds of its service, of all groups
	Days       []slaDayJSON   `json:"days,omitempty"`
}

type reportThresholdJSON struct {
	thresholdDefinition
	coveredJSON
	Violations ViolationsJSON `json:"violations"`

	Groups []reportThresholdGroupJSON `json:"groups,omitempty"` // with group_by
}

type reportThresholdGroupJSON struct {
	Group      map[string]string `json:"group"`
	Violations ViolationsJSON    `json:"violations"`
}

type PeriodReportJSON struct {
	Report     reportJSON            `json:"report"`
	Period     string                `json:"period"`
	Unit       slo.CalendarUnit      `json:"unit"`
	Previous   string                `json:"previous"`
	Next       string                `json:"next"`
	Service    string                `json:"service,omitempty"`
	Zone       string                `json:"zone,omitempty"` // that was asked for
	Begun      bool                  `json:"begun"`
	Running    bool                  `json:"running"` // the period is not over everywhere
	SLOs       []ReportSLOJSON       `json:"slos"`
	SLAs       []ReportSLAJSON       `json:"slas"`
	Thresholds []reportThresholdJSON `json:"thresholds"`
	Limits     []reportThresholdJSON `json:"limits"`          // the same, for clients that know the old name
	Costs      *sla.Costs            `json:"costs,omitempty"` // of all its SLOs, if the spec states any
	Incidents  *reportIncidentsJSON  `json:"incidents"`       // null: not known
}

// incidentFiguresJSON sums up the incidents that were detected in a period. Medians are over those of severity critical.
type incidentFiguresJSON struct {
	Critical  int      `json:"critical"`
	Warnings  int      `json:"warnings"`
	Automated int      `json:"automated"` // of critical
	Detection *float64 `json:"median_detection_seconds"`
	Response  *float64 `json:"median_response_seconds"`
}

type reportIncidentsJSON struct {
	incidentFiguresJSON
	Before *incidentFiguresJSON `json:"previous"` // of the period before; null: not known
	Items  []reportIncidentJSON `json:"items"`
}

type reportIncidentJSON struct {
	ID        string      `json:"id"`
	Title     string      `json:"title"`
	Service   string      `json:"service"`
	Severity  string      `json:"severity"`
	Onset     *time.Time  `json:"onset"`
	Detected  *time.Time  `json:"detected"`
	Resolved  *time.Time  `json:"resolved"` // null: it goes on
	Automated bool        `json:"automated"`
	Detection float64     `json:"detection_seconds"`
	Response  *float64    `json:"response_seconds"` // null: not acknowledged
	Duration  float64     `json:"duration_seconds"`
	Spent     *float64    `json:"budget_spent"`   // the most of one error budget; null: not known
	Cost      []moneyJSON `json:"cost,omitempty"` // by currency; absent if no affected SLO has a cost
}

// moneyJSON is an amount as a decimal text, which no reader takes for a float.
type moneyJSON struct {
	Currency string    `json:"currency"`
	Amount   slo.Money `json:"amount"`
}

func newMoney(all []slo.Money) (out []moneyJSON) {
	for _, m := range all {
		out = append(out, moneyJSON{m.Currency, m})
	}
	return out
}

func newIncidentFigures(f *report.IncidentFigures) incidentFiguresJSON {
	seconds := func(d *time.Duration) *float64 {
		if d == nil {
			return nil
		}
		return number(d.Seconds(), true)
	}
	return incidentFiguresJSON{f.Critical, f.Warnings, f.Automated, seconds(f.Detection), seconds(f.Response)}
}

func newReportIncidents(p *report.Report) *reportIncidentsJSON {
	if p.Incidents == nil {
		return nil
	}
	out := &reportIncidentsJSON{incidentFiguresJSON: newIncidentFigures(&p.Incidents.IncidentFigures), Items: []reportIncidentJSON{}}
	if b := p.Incidents.Before; b != nil {
		before := newIncidentFigures(b)
		out.Before = &before
	}
	for i := range p.Incidents.List {
		x := &p.Incidents.List[i]
		response, answered := x.Response()
		out.Items = append(out.Items, reportIncidentJSON{
			ID: x.ID, Title: x.Title, Service: x.Service, Severity: x.Severity(), Onset: timeOrNil(x.Onset), Detected: timeOrNil(x.Detected), Resolved: timeOrNil(x.Resolved),
			Automated: x.Automated, Detection: x.Detection().Seconds(), Response: number(response.Seconds(), answered), Duration: x.Duration(p.Now()).Seconds(), Spent: number(x.Spent, x.Spent >= 0), Cost: newMoney(x.Cost),
		})
	}
	return out
}

func newReportDay(s *slo.SLO, d *report.Day) reportDayJSON {
	b := d.Net.Budget(s)
	return reportDayJSON{d.Date, NewCounts(d.Net.Counts), NewCounts(d.Raw.Counts), number(b.SLI, b.HasData), d.Share, d.Rounded}
}

func newReportSLO(p *report.Report, r *report.SLO, days bool) ReportSLOJSON {
	s := r.Now.SLO
	out := ReportSLOJSON{
		ID: s.ID, Service: s.ID.Service(), SLO: s.ID.Name(), Group: groupJSON(s.GroupBy, r.Now.Group), Informative: r.Now.Informative, Kind: s.Indicator.Kind,
		Objective: s.Objective.Ratio(), Percent: s.Objective.Percent(), Slice: r.Now.Slice.Seconds(), coveredJSON: newCovered(&r.Covered),
		Events: r.Events, Verdict: r.Verdict, Budget: newBudget(r.Net), Raw: newBudget(r.Raw), Cost: r.Cost(),
	}
	if p.Forecast(r) != nil {
		out.Forecast = newForecast(r.Now)
	}
	corrected := r.Corrected.Seconds()
	out.Corrected = &corrected
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

func newReportSLA(p *report.Report, r *report.SLA, days bool) ReportSLAJSON {
	out := ReportSLAJSON{slaJSON: NewSLA(&r.SLAReport, p.AgreementCosts(r)), coveredJSON: newCovered(&r.Covered), Verdict: r.Verdict, Violations: ViolationsJSON(r.Violations)}
	if days {
		for i := range r.Days {
			d := &r.Days[i]
			out.Days = append(out.Days, slaDayJSON{d.From.In(r.Zone).Format(time.DateOnly), number(d.Report.Score, d.Has()), number(d.Report.Low, d.Has()), number(d.Report.High, d.Has())})
		}
	}
	return out
}

func newReportThreshold(r *report.Threshold) reportThresholdJSON {
	out := reportThresholdJSON{
		thresholdDefinition: newThresholdDefinition(r.Now.Threshold), coveredJSON: newCovered(&r.Covered), Violations: ViolationsJSON(r.Violations),
	}
	for _, g := range r.Groups {
		out.Groups = append(out.Groups, reportThresholdGroupJSON{groupJSON(r.Now.Threshold.GroupBy, g.Group), ViolationsJSON(g.Violations)})
	}
	return out
}

func newPeriodReport(p *report.Report, v site.View, days bool) PeriodReportJSON {
	out := PeriodReportJSON{
		Report: newReportJSON(v), Period: p.Period.String(), Unit: p.Period.Unit, Previous: p.Period.Shift(-1).String(), Next: p.Period.Shift(1).String(),
		Service: p.Service, Begun: p.Begun, Running: p.Running, SLOs: []ReportSLOJSON{}, SLAs: []ReportSLAJSON{}, Thresholds: []reportThresholdJSON{},
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
		out, err := api.writeReport(c.Request.Context(), "", r, v)
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
