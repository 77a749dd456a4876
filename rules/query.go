package rules

import (
	"maps"
	"slices"
	"time"

	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

// Label is a label name and its value.
type Label struct{ Name, Value string }

// Identity gives the labels that every recorded series of an SLO has.
func (o Options) Identity(s *slo.SLO) []Label {
	if o.Names == Sloth {
		return []Label{
			{series.LabelSlothID, s.ID.Service() + "-" + s.ID.Name()},
			{series.LabelSlothService, s.ID.Service()}, {series.LabelSlothSLO, s.ID.Name()},
		}
	}
	return []Label{{series.LabelSLOID, string(s.ID)}, {series.LabelService, s.ID.Service()},
		{series.LabelSLO, s.ID.Name()}}
}

// GroupLabels gives the names of the labels that tell an SLO's groups apart, as
// they are on its series. They are nil without group_by.
func GroupLabels(s *slo.SLO) []string { return series.GroupLabels(s.GroupBy) }

// SpecLabels are the labels that the spec gives an SLO, without those of its groups: a group has a value of its own.
func SpecLabels(s *slo.SLO) map[string]string {
	out := maps.Clone(s.Labels)
	for _, l := range GroupLabels(s) {
		delete(out, l)
	}
	return out
}

// AgreementLabels gives the names of the labels that tell an agreement's groups
// apart.
func AgreementLabels(a *sla.Agreement) []string { return series.GroupLabels(a.GroupBy) }

// Alertable returns options whose queries leave out the group of all others,
// which informs and never alerts.
func (o Options) Alertable(s *slo.SLO) Options { return o.withoutOther(GroupLabels(s)) }

// AlertableAgreement is Alertable for the scores of an agreement.
func (o Options) AlertableAgreement(a *sla.Agreement) Options {
	return o.withoutOther(AgreementLabels(a))
}

func (o Options) withoutOther(labels []string) Options {
	if len(labels) == 0 {
		return o
	}
	return o.Where(labels[0] + `!="` + slo.OtherGroup + `"`)
}

// Series selects one recorded series of an SLO by its name.
func (o Options) Series(s *slo.SLO, name string) string { return name + o.matchers(s) }

func (o Options) matchers(s *slo.SLO) string {
	if o.Names == Sloth {
		return `{` + series.LabelSlothID + `="` + s.ID.Service() + "-" + s.ID.Name() + `"` + o.where + `}`
	}
	return `{` + series.LabelSLOID + `="` + string(s.ID) + `"` + o.where + `}`
}

// ErrorRatio is the recorded share of bad events over a window, 0 to 1, without
// a sample where nothing was valid. The window must be one of Windows. Windows
// beyond six hours are recorded so rarely that the latest sample may just have
// gone stale, which an alert must not see: their query looks back further.
func (o Options) ErrorRatio(s *slo.SLO, w time.Duration) string {
	return o.fresh(o.Series(s, series.ErrorRatio(slo.FormatDuration(w))), w)
}

// PeriodErrorRatio is ErrorRatio over the SLO's own window.
func (o Options) PeriodErrorRatio(s *slo.SLO) string {
	if o.Minimal() {
		return "(1 - " + o.PeriodRemaining(s) + ") * " + slo.FormatRatio(s.Objective.Budget())
	}
	return o.fresh(o.Series(s, PeriodRatioName(s.Window)), s.Window.Longest())
}

// PeriodRatioName is the name of the series behind PeriodErrorRatio, such as
// slo:sli_error:ratio_rate30d or slo:sli_error:ratio_rate_month.
func PeriodRatioName(w slo.Window) string {
	if w.Calendar != "" {
		return series.ErrorRatio(string(w.Calendar))
	}
	return series.ErrorRatio(slo.FormatDuration(w.Rolling))
}

// fresh bridges the moment between an old sample's end and a new one's arrival.
func (o Options) fresh(selector string, w time.Duration) string {
	if w <= shortLimit {
		return selector
	}
	return "last_over_time(" + selector + "[" + slo.FormatDuration(2*o.longEval()) + "])"
}

// BadRate is the rate of bad events over the last five minutes, per second.
func (o Options) BadRate(s *slo.SLO) string { return o.rate(s, series.BadEvents, series.BadCount) }

// ValidRate is the rate of valid events over the last five minutes, per second.
func (o Options) ValidRate(s *slo.SLO) string {
	return o.rate(s, series.ValidEvents, series.ValidCount)
}

func (o Options) rate(s *slo.SLO, recorded, counted string) string {
	if o.Minimal() {
		return o.countsOver(s, counted, base, 0) + " / 300"
	}
	return o.Series(s, recorded)
}

// CountsEvents reports whether the rates of an SLO are those of events. They
// are slices of time where slices are judged, and meaningless but for their
// quotient where a query gives a ratio or the share of good samples.
func CountsEvents(s *slo.SLO) bool {
	switch s.Indicator.PromForm() {
	case slo.PromRatio, slo.PromThreshold:
		return false
	}
	return !Slices(s)
}

// Slices reports whether slices of time are judged instead of events.
func Slices(s *slo.SLO) bool {
	return s.Indicator.Kind == slo.KindThroughput || s.Budgeting.Method == slo.Timeslices ||
		s.Budgeting.Method == slo.RatioTimeslices
}

// EventsOver is the number of valid events in a window, corrections included.
func (o Options) EventsOver(s *slo.SLO, w time.Duration) string {
	if o.Minimal() {
		return o.countsOver(s, series.ValidCount, w, 0)
	}
	return o.eventsOver(s, w, validSeries)
}

func (o Options) eventsOver(s *slo.SLO, w time.Duration, f family) string {
	times := func(x float64) string {
		if x == 1 {
			return ""
		}
		return " * " + slo.FormatRatio(x)
	}
	switch {
	case w == base:
		return o.Series(s, f.rate5m) + times(w.Seconds())
	case w == 30*time.Minute:
		return o.Series(s, f.rate30m) + times(w.Seconds())
	case w == time.Hour:
		return o.Series(s, f.rate1h) + times(w.Seconds())
	case f == validSeries && slices.Contains(countedWindows(s), w):
		return o.Series(s, series.ValidEventsOver(slo.FormatDuration(w))) + times(w.Seconds())
	case w <= shortLimit:
		return "sum_over_time(" + o.Series(s, f.rate5m) + "[" + slo.FormatDuration(w) + "])" + times(o.eval().Seconds())
	}
	return "sum_over_time(" + o.Series(s, f.increase) + "[" + slo.FormatDuration(w) + "])" +
		times(float64(o.longEval())/float64(base))
}

// BurnRate is how fast the budget is spent over a window: 1 spends all of it in
// one period. The window must be one of Windows.
func (o Options) BurnRate(s *slo.SLO, w time.Duration) string {
	return o.ErrorRatio(s, w) + " / " + slo.FormatRatio(s.Objective.Budget())
}

// PeriodRemaining is the share of the error budget that is left: 1 is
// untouched, below 0 is overspent.
func (o Options) PeriodRemaining(s *slo.SLO) string {
	return o.fresh(o.Series(s, series.PeriodBudgetRemaining), s.Window.Longest())
}

func (o Options) infoName() string {
	if o.Names == Sloth {
		return series.SlothInfo
	}
	return series.RecordedInfo
}

// bare drops the matchers of Where, for series that have no group labels.
func (o Options) bare() Options {
	o.where = ""
	return o
}

// TablesEnd is the Unix time in seconds until which the literal tables of a
// service reach. The series exists only for services with NeedsTables.
func (o Options) TablesEnd(service string) string {
	return series.TablesEnd + `{` + series.LabelService + `="` + service + `"}`
}

// NeedsTables reports whether the rules of a service hold literal times:
// calendar windows and corrections, unless all of them happen only once.
func NeedsTables(in Spec, service string) bool {
	for _, s := range in.SLOs {
		if s.ID.Service() == service && (s.Window.Calendar != "" || recurs(s)) {
			return true
		}
	}
	return slices.ContainsFunc(in.Agreements, func(a *sla.Agreement) bool {
		return a.Service == service && a.Window.Calendar != ""
	})
}

func recurs(s *slo.SLO) bool {
	return slices.ContainsFunc(s.Corrections, func(c slo.Correction) bool { return c.Between != nil })
}

// Score is the recorded composite score of an agreement over its window, 0 to
// 100. There is no sample without data.
func (o Options) Score(a *sla.Agreement) string {
	return o.fresh(o.scoreSeries(a, series.RecordedCompositeScore, ""), a.Window.Longest())
}

// AlertScore is the score over the agreement's alert window, or Score if it has
// none.
func (o Options) AlertScore(a *sla.Agreement) string {
	if a.AlertWindow == 0 {
		return o.Score(a)
	}
	return o.fresh(o.scoreSeries(a, series.CompositeScoreOver(slo.FormatDuration(a.AlertWindow)), ""), a.AlertWindow)
}

// ObservedScore is AlertScore as it would be if the time that was not observed had
// been good. It is recorded for agreements that alert on their score.
func (o Options) ObservedScore(a *sla.Agreement) string {
	if a.AlertWindow == 0 {
		return o.fresh(o.scoreSeries(a, series.RecordedObservedScore, ""), a.Window.Longest())
	}
	return o.fresh(o.scoreSeries(a, series.ObservedScoreOver(slo.FormatDuration(a.AlertWindow)), ""), a.AlertWindow)
}

func (o Options) scoreSeries(a *sla.Agreement, name, component string) string {
	out := name + `{` + series.LabelService + `="` + a.Service + `",` + series.LabelSLA + `="` + a.Name + `"`
	if component != "" {
		out += `,` + series.LabelComponent + `="` + component + `"`
	}
	return out + o.where + `}`
}

// Windows lists the windows over which error ratios of an SLO are recorded,
// shortest first: the usual ones, those of its own tiers, and its rolling period.
func Windows(s *slo.SLO) []time.Duration {
	if len(s.Alerting.Tiers) == 0 && slices.Contains(slo.BurnWindows, s.Window.Rolling) {
		return slo.BurnWindows
	}
	all := slices.Clone(slo.BurnWindows)
	for _, t := range s.Alerting.Tiers {
		all = append(all, t.Long, t.Short)
	}
	if s.Window.Calendar == "" {
		all = append(all, s.Window.Rolling)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	return slices.DeleteFunc(all, func(w time.Duration) bool { return w <= 0 })
}

// family is the names of either the bad or the valid events.
type family struct{ rate5m, rate30m, rate1h, increase string }

var (
	badSeries   = family{series.BadEvents, series.BadEvents30m, series.BadEvents1h, series.BadEventsIncrease}
	validSeries = family{series.ValidEvents, series.ValidEvents30m, series.ValidEvents1h, series.ValidEventsIncrease}
)
