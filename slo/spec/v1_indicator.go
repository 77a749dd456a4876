package spec

import (
	"fmt"
	"math"
	"time"

	"github.com/sloengine/sloengine/slo"
)

var indicatorKinds = []string{string(slo.KindEvents), string(slo.KindLatency), string(slo.KindThroughput), string(slo.KindPrometheus)}

// readIndicator reads exactly one kind of indicator. It reports whether the
// kind is known.
func (s *sloDraft) readIndicator(v *value, service string) bool {
	o := v.object(indicatorKinds...)
	if o == nil {
		return false
	}
	var kinds []string
	for _, k := range indicatorKinds {
		if o.has(k) {
			kinds = append(kinds, k)
		}
	}
	switch len(kinds) {
	case 0:
		if len(o.keys) == 0 {
			v.errorf("want "+oneOf(indicatorKinds), "indicator is empty")
		}
		return false
	case 1:
	default:
		v.errorf("keep one; write a second SLO for the other", "indicator: only one of %s is possible, got %d", oneOf(indicatorKinds), len(kinds))
		return false
	}
	in := o.get(kinds[0])
	if in == nil {
		return false
	}
	s.Indicator.Kind = slo.IndicatorKind(kinds[0])
	switch s.Indicator.Kind {
	case slo.KindEvents:
		s.readEvents(in, service)
	case slo.KindLatency:
		s.readLatency(in, service)
	case slo.KindThroughput:
		s.readThroughput(in, service)
	case slo.KindPrometheus:
		s.readPrometheus(in)
	}
	return true
}

func (s *sloDraft) readValid(o *object, service string) {
	s.valid = &selector{}
	if v := o.get("valid"); v != nil {
		if sel, ok := v.selector(service); ok {
			s.valid, s.Indicator.Valid = &sel, sel.Selector
		} else {
			s.valid = nil
		}
	}
}

func (s *sloDraft) readEvents(v *value, service string) {
	o := v.object("valid", "bad", "good")
	if o == nil {
		return
	}
	s.readValid(o, service)
	bad, good := o.has("bad"), o.has("good")
	switch {
	case bad && good:
		o.r.errorf(o.keyAt("good"), "keep bad", "events: bad and good cannot both be given")
	case bad:
		if b := o.get("bad"); b != nil {
			sel, ok := b.selector(service)
			if ok && len(sel.Selector) == 0 {
				b.errorf(`say which events are bad, such as {outcome="failure"}`, "bad: every event would be bad")
			}
			s.Indicator.Bad = sel.Selector
		}
	case good:
		if g := o.get("good"); g != nil {
			s.Indicator.Bad = g.opposite(service)
		}
	case !o.meant["bad"] && !o.meant["good"]:
		v.errorf(`say which valid events are bad, such as bad: '{outcome="failure"}'`, "events: bad is missing")
	}
}

// opposite reads a selector and gives the one that matches everything else. Only
// a single matcher has one: what is not (a and b) is no list of matchers.
func (v *value) opposite(service string) slo.Selector {
	sel, ok := v.selector(service)
	if !ok {
		return nil
	}
	if len(sel.Selector) != 1 {
		v.errorf("write bad instead, which takes any number", "good: want exactly one matcher, got %d", len(sel.Selector))
		return nil
	}
	m := sel.Selector[0]
	inverse := map[slo.MatchOp]slo.MatchOp{
		slo.OpEqual: slo.OpNotEqual, slo.OpNotEqual: slo.OpEqual, slo.OpRegexp: slo.OpNotRegexp, slo.OpNotRegexp: slo.OpRegexp,
	}
	m, err := slo.NewMatcher(m.Name, inverse[m.Op], m.Value)
	if err != nil {
		v.errorf("", "good: %v", err)
		return nil
	}
	return slo.Selector{m}
}

func (s *sloDraft) readLatency(v *value, service string) {
	o := v.object("valid", "threshold")
	if o == nil {
		return
	}
	s.readValid(o, service)
	if t := o.need("threshold", "say within which time an event is good, such as `threshold: 500ms`"); t != nil {
		s.Indicator.Threshold, _ = t.duration(time.Millisecond, maxWindow)
	}
}

func (s *sloDraft) readThroughput(v *value, service string) {
	o := v.object("valid", "at_least", "per", "during")
	if o == nil {
		return
	}
	s.readValid(o, service)
	if n := o.need("at_least", "say how many events there must be, such as `at_least: 100`"); n != nil {
		x, _ := n.whole(1, math.MaxUint32)
		s.Indicator.AtLeast = uint64(x)
	}
	s.Indicator.Per = time.Minute
	if o.has("per") {
		s.Indicator.Per = o.slice("per")
	}
	if d := o.get("during"); d != nil {
		text, ok := d.text()
		if !ok {
			return
		}
		sc, err := slo.ParseSchedule(text)
		if err != nil {
			d.errorf(`write it such as "Mon-Fri 09:00-18:00 Europe/Moscow"`, "during: %v", err)
			return
		}
		s.Indicator.During = sc
		if s.Indicator.Per >= time.Minute && !someSliceFits(sc, s.Indicator.Per) {
			d.errorf("take a shorter `per` or longer hours", "during: no slice of %s, counted from midnight UTC, lies inside these hours", slo.FormatDuration(s.Indicator.Per))
		}
	}
}

// someSliceFits looks for one slice inside the open hours of an ordinary week.
func someSliceFits(sc slo.Schedule, per time.Duration) bool {
	from := time.Date(2026, 1, 4, 0, 0, 0, 0, time.UTC).Truncate(per)
	for t := from; t.Before(from.Add(9 * day)); t = t.Add(per) {
		if sc.Covers(slo.Span{From: t, To: t.Add(per)}) {
			return true
		}
	}
	return false
}

// promForms are the keys of the forms of a prometheus indicator.
var promForms = []struct {
	keys []string
	hint string
}{
	{[]string{"bad", "good", "total"}, "{bad, total} or {good, total}: selectors of counters"},
	{[]string{"error_query", "good_query", "total_query"}, "{error_query, total_query} or {good_query, total_query}: PromQL with $window"},
	{[]string{"error_ratio_query"}, "{error_ratio_query}: PromQL with $window"},
	{[]string{"query", "op", "value"}, "{query, op, value}: PromQL whose samples are compared"},
}

func (s *sloDraft) readPrometheus(v *value) {
	var known []string
	for _, f := range promForms {
		known = append(known, f.keys...)
	}
	o := v.object(known...)
	if o == nil {
		return
	}
	form := 0
	found := ""
	for i, f := range promForms {
		for _, k := range f.keys {
			if !o.has(k) {
				continue
			}
			if found != "" && form != i {
				o.r.errorf(o.keyAt(k), "want either "+promForms[form].hint+", or "+f.hint, "prometheus: %s does not go with %s", k, found)
				return
			}
			form, found = i, k
		}
	}
	switch form {
	case 0:
		s.readPromCounters(o)
	case 1:
		s.readPromQueries(o)
	case 2:
		if q := o.get("error_ratio_query"); q != nil {
			if ratio, ok := q.windowedQuery(); ok {
				s.readRatioQuery(ratio, false)
			}
		}
	case 3:
		s.readPromThreshold(o)
	}
}

func (s *sloDraft) readPromCounters(o *object) {
	if t := o.need("total", "add the selector of all requests, such as total: http_requests_total"); t != nil {
		s.Indicator.PromTotal, _ = t.series()
	}
	bad, good := o.has("bad"), o.has("good")
	switch {
	case bad && good:
		o.r.errorf(o.keyAt("good"), "keep one of them", "prometheus: bad and good cannot both be given")
	case bad:
		if b := o.get("bad"); b != nil {
			s.Indicator.PromBad, _ = b.series()
		}
	case good:
		if g := o.get("good"); g != nil {
			s.Indicator.PromGood, _ = g.series()
		}
	case !o.meant["bad"] && !o.meant["good"]:
		o.errorf(fmt.Sprintf("add the selector of the failed ones, such as bad: '%s'", `http_requests_total{code=~"5.."}`), "prometheus: bad is missing")
	}
}

func (s *sloDraft) readPromQueries(o *object) {
	parts := map[string]*promQuery{}
	ok := true
	for _, k := range []string{"error_query", "good_query", "total_query"} {
		if v := o.get(k); v != nil {
			q, good := v.windowedQuery()
			parts[k], ok = q, ok && good
		} else if o.has(k) {
			ok = false
		}
	}
	switch {
	case o.has("error_query") && o.has("good_query"):
		o.r.errorf(o.keyAt("good_query"), "keep one of them", "prometheus: error_query and good_query cannot both be given")
		return
	case !o.has("total_query"):
		o.errorf("add the query of all, such as total_query: sum(rate(http_requests_total[$window]))", "prometheus: total_query is missing")
		return
	case !o.has("error_query") && !o.has("good_query"):
		o.errorf("add the query of the failed ones", "prometheus: error_query is missing")
		return
	}
	if ok {
		s.readEventQueries(parts["error_query"], parts["good_query"], parts["total_query"])
	}
}

// comparisons by the words that specs have for them.
var comparisons = map[string]slo.Comparison{"lt": slo.Less, "lte": slo.NotAbove, "gt": slo.Greater, "gte": slo.NotBelow}

var comparisonWords = []string{"lt", "lte", "gt", "gte"}

func (s *sloDraft) readPromThreshold(o *object) {
	var q *promQuery
	ok := false
	if v := o.need("query", "add the query whose samples are compared"); v != nil {
		q, ok = v.query()
	}
	var op slo.Comparison
	if v := o.need("op", "say when a sample is good: lt, lte, gt or gte"); v != nil {
		word, good := v.choice(comparisonWords...)
		op, ok = comparisons[word], ok && good
	} else {
		ok = false
	}
	x := 0.0
	if v := o.need("value", "say what the samples are compared with"); v != nil {
		f, good := v.float()
		x, ok = f, ok && good
	} else {
		ok = false
	}
	if ok {
		s.readThresholdQuery(q, op, x)
	}
}
