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
	"github.com/sloengine/sloengine/slo/suggest"
	"github.com/sloengine/sloengine/slo/yamldoc"
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
	o := d.spec.Object("description", "service", "indicator", "indicatorRef", "timeWindow", "budgetingMethod", "objectives", "alertPolicies")
	if o == nil {
		return nil
	}
	p := &openSpec{openSLO: s, doc: d, draft: &draft{at: d.at.At(), labelAt: map[string]Position{}}}
	if d.name != "" {
		p.name, _ = readForeignName(d.at)
	}
	if v := o.Need("service", "name the service, such as `service: shop`"); v != nil {
		p.draft.at = v.At()
		p.draft.service, _ = readForeignName(v)
		if hint := suggest.DidYouMean(v.Raw(), services); hint != "" && !slices.Contains(services, v.Raw()) {
			v.Warnf(hint, "unknown Service %q", yamldoc.Clip(v.Raw()))
		}
	}
	text := ""
	if t := o.Get("description"); t != nil {
		text, _ = t.Text()
	}
	p.window = readOpenWindow(o)
	p.method = readOpenMethod(o)
	var objectives []*yamldoc.Value
	if v := o.Need("objectives", "add an objective, such as `objectives: [{targetPercent: 99.9}]`"); v != nil {
		objectives, _ = v.List()
		if v.IsList() && len(objectives) == 0 {
			v.Errorf("add an objective, such as `objectives: [{targetPercent: 99.9}]`", "objectives is empty")
		}
	}
	composite := false
	for _, i := range objectives {
		composite = composite || i.Peek("indicator") != nil || i.Peek("indicatorRef") != nil
	}
	switch own := o.Has("indicator") || o.Has("indicatorRef"); {
	case own && composite:
		d.spec.Errorf("for a composite, keep those of the objectives", "%s: indicators of the SLO and of its objectives exclude each other", d.spec.What)
		return p.draft
	case !own && !composite && !o.Meant("indicator") && !o.Meant("indicatorRef"):
		d.spec.Errorf("set one of them", "%s: indicator or indicatorRef is missing", d.spec.What)
	case own:
		p.indicator = p.findIndicator(o)
	}
	if v := o.Get("alertPolicies"); v != nil {
		p.alerts = p.readPolicies(v)
		if v.IsList() && v.Len() == 0 && !(composite && len(objectives) > 1) { // which cannot have any
			o.KeyWarnf("alertPolicies", "add a policy", "SLO %s has an empty list of alertPolicies, so there are no alerts", yamldoc.Printable(yamldoc.Clip(d.name)))
		}
	} else if !o.Has("alertPolicies") {
		d.at.Warnf("add alertPolicies", "SLO %s has no alertPolicies, so there are no alerts", yamldoc.Printable(yamldoc.Clip(d.name)))
	}
	if composite && len(objectives) > 1 && o.Has("alertPolicies") && p.alerts.any() {
		o.KeyErrorf("alertPolicies", "write the objectives as SLOs with policies of their own", "a composite cannot have alertPolicies, because burn rates belong to single SLOs")
	}
	p.readObjectives(objectives, composite, describe(d.display, text))
	return p.draft
}

// readObjectives makes an SLO of each objective, and a composite of them if each
// has an indicator of its own.
func (p *openSpec) readObjectives(objectives []*yamldoc.Value, composite bool, text string) {
	before := p.doc.spec.Errors()
	g := &slaDraft{Agreement: &sla.Agreement{
		Service: p.draft.service, Name: p.name, Description: text, Window: p.window, Method: sla.Attainment, NoData: sla.NoDataExclude,
	}, at: p.doc.at.At(), weightsAt: p.doc.at.At()}
	for i, v := range objectives {
		v.What = "objective"
		o := v.Object("displayName", "op", "value", "target", "targetPercent", "timeSliceTarget", "timeSliceWindow", "indicator", "indicatorRef", "compositeWeight")
		if o == nil {
			continue
		}
		s := &sloDraft{SLO: &slo.SLO{Description: text}, at: p.doc.at.At(), groupsKnown: true}
		display := ""
		if n := o.Get("displayName"); n != nil {
			display, _ = n.Text()
		}
		part := p.name
		if len(objectives) > 1 {
			part = toName(display)
			if part == "" {
				part = strconv.Itoa(i + 1)
			}
			s.at = v.At()
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
		if w := o.Get("compositeWeight"); w != nil {
			x, ok := w.Number(0, 1e9)
			if ok && x <= 0 {
				w.Errorf("remove the objective if it should not count", "compositeWeight must be greater than 0")
			}
			if !composite {
				w.Errorf("remove it", "compositeWeight requires that the objectives have their own indicators")
			}
			weight = x
		}
		g.components = append(g.components, componentDraft{
			Component: sla.Component{Name: part, SLO: s.ID, Weight: weight}, slo: named{s.ID.Name(), v.At()}, ok: true,
		})
	}
	// Weights of OpenSLO need not add up to anything, which g.ok would check.
	if composite && len(objectives) > 1 && p.name != "" && p.doc.spec.Errors() == before {
		p.draft.slas = append(p.draft.slas, g)
	}
}

func (p *openSpec) readObjective(s *sloDraft, o *yamldoc.Object) {
	before := o.Errors()
	s.Labels = maps.Clone(p.doc.labels)
	s.Window = p.window
	s.objectiveAt = o.At()
	switch ratio, percent := o.Has("target"), o.Has("targetPercent"); {
	case ratio && percent:
		o.Errorf("keep one of them", "objective: target and targetPercent exclude each other")
	case percent:
		if v := o.Get("targetPercent"); v != nil {
			s.objectiveAt = v.At()
			s.Objective, _ = readObjective(v)
		}
	case ratio:
		if v := o.Get("target"); v != nil {
			s.objectiveAt = v.At()
			s.Objective, _ = readRatio(v)
		}
	case !o.Meant("target") && !o.Meant("targetPercent"):
		o.Errorf("set the target, such as `targetPercent: 99.9`", "objective: target is missing")
	}
	s.Budgeting.Method = p.method
	p.readSlices(s, o)
	in := p.indicator
	if o.Has("indicator") || o.Has("indicatorRef") {
		in = p.findIndicator(o)
	} else if in == nil && p.doc.spec.Peek("indicator") == nil && p.doc.spec.Peek("indicatorRef") == nil {
		o.Errorf("add an indicator", "objective: indicator is missing")
	}
	if in != nil && in.spec != nil {
		p.readIndicator(s, in, o)
	}
	s.Alerting = p.alerts.of(s, o)
	s.ok = o.Errors() == before
}

func (p *openSpec) readSlices(s *sloDraft, o *yamldoc.Object) {
	if p.method == slo.Occurrences {
		for _, key := range []string{"timeSliceTarget", "timeSliceWindow"} {
			if o.Has(key) {
				o.KeyErrorf(key, "remove it, or use `budgetingMethod: Timeslices`", "objective: %s does not apply to Occurrences", key)
			}
		}
		return
	}
	if v := o.Need("timeSliceWindow", "set the length of a slice, such as `timeSliceWindow: 1m`"); v != nil {
		var d time.Duration
		ok := true
		if n, err := strconv.Atoi(v.Raw()); err == nil && n > 0 && n <= int(maxSlice/time.Minute) {
			d = time.Duration(n) * time.Minute // a bare number is of minutes
		} else {
			d, ok = readShorthand(v, minSlice, maxSlice)
		}
		if ok && time.Hour%d != 0 && d%time.Minute != 0 {
			v.Errorf("use a divisor of an hour, or whole minutes", "timeSliceWindow: slices of %s do not tile an hour", slo.FormatDuration(d))
		}
		s.Budgeting.Slice = d
	}
	switch {
	case p.method == slo.Timeslices:
		if v := o.Need("timeSliceTarget", "set the good share that a slice needs, such as `timeSliceTarget: 0.95`"); v != nil {
			s.Budgeting.Target, _ = readRatio(v)
		}
	case o.Has("timeSliceTarget"):
		o.KeyErrorf("timeSliceTarget", "remove it, or use `budgetingMethod: Timeslices`", "objective: timeSliceTarget does not apply to RatioTimeslices")
	}
}

// ratio reads a share in (0,1) as an objective, exact to the decimal.
func readRatio(v *yamldoc.Value) (slo.Objective, bool) {
	s, ok := v.Text()
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
	hint := "write a ratio such as 0.999"
	if x, err := strconv.ParseFloat(s, 64); err == nil && x == 1 {
		hint = "1 leaves no error budget, 0.9999 allows one failure in 10,000"
	} else if _, err := slo.ParsePercent(s); err == nil && v.What == "target" {
		hint = fmt.Sprintf("did you mean targetPercent: %s?", s)
	}
	v.Errorf(hint, "%s: want a ratio above 0 and below 1, got %q", v.What, yamldoc.Clip(s))
	return slo.Objective{}, false
}

var openMethods = map[string]slo.BudgetMethod{"Occurrences": slo.Occurrences, "Timeslices": slo.Timeslices, "RatioTimeslices": slo.RatioTimeslices}

func readOpenMethod(o *yamldoc.Object) slo.BudgetMethod {
	if !o.Has("budgetingMethod") && !o.Meant("budgetingMethod") {
		o.Warnf("add `budgetingMethod: Occurrences`", "%s: budgetingMethod is missing, assuming Occurrences", o.What)
		return slo.Occurrences
	}
	v := o.Get("budgetingMethod")
	if v == nil {
		return slo.Occurrences
	}
	for name, m := range openMethods {
		if strings.EqualFold(v.Raw(), name) {
			if v.Raw() != name {
				v.Warnf("write "+name, "budgetingMethod: OpenSLO does not spell it %q", yamldoc.Clip(v.Raw()))
			}
			return m
		}
	}
	v.Choice("Occurrences", "Timeslices", "RatioTimeslices")
	return slo.Occurrences
}
