package dashboards

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"

	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/slo"
)

// scope is what the templates of one board of a spec refer to.
type scope struct {
	*generator
	labels []string // group labels that the reader of the board picks values of

	all       string // selection of the SLOs of the services that the reader picked
	one       string // on the board of one SLO: this SLO. Elsewhere as all
	picked    string // of these, the groups with the labels
	engine    string // the same of the engine's own series, which have our labels, whatever the rules' are called
	engineSLO string // without group labels
	of        string // of the panel that is made

	base *template.Template
	errs []error
}

// newScope makes the scope of a board.
func (g *generator) newScope(uid string, define map[string]string) *scope {
	x := &scope{generator: g, labels: g.labels, all: g.service + `=~"$service"`,
		engineSLO: series.LabelService + `=~"$service"`}
	x.one = x.all
	switch uid {
	case "sloengine-technical": // those that no customer knows. Without agreements nobody can say which, and it is all
		x.labels = slices.DeleteFunc(slices.Clone(g.labels), func(l string) bool { return g.agreements && g.business[l] })
	case "sloengine-business":
		x.labels = slices.DeleteFunc(slices.Clone(g.labels), func(l string) bool { return !g.business[l] })
	case uidSLO:
		x.one, x.engineSLO = g.id+`="$slo_id"`, series.LabelSLOID+`="$slo_id"`
		if g.id != series.LabelSLOID {
			x.engineSLO = series.LabelService + `="$service",` + series.LabelSLO + `="$slo"`
		}
	}
	groups := ""
	for _, l := range x.labels {
		groups += "," + l + `=~"$` + variableName(l) + `"`
	}
	x.picked, x.engine = x.one+groups, x.engineSLO+groups
	x.base = template.New("").Delims("<<", ">>").Funcs(x.funcs())
	for name, text := range define {
		x.parse(name, text)
	}
	return x
}

func (x *scope) funcs() template.FuncMap {
	text := func(s *string) func() string { return func() string { return *s } }
	over := func(s, name, window string) (string, error) {
		w, err := slo.ParseDuration(window)
		return x.eventsOver(s, name, w), err
	}
	ratio := func(s, window string) (string, error) {
		w, err := slo.ParseDuration(window)
		return x.errorRatio(s, w), err
	}
	return template.FuncMap{
		"id": text(&x.id), "service": text(&x.service), "name": text(&x.name),
		"all": text(&x.all), "one": text(&x.one), "picked": text(&x.picked), "of": text(&x.of),
		"engine": text(&x.engine), "engineSLO": text(&x.engineSLO),
		"only":   func(kind string) string { return x.picked + "," + x.id + `=~"$slos_` + kind + `"` },
		"values": func(d string) string { return d + `!="",` + d + `=~"$each_` + variableName(d) + `"` },
		"agreed": x.pickedAgreements,

		"labels": func() []string { return x.labels }, "allLabels": func() []string { return x.generator.labels },
		"slaLabels": func() []string { return x.slaLabels }, "besides": x.besides, "variable": variableName,
		"share": func(labels []string) int { return gridColumns / min(len(labels), 3) },

		"any": x.anyOf, "ids": x.ids, "agreements": func() bool { return x.agreements }, "reads": x.in.ReadsEvents,
		"timed": x.timed, "thresholds": func() bool { return len(x.in.Thresholds) > 0 }, "minimal": x.o.Minimal,

		"legend": x.legend, "sla": x.slaLegend, "group": x.groupLegend,
		"groups":       func() string { return braces(x.generator.labels) },
		"engineLegend": func() string { return braces(append([]string{series.LabelSLO}, x.generator.labels...)) },

		"long": x.long, "ratio": ratio, "left": x.remaining, "valid": x.valid, "bad": x.bad, "budget": x.budget,
		"over": over, "objective": x.objective, "indicator": x.indicator, "same": x.sameLabels,
		"burn": func(s, window string) (string, error) {
			r, err := ratio(s, window)
			return x.perBudget(r, "/"), err
		},
		"badOver": func(s, window string) (string, error) {
			if x.o.Minimal() {
				return over(s, series.BadCount+":5m", window)
			}
			return over(s, series.BadEventsIncrease, window)
		},
		"observed": func(s, window string) (string, error) { // how many seconds, by SLO
			if x.o.Minimal() {
				counts := of(s, series.ValidCount+":5m")
				return "(300 * max by (" + x.id + ") (count_over_time(" + counts + "[" + window + "])))", nil
			}
			return over(s, series.ObservedIncrease, window)
		},
		"traffic": x.traffic,
		"ended": func(matchers ...string) string { // events whose end a customer sees
			return x.traffic("service, type", append([]string{`type=~"$process"`}, matchers...)...)
		},
		"buckets": func(by string, matchers ...string) string {
			s := strings.Join(append([]string{`service=~"$service"`}, matchers...), ",")
			return "sum by (" + by + ") (rate(" + of(s, series.EventDuration.Name+"_bucket") + interval + "))"
		},
		"leading": leading,
		"ahead": func(quantile string) string {
			s := x.engine + "," + series.LabelQuantile + `="` + quantile + `"`
			return leading("sum without (" + series.LabelQuantile + ") (" + of(s, series.ForecastRemaining.Name) + ")")
		},
		// The event types whose end a customer sees, as a pattern. A dot in a name may stand for itself or, as a pattern,
		// for anything alike.
		"processes": func() string { return cmp.Or(strings.Join(x.processes, "|"), ".+") },

		"atRisk":       func() string { return slo.FormatRatio(slo.AtRiskRemaining) },
		"budgetColors": func() string { return "red, 1e-9 orange, " + slo.FormatRatio(slo.AtRiskRemaining) + " green" },
		"scoreColors":  x.scoreColors,
	}
}

func (x *scope) parse(name, text string) *template.Template {
	t, err := x.base.New(name).Parse(text)
	if err != nil {
		x.errs = append(x.errs, err)
	}
	return t
}

// expand fills in a template.
func (x *scope) expand(text string, dot any) string {
	if !strings.Contains(text, "<<") {
		return text
	}
	var b strings.Builder
	if t := x.parse("text", text); t != nil {
		if err := t.Execute(&b, dot); err != nil {
			x.errs = append(x.errs, err)
		}
	}
	return b.String()
}

func (x *scope) wants(condition string, dot any) bool {
	return condition == "" || x.expand(condition, dot) == "true"
}

// fill fills in the templates of all texts in v, and copies lists before.
func (x *scope) fill(v reflect.Value, dot any) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(x.expand(v.String(), dot))
	case reflect.Struct:
		for i := range v.NumField() {
			x.fill(v.Field(i), dot)
		}
	case reflect.Slice:
		if v.IsNil() {
			return
		}
		list := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(list, v)
		v.Set(list)
		for i := range v.Len() {
			x.fill(v.Index(i), dot)
		}
	}
}

// each lists what a part is repeated for. Without a name it is there once, for what surrounds it.
func (x *scope) each(list string, dot any) []any {
	switch list {
	case "":
		return []any{dot}
	case "labels":
		return items(x.labels)
	case "dimensions":
		return items(x.o.Dimensions)
	case "parts": // such as a stage, a task or an integration, of the events
		if !x.in.ReadsEvents() {
			return nil
		}
		return items(slices.DeleteFunc(slices.Clone(x.o.Dimensions), func(d string) bool {
			return d == "error_type" && !x.timed() // all that have one failed, so only their duration says something
		}))
	case "groups of thresholds":
		var labels []string
		for _, t := range x.in.Thresholds {
			labels = append(labels, series.GroupLabels(t.GroupBy)...)
		}
		slices.Sort(labels)
		labels = slices.Compact(labels)
		return items(labels[:min(len(labels), MaxLabels)])
	}
	return items(x.volumes())
}

func items[T any](list []T) []any {
	out := make([]any, len(list))
	for i := range list {
		out[i] = list[i]
	}
	return out
}

// more are queries of which there are as many as the spec has windows or thresholds, and whether they are marks.
func (x *scope) more(list string) (out []query, marks bool) {
	switch list {
	case "thresholds":
		return x.durationMarks(), true
	case "burn rates":
		for _, w := range slo.BurnWindows {
			out = append(out, query{x.errorRatio(x.picked, w) + " / on (" + x.id + ") group_left () " +
				x.budget(x.one), x.groupLegend(slo.FormatDuration(w))})
		}
	case "recent scores":
		for _, w := range x.alertWindows() {
			name, read := series.CompositeScoreOver(slo.FormatDuration(w)), of
			if w > 6*time.Hour {
				read = x.long
			}
			out = append(out, query{read(x.pickedAgreements(), name), x.slaLegend() + ", " + slo.FormatDuration(w)})
		}
		if out == nil {
			out = []query{{x.long(x.pickedAgreements(), series.RecordedCompositeScore), x.slaLegend()}}
		}
	}
	return out, false
}

// anyOf reports whether an SLO is of all these kinds.
func (x *scope) anyOf(kinds string) bool { return slices.ContainsFunc(x.in.SLOs, x.fits(kinds)) }

// ids lists the SLOs of all these kinds as a pattern for the label id.
func (x *scope) ids(kinds string) string {
	var all []string
	fits := x.fits(kinds)
	for _, s := range x.in.SLOs {
		if fits(s) {
			all = append(all, x.o.Identity(s)[0].Value)
		}
	}
	slices.Sort(all)
	return strings.Join(all, "|")
}

func (x *scope) fits(kinds string) func(*slo.SLO) bool {
	all := strings.Fields(kinds)
	return func(s *slo.SLO) bool {
		return !slices.ContainsFunc(all, func(kind string) bool { return !x.isKind(s, kind) })
	}
}

func (x *scope) isKind(s *slo.SLO, kind string) bool {
	switch i := &s.Indicator; kind {
	case "errors":
		return i.Kind != slo.KindLatency && i.Kind != slo.KindThroughput
	case "events":
		return rules.CountsEvents(s)
	case "business":
		return x.forBusiness(s)
	case "inner":
		return !x.forBusiness(s)
	case "priced":
		return s.Cost != nil
	case "compared":
		return s.Cost != nil && s.Cost.Baseline.Per > 0
	case "invested":
		return s.Cost != nil && s.Cost.Baseline.Per > 0 && s.Cost.Investment.Per > 0
	case "forecast": // an engine can
		return i.Kind != slo.KindPrometheus && i.Kind != slo.KindVolume
	case "counted": // by an engine
		return i.Kind != slo.KindPrometheus
	case "capacity":
		return !i.Capacity.IsZero()
	default:
		return string(i.Kind) == kind
	}
}

// besides lists a group label and those that SLOs are grouped by together with it.
func (x *scope) besides(label string) []string {
	return slices.DeleteFunc(slices.Clone(x.generator.labels), func(l string) bool {
		return !slices.ContainsFunc(x.in.SLOs, func(s *slo.SLO) bool {
			of := x.facts[s].labels
			return slices.Contains(of, label) && slices.Contains(of, l)
		})
	})
}

// groupLegend names a group of the SLO that the board is about.
func (x *scope) groupLegend(more string) string {
	names := x.generator.labels
	if len(names) == 0 && more == "" {
		names = []string{x.name}
	}
	return strings.TrimSpace(braces(names) + " " + more)
}

// sameLabels drops the label by which Sloth's names tell windows apart, so that values of several windows can stand in
// one row.
func (x *scope) sameLabels(expr string) string {
	if x.o.Names != rules.Sloth {
		return expr
	}
	return "max without (" + series.LabelSlothWindow + ") (" + expr + ")"
}

// traffic is the rate of events of the services in view, from the engine's own counters.
func (x *scope) traffic(by string, matchers ...string) string {
	s := strings.Join(append([]string{series.LabelService + `=~"$service"`}, matchers...), ",")
	return "sum by (" + by + ") (rate(" + of(s, series.EngineEvents.Name) + interval + "))"
}

// leading gives series their place in the order of lead times, as text, in a label that no group can have: as text, a
// day is before an hour. That of the hour is 0.
func leading(expr string) string {
	return `label_replace(label_join(` + expr + `, "slo_lead", "", "slo_ahead"), "slo_lead", "0", "slo_ahead", "1h")`
}

// scoreColors colours scores by the alert thresholds of the agreements; where they differ, by the strictest.
func (x *scope) scoreColors() string {
	var warn, critical float64
	for _, a := range x.in.Agreements {
		warn, critical = max(warn, a.Warning), max(critical, a.Critical)
	}
	warn = cmp.Or(warn, 95)
	critical = min(cmp.Or(critical, 90), warn)
	mark := func(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }
	if critical == warn {
		return "red, " + mark(warn) + " green"
	}
	return "red, " + mark(critical) + " orange, " + mark(warn) + " green"
}

// alertWindows are the windows of agreements' own alerts.
func (x *scope) alertWindows() []time.Duration {
	all := map[time.Duration]bool{}
	for _, a := range x.in.Agreements {
		if a.AlertWindow > 0 {
			all[a.AlertWindow] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// maxVolumes is how many throughput SLOs have a panel of their own.
const maxVolumes = 12

// A volume is how much of the target of a throughput SLO comes in.
type volume struct {
	ID                                slo.ID
	Per, During, Rate, Legend, Target string
}

// volumes are those of the throughput SLOs of which some other SLO counts the same events: their own counters hold
// intervals.
func (x *scope) volumes() []volume {
	var out []volume
	for _, s := range x.in.SLOs {
		if s.Indicator.Kind != slo.KindThroughput || len(out) == maxVolumes {
			continue
		}
		twin, labels := x.counterOf(s)
		if twin == nil {
			continue
		}
		v := volume{ID: s.ID, Per: slo.FormatDuration(s.Indicator.Per), During: s.Indicator.During.String(),
			Legend: braces(labels), Target: slo.FormatRatio(float64(s.Indicator.AtLeast))}
		by := ""
		if len(labels) == 0 {
			v.Legend = "events per " + v.Per
		} else {
			by = " by (" + strings.Join(labels, ", ") + ") "
		}
		v.Rate = "sum" + by + "(" + x.o.ValidRate(twin) + ") * " + slo.FormatRatio(s.Indicator.Per.Seconds())
		out = append(out, v)
	}
	return out
}

// counterOf finds an SLO that counts the very events of another one and can tell its groups apart, and the labels of
// those.
func (x *scope) counterOf(s *slo.SLO) (*slo.SLO, []string) {
	labels := x.facts[s].labels
	var found *slo.SLO
	for _, t := range x.in.SLOs {
		if t == s || t.Indicator.Kind != slo.KindEvents || !rules.CountsEvents(t) || x.facts[s].events != x.facts[t].events {
			continue
		}
		missing := func(l string) bool { return !slices.Contains(x.facts[t].labels, l) }
		if !slices.ContainsFunc(labels, missing) && (found == nil || t.ID < found.ID) {
			found = t
		}
	}
	return found, labels
}
