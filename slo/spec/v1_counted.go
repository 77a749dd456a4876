package spec

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/suggest"
	"github.com/sloengine/sloengine/slo/yamldoc"
	"github.com/sloengine/sloengine/slo/yamlgen"
)

// This file reads the indicators that count by other arithmetic than good and bad events: ratio, apdex and volume.

// occurrencesOnly refuses a budgeting method that the kind of indicator has no use for. It knows the indicator only
// where the budgeting is read.
var occurrencesOnly = map[slo.IndicatorKind]string{
	slo.KindThroughput: "throughput already counts slices|remove it: `per` is already the slice",
	slo.KindRatio: "ratio counts events over a window|remove it: the counts of one slice mostly belong to " +
		"different events",
	slo.KindApdex:  "apdex counts events by halves|remove it, or use latency, which has slices",
	slo.KindVolume: "volume already counts periods|remove it: `per` is already the period",
}

func (s *sloDraft) ratioKeys() keys {
	return keys{
		at("numerator", matchers{to: &s.Indicator.Numerator, sel: &s.numerator, service: s.service}).need(
			`select the events that are counted, such as numerator: '{type="connected"}'`),
		at("denominator", matchers{to: &s.Indicator.Valid, sel: &s.valid, service: s.service}).need(
			`select the events that the numerator is set against, such as denominator: '{type="applied"}'`),
	}
}

func (s *sloDraft) checkRatio(o *yamldoc.Object) {
	if s.valid != nil && s.numerator != nil && s.Indicator.Valid.String() == s.Indicator.Numerator.String() {
		o.Errorf("select different events", "ratio: numerator and denominator are the same, so the ratio is always 1")
	}
}

func (s *sloDraft) apdexKeys() keys {
	in := &s.Indicator
	return keys{
		s.validKey(),
		at("satisfied", length{&in.Satisfied, time.Millisecond, maxWindow}).need(
			"set the duration up to which an event is satisfactory, such as `satisfied: 500ms`"),
		at("tolerating", length{&in.Tolerating, time.Millisecond, maxWindow}).need(
			"set the duration up to which an event counts half, usually four times `satisfied`, such as `tolerating: 2s`"),
	}
}

func (s *sloDraft) checkApdex(o *yamldoc.Object) {
	s.allValid(o)
	if in := &s.Indicator; in.Satisfied > 0 && in.Tolerating > 0 && in.Tolerating <= in.Satisfied {
		o.Field("tolerating").Errorf("Apdex uses four times `satisfied`",
			"tolerating: %s is not longer than satisfied (%s), so no event would count half",
			slo.FormatDuration(in.Tolerating), slo.FormatDuration(in.Satisfied))
	}
}

var volumeUnits = []string{string(slo.Day), string(slo.Week), string(slo.Month)}

// volumeDurations are durations that people write for a calendar unit.
var volumeDurations = map[string]string{"1d": "day", "24h": "day", "7d": "week", "1w": "week", "30d": "month"}

func (s *sloDraft) volumeKeys() keys {
	in := &s.Indicator
	return keys{
		s.validKey(),
		at("at_least", events(&in.AtLeast)).need("set the minimum number of events, such as `at_least: 10000`"),
		at("per", period{word[slo.CalendarUnit]{&in.Calendar, volumeUnits}}).orShown(string(slo.Day)),
		at("timezone", later{
			out: func(*encoder) *yamlgen.Node {
				if !in.During.Always() {
					return nil
				}
				return yamlgen.Text(in.Location.String())
			},
			is: &zoneDoc,
		}),
		s.duringKey(),
	}
}

// period is the unit of a volume.
type period struct{ value }

func (p period) read(v *yamldoc.Value) {
	if text := v.Raw(); volumeDurations[text] != "" {
		v.Errorf(fmt.Sprintf("did you mean %s? Want %s", volumeDurations[text], suggest.OneOf(volumeUnits)),
			"per: %q is a duration, and a volume is judged by the calendar", text)
		return
	}
	p.value.read(v)
}

func (s *sloDraft) checkVolume(o *yamldoc.Object) {
	s.allValid(o)
	if s.Indicator.Calendar == "" {
		s.Indicator.Calendar = slo.Day
	}
	if d := o.Get("during"); d != nil {
		sc, ok := readSchedule(d)
		switch {
		case !ok:
		case s.Indicator.Calendar != slo.Day:
			d.Errorf("remove it, or use `per: day`", "during: only days have open hours")
		case o.Has("timezone"):
			o.KeyErrorf("timezone", "remove it", "timezone: the zone of `during` already says when days begin")
		case !wholeFive(sc):
			d.Errorf("use multiples of five minutes", "during: counts older than three days are kept in steps of five minutes")
		}
		s.Indicator.During, s.Indicator.Location = sc, sc.Location()
		return
	}
	s.Indicator.Location = time.UTC
	if loc, ok := o.Need("timezone", needZone).Zone(); ok {
		s.Indicator.Location = loc
	}
}

// wholeFive reports whether open hours begin and end at multiples of five minutes.
func wholeFive(sc slo.Schedule) bool {
	for d := range 7 {
		if sp, ok := sc.On(time.Date(2026, 1, 4+d, 12, 0, 0, 0, sc.Location())); ok {
			return sp.From.Minute()%5 == 0 && sp.To.Minute()%5 == 0
		}
	}
	return true
}

// volumes warns of a volume whose window holds too few periods to say much, and refuses one that holds none.
func (a *assembly) volumes(s *sloDraft) {
	if s.Indicator.Kind != slo.KindVolume {
		return
	}
	unit := slo.Window{Calendar: s.Indicator.Calendar, Location: s.Indicator.Location}
	period, calendar := unit.Nominal(), s.Window.Calendar
	if s.Window.Nominal() < 2*period ||
		calendar != "" && slices.Contains(volumeUnits, string(calendar)) && calendar == s.Indicator.Calendar {
		a.Errorf(s.at, "use a longer window",
			"slo %s: the window (%s) holds less than two of the periods (%s) that are judged", s.ID.Name(),
			s.Window, s.Indicator.Calendar)
		return
	}
	if len(s.Alerting.Tiers) > 0 {
		a.Warnf(s.at, "remove alerting.tiers",
			"slo %s: a volume is judged by the calendar and has no burn-rate alerts, so its tiers are not used", s.ID.Name())
	}
	periods := float64(s.Window.Nominal()) / float64(period)
	if !s.Objective.IsZero() && s.Objective.Budget()*periods < 1 {
		a.Warnf(s.objectiveAt, fmt.Sprintf("an objective of at most %.4g%% allows one", 100*(1-1/periods)),
			"slo %s: an objective of %s allows no missed %s in its window (%s)", s.ID.Name(), s.Objective,
			s.Indicator.Calendar, s.Window)
	}
}

// What work may take, and how much of it is tracked.
const (
	maxWithin          = 30 * day
	maxMaxInFlight     = 10_000_000
	defaultMaxInFlight = 100_000
)

func (s *sloDraft) completionKeys() keys {
	c := &s.Indicator.Completion
	work := func(name string, to *slo.Selector, sel **selector) key {
		return at(name, someEvents{matchers{to, sel, s.service, true},
			`select some events, such as {type="order.created"}`, "match"})
	}
	return keys{
		work("started", &c.Started, &s.valid).need(
			`select the events that start work, such as started: '{type="order.created"}'`),
		work("finished", &c.Finished, &s.finished).need(
			`select the events that finish it, such as finished: '{type="order.shipped"}'`),
		work("failed", &c.Failed, &s.failed),
		at("key", textual(&c.Key, readWorkAttribute, &labelDoc)).need(
			"name the attribute that identifies a piece of work, such as `key: order_id`"),
		at("stage", textual(&c.Stage, readWorkAttribute, &labelDoc)),
		at("within", length{&c.Within, time.Second, maxWithin}).need("set how long work may take, such as `within: 15m`"),
		at("max_in_flight", whole[int]{&c.MaxInFlight, 1, maxMaxInFlight}).or(strconv.Itoa(defaultMaxInFlight)),
	}
}

// someEvents are matchers that do not match every event.
type someEvents struct {
	matchers
	hint, would string // what to do, and what every event would do
}

func (m someEvents) read(v *yamldoc.Value) {
	if m.matchers.read(v); *m.sel != nil && len(*m.to) == 0 {
		*m.sel = nil
		v.Errorf(m.hint, "%s: every event would %s", v.What, m.would)
	}
}

func (s *sloDraft) checkCompletion(o *yamldoc.Object) {
	c := &s.Indicator.Completion
	if x := o.Get("stage"); x != nil && c.Stage != "" && c.Stage == c.Key {
		x.Errorf("name the attribute that says how far work is", "stage: %s is the key", c.Key)
	}
	s.withinAt = placeOf(o, "within")
	if c.MaxInFlight == 0 {
		c.MaxInFlight = defaultMaxInFlight
	}
	if slices.Contains(s.GroupBy, c.Key) && c.Key != "" {
		o.KeyErrorf("key", "remove it from group_by", "key: each piece of work would be a group of its own")
	}
	s.overlaps(s.valid, s.finished, s.failed)
}

// readWorkAttribute reads the name of an attribute, which fields of events are not.
func readWorkAttribute(v *yamldoc.Value) (string, bool) {
	name, ok := readAttribute(v)
	if ok && slices.Contains([]string{"service", "type", "outcome", "severity"}, name) {
		v.Errorf("name an attribute", "%s: %s is a field of every event, and no attribute", v.What, name)
		return "", false
	}
	return name, ok
}

// overlaps reports events that would do two things to work.
func (s *sloDraft) overlaps(started, finished, failed *selector) {
	for _, end := range []*selector{finished, failed} {
		switch {
		case end == nil || started == nil:
		case covers(end.Selector, started.Selector):
			end.at.Errorf("select other events", "%s: every event that starts work ends it", end.at.What)
		case covers(started.Selector, end.Selector):
			end.at.Warnf("add a matcher to `started` that excludes them", "%s: every such event starts work, too", end.at.What)
		case !disjoint(started.Selector, end.Selector):
			end.at.Warnf("add a matcher on a label of `started`, such as another type",
				"%s: an event can match this and `started`, and then starts work and ends it", end.at.What)
		}
	}
	if finished != nil && failed != nil && covers(failed.Selector, finished.Selector) {
		failed.at.Errorf("add a matcher that failures alone have",
			"failed: every event that finishes work matches, so no work is good")
	}
}

// covers reports whether each event that matches b surely matches a.
func covers(a, b slo.Selector) bool {
	for _, m := range a {
		if !slices.ContainsFunc(b, func(x slo.Matcher) bool {
			return x.Name == m.Name && (x.String() == m.String() || x.Op == slo.OpEqual && m.Matches(x.Value))
		}) {
			return false
		}
	}
	return true
}

// disjoint reports whether no event matches both, as far as equality tells. Two regular expressions on one label are
// taken as disjoint.
func disjoint(a, b slo.Selector) bool {
	for _, m := range a {
		for _, x := range b {
			if m.Name != x.Name {
				continue
			}
			regexps := m.Op == slo.OpRegexp && x.Op == slo.OpRegexp
			if m.Op == slo.OpEqual && !x.Matches(m.Value) || x.Op == slo.OpEqual && !m.Matches(x.Value) ||
				regexps && m.Value != x.Value {
				return true
			}
		}
	}
	return false
}

// completion warns of work that may take longer than the window shows.
func (a *assembly) completion(s *sloDraft) {
	c := &s.Indicator.Completion
	if s.Indicator.Kind != slo.KindCompletion || c.Within == 0 {
		return
	}
	if period := s.Window.Nominal(); c.Within > period {
		a.Errorf(s.withinAt, "use a longer window", "slo %s: within %s is longer than the window (%s)", s.ID.Name(),
			slo.FormatDuration(c.Within), s.Window)
		return
	}
	for _, t := range tiers(s.Alerting) {
		if t.Page && !s.Alerting.Page.Disabled && c.Within > t.Long {
			a.Warnf(s.withinAt, "use `alerting: {page: {disabled: true}}`, or a shorter time",
				"slo %s: work that is stuck counts after %s, so the page alert with its window of %s reports an outage that "+
					"began before it", s.ID.Name(), slo.FormatDuration(c.Within), slo.FormatDuration(t.Long))
			return
		}
	}
}
