package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

// agreementRules makes the rules of one agreement.
type agreementRules struct {
	g      *generator
	a      *sla.Agreement
	by     []string    // names of the group labels
	slos   []*sloRules // of the components, in order
	events []mask      // of the events of the components with bands, in order
	total  float64     // of the weights as written
}

// agreement prepares an agreement: what it reads must be recorded and have its
// labels, and the tables that it needs are made.
func (g *generator) agreement(a *sla.Agreement) (*agreementRules, error) {
	r := &agreementRules{g: g, a: a, by: AgreementLabels(a)}
	for i := range a.Components {
		c := &a.Components[i]
		s := g.slos[c.SLO]
		if s == nil || c.SLO.Service() != a.Service {
			return nil, fmt.Errorf("component %s: the service has no SLO %s", c.Name, c.SLO)
		}
		for _, label := range a.GroupBy {
			if !slices.Contains(s.s.GroupBy, label) {
				return nil, fmt.Errorf("component %s: SLO %s has no label %s of the agreement's groups", c.Name, c.SLO, label)
			}
		}
		if a.Method != sla.Attainment && s.s.Indicator.Kind == slo.KindThroughput {
			s.volume = true
		}
		var m mask
		var err error
		if r.banded(c) {
			if m, err = s.maskFor(0); err != nil {
				return nil, err
			}
		}
		if r.alerts() {
			s.watch(r.alertWindow())
		}
		r.slos, r.events = append(r.slos, s), append(r.events, m)
		r.total += c.Weight
	}
	if a.Window.Calendar != "" {
		if _, err := g.services[a.Service].period(a.Window); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// alerts reports whether the agreement alerts on its score.
func (r *agreementRules) alerts() bool { return r.a.Warning > 0 || r.a.Critical > 0 }

// alertWindow is the window of the score that is alerted on.
func (r *agreementRules) alertWindow() slo.Window {
	if r.a.AlertWindow > 0 {
		return slo.Window{Rolling: r.a.AlertWindow}
	}
	return r.a.Window
}

func (r *agreementRules) groups() []Group {
	short, long := r.rules()
	name := "sloengine-sla/" + r.a.Service + "/" + r.a.Name
	out := []Group{{Name: name + "/short", Interval: r.g.Eval, Rules: short}}
	if len(long) > 0 {
		out = append(out, Group{Name: name + "/long", Interval: r.g.LongEval, Rules: long})
	}
	return out
}

func (r *agreementRules) labels(c *sla.Component) map[string]string {
	m := map[string]string{series.LabelService: r.a.Service, series.LabelSLA: r.a.Name}
	if c != nil {
		m[series.LabelComponent] = c.Name
	}
	return m
}

// rules gives those of short windows and those of long ones.
func (r *agreementRules) rules() (short, long []Rule) {
	for i := range r.a.Components {
		c := &r.a.Components[i]
		labels := r.labels(c)
		short = append(
			short, Rule{Record: series.ComponentWeight, Expr: "vector(" + num(c.Weight/r.total) + ")", Labels: labels})
		if r.banded(c) {
			short = append(short, Rule{
				Record: series.BandEventsRate, Labels: labels,
				Expr: sumBy(append([]string{series.LabelLE}, r.by...),
					"rate("+series.BandEvents.Name+r.matchers(c)+"["+dur(base+r.g.Scrape)+"])"),
			})
		}
	}
	add := func(w slo.Window, suffix string) {
		rules := r.window(w, suffix)
		if w.Calendar == "" && w.Rolling <= shortLimit {
			short = append(short, rules...)
		} else {
			long = append(long, rules...)
		}
	}
	if r.a.AlertWindow > 0 {
		add(slo.Window{Rolling: r.a.AlertWindow}, dur(r.a.AlertWindow))
	}
	add(r.a.Window, "")
	return short, long
}

func (r *agreementRules) matchers(c *sla.Component) string {
	out := `{` + series.LabelService + `="` + r.a.Service + `",` + series.LabelSLA + `="` + r.a.Name + `"`
	if c != nil {
		out += `,` + series.LabelComponent + `="` + c.Name + `"`
	}
	return out + "}"
}

func (r *agreementRules) banded(c *sla.Component) bool {
	return r.a.Method == sla.Bands && len(c.Bands) > 0
}

// window is the rules of all components and of the score over one window.
func (r *agreementRules) window(w slo.Window, suffix string) []Rule {
	var out []Rule
	for i := range r.a.Components {
		c := &r.a.Components[i]
		out = append(out, Rule{Record: series.RecordedComponentScore + suffix, Expr: r.points(i, w), Labels: r.labels(c)})
	}
	labels, total := r.labels(nil), num(r.total)
	present := r.sum(func(i int) string { return "(" + r.recorded(i, suffix) + " >= bool 0)" })
	compose := func(achieved string) (low, high, score string) {
		low, high = "100 * "+achieved+"\n/ "+total, "100 * ("+achieved+"\n+ "+total+" - "+present+"\n) / "+total
		switch r.a.NoData {
		case sla.NoDataGood:
			return low, high, high
		case sla.NoDataBad:
			return low, high, low
		}
		return low, high, "100 * " + achieved + "\n/\n" + present
	}
	low, high, score := compose(r.sum(func(i int) string { return r.recorded(i, suffix) }))
	out = append(out, Rule{Record: series.RecordedCompositeScore + suffix, Expr: score, Labels: labels})
	if r.alerts() && w.String() == r.alertWindow().String() {
		_, _, observed := compose(r.sum(func(i int) string { return r.spread(i, w, suffix) }))
		out = append(out, Rule{Record: series.RecordedObservedScore + suffix, Expr: observed, Labels: labels})
	}
	if suffix == "" {
		out = append(out,
			Rule{Record: series.RecordedCompositeLow, Expr: low, Labels: labels},
			Rule{Record: series.RecordedCompositeHigh, Expr: high, Labels: labels},
		)
	}
	return out
}

// recorded is the recorded points of a component over a window.
func (r *agreementRules) recorded(component int, suffix string) string {
	return series.RecordedComponentScore + suffix + r.matchers(&r.a.Components[component])
}

// spread is the points that a component would have if the time that was not
// observed had been good, as sla.SLAReport.ObservedScore has it.
func (r *agreementRules) spread(component int, w slo.Window, suffix string) string {
	points, observed := r.recorded(component, suffix), " on () group_left () "+r.g.observedOver(r.slos[component].s, w)
	if r.a.Method == sla.Attainment {
		return "clamp_max(" + points + " /" + observed + ", 1)"
	}
	return "(1 - (1 - " + points + ") *" + observed + ")"
}

// sum adds up something of the components that have data, each times its weight.
// Where the policy decides about missing ones, every group that has counters is
// there, even if none of its components has data.
func (r *agreementRules) sum(of func(component int) string) string {
	var terms []string
	for i := range r.a.Components {
		terms = append(terms, num(r.a.Components[i].Weight)+" * "+of(i))
	}
	if r.a.NoData != sla.NoDataExclude {
		var seen []slo.ID
		for _, s := range r.slos {
			if !slices.Contains(seen, s.s.ID) {
				seen = append(seen, s.s.ID)
				terms = append(terms, "0 * "+s.valid())
			}
		}
	}
	return sumBy(r.by, "\n  "+strings.Join(terms, "\n  or ")+"\n")
}

// points is what a component scores over a window before weighting, 0 to 1; no
// sample without data.
func (r *agreementRules) points(component int, w slo.Window) string {
	c, s := &r.a.Components[component], r.slos[component]
	if r.banded(c) {
		return r.bands(c, s, w, r.events[component])
	}
	if s.volume && r.a.Method != sla.Attainment {
		sum := func(name string) string { return sumBy(r.by, r.over(s, s.series(name), w, s.corrected)) }
		return "clamp_max(" + quotient(sum(series.SliceAchievedRate), sum(series.SliceTargetRate)) + ", 1)"
	}
	ratio := s.share(quotient(sumBy(r.by, s.over(badSeries, w)), sumBy(r.by, s.over(validSeries, w))))
	if r.a.Method == sla.Attainment {
		return "clamp_max(" + num(s.s.Objective.Budget()) + " / (" + ratio + "), 1)"
	}
	return "1 - " + ratio
}

// over sums up a rate that is recorded but not among those of every SLO.
func (r *agreementRules) over(s *sloRules, rate string, w slo.Window, m mask) string {
	if w.Calendar == "" && w.Rolling <= shortLimit {
		if m.is() {
			rate = "(" + rate + " unless on () " + m.then() + ")"
			return "sum_over_time(" + rate + "[" + dur(w.Rolling) + ":" + dur(s.step(w.Rolling)) + "])"
		}
		return "sum_over_time(" + rate + "[" + dur(w.Rolling) + "])"
	}
	return s.long(rate, "", w, m)
}

// bands takes the first step that enough of the events are within. The share is
// rounded to nine digits, so that 95 of 100 events are enough for 0.95.
func (r *agreementRules) bands(c *sla.Component, s *sloRules, w slo.Window, m mask) string {
	matchers := strings.TrimSuffix(r.matchers(c), "}") + `,` + series.LabelLE + `="`
	within := func(le string) string {
		return sumBy(r.by, r.over(s, series.BandEventsRate+matchers+le+`"}`, w, m))
	}
	all := within("+Inf")
	var out []string
	for _, b := range c.Bands {
		points := num(max(0, min(1, b.Score/100)))
		if b.Threshold == 0 {
			out = append(out, "("+all+" > 0) * 0 + "+points)
			break
		}
		share := quotient(within(num(b.Threshold.Seconds())), all)
		out = append(out, "(round("+share+", 1e-09) >= "+num(b.Quantile)+") * 0 + "+points)
	}
	return strings.Join(out, "\nor\n")
}
