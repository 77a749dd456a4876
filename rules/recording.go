package rules

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/sloengine/sloengine/internal/order"
	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/slo"
)

// metaEval is how often constants are recorded: often enough never to go stale.
const metaEval = time.Minute

// Recording makes the recording rules of a spec: for each service its tables of
// times, for each SLO the windows up to six hours, the longer ones and the
// constants, for each agreement its components and scores. All groups have
// different names. It fails on impossible options and on a spec that needs
// tables when the options do not say from when until when.
func Recording(in Spec, o Options) ([]Group, error) {
	in = in.Expressible()
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	g := &generator{Options: o, slos: make(map[slo.ID]*sloRules, len(in.SLOs)), services: map[string]*tables{},
		windows: map[string]map[string]string{}}
	if err := g.prepare(in); err != nil {
		return nil, err
	}
	out := make([]Group, 0, 3*len(in.SLOs)+2*len(in.Agreements)+1)
	for _, service := range slices.Sorted(maps.Keys(g.services)) {
		if t, ok := g.services[service].group(o); ok {
			out = append(out, t)
		}
	}
	for _, s := range in.SLOs {
		id := o.Identity(s)[0]
		told := map[string]string{id.Name: id.Value}
		begin := len(out)
		out = g.slos[s.ID].append(out)
		for _, group := range out[begin:] {
			addIdentityLabels(group.Rules, told)
		}
	}
	for _, a := range g.agreements {
		out = append(out, a.groups()...)
	}
	return out, nil
}

// addIdentityLabels gives rules without labels those that their series have anyway, so
// that promtool does not take the rules of two SLOs for duplicates.
func addIdentityLabels(list []Rule, labels map[string]string) {
	for i := range list {
		if list[i].Labels == nil {
			list[i].Labels = labels
		}
	}
}

type generator struct {
	Options
	slos     map[slo.ID]*sloRules
	services map[string]*tables
	windows  map[string]map[string]string // rule labels by window

	agreements []*agreementRules
}

// prepare finds what tables the services need and what agreements read of SLOs.
func (g *generator) prepare(in Spec) error {
	reach := map[string]time.Duration{}
	look := func(service string, w time.Duration) { reach[service] = max(reach[service], w) }
	for _, s := range in.SLOs {
		if len(s.Corrections) > 0 || s.Window.Calendar != "" {
			look(s.ID.Service(), slices.Max(Windows(s)))
			look(s.ID.Service(), s.Window.Longest())
		}
	}
	for _, a := range in.Agreements {
		if _, ok := reach[a.Service]; ok || a.Window.Calendar != "" {
			look(a.Service, a.Window.Longest())
			look(a.Service, a.AlertWindow)
		}
	}
	for service, d := range reach {
		g.services[service] = &tables{service: service, from: g.From, until: g.Until, reach: d,
			delay: base + g.Scrape + g.Eval}
	}
	for _, s := range in.SLOs {
		if g.slos[s.ID] != nil {
			return fmt.Errorf("slo %s is there twice", s.ID)
		}
		r := &sloRules{g: g, s: s, matchers: g.matchers(s), groups: GroupLabels(s), labels: map[string]string{}}
		if g.Names == Sloth {
			maps.Copy(r.labels, SpecLabels(s))
		}
		for _, l := range g.Identity(s) {
			r.labels[l.Name] = l.Value
		}
		if err := r.times(); err != nil {
			return fmt.Errorf("slo %s: %w", s.ID, err)
		}
		g.slos[s.ID] = r
	}
	for _, a := range in.Agreements {
		r, err := g.agreement(a)
		if err != nil {
			return fmt.Errorf("sla %s/%s: %w", a.Service, a.Name, err)
		}
		g.agreements = append(g.agreements, r)
	}
	return nil
}

// sloRules makes the rules of one SLO.
type sloRules struct {
	g        *generator
	s        *slo.SLO
	matchers string
	groups   []string
	labels   map[string]string

	corrected mask         // of what is counted
	period    *periodTable // of a calendar window
	volume    bool         // an agreement scores the share of its target volume
	watched   []slo.Window // whose observed share is recorded
}

// times finds the tables that the SLO needs.
func (r *sloRules) times() error {
	t := r.g.services[r.s.ID.Service()]
	var err error
	if r.s.Window.Calendar != "" {
		if r.period, err = t.period(r.s.Window); err != nil {
			return err
		}
	}
	r.corrected, err = r.maskFor(slice(r.s))
	return err
}

// slice is the length of the slices that are judged, 0 if events are.
func slice(s *slo.SLO) time.Duration {
	switch {
	case s.Indicator.Kind == slo.KindThroughput:
		return s.Indicator.Per
	case Slices(s):
		return s.Budgeting.Slice
	}
	return 0
}

func (r *sloRules) maskFor(slice time.Duration) (mask, error) {
	if len(r.s.Corrections) == 0 {
		return mask{}, nil
	}
	return r.g.services[r.s.ID.Service()].corrections(r.s.Corrections, slice)
}

// series selects a recorded series of the SLO.
func (r *sloRules) series(name string) string { return name + r.matchers }

// append adds the groups of the SLO: short windows, long windows, constants.
func (r *sloRules) append(out []Group) []Group {
	if r.g.Minimal() {
		return r.minimalGroups(out)
	}
	windows := Windows(r.s)
	short := make([]Rule, 0, 16)
	valid, bad := r.rates()
	short = append(short,
		Rule{Record: series.ValidEvents, Expr: valid, Labels: r.labels},
		Rule{Record: series.BadEvents, Expr: bad, Labels: r.labels},
		Rule{Record: series.ValidEventsZero, Expr: r.zero()},
	)
	short = append(short, r.presence()...)
	if r.volume {
		short = append(short, r.volumes()...)
	}
	used, usedLong := r.utilization()
	short = append(short, used...)
	for _, w := range []time.Duration{30 * time.Minute, time.Hour} {
		for _, f := range []family{validSeries, badSeries} {
			short = append(short, Rule{Record: f.over(w), Expr: r.joined(f, w)})
		}
	}
	for _, w := range countedWindows(r.s) {
		short = append(short, Rule{Record: series.ValidEventsOver(dur(w)), Expr: r.joined(validSeries, w)})
	}
	long := make([]Rule, 0, 8)
	long = append(long,
		Rule{Record: series.ValidEventsIncrease, Expr: r.series(series.ValidEvents) + " * 300"},
		Rule{Record: series.BadEventsIncrease, Expr: r.series(series.BadEvents) + " * 300"},
		Rule{Record: series.ObservedIncrease, Expr: r.series(series.ObservedRatio("5m")) + " * 300"},
	)
	long = append(append(long, r.cost()...), usedLong...)
	for _, w := range windows {
		r.watch(slo.Window{Rolling: w})
	}
	r.watch(r.s.Window)
	// hours read shorter ones
	order.By(r.watched, func(a, b *slo.Window) int { return cmp.Compare(a.Longest(), b.Longest()) })
	for _, w := range r.watched {
		if w.Calendar == "" && w.Rolling <= shortLimit {
			short = append(short, r.observed(w))
		} else {
			long = append(long, r.observed(w))
		}
	}
	for _, w := range windows {
		rule := r.ratio(series.ErrorRatio(dur(w)), dur(w), slo.Window{Rolling: w})
		if w <= shortLimit {
			short = append(short, rule)
		} else {
			long = append(long, rule)
		}
	}
	budget := num(r.s.Objective.Budget())
	short = append(short, Rule{Record: series.CurrentBurnRate, Expr: r.series(series.ErrorRatio("5m")) + " / " + budget})
	period := []Rule{
		{Record: series.PeriodBurnRate, Expr: r.series(PeriodRatioName(r.s.Window)) + " / " + budget},
		{Record: series.PeriodBudgetRemaining, Expr: "1 - " + r.series(series.PeriodBurnRate)},
	}
	switch {
	case r.s.Window.Calendar != "":
		unit := string(r.s.Window.Calendar)
		long = append(append(long, r.ratio(series.ErrorRatio(unit), unit, r.s.Window)), period...)
	case r.s.Window.Rolling > shortLimit:
		long = append(long, period...)
	default:
		short = append(short, period...)
	}
	name := "sloengine-slo/" + string(r.s.ID)
	return append(out,
		Group{Name: name + "/short", Interval: r.g.Eval, Rules: short},
		Group{Name: name + "/long", Interval: r.g.LongEval, Rules: long},
		Group{Name: name + "/meta", Interval: max(metaEval, r.g.Eval), Rules: r.meta()},
	)
}

// ratio is the rule for the error ratio over one window.
func (r *sloRules) ratio(name, window string, w slo.Window) Rule {
	rule := Rule{Record: name, Expr: r.share(quotient(r.over(badSeries, w), r.over(validSeries, w)))}
	if r.g.Names == Sloth {
		rule.Labels = r.g.windowLabels(window)
	}
	return rule
}

// share bounds the error ratio of a ratio, whose numerator may be above its denominator.
func (r *sloRules) share(ratio string) string {
	if r.s.Indicator.Kind == slo.KindRatio {
		return "clamp_min(" + ratio + ", 0)"
	}
	return ratio
}

// quotient divides, and gives nothing where there is nothing to divide by.
func quotient(a, b string) string {
	if len(a)+len(b) > 120 {
		return a + "\n/\n(" + b + " > 0)"
	}
	return a + " / (" + b + " > 0)"
}

// windowLabels are shared by all rules of a window.
func (g *generator) windowLabels(window string) map[string]string {
	l, ok := g.windows[window]
	if !ok {
		l = map[string]string{series.LabelSlothWindow: window}
		g.windows[window] = l
	}
	return l
}

// meta are the constants of an SLO, and the series with the labels of its team.
func (r *sloRules) meta() []Rule {
	constant := func(x float64) string { return "vector(" + num(x) + ")" }
	days := constant(r.s.Window.Rolling.Hours() / 24)
	if p := r.period; p != nil {
		days = "(sum(" + p.series(series.PeriodEnd) + ") - sum(" + p.series(series.PeriodStart) + ")) / 86400"
	}
	out := []Rule{
		{Record: series.Objective, Expr: constant(r.s.Objective.Ratio()), Labels: r.labels},
		{Record: series.ErrorBudget, Expr: constant(r.s.Objective.Budget()), Labels: r.labels},
		{Record: series.TimePeriod, Expr: days, Labels: r.labels},
		{Record: r.g.infoName(), Expr: "vector(1)", Labels: r.infoLabels()},
	}
	if c := r.s.Indicator.Capacity; !c.IsZero() {
		out = append(out, Rule{Record: series.Capacity, Expr: constant(c.PerSecond()), Labels: r.labels})
	}
	return append(out, r.payments()...)
}

func (r *sloRules) infoLabels() map[string]string {
	fixed := r.g.Identity(r.s)
	if r.g.Names == Sloth {
		fixed = append(fixed, Label{"sloth_mode", "cli-gen-prom"}, Label{"sloth_objective", r.s.Objective.Percent()},
			Label{"sloth_spec", "prometheus/v1"}, Label{"sloth_version", "sloengine"})
	} else {
		fixed = append(fixed, Label{series.LabelObjective, r.s.Objective.Percent()},
			Label{series.LabelWindow, r.s.Window.String()})
	}
	out := make(map[string]string, len(fixed)+len(r.s.Labels))
	maps.Copy(out, r.s.Labels)
	for _, l := range fixed {
		out[l.Name] = l.Value
	}
	return out
}
