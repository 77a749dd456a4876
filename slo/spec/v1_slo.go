package spec

import (
	"fmt"
	"maps"
	"regexp"
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

func newSLODraft(service string, labels, links map[string]string) *sloDraft {
	return &sloDraft{service: service, SLO: &slo.SLO{
		Labels: maps.Clone(labels), Links: maps.Clone(links), Window: slo.Window{Rolling: defaultWindow},
		Budgeting: slo.Budgeting{Method: slo.Occurrences},
	}}
}

func (s *sloDraft) keys() keys {
	return keys{
		at("name", ownID{s, &s.ID}).need("give it a short name such as `name: availability`"),
		at("was", ownID{s, &s.Was}),
		at("description", prose{&s.Description}),
		at("labels", s.ownLabels()),
		at("links", s.ownLinks()),
		at("objective", noted{percentage{&s.Objective}, "percent"}).need(
			"set the objective in percent, such as `objective: 99.9`"),
		at("window", window{&s.Window}).orShown("30d"),
		at("budgeting", budgeting{&s.Budgeting}).or(string(slo.Occurrences)),
		at("group_by", noted{groupNames{to: &s.GroupBy}, "one SLO for each value"}),
		maxGroups(&s.MaxGroups),
		at("expect", expected{sloDraft: s}),
		at("indicator", indicator{s}).need(needIndicator),
		at("caused_by", causes{s}),
		at("alerting", alerting{s}),
		at("cost", cost{s}),
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

// ownID is the ID of an SLO of the service, of which the name is written.
type ownID struct {
	*sloDraft
	to *slo.ID
}

func (i ownID) read(v *yamldoc.Value) {
	if name, ok := readName(v); ok {
		*i.to = slo.NewID(i.service, name)
	}
}

func (i ownID) write(*encoder) *yamlgen.Node { return textNode(i.to.Name()) }
func (ownID) shape() shape.Shape             { return nameDoc }

// window is a rolling or a calendar window.
type window struct{ *slo.Window }

func (w window) read(v *yamldoc.Value) {
	if x, ok := readWindow(v); ok {
		*w.Window = x
	}
}

func (w window) write(e *encoder) *yamlgen.Node {
	if w.Calendar == "" {
		return yamlgen.Plain(slo.FormatDuration(w.Rolling))
	}
	return calendarKeys(w.Window).write(e).Line()
}

func (window) shape() shape.Shape {
	return eitherShape(length{nil, minWindow, maxWindow}.shape(), calendarKeys(&slo.Window{}).shape())
}

func calendarKeys(w *slo.Window) keys {
	return keys{
		at("calendar", word[slo.CalendarUnit]{&w.Calendar, calendarUnits}).need("want " + suggest.OneOf(calendarUnits)),
		at("timezone", zone(&w.Location)).need(needZone),
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

var calendarUnits = []string{string(slo.Day), string(slo.Week), string(slo.Month),
	string(slo.Quarter), string(slo.Year)}

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

// readGrouping reads group_by and max_groups, of existing series or of events. Other keys that need group_by are
// refused without it. known is false if group_by could not be read.
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
	if n, ok := o.Get("max_groups").Whole(1, maxMaxGroups); ok {
		most = int(n)
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
		v.Errorf("group_by is "+oneOfAnd(by), "expect: want one value for each label of group_by (%d), got %d",
			len(by), len(values))
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

// expected are groups that there are before their first event.
type expected struct {
	*sloDraft
	unread
}

func (s expected) read(v *yamldoc.Value) { s.unread.read(v) }

func (s expected) write(*encoder) *yamlgen.Node {
	return lineOf(s.Expect, func(g *slo.Group) *yamlgen.Node {
		if len(*g) == 1 {
			return yamlgen.Text((*g)[0])
		}
		return yamlgen.Texts(*g)
	})
}

func (expected) shape() shape.Shape {
	return listShape(eitherShape(textDoc, listShape(textDoc), doc{Kind: shape.Map, Of: &textDoc}))
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
				return keys{slice, at(
					"target", percentage{&b.Target}).need("set the good percentage that a slice needs, such as `target: 95`")}
			})),
			at(string(slo.RatioTimeslices), b.method(slo.RatioTimeslices, func() keys { return keys{slice} })),
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
	return at(name, slice{length{to, minSlice, maxSlice}}).
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

var currencyPattern = regexp.MustCompile(`^[A-Z]{3}$`)

func costKeys(c *slo.Cost) keys {
	price := func(unit slo.CostUnit) value {
		return custom{
			in: func(v *yamldoc.Value) {
				c.Unit = unit
				c.Price, _ = readAmount(v)
			},
			out: func(*encoder) *yamlgen.Node {
				if c.Unit != unit {
					return nil
				}
				return yamlgen.Plain(c.Price.String())
			},
			is: func() doc { return amountDoc },
		}
	}
	return keys{
		at(string(slo.PerBad), price(slo.PerBad)),
		at(string(slo.PerMinute), price(slo.PerMinute)),
		at("currency", textual(&c.Currency, readCurrency, &currencyDoc)).need("add the currency, such as `currency: EUR`"),
		at("baseline", payment(&c.Baseline)),
		at("investment", payment(&c.Investment)),
	}
}

// cost is what violations of the SLO cost. Its indicator and its budgeting have been read.
type cost struct{ *sloDraft }

func (c cost) read(v *yamldoc.Value) {
	c.Cost = &slo.Cost{}
	inside{keys: func() keys { return costKeys(c.Cost) }, first: hasPrice, then: c.checkCost}.read(v)
}

func (c cost) write(e *encoder) *yamlgen.Node {
	if c.Cost == nil {
		return nil
	}
	return costKeys(c.Cost).write(e).Line()
}

func (cost) shape() shape.Shape { return costKeys(&slo.Cost{}).shape() }

// hasPrice reports whether there is one price.
func hasPrice(o *yamldoc.Object) bool {
	switch perBad, perMinute := o.Has(string(slo.PerBad)), o.Has(string(slo.PerMinute)); {
	case perBad && perMinute:
		o.KeyErrorf(string(slo.PerMinute), "keep one of them", "cost: only one of per_bad and per_minute is allowed")
		return false
	case !perBad && !perMinute:
		if !o.Misspelt() {
			o.Errorf("write {per_bad: 12.50, currency: EUR}", "cost: neither per_bad nor per_minute is set")
		}
		return false
	}
	return true
}

func (s *sloDraft) checkCost(o *yamldoc.Object) {
	if x := o.Get("investment"); x != nil && !o.Has("baseline") {
		x.Errorf("add `baseline: {amount: 12000, per: 30d}`, what violations cost before", "investment requires baseline")
	}
	if unit := slo.PerBad; s.kindKnown {
		if o.Has(string(slo.PerMinute)) {
			unit = slo.PerMinute
		}
		s.costFits(o.Value, unit)
	}
}

// withoutCost says why some kinds of indicator have no cost: a price is for something that happened, or for a time.
var withoutCost = map[slo.IndicatorKind]string{
	slo.KindRatio:  "a ratio has no bad events, only what its numerator is short of",
	slo.KindApdex:  "an apdex counts half events, which have no price",
	slo.KindVolume: "a volume counts days, weeks or months, and a price is for an event or a minute",
}

// costFits refuses a unit that the SLO does not count.
func (s *sloDraft) costFits(v *yamldoc.Value, unit slo.CostUnit) {
	switch {
	case s.HasCostUnit(unit):
	case s.HasCostUnit(slo.PerBad):
		v.Errorf("write per_bad, or judge slices with `budgeting: {timeslices: ..}`",
			"cost: per_minute requires slices of time, and this slo counts events")
	case s.HasCostUnit(slo.PerMinute):
		v.Errorf("write per_minute, or remove the budgeting",
			"cost: per_bad requires events, and this slo counts slices of time")
	case withoutCost[s.Indicator.Kind] != "":
		v.Errorf("remove it, or give the cost to an slo that counts the events that cost money", "cost: %s",
			withoutCost[s.Indicator.Kind])
	default:
		v.Errorf("remove it, or give the cost to an slo that counts events or timeslices",
			"cost: this slo counts neither bad events nor bad slices")
	}
}

// readAmount reads an amount of money as the decimal that is written.
func readAmount(v *yamldoc.Value) (slo.Amount, bool) {
	s, ok := v.Text()
	if !ok {
		return slo.Amount{}, false
	}
	a, err := slo.ParseAmount(s)
	if err != nil {
		v.Errorf("write a decimal such as 12.50",
			"%s: want an amount above 0 with at most 12 digits before the point and 6 after it, got %q", v.What, yamldoc.Clip(s))
		return slo.Amount{}, false
	}
	return a, true
}

func readCurrency(v *yamldoc.Value) (string, bool) {
	code, ok := v.Text()
	if ok && !currencyPattern.MatchString(code) {
		v.Errorf("use the three letters of ISO 4217, such as EUR", "currency: invalid currency %q", yamldoc.Clip(code))
		return "", false
	}
	return code, ok
}

// payment is an amount for a time, such as {amount: 12000, per: 30d}.
func payment(p *slo.Payment) value {
	return inside{keys: func() keys {
		return keys{
			at("amount", single[slo.Amount]{&p.Amount, readAmount, amountText, &amountDoc}).
				need("set the amount, such as `amount: 12000`"),
			at("per", length{&p.Per, time.Hour, maxWindow}).need("set for how long it is, such as `per: 30d`"),
		}
	}}
}

func amountText(a slo.Amount) string {
	if a.Sign() == 0 {
		return ""
	}
	return a.String()
}
