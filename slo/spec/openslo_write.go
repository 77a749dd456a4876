package spec

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/yamldoc"
	"github.com/sloengine/sloengine/slo/yamlgen"
)

// openWindow is the range of queries that are written for others: OpenSLO has no place for a window in a query.
const openWindow = 5 * time.Minute

// EncodeOpenSLO writes a spec in openslo/v1, a document for each service and SLO, and says what is lost. SLOs on events
// become queries of the counters that the engine exports for them.
func EncodeOpenSLO(s *Spec) ([]byte, Problems) {
	e := openEncoder{Spec: s, Reader: &yamldoc.Reader{}}
	for _, service := range s.Services {
		m := e.object(openKindService, service.Name, service.Labels)
		if service.Description != "" {
			var in yamlgen.Map
			in.Text("description", service.Description)
			m.Set("spec", in.Node())
		}
		e.add(m)
		e.lose(KindSLO, service.Name, "", service.Dimensions != nil && !slices.Equal(service.Dimensions, DefaultDimensions),
			"dimensions")
	}
	for _, o := range s.SLOs {
		e.slo(o)
	}
	for _, t := range s.Thresholds {
		e.lose(KindThreshold, t.Service, t.Name, true, "it, since OpenSLO has none,")
	}
	for _, a := range s.Agreements {
		e.lose(KindSLA, a.Service, a.Name, true, "it, since OpenSLO has no such score,")
	}
	for _, b := range s.Baselines {
		e.lose(KindSLO, b.Service, b.Name, true, "it, since OpenSLO has none,")
	}
	return e.out, e.Problems()
}

type openEncoder struct {
	*Spec
	*yamldoc.Reader
	out []byte
}

func (e *openEncoder) add(m *yamlgen.Map) {
	if len(e.out) > 0 {
		e.out = append(e.out, "---\n"...)
	}
	e.out = append(e.out, yamlgen.Document("", m.Node())...)
}

// object begins a document.
func (e *openEncoder) object(kind, name string, labels map[string]string) *yamlgen.Map {
	m, meta := &yamlgen.Map{}, &yamlgen.Map{}
	m.Text("apiVersion", OpenSLOVersion)
	m.Text("kind", kind)
	meta.Text("name", name)
	if len(labels) > 0 {
		meta.Set("labels", yamlgen.Strings(labels, yamlgen.Text))
	}
	m.Set("metadata", meta.Node())
	return m
}

// lose reports what is left out of something.
func (e *openEncoder) lose(kind Kind, service, name string, lost bool, what string) {
	if lost {
		e.note(kind, service, name, what+" is left out")
	}
}

// note reports something at its place.
func (e *openEncoder) note(kind Kind, service, name, text string) {
	at, found := e.Source(kind, service, name)
	if !found { // it has none of its own
		for _, src := range e.Sources {
			if src.Service == service {
				at = src
				break
			}
		}
		at.Name = name
	}
	e.Warnf(at.Position, "", "%s %s/%s: %s", kind, service, name, text)
}

func (e *openEncoder) slo(o *slo.SLO) {
	service, name := o.ID.Service(), o.ID.Name()
	lose := func(lost bool, what string) { e.lose(KindSLO, service, name, lost, what) }
	indicator, value := e.indicator(o, lose)
	if indicator == nil {
		return
	}
	m := e.object(openKindSLO, name, o.Labels)
	in, meta := &yamlgen.Map{}, &yamlgen.Map{}
	if o.Description != "" {
		in.Text("description", o.Description)
	}
	in.Text("service", service)
	meta.Text("name", name)
	var sli yamlgen.Map
	sli.Set("metadata", meta.Line())
	sli.Set("spec", indicator.Node())
	in.Set("indicator", sli.Node())
	in.List("timeWindow", []*yamlgen.Node{openTimeWindow(o.Window)})
	objective := &yamlgen.Map{}
	if value != nil {
		objective = value
	}
	objective.Plain("targetPercent", o.Objective.Percent())
	method := slo.Occurrences
	if o.Indicator.Kind == slo.KindPrometheus {
		method = o.Budgeting.Method
	}
	for word, is := range openMethods {
		if is == method {
			in.Text("budgetingMethod", word)
		}
	}
	if method != slo.Occurrences {
		objective.Text("timeSliceWindow", openDuration(o.Budgeting.Slice))
	}
	if method == slo.Timeslices {
		objective.Plain("timeSliceTarget", strconv.FormatFloat(o.Budgeting.Target.Ratio(), 'g', 12, 64))
	}
	in.List("objectives", []*yamlgen.Node{objective.Line()})
	in.Set("alertPolicies", e.policies(o, lose))
	m.Set("spec", in.Node())
	e.add(m)
	lose(len(o.Corrections) > 0, "what corrections take out")
	lose(len(o.CausedBy) > 0, "caused_by")
	lose(len(o.Links) > 0, "its links")
	lose(o.Cost != nil, "the cost")
}

// indicator gives the spec of the SLI, and what the objective compares with; nil if OpenSLO has no such indicator.
func (e *openEncoder) indicator(o *slo.SLO, lose func(bool, string)) (*yamlgen.Map, *yamlgen.Map) {
	in := &o.Indicator
	ratio := func(counter bool, part, bad, total string) *yamlgen.Map {
		var r, out yamlgen.Map
		r.Plain("counter", strconv.FormatBool(counter))
		r.Set(part, openMetric(bad))
		r.Set("total", openMetric(total))
		out.Set("ratioMetric", r.Node())
		return &out
	}
	sum := func(selector string) string {
		if len(o.GroupBy) == 0 {
			return "sum(" + selector + ")"
		}
		return "sum" + grouping(series.GroupLabels(o.GroupBy)) + "(" + selector + ")"
	}
	fixed := func(query string) string { return slo.PromAt(query, openWindow) }
	part := func(bad, good string) (string, string) {
		if bad != "" {
			return "bad", bad
		}
		return "good", good
	}
	switch in.PromForm() {
	case slo.PromCounters:
		key, selector := part(in.PromBad, in.PromGood)
		return ratio(true, key, sum(selector), sum(in.PromTotal)), nil
	case slo.PromQueries:
		lose(true, "the window of its queries, which look at 5m,")
		key, query := part(in.PromBadQuery, in.PromGoodQuery)
		return ratio(false, key, fixed(query), fixed(in.PromTotalQuery)), nil
	case slo.PromRatio:
		lose(true, "the window of its query, which looks at 5m,")
		var r, out yamlgen.Map
		r.Text("rawType", "failure")
		r.Set("raw", openMetric(fixed(in.PromErrorRatioQuery)))
		out.Set("ratioMetric", r.Node())
		return &out, nil
	case slo.PromThreshold:
		var value, out yamlgen.Map
		out.Set("thresholdMetric", openMetric(in.PromQuery))
		value.Text("op", map[slo.Comparison]string{
			slo.Less: "lt", slo.NotAbove: "lte", slo.Greater: "gt", slo.NotBelow: "gte"}[in.PromOp])
		value.Plain("value", strconv.FormatFloat(in.PromValue, 'g', 12, 64))
		return &out, &value
	}
	if in.Kind == slo.KindVolume || in.Kind == slo.KindRatio || o.Budgeting.Method == slo.RatioTimeslices {
		lose(true, fmt.Sprintf("it, since OpenSLO has no indicator %s,", in.Kind))
		return nil, nil
	}
	of := func(more string) string {
		return sum(series.Events.Name + "{" + series.LabelSLOID + "=" + strconv.Quote(string(o.ID)) + more + "}")
	}
	e.note(KindSLO, o.ID.Service(), o.ID.Name(), "its events are queries of the counters of the engine")
	return ratio(true, "bad", of(","+series.LabelResult+`="`+series.ResultBad+`"`), of("")), nil
}

// openMetric is a metric of Prometheus.
func openMetric(query string) *yamlgen.Node {
	var q, source, out yamlgen.Map
	q.Text("query", query)
	source.Text("type", "Prometheus")
	source.Set("spec", q.Node())
	out.Set("metricSource", source.Node())
	return out.Node()
}

// openDuration is a duration in one unit.
func openDuration(d time.Duration) string {
	switch {
	case d == 0:
		return "0m"
	case d%day == 0:
		return strconv.Itoa(int(d/day)) + "d"
	case d%time.Hour == 0:
		return strconv.Itoa(int(d/time.Hour)) + "h"
	case d%time.Minute == 0:
		return strconv.Itoa(int(d/time.Minute)) + "m"
	}
	return slo.FormatDuration(d) // shorter than any that OpenSLO has
}

func openTimeWindow(w slo.Window) *yamlgen.Node {
	var out yamlgen.Map
	if w.Calendar == "" {
		out.Text("duration", openDuration(w.Rolling))
		out.Plain("isRolling", "true")
		return out.Line()
	}
	var c yamlgen.Map
	c.Text("startTime", "2024-01-01 00:00:00") // a Monday on which a year begins
	c.Text("timeZone", w.Location.String())
	out.Text("duration", map[slo.CalendarUnit]string{slo.Day: "1d", slo.Week: "1w", slo.Month: "1M", slo.Quarter: "1Q",
		slo.Year: "1Y"}[w.Calendar])
	out.Plain("isRolling", "false")
	out.Set("calendar", c.Node())
	return out.Line()
}

// policies are the tiers as alert policies of one condition each, which looks at the long window only.
func (e *openEncoder) policies(o *slo.SLO, lose func(bool, string)) *yamlgen.Node {
	a := &o.Alerting
	var out []*yamlgen.Node
	short := false
	noData := !a.NoData.Disabled
	for _, t := range tiers(*a) {
		settings, severity := &a.Ticket, "ticket"
		if t.Page {
			settings, severity = &a.Page, "page"
		}
		factor := t.Factor(o.Window.Nominal())
		if settings.Disabled || t.Long >= o.Window.Nominal() || factor*o.Objective.Budget() >= 1 {
			continue
		}
		short = short || t.Short < t.Long
		name := severity + "-" + openDuration(t.Long)
		var burn, condition yamlgen.Map
		burn.Text("kind", "burnrate")
		burn.Text("op", "gt")
		burn.Plain("threshold", strconv.FormatFloat(factor, 'g', 12, 64))
		burn.Text("lookbackWindow", openDuration(t.Long))
		burn.Text("alertAfter", openDuration(settings.For))
		condition.Text("severity", severity)
		condition.Set("condition", burn.Line())
		var policy yamlgen.Map
		policy.Plain("alertWhenBreaching", "true")
		policy.Plain("alertWhenResolved", "true")
		policy.Plain("alertWhenNoData", strconv.FormatBool(noData))
		noData = false // one policy says it
		policy.List("conditions", []*yamlgen.Node{inlineObject(openKindCondition, name, &condition)})
		out = append(out, inlineObject(openKindPolicy, o.ID.Name()+"-"+name, &policy))
	}
	lose(short, "the short window of its alerts")
	lose(noData, "the alert on missing data, since it has no other,")
	kept := func(s slo.AlertSettings) bool { return len(s.Labels)+len(s.Annotations) > 0 }
	lose(kept(a.Page) || kept(a.Ticket) || kept(a.NoData), "labels and annotations of its alerts")
	lose(a.MinEvents > 0, "min_events")
	lose(a.FalsePages > 0, "false_pages")
	lose(a.Name != "", "the name of its alerts")
	lose(a.Soon.Within > 0, "exhausted_soon")
	lose(len(a.Left) > 0, "budget_left")
	return yamlgen.List(out...)
}

func inlineObject(kind, name string, spec *yamlgen.Map) *yamlgen.Node {
	var m, meta yamlgen.Map
	m.Text("kind", kind)
	meta.Text("name", strings.ToLower(name))
	m.Set("metadata", meta.Line())
	m.Set("spec", spec.Node())
	return m.Node()
}
