package spec

import (
	"fmt"
	"maps"
	"regexp"
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

	threshold     *yamldoc.Value // the metric of the whole SLO in OpenSLOAlpha
	thresholdUsed bool

	unsupported bool // the last metric is of another system than Prometheus
}

func (s *openSLO) readSLO(d *openObject, services []string) *draft {
	keys := []string{"description", "service", "indicator", "indicatorRef", "timeWindow", "budgetingMethod", "objectives",
		"alertPolicies"}
	if d.alpha {
		keys = []string{"description", "service", "indicator", "timeWindows", "budgetingMethod", "objectives"}
	}
	if d.nobl9 {
		keys = append(keys, nobl9Ignored...)
	}
	o := d.spec.Object(keys...)
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
	text, _ := o.Get("description").Text()
	p.window = readOpenWindow(o, d.alpha)
	p.method = readOpenMethod(o)
	var objectives []*yamldoc.Value
	if v := o.Need("objectives", "add an objective, such as `objectives: [{targetPercent: 99.9}]`"); v != nil {
		objectives, _ = v.List()
		if v.IsList() && len(objectives) == 0 {
			v.Errorf("add an objective, such as `objectives: [{targetPercent: 99.9}]`", "objectives is empty")
		}
	}
	if d.alpha {
		p.readAlpha(o, objectives, describe(d.display, text))
		return p.draft
	}
	composite := false
	for _, i := range objectives {
		composite = composite || i.Peek("indicator") != nil || i.Peek("indicatorRef") != nil
	}
	switch own := o.Has("indicator") || o.Has("indicatorRef"); {
	case own && composite:
		d.spec.Errorf("for a composite, keep those of the objectives",
			"%s: indicators of the SLO and of its objectives exclude each other", d.spec.What)
		return p.draft
	case !own && !composite && !o.Meant("indicator") && !o.Meant("indicatorRef"):
		d.spec.Errorf("set one of them", "%s: indicator or indicatorRef is missing", d.spec.What)
	case own:
		p.indicator = p.findIndicator(o)
	}
	if v := o.Get("alertPolicies"); v != nil {
		p.alerts = p.readPolicies(v)
		if v.IsList() && v.Len() == 0 && !(composite && len(objectives) > 1) { // which cannot have any
			o.KeyWarnf("alertPolicies", "add a policy", "SLO %s has an empty list of alertPolicies, so there are no alerts",
				yamldoc.Printable(yamldoc.Clip(d.name)))
		}
	} else if !o.Has("alertPolicies") {
		d.at.Warnf("add alertPolicies", "SLO %s has no alertPolicies, so there are no alerts",
			yamldoc.Printable(yamldoc.Clip(d.name)))
	}
	if composite && len(objectives) > 1 && o.Has("alertPolicies") && p.alerts.any() {
		o.KeyErrorf("alertPolicies", "write the objectives as SLOs with policies of their own",
			"a composite cannot have alertPolicies, because burn rates belong to single SLOs")
	}
	p.readObjectives(objectives, composite, describe(d.display, text))
	return p.draft
}

var openObjective = []string{"displayName", "op", "value", "target", "targetPercent", "timeSliceTarget",
	"timeSliceWindow", "indicator", "indicatorRef", "compositeWeight"}

// readObjectives makes an SLO of each objective, and a composite of them if each
// has an indicator of its own.
func (p *openSpec) readObjectives(objectives []*yamldoc.Value, composite bool, text string) {
	before := p.doc.spec.Errors()
	g := &slaDraft{Agreement: &sla.Agreement{
		Service: p.draft.service, Name: p.name, Description: text, Window: p.window, Method: sla.Attainment,
		NoData: sla.NoDataExclude,
	}, at: p.doc.at.At(), weightsAt: p.doc.at.At()}
	for i, v := range objectives {
		v.What = "objective"
		keys := openObjective
		if p.doc.alpha {
			keys = alphaObjective
		}
		if p.doc.nobl9 {
			keys = nobl9Objective
		}
		o := v.Object(keys...)
		if o == nil {
			continue
		}
		s := &sloDraft{SLO: &slo.SLO{Description: text}, at: p.doc.at.At(), groupsKnown: true}
		display, _ := o.Get("displayName").Text()
		part := p.name
		if len(objectives) > 1 {
			part = ToName(display)
			if n := o.Get("name"); n != nil { // of Nobl9
				part = ToName(n.Raw())
			}
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
		s.objectiveAt = placeOf(o, "targetPercent")
		s.Objective, _ = readObjective(o.Get("targetPercent"))
	case ratio:
		s.objectiveAt = placeOf(o, "target")
		s.Objective, _ = readRatio(o.Get("target"))
	case !o.Meant("target") && !o.Meant("targetPercent"):
		o.Errorf("set the target, such as `targetPercent: 99.9`", "objective: target is missing")
	}
	s.Budgeting.Method = p.method
	p.readSlices(s, o)
	if p.doc.alpha {
		p.readAlphaIndicator(s, o)
		s.Alerting = p.alerts.of(s, o)
		s.ok = o.Errors() == before
		return
	}
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
				o.KeyErrorf(key, "remove it, or use `budgetingMethod: Timeslices`",
					"objective: %s does not apply to Occurrences", key)
			}
		}
		return
	}
	if p.doc.alpha && !o.Has("timeSliceWindow") {
		if !p.doc.nobl9 { // whose slices are minutes
			o.Warnf("add `timeSliceWindow: 1m`", "objective: timeSliceWindow is missing, assuming 1m")
		}
		s.Budgeting.Slice = time.Minute
	} else if v := o.Need("timeSliceWindow", "set the length of a slice, such as `timeSliceWindow: 1m`"); v != nil {
		var d time.Duration
		ok := true
		if n, err := strconv.Atoi(v.Raw()); err == nil && n > 0 && n <= int(maxSlice/time.Minute) {
			d = time.Duration(n) * time.Minute // a bare number is of minutes
		} else {
			d, ok = readShorthand(v, minSlice, maxSlice)
		}
		if ok && time.Hour%d != 0 && d%time.Minute != 0 {
			v.Errorf("use a divisor of an hour, or whole minutes", "timeSliceWindow: slices of %s do not tile an hour",
				slo.FormatDuration(d))
		}
		s.Budgeting.Slice = d
	}
	switch {
	case p.method == slo.Timeslices:
		s.Budgeting.Target, _ = readRatio(o.Need("timeSliceTarget",
			"set the good share that a slice needs, such as `timeSliceTarget: 0.95`"))
	case o.Has("timeSliceTarget"):
		o.KeyErrorf("timeSliceTarget", "remove it, or use `budgetingMethod: Timeslices`",
			"objective: timeSliceTarget does not apply to RatioTimeslices")
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
	} else if o, err := slo.ParsePercent(s); err == nil {
		hint = fmt.Sprintf("did you mean %s?", strconv.FormatFloat(o.Ratio(), 'g', 12, 64))
	}
	v.Errorf(hint, "%s: want a ratio above 0 and below 1, got %q", v.What, yamldoc.Clip(s))
	return slo.Objective{}, false
}

var openMethods = map[string]slo.BudgetMethod{"Occurrences": slo.Occurrences, "Timeslices": slo.Timeslices,
	"RatioTimeslices": slo.RatioTimeslices}

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

var shorthandPattern = regexp.MustCompile(`^([0-9]{1,5})([mhdwMQY])$`)

// longUnits are those whose length the calendar decides.
var longUnits = map[string]slo.CalendarUnit{"M": slo.Month, "Q": slo.Quarter, "Y": slo.Year}

// readShorthand reads OpenSLO's durations: 12h, 4w, and 1M, 1Q and 1Y by the nominal
// length of such a window. It also reads the durations of this program's own format.
func readShorthand(v *yamldoc.Value, lo, hi time.Duration) (time.Duration, bool) {
	m := shorthandPattern.FindStringSubmatch(v.Raw())
	if m == nil {
		return readDuration(v, lo, hi)
	}
	unit, ok := longUnits[m[2]]
	if !ok {
		return readDuration(v, lo, hi)
	}
	n, _ := strconv.Atoi(m[1])
	return nominal(v, v.Raw(), n, unit, lo, hi)
}

// nominal is the length of n units of the calendar, written as text.
func nominal(v *yamldoc.Value, text string, n int, unit slo.CalendarUnit, lo, hi time.Duration) (time.Duration, bool) {
	d, ok := times(v, text, n, slo.Window{Calendar: unit}.Nominal(), lo, hi)
	if ok {
		v.Warnf("write "+slo.FormatDuration(d), "%s: %s is converted to %s", v.What, text, slo.FormatDuration(d))
	}
	return d, ok
}

// times is the length of n units, written as text. Their product may be more than a Duration holds.
func times(v *yamldoc.Value, text string, n int, unit, lo, hi time.Duration) (time.Duration, bool) {
	if d := time.Duration(n) * unit; n <= int(hi/unit) && d >= lo {
		return d, true
	}
	v.Errorf("", "%s: want %s to %s, got %s", v.What, slo.FormatDuration(lo), slo.FormatDuration(hi), text)
	return 0, false
}

// readOpenWindow reads the one window of timeWindow, whose length alpha writes as unit and count.
func readOpenWindow(o *yamldoc.Object, alpha bool) slo.Window {
	key, example, known := "timeWindow", "{duration: 30d, isRolling: true}", []string{"duration", "isRolling", "calendar"}
	if alpha {
		key, example, known = "timeWindows", "{unit: Day, count: 30, isRolling: true}",
			[]string{"unit", "count", "isRolling", "calendar"}
	}
	usual := slo.Window{Rolling: defaultWindow}
	if !o.Has(key) && !o.Meant(key) {
		o.Warnf("add `"+key+": ["+example+"]`", "%s: %s is missing, assuming 30d", o.What, key)
		return usual
	}
	v := o.Get(key)
	items, ok := v.List()
	if !ok {
		return usual
	}
	if len(items) != 1 {
		v.Errorf("write an SLO for each", "%s: want exactly one, got %d", key, len(items))
		return usual
	}
	w := items[0].Object(known...)
	if w == nil {
		return usual
	}
	var d *yamldoc.Value
	var count int
	ok = true
	if alpha {
		d, count, ok = readCount(w)
	} else {
		d = w.Need("duration", "set its length, such as `duration: 30d`")
	}
	if d == nil || !ok {
		return usual
	}
	rolling := !w.Has("calendar")
	if r := w.Get("isRolling"); r != nil {
		rolling = r.Bool()
		switch {
		case rolling && w.Has("calendar"):
			r.Errorf("remove calendar, or write `isRolling: false`", "timeWindow: a rolling window has no calendar")
			return usual
		case !rolling && !w.Has("calendar"):
			r.Errorf("add `calendar: {startTime: ..., timeZone: ...}`",
				"timeWindow: a window that is not rolling requires a calendar")
			return usual
		}
	}
	if rolling {
		var length time.Duration
		if alpha {
			length, ok = alphaLength(d, count)
		} else {
			length, ok = readShorthand(d, minWindow, maxWindow)
		}
		if ok {
			return slo.Window{Rolling: length}
		}
		return usual
	}
	var text string
	if alpha {
		text = strconv.Itoa(count) + alphaUnits[d.Raw()]
	} else {
		text, _ = d.Text()
	}
	if c := w.Get("calendar"); c != nil && text != "" {
		if win, ok := readOpenCalendar(c, d, text); ok {
			return win
		}
	}
	return usual
}

// readOpenCalendar reads a window that begins at startTime and again after each
// duration. Days, weeks, months, quarters and years begin where those of the
// calendar do.
func readOpenCalendar(v, duration *yamldoc.Value, length string) (slo.Window, bool) {
	o := v.Object("startTime", "timeZone")
	loc, ok := o.Need("timeZone", "set the time zone in which days begin, such as `timeZone: UTC`").Zone()
	start := o.Need("startTime", "set the start of a window, such as `startTime: 2026-01-01 00:00:00`")
	if !ok {
		return slo.Window{}, false
	}
	text, ok := start.Text()
	if !ok {
		return slo.Window{}, false
	}
	var t time.Time
	var err error
	for _, layout := range []string{time.DateTime, "2006-01-02T15:04:05", time.RFC3339, time.DateOnly} {
		if t, err = time.Parse(layout, strings.ToUpper(text)); err == nil {
			break
		}
	}
	if err != nil {
		start.Errorf("write it as in 2026-01-01 00:00:00", "startTime: %q is not a time", yamldoc.Clip(text))
		return slo.Window{}, false
	}
	unit, ok := readCalendarUnit(duration, length)
	if !ok {
		return slo.Window{}, false
	}
	begins := true
	switch unit {
	case slo.Week:
		begins = t.Weekday() == time.Monday
	case slo.Month:
		begins = t.Day() == 1
	case slo.Quarter:
		begins = t.Day() == 1 && t.Month()%3 == 1
	case slo.Year:
		begins = t.YearDay() == 1
	}
	if !begins || t.Format(time.TimeOnly) != "00:00:00" {
		start.Warnf("write a start at midnight of the first day of a "+string(unit),
			"startTime: the window begins where a %s of the calendar does, not at %s", unit, t.Format(time.DateTime))
	}
	return slo.Window{Calendar: unit, Location: loc}, true
}

// readCalendarUnit reads a length that is a unit of the calendar, as v says.
func readCalendarUnit(v *yamldoc.Value, length string) (slo.CalendarUnit, bool) {
	switch length {
	case "1d":
		return slo.Day, true
	case "1w", "7d":
		return slo.Week, true
	case "1M":
		return slo.Month, true
	case "1Q", "3M":
		return slo.Quarter, true
	case "1Y", "12M":
		return slo.Year, true
	}
	v.Errorf("use 1d, 1w, 1M, 1Q or 1Y, or a rolling window", "%s: %s is not a calendar window", v.What,
		yamldoc.Printable(yamldoc.Clip(length)))
	return "", false
}
