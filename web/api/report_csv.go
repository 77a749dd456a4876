package api

import (
	"bytes"
	"encoding/csv"
	"strconv"
	"strings"
	"time"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/report"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/chart"
	"github.com/sloengine/sloengine/web/format"
)

// CSVColumns are the columns of a report as CSV. Each line is of one kind: slo,
// sla, component (of the sla above it), limit, incident, ledger (of the slo above it) or cost (one for each currency);
// what a kind has not is empty.
// Ratios are 0 to 1, scores and points 0 to 100, times RFC 3339 in UTC.
var CSVColumns = []string{
	"kind", "period", "service", "name", "component", "group", "informative", "zone", "from", "to", "running",
	"kept_from", "coverage",
	"verdict", "objective", "counted", "events", "good", "bad", "raw_good", "raw_bad", "indicator", "raw_indicator",
	"budget_spent", "raw_budget_spent", "maintenance_seconds",
	"worst_day", "worst_day_indicator", "worst_day_share",
	"score", "score_low", "score_high", "level", "weight", "attainment", "points", "points_lost", "kept_limit",
	"warnings", "criticals", "note",
	"severity", "onset", "detected", "resolved", "detection_seconds", "response_seconds", "duration_seconds",
	"cost", "currency", "cost_basis", "cost_estimate", "cost_baseline", "saving", "investment",
	"forecast_made", "forecast_for", "forecast_low", "forecast_median", "forecast_high", "forecast_empty_probability",
	"forecasts_checked", "forecasts_inside",
	"rounded",
}

// csvLine is one line by the names of its columns.
type csvLine map[string]string

func csvText(s string) string { return format.CSV(s) }

func csvNumber(x float64, ok bool) string {
	if !ok || !format.Finite(x) {
		return ""
	}
	return strconv.FormatFloat(x, 'f', -1, 64)
}

func csvCount(n uint64) string { return strconv.FormatUint(n, 10) }

func csvTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

func newCSVLine(c *report.Covered, p *report.Report, kind, service, name string) csvLine {
	return csvLine{
		"kind": kind, "period": p.Period.String(), "service": csvText(service), "name": csvText(name),
		"zone": csvText(c.Zone.String()),
		"from": csvTime(c.Span.From), "to": csvTime(c.Span.To), "running": strconv.FormatBool(c.Running),
		"kept_from": csvTime(c.KeptFrom), "coverage": csvNumber(c.Coverage, true),
		"rounded": strconv.FormatBool(c.Rounded),
	}
}

// csvGroup prints a group as label=value; label=value.
func csvGroup(names []string, g slo.Group) string {
	var parts []string
	for i, n := range names {
		if i < len(g) {
			parts = append(parts, n+"="+g[i])
		}
	}
	return csvText(strings.Join(parts, "; "))
}

// reportCSV is the report after RFC 4180: UTF-8, lines end in CR LF, the first one names
// the columns.
func reportCSV(p *report.Report) ([]byte, error) {
	var buf bytes.Buffer
	w := csv.NewWriter(&buf)
	w.UseCRLF = true
	err := w.Write(CSVColumns)
	put := func(l csvLine) {
		cells := make([]string, len(CSVColumns))
		for i, name := range CSVColumns {
			cells[i] = l[name]
		}
		if e := w.Write(cells); err == nil {
			err = e
		}
	}
	for i := range p.SLAs {
		r := &p.SLAs[i]
		l := newCSVLine(&r.Covered, p, "sla", r.SLA.Service, r.SLA.Name)
		l["group"], l["informative"], l["verdict"], l["level"] = csvGroup(r.SLA.GroupBy, r.Group),
			strconv.FormatBool(r.Informative), string(r.Verdict), string(r.Level)
		l["score"], l["score_low"], l["score_high"] = csvNumber(r.Score, r.HasData), csvNumber(r.Low, true),
			csvNumber(r.High, true)
		l["kept_limit"], l["warnings"], l["criticals"] = csvCount(r.Violations.Within), csvCount(r.Violations.Warning),
			csvCount(r.Violations.Critical)
		put(l)
		for k := range r.Components {
			c := &r.Components[k]
			l := newCSVLine(&r.Covered, p, "component", r.SLA.Service, r.SLA.Name)
			l["group"], l["informative"], l["component"], l["coverage"] = csvGroup(r.SLA.GroupBy, r.Group),
				strconv.FormatBool(r.Informative), csvText(c.Name), csvNumber(c.Coverage, true)
			l["objective"], l["good"], l["bad"], l["weight"] = csvNumber(c.Objective, c.Objective > 0), csvCount(c.Counts.Good),
				csvCount(c.Counts.Bad), csvNumber(c.Weight, true)
			l["indicator"], l["attainment"], l["points"], l["points_lost"] = csvNumber(c.Indicator, c.HasData),
				csvNumber(c.Attainment, c.HasData), csvNumber(100*c.Weight*c.Points, c.HasData), csvNumber(c.Lost, c.HasData)
			l["note"] = csvText(c.Note)
			put(l)
		}
	}
	for i := range p.SLOs {
		r := &p.SLOs[i]
		s := r.Now.SLO
		l := newCSVLine(&r.Covered, p, "slo", s.ID.Service(), s.ID.Name())
		l["group"], l["informative"], l["verdict"], l["objective"] = csvGroup(s.GroupBy, r.Now.Group),
			strconv.FormatBool(r.Now.Informative), string(r.Verdict), csvNumber(s.Objective.Ratio(), true)
		l["counted"], l["events"] = chart.CountedName(r.Now), csvCount(r.Events)
		l["good"], l["bad"], l["raw_good"], l["raw_bad"] = csvCount(r.Net.Counts.Good), csvCount(r.Net.Counts.Bad),
			csvCount(r.Raw.Counts.Good), csvCount(r.Raw.Counts.Bad)
		l["indicator"], l["raw_indicator"] = csvNumber(r.Net.SLI, r.Net.HasData), csvNumber(r.Raw.SLI, r.Raw.HasData)
		l["budget_spent"], l["raw_budget_spent"] = csvNumber(r.Net.Consumed, r.Net.HasData),
			csvNumber(r.Raw.Consumed, r.Raw.HasData)
		l["maintenance_seconds"] = csvNumber(r.Corrected.Seconds(), true)
		if r.Worst >= 0 {
			d := &r.Days[r.Worst]
			b := d.Net.Budget(s)
			l["worst_day"], l["worst_day_indicator"], l["worst_day_share"] = d.Date, csvNumber(b.SLI, b.HasData),
				csvNumber(d.Share, true)
		}
		if c := r.Cost(); c != nil {
			l["cost_basis"], l["cost_estimate"] = c.Basis, strconv.FormatBool(c.IsEstimate())
			l.money(c.Amount, &c.Comparison)
		}
		l.forecast(p.Forecast(r), p.Now())
		put(l)
		if r.Ledger != nil && r.Ledger.Explains() {
			for k := range r.Ledger.Lines {
				put(csvLedger(p, r, &r.Ledger.Lines[k]))
			}
		}
	}
	for i := range p.Thresholds {
		r := &p.Thresholds[i]
		l := newCSVLine(&r.Covered, p, "limit", r.Now.Threshold.Service, r.Now.Threshold.Name)
		l["kept_limit"], l["warnings"], l["criticals"] = csvCount(r.Violations.Within), csvCount(r.Violations.Warning),
			csvCount(r.Violations.Critical)
		l["note"] = csvText(r.Now.Threshold.Match.String())
		put(l)
		for _, g := range r.Groups {
			l := newCSVLine(&r.Covered, p, "limit_group", r.Now.Threshold.Service, r.Now.Threshold.Name)
			l["group"] = csvGroup(r.Now.Threshold.GroupBy, g.Group)
			l["kept_limit"], l["warnings"], l["criticals"] = csvCount(g.Violations.Within), csvCount(g.Violations.Warning),
				csvCount(g.Violations.Critical)
			put(l)
		}
	}
	if p.Incidents != nil {
		for i := range p.Incidents.List {
			put(csvIncident(p, &p.Incidents.List[i]))
		}
	}
	if c := p.Costs(); c != nil {
		for i := range c.Sums {
			s := &c.Sums[i]
			l := csvLine{"kind": "cost", "period": p.Period.String(), "service": csvText(p.Service),
				"running": strconv.FormatBool(p.Running), "cost_estimate": strconv.FormatBool(c.Estimate),
				"note": csvText(strings.Join(c.Notes(), " "))}
			l.money(s.Amount, &s.Comparison)
			put(l)
		}
	}
	w.Flush()
	if err == nil {
		err = w.Error()
	}
	return buf.Bytes(), err
}

// forecast fills in how the budget of a line will probably develop. Its note is the onset of a running incident and the
// pace, or why there is no forecast.
func (l csvLine) forecast(f *report.Forecast, now time.Time) {
	if f == nil {
		return
	}
	x := &f.Outlook.Forecast
	l["forecast_made"], l["note"] = csvTime(x.Time),
		csvText(format.PaceSince(x, f.Since, now))
	if p := f.Point; p != nil {
		l["forecast_for"], l["forecast_low"], l["forecast_median"], l["forecast_high"] = csvTime(x.Time.Add(p.Ahead)),
			csvNumber(p.Low, true), csvNumber(p.Median, true), csvNumber(p.High, true)
		l["forecast_empty_probability"], l["forecasts_checked"], l["forecasts_inside"] = csvNumber(p.Exhausted, true),
			csvCount(f.Score.Checked), csvCount(f.Score.Inside)
	}
}

// money fills in what something cost.
func (l csvLine) money(m slo.Money, c *sla.Comparison) {
	l["cost"], l["currency"] = m.In(m.Currency), m.Currency
	for column, x := range map[string]*slo.Money{"cost_baseline": c.Baseline, "saving": c.Saving,
		"investment": c.Investment} {
		if x != nil {
			l[column] = x.In(x.Currency)
		}
	}
}

// csvLedger is what a line of the ledger of an SLO is charged with: its component is the account.
func csvLedger(p *report.Report, r *report.SLO, x *slo.LedgerLine) csvLine {
	s := r.Now.SLO
	l := newCSVLine(&r.Covered, p, "ledger", s.ID.Service(), s.ID.Name())
	l["group"], l["component"], l["counted"] = csvGroup(s.GroupBy, r.Now.Group), string(x.Account), r.Ledger.Unit
	l["from"], l["to"], l["bad"] = csvTime(x.From), csvTime(x.To), csvNumber(r.Ledger.Amount(x.Parts), true)
	l["budget_spent"] = csvNumber(r.Ledger.Of(x.Parts), x.Account != slo.AccountCorrection)
	l["note"] = csvText(strings.TrimSpace(strings.Join(append([]string{x.Name}, x.Same...), ", ") + " " + x.Text))
	return l
}

// csvIncident is the line of an incident: its name is the id, and its note the title.
func csvIncident(p *report.Report, x *report.Incident) csvLine {
	response, answered := x.Response()
	l := csvLine{
		"kind": "incident", "period": p.Period.String(), "service": csvText(x.Service), "name": csvText(x.ID),
		"running":      strconv.FormatBool(x.Resolved.IsZero()),
		"budget_spent": csvNumber(x.Spent, x.Spent >= 0), "note": csvText(x.Title), "severity": x.Severity(),
		"onset": csvTime(x.Onset), "detected": csvTime(x.Detected), "resolved": csvTime(x.Resolved),
		"detection_seconds": csvNumber(x.Detection().Seconds(), true),
		"response_seconds":  csvNumber(response.Seconds(), answered),
		"duration_seconds":  csvNumber(x.Duration(p.Now()).Seconds(), true),
	}
	if len(x.Cost) == 1 { // several currencies are in the JSON document
		l.money(x.Cost[0], &sla.Comparison{})
	}
	return l
}
