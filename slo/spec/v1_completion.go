package spec

import (
	"fmt"
	"slices"
	"time"

	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/yamldoc"
	"github.com/sloengine/sloengine/slo/yamlgen"
)

// What work may take, and how much of it is tracked.
const (
	maxWithin          = 30 * day
	maxMaxInFlight     = 10_000_000
	defaultMaxInFlight = 100_000
)

func (s *sloDraft) readCompletion(v *yamldoc.Value, service string) {
	o := v.Object("started", "finished", "failed", "key", "within", "max_in_flight", "stage")
	if o == nil {
		return
	}
	c := &s.Indicator.Completion
	read := func(key, hint string, to *slo.Selector) *selector {
		at := o.Get(key)
		if hint != "" {
			at = o.Need(key, hint)
		}
		if at == nil {
			return nil
		}
		sel, ok := readSelector(at, service)
		if !ok {
			return nil
		}
		if len(sel.Selector) == 0 {
			at.Errorf(`select some events, such as {type="order.created"}`, "%s: every event would match", key)
			return nil
		}
		*to = sel.Selector
		return &sel
	}
	s.valid = read("started", `select the events that start work, such as started: '{type="order.created"}'`, &c.Started)
	finished := read("finished", `select the events that finish it, such as finished: '{type="order.shipped"}'`, &c.Finished)
	failed := read("failed", "", &c.Failed)
	for _, x := range []*selector{finished, failed} {
		if x != nil {
			s.others = append(s.others, x)
		}
	}
	if k := o.Need("key", "name the attribute that tells work apart, such as `key: order_id`"); k != nil {
		c.Key, _ = readWorkAttribute(k)
	}
	if x := o.Get("stage"); x != nil {
		if c.Stage, _ = readWorkAttribute(x); c.Stage != "" && c.Stage == c.Key {
			x.Errorf("name the attribute that says how far work is", "stage: %s is the key", c.Key)
		}
	}
	if w := o.Need("within", "set how long work may take, such as `within: 15m`"); w != nil {
		s.withinAt = w.At()
		c.Within, _ = readDuration(w, time.Second, maxWithin)
	}
	c.MaxInFlight = defaultMaxInFlight
	if m := o.Get("max_in_flight"); m != nil {
		if n, ok := m.Whole(1, maxMaxInFlight); ok {
			c.MaxInFlight = int(n)
		}
	}
	if slices.Contains(s.GroupBy, c.Key) && c.Key != "" {
		o.KeyErrorf("key", "remove it from group_by", "key: each piece of work would be a group of its own")
	}
	s.overlaps(s.valid, finished, failed)
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

// completion writes the indicator.
func completion(c *slo.Completion) *yamlgen.Node {
	m := &yamlgen.Map{}
	m.Text("started", c.Started.String())
	m.Text("finished", c.Finished.String())
	if len(c.Failed) > 0 {
		m.Text("failed", c.Failed.String())
	}
	m.Text("key", c.Key)
	m.Text("stage", c.Stage)
	m.Plain("within", slo.FormatDuration(c.Within))
	if c.MaxInFlight != defaultMaxInFlight {
		m.Plain("max_in_flight", fmt.Sprint(c.MaxInFlight))
	}
	return m.Node()
}
