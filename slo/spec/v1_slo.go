package spec

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/suggest"
	"github.com/sloengine/sloengine/slo/yamldoc"
	"github.com/sloengine/sloengine/slo/yamlgen"
)

const maxMaxGroups = 100_000

func (d *draft) readSLO(v *yamldoc.Value) {
	call(v, "slo")
	o := v.Object("name", "was", "description", "labels", "objective", "window", "budgeting",
		"group_by", "max_groups", "expect", "indicator", "caused_by", "alerting", "cost")
	if o == nil {
		return
	}
	before := v.Errors()
	s := &sloDraft{SLO: &slo.SLO{}, at: v.At()}
	if n := o.Need("name", "give it a short name such as `name: availability`"); n != nil {
		if name, ok := readName(n); ok {
			s.ID, s.at = slo.NewID(d.service, name), n.At()
		}
	}
	if w := o.Get("was"); w != nil {
		if name, ok := readName(w); ok {
			s.was = &named{name, w.At()}
			s.Was = slo.NewID(d.service, name)
		}
	}
	if t := o.Get("description"); t != nil {
		s.Description, _ = t.Text()
	}
	s.Labels = maps.Clone(d.labels)
	if l := o.Get("labels"); l != nil {
		own, _ := readInfoLabels(l)
		if s.Labels == nil {
			s.Labels = own
		} else {
			maps.Copy(s.Labels, own)
		}
	}
	if b := o.Need("objective", "set the objective in percent, such as `objective: 99.9`"); b != nil {
		s.objectiveAt = b.At()
		s.Objective, _ = readObjective(b)
	}
	s.Window = slo.Window{Rolling: defaultWindow}
	if w := o.Get("window"); w != nil {
		if win, ok := readWindow(w); ok {
			s.Window = win
		}
	}
	s.readGroups(o)
	if i := o.Need("indicator", "add an indicator: "+suggest.OneOf(indicatorKinds)); i != nil {
		s.kindKnown = s.readIndicator(i, d.service)
	}
	s.Budgeting = slo.Budgeting{Method: slo.Occurrences}
	if b := o.Get("budgeting"); b != nil {
		s.readBudgeting(b)
	}
	if a := o.Get("alerting"); a != nil {
		s.alerting().read(a)
	}
	if c := o.Get("caused_by"); c != nil {
		s.readCauses(c, d.service)
	}
	if c := o.Get("cost"); c != nil {
		s.cost().read(c)
	}
	s.ok = v.Errors() == before
	d.slos = append(d.slos, s)
}

// windowKey is the key of a rolling or a calendar window.
func windowKey(w *slo.Window) *key {
	return at("window", custom{
		in: func(v *yamldoc.Value) {
			if win, ok := readWindow(v); ok {
				*w = win
			}
		},
		out: func(e *encoder) *yamlgen.Node {
			if w.Calendar == "" {
				return yamlgen.Plain(slo.FormatDuration(w.Rolling))
			}
			return calendarKeys(w).write(e).Line()
		},
		is: func() doc {
			return eitherShape(length{nil, minWindow, maxWindow}.shape(), calendarKeys(&slo.Window{}).shape())
		},
	}, "7d", "The rolling window, or a calendar window.").orShown("30d")
}

func calendarKeys(w *slo.Window) keys {
	return keys{
		at("calendar", word(&w.Calendar, calendarUnits), "month", "The unit after which the window starts again.").
			need("want " + suggest.OneOf(calendarUnits)),
		at("timezone", zone(&w.Location), "Europe/Berlin", "The time zone in which days begin.").need(needZone),
	}
}

// readWindow reads "30d" or {calendar: month, timezone: Europe/Moscow}.
func readWindow(v *yamldoc.Value) (w slo.Window, ok bool) {
	if v.IsMapping() {
		calendarKeys(&w).read(v)
		return w, w.Calendar != "" && w.Location != nil
	}
	if s, ok := v.Text(); !ok {
		return w, false
	} else if slices.Contains(calendarUnits, s) {
		v.Errorf(fmt.Sprintf("did you mean {calendar: %s, timezone: UTC}?", s), "%s: %q is not a duration", v.What, s)
		return w, false
	}
	w.Rolling, ok = readDuration(v, minWindow, maxWindow)
	return w, ok
}

var calendarUnits = []string{string(slo.Day), string(slo.Week), string(slo.Month), string(slo.Quarter), string(slo.Year)}

func (s *sloDraft) readGroups(o *yamldoc.Object) {
	indicator := o.Field("indicator")
	existing := indicator != nil && indicator.Peek(string(slo.KindPrometheus)) != nil
	s.GroupBy, s.MaxGroups, s.groupsKnown = readGrouping(o, existing, "expect")
	if e := o.Get("expect"); e != nil && s.groupsKnown {
		s.Expect = readGroups(e, s.GroupBy)
		if len(s.Expect) > s.MaxGroups {
			e.Errorf("raise max_groups", "expect names %d groups, more than max_groups (%d)", len(s.Expect), s.MaxGroups)
		}
	}
}

// readGrouping reads group_by and max_groups, of existing series or of events. Other keys that need group_by are refused without it. known is false if group_by
// could not be read.
func readGrouping(o *yamldoc.Object, existing bool, need ...string) (by []string, most int, known bool) {
	known = true
	if g := o.Get("group_by"); g != nil {
		by, known = readGroupLabels(g, existing, series.LabelService)
		if len(by) == 0 && known {
			g.Errorf("remove the key", "group_by is empty")
		}
		most = DefaultMaxGroups
	} else if o.Has("group_by") {
		known = false
	}
	for _, key := range append([]string{"max_groups"}, need...) {
		if !o.Has("group_by") && o.Has(key) {
			o.KeyErrorf(key, "add group_by, or remove it", "%s: %s requires group_by", o.What, key)
			return by, most, false
		}
	}
	if m := o.Get("max_groups"); m != nil {
		if n, ok := m.Whole(1, maxMaxGroups); ok {
			most = int(n)
		}
	}
	return by, most, known
}

// groups reads the groups that are expected: a list of values for one label, of
// lists or mappings for several.
func readGroups(v *yamldoc.Value, by []string) []slo.Group {
	items, _ := v.List()
	var out []slo.Group
	seen := map[string]bool{}
	for _, i := range items {
		g, ok := readGroup(i, by)
		if !ok {
			continue
		}
		if seen[g.Key()] {
			i.Errorf("remove it", "expect: the group is listed twice")
			continue
		}
		seen[g.Key()] = true
		out = append(out, g)
	}
	return out
}

func readGroup(v *yamldoc.Value, by []string) (slo.Group, bool) {
	var values []*yamldoc.Value
	switch {
	case v.IsMapping():
		o := v.Object(by...)
		for _, l := range by {
			if x := o.Need(l, "name a value for every label of group_by"); x != nil {
				values = append(values, x)
			}
		}
		if len(values) < len(by) {
			return nil, false
		}
	case v.IsList():
		values, _ = v.List()
	default:
		values = []*yamldoc.Value{v}
	}
	if len(values) != len(by) {
		v.Errorf("group_by is "+oneOfAnd(by), "expect: want one value for each label of group_by (%d), got %d", len(by), len(values))
		return nil, false
	}
	g := make(slo.Group, len(by))
	for i, x := range values {
		s, ok := x.Text()
		if !ok {
			return nil, false
		}
		if s == slo.OtherGroup {
			x.Errorf("remove it", "expect: %s is reserved for values beyond max_groups", s)
			return nil, false
		}
		g[i] = s
	}
	return g, true
}

func (s *sloDraft) readBudgeting(v *yamldoc.Value) {
	if !v.IsMapping() {
		m, ok := v.Text()
		switch {
		case !ok || m == string(slo.Occurrences):
		case m == string(slo.Timeslices):
			v.Errorf("write {timeslices: {slice: 1m, target: 95}}", "budgeting: timeslices requires a slice and a target")
		case m == string(slo.RatioTimeslices):
			v.Errorf("write {ratio_timeslices: {slice: 1m}}", "budgeting: ratio_timeslices requires a slice")
		default:
			v.Choice(string(slo.Occurrences), string(slo.Timeslices), string(slo.RatioTimeslices))
		}
		return
	}
	o := v.Object(string(slo.Timeslices), string(slo.RatioTimeslices))
	if o.Known() > 1 {
		v.Errorf("keep one of them", "budgeting: only one method is allowed")
		return
	}
	if t := o.Get(string(slo.Timeslices)); t != nil {
		s.Budgeting.Method = slo.Timeslices
		if t := t.Object("slice", "target"); t != nil {
			s.Budgeting.Slice = readSlice(t, "slice")
			if x := t.Need("target", "set the good percentage that a slice needs, such as `target: 95`"); x != nil {
				s.Budgeting.Target, _ = readObjective(x)
			}
		}
	} else if t := o.Get(string(slo.RatioTimeslices)); t != nil {
		s.Budgeting.Method = slo.RatioTimeslices
		if t := t.Object("slice"); t != nil {
			s.Budgeting.Slice = readSlice(t, "slice")
		}
	} else if len(o.Keys) == 0 {
		v.Errorf("want occurrences, timeslices or ratio_timeslices", "budgeting is empty")
	}
	if why, hint, found := strings.Cut(occurrencesOnly[s.Indicator.Kind], "|"); found {
		v.Errorf(hint, "budgeting: %s", why)
	}
	if s.Indicator.Kind == slo.KindCompletion && s.Budgeting.Method != slo.Occurrences {
		v.Errorf("remove it", "budgeting: completion counts work one by one, since a deadline passes when its slice is over")
	}
}

// slice reads the length of a slice of time, which must tile the clock's hours
// or be whole minutes.
func readSlice(o *yamldoc.Object, key string) time.Duration {
	v := o.Need(key, "set the length of a slice, such as `"+key+": 1m`")
	if v == nil {
		return 0
	}
	d, ok := readDuration(v, minSlice, maxSlice)
	if ok && time.Hour%d != 0 && d%time.Minute != 0 {
		v.Errorf("use a divisor of an hour such as 10s, 15s or 1m, or whole minutes", "%s: slices of %s do not tile an hour", key, slo.FormatDuration(d))
	}
	return d
}
