package spec

import (
	"slices"
	"strconv"
	"time"

	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/yamldoc"
)

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
		work("started", &c.Started, &s.valid).need(`select the events that start work, such as started: '{type="order.created"}'`),
		work("finished", &c.Finished, &s.finished).need(`select the events that finish it, such as finished: '{type="order.shipped"}'`),
		work("failed", &c.Failed, &s.failed),
		at("key", textual(&c.Key, readWorkAttribute, &labelDoc)).need("name the attribute that tells work apart, such as `key: order_id`"),
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
			end.at.Warnf("add a matcher on a label of `started`, such as another type", "%s: an event can match this and `started`, and then starts work and ends it", end.at.What)
		}
	}
	if finished != nil && failed != nil && covers(failed.Selector, finished.Selector) {
		failed.at.Errorf("add a matcher that failures alone have", "failed: every event that finishes work matches, so no work is good")
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
			if m.Op == slo.OpEqual && !x.Matches(m.Value) || x.Op == slo.OpEqual && !m.Matches(x.Value) || regexps && m.Value != x.Value {
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
		a.Errorf(s.withinAt, "use a longer window", "slo %s: within %s is longer than the window (%s)", s.ID.Name(), slo.FormatDuration(c.Within), s.Window)
		return
	}
	for _, t := range tiers(s.Alerting) {
		if t.Page && !s.Alerting.Page.Disabled && c.Within > t.Long {
			a.Warnf(s.withinAt, "use `alerting: {page: {disabled: true}}`, or a shorter time",
				"slo %s: work that is stuck counts after %s, so the page alert with its window of %s tells of an outage that began before it", s.ID.Name(), slo.FormatDuration(c.Within), slo.FormatDuration(t.Long))
			return
		}
	}
}
