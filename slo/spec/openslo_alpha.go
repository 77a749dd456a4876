package spec

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/suggest"
	"github.com/sloengine/sloengine/slo/yamldoc"
)

var alphaObjective = []string{"displayName", "op", "value", "target", "timeSliceTarget", "timeSliceWindow",
	"ratioMetrics"}

// Of Nobl9: what is reported as ignored, and the keys of an objective.
var (
	nobl9Ignored   = []string{"alertPolicies", "anomalyConfig", "attachments", "createdAt", "createdBy"}
	nobl9Objective = []string{"displayName", "name", "op", "value", "target", "timeSliceTarget", "countMetrics",
		"rawMetric", "composite", "primary"}
)

// nobl9Kinds are those that are left out, with what takes their place.
var nobl9Kinds = map[string]string{
	"Agent": "`sources` of engine.yaml name the Prometheus", "Direct": "`sources` of engine.yaml name the Prometheus",
	"Alert": "", "AlertMethod": "write a receiver under `notifications`", "AlertPolicy": "write `alerting` of the SLO",
	"AlertSilence": "use `sloengine silence add`", "Annotation": "use `sloengine annotate`",
	"DataExport": "write `sinks` in engine.yaml", "Project": "", "Report": "write `reports` in engine.yaml",
	"RoleBinding": "tokens say who reads which services", "UserGroup": "tokens say who reads which services",
}

// readAdjustment makes corrections of a BudgetAdjustment, one for each service. made are the drafts of SLOs by name.
func (d *openObject) readAdjustment(made map[string]*draft) {
	c := correctionDraft{Correction: slo.Correction{Name: d.name, Author: "OpenSLO", Reason: d.name}, at: d.at.At()}
	if d.nobl9 {
		c.Author = "Nobl9"
	}
	keys := keys{
		at("description", textual(&c.Reason, filled, &textDoc)),
		at("firstEventStart", single[time.Time]{&c.Start, (*yamldoc.Value).Instant, instantText, &instantDoc}).need(
			"set when it begins, such as `firstEventStart: 2026-11-22T01:00:00Z`"),
		at("duration", later{}).need("set how long it lasts, such as `duration: 2h`"),
		at("rrule", later{}),
		at("filters", later{}).need("name its SLOs: `filters: {slos: [{name: ...}]}`"),
		at("overrides", later{}),
	}
	o := keys.read(d.spec)
	if o == nil {
		return
	}
	if o.Has("overrides") {
		o.KeyErrorf("overrides", "write each occurrence as a correction of its own, without rrule",
			"%s: changes of single occurrences are not converted", o.What)
	}
	if v := o.Get("duration"); v != nil {
		if x, err := time.ParseDuration(v.Raw()); err == nil && x >= time.Second && x <= maxCorrection { // 1h0m0s
			c.Duration = x
		} else {
			c.Duration, _ = readShorthand(v, time.Second, maxCorrection)
		}
	}
	if whole := !c.Start.IsZero() && c.Duration > 0; whole {
		c.checkStep(d.spec)
		if v := o.Get("rrule"); v != nil && v.Raw() != "" {
			c.readRRule(v, v.Raw())
		}
	}
	items, _ := o.Get("filters").Object("slos").Need("slos", "name its SLOs").List()
	ofService := map[string]*correctionDraft{}
	for _, i := range items {
		i.What = "slo"
		name := i.Object("name", "project").Need("name", "name the SLO")
		if name == nil {
			continue
		}
		target := made[name.Raw()]
		if target == nil {
			hint := suggest.DidYouMean(name.Raw(), slices.Sorted(maps.Keys(made)))
			if hint == "" {
				hint = "load the file that has it too, or remove it"
			}
			name.Errorf(hint, "%s: unknown SLO %q", d.spec.What, yamldoc.Clip(name.Raw()))
			continue
		}
		of := ofService[target.service]
		if of == nil {
			own := c
			of = &own
			ofService[target.service] = of
			target.corrections = append(target.corrections, of)
		}
		for _, s := range target.slos {
			of.slos = append(of.slos, named{s.ID.Name(), name.At()})
		}
	}
}

// readAlpha reads the objectives of openslo/v1alpha. A threshold metric belongs to the SLO, ratio metrics to the
// objective.
func (p *openSpec) readAlpha(o *yamldoc.Object, objectives []*yamldoc.Value, text string) {
	why := "which openslo/v1alpha cannot express"
	if p.doc.nobl9 {
		why = "since policies of Nobl9 are not read"
		for _, key := range nobl9Ignored {
			if o.Has(key) {
				o.KeyWarnf(key, "remove it", "%q is ignored", key)
			}
		}
	}
	o.Warnf("convert it, and add `alerting`", "SLO %s has no alerts, %s", yamldoc.Printable(yamldoc.Clip(p.doc.name)), why)
	if v := o.Get("indicator"); v != nil && p.doc.nobl9 {
		// Which Prometheus it is is the business of the one that loads the rules.
		p.threshold = v.Object("metricSource", "rawMetric").Get("rawMetric")
	} else if v != nil {
		p.threshold = v.Object("thresholdMetric").Need("thresholdMetric", "add its source, queryType and query")
		if v.Errors() > 0 && p.threshold == nil {
			return // without telling each objective that its metrics are missing
		}
	}
	p.readObjectives(objectives, false, text)
	if p.threshold != nil && !p.thresholdUsed && len(p.draft.slos) > 0 {
		o.KeyWarnf("indicator", "remove it", "%s: unused indicator, since each objective has ratioMetrics", o.What)
	}
}

func (p *openSpec) readAlphaIndicator(s *sloDraft, o *yamldoc.Object) {
	switch {
	case o.Has("composite"):
		o.KeyErrorf("composite", "write an agreement under `slas`", "objective: composites of Nobl9 are not converted")
	case o.Has("countMetrics"):
		p.readRatio(s, o.Get("countMetrics"))
	case o.Has("rawMetric"):
		if q := o.Get("rawMetric").Object("query").Need("query", "add the query"); q != nil {
			p.readThreshold(s, q, o)
		}
	case o.Has("ratioMetrics"):
		for _, key := range []string{"op", "value"} {
			if o.Has(key) {
				o.KeyWarnf(key, "remove it", "objective: %s does not apply to ratioMetrics", key)
			}
		}
		p.readRatio(s, o.Get("ratioMetrics"))
	case p.threshold != nil:
		p.thresholdUsed = true
		p.readThreshold(s, p.threshold, o)
	case p.doc.nobl9:
		if !o.Misspelt() {
			o.Errorf("add one of them", "objective: countMetrics or rawMetric is missing")
		}
	case !o.Meant("ratioMetrics"):
		o.Errorf("add ratioMetrics, or an indicator with a thresholdMetric to the SLO", "objective: ratioMetrics is missing")
	}
	s.kindKnown = s.Indicator.Kind != ""
}

// readNobl9Metric reads the query of the one data source that is written.
func (p *openSpec) readNobl9Metric(v *yamldoc.Value) (*promQuery, bool) {
	o := v.Open()
	if o == nil {
		return nil, false
	}
	if len(o.Keys) != 1 {
		v.Errorf("want `prometheus: {promql: ...}`", "%s: want one data source, got %d", v.What, len(o.Keys))
		return nil, false
	}
	key := o.Keys[0]
	switch key {
	case "prometheus", "amazonPrometheus", "azurePrometheus":
	default:
		p.unsupported = true
		o.KeyErrorf(key, eventForm,
			"unsupported data source %q: only Prometheus is supported", yamldoc.Clip(key))
		return nil, false
	}
	q := o.Get(key).Object("promql").Need("promql", "add the query in PromQL")
	if q == nil {
		return nil, false
	}
	q.What = v.What
	return readQuery(q)
}

func (p *openSpec) readAlphaMetric(v *yamldoc.Value) (*promQuery, bool) {
	if p.doc.nobl9 {
		return p.readNobl9Metric(v)
	}
	o := v.Object("source", "queryType", "query", "metadata")
	source := o.Need("source", "set the source of the metric, such as `source: prometheus`")
	if source == nil {
		return nil, false
	}
	if p.unsupported = !isPromSystem(source, source.Raw()); p.unsupported {
		return nil, false
	}
	if o.Has("metadata") {
		o.KeyWarnf("metadata", "", "%s: metadata is ignored, since the query says all", v.What)
	}
	return readPromQL(o, v.What)
}

// alphaUnits are the units of windows in the shorthand of openslo/v1.
var alphaUnits = map[string]string{"Minute": "m", "Hour": "h", "Day": "d", "Week": "w", "Month": "M", "Quarter": "Q",
	"Year": "Y"}

var alphaLengths = map[string]time.Duration{"Minute": time.Minute, "Hour": time.Hour, "Day": day, "Week": 7 * day}

// readCount reads how many of which unit a window has.
func readCount(w *yamldoc.Object) (unit *yamldoc.Value, count int, ok bool) {
	unit = w.Need("unit", "set the unit of its length, such as `unit: Day`")
	_, ok = unit.Choice("Minute", "Hour", "Day", "Week", "Month", "Quarter", "Year")
	x, counted := w.Need("count", "set how many units it has, such as `count: 30`").Whole(1, 1_000_000)
	return unit, int(x), ok && counted
}

// alphaLength is the length of a rolling window.
func alphaLength(unit *yamldoc.Value, count int) (time.Duration, bool) {
	text := fmt.Sprintf("%d %s", count, unit.Raw())
	if long, ok := longUnits[alphaUnits[unit.Raw()]]; ok {
		return nominal(unit, text, count, long, minWindow, maxWindow)
	}
	return times(unit, text, count, alphaLengths[unit.Raw()], minWindow, maxWindow)
}
