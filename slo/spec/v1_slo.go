package spec

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/sloengine/sloengine/slo"
)

const maxMaxGroups = 100_000

func (d *draft) readSLO(v *value) {
	v.call("slo")
	o := v.object("name", "was", "description", "labels", "objective", "window", "budgeting",
		"group_by", "max_groups", "expect", "indicator", "alerting")
	if o == nil {
		return
	}
	before := v.r.errors
	s := &sloDraft{SLO: &slo.SLO{}, at: v.at()}
	if n := o.need("name", "give it a short name such as `name: availability`"); n != nil {
		if name, ok := n.name(); ok {
			s.ID, s.at = slo.NewID(d.service, name), n.at()
		}
	}
	if w := o.get("was"); w != nil {
		if name, ok := w.name(); ok {
			s.was = &named{name, w.at()}
			s.Was = slo.NewID(d.service, name)
		}
	}
	if t := o.get("description"); t != nil {
		s.Description, _ = t.text()
	}
	s.Labels = maps.Clone(d.labels)
	if l := o.get("labels"); l != nil {
		own, _ := l.infoLabels()
		if s.Labels == nil {
			s.Labels = own
		} else {
			maps.Copy(s.Labels, own)
		}
	}
	if b := o.need("objective", "say how much must be good, in percent, such as `objective: 99.9`"); b != nil {
		s.objectiveAt = b.at()
		s.Objective, _ = b.objective()
	}
	s.Window = slo.Window{Rolling: defaultWindow}
	if w := o.get("window"); w != nil {
		if win, ok := w.window(); ok {
			s.Window = win
		}
	}
	s.readGroups(o)
	if i := o.need("indicator", "say what is measured: events, latency, throughput or prometheus"); i != nil {
		s.kindKnown = s.readIndicator(i, d.service)
	}
	s.Budgeting = slo.Budgeting{Method: slo.Occurrences}
	if b := o.get("budgeting"); b != nil {
		s.readBudgeting(b)
	}
	if a := o.get("alerting"); a != nil {
		s.Alerting = a.alerting()
	}
	s.ok = v.r.errors == before
	d.slos = append(d.slos, s)
}

// window reads "30d" or {calendar: month, timezone: Europe/Moscow}.
func (v *value) window() (slo.Window, bool) {
	if !v.isObject() {
		if s, ok := v.text(); !ok {
			return slo.Window{}, false
		} else if slices.Contains(calendarUnits, s) {
			v.errorf(fmt.Sprintf("did you mean {calendar: %s, timezone: UTC}?", s), "%s: %q is not a duration", v.what, s)
			return slo.Window{}, false
		}
		d, ok := v.duration(minWindow, maxWindow)
		return slo.Window{Rolling: d}, ok
	}
	o := v.object("calendar", "timezone")
	unit, loc, known, placed := "", time.UTC, false, false
	if c := o.need("calendar", "want "+oneOf(calendarUnits)); c != nil {
		unit, known = c.choice(calendarUnits...)
	}
	if z := o.need("timezone", "add `timezone: UTC`, or the zone whose midnight is meant"); z != nil {
		loc, placed = z.zone()
	}
	return slo.Window{Calendar: slo.CalendarUnit(unit), Location: loc}, known && placed
}

var calendarUnits = []string{string(slo.Day), string(slo.Week), string(slo.Month), string(slo.Quarter), string(slo.Year)}

func (s *sloDraft) readGroups(o *object) {
	s.groupsKnown = true
	if g := o.get("group_by"); g != nil {
		s.GroupBy, s.groupsKnown = g.labelList("service")
		if len(s.GroupBy) == 0 && s.groupsKnown {
			g.errorf("remove the key", "group_by is empty")
		}
		s.MaxGroups = DefaultMaxGroups
	} else if o.has("group_by") {
		s.groupsKnown = false
	}
	for _, key := range []string{"max_groups", "expect"} {
		if !o.has("group_by") && o.has(key) {
			o.r.errorf(o.keyAt(key), "add group_by, or remove it", "%s: %s means nothing without group_by", o.what, key)
			return
		}
	}
	if m := o.get("max_groups"); m != nil {
		if n, ok := m.whole(1, maxMaxGroups); ok {
			s.MaxGroups = int(n)
		}
	}
	if e := o.get("expect"); e != nil && s.groupsKnown {
		s.Expect = e.groups(s.GroupBy)
		if len(s.Expect) > s.MaxGroups {
			e.errorf("raise max_groups", "expect names %d groups, more than max_groups (%d)", len(s.Expect), s.MaxGroups)
		}
	}
}

// groups reads the groups that are expected: a list of values for one label, of
// lists or mappings for several.
func (v *value) groups(by []string) []slo.Group {
	items, _ := v.list()
	var out []slo.Group
	seen := map[string]bool{}
	for _, i := range items {
		g, ok := i.group(by)
		if !ok {
			continue
		}
		if seen[g.Key()] {
			i.errorf("remove it", "expect: the group is listed twice")
			continue
		}
		seen[g.Key()] = true
		out = append(out, g)
	}
	return out
}

func (v *value) group(by []string) (slo.Group, bool) {
	var values []*value
	switch {
	case v.isObject():
		o := v.object(by...)
		for _, l := range by {
			if x := o.need(l, "name a value for every label of group_by"); x != nil {
				values = append(values, x)
			}
		}
		if len(values) < len(by) {
			return nil, false
		}
	case v.isList():
		values, _ = v.list()
	default:
		values = []*value{v}
	}
	if len(values) != len(by) {
		v.errorf("group_by is "+oneOfAnd(by), "expect: want one value for each label of group_by (%d), got %d", len(by), len(values))
		return nil, false
	}
	g := make(slo.Group, len(by))
	for i, x := range values {
		s, ok := x.text()
		if !ok {
			return nil, false
		}
		if s == slo.OtherGroup {
			x.errorf("remove it", "expect: %s is the group of all others", s)
			return nil, false
		}
		g[i] = s
	}
	return g, true
}

func (s *sloDraft) readBudgeting(v *value) {
	if !v.isObject() {
		m, ok := v.text()
		switch {
		case !ok || m == string(slo.Occurrences):
		case m == string(slo.Timeslices):
			v.errorf("write {timeslices: {slice: 1m, target: 95}}", "budgeting: timeslices needs a slice and a target")
		case m == string(slo.RatioTimeslices):
			v.errorf("write {ratio_timeslices: {slice: 1m}}", "budgeting: ratio_timeslices needs a slice")
		default:
			v.choice(string(slo.Occurrences), string(slo.Timeslices), string(slo.RatioTimeslices))
		}
		return
	}
	o := v.object(string(slo.Timeslices), string(slo.RatioTimeslices))
	if o.known() > 1 {
		v.errorf("keep one of them", "budgeting: there can be only one method")
		return
	}
	if t := o.get(string(slo.Timeslices)); t != nil {
		s.Budgeting.Method = slo.Timeslices
		if t := t.object("slice", "target"); t != nil {
			s.Budgeting.Slice = t.slice("slice")
			if x := t.need("target", "say how much of a slice must be good, in percent, such as `target: 95`"); x != nil {
				s.Budgeting.Target, _ = x.objective()
			}
		}
	} else if t := o.get(string(slo.RatioTimeslices)); t != nil {
		s.Budgeting.Method = slo.RatioTimeslices
		if t := t.object("slice"); t != nil {
			s.Budgeting.Slice = t.slice("slice")
		}
	} else if len(o.keys) == 0 {
		v.errorf("want occurrences, timeslices or ratio_timeslices", "budgeting is empty")
	}
	if s.Indicator.Kind == slo.KindThroughput {
		v.errorf("remove it: `per` is the slice", "budgeting: throughput judges slices already")
	}
}

// slice reads the length of a slice of time, which must tile the clock's hours
// or be whole minutes.
func (o *object) slice(key string) time.Duration {
	v := o.need(key, "say how long a slice is, such as `"+key+": 1m`")
	if v == nil {
		return 0
	}
	d, ok := v.duration(minSlice, maxSlice)
	if ok && time.Hour%d != 0 && d%time.Minute != 0 {
		v.errorf("take a part of an hour such as 10s, 15s or 1m, or whole minutes", "%s: slices of %s do not tile an hour", key, slo.FormatDuration(d))
	}
	return d
}
