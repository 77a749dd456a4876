package spec

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/yamlgen"
)

// Encode writes a spec in the own format, one YAML document for each service. The same spec gives the same bytes, and
// reading them gives the same spec again but for places and warnings.
func Encode(s *Spec) []byte {
	var out []byte
	for i := range s.Services {
		if i > 0 {
			out = append(out, "---\n"...)
		}
		e := encoder{spec: s, service: &s.Services[i]}
		for j, part := range e.sections() {
			if j > 0 {
				out = append(out, '\n')
			}
			out = append(out, yamlgen.Document("", part)...)
		}
	}
	return out
}

// encoder writes one service.
type encoder struct {
	spec    *Spec
	service *Service
	noted   map[string]bool // comments that are worth saying once
}

// sections are the parts of a document, with an empty line between each two.
func (e *encoder) sections() []*yamlgen.Node {
	s := e.service
	m := &yamlgen.Map{}
	m.Text("version", Version)
	m.Text("service", s.Name)
	m.Text("description", s.Description)
	yamlgen.Comment(labelMap(m, "labels", s.Labels), "on the info series only")
	var slos []*slo.SLO
	for _, o := range e.spec.SLOs {
		if o.ID.Service() == s.Name {
			slos = append(slos, o)
		}
	}
	var thresholds []*yamlgen.Node
	for _, l := range e.spec.Thresholds {
		if l.Service == s.Name {
			thresholds = append(thresholds, (&thresholdDraft{Threshold: l}).keys().write(e).Line())
		}
	}
	onEvents := len(thresholds) > 0 || slices.ContainsFunc(slos, func(o *slo.SLO) bool { return o.Indicator.Kind != slo.KindPrometheus })
	switch {
	case len(s.Types) > 0:
		yamlgen.Comment(texts(m, "types", s.Types), "of the events that it sends")
	case onEvents:
		m.Text("types", "any")
	}
	if !slices.Equal(s.Dimensions, DefaultDimensions) {
		texts(m, "dimensions", s.Dimensions)
	}
	if s.Buckets != nil && !slices.Equal(s.Buckets, DefaultBuckets) {
		var bounds []string
		for _, b := range s.Buckets {
			bounds = append(bounds, slo.FormatDuration(b))
		}
		texts(m, "buckets", bounds)
	}
	out := []*yamlgen.Node{m.Node()}
	section := func(key string, items []*yamlgen.Node) {
		if len(items) > 0 {
			var part yamlgen.Map
			part.List(key, items)
			out = append(out, part.Node())
		}
	}
	var list, slas, baselines []*yamlgen.Node
	for _, b := range e.spec.Baselines {
		if b.Service == s.Name {
			d := &baselineDraft{Baseline: b, slos: namesOf(b.SLOs), slas: namesOf(b.Agreements)}
			baselines = append(baselines, d.keys().write(e).Line())
		}
	}
	for _, o := range slos {
		list = append(list, e.slo(o))
	}
	for _, a := range e.spec.Agreements {
		if a.Service == s.Name {
			slas = append(slas, agreementDraft(a).keys().write(e).Node())
		}
	}
	section("slos", list)
	section("corrections", e.corrections(slos))
	section("thresholds", thresholds)
	section("slas", slas)
	section("baselines", baselines)
	return out
}

// once gives a comment the first time that it is asked for.
func (e *encoder) once(comment string) string {
	if e.noted[comment] {
		return ""
	}
	if e.noted == nil {
		e.noted = map[string]bool{}
	}
	e.noted[comment] = true
	return comment
}

func (e *encoder) slo(o *slo.SLO) *yamlgen.Node {
	m := &yamlgen.Map{}
	m.Text("name", o.ID.Name())
	if o.Was != "" {
		m.Text("was", o.Was.Name())
	}
	m.Text("description", o.Description)
	own := map[string]string{}
	for k, v := range o.Labels {
		if of, ok := e.service.Labels[k]; !ok || of != v {
			own[k] = v
		}
	}
	labelMap(m, "labels", own)
	yamlgen.Comment(m.Plain("objective", o.Objective.Percent()), e.once("percent"))
	m.Set("window", window(o.Window))
	if b := o.Budgeting; b.Method != slo.Occurrences {
		in := &yamlgen.Map{}
		in.Plain("slice", slo.FormatDuration(b.Slice))
		if b.Method == slo.Timeslices {
			in.Plain("target", b.Target.Percent())
		}
		method := &yamlgen.Map{}
		method.Set(string(b.Method), in.Line())
		m.Set("budgeting", method.Line())
	}
	if len(o.GroupBy) > 0 {
		yamlgen.Comment(m.Set("group_by", textList(o.GroupBy)), e.once("one SLO for each value"))
		if o.MaxGroups != DefaultMaxGroups {
			m.Plain("max_groups", fmt.Sprint(o.MaxGroups))
		}
		var expect []*yamlgen.Node
		for _, g := range o.Expect {
			if len(g) == 1 {
				expect = append(expect, yamlgen.Text(g[0]))
			} else {
				expect = append(expect, yamlgen.Texts(g))
			}
		}
		if len(expect) > 0 {
			m.Set("expect", yamlgen.Line(yamlgen.List(expect...)))
		}
	}
	in := &yamlgen.Map{}
	in.Set(string(o.Indicator.Kind), e.indicator(&o.Indicator))
	m.Set("indicator", in.Node())
	var causes []*yamlgen.Node
	for i := range o.CausedBy {
		causes = append(causes, cause(&o.CausedBy[i], o.ID.Service()))
	}
	if len(causes) > 0 {
		m.Set("caused_by", yamlgen.List(causes...))
	}
	if a := (&sloDraft{SLO: o}).alerting().write(e); a != nil {
		m.Set("alerting", a)
	}
	if o.Cost != nil {
		m.Set("cost", costKeys(o.Cost).write(e).Line())
	}
	return m.Node()
}

func cause(c *slo.Cause, service string) *yamlgen.Node {
	m := &yamlgen.Map{}
	name := string(c.SLO)
	if c.SLO.Service() == service {
		name = c.SLO.Name()
	}
	m.Text("slo", name)
	if len(c.Group) > 0 {
		group := &yamlgen.Map{}
		for _, k := range slices.Sorted(maps.Keys(c.Group)) {
			group.Text(k, c.Group[k])
		}
		m.Set("group", group.Line())
	}
	if len(c.Affects) > 0 {
		affects := &yamlgen.Map{}
		for _, k := range slices.Sorted(maps.Keys(c.Affects)) {
			if values := c.Affects[k]; len(values) > 0 {
				affects.Set(k, yamlgen.Line(yamlgen.Texts(values)))
			} else {
				affects.Text(k, allValues)
			}
		}
		m.Set("affects", affects.Line())
	}
	return m.Line()
}

func window(w slo.Window) *yamlgen.Node {
	if w.Calendar == "" {
		return yamlgen.Plain(slo.FormatDuration(w.Rolling))
	}
	m := &yamlgen.Map{}
	m.Text("calendar", string(w.Calendar))
	m.Text("timezone", w.Location.String())
	return m.Line()
}

func (e *encoder) indicator(i *slo.Indicator) *yamlgen.Node {
	m := &yamlgen.Map{}
	if len(i.Valid) > 0 && i.Kind != slo.KindRatio {
		m.Text("valid", i.Valid.String())
	}
	switch i.Kind {
	case slo.KindRatio:
		m.Text("numerator", i.Numerator.String())
		m.Text("denominator", i.Valid.String())
	case slo.KindApdex:
		m.Plain("satisfied", slo.FormatDuration(i.Satisfied))
		m.Plain("tolerating", slo.FormatDuration(i.Tolerating))
	case slo.KindVolume:
		m.Plain("at_least", fmt.Sprint(i.AtLeast))
		m.Text("per", string(i.Calendar))
		if i.During.Always() {
			m.Text("timezone", i.Location.String())
		}
		m.Text("during", i.During.String())
	case slo.KindEvents:
		m.Text("bad", i.Bad.String())
	case slo.KindLatency:
		m.Plain("threshold", slo.FormatDuration(i.Threshold))
	case slo.KindThroughput:
		m.Plain("at_least", fmt.Sprint(i.AtLeast))
		m.Plain("per", slo.FormatDuration(i.Per))
		if !i.Capacity.IsZero() {
			m.Text("capacity", i.Capacity.String())
		}
		m.Text("during", i.During.String())
	case slo.KindCompletion:
		return completion(&i.Completion)
	case slo.KindPrometheus:
		return e.prometheus(i)
	}
	return m.Line()
}

func (e *encoder) prometheus(i *slo.Indicator) *yamlgen.Node {
	m := &yamlgen.Map{}
	switch i.PromForm() {
	case slo.PromCounters:
		m.Text("bad", i.PromBad)
		m.Text("good", i.PromGood)
		m.Text("total", i.PromTotal)
	case slo.PromQueries:
		yamlgen.Comment(m.Text("error_query", i.PromBadQuery), e.once("$window is each window of the rules"))
		m.Text("good_query", i.PromGoodQuery)
		m.Text("total_query", i.PromTotalQuery)
		return m.Node()
	case slo.PromRatio:
		yamlgen.Comment(m.Text("error_ratio_query", i.PromErrorRatioQuery), e.once("$window is each window of the rules"))
		return m.Node()
	case slo.PromThreshold:
		yamlgen.Comment(m.Text("query", i.PromQuery), e.once("a sample is good if it compares so with the value"))
		for _, word := range comparisonWords {
			if comparisons[word] == i.PromOp {
				m.Text("op", word)
			}
		}
		m.Plain("value", decimalText(i.PromValue))
	}
	return m.Line()
}

// corrections finds which SLOs each correction is about. One that names none is
// about all of the service.
func (e *encoder) corrections(slos []*slo.SLO) []*yamlgen.Node {
	byName := map[string]slo.Correction{}
	for _, o := range slos {
		for _, c := range o.Corrections {
			byName[c.Name] = c
		}
	}
	all := slices.Collect(maps.Values(byName))
	slices.SortFunc(all, func(a, b slo.Correction) int {
		return cmp.Or(a.Start.Compare(b.Start), cmp.Compare(a.Name, b.Name))
	})
	var out []*yamlgen.Node
	for _, c := range all {
		d := &correctionDraft{Correction: c, slos: namesOf(c.SLOs)}
		out = append(out, d.keys().write(e).Line())
	}
	return out
}

// percentText is a quantile as ParsePercent reads it.
func percentText(q float64) string {
	s := shareText(q)
	if o, err := slo.ParsePercent(s); err == nil {
		return o.Percent()
	}
	return s
}

// texts adds a list of texts.
func texts(m *yamlgen.Map, key string, words []string) *yamlgen.Node {
	return m.Set(key, yamlgen.Line(yamlgen.List(yamlgen.Texts(words).Content...)))
}

// labelMap adds texts by their names, unless there are none.
func labelMap(m *yamlgen.Map, key string, set map[string]string) *yamlgen.Node {
	if len(set) == 0 {
		return nil
	}
	return m.Set(key, yamlgen.Line(yamlgen.Strings(set, yamlgen.Text)))
}
