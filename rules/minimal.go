package rules

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/slo"
)

// Profile chooses how much is recorded of an SLO.
type Profile string

// The profiles.
const (
	Full    Profile = ""        // every series that the engine's own figures have a counterpart of
	Minimal Profile = "minimal" // what alerts and dashboards read; own names only
)

// Minimal reports whether rules are those of the profile Minimal. Sloth's names come with Sloth's series.
func (o Options) Minimal() bool { return o.Profile == Minimal && o.Names == Own }

// evalFor is the shortest usual evaluation interval that is at least a scrape long: within less there may be one sample
// only, of which rate() makes nothing.
func evalFor(scrape time.Duration) time.Duration {
	for _, d := range []time.Duration{30 * time.Second, time.Minute} {
		if scrape <= d {
			return d
		}
	}
	return base / 2
}

// within is a range over recorded series. It is a second shorter than the window, so that it holds one sample for each
// evaluation: Prometheus 2 counts a sample on the left edge of a range, Prometheus 3 does not.
func within(w time.Duration) string { return "[" + slo.FormatDuration(w-time.Second) + "]" }

// minimalGroups adds the groups of the profile Minimal: what up to six hours are summed from, and the longer windows.
func (r *sloRules) minimalGroups(out []Group) []Group {
	valid, bad := r.rates()
	if r.corrected.is() {
		for _, expr := range []*string{&valid, &bad} {
			*expr = "(" + *expr + ")\nunless on () " + r.corrected.series(series.Maintenance)
		}
	}
	short := Group{Name: ShortGroup(r.s), Interval: r.g.Eval, Comment: fmt.Sprintf(
		"%s every %s: events of the last %s, the share of bad ones over\n"+
			"windows up to 6h, and alerts on these.", r.s.ID, dur(r.g.Eval), dur(r.g.Eval))}
	long := Group{Name: LongGroup(r.s), Interval: r.g.LongEval, Comment: fmt.Sprintf(
		"%s every %s: events of the last 5m, the share of bad ones over longer windows,\n"+
			"what is left of the budget of %s, and alerts on these.", r.s.ID, dur(r.g.LongEval), r.s.Window)}
	record := func(g *Group, name, expr string) {
		g.Rules = append(g.Rules, Rule{Record: name, Expr: expr})
	}
	short.Rules = append(short.Rules,
		Rule{Record: series.Objective, Expr: "vector(" + num(r.s.Objective.Ratio()) + ")", Labels: r.labels},
		Rule{Record: series.ValidCount, Expr: valid, Labels: r.labels},
		Rule{Record: series.BadCount, Expr: bad, Labels: r.labels},
	)
	if r.volume {
		short.Rules = append(short.Rules, r.volumes()...)
	}
	used, usedLong := r.utilization()
	short.Rules = append(short.Rules, used...)
	short.Rules = append(short.Rules, r.minimalMeta()...)
	for _, name := range []string{series.ValidCount, series.BadCount} {
		record(&long, name+":5m", "sum_over_time("+r.series(name)+within(base)+")")
	}
	long.Rules = append(append(long.Rules, r.cost()...), usedLong...)
	for _, w := range Windows(r.s) {
		if w == r.s.Window.Rolling && !usedByTiers(r.s, w) || HeldOnly(r.s, w) {
			continue // what is left of the budget, or Held, is recorded instead
		}
		g := &long
		if !Rarely(r.s, w) {
			g = &short
		}
		record(g, series.ErrorRatio(dur(w)), r.share(ratioOf(r.counts(series.BadCount, w), r.counts(series.ValidCount, w))))
	}
	for _, t := range tickets(r.s) {
		g, name := &long, series.CountedOver(dur(t.Long))
		if t.Long <= shortLimit {
			g = &short
		}
		if r.s.Alerting.MinEvents > 0 && (CountsEvents(r.s) || Slices(r.s)) && !g.records(name) {
			record(g, name, r.g.Alertable(r.s).countsOver(r.s, series.ValidCount, t.Long, 0))
		}
	}
	for _, t := range pages(r.s) {
		g := &long
		if t.Long <= shortLimit {
			g = &short
		}
		if CountsEvents(r.s) || Slices(r.s) {
			record(g, series.Evidence(dur(t.Long)), r.evidence(t))
		}
		if name := series.Held(dur(t.Short)); Quiet(r.s, t).For > 0 && !short.records(name) {
			record(&short, name, r.held(t))
		}
	}
	budget := num(r.s.Objective.Budget())
	bad, valid = r.counts(series.BadCount, r.s.Window.Rolling), r.counts(series.ValidCount, r.s.Window.Rolling)
	if p := r.period; p != nil {
		unit := string(r.s.Window.Calendar)
		for _, name := range []string{series.ValidCount, series.BadCount} {
			record(&long, name+":"+unit, "sum_over_time(("+r.series(name+":5m")+" and on () "+p.sofar()+")["+
				dur(r.s.Window.Longest())+":5m])")
		}
		bad, valid = r.series(series.BadCount+":"+unit), r.series(series.ValidCount+":"+unit)
	}
	left := Rule{Record: series.PeriodBudgetRemaining, Expr: "1 - " + r.share(ratioOf(bad, valid)) + " / " + budget}
	if r.s.Window.Calendar == "" && r.s.Window.Rolling <= shortLimit {
		short.Rules = append(short.Rules, left)
	} else {
		long.Rules = append(long.Rules, left)
	}
	return append(out, short, long)
}

// ShortGroup and LongGroup are the names of the groups of an SLO in the profile Minimal, in which its alerts stand,
// too.
func ShortGroup(s *slo.SLO) string { return "sloengine-slo/" + string(s.ID) + "/short" }

// LongGroup is the group of windows beyond six hours. See ShortGroup.
func LongGroup(s *slo.SLO) string { return "sloengine-slo/" + string(s.ID) + "/long" }

// minimalMeta are the constants that only some SLOs have.
func (r *sloRules) minimalMeta() []Rule {
	var out []Rule
	if c := r.s.Indicator.Capacity; !c.IsZero() {
		out = append(out, Rule{Record: series.Capacity, Expr: "vector(" + num(c.PerSecond()) + ")", Labels: r.labels})
	}
	return append(out, r.payments()...)
}

// ratioOf is quotient on two lines.
func ratioOf(a, b string) string { return a + "\n/ (" + b + " > 0)" }

// minimalOver is over in the profile Minimal, where corrections are taken out of what is recorded.
func (r *sloRules) minimalOver(f family, w slo.Window) string {
	name := series.ValidCount
	if f == badSeries {
		name = series.BadCount
	}
	switch {
	case w.Calendar == "":
		return r.counts(name, w.Rolling)
	case w.String() == r.s.Window.String():
		return r.series(name + ":" + string(w.Calendar))
	}
	return r.long(r.series(name+":5m"), "", w, mask{})
}

// counts is the number of events in a window.
func (r *sloRules) counts(name string, w time.Duration) string {
	return r.g.countsOver(r.s, name, w, 0)
}

func (o Options) countsOver(s *slo.SLO, name string, w, ago time.Duration) string {
	if w > shortLimit {
		name += ":5m"
	}
	window := within(w)
	if ago > 0 {
		window += " offset " + slo.FormatDuration(ago)
	}
	return "sum_over_time(" + o.Series(s, name) + window + ")"
}

// EventsAgo and BadAgo are the numbers of valid and of bad events in a window that ended a while ago, in the profile
// Minimal.
func (o Options) EventsAgo(s *slo.SLO, w, ago time.Duration) string {
	return o.countsOver(s, series.ValidCount, w, ago)
}

// BadAgo is EventsAgo for bad events.
func (o Options) BadAgo(s *slo.SLO, w, ago time.Duration) string {
	return o.countsOver(s, series.BadCount, w, ago)
}

// pages are the tiers of an SLO that page.
func pages(s *slo.SLO) []slo.Tier {
	if s.Alerting.Page.Disabled {
		return nil
	}
	return firing(s, true)
}

// tickets are the tiers of an SLO that do not page.
func tickets(s *slo.SLO) []slo.Tier {
	if s.Alerting.Ticket.Disabled {
		return nil
	}
	return firing(s, false)
}

func firing(s *slo.SLO, page bool) []slo.Tier {
	period := s.Window.Nominal()
	return slices.DeleteFunc(tiersOf(s), func(t slo.Tier) bool {
		return t.Page != page || t.Long >= period || t.Factor(period)*s.Objective.Budget() >= 1 // can never fire
	})
}

func tiersOf(s *slo.SLO) []slo.Tier {
	if len(s.Alerting.Tiers) > 0 {
		return slices.Clone(s.Alerting.Tiers)
	}
	return slices.Clone(slo.Tiers)
}

func usedByTiers(s *slo.SLO, w time.Duration) bool {
	return slices.ContainsFunc(tiersOf(s), func(t slo.Tier) bool {
		return t.Long == w || t.Short == w
	}) || slices.Contains(slo.BurnWindows, w)
}

// Quiet is how a tier of an SLO is read at little traffic. Only a number of events tells that there is little, so that
// other SLOs read no wider window.
func Quiet(s *slo.SLO, t slo.Tier) slo.Quiet {
	q := slo.QuietOf(t)
	if q.Window > t.Short && !CountsEvents(s) {
		return slo.Quiet{}
	}
	return q
}

// HeldOnly reports whether the profile Minimal records the share of a window only as that which a page reads at any
// traffic.
func HeldOnly(s *slo.SLO, w time.Duration) bool {
	held := func(t slo.Tier) bool { return t.Short == w && w == slo.Hold && Quiet(s, t).Window > w }
	reads := func(t slo.Tier) bool { return t.Long == w || t.Short == w && !held(t) || Quiet(s, t).Window == w }
	return slices.ContainsFunc(pages(s), held) && !slices.ContainsFunc(tiersOf(s), reads)
}

// Rarely reports whether the profile Minimal records the share of a window every few minutes: one of days, and one of
// hours that is read by alerts on longer ones alone.
func Rarely(s *slo.SLO, w time.Duration) bool {
	return w > shortLimit || w >= 2*time.Hour && CountsEvents(s) && !slices.ContainsFunc(tiersOf(s),
		func(t slo.Tier) bool {
			return t.Long == w || t.Short == w && t.Long <= shortLimit || Quiet(s, t).Window == w
		})
}

// evidence is how surely a window proves that more is bad than the objective allows: the Chernoff bound of the Poisson
// tail, n*(p*(ln(p/q)-1)+q) for the share p of n events, n*p of them bad, where q of them may be. It grows on both
// sides of q, so there is none up to q, and none for fewer than three bad events, less what rates round off. Nor is
// there any in the group of all others, which never alerts. With min_events, n stands instead of n*p/p, so that too few
// events leave none. See slo.Evidence.
func (r *sloRules) evidence(t slo.Tier) string {
	q := r.s.Objective.Budget() * min(1, t.Factor(r.s.Window.Nominal()))
	p := r.series(series.ErrorRatio(dur(t.Long)))
	sign, constant := "+", -math.Log(q)-1
	if constant < 0 {
		sign, constant = "-", -constant
	}
	out := fmt.Sprintf("(%s > %s)\n* (ln(%s > %s) %s %.4f",
		r.g.Alertable(r.s).countsOver(r.s, series.BadCount, t.Long, 0), num(slo.MinBad-0.5), p, num(q), sign, constant)
	if least := r.s.Alerting.MinEvents; least > 0 {
		return fmt.Sprintf("%s)\n+ %s * (%s >= %d)", out, num(q), r.counts(series.ValidCount, t.Long), least)
	}
	return fmt.Sprintf("%s + %s / %s)", out, num(q), p)
}

// held is the bad share of the short window of a page, as it is read at little traffic. See slo.Quiet.
func (r *sloRules) held(t slo.Tier) string {
	q := Quiet(r.s, t)
	longest := "max_over_time(" + r.series(series.ErrorRatio(dur(q.Window))) + within(q.For) + ")"
	if !CountsEvents(r.s) && !Slices(r.s) {
		return longest
	}
	enough := r.counts(series.ValidCount, slo.Hold) + " >= " +
		num(t.QuietEvents(t.Factor(r.s.Window.Nominal())*r.s.Objective.Budget()))
	if HeldOnly(r.s, t.Short) {
		return r.counts(series.BadCount, t.Short) + "\n/ (" + enough + ")\nor " + longest
	}
	return r.series(series.ErrorRatio(dur(t.Short))) + " and " + enough + "\nor " + longest
}

// Covered is the share of a window, at most 1, that a series has been counted for within twice the window. It holds a
// new series back, as if what came before had been good, and nothing after a gap.
func (o Options) Covered(s *slo.SLO, w time.Duration) string {
	name, every := series.ValidCount, o.eval()
	if w > 2*time.Hour {
		name, every = series.ValidCount+":5m", base
	}
	return "clamp_max(count_over_time(" + o.Series(s, name) + "[" + slo.FormatDuration(2*w) + "]) / " +
		num(float64(w)/float64(every)) + ", 1)"
}

// EvidenceOf is the recorded evidence of a page's long window.
func (o Options) EvidenceOf(s *slo.SLO, t slo.Tier) string {
	return o.Series(s, series.Evidence(slo.FormatDuration(t.Long)))
}

// HeldRatio is the recorded share of the short window of a page that has a Quiet.
func (o Options) HeldRatio(s *slo.SLO, w time.Duration) string {
	return o.Series(s, series.Held(slo.FormatDuration(w)))
}

// Counted selects the events since the last evaluation.
func (o Options) Counted(s *slo.SLO) string { return o.Series(s, series.ValidCount) }

// perEval puts a rate in the unit of the base series: of the profile Minimal events since the last evaluation, else
// events per second.
func (r *sloRules) perEval(rate string) string {
	if !r.g.Minimal() {
		return rate
	}
	return rate + " * " + num(r.g.Eval.Seconds())
}

// Merge moves the alerts that stand in the groups of what they read to the end of these. The groups of other alerts
// follow.
func Merge(recording, alerting []Group) []Group {
	out := slices.Clone(recording)
	for _, g := range alerting {
		i := slices.IndexFunc(out, func(have Group) bool { return have.Name == g.Name })
		if i < 0 {
			out = append(out, g)
			continue
		}
		out[i].Rules = slices.Concat(out[i].Rules, g.Rules)
	}
	return out
}
