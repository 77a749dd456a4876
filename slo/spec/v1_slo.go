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
	"github.com/sloengine/sloengine/slo/yamldoc/shape"
	"github.com/sloengine/sloengine/slo/yamlgen"
)

const maxMaxGroups = 100_000

func newSLODraft(service string, labels map[string]string) *sloDraft {
	return &sloDraft{service: service, SLO: &slo.SLO{
		Labels: maps.Clone(labels), Window: slo.Window{Rolling: defaultWindow}, Budgeting: slo.Budgeting{Method: slo.Occurrences},
	}}
}

func (s *sloDraft) keys() keys {
	group := groupBy(&s.GroupBy, "Attributes. Each combination of their values is an SLO of its own.")
	group.value = noted{group.value, "one SLO for each value"}
	return keys{
		at("name", single[slo.ID]{&s.ID, s.readOwnID, slo.ID.Name, &nameDoc}, "checkout", "The name, unique in the service.").
			need("give it a short name such as `name: availability`"),
		at("was", single[slo.ID]{&s.Was, s.readOwnID, slo.ID.Name, &nameDoc}, "purchase",
			"The old name. The SLO keeps its counts over the rename."),
		at("description", prose(&s.Description), "Orders are accepted", "Text for people, shown on the page."),
		at("labels", ownLabels{s}, "{tier: gold}", "Further labels of `slo_info`.").or("those of the service"),
		at("objective", noted{percentage(&s.Objective), "percent"}, "99.9", "The share of good events, exact to the decimal.").
			need("set the objective in percent, such as `objective: 99.9`"),
		windowKey(&s.Window),
		at("budgeting", budgeting{&s.Budgeting}, "{timeslices: {slice: 1m, target: 95}}",
			"How the budget is used: by events, or by slices of time.").or(string(slo.Occurrences)),
		group,
		maxGroups(&s.MaxGroups),
		at("expect", custom{out: s.writeExpect, is: func() doc {
			return listShape(eitherShape(textDoc, listShape(textDoc), doc{Kind: shape.Map, Of: &textDoc}))
		}}, "[eu, us]", "Groups that exist before their first event: a value, a list or a mapping of values for each.").
			requires("group_by"),
		at("indicator", indicator{s}, `{latency: {threshold: 300ms}}`, "What is measured.").
			need("add an indicator: " + anyIndicator),
		at("caused_by", causes{s}, "[{slo: payments/availability}]",
			"The SLOs whose faults this one suffers from. While one of them pages, this one does not."),
		at("alerting", s.alerting(), "{min_events: 100}", "How alerts on the SLO differ from the usual ones.").or("the usual tiers"),
		at("cost", s.cost(), "{per_bad: 12.50, currency: EUR}", "What violations cost."),
	}
}

func (s *sloDraft) read(ks keys, o *yamldoc.Object) {
	before := o.Errors()
	s.readGroups(o) // which the other keys are about
	ks.readFrom(o)
	s.at, s.objectiveAt = placeOf(o, "name"), placeOf(o, "objective")
	if s.Was != "" {
		s.was = &named{s.Was.Name(), placeOf(o, "was")}
	}
	if b := o.Get("budgeting"); b != nil && b.IsMapping() {
		if why, hint, found := strings.Cut(occurrencesOnly[s.Indicator.Kind], "|"); found {
			b.Errorf(hint, "budgeting: %s", why)
		}
		if s.Indicator.Kind == slo.KindCompletion && s.Budgeting.Method != slo.Occurrences {
			b.Errorf("remove it", "budgeting: completion counts work one by one, since a deadline passes when its slice is over")
		}
	}
	s.ok = o.Errors() == before
}

func (s *sloDraft) readOwnID(v *yamldoc.Value) (slo.ID, bool) {
	name, ok := readName(v)
	if !ok {
		return "", false
	}
	return slo.NewID(s.service, name), true
}

// ownLabels are the labels of an SLO besides those of its service.
type ownLabels struct{ *sloDraft }

func (l ownLabels) read(v *yamldoc.Value) {
	own, _ := readInfoLabels(v)
	l.Labels = merged(l.Labels, own)
}

func (l ownLabels) write(e *encoder) *yamlgen.Node {
	own := map[string]string{}
	for k, v := range l.Labels {
		if of, ok := e.service.Labels[k]; !ok || of != v {
			own[k] = v
		}
	}
	return labelsNode(own)
}

func (ownLabels) shape() shape.Shape { return labelsDoc }

// windowKey is the key of a rolling or a calendar window.
func windowKey(w *slo.Window) key {
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

func (s *sloDraft) writeExpect(*encoder) *yamlgen.Node {
	var all []*yamlgen.Node
	for _, g := range s.Expect {
		if len(g) == 1 {
			all = append(all, yamlgen.Text(g[0]))
		} else {
			all = append(all, yamlgen.Texts(g))
		}
	}
	if len(all) == 0 {
		return nil
	}
	return yamlgen.Line(yamlgen.List(all...))
}

// budgeting is how the budget is used.
type budgeting struct{ *slo.Budgeting }

func (b budgeting) method(m slo.BudgetMethod, keys func() keys) value {
	in := inside{keys: keys}
	return custom{
		in: func(v *yamldoc.Value) {
			b.Method = m
			in.read(v)
		},
		out: func(e *encoder) *yamlgen.Node {
			if b.Method != m {
				return nil
			}
			return in.write(e)
		},
		is: in.shape,
	}
}

func (b budgeting) slices() inside {
	slice := sliceKey("slice", &b.Slice)
	return inside{one: true, keys: func() keys {
		return keys{
			at(string(slo.Timeslices), b.method(slo.Timeslices, func() keys {
				return keys{slice, at("target", percentage(&b.Target), "95", "The share of good events that a slice needs.").
					need("set the good percentage that a slice needs, such as `target: 95`")}
			}), "{slice: 1m, target: 95}", "The share of slices that meet the target."),
			at(string(slo.RatioTimeslices), b.method(slo.RatioTimeslices, func() keys { return keys{slice} }),
				"{slice: 1m}", "The mean of the slices' ratios."),
		}
	}, first: func(o *yamldoc.Object) bool {
		switch {
		case o.Known() > 1:
			o.Errorf("keep one of them", "budgeting: only one method is allowed")
		case len(o.Keys) == 0:
			o.Errorf("want occurrences, timeslices or ratio_timeslices", "budgeting is empty")
		}
		return o.Known() == 1
	}}
}

func (b budgeting) read(v *yamldoc.Value) {
	if v.IsMapping() {
		b.slices().read(v)
		return
	}
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
}

func (b budgeting) write(e *encoder) *yamlgen.Node { return b.slices().write(e) }

func (b budgeting) shape() shape.Shape {
	return eitherShape(wordsShape(string(slo.Occurrences)), b.slices().shape())
}

// sliceKey is the key of the length of a slice of time, which must tile the clock's hours or be whole minutes.
func sliceKey(name string, to *time.Duration) key {
	return at(name, slice{length{to, minSlice, maxSlice}}, "1m", "The length of a slice, which divides an hour or is whole minutes.").
		need("set the length of a slice, such as `" + name + ": 1m`")
}

type slice struct{ length }

func (s slice) read(v *yamldoc.Value) {
	s.length.read(v)
	if d := *s.to; d > 0 && time.Hour%d != 0 && d%time.Minute != 0 {
		v.Errorf("use a divisor of an hour such as 10s, 15s or 1m, or whole minutes", "%s: slices of %s do not tile an hour",
			v.What, slo.FormatDuration(d))
	}
}
