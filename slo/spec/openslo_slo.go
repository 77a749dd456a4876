package spec

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

// openSpec is the spec of an SLO document while it is read.
type openSpec struct {
	*openSLO
	doc       *openObject
	draft     *draft
	name      string
	indicator *openObject // of the whole SLO; nil for a composite
	window    slo.Window
	method    slo.BudgetMethod
	alerts    *openAlerts
}

func (s *openSLO) readSLO(d *openObject, services []string) *draft {
	o := d.spec.object("description", "service", "indicator", "indicatorRef", "timeWindow", "budgetingMethod", "objectives", "alertPolicies")
	if o == nil {
		return nil
	}
	p := &openSpec{openSLO: s, doc: d, draft: &draft{at: d.at.at(), labelAt: map[string]Position{}}}
	if d.name != "" {
		p.name, _ = d.at.foreignName()
	}
	if v := o.need("service", "name the service, such as `service: shop`"); v != nil {
		p.draft.at = v.at()
		p.draft.service, _ = v.foreignName()
		if hint := didYouMean(v.n.Value, services); hint != "" && !slices.Contains(services, v.n.Value) {
			v.warnf(hint, "there is no Service %q", clip(v.n.Value))
		}
	}
	text := ""
	if t := o.get("description"); t != nil {
		text, _ = t.text()
	}
	p.window = o.openWindow()
	p.method = o.openMethod()
	var objectives []*value
	if v := o.need("objectives", "say how much must be good, such as `objectives: [{targetPercent: 99.9}]`"); v != nil {
		objectives, _ = v.list()
		if v.isList() && len(objectives) == 0 {
			v.errorf("say how much must be good, such as `objectives: [{targetPercent: 99.9}]`", "objectives is empty")
		}
	}
	composite := false
	for _, i := range objectives {
		composite = composite || i.peek("indicator") != nil || i.peek("indicatorRef") != nil
	}
	switch own := o.has("indicator") || o.has("indicatorRef"); {
	case own && composite:
		d.spec.errorf("keep those of the objectives for a composite", "%s: either the SLO or its objectives have an indicator, not both", d.spec.what)
		return p.draft
	case !own && !composite && !o.meant["indicator"] && !o.meant["indicatorRef"]:
		d.spec.errorf("say what is measured", "%s: indicator or indicatorRef is missing", d.spec.what)
	case own:
		p.indicator = p.findIndicator(o)
	}
	if v := o.get("alertPolicies"); v != nil {
		p.alerts = p.readPolicies(v)
		if v.isList() && len(v.n.Content) == 0 && !(composite && len(objectives) > 1) { // which cannot have any
			o.r.warnf(o.keyAt("alertPolicies"), "add a policy", "SLO %s has an empty list of alertPolicies, so there are no alerts", printable(clip(d.name)))
		}
	} else if !o.has("alertPolicies") {
		d.at.warnf("add alertPolicies", "SLO %s has no alertPolicies, so there are no alerts", printable(clip(d.name)))
	}
	if composite && len(objectives) > 1 && o.has("alertPolicies") && p.alerts.any() {
		o.r.errorf(o.keyAt("alertPolicies"), "write the objectives as SLOs with policies of their own", "burn rates are of single SLOs, so a composite cannot have alertPolicies")
	}
	p.readObjectives(objectives, composite, describe(d.display, text))
	return p.draft
}

// readObjectives makes an SLO of each objective, and a composite of them if each
// has an indicator of its own.
func (p *openSpec) readObjectives(objectives []*value, composite bool, text string) {
	before := p.doc.spec.r.errors
	g := &slaDraft{Agreement: &sla.Agreement{
		Service: p.draft.service, Name: p.name, Description: text, Window: p.window, Method: sla.Attainment, NoData: sla.NoDataExclude,
	}, at: p.doc.at.at(), weightsAt: p.doc.at.at()}
	for i, v := range objectives {
		v.what = "objective"
		o := v.object("displayName", "op", "value", "target", "targetPercent", "timeSliceTarget", "timeSliceWindow", "indicator", "indicatorRef", "compositeWeight")
		if o == nil {
			continue
		}
		s := &sloDraft{SLO: &slo.SLO{Description: text}, at: p.doc.at.at(), groupsKnown: true}
		display := ""
		if n := o.get("displayName"); n != nil {
			display, _ = n.text()
		}
		part := p.name
		if len(objectives) > 1 {
			part = toName(display)
			if part == "" {
				part = strconv.Itoa(i + 1)
			}
			s.at = v.at()
			s.Description = describe(text, display)
			s.ID = slo.NewID(p.draft.service, p.name+"-"+part)
		} else {
			s.Description = text
			if text == "" {
				s.Description = display
			}
			s.ID = slo.NewID(p.draft.service, part)
		}
		if p.name == "" {
			s.ID = ""
		}
		p.readObjective(s, o)
		p.draft.slos = append(p.draft.slos, s)

		weight := 1.0
		if w := o.get("compositeWeight"); w != nil {
			x, ok := w.number(0, 1e9)
			if ok && x <= 0 {
				w.errorf("remove the objective if it should not count", "compositeWeight must be greater than 0")
			}
			if !composite {
				w.errorf("remove it", "compositeWeight means nothing where the objectives have no indicators of their own")
			}
			weight = x
		}
		g.components = append(g.components, componentDraft{
			Component: sla.Component{Name: part, SLO: s.ID, Weight: weight}, slo: named{s.ID.Name(), v.at()}, ok: true,
		})
	}
	// Weights of OpenSLO need not add up to anything, which g.ok would check.
	if composite && len(objectives) > 1 && p.name != "" && p.doc.spec.r.errors == before {
		p.draft.slas = append(p.draft.slas, g)
	}
}

func (p *openSpec) readObjective(s *sloDraft, o *object) {
	before := o.r.errors
	s.Labels = maps.Clone(p.doc.labels)
	s.Window = p.window
	s.objectiveAt = o.at()
	switch ratio, percent := o.has("target"), o.has("targetPercent"); {
	case ratio && percent:
		o.errorf("keep one of them", "objective: target and targetPercent cannot both be given")
	case percent:
		if v := o.get("targetPercent"); v != nil {
			s.objectiveAt = v.at()
			s.Objective, _ = v.objective()
		}
	case ratio:
		if v := o.get("target"); v != nil {
			s.objectiveAt = v.at()
			s.Objective, _ = v.ratio()
		}
	case !o.meant["target"] && !o.meant["targetPercent"]:
		o.errorf("say how much must be good, such as `targetPercent: 99.9`", "objective: target is missing")
	}
	s.Budgeting.Method = p.method
	p.readSlices(s, o)
	in := p.indicator
	if o.has("indicator") || o.has("indicatorRef") {
		in = p.findIndicator(o)
	} else if in == nil && p.doc.spec.peek("indicator") == nil && p.doc.spec.peek("indicatorRef") == nil {
		o.errorf("say what it measures", "objective: indicator is missing")
	}
	if in != nil && in.spec != nil {
		p.readIndicator(s, in, o)
	}
	s.Alerting = p.alerts.of(s, o)
	s.ok = o.r.errors == before
}

func (p *openSpec) readSlices(s *sloDraft, o *object) {
	if p.method == slo.Occurrences {
		for _, key := range []string{"timeSliceTarget", "timeSliceWindow"} {
			if o.has(key) {
				o.r.errorf(o.keyAt(key), "remove it, or take `budgetingMethod: Timeslices`", "objective: %s means nothing with Occurrences", key)
			}
		}
		return
	}
	if v := o.need("timeSliceWindow", "say how long a slice is, such as `timeSliceWindow: 1m`"); v != nil {
		var d time.Duration
		ok := true
		if n, err := strconv.Atoi(v.n.Value); err == nil && n > 0 && n <= int(maxSlice/time.Minute) {
			d = time.Duration(n) * time.Minute // a bare number is of minutes
		} else {
			d, ok = v.shorthand(minSlice, maxSlice)
		}
		if ok && time.Hour%d != 0 && d%time.Minute != 0 {
			v.errorf("take a part of an hour, or whole minutes", "timeSliceWindow: slices of %s do not tile an hour", slo.FormatDuration(d))
		}
		s.Budgeting.Slice = d
	}
	switch {
	case p.method == slo.Timeslices:
		if v := o.need("timeSliceTarget", "say how much of a slice must be good, such as `timeSliceTarget: 0.95`"); v != nil {
			s.Budgeting.Target, _ = v.ratio()
		}
	case o.has("timeSliceTarget"):
		o.r.errorf(o.keyAt("timeSliceTarget"), "remove it, or take `budgetingMethod: Timeslices`", "objective: timeSliceTarget means nothing with RatioTimeslices")
	}
}

// ratio reads a share in (0,1) as an objective, exact to the decimal.
func (v *value) ratio() (slo.Objective, bool) {
	s, ok := v.text()
	if !ok {
		return slo.Objective{}, false
	}
	whole, frac, _ := strings.Cut(s, ".")
	if allDigits(whole+frac) && strings.Trim(whole, "0") == "" {
		for len(frac) < 2 {
			frac += "0"
		}
		percent := frac[:2]
		if len(frac) > 2 {
			percent += "." + frac[2:]
		}
		if o, err := slo.ParsePercent(percent); err == nil {
			if o.Ratio() > 0.01 {
				return o, true
			}
		}
	}
	hint := "write a share such as 0.999"
	if x, err := strconv.ParseFloat(s, 64); err == nil && x == 1 {
		hint = "1 leaves no error budget; 0.9999 allows one failure in 10,000"
	} else if _, err := slo.ParsePercent(s); err == nil && v.what == "target" {
		hint = fmt.Sprintf("did you mean targetPercent: %s?", s)
	}
	v.errorf(hint, "%s: %q is not a share between 0 and 1, both excluded", v.what, clip(s))
	return slo.Objective{}, false
}

var openMethods = map[string]slo.BudgetMethod{"Occurrences": slo.Occurrences, "Timeslices": slo.Timeslices, "RatioTimeslices": slo.RatioTimeslices}

func (o *object) openMethod() slo.BudgetMethod {
	if !o.has("budgetingMethod") && !o.meant["budgetingMethod"] {
		o.warnf("add `budgetingMethod: Occurrences`", "%s: budgetingMethod is missing; Occurrences is taken", o.what)
		return slo.Occurrences
	}
	v := o.get("budgetingMethod")
	if v == nil {
		return slo.Occurrences
	}
	for name, m := range openMethods {
		if strings.EqualFold(v.n.Value, name) {
			if v.n.Value != name {
				v.warnf("write "+name, "budgetingMethod: %q is not the spelling of OpenSLO", clip(v.n.Value))
			}
			return m
		}
	}
	v.choice("Occurrences", "Timeslices", "RatioTimeslices")
	return slo.Occurrences
}
