package spec

import (
	"fmt"
	"time"

	"github.com/sloengine/sloengine/slo/yamldoc"
)

var alphaObjective = []string{"displayName", "op", "value", "target", "timeSliceTarget", "timeSliceWindow",
	"ratioMetrics"}

// readAlpha reads the objectives of openslo/v1alpha. A threshold metric belongs to the SLO, ratio metrics to the
// objective.
func (p *openSpec) readAlpha(o *yamldoc.Object, objectives []*yamldoc.Value, text string) {
	o.Warnf("convert it, and add `alerting`", "SLO %s has no alerts, which openslo/v1alpha cannot express",
		yamldoc.Printable(yamldoc.Clip(p.doc.name)))
	if v := o.Get("indicator"); v != nil {
		if in := v.Object("thresholdMetric"); in != nil {
			p.threshold = in.Need("thresholdMetric", "add its source, queryType and query")
		}
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
	case o.Has("ratioMetrics"):
		for _, key := range []string{"op", "value"} {
			if o.Has(key) {
				o.KeyWarnf(key, "remove it", "objective: %s does not apply to ratioMetrics", key)
			}
		}
		if v := o.Get("ratioMetrics"); v != nil {
			p.readRatio(s, v)
		}
	case p.threshold != nil:
		p.thresholdUsed = true
		p.readThreshold(s, p.threshold, o)
	case !o.Meant("ratioMetrics"):
		o.Errorf("add ratioMetrics, or an indicator with a thresholdMetric to the SLO", "objective: ratioMetrics is missing")
	}
	s.kindKnown = s.Indicator.Kind != ""
}

func readAlphaMetric(v *yamldoc.Value) (*promQuery, bool) {
	o := v.Object("source", "queryType", "query", "metadata")
	if o == nil {
		return nil, false
	}
	source := o.Need("source", "set the source of the metric, such as `source: prometheus`")
	if source == nil || !isPromSystem(source, source.Raw()) {
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
	if unit != nil {
		_, ok = unit.Choice("Minute", "Hour", "Day", "Week", "Month", "Quarter", "Year")
	}
	n := w.Need("count", "set how many units it has, such as `count: 30`")
	if n == nil {
		return unit, 0, false
	}
	x, counted := n.Whole(1, 1_000_000)
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
