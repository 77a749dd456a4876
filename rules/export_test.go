package rules

import (
	"time"

	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

// Queries that only tests ask.

// BadEventsOver is the number of bad events in a window, corrections included.
func (o Options) BadEventsOver(s *slo.SLO, w time.Duration) string {
	return o.eventsOver(s, w, badSeries)
}

// CurrentBurnRate is the recorded burn rate over five minutes.
func (o Options) CurrentBurnRate(s *slo.SLO) string { return o.Series(s, series.CurrentBurnRate) }

// PeriodBurnRate is the recorded burn rate over the SLO's own window.
func (o Options) PeriodBurnRate(s *slo.SLO) string {
	return o.fresh(o.Series(s, series.PeriodBurnRate), s.Window.Longest())
}

// Objective is the recorded target, 0 to 1.
func (o Options) Objective(s *slo.SLO) string { return o.bare().Series(s, series.Objective) }

// ErrorBudget is the recorded budget, 1 - target.
func (o Options) ErrorBudget(s *slo.SLO) string { return o.bare().Series(s, series.ErrorBudget) }

// Days is the recorded length of the SLO's window in days.
func (o Options) Days(s *slo.SLO) string { return o.bare().Series(s, series.TimePeriod) }

// Info is the series that carries the labels of the team.
func (o Options) Info(s *slo.SLO) string { return o.bare().Series(s, o.infoName()) }

// ScoreLow and ScoreHigh are what Score would be if the components without data
// were worst or best.
func (o Options) ScoreLow(a *sla.Agreement) string {
	return o.fresh(o.scoreSeries(a, series.RecordedCompositeLow, ""), a.Window.Longest())
}

// ScoreHigh is described with ScoreLow.
func (o Options) ScoreHigh(a *sla.Agreement) string {
	return o.fresh(o.scoreSeries(a, series.RecordedCompositeHigh, ""), a.Window.Longest())
}

// ComponentScore is the recorded points of a component before weighting, 0 to
// 1; of all components if the name is "".
func (o Options) ComponentScore(a *sla.Agreement, component string) string {
	return o.fresh(o.scoreSeries(a, series.RecordedComponentScore, component), a.Window.Longest())
}

// AlertComponentScore is ComponentScore over the agreement's alert window, if it
// has one.
func (o Options) AlertComponentScore(a *sla.Agreement, component string) string {
	if a.AlertWindow == 0 {
		return o.ComponentScore(a, component)
	}
	return o.fresh(
		o.scoreSeries(a, series.RecordedComponentScore+slo.FormatDuration(a.AlertWindow), component), a.AlertWindow)
}
