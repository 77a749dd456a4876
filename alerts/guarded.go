package alerts

import (
	"maps"
	"slices"
	"strings"

	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

// guarded is an alert that starts by errors spread over whole windows, goes on by
// what was observed, and is kept while too little is observed to tell that it is
// over: what Reading says, in PromQL.
type guarded struct {
	groups   []string // labels that tell the groups apart
	identity []string // further labels of its samples
	mine     []string // matchers of ALERTS that select it

	start    []string // conditions to start
	goesOn   []string // conditions to go on
	also     []string // conditions of both
	holds    []string // conditions to go on for a while longer
	recovery string   // share of the window, in [0,1], that must be observed for it to be over
	missing  float64  // its value while it is not, which its texts tell by
	plain    bool     // it goes by what was counted alone, as in the profile rules.Minimal
}

// Values of an alert that is kept because too little was observed. No alert of the kind fires with such a value.
const (
	missingRatio  = 0  // of bad events
	missingBudget = 2  // what is left of the budget: never more than all
	missingScore  = -1 // of an agreement
)

// KeptValue is the value for the texts of a firing alert that is kept because too little was observed to tell whether
// it is over. last is the value that it had before.
func (l *Live) KeptValue(last float64) float64 {
	switch l.Kind {
	case LiveSilent, LiveSoon:
		return last // its rule knows no such state
	case LiveExhausted:
		return missingBudget
	case LiveScore:
		return missingScore
	}
	return missingRatio
}

func (q guarded) expr() string {
	on := onLabels(q.groups)
	all := func(conditions ...string) string { return strings.Join(conditions, "\nand "+on+" ") }
	if q.plain {
		return all(append(slices.Clone(q.goesOn), q.also...)...)
	}
	fires := firing(q.mine...)
	out := all(q.start...) + "\nor\n" + all(append(slices.Clone(q.goesOn), fires)...)
	if len(q.also) > 0 {
		out = all(append([]string{"(\n" + out + "\n)"}, q.also...)...)
	}
	if len(q.holds) > 0 {
		out += "\nor\n" + all(append(slices.Clone(q.holds), fires)...)
	}
	return out + "\nor " + on + "\n" + number(q.missing) + " * max by (" +
		strings.Join(append(slices.Clone(q.identity), q.groups...), ", ") + ") (" + fires + ")" +
		"\nand on () " + q.recovery + " < " + number(MinObserved)
}

// above adds that an error ratio is above a threshold, over a window of which a
// share was observed.
func (q *guarded) above(ratio, threshold, observed string) {
	q.start = append(q.start, ratio+" > on () group_left () "+threshold+" / "+observed)
	q.goesOn = append(q.goesOn, ratio+" > "+threshold)
}

// guardedSLO begins an alert on an SLO.
func (g *generator) guardedSLO(s *slo.SLO, name string, mine ...string) guarded {
	q := guarded{
		groups: g.q.groups(s), identity: g.identity(s), recovery: g.q.observed(s, shortWindow), missing: missingRatio,
		plain: g.o.Minimal(),
		mine:  append([]string{"alertname=" + quote(name), series.LabelSLOID + "=" + quote(string(s.ID))}, mine...),
	}
	return q
}

// identity are the labels of the samples of an SLO besides those of its groups.
func (g *generator) identity(s *slo.SLO) []string {
	var out []string
	for _, l := range g.o.Identity(s) {
		out = append(out, l.Name)
	}
	if g.o.Names == rules.Sloth {
		out = append(slices.AppendSeq(out, maps.Keys(rules.SpecLabels(s))), series.LabelSlothWindow)
		slices.Sort(out)
	}
	return out
}

// recentlyObserved is the share of the last five minutes that was observed of the
// components of an agreement which the engine counts; 1 if it counts none.
func (g *generator) recentlyObserved(a *sla.Agreement) string {
	var of []string
	for i := range a.Components {
		s := g.byID[a.Components[i].SLO]
		if s == nil || s.Indicator.Kind == slo.KindPrometheus {
			continue
		}
		if sel := g.q.observed(s, shortWindow); !slices.Contains(of, sel) {
			of = append(of, sel)
		}
	}
	switch len(of) {
	case 0:
		return "vector(1)"
	case 1:
		return of[0]
	}
	return "min(" + strings.Join(of, " or ") + ")"
}

// untilObserved puts before a text what is to say while an alert is only kept,
// which its value tells by a condition of the template.
func (g *generator) untilObserved(condition, window, text string) string {
	if g.o.Minimal() {
		return text
	}
	return "{{ if " + condition + " }}It fired, and less than " + percent(MinObserved) + " of the last " + window +
		" was observed: missing data does not resolve it.{{ else }}" + text + "{{ end }}"
}

// proves adds that a ratio of so many events is more than chance makes of a rate.
func (q *guarded) proves(o rules.Options, ratio, events string, rate, needed float64) {
	if needed == 0 {
		return
	}
	times := " * "
	if o.Names == rules.Sloth {
		times = " * ignoring (" + series.LabelSlothWindow + ") " // only ratios have it
	}
	for _, c := range []string{
		"(" + events + ")" + times + ratio + " > " + number(slo.MinBad-half),
		"(" + events + ")" + times + "(" + ratio + " * (ln(" + ratio + " / " + number(rate) +
			") - 1) + " + number(rate) + ")" +
			" > " + number(needed),
	} {
		q.start, q.goesOn = append(q.start, c), append(q.goesOn, c)
	}
}

// holdsOn adds that a page goes on while its short window has too few events to show the end.
func (q *guarded) holdsOn(t Tier, long, short, enough string) {
	longest := "max_over_time(" + short + "[" + slo.FormatDuration(t.Quiet.For) + "])"
	q.holds = []string{
		long + " > " + number(t.Threshold),
		longest + " > " + number(t.Threshold) + "\nunless " + onLabels(q.groups) + " " + enough,
	}
}
