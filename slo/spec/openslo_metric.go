package spec

import (
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/suggest"
	"github.com/sloengine/sloengine/slo/yamldoc"
)

// findIndicator gives the SLI that is written in place or referred to.
func (p *openSpec) findIndicator(o *yamldoc.Object) *openObject {
	if o.Has("indicator") && o.Has("indicatorRef") {
		o.KeyErrorf("indicatorRef", "keep one of them", "%s: indicator and indicatorRef exclude each other", o.What)
		return nil
	}
	if ref := o.Get("indicatorRef"); ref != nil {
		return p.find(openKindSLI, ref)
	}
	in := o.Get("indicator")
	d := in.Object("metadata", "spec", "apiVersion", "kind")
	if d == nil {
		return nil
	}
	x := &openObject{kind: openKindSLI, at: in, used: true}
	x.readMetadata(d.Get("metadata"))
	x.spec = d.Need("spec", "add ratioMetric or thresholdMetric")
	return x
}

func (p *openSpec) readIndicator(s *sloDraft, in *openObject, objective *yamldoc.Object) {
	if !strings.HasPrefix(in.spec.What, openKindSLI) {
		in.spec.What = "indicator"
	}
	o := in.spec.Object("description", "ratioMetric", "thresholdMetric")
	if o == nil {
		return
	}
	ratio, threshold := o.Has("ratioMetric"), o.Has("thresholdMetric")
	switch {
	case ratio && threshold:
		o.Errorf("keep one; write a second SLI for the other",
			"%s: ratioMetric and thresholdMetric exclude each other", o.What)
	case !ratio && !threshold && !o.Meant("ratioMetric") && !o.Meant("thresholdMetric"):
		o.Errorf("set one of them", "%s: ratioMetric or thresholdMetric is missing", o.What)
	case threshold:
		if v := o.Get("thresholdMetric"); v != nil {
			p.readThreshold(s, v, objective)
		}
	case ratio:
		for _, key := range []string{"op", "value"} {
			if objective.Has(key) {
				objective.KeyWarnf(key, "remove it", "objective: %s does not apply to a ratioMetric", key)
			}
		}
		p.readRatio(s, o.Get("ratioMetric"))
	}
	s.kindKnown = s.Indicator.Kind != ""
}

func (p *openSpec) readThreshold(s *sloDraft, v *yamldoc.Value, objective *yamldoc.Object) {
	q, ok := p.metric(v)
	s.readCompared(objective, q, ok, "set the comparison that makes a value good: lte, lt, gte or gt",
		"set the value that the metric is compared with")
}

func (p *openSpec) readRatio(s *sloDraft, v *yamldoc.Value) {
	var o *yamldoc.Object
	if p.doc.alpha {
		keys := []string{"incremental", "good", "total"}
		if p.doc.nobl9 {
			keys = append(keys, "bad", "goodTotal")
		}
		o = v.ObjectOr(map[string]string{"counter": "incremental"}, keys...)
	} else {
		o = v.ObjectOr(map[string]string{"incremental": "counter"}, "counter", "good", "bad", "total", "raw", "rawType")
	}
	if o == nil {
		return
	}
	var counter *bool
	if c := o.Get(p.counterKey()); c != nil {
		b := c.Bool()
		counter = &b
	}
	if o.Has("raw") {
		p.readRaw(s, o)
		return
	}
	if o.Has("goodTotal") {
		o.KeyErrorf("goodTotal", eventForm, "countMetrics: goodTotal is for data sources other than Prometheus")
		return
	}
	if o.Has("rawType") {
		o.KeyErrorf("rawType", "remove it", "ratioMetric: rawType requires raw")
		return
	}
	if o.Has("good") && o.Has("bad") {
		o.Errorf("keep one of them", "ratioMetric: good and bad exclude each other")
		return
	}
	key := "good"
	if o.Has("bad") {
		key = "bad"
	}
	hint := "add good or bad"
	if p.doc.alpha && !p.doc.nobl9 {
		hint = "add the metric of good events"
	}
	part, total := o.Need(key, hint), o.Need("total", "add the metric of all events")
	if part == nil || total == nil {
		return
	}
	p.unsupported = false
	a, ok1 := p.count(part, counter)
	if p.unsupported { // which is said once
		return
	}
	b, ok2 := p.count(total, counter)
	switch {
	case !ok1 || !ok2:
	case key == "bad":
		s.readEventQueries(a, nil, b)
	default:
		s.readEventQueries(nil, a, b)
	}
}

// counterKey says that the samples of a metric only ever grow.
func (p *openSpec) counterKey() string {
	if p.doc.alpha {
		return "incremental"
	}
	return "counter"
}

func (p *openSpec) readRaw(s *sloDraft, o *yamldoc.Object) {
	for _, key := range []string{"good", "bad", "total"} {
		if o.Has(key) {
			o.KeyErrorf(key, "keep raw, or good and total", "ratioMetric: %s and raw exclude each other", key)
			return
		}
	}
	kind, _ := o.Need("rawType", "want success or failure").Choice("success", "failure")
	q, ok := p.metric(o.Get("raw"))
	if !ok || kind == "" {
		return
	}
	if !q.windowed() && !fixedRatio(q) {
		// A ratio that is there already: its mean over time.
		form := "avg_over_time((%s)[" + slo.PromWindow + ":1m])"
		if sel, ok := unwrap(q.expr).(*parser.VectorSelector); ok && plain(sel) {
			form = "avg_over_time(%s[" + slo.PromWindow + "])"
		}
		if q, ok = q.rewritten(fmt.Sprintf(form, q.text)); !ok {
			return
		}
	}
	s.readRatioQuery(q, kind == "success")
}

// fixedRatio recognises a ratio of the rates of two counters.
func fixedRatio(q *promQuery) bool {
	e := q.expr
	if l, r, ok := binary(e, parser.SUB); ok && isNumber(l, 1) {
		e = r
	}
	a, b, ok := binary(e, parser.DIV)
	if !ok {
		return false
	}
	x, ok1 := q.counterIn(withoutZero(a))
	y, ok2 := q.counterIn(aboveZero(b))
	return ok1 && ok2 && x.same(y) && x.function != ""
}

// metric reads the query of a metric, which must be one for Prometheus.
func (p *openSpec) metric(v *yamldoc.Value) (*promQuery, bool) {
	if p.doc.alpha {
		return p.readAlphaMetric(v)
	}
	o := v.Object("metricSource").Need("metricSource", "set the source of the metric").
		Object("metricSourceRef", "type", "spec")
	if o == nil || !p.isPrometheus(o) {
		return nil, false
	}
	in := o.Need("spec", "add the query")
	if in == nil {
		return nil, false
	}
	in.What = v.What
	all := in.Open()
	if all == nil {
		return nil, false
	}
	keys := []string{"query", "queryType"}
	for _, k := range all.Keys { // the fields of a source are its own
		if k != "promql" && !slices.Contains(keys, k) && suggest.DidYouMean(k, []string{"query", "queryType"}) == "" {
			keys = append(keys, k)
			all.KeyWarnf(k, "write it into the query", "%s: %q is ignored", v.What, yamldoc.Clip(k))
		}
	}
	o = in.ObjectOr(map[string]string{"promql": "query"}, keys...)
	if o == nil {
		return nil, false
	}
	return readPromQL(o, v.What)
}

// readPromQL reads the query beside its type.
func readPromQL(o *yamldoc.Object, what string) (*promQuery, bool) {
	if t := o.Get("queryType"); t != nil && !strings.EqualFold(t.Raw(), "promql") {
		if t.Raw() != "query" { // of OpenSLO's own examples
			t.Errorf("want promql", "unknown queryType %q", yamldoc.Clip(t.Raw()))
			return nil, false
		}
		t.Warnf("write promql", "the query is read as PromQL")
	}
	q := o.Need("query", "add the query in PromQL")
	if q == nil {
		return nil, false
	}
	q.What = what
	return readQuery(q)
}

// promSystems are those that take PromQL.
var promSystems = []string{"prometheus", "thanos", "mimir", "cortex", "victoriametrics"}

func (p *openSpec) isPrometheus(o *yamldoc.Object) bool {
	kind, at := "", o.Value
	if t := o.Get("type"); t != nil {
		s, ok := t.Text()
		if !ok {
			return false
		}
		kind, at = s, t
	}
	if ref := o.Get("metricSourceRef"); ref != nil {
		switch d := p.byName[[2]string{openKindSource, ref.Raw()}]; {
		case d == nil && kind != "":
			ref.Warnf("", "unknown DataSource %q, using the type alone", yamldoc.Clip(ref.Raw()))
		case d == nil:
			p.find(openKindSource, ref)
			return false
		default:
			d.used = true
			if d.spec == nil {
				return false
			}
			of, ok := d.readSource()
			if !ok {
				return false
			}
			if kind != "" && !strings.EqualFold(kind, of) {
				at.Errorf("remove it", "type %q differs from the type of the DataSource, %q", yamldoc.Clip(kind), yamldoc.Clip(of))
				return false
			}
			kind = of
		}
	} else if !o.Has("type") && !o.Meant("type") {
		o.Errorf("add `type: Prometheus`, or a metricSourceRef", "metricSource: type is missing")
		return false
	}
	p.unsupported = !isPromSystem(at, kind)
	return !p.unsupported
}

// isPromSystem reports whether PromQL can be asked of a system, named at a place.
func isPromSystem(at *yamldoc.Value, kind string) bool {
	for _, s := range promSystems {
		if strings.EqualFold(kind, s) {
			return true
		}
	}
	hint := suggest.DidYouMean(kind, []string{"Prometheus"})
	if hint == "" {
		hint = eventForm
	}
	at.Errorf(hint, "unsupported metric source %q: only Prometheus is supported", yamldoc.Clip(kind))
	return false
}

// eventForm is what takes the place of metrics that no Prometheus has.
const eventForm = "export it to Prometheus, or send events and write " +
	"`indicator: {events: {valid: '{type=\"request\"}', bad: '{outcome=\"failure\"}'}}`, or `latency` with a threshold"

// readSource gives the type of a DataSource. How to connect to it is the
// business of the Prometheus that loads the rules.
func (d *openObject) readSource() (string, bool) {
	o := d.spec.Object("description", "type", "connectionDetails")
	if o.Has("connectionDetails") {
		o.KeyWarnf(
			"connectionDetails", "", "connectionDetails are ignored: Prometheus evaluates the rules next to the series")
	}
	return o.Need("type", "set the type, such as `type: Prometheus`").Text()
}

// count reads a metric that counts events, as a query with a window.
func (p *openSpec) count(v *yamldoc.Value, counter *bool) (*promQuery, bool) {
	q, ok := p.metric(v)
	if !ok || q.windowed() {
		return q, ok
	}
	c, ok := q.counterIn(q.expr)
	if sel, bare := unwrap(q.expr).(*parser.VectorSelector); bare && plain(sel) {
		c, ok = counter1(sel), true
	}
	if ok && c.function != "" {
		warnFixed(q.at, c.fixed)
		return q, true
	}
	if counter == nil {
		if !ok || !namedCounter(c) {
			v.Errorf(fmt.Sprintf("add `%[1]s: true` if it only ever grows, else `%[1]s: false`", p.counterKey()),
				"%s: %s is missing", v.What, p.counterKey())
			return nil, false
		}
		grows := true
		counter = &grows
		q.at.Warnf("add `"+p.counterKey()+": true`", "%s: %s is missing, assuming true by the name of the metric", v.What,
			p.counterKey())
	}
	switch {
	case ok && *counter:
		return q.rewritten(fmt.Sprintf("sum%s(rate(%s[%s]))", grouping(c.by), c.selector, slo.PromWindow))
	case *counter:
		q.at.Errorf("write {{.window}} in place of the range", "%s: the rate of an expression cannot be calculated", v.What)
		return nil, false
	}
	// The rules multiply by time what they take for a rate. A sum of samples would grow with how often they are scraped.
	q.at.Warnf("write the rate with {{.window}} for its range if the samples are counts",
		"%s: with %s: false, the samples are taken as events per second", v.What, p.counterKey())
	if ok {
		return q.rewritten(fmt.Sprintf("sum%s(avg_over_time(%s[%s]))", grouping(c.by), c.selector, slo.PromWindow))
	}
	return q.rewritten(fmt.Sprintf("avg_over_time((%s)[%s:1m])", q.text, slo.PromWindow))
}

func counter1(sel *parser.VectorSelector) counter {
	return counter{selector: sel.String(), matchers: sel.LabelMatchers}
}

func grouping(by []string) string {
	if len(by) == 0 {
		return ""
	}
	return " by (" + strings.Join(by, ", ") + ") "
}

// namedCounter reports whether a metric has the name of a counter.
func namedCounter(c counter) bool {
	name, _, _ := strings.Cut(c.selector, "{")
	for _, end := range []string{"_total", "_count", "_bucket"} {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return false
}

// rewritten is another query in place of what was written.
func (q *promQuery) rewritten(text string) (*promQuery, bool) {
	out := &promQuery{at: q.at, text: text, places: windowTemplate.FindAllStringIndex(text, -1)}
	expr, err := promql.ParseExpr(strings.ReplaceAll(text, slo.PromWindow, windowText))
	if err != nil {
		q.at.Errorf("write {{.window}} in place of the range", "%s: the window cannot be inserted into the query: %s",
			q.at.What, yamldoc.Printable(err.Error()))
		return nil, false
	}
	out.expr = expr
	return out, true
}
