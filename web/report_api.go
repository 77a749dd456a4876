package web

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/format"
)

type coveredJSON struct {
	Zone      string     `json:"zone"`
	From      *time.Time `json:"from"`
	To        *time.Time `json:"to"` // of what is over of the period
	Running   bool       `json:"running"`
	KeptFrom  *time.Time `json:"kept_from"` // null: everything since from
	Coverage  float64    `json:"coverage"`
	Corrected *float64   `json:"corrected_seconds,omitempty"`
}

func (c *covered) json() coveredJSON {
	return coveredJSON{Zone: c.zone.String(), From: timeOrNil(c.span.From), To: timeOrNil(c.span.To), Running: c.running, KeptFrom: timeOrNil(c.keptFrom), Coverage: c.coverage}
}

type reportDayJSON struct {
	Date  string     `json:"date"`
	Net   countsJSON `json:"counts"` // planned maintenance taken out
	Raw   countsJSON `json:"raw_counts"`
	SLI   *float64   `json:"sli"`
	Share float64    `json:"share_of_loss"`
}

type reportSLOJSON struct {
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
	Verdict  verdict         `json:"verdict"`
	Budget   budgetJSON      `json:"budget"`     // planned maintenance taken out: what counts
	Raw      budgetJSON      `json:"raw_budget"` // everything
	WorstDay *reportDayJSON  `json:"worst_day"`
	Days     []reportDayJSON `json:"days,omitempty"`
}

type slaDayJSON struct {
	Date  string   `json:"date"`
	Score *float64 `json:"score"`
	Low   *float64 `json:"low"`
	High  *float64 `json:"high"`
}

type reportSLAJSON struct {
	slaJSON
	coveredJSON
	Verdict    verdict        `json:"verdict"`
	Violations violationsJSON `json:"violations"` // of the limits of its service, of all groups
	Days       []slaDayJSON   `json:"days,omitempty"`
}

type reportLimitJSON struct {
	Service  string   `json:"service"`
	Name     string   `json:"name"`
	Match    string   `json:"match"`
	Warning  *float64 `json:"warning_seconds"`
	Critical *float64 `json:"critical_seconds"`
	Each     string   `json:"each,omitempty"`
	coveredJSON
	Violations violationsJSON `json:"violations"`
}

type periodReportJSON struct {
	Report   reportJSON        `json:"report"`
	Period   string            `json:"period"`
	Unit     slo.CalendarUnit  `json:"unit"`
	Previous string            `json:"previous"`
	Next     string            `json:"next"`
	Service  string            `json:"service,omitempty"`
	Zone     string            `json:"zone,omitempty"` // that was asked for
	Begun    bool              `json:"begun"`
	Running  bool              `json:"running"` // the period is not over everywhere
	SLOs     []reportSLOJSON   `json:"slos"`
	SLAs     []reportSLAJSON   `json:"slas"`
	Limits   []reportLimitJSON `json:"limits"`
}

func newReportDay(s *slo.SLO, d *dayResult) reportDayJSON {
	b := d.net.Budget(s)
	return reportDayJSON{d.date, newCounts(d.net.Counts), newCounts(d.raw.Counts), number(b.SLI, b.HasData), d.share}
}

func (r *sloResult) json(days bool) reportSLOJSON {
	s := r.now.SLO
	out := reportSLOJSON{
		ID: s.ID, Service: s.ID.Service(), SLO: s.ID.Name(), Group: groupJSON(s.GroupBy, r.now.Group), Informative: r.now.Informative, Kind: s.Indicator.Kind,
		Objective: s.Objective.Ratio(), Percent: s.Objective.Percent(), Slice: r.now.Slice.Seconds(), coveredJSON: r.covered.json(),
		Events: r.events, Verdict: r.verdict, Budget: newBudget(r.net), Raw: newBudget(r.raw),
	}
	corrected := r.corrected.Seconds()
	out.Corrected = &corrected
	if r.worst >= 0 {
		d := newReportDay(s, &r.days[r.worst])
		out.WorstDay = &d
	}
	if days {
		for i := range r.days {
			out.Days = append(out.Days, newReportDay(s, &r.days[i]))
		}
	}
	return out
}

func (r *slaResult) json(days bool) reportSLAJSON {
	out := reportSLAJSON{slaJSON: newSLA(&r.SLAReport), coveredJSON: r.covered.json(), Verdict: r.verdict, Violations: violationsJSON(r.violations)}
	if days {
		for i := range r.days {
			d := &r.days[i]
			out.Days = append(out.Days, slaDayJSON{d.From.In(r.zone).Format(time.DateOnly), number(d.report.Score, d.has()), number(d.report.Low, d.has()), number(d.report.High, d.has())})
		}
	}
	return out
}

func (r *limitResult) json() reportLimitJSON {
	l := newLimit(*r.now)
	return reportLimitJSON{l.Service, l.Name, l.Match, l.Warning, l.Critical, l.Each, r.covered.json(), violationsJSON(r.violations)}
}

func (p *periodReport) json(v view, days bool) periodReportJSON {
	out := periodReportJSON{
		Report: newReportJSON(v), Period: p.period.String(), Unit: p.period.unit, Previous: p.period.shift(-1).String(), Next: p.period.shift(1).String(),
		Service: p.service, Begun: p.begun, Running: p.running, SLOs: []reportSLOJSON{}, SLAs: []reportSLAJSON{}, Limits: []reportLimitJSON{},
	}
	if p.zone != nil {
		out.Zone = p.zone.String()
	}
	for i := range p.slos {
		out.SLOs = append(out.SLOs, p.slos[i].json(days))
	}
	for i := range p.slas {
		out.SLAs = append(out.SLAs, p.slas[i].json(days))
	}
	for i := range p.limits {
		out.Limits = append(out.Limits, p.limits[i].json())
	}
	return out
}

// reportAskOf reads period, service and zone.
func reportAskOf(q url.Values) (reportAsk, error) {
	ask := reportAsk{service: q.Get("service")}
	var err error
	if ask.period, err = parsePeriod(q.Get("period")); err != nil {
		return ask, err
	}
	if name := q.Get("zone"); name != "" {
		if ask.zone, err = loadZone(name); err != nil {
			return ask, err
		}
	}
	return ask, nil
}

// loadZone finds a time zone by its name in the IANA database.
func loadZone(name string) (*time.Location, error) {
	// "Local" is the server's own zone, which is nobody's business.
	if name == "Local" || len(name) > 64 || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, fmt.Errorf("zone %q: want a name of the IANA database, such as Europe/Moscow", format.Safe(name, format.MaxName))
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("zone %q: want a name of the IANA database, such as Europe/Moscow", format.Safe(name, format.MaxName))
	}
	return loc, nil
}

func (w *Web) apiReport(c *gin.Context) {
	q := c.Request.URL.Query()
	kind := q.Get("format")
	ask, err := reportAskOf(q)
	if err == nil && kind != "" && kind != "json" && kind != "csv" {
		err = fmt.Errorf("format %q: want json or csv", format.Safe(kind, format.MaxName))
	}
	if err == nil && q.Get("days") != "" && q.Get("days") != "true" && q.Get("days") != "false" {
		err = fmt.Errorf("days: want true or false")
	}
	if err != nil {
		w.problem(c, http.StatusBadRequest, err.Error(), nil)
		return
	}
	v, done := w.begin(c)
	switch {
	case done:
		return
	case v.rep == nil:
		c.Header("Retry-After", "5")
		w.problem(c, http.StatusServiceUnavailable, "There is no report yet.", nil)
		return
	}
	r, err := w.periodReport(c.Request.Context(), v, ask)
	switch {
	case errors.Is(err, errNoCounts):
		w.problem(c, http.StatusNotImplemented, "This engine keeps no history.", nil)
	case err != nil:
		w.opt.LogError("make the report of "+ask.period.String(), err)
		w.problem(c, http.StatusServiceUnavailable, "The report could not be made now.", nil)
	case kind == "csv":
		body, err := r.csv()
		if err != nil {
			w.opt.LogError("write the report of "+ask.period.String(), err)
			w.problem(c, http.StatusInternalServerError, "The report could not be written.", nil)
			return
		}
		c.Header("Content-Disposition", `attachment; filename="sloengine-report-`+ask.period.String()+`.csv"`)
		send(c, http.StatusOK, "text/csv; charset=utf-8; header=present", body)
	default:
		sendJSON(c, http.StatusOK, "application/json", r.json(v, q.Get("days") == "true"))
	}
}
