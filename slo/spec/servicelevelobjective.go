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

// kindObjective is the kind of Pyrra's resource.
const kindObjective = "ServiceLevelObjective"

// PyrraAPIVersion is the apiVersion of Pyrra's resource.
const PyrraAPIVersion = "pyrra.dev/v1alpha1"

// pyrraPrefix is of the labels and annotations that Pyrra copies to its rules.
const pyrraPrefix = "pyrra.dev/"

// readPyrra reads Pyrra's resource. Its status is the cluster's.
func readPyrra(v *yamldoc.Value) *draft {
	o := v.Object("apiVersion", "kind", "metadata", "spec", "status")
	if o == nil {
		return nil
	}
	meta := o.Need("metadata", "add `metadata: {name: ..., namespace: ...}`")
	in := o.Need("spec", "add the target, the window and the indicator")
	if meta == nil || in == nil {
		return nil
	}
	before := v.Errors()
	d := &draft{at: v.At(), labelAt: map[string]Position{}, perDocument: true}
	s := newSLODraft("", nil)
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
	if x := spec.Need("indicator", "add ratio, latency, latencyNative or bool_gauge"); x != nil {
		s.readPyrraIndicator(x)
	}
	if x := spec.Get("alerting"); x != nil {
		s.readPyrraAlerting(x)
	}
	if !s.Alerting.Page.Disabled {
		spec.Warnf("add `alerting: {tiers: ...}` to the converted spec if you need other windows",
			"SLO %s: alerts have the burn-rate tiers of sloengine, not those of Pyrra", yamldoc.Printable(yamldoc.Clip(name)))
	}
	if x := spec.Get("performanceOverAccuracy"); x != nil && x.Bool() {
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
	if n := o.Need("name", "give it a name"); n != nil {
		name, _ = readForeignName(n)
	}
	tags, notes := o.Get("labels"), o.Get("annotations")
	switch service := peek(tags, pyrraPrefix+"service"); {
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
	default:
		o.Errorf("add the label `pyrra.dev/service`, or a namespace", "metadata: the service of the SLO is unknown")
	}
	if tags != nil {
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
	}
	if notes != nil {
		s.Alerting.Page.Annotations = readPyrraAnnotations(notes)
		s.Alerting.Ticket.Annotations = maps.Clone(s.Alerting.Page.Annotations)
		s.Alerting.NoData.Annotations = maps.Clone(s.Alerting.Page.Annotations)
	}
	return name
}

func peek(v *yamldoc.Value, key string) *yamldoc.Value {
	if v == nil {
		return nil
	}
	return v.Peek(key)
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
		if t := o.Get(k); t != nil {
			if s, ok := t.Text(); ok {
				out[name] = s
			}
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
		in := o.Get(key)
		if in == nil {
			continue
		}
		known := map[string][]string{"ratio": {"errors", "total"}, "latency": {"success", "total"},
			"latencyNative": {"total", "latency"}, "bool_gauge": {"metric"}}[key]
		if x := in.Object(append(known, "grouping")...); x != nil {
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
	if v == nil {
		return nil
	}
	if key != "metric" {
		in := v.Object("metric")
		if in == nil {
			return nil
		}
		if v = in.Need("metric", "add the selector of its series"); v == nil {
			return nil
		}
	}
	v.What = key
	return bareSelector(v, forms...)
}

// bareSelector reads one selector without a range.
func bareSelector(v *yamldoc.Value, forms ...string) []*promQuery {
	q, ok := readQuery(v)
	if !ok {
		return nil
	}
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
	var latency time.Duration
	ok := false
	if v := o.Need("latency", "set the threshold, such as `latency: 200ms`"); v != nil {
		latency, ok = readDuration(v, time.Millisecond, day)
	}
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
