package alerts

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

// FindingSeverity says how bad a finding is.
type FindingSeverity string

// The severities of a finding.
const (
	FindingError   FindingSeverity = "error"   // the output would be wrong
	FindingWarning FindingSeverity = "warning" // something is left out or will not work
	FindingInfo    FindingSeverity = "info"    // works, but not as well as it could
)

// Finding is something about a spec's alerts that its author should know.
type Finding struct {
	SLO      slo.ID // or "service/agreement"; "" if it is about the whole spec
	Severity FindingSeverity
	Message  string
	Hint     string // what to do about it
}

// LintOptions are what Lint has to know of the place where the alerts will run.
type LintOptions struct {
	Options

	// Retention is how long Prometheus keeps samples; 0 if it is not known.
	Retention time.Duration

	// EventsPerDay is the traffic of an SLO, per group where it has groups; ok is
	// false if it is not known. May be nil.
	EventsPerDay func(slo.ID) (n float64, ok bool)
}

// Lint finds alerts that cannot work: they can never fire, fire on a single
// event, see too few scrapes, or look back further than samples are kept. The
// order is that of the spec.
func Lint(in rules.Spec, o LintOptions) []Finding {
	g := newGenerator(in, o.Options)
	l := &linter{g: g, o: o}
	l.duplicates()
	for _, s := range in.SLOs {
		l.slo(s)
		l.causes(s)
	}
	for _, a := range in.Agreements {
		if i := slices.IndexFunc(a.Components, func(c sla.Component) bool {
			return g.byID[c.SLO] != nil && g.byID[c.SLO].Indicator.Kind == slo.KindVolume
		}); i >= 0 {
			g.find(agreementID(a), FindingInfo,
				fmt.Sprintf("no rules are generated for its score: component %s is a volume, which PromQL cannot compute",
					a.Components[i].Name),
				"scrape sla_composite_score from the engine, which also alerts on it")
			continue
		}
		// Generating the rules finds what has to be left out. Only the findings are needed here.
		g.agreementAlerts(a)
		if a.AlertWindow == 0 && (a.Warning > 0 || a.Critical > 0) && a.Window.Nominal() > 24*time.Hour {
			g.find(agreementID(a), FindingInfo,
				fmt.Sprintf("the score over %s changes by hundredths within minutes, so its alerts fire days late", a.Window),
				"add `alert_window: 1h`")
		}
	}
	return g.findings
}

// causes finds declared causes that keep nothing quiet.
func (l *linter) causes(s *slo.SLO) {
	for _, c := range s.CausedBy {
		cause := l.g.byID[c.SLO]
		if cause == nil {
			l.find(s.ID, FindingInfo, "load the specs of both services together",
				"caused_by %s keeps no alert quiet: no loaded spec has this SLO", c.SLO)
			continue
		}
		if tiers, _ := Tiers(cause); !slices.ContainsFunc(tiers, func(t Tier) bool { return t.Page }) {
			l.find(s.ID, FindingWarning, "let that SLO page, or name the SLO that does",
				"caused_by %s keeps no alert quiet: that SLO never pages", c.SLO)
		}
	}
}

type linter struct {
	g *generator
	o LintOptions
}

func (l *linter) find(id slo.ID, severity FindingSeverity, hint, format string, args ...any) {
	l.g.find(id, severity, fmt.Sprintf(format, args...), hint)
}

func (l *linter) duplicates() {
	ids, series := map[slo.ID]bool{}, map[string]slo.ID{}
	for _, s := range l.g.in.SLOs {
		if ids[s.ID] {
			l.find(s.ID, FindingError, "rename one of them", "duplicate id")
			continue
		}
		ids[s.ID] = true
		name := l.g.o.Identity(s)[0].Value
		if other, taken := series[name]; taken {
			l.find(s.ID, FindingError, "rename one of them, or set series names of your own",
				"its series have the same name (%s) as those of %s", name, other)
		}
		series[name] = s.ID
	}
	agreements := map[slo.ID]bool{}
	for _, a := range l.g.in.Agreements {
		if id := agreementID(a); agreements[id] {
			l.find(id, FindingError, "rename one of them", "duplicate agreement name")
		} else {
			agreements[id] = true
		}
	}
}

func (l *linter) slo(s *slo.SLO) {
	if s.Objective.IsZero() || s.Objective.Budget() <= 0 {
		l.find(s.ID, FindingError, "use an objective such as 99.9",
			"an objective of 100 %% leaves no budget: the first bad event would make every alert fire forever")
		return
	}
	if s.Indicator.Kind == slo.KindVolume {
		l.find(s.ID, FindingInfo,
			"scrape slo_sli_ratio, slo_error_budget_remaining_ratio and slo_volume_events from the engine, which also alerts "+
				"when no budget is left",
			"no rules, dashboards or burn-rate alerts are generated: PromQL has no %ss of a time zone", s.Indicator.Calendar)
		return
	}
	if !s.Indicator.Capacity.IsZero() {
		l.find(
			s.ID, FindingInfo, "scrape slo_capacity_reached_seconds and slo_capacity_peak_utilization_ratio from the engine",
			"rules record how much of its capacity is used, but not when it will be reached: PromQL cannot follow the trend "+
				"of the same hours of five weeks")
	}
	tiers, left := Tiers(s)
	l.g.findings = append(l.g.findings, left...)
	if len(tiers) == 0 && !(s.Alerting.Page.Disabled && s.Alerting.Ticket.Disabled) {
		hint := "remove `disabled`, or add a tier"
		if len(left) > 0 {
			hint = left[0].Hint
		}
		l.find(s.ID, FindingWarning, hint, "no burn-rate alert remains")
	}
	if keep := s.Window.Longest(); l.o.Retention > 0 && l.o.Retention < keep {
		l.find(s.ID, FindingError, "retain samples for at least "+slo.FormatDuration(keep)+", or shorten the window",
			"Prometheus retains samples for %s, less than the window (%s), so the budget would cover only part of it",
			slo.FormatDuration(l.o.Retention), s.Window)
	}
	for _, t := range tiers {
		l.tier(s, t)
	}
}

func (l *linter) tier(s *slo.SLO, t Tier) {
	long, short := slo.FormatDuration(t.Long), slo.FormatDuration(t.Short)
	if scrape := l.g.o.Scrape; t.Short < 4*scrape {
		l.find(s.ID, FindingWarning, "scrape more often, or use a longer short window",
			"alert %s: its short window of %s contains fewer than four scrapes (every %s), so one missed scrape silences it",
			t.Name, short, slo.FormatDuration(scrape))
	}
	if slice := sliceLength(s); slice > t.Short {
		l.find(s.ID, FindingWarning, "use shorter slices, or disable the alert",
			"alert %s: slices of %s are longer than its short window of %s, which rarely contains one", t.Name,
			slo.FormatDuration(slice), short)
		return
	}
	if l.o.EventsPerDay == nil || rules.Slices(s) {
		return
	}
	perDay, ok := l.o.EventsPerDay(s.ID)
	if !ok {
		return
	}
	in := func(w time.Duration) float64 { return perDay * float64(w) / float64(24*time.Hour) }
	if n := in(t.Long); float64(s.Alerting.MinEvents) > n {
		l.find(s.ID, FindingWarning, "lower min_events, or use a longer window",
			"alert %s can hardly ever fire: it needs %d events, but %s contains about %s", t.Name, s.Alerting.MinEvents,
			long, number(math.Round(n)))
		return
	}
	if n := in(t.Short); n < 10 {
		l.find(s.ID, FindingWarning, "send synthetic events, or use a longer short window",
			"alert %s: traffic is too low, its short window of %s contains about %s events", t.Name, short,
			number(math.Round(10*n)/10))
	}
	if n := math.Max(1, math.Round(math.Max(in(t.Long), float64(s.Alerting.MinEvents)))); !t.Page && 1/n > t.Threshold {
		l.find(s.ID, FindingWarning, "set min_events, lower the objective, or combine services",
			"alert %s: one bad event among about %s in %s makes it fire", t.Name,
			number(math.Max(1, math.Round(in(t.Long)))), long)
	}
}

// sliceLength is the length of the slices that an SLO judges; 0 if it counts events.
func sliceLength(s *slo.SLO) time.Duration {
	if s.Indicator.Kind == slo.KindThroughput {
		return s.Indicator.Per
	}
	return s.Budgeting.Slice
}
