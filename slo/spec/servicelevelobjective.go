package spec

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/yamldoc"
)

// kindObjective is the kind of two formats: the resource of Pyrra, and the configuration of Google's slo-generator.
const kindObjective = "ServiceLevelObjective"

// PyrraAPIVersion is the apiVersion of Pyrra's resource.
const PyrraAPIVersion = "pyrra.dev/v1alpha1"

// pyrraPrefix is of the labels and annotations that Pyrra copies to its rules.
const pyrraPrefix = "pyrra.dev/"

// readPyrra reads Pyrra's resource. Its status is the cluster's.
func readPyrra(v *yamldoc.Value) *draft {
	o := v.Object("apiVersion", "kind", "metadata", "spec", "status")
	meta := o.Need("metadata", "add `metadata: {name: ..., namespace: ...}`")
	in := o.Need("spec", "add the target, the window and the indicator")
	if meta == nil || in == nil {
		return nil
	}
	before := v.Errors()
	d := &draft{at: v.At(), labelAt: map[string]Position{}, perDocument: true}
	s := newSLODraft("", nil, nil)
	s.groupsKnown = true
	d.slos = append(d.slos, s)
	name := d.readPyrraMetadata(meta, s)
	spec := in.Object("target", "window", "description", "indicator", "alerting", "performanceOverAccuracy",
		"partial_response_strategy")
	if spec == nil {
		return d
	}
	keys{
		at("target", percentage{&s.Objective}).need("set the target in percent, such as `target: \"99.9\"`"),
		at("window", length{&s.Window.Rolling, minWindow, maxWindow}).need("set the window, such as `window: 4w`"),
		at("description", prose{&s.Description}),
	}.readFrom(spec)
	s.service, s.objectiveAt = d.service, placeOf(spec, "target")
	if d.service != "" && name != "" {
		s.ID = slo.NewID(d.service, name)
	}
	s.readPyrraIndicator(spec.Need("indicator", "add ratio, latency, latencyNative or bool_gauge"))
	s.readPyrraAlerting(spec.Get("alerting"))
	if !s.Alerting.Page.Disabled {
		spec.Warnf("add `alerting: {tiers: ...}` to the converted spec if you need other windows",
			"SLO %s: alerts have the burn-rate tiers of sloengine, not those of Pyrra", yamldoc.Printable(yamldoc.Clip(name)))
	}
	if spec.Get("performanceOverAccuracy").Bool() {
		spec.KeyWarnf("performanceOverAccuracy", "remove it",
			"performanceOverAccuracy is ignored: long windows are sums of recorded events, which is cheap and exact")
	}
	if spec.Has("partial_response_strategy") {
		spec.KeyWarnf("partial_response_strategy", "set it in the configuration of Thanos Ruler",
			"partial_response_strategy is ignored")
	}
	s.ok = v.Errors() == before
	return d
}

// readPyrraMetadata gives the name of the SLO. Other fields than these are the cluster's.
func (d *draft) readPyrraMetadata(v *yamldoc.Value, s *sloDraft) (name string) {
	o := v.Open()
	if o == nil {
		return ""
	}
	s.at = placeOf(o, "name")
	name, _ = readForeignName(o.Need("name", "give it a name"))
	tags := o.Get("labels")
	switch service := tags.Peek(pyrraPrefix + "service"); {
	case service != nil:
		service.What = "service"
		d.at = service.At()
		d.service, _ = readForeignName(service)
	case o.Has("namespace"):
		if n := o.Get("namespace"); n != nil {
			d.at = n.At()
			if d.service, _ = readForeignName(n); d.service != "" {
				n.Warnf("add the label `pyrra.dev/service`", "the namespace %q is used as the service", d.service)
			}
		}
	default: // of the cluster's, and of Pyrra on files
		d.service = "default"
		o.Warnf("add the label `pyrra.dev/service`, or a namespace", "metadata: the service is %q", d.service)
	}
	s.Labels, _ = readForeignLabels(tags, func(at Position, k string) string {
		own, found := strings.CutPrefix(k, pyrraPrefix)
		switch {
		case own == "service" && found:
			return ""
		case !found:
			tags.WarnfAt(at, "`generate k8s --manifest-label` adds it to manifests",
				"labels: %q is ignored: only labels that begin with %s reach rules", yamldoc.Clip(k), pyrraPrefix)
			return ""
		}
		return own
	})
	s.Alerting.Page.Annotations = readPyrraAnnotations(o.Get("annotations"))
	s.Alerting.Ticket.Annotations = maps.Clone(s.Alerting.Page.Annotations)
	s.Alerting.NoData.Annotations = maps.Clone(s.Alerting.Page.Annotations)
	return name
}

func readPyrraAnnotations(v *yamldoc.Value) map[string]string {
	o := v.Open()
	if o == nil {
		return nil
	}
	out := map[string]string{}
	for _, k := range o.Keys {
		name, found := strings.CutPrefix(k, pyrraPrefix)
		if !found || !labelPattern.MatchString(name) || len(name) > maxName {
			v.WarnfAt(o.KeyAt(k), "", "annotations: %q is ignored: only names that begin with %s reach alerts",
				yamldoc.Clip(k), pyrraPrefix)
			continue
		}
		if s, ok := o.Get(k).Text(); ok {
			out[name] = s
		}
	}
	return out
}

func (s *sloDraft) readPyrraIndicator(v *yamldoc.Value) {
	o := v.Object("ratio", "latency", "latencyNative", "bool_gauge")
	if o == nil {
		return
	}
	if o.Known() != 1 {
		if !o.Misspelt() {
			o.Errorf("write an SLO for each", "indicator: want one of ratio, latency, latencyNative and bool_gauge, got %d",
				o.Known())
		}
		return
	}
	s.kindKnown = true
	for key, read := range map[string]func(o *yamldoc.Object, by string){
		"ratio": s.readPyrraRatio, "latency": s.readPyrraLatency, "latencyNative": s.readPyrraNative,
		"bool_gauge": s.readPyrraGauge,
	} {
		known := map[string][]string{"ratio": {"errors", "total"}, "latency": {"success", "total"},
			"latencyNative": {"total", "latency"}, "bool_gauge": {"metric"}}[key]
		if x := o.Get(key).Object(append(known, "grouping")...); x != nil {
			if by, ok := readPyrraGrouping(x); ok {
				read(x, by)
			}
		}
	}
}

// readPyrraGrouping gives the clause that sums by the labels. Resources that a cluster returns have null for none.
func readPyrraGrouping(o *yamldoc.Object) (string, bool) {
	v := o.Field("grouping")
	if v == nil || v.IsNull() {
		return "", true
	}
	by, ok := readGroupLabels(v, true)
	return grouping(by), ok
}

// selectorQueries reads the series of a metric, and gives a query for each form, in which %s is the selector.
func selectorQueries(o *yamldoc.Object, key string, forms ...string) []*promQuery {
	v := o.Need(key, "add the metric")
	if key != "metric" {
		v = v.Object("metric").Need("metric", "add the selector of its series")
	}
	if v == nil {
		return nil
	}
	v.What = key
	return bareSelector(v, forms...)
}

// bareSelector reads one selector without a range.
func bareSelector(v *yamldoc.Value, forms ...string) []*promQuery {
	if q, ok := readQuery(v); ok {
		return q.inForms(forms...)
	}
	return nil
}

// inForms gives a query for each form, in which the query, a selector, stands for %s.
func (q *promQuery) inForms(forms ...string) []*promQuery {
	v := q.at
	sel, bare := unwrap(q.expr).(*parser.VectorSelector)
	if !bare || !plain(sel) || q.windowed() {
		v.Errorf("write a selector such as http_requests_total{code=~\"5..\"}", "%s: want the selector of a metric", v.What)
		return nil
	}
	var out []*promQuery
	for _, f := range forms {
		x, ok := q.rewritten(strings.ReplaceAll(f, "%s", sel.String()))
		if !ok {
			return nil
		}
		out = append(out, x)
	}
	return out
}

// sumOfRates is the rate of a counter by the labels of a clause.
func sumOfRates(by string) string { return "sum" + by + "(rate(%s[" + slo.PromWindow + "]))" }

func (s *sloDraft) readPyrraRatio(o *yamldoc.Object, by string) {
	bad, total := selectorQueries(o, "errors", sumOfRates(by)), selectorQueries(o, "total", sumOfRates(by))
	if bad != nil && total != nil {
		s.readEventQueries(bad[0], nil, total[0])
	}
}

func (s *sloDraft) readPyrraLatency(o *yamldoc.Object, by string) {
	good, total := selectorQueries(o, "success", sumOfRates(by)), selectorQueries(o, "total", sumOfRates(by))
	if good == nil || total == nil {
		return
	}
	c, _ := good[0].counterIn(good[0].expr)
	if !slices.ContainsFunc(c.matchers, func(m *labels.Matcher) bool {
		return m.Name == labels.BucketLabel && m.Type == labels.MatchEqual
	}) {
		good[0].at.Errorf("add le=\"0.5\", the bucket of the threshold", "success: the selector has no matcher of le")
		return
	}
	s.readEventQueries(nil, good[0], total[0])
}

// readPyrraNative reads a native histogram. The share below the latency times the count are the good events, so that
// windows are weighted by events. Where nothing was counted the share is not a number, which the comparison removes.
func (s *sloDraft) readPyrraNative(o *yamldoc.Object, by string) {
	latency, ok := readDuration(o.Need("latency", "set the threshold, such as `latency: 200ms`"), time.Millisecond, day)
	sum := sumOfRates(by)
	qs := selectorQueries(o, "total", fmt.Sprintf("histogram_fraction(0, %s, %s) * histogram_count(%s) >= 0",
		strconv.FormatFloat(latency.Seconds(), 'g', 12, 64), sum, sum), "histogram_count("+sum+")")
	if qs != nil && ok {
		s.readEventQueries(nil, qs[0], qs[1])
	}
}

// readPyrraGauge reads a gauge that is 1 or 0. Its samples are no rate of events, so it is the ratio that is taken.
func (s *sloDraft) readPyrraGauge(o *yamldoc.Object, by string) {
	window := "_over_time(%s[" + slo.PromWindow + "]))"
	if qs := selectorQueries(o, "metric", "sum"+by+"(sum"+window+" / sum"+by+"(count"+window); qs != nil {
		s.readRatioQuery(qs[0], true)
	}
}

func (s *sloDraft) readPyrraAlerting(v *yamldoc.Value) {
	a := &s.Alerting
	off, burns, absent := false, true, true
	o := (keys{
		at("disabled", truth{to: &off}),
		at("burnrates", truth{to: &burns}),
		at("absent", truth{to: &absent}),
		at("name", textual(&a.Name, readAlertName, &textDoc)),
		at("absentName", later{}),
	}).read(v)
	a.Page.Disabled = off || !burns
	a.Ticket.Disabled = a.Page.Disabled
	a.NoData.Disabled = off || !absent
	if o != nil && o.Has("absentName") {
		o.KeyWarnf("absentName", "route by the label slo_id", "absentName is ignored: the alert is called SLONoData")
	}
}

// GeneratorAPIVersion is the apiVersion of Google's slo-generator.
const GeneratorAPIVersion = "sre.google.com/v2"

// readGenerator reads the configuration of an SLO for slo-generator. Its error budget policy is another file, which
// says the windows.
func readGenerator(v *yamldoc.Value) *draft {
	o := v.Object("apiVersion", "kind", "metadata", "spec")
	meta := o.Need("metadata", "add `metadata: {name: ..., labels: ...}`")
	in := o.Need("spec", "add the backend and the goal")
	if meta == nil || in == nil {
		return nil
	}
	before := v.Errors()
	d := &draft{at: v.At(), labelAt: map[string]Position{}, perDocument: true}
	s := newSLODraft("", nil, nil)
	s.groupsKnown = true
	d.slos = append(d.slos, s)
	name := d.readGeneratorMetadata(meta, s)
	spec := in.Object("description", "goal", "backend", "method", "exporters", "service_level_indicator",
		"error_budget_policy", "frequency")
	if spec == nil {
		return d
	}
	if s.service = d.service; d.service != "" && name != "" {
		s.ID = slo.NewID(d.service, name)
	}
	s.Description, _ = spec.Get("description").Text()
	s.Objective, _ = readRatio(spec.Need("goal", "set the good share, such as `goal: 0.999`"))
	s.objectiveAt = placeOf(spec, "goal")
	in.Warnf("write `window` in the converted spec", "SLO %s: the window is 30d, since error budget policies are not read",
		yamldoc.Printable(yamldoc.Clip(name)))
	for key, hint := range map[string]string{
		"exporters": "the rules record the results", "frequency": "the rules are evaluated every 30s",
		"error_budget_policy": "write `alerting: {tiers: ...}` in the converted spec",
	} {
		if spec.Has(key) {
			spec.KeyWarnf(key, hint, "%q is ignored", key)
		}
	}
	s.kindKnown = true
	if isGeneratorBackend(spec.Need("backend", "set it: `backend: prometheus`")) {
		s.readGeneratorIndicator(spec)
	}
	s.ok = v.Errors() == before
	return d
}

// readGeneratorMetadata gives the name of the SLO. Its service is a label.
func (d *draft) readGeneratorMetadata(v *yamldoc.Value, s *sloDraft) (name string) {
	o := v.Object("name", "labels", "annotations")
	if o == nil {
		return ""
	}
	s.at = placeOf(o, "name")
	name, _ = readForeignName(o.Need("name", "give it a name"))
	if a := o.Get("annotations"); a != nil {
		a.Warnf("", "annotations are ignored")
	}
	tags := o.Get("labels")
	service := tags.Peek("service_name")
	if service == nil {
		service = tags.Peek("service")
	}
	if service == nil {
		o.Errorf("add the label service_name", "metadata: the service of the SLO is unknown")
		return name
	}
	d.at = service.At()
	d.service, _ = readForeignName(service)
	s.Labels, _ = readForeignLabels(tags, func(at Position, k string) string {
		switch {
		case k == service.What:
			return ""
		case strings.HasPrefix(k, "slo_"):
			tags.WarnfAt(at, "", "labels: %q is ignored: names that begin with slo_ are those of sloengine", yamldoc.Clip(k))
			return ""
		}
		return k
	})
	return name
}

// generatorBackends are those that take no PromQL, with a way for their SLOs.
var generatorBackends = map[string]string{
	"cloud_monitoring": viaExporter, "cloud_monitoring_mql": viaExporter, "cloud_service_monitoring": viaExporter,
	"datadog": viaEvents, "dynatrace": viaEvents, "elasticsearch": viaLogs, "open_search": viaLogs, "splunk": viaLogs,
}

const (
	viaExporter = "export its metrics with stackdriver_exporter and use `backend: prometheus`, or send events"
	viaEvents   = "send its metrics to Prometheus, or spans or events to the engine"
	viaLogs     = "send its log records to the engine with OpenTelemetry, or send events"
)

// isGeneratorBackend reports whether a backend, which may have a name of its own after a slash, takes PromQL.
func isGeneratorBackend(v *yamldoc.Value) bool {
	text, ok := v.Text()
	if !ok {
		return false
	}
	kind, _, _ := strings.Cut(text, "/")
	if hint, known := generatorBackends[kind]; known {
		v.Errorf(hint, "unsupported backend %q: only prometheus is converted", yamldoc.Clip(text))
		return false
	}
	return isPromSystem(v, kind)
}

func (s *sloDraft) readGeneratorIndicator(spec *yamldoc.Object) {
	method, _ := spec.Need("method", "want good_bad_ratio, distribution_cut or query_sli").
		Choice("good_bad_ratio", "distribution_cut", "query_sli")
	in := spec.Need("service_level_indicator", "add filter_good and filter_valid, or an expression")
	switch method {
	case "good_bad_ratio":
		s.readGeneratorRatio(in.Object("filter_good", "filter_bad", "filter_valid", "operators"))
	case "distribution_cut":
		s.readGeneratorCut(in.Object("expression", "threshold_bucket"))
	case "query_sli":
		x := in.Object("expression").Need("expression", "add the query of the good share")
		q, ok := readQueryAs(x, func(text string) string { return strings.ReplaceAll(text, "[window", "["+slo.PromWindow) })
		if ok && !q.windowed() {
			x.Errorf("write [window] for the range", "%s: the query contains no window", x.What)
		} else if ok {
			s.readRatioQuery(q, true)
		}
	}
}

func (s *sloDraft) readGeneratorRatio(o *yamldoc.Object) {
	if v := o.Get("operators"); v != nil {
		items, _ := v.List()
		var words []string
		for _, i := range items {
			words = append(words, i.Raw())
		}
		if got := strings.Join(words, ", "); got != "increase, sum" && got != "rate, sum" {
			v.Errorf("use [increase, sum], or query_sli", "operators: unsupported operators %s",
				yamldoc.Printable(yamldoc.Clip(got)))
			return
		}
	}
	other := "filter_valid"
	switch bad, valid := o.Has("filter_bad"), o.Has("filter_valid"); {
	case bad && valid:
		o.KeyErrorf("filter_valid", "keep one of them", "filter_bad and filter_valid exclude each other")
		return
	case bad:
		other = "filter_bad"
	}
	good, rest := o.Need("filter_good", "add the selector of good events"), o.Need(other, "add it, or filter_bad")
	if good == nil || rest == nil {
		return
	}
	g, ok1 := readGeneratorFilter(good)
	r, ok2 := readGeneratorFilter(rest)
	switch {
	case !ok1 || !ok2:
	case other == "filter_valid":
		s.readEventQueries(nil, g, r)
	default: // all are the good and the bad, of which either may have no series yet
		if sum, ok := r.rewritten(g.text + " + " + r.text + " or " + g.text + " or " + r.text); ok {
			s.readEventQueries(r, nil, sum)
		}
	}
}

// withoutWindow is the selector of text, behind which the range may be written.
func withoutWindow(text string) string {
	return strings.TrimSuffix(strings.TrimRight(text, " \n"), "[window]")
}

// readGeneratorFilter reads the selector of a counter, which has [window] behind it or not, as its rate.
func readGeneratorFilter(v *yamldoc.Value) (*promQuery, bool) {
	q, ok := readQueryAs(v, withoutWindow)
	if !ok {
		return nil, false
	}
	if qs := q.inForms(sumOfRates("")); qs != nil {
		return qs[0], true
	}
	return nil, false
}

// readGeneratorCut reads a histogram and the bucket of its threshold.
func (s *sloDraft) readGeneratorCut(o *yamldoc.Object) {
	x := o.Need("expression", "add the selector of the histogram's buckets")
	b := o.Need("threshold_bucket", "set the bucket, such as `threshold_bucket: 0.25`")
	if x == nil || b == nil {
		return
	}
	_, ok := b.Float()
	q, fine := readQueryAs(x, withoutWindow)
	if !ok || !fine || q.inForms(sumOfRates("")) == nil {
		return
	}
	sel := unwrap(q.expr).(*parser.VectorSelector)
	name, found := strings.CutSuffix(sel.Name, "_bucket")
	if !found {
		x.Errorf("write the metric whose name ends with _bucket", "expression: %s is no bucket of a histogram",
			yamldoc.Printable(yamldoc.Clip(sel.Name)))
		return
	}
	count := &parser.VectorSelector{Name: name + "_count"}
	bucket := &parser.VectorSelector{Name: sel.Name}
	for _, m := range sel.LabelMatchers {
		if m.Name != "__name__" {
			count.LabelMatchers = append(count.LabelMatchers, m)
			bucket.LabelMatchers = append(bucket.LabelMatchers, m)
		}
	}
	bucket.LabelMatchers = append(bucket.LabelMatchers, labels.MustNewMatcher(labels.MatchEqual, labels.BucketLabel,
		b.Raw()))
	good, ok1 := q.rewritten(strings.ReplaceAll(sumOfRates(""), "%s", bucket.String()))
	total, ok2 := q.rewritten(strings.ReplaceAll(sumOfRates(""), "%s", count.String()))
	if ok1 && ok2 {
		s.readEventQueries(nil, good, total)
	}
}
