package alerts

import (
	"strconv"
	"strings"
	"time"

	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

// query builds expressions from those of package rules, without the group of all
// others, which never alerts.
type query struct{ o rules.Options }

func (q query) groups(s *slo.SLO) []string { return rules.GroupLabels(s) }

func (q query) agreementGroups(a *sla.Agreement) []string { return rules.AgreementLabels(a) }

// on joins vectors of one SLO: every selector names the SLO, so its groups are
// all that is left to tell apart.
func (q query) on(s *slo.SLO) string { return onLabels(q.groups(s)) }

func onLabels(labels []string) string { return "on (" + strings.Join(labels, ", ") + ")" }

func (q query) ratio(s *slo.SLO, w time.Duration) string { return q.o.Alertable(s).ErrorRatio(s, w) }

func (q query) bad(s *slo.SLO) string { return q.o.Alertable(s).BadRate(s) }

func (q query) valid(s *slo.SLO) string { return q.o.Alertable(s).ValidRate(s) }

// events counts the valid events (or slices) of a window. Between one hour and
// six, where it is not recorded and a count serves only to tell much from little,
// it adds up five-minute counts: a tenth of the samples that the ratio of the same
// window reads.
func (q query) events(s *slo.SLO, w time.Duration) string {
	o := q.o.Alertable(s)
	out := o.EventsOver(s, w)
	if q.o.Minimal() || w <= time.Hour || w > 6*time.Hour || !strings.HasPrefix(out, "sum_over_time(") {
		return out
	}
	out = "sum_over_time(" + o.Series(s, series.ValidEventsIncrease) + "[" + slo.FormatDuration(w) + "])"
	if share := float64(q.o.LongEval) / float64(shortWindow); share != 1 {
		out += " * " + number(share)
	}
	return out
}

// counted says whether the events of an SLO can be counted. Where the spec gives
// a ratio, or samples of a gauge, their number is unknown.
func counted(s *slo.SLO) bool { return rules.CountsEvents(s) || rules.Slices(s) }

// anyValid and anyEvents see all groups.
func (q query) anyValid(s *slo.SLO) string { return q.o.ValidRate(s) }

// total is the rate of valid events by labels of the groups; without labels, of all groups.
func (q query) total(s *slo.SLO, by []string) string {
	if len(by) == 0 {
		return "sum(" + q.anyValid(s) + ")"
	}
	return sumBy(by, q.valid(s))
}

func sumBy(labels []string, expr string) string {
	return "sum by (" + strings.Join(labels, ", ") + ") (" + expr + ")"
}

// ratioTen is the error ratio of ten minutes that ended a while ago: of two recorded rates, which meet end to end.
func (q query) ratioTen(s *slo.SLO, ago time.Duration) string {
	if q.o.Minimal() {
		return "(" + q.o.Alertable(s).BadAgo(s, 2*shortWindow, ago) + " / " + q.o.EventsAgo(s, 2*shortWindow, ago) + ")"
	}
	at := func(sel string, ago time.Duration) string {
		if ago > 0 {
			sel += " offset " + slo.FormatDuration(ago)
		}
		return sel
	}
	over := func(sel string) string { return "(" + at(sel, ago) + " + " + at(sel, ago+shortWindow) + ")" }
	return "(" + over(q.bad(s)) + " / " + over(q.valid(s)) + ")"
}

// validBy is the rate of the valid events of one SLO, by the groups of another.
func (q query) validBy(from, as *slo.SLO) string {
	sel := q.o.ValidRate(from)
	if len(as.GroupBy) > 0 {
		sel = q.valid(from)
	}
	return sumBy(q.groups(as), sel)
}

// serviceRate is the rate of the events that an SLO's selector matches, from the
// counters of its service. They know only some labels, hence ok.
func (q query) serviceRate(s *slo.SLO) (expr string, ok bool) {
	if len(s.GroupBy) > 0 {
		return "", false
	}
	matchers := []string{series.LabelService + "=" + quote(s.ID.Service())}
	for _, m := range s.Indicator.Valid {
		switch m.Name {
		case series.LabelType, series.LabelOutcome, series.LabelSeverity:
			matchers = append(matchers, m.String())
		default:
			return "", false
		}
	}
	return "sum(rate(" + series.EngineEvents.Name + "{" + strings.Join(matchers, ",") + "}[" + q.rateWindow() + "]))", true
}

// serviceEvents counts what a service sent of each type within half an hour that
// ended a while ago.
func (q query) serviceEvents(service string, ago time.Duration) string {
	at := "[30m]"
	if ago > 0 {
		at += " offset " + slo.FormatDuration(ago)
	}
	return "sum by (service, type) (increase(" + series.EngineEvents.Name + "{" + series.LabelService + "=" +
		quote(service) + "}" + at + "))"
}

// criticalBreaches is the rate of the critical breaches of a limit by labels of the groups; without labels, of all
// groups.
func (q query) criticalBreaches(l *slo.Threshold, by []string) string {
	rate := "rate(" + series.Violations.Name + "{" + series.LabelService + "=" + quote(l.Service) + "," +
		series.LabelSLAType + "=" + quote(l.Name) + "," + series.LabelSeverity + `="critical"}[` + q.rateWindow() + "])"
	if len(by) == 0 {
		return "sum(" + rate + ")"
	}
	return sumBy(by, rate)
}

// rateWindow is what rules record rates over.
func (q query) rateWindow() string { return slo.FormatDuration(shortWindow + q.o.Scrape) }

// observed is the share of a window in which an SLO was counted.
func (q query) observed(s *slo.SLO, w time.Duration) string { return q.o.Observed(s, w) }

// score is an agreement's score over its alert window.
func (q query) score(a *sla.Agreement) string { return q.o.AlertableAgreement(a).AlertScore(a) }

func quote(s string) string { return strconv.Quote(s) }
