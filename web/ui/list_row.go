package ui

import (
	"html/template"
	"slices"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/chart"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/respond"
)

// row is one SLO's group in the list.
type row struct {
	ID          string // of the row in the page, the same in every report
	Mark        chart.Mark
	Informative bool
	Understated bool
	Href        string
	Service     string
	Name        string
	Title       string
	Group       []format.Label
	Objective   string
	Window      string
	Now         string // indicator over the last hour
	NowClass    string
	SLI, RawSLI string // over the period
	Left        string
	RawLeft     string
	Empty       string // when the budget runs out, if that is within a week
	Gauge       chart.Gauge
	Burn        string
	BurnWindow  string
	BurnClass   string
	Rate        string
	Events      string
	EventsFull  string
	Peak        string // events of the busiest minute of the last hour; "" if there are none
	Coverage    string
	Partial     bool

	// Of the list only: the pictures are drawn before, since a page has hundreds
	// and most are the same as before. No embedded struct: templates find promoted
	// fields slowly.
	State, Bar, Hours   template.HTML
	Alerts, AlertsClass string
}

// NewRow is a group as the list and its page show it. paging says that a page fires on it.
func (ui *Handler) NewRow(r *sla.SLOReport, paging bool) row {
	s := r.SLO
	out := row{
		ID:   "r" + respond.Hash(slices.Concat([]string{string(s.ID)}, r.Group)...),
		Mark: chart.LevelMark(r.State, paging), Informative: r.Informative, Understated: r.Understated, Href: ui.SLOHref(r),
		Service: format.Safe(s.ID.Service(), format.MaxName), Name: format.Safe(s.ID.Name(), format.MaxName),
		Title: format.Safe(s.Description, format.MaxTitle),
		Group: format.Labels(s.GroupBy, r.Group), Objective: s.Objective.String(), Window: s.Window.String(),
		Now: format.NoValue, SLI: format.NoValue, Left: format.NoValue, Burn: format.NoValue,
		Rate: format.Rate(r.Rate), Events: format.Compact(r.Events.Valid()), EventsFull: format.Count(r.Events.Valid()),
		Coverage: format.Percent(r.Coverage, 0), Partial: r.Coverage < partialCoverage,
	}
	out.Gauge = chart.BudgetGauge(r.Budget, chart.StateMark(r.State).Shape)
	if b := lastHour(r); b.HasData {
		out.Now = format.Percent(b.SLI, format.Decimals(s.Objective))
		if b.Consumed > 1 {
			out.NowClass = "warn"
		}
	}
	if r.Budget.HasData {
		out.SLI, out.Left = format.Percent(r.Budget.SLI, format.Decimals(s.Objective)), format.Percent(r.Budget.Remaining, 1)
	}
	if r.Outlook != nil && format.RunsOut(&r.Outlook.Forecast) {
		out.Empty = format.Pace(&r.Outlook.Forecast)
	}
	if r.Corrected > 0 && r.Raw.HasData {
		out.RawSLI, out.RawLeft = unlessSame(format.Percent(r.Raw.SLI, format.Decimals(s.Objective)), out.SLI),
			unlessSame(format.Percent(r.Raw.Remaining, 1), out.Left)
	}
	if r.PeakMinute > 0 {
		out.Peak = format.Count(r.PeakMinute)
	}
	if b := worstBurn(r); b.HasData {
		out.Burn, out.BurnWindow = format.BurnRate(b.Rate), slo.FormatDuration(b.Window)
		out.BurnClass = BurnClass(r)
	}
	return out
}

// BurnClass is the colour of the worst burn: what the number itself says. A rate of at most 1 spends no more than the
// budget, also where a short window gives a tier a factor below 1.
func BurnClass(r *sla.SLOReport) string {
	switch b := worstBurn(r); {
	case !b.HasData || b.Rate <= 1:
		return ""
	case Burning(r):
		return "hot"
	}
	return "warn"
}

// unlessSame is a raw value as it is shown; "" if it reads like the value without planned maintenance.
func unlessSame(raw, value string) string {
	if raw == value {
		return ""
	}
	return raw
}

// partialCoverage is the share of a window below which its numbers are marked
// as resting on a part of it.
const partialCoverage = 0.9
