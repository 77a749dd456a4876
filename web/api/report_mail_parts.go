package api

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sloengine/sloengine/sla/report"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/site"
)

// fillCosts adds what violations cost, if the spec says it, with what the sums rest on.
func (m *mailModel) fillCosts(r, before *report.Report) {
	c := r.Costs()
	if c == nil {
		return
	}
	was := map[string]slo.Money{}
	if before != nil {
		if b := before.Costs(); b != nil {
			for i := range b.Sums {
				was[b.Sums[i].Currency] = b.Sums[i].Amount
			}
		}
	}
	for i := range c.Sums {
		s := &c.Sums[i]
		f := mailFigure{Name: "Cost of violations in " + s.Currency, Value: format.Money(s.Amount), Before: format.NoValue}
		if x, ok := was[s.Currency]; ok {
			f.Before = format.Money(x)
		}
		if c.Estimate {
			f.Value += " (estimate)"
		}
		m.Figures = append(m.Figures, f)
		if s.Saving != nil {
			m.Figures = append(m.Figures, mailFigure{Name: "Saving against the baseline in " + s.Currency,
				Value: format.Money(*s.Saving), Before: format.NoValue, Bad: s.Saving.Sign() < 0})
		}
		if s.Return != nil {
			m.Figures = append(m.Figures, mailFigure{Name: "Return on the investment in " + s.Currency,
				Value: format.Percent(*s.Return, 0), Before: format.NoValue, Bad: *s.Return < 0})
		}
	}
	t := m.table("Cost of violations").left("SLO/Cost of violations", "Price").right("Counted", "Cost", "Before", "Saving")
	t.most = math.MaxInt
	for i := range c.SLOs {
		x := &c.SLOs[i]
		counted, baseline, saving := format.Count(x.Bad), format.NoValue, format.NoValue
		if x.Minutes != nil {
			counted = fmt.Sprintf("%.4g min", *x.Minutes)
		}
		if x.Saving != nil {
			baseline, saving = format.Money(*x.Baseline), format.Money(*x.Saving)
		}
		t.add(format.Safe(string(x.SLO), format.MaxTitle), x.Basis, counted, format.Money(x.Amount), baseline, saving)
	}
	m.show(t)
	m.Notes = append(m.Notes, c.Notes()...)
}

// fillLedgers adds where the budgets went.
func (m *mailModel) fillLedgers(r *report.Report) {
	t := m.table("Where the budget went").left("SLO/Budget ledger", "Group", "Account", "Cause", "Time").
		right("Bad", "Budget spent")
	for i := range r.SLOs {
		x := &r.SLOs[i]
		if x.Ledger == nil || !x.Ledger.Explains() {
			continue
		}
		s := x.Now.SLO
		for k := range x.Ledger.Lines {
			row := site.NewLedgerRow(x.Ledger, &x.Ledger.Lines[k])
			t.add(format.Safe(string(s.ID), format.MaxTitle), mailGroup(s.GroupBy, x.Now.Group), row.Account,
				strings.TrimSpace(row.Name+" "+row.Text), row.When, row.Bad, row.Share)
		}
	}
	m.show(t)
}

// fillForecasts adds how budgets will probably develop, if the period reaches to now.
func (m *mailModel) fillForecasts(r *report.Report) {
	all := r.Forecasts()
	t := m.table("Forecast").left("SLO/Forecast", "Group").right("Budget left").left("Ahead").
		right("Budget then", "Exhausted until then").left("Pace").right("Past ranges that contained it")
	for _, f := range all {
		now := f.Line.Now
		left, ahead, then, empty, held := format.NoValue, format.NoValue, format.NoValue, format.NoValue, format.NoValue
		if now.Budget.HasData {
			left = format.Percent(now.Budget.Remaining, 0)
		}
		if p := f.Point; p != nil {
			ahead, then, empty, held = format.Lead(p), format.Range(p), format.Odds(p.Exhausted), format.Held(f.Score)
		}
		t.add(format.Safe(string(now.SLO.ID), format.MaxTitle), mailGroup(now.SLO.GroupBy, now.Group), left, ahead, then,
			empty, format.PaceSince(&f.Outlook.Forecast, f.Since, r.Now()), held)
	}
	m.show(t)
	if len(all) > 0 {
		m.Notes = append(m.Notes, format.ForecastNotes(all[0].Outlook.Forecast.Time, r.ForecastScore())...)
	}
}

// fillIncidents adds the incidents of the period, if they are known.
func (m *mailModel) fillIncidents(r *report.Report) {
	all := r.Incidents
	if all == nil {
		return
	}
	before := all.Before
	if before == nil || m.Compared == "" {
		before = &report.IncidentFigures{Critical: -1, Warnings: -1}
	}
	count := func(n int) string {
		if n < 0 {
			return format.NoValue
		}
		return format.Count(n)
	}
	m.Figures = append(m.Figures,
		mailFigure{Name: "Incidents", Value: count(all.Critical), Before: count(before.Critical)},
		mailFigure{Name: "Incidents of severity warning", Value: count(all.Warnings), Before: count(before.Warnings)},
		mailFigure{Name: "Median detection", Value: took(all.Detection), Before: took(before.Detection)},
		mailFigure{Name: "Median response", Value: took(all.Response), Before: took(before.Response)},
	)
	costs := slices.ContainsFunc(all.List, func(x report.Incident) bool { return len(x.Cost) > 0 })
	t := m.table("Incidents").left("Severity", "Incident", "Title", "Service", "Onset").
		right("Detection", "Response", "Duration", "Budget spent").
		columns(mailColumn{Number: true, hidden: !costs}, []string{"Cost"})
	for i := range all.List {
		x := &all.List[i]
		severity, response, spent := mailCell{Text: x.Severity(), Color: grey}, format.NoValue, format.NoValue
		if x.Critical {
			severity.Color = red
		}
		if d, ok := x.Response(); ok {
			response = format.Duration(d)
		}
		duration := format.Duration(x.Duration(r.Now()))
		if x.Resolved.IsZero() {
			duration += ", open"
		}
		if x.Spent >= 0 {
			spent = format.Percent(x.Spent, 1)
		}
		t.add(severity, x.ID, format.Safe(x.Title, format.MaxTitle), format.Safe(x.Service, format.MaxName),
			x.Onset.UTC().Format("Mon 2 Jan 15:04 UTC"), format.Duration(x.Detection()), response, duration, spent,
			format.MoneyTexts(x.Cost))
	}
	m.show(t)
	if len(all.List) > 0 {
		m.Notes = append(m.Notes,
			"Incidents are those that were detected in the period. Medians leave out those of severity warning. The budget "+
				"that an incident spent is a share of the budget of the objective's window.")
	}
}

func took(d *time.Duration) string {
	if d == nil {
		return format.NoValue
	}
	return format.Duration(*d)
}
