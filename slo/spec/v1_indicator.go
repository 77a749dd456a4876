package spec

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"time"

	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/suggest"
	"github.com/sloengine/sloengine/slo/yamldoc"
)

var indicatorKinds = []string{string(slo.KindEvents), string(slo.KindLatency), string(slo.KindThroughput),
	string(slo.KindRatio), string(slo.KindApdex), string(slo.KindVolume), string(slo.KindCompletion), string(slo.KindPrometheus)}

// readIndicator reads exactly one kind of indicator. It reports whether the
// kind is known.
func (s *sloDraft) readIndicator(v *yamldoc.Value, service string) bool {
	o := v.Object(indicatorKinds...)
	if o == nil {
		return false
	}
	var kinds []string
	for _, k := range indicatorKinds {
		if o.Has(k) {
			kinds = append(kinds, k)
		}
	}
	switch len(kinds) {
	case 0:
		if len(o.Keys) == 0 {
			v.Errorf("want "+suggest.OneOf(indicatorKinds), "indicator is empty")
		}
		return false
	case 1:
	default:
		v.Errorf("keep one, and write a second SLO for the other", "indicator: want one of %s, got %d", suggest.OneOf(indicatorKinds), len(kinds))
		return false
	}
	in := o.Get(kinds[0])
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
	case slo.KindRatio:
		s.readRatio(in, service)
	case slo.KindApdex:
		s.readApdex(in, service)
	case slo.KindVolume:
		s.readVolume(in, service)
	case slo.KindCompletion:
		s.readCompletion(in, service)
	case slo.KindPrometheus:
		s.readPrometheus(in)
	}
	return true
}

func (s *sloDraft) readValid(o *yamldoc.Object, service string) {
	s.valid = &selector{}
	if v := o.Get("valid"); v != nil {
		if sel, ok := readSelector(v, service); ok {
			s.valid, s.Indicator.Valid = &sel, sel.Selector
		} else {
			s.valid = nil
		}
	}
}

func (s *sloDraft) readEvents(v *yamldoc.Value, service string) {
	o := v.Object("valid", "bad", "good")
	if o == nil {
		return
	}
	s.readValid(o, service)
	bad, good := o.Has("bad"), o.Has("good")
	switch {
	case bad && good:
		o.KeyErrorf("good", "keep bad", "events: bad and good exclude each other")
	case bad:
		if b := o.Get("bad"); b != nil {
			sel, ok := readSelector(b, service)
			if ok && len(sel.Selector) == 0 {
				b.Errorf(`select the bad events, such as {outcome="failure"}`, "bad: every event would be bad")
			}
			s.Indicator.Bad = sel.Selector
		}
	case good:
		if g := o.Get("good"); g != nil {
			s.Indicator.Bad = opposite(g, service)
		}
	case !o.Meant("bad") && !o.Meant("good"):
		v.Errorf(`select the bad events among the valid ones, such as bad: '{outcome="failure"}'`, "events: bad is missing")
	}
}

// opposite reads a selector and gives the one that matches everything else. Only
// a single matcher has one: what is not (a and b) is no list of matchers.
func opposite(v *yamldoc.Value, service string) slo.Selector {
	sel, ok := readSelector(v, service)
	if !ok {
		return nil
	}
	if len(sel.Selector) != 1 {
		v.Errorf("use bad instead, which accepts any number", "good: want exactly one matcher, got %d", len(sel.Selector))
		return nil
	}
	m := sel.Selector[0]
	inverse := map[slo.MatchOp]slo.MatchOp{
		slo.OpEqual: slo.OpNotEqual, slo.OpNotEqual: slo.OpEqual, slo.OpRegexp: slo.OpNotRegexp, slo.OpNotRegexp: slo.OpRegexp,
	}
	m, err := slo.NewMatcher(m.Name, inverse[m.Op], m.Value)
	if err != nil {
		v.Errorf("", "good: %v", err)
		return nil
	}
	return slo.Selector{m}
}

func (s *sloDraft) readLatency(v *yamldoc.Value, service string) {
	o := v.Object("valid", "threshold")
	if o == nil {
		return
	}
	s.readValid(o, service)
	if t := o.Need("threshold", "set the duration up to which an event is good, such as `threshold: 500ms`"); t != nil {
		s.Indicator.Threshold, _ = readDuration(t, time.Millisecond, maxWindow)
	}
}

func (s *sloDraft) readThroughput(v *yamldoc.Value, service string) {
	o := v.Object("valid", "at_least", "per", "during", "capacity")
	if o == nil {
		return
	}
	if c := o.Get("capacity"); c != nil {
		s.Indicator.Capacity = readCapacity(c)
	}
	s.readValid(o, service)
	s.readAtLeast(o, 100)
	s.Indicator.Per = time.Minute
	if o.Has("per") {
		s.Indicator.Per = readSlice(o, "per")
	}
	if d := o.Get("during"); d != nil {
		sc, ok := readSchedule(d)
		if !ok {
			return
		}
		s.Indicator.During = sc
		if s.Indicator.Per >= time.Minute && !someSliceFits(sc, s.Indicator.Per) {
			d.Errorf("use a shorter `per` or longer hours", "during: no slice of %s, counted from midnight UTC, lies inside these hours", slo.FormatDuration(s.Indicator.Per))
		}
	}
}

// readAtLeast reads a number of events, of which like is an example.
func (s *sloDraft) readAtLeast(o *yamldoc.Object, like int) {
	if n := o.Need("at_least", fmt.Sprintf("set the minimum number of events, such as `at_least: %d`", like)); n != nil {
		x, _ := n.Whole(1, math.MaxUint32)
		s.Indicator.AtLeast = uint64(x)
	}
}

// readSchedule reads weekly open hours.
func readSchedule(d *yamldoc.Value) (slo.Schedule, bool) {
	text, ok := d.Text()
	if !ok {
		return slo.Schedule{}, false
	}
	sc, err := slo.ParseSchedule(text)
	if err != nil {
		d.Errorf(`write it as in "Mon-Fri 09:00-18:00 Europe/Moscow"`, "during: %v", err)
		return slo.Schedule{}, false
	}
	return sc, true
}

var capacityText = regexp.MustCompile(`^(\d+) per (\S+)$`)

// readCapacity reads "120 per 1m" or {events: 120, per: 1m}.
func readCapacity(v *yamldoc.Value) (c slo.Capacity) {
	if v.IsMapping() {
		o := v.Object("events", "per")
		if e := o.Need("events", "set how many events the service can take, such as `events: 120`"); e != nil {
			n, _ := e.Whole(1, math.MaxUint32)
			c.Events = uint64(max(0, n))
		}
		if p := o.Need("per", "set the time that these events may take, such as `per: 1m`"); p != nil {
			c.Per, _ = readDuration(p, time.Second, day)
		}
	} else if text, ok := v.Text(); ok {
		m := capacityText.FindStringSubmatch(text)
		if m == nil {
			v.Errorf("write it as in `capacity: 120 per 1m`", "capacity: %q is not a number of events per time", text)
			return slo.Capacity{}
		}
		n, err := strconv.ParseUint(m[1], 10, 32)
		d, derr := slo.ParseDuration(m[2])
		if err != nil || n == 0 || derr != nil || d < time.Second || d > day {
			v.Errorf("write it as in `capacity: 120 per 1m`, with 1 to 4294967295 events and a time from 1s to 1d", "capacity: invalid %q", text)
			return slo.Capacity{}
		}
		c = slo.Capacity{Events: n, Per: d}
	}
	if c.Events == 0 || c.Per == 0 {
		return slo.Capacity{}
	}
	return c
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

func (s *sloDraft) readPrometheus(v *yamldoc.Value) {
	var known []string
	for _, f := range promForms {
		known = append(known, f.keys...)
	}
	o := v.Object(known...)
	if o == nil {
		return
	}
	form := 0
	found := ""
	for i, f := range promForms {
		for _, k := range f.keys {
			if !o.Has(k) {
				continue
			}
			if found != "" && form != i {
				o.KeyErrorf(k, "want either "+promForms[form].hint+", or "+f.hint, "prometheus: %s and %s exclude each other", k, found)
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
		if q := o.Get("error_ratio_query"); q != nil {
			if ratio, ok := readWindowedQuery(q); ok {
				s.readRatioQuery(ratio, false)
			}
		}
	case 3:
		s.readPromThreshold(o)
	}
}

func (s *sloDraft) readPromCounters(o *yamldoc.Object) {
	if t := o.Need("total", "add the selector of all requests, such as total: http_requests_total"); t != nil {
		s.Indicator.PromTotal, _ = readSeries(t)
	}
	bad, good := o.Has("bad"), o.Has("good")
	switch {
	case bad && good:
		o.KeyErrorf("good", "keep one of them", "prometheus: bad and good exclude each other")
	case bad:
		if b := o.Get("bad"); b != nil {
			s.Indicator.PromBad, _ = readSeries(b)
		}
	case good:
		if g := o.Get("good"); g != nil {
			s.Indicator.PromGood, _ = readSeries(g)
		}
	case !o.Meant("bad") && !o.Meant("good"):
		o.Errorf(fmt.Sprintf("add the selector of failed requests, such as bad: '%s'", `http_requests_total{code=~"5.."}`), "prometheus: bad is missing")
	}
}

func (s *sloDraft) readPromQueries(o *yamldoc.Object) {
	parts := map[string]*promQuery{}
	ok := true
	for _, k := range []string{"error_query", "good_query", "total_query"} {
		if v := o.Get(k); v != nil {
			q, good := readWindowedQuery(v)
			parts[k], ok = q, ok && good
		} else if o.Has(k) {
			ok = false
		}
	}
	switch {
	case o.Has("error_query") && o.Has("good_query"):
		o.KeyErrorf("good_query", "keep one of them", "prometheus: error_query and good_query exclude each other")
		return
	case !o.Has("total_query"):
		o.Errorf("add the query of all requests, such as total_query: sum(rate(http_requests_total[$window]))", "prometheus: total_query is missing")
		return
	case !o.Has("error_query") && !o.Has("good_query"):
		o.Errorf("add the query of the failed events", "prometheus: error_query is missing")
		return
	}
	if ok {
		s.readEventQueries(parts["error_query"], parts["good_query"], parts["total_query"])
	}
}

// comparisons by the words that specs have for them.
var comparisons = map[string]slo.Comparison{"lt": slo.Less, "lte": slo.NotAbove, "gt": slo.Greater, "gte": slo.NotBelow}

var comparisonWords = []string{"lt", "lte", "gt", "gte"}

func (s *sloDraft) readPromThreshold(o *yamldoc.Object) {
	var q *promQuery
	ok := false
	if v := o.Need("query", "add the query whose samples are compared"); v != nil {
		q, ok = readQuery(v)
	}
	var op slo.Comparison
	if v := o.Need("op", "set the comparison that makes a sample good: lt, lte, gt or gte"); v != nil {
		word, good := v.Choice(comparisonWords...)
		op, ok = comparisons[word], ok && good
	} else {
		ok = false
	}
	x := 0.0
	if v := o.Need("value", "set the value that samples are compared with"); v != nil {
		f, good := v.Float()
		x, ok = f, ok && good
	} else {
		ok = false
	}
	if ok {
		s.readThresholdQuery(q, op, x)
	}
}
