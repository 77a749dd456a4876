package dashboards

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/slo"
)

// generator knows what all dashboards of a spec have in common.
type generator struct {
	in rules.Spec
	o  Options

	id, service, name string // labels of the recorded series of an SLO

	labels     []string        // group labels of SLOs, the most used first
	business   map[string]bool // those of labels that customers know
	slaLabels  []string        // group labels of agreements
	processes  []string        // event types whose end a customer sees; nil: any
	agreements bool
	facts      map[*slo.SLO]facts
}

func newGenerator(in rules.Spec, o Options) *generator {
	in.SLOs = slices.SortedFunc(slices.Values(in.SLOs), func(a, b *slo.SLO) int { return cmp.Compare(a.ID, b.ID) })
	g := &generator{
		in: in, o: o, id: series.LabelSLOID, service: series.LabelService, name: series.LabelSLO,
		business: map[string]bool{}, agreements: len(in.Agreements) > 0, facts: map[*slo.SLO]facts{},
	}
	if o.Names == rules.Sloth {
		g.id, g.service, g.name = series.LabelSlothID, series.LabelSlothService, series.LabelSlothSLO
	}
	used, ofSLA := map[string]int{}, map[string]int{}
	counts := agreed(in)
	for _, s := range in.SLOs {
		f := facts{labels: rules.GroupLabels(s), events: eventsOf(s)}
		f.business = counts[string(s.ID)] || counts[f.events]
		g.facts[s] = f
		for _, l := range f.labels {
			used[l]++
			g.business[l] = g.business[l] || g.forBusiness(s)
		}
	}
	for _, a := range in.Agreements {
		for _, l := range rules.AgreementLabels(a) {
			ofSLA[l]++
		}
	}
	g.labels, g.slaLabels = mostUsed(used), mostUsed(ofSLA)
	types := map[string]bool{}
	for _, s := range in.SLOs {
		if t := equalTo(s.Indicator.Counted(), series.LabelType); plainType.MatchString(t) &&
			g.agreements && g.forBusiness(s) {
			types[t] = true
		}
	}
	g.processes = slices.Sorted(maps.Keys(types))
	return g
}

// facts are what is asked of an SLO again and again.
type facts struct {
	labels   []string // of its groups
	events   string   // see eventsOf
	business bool     // agreements count it, or the same events
}

// plainType fits types that can stand in a query whatever Grafana escapes.
var plainType = regexp.MustCompile(`^[\w.:-]+$`)

func mostUsed(n map[string]int) []string {
	out := slices.SortedFunc(maps.Keys(n), func(a, b string) int {
		return cmp.Or(cmp.Compare(n[b], n[a]), cmp.Compare(a, b))
	})
	return out[:min(len(out), MaxLabels)]
}

// equalTo is the value that a selector asks of a label; "" if it asks for none
// or for several.
func equalTo(s slo.Selector, label string) string {
	for _, m := range s {
		if m.Name == label && m.Op == slo.OpEqual {
			return m.Value
		}
	}
	return ""
}

// forBusiness reports whether an SLO is about what a customer sees. That are the
// SLOs that agreements are made of and those which count the same events; without
// agreements it is every SLO.
func (g *generator) forBusiness(s *slo.SLO) bool {
	return !g.agreements || g.facts[s].business
}

// agreed holds the ids of the SLOs that agreements are made of, and what they count.
func agreed(in rules.Spec) map[string]bool {
	out := map[string]bool{}
	for _, a := range in.Agreements {
		for _, c := range a.Components {
			out[string(c.SLO)] = true
		}
	}
	for _, s := range in.SLOs {
		if out[string(s.ID)] && s.Indicator.Kind != slo.KindPrometheus {
			out[eventsOf(s)] = true
		}
	}
	return out
}

// eventsOf tells apart what SLOs count. It is never an id.
func eventsOf(s *slo.SLO) string {
	if s.Indicator.Kind == slo.KindPrometheus {
		return "{} " + string(s.ID)
	}
	if s.Indicator.Kind == slo.KindCompletion {
		return fmt.Sprintf("%s completion %s %s", s.ID.Service(), s.Indicator.Completion.Started,
			s.Indicator.Completion.Finished)
	}
	return s.ID.Service() + " " + s.Indicator.Valid.String()
}

// timed reports whether the engine measures durations for the spec.
func (g *generator) timed() bool {
	return slices.ContainsFunc(g.in.SLOs, isLatency) ||
		slices.ContainsFunc(g.in.Thresholds, func(l *slo.Threshold) bool { return l.Warning > 0 || l.Critical > 0 })
}

// maxMarks bounds the thresholds that a panel of durations shows.
const maxMarks = 6

// durationMarks are the strictest thresholds of latency SLOs and event thresholds.
func (g *generator) durationMarks() []query {
	names := map[time.Duration][]string{}
	mark := func(d time.Duration, name string) {
		if d > 0 && !slices.Contains(names[d], name) {
			names[d] = append(names[d], name)
		}
	}
	for _, s := range g.in.SLOs {
		if isLatency(s) {
			mark(s.Indicator.Threshold, s.ID.Name())
		}
	}
	for _, t := range g.in.Thresholds {
		mark(t.Warning, t.Name)
		mark(t.Critical, t.Name)
	}
	all := slices.Sorted(maps.Keys(names))
	var out []query
	for _, d := range all[:min(len(all), maxMarks)] {
		slices.Sort(names[d])
		text := strings.Join(names[d][:min(len(names[d]), 3)], ", ")
		if len(names[d]) > 3 {
			text += " .."
		}
		out = append(out, query{"vector(" + slo.FormatRatio(d.Seconds()) + ")", slo.FormatDuration(d) + ": " + text})
	}
	return out
}

func isLatency(s *slo.SLO) bool { return s.Indicator.Kind == slo.KindLatency }

// Queries. A selection is the label matchers that the variables of a dashboard stand for.

// of is a series of a selection.
func of(selection, name string) string { return name + "{" + selection + "}" }

// pickedAgreements selects the agreements of the services that the reader picked, and their groups.
func (g *generator) pickedAgreements() string {
	s := series.LabelService + `=~"$service"`
	if g.agreements {
		s += "," + series.LabelSLA + `=~"$sla"`
	}
	for _, l := range g.slaLabels {
		s += "," + l + `=~"$` + variableName(l) + `"`
	}
	return s
}

// long selects a series that is recorded so rarely that its latest sample may
// just have gone stale.
func (g *generator) long(s string, name string) string {
	every := g.o.LongEval
	if every == 0 {
		every = 5 * time.Minute
	}
	return "last_over_time(" + of(s, name) + "[" + slo.FormatDuration(2*every) + "])"
}

// errorRatio is the recorded share of bad events over one of slo.BurnWindows.
func (g *generator) errorRatio(s string, w time.Duration) string {
	name := series.ErrorRatio(slo.FormatDuration(w))
	switch {
	case w > 6*time.Hour, w == 2*time.Hour && g.o.Minimal():
		return g.long(s, name)
	case w == 30*time.Minute && g.o.Minimal():
		return "(" + of(s, series.Held("30m")) + " or " + of(s, name) + ")" // the one if a page reads it, else the other
	}
	return of(s, name)
}

// remaining is the share of the budget that is left.
func (g *generator) remaining(s string) string { return g.long(s, series.PeriodBudgetRemaining) }

// perSLO joins each group's value with what is recorded once for its SLO.
func (g *generator) perSLO(value, operator, name string) string {
	return g.joined(value, operator, of(g.service+`=~"$service"`, name))
}

func (g *generator) perBudget(value, operator string) string {
	return g.joined(value, operator, g.budget(g.service+`=~"$service"`))
}

func (g *generator) joined(value, operator, whole string) string {
	return value + " " + operator + " on (" + g.id + ") group_left () " + whole
}

// valid and bad are the rates of events over the last five minutes, per second.
func (g *generator) valid(s string) string { return g.rate(s, series.ValidEvents, series.ValidCount) }

func (g *generator) bad(s string) string { return g.rate(s, series.BadEvents, series.BadCount) }

func (g *generator) rate(s string, recorded, counted string) string {
	if g.o.Minimal() {
		return "sum_over_time(" + of(s, counted) + "[4m59s]) / 300"
	}
	return of(s, recorded)
}

// groups is a series with the labels of an SLO's groups.
func (g *generator) groups(s string) string {
	if g.o.Minimal() {
		return of(s, series.ValidCount)
	}
	return of(s, series.ValidEvents)
}

// budget is the share of events that may be bad, without group labels.
func (g *generator) budget(s string) string {
	if g.o.Minimal() {
		return "(1 - " + of(s, series.Objective) + ")"
	}
	return of(s, series.ErrorBudget)
}

// indicator is the share of good events over each SLO's own window, worked back
// from the budget, since every window has a series of its own.
func (g *generator) indicator(s string) string {
	return "1 - " + g.perBudget("(1 - "+g.remaining(s)+")", "*")
}

// objective is the target, with the labels of each group.
func (g *generator) objective(s string) string {
	return g.perSLO("0 * "+g.remaining(s), "+", series.Objective)
}

// eventsOver is the number of events in a window, from those recorded for every
// five minutes.
func (g *generator) eventsOver(s string, name string, w time.Duration) string {
	every := cmp.Or(g.o.LongEval, 5*time.Minute)
	sum := "sum_over_time(" + of(s, name) + "[" + slo.FormatDuration(w) + "])"
	if every == 5*time.Minute {
		return sum
	}
	return slo.FormatRatio(float64(every)/float64(5*time.Minute)) + " * " + sum
}

// legend names an SLO and its group.
func (g *generator) legend() string { return braces(append([]string{g.name}, g.labels...)) }

// slaLegend names an agreement and its group.
func (g *generator) slaLegend(more ...string) string {
	return braces(slices.Concat([]string{series.LabelSLA}, g.slaLabels, more))
}

func braces(labels []string) string {
	out := make([]string, len(labels))
	for i, l := range labels {
		out[i] = "{{" + l + "}}"
	}
	return strings.Join(out, " ")
}
