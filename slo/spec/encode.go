package spec

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

// Write writes a spec in the own format, one YAML document for each service. The
// same spec gives the same bytes, and reading them gives the same spec again but
// for places and warnings.
func Write(dst io.Writer, s *Spec) error {
	if _, err := dst.Write(Encode(s)); err != nil {
		return fmt.Errorf("write spec: %w", err)
	}
	return nil
}

// Encode is the text that Write writes.
func Encode(s *Spec) []byte {
	var out []byte
	for i := range s.Services {
		if i > 0 {
			out = append(out, "---\n"...)
		}
		e := encoder{spec: s, service: &s.Services[i]}
		out = e.document().appendDocument(out)
	}
	return out
}

// encoder writes one service.
type encoder struct {
	spec    *Spec
	service *Service
	noted   map[string]bool // comments that are worth saying once
}

func (e *encoder) document() *yamlMap {
	s := e.service
	m := &yamlMap{block: true}
	m.text("version", Version)
	m.text("service", s.Name)
	m.textIf("description", s.Description)
	m.labels("labels", s.Labels).note("on the info series only")
	var slos []*slo.SLO
	for _, o := range e.spec.SLOs {
		if o.ID.Service() == s.Name {
			slos = append(slos, o)
		}
	}
	var thresholds yamlList
	for _, l := range e.spec.Thresholds {
		if l.Service == s.Name {
			thresholds = append(thresholds, e.threshold(l))
		}
	}
	onEvents := len(thresholds) > 0 || slices.ContainsFunc(slos, func(o *slo.SLO) bool { return o.Indicator.Kind != slo.KindPrometheus })
	switch {
	case len(s.Types) > 0:
		m.set("types", texts(s.Types)).note("of the events that it sends")
	case onEvents:
		m.text("types", "any")
	}
	if !slices.Equal(s.Dimensions, DefaultDimensions) {
		m.set("dimensions", texts(s.Dimensions))
	}
	var list yamlList
	for _, o := range slos {
		list = append(list, e.slo(o))
	}
	m.section("slos", list)
	m.section("corrections", corrections(slos))
	m.section("thresholds", thresholds)
	var slas yamlList
	for _, a := range e.spec.Agreements {
		if a.Service == s.Name {
			slas = append(slas, e.agreement(a))
		}
	}
	m.section("slas", slas)
	return m
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

func (e *encoder) slo(o *slo.SLO) *yamlMap {
	m := &yamlMap{block: true}
	m.text("name", o.ID.Name())
	if o.Was != "" {
		m.text("was", o.Was.Name())
	}
	m.textIf("description", o.Description)
	own := map[string]string{}
	for k, v := range o.Labels {
		if of, ok := e.service.Labels[k]; !ok || of != v {
			own[k] = v
		}
	}
	m.labels("labels", own)
	m.plain("objective", o.Objective.Percent()).note(e.once("percent"))
	m.set("window", window(o.Window))
	if b := o.Budgeting; b.Method != slo.Occurrences {
		in := &yamlMap{}
		in.plain("slice", slo.FormatDuration(b.Slice))
		if b.Method == slo.Timeslices {
			in.plain("target", b.Target.Percent())
		}
		m.set("budgeting", (&yamlMap{}).with(string(b.Method), in))
	}
	if len(o.GroupBy) > 0 {
		m.set("group_by", texts(o.GroupBy)).note(e.once("one SLO for each value"))
		if o.MaxGroups != DefaultMaxGroups {
			m.plain("max_groups", fmt.Sprint(o.MaxGroups))
		}
		var expect yamlList
		for _, g := range o.Expect {
			if len(g) == 1 {
				expect = append(expect, yamlText(g[0]))
			} else {
				expect = append(expect, texts(g))
			}
		}
		if len(expect) > 0 {
			m.set("expect", expect)
		}
	}
	in := &yamlMap{block: true}
	in.set(string(o.Indicator.Kind), e.indicator(&o.Indicator))
	m.set("indicator", in)
	if a := alerting(o.Alerting); len(a.pairs) > 0 {
		m.set("alerting", a)
	}
	return m
}

func window(w slo.Window) yamlNode {
	if w.Calendar == "" {
		return yamlPlain(slo.FormatDuration(w.Rolling))
	}
	m := &yamlMap{}
	m.text("calendar", string(w.Calendar))
	m.text("timezone", w.Location.String())
	return m
}

func (e *encoder) indicator(i *slo.Indicator) *yamlMap {
	m := &yamlMap{}
	if len(i.Valid) > 0 {
		m.text("valid", i.Valid.String())
	}
	switch i.Kind {
	case slo.KindEvents:
		m.text("bad", i.Bad.String())
	case slo.KindLatency:
		m.plain("threshold", slo.FormatDuration(i.Threshold))
	case slo.KindThroughput:
		m.plain("at_least", fmt.Sprint(i.AtLeast))
		m.plain("per", slo.FormatDuration(i.Per))
		m.textIf("during", i.During.String())
	case slo.KindPrometheus:
		e.prometheus(m, i)
	}
	return m
}

func (e *encoder) prometheus(m *yamlMap, i *slo.Indicator) {
	switch i.PromForm() {
	case slo.PromCounters:
		m.textIf("bad", i.PromBad)
		m.textIf("good", i.PromGood)
		m.text("total", i.PromTotal)
	case slo.PromQueries:
		m.block = true
		m.textIf("error_query", i.PromBadQuery).note(e.once("$window is each window of the rules"))
		m.textIf("good_query", i.PromGoodQuery)
		m.text("total_query", i.PromTotalQuery)
	case slo.PromRatio:
		m.block = true
		m.text("error_ratio_query", i.PromErrorRatioQuery).note(e.once("$window is each window of the rules"))
	case slo.PromThreshold:
		m.text("query", i.PromQuery).note(e.once("a sample is good if it compares so with the value"))
		for _, word := range comparisonWords {
			if comparisons[word] == i.PromOp {
				m.text("op", word)
			}
		}
		m.plain("value", decimalText(i.PromValue))
	}
}

func alerting(a slo.Alerting) *yamlMap {
	m := &yamlMap{}
	m.textIf("name", a.Name)
	var tiers yamlList
	for _, t := range a.Tiers {
		x := &yamlMap{}
		x.text("severity", severityName(t.Page))
		x.plain("long", slo.FormatDuration(t.Long))
		x.plain("short", slo.FormatDuration(t.Short))
		x.plain("budget", shareText(t.Share))
		tiers = append(tiers, x)
	}
	if len(tiers) > 0 {
		m.set("tiers", tiers).note("budget: percent of it that the long window may spend")
	}
	if a.MinEvents > 0 {
		m.plain("min_events", fmt.Sprint(a.MinEvents))
	}
	for _, x := range []struct {
		key string
		s   slo.AlertSettings
	}{{"page", a.Page}, {"ticket", a.Ticket}, {"no_data", a.NoData}} {
		s := &yamlMap{}
		if x.s.Disabled {
			s.plain("disabled", "true")
		}
		if x.s.For > 0 {
			s.plain("for", slo.FormatDuration(x.s.For))
		}
		s.labels("labels", x.s.Labels)
		s.labels("annotations", x.s.Annotations)
		if len(s.pairs) > 0 {
			m.set(x.key, s)
		}
	}
	return m
}

// corrections finds which SLOs each correction is about. One that names none is
// about all of the service.
func corrections(slos []*slo.SLO) yamlList {
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
	var out yamlList
	for _, c := range all {
		m := &yamlMap{}
		m.text("name", c.Name)
		m.plain("start", c.Start.Format(time.RFC3339Nano))
		m.plain("duration", slo.FormatDuration(c.Duration))
		m.textIf("rrule", c.RRule)
		if zone := c.Start.Location().String(); zone != "" && zone != "UTC" && zone != "Local" {
			m.text("timezone", zone)
		}
		if len(c.SLOs) > 0 {
			m.set("slos", texts(c.SLOs))
		}
		m.text("author", c.Author)
		m.text("reason", c.Reason)
		out = append(out, m)
	}
	return out
}

func (e *encoder) threshold(l *slo.Threshold) *yamlMap {
	m := &yamlMap{}
	m.text("name", l.Name)
	m.text("match", l.Match.String())
	if l.Warning > 0 {
		m.plain("warning", slo.FormatDuration(l.Warning))
	}
	if l.Critical > 0 {
		m.plain("critical", slo.FormatDuration(l.Critical))
	}
	m.textIf("each", l.Each)
	return m
}

func (e *encoder) agreement(a *sla.Agreement) *yamlMap {
	m := &yamlMap{block: true}
	m.text("name", a.Name)
	m.textIf("description", a.Description)
	if len(a.GroupBy) > 0 {
		m.set("group_by", texts(a.GroupBy))
	}
	m.set("window", window(a.Window))
	m.text("score", string(a.Method))
	parts := &yamlMap{block: true}
	for _, c := range a.Components {
		x := &yamlMap{}
		x.text("slo", c.SLO.Name())
		x.plain("weight", decimalText(c.Weight))
		var bands yamlList
		for _, b := range c.Bands {
			step := &yamlMap{}
			if b.Threshold > 0 {
				step.plain("p"+percentText(b.Quantile), slo.FormatDuration(b.Threshold))
			}
			step.plain("score", decimalText(b.Score))
			bands = append(bands, step)
		}
		if len(bands) > 0 {
			x.set("bands", bands)
		}
		parts.set(c.Name, x)
	}
	m.set("components", parts)
	m.text("no_data", string(a.NoData))
	alerts := &yamlMap{}
	if a.Warning > 0 {
		alerts.plain("warning", decimalText(a.Warning))
	}
	if a.Critical > 0 {
		alerts.plain("critical", decimalText(a.Critical))
	}
	var chosen yamlList
	for _, c := range a.Catalogue {
		if len(c.SLOs) == 0 {
			chosen = append(chosen, yamlText(c.Name))
			continue
		}
		x := &yamlMap{}
		x.text("name", c.Name)
		var names []string
		for _, id := range c.SLOs {
			names = append(names, id.Name())
		}
		x.set("slos", texts(names))
		chosen = append(chosen, x)
	}
	if len(chosen) > 0 {
		alerts.set("catalogue", chosen)
	}
	if len(alerts.pairs) > 0 {
		m.set("alerts", alerts)
	}
	if a.AlertWindow > 0 {
		if len(alerts.pairs) == 0 {
			m.set("alerts", (&yamlMap{}).with("warning", yamlPlain("0")))
		}
		m.plain("alert_window", slo.FormatDuration(a.AlertWindow))
	}
	return m
}

// percentText is a quantile as ParsePercent reads it.
func percentText(q float64) string {
	s := shareText(q)
	if o, err := slo.ParsePercent(s); err == nil {
		return o.Percent()
	}
	return s
}

func texts(words []string) yamlList {
	out := make(yamlList, len(words))
	for i, w := range words {
		out[i] = yamlText(strings.Clone(w))
	}
	return out
}
