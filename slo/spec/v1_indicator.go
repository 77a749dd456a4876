package spec

import (
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/suggest"
	"github.com/sloengine/sloengine/slo/yamldoc"
	"github.com/sloengine/sloengine/slo/yamldoc/shape"
	"github.com/sloengine/sloengine/slo/yamlgen"
)

var indicatorKinds = []string{string(slo.KindEvents), string(slo.KindLatency), string(slo.KindThroughput),
	string(slo.KindRatio), string(slo.KindApdex), string(slo.KindVolume), string(slo.KindCompletion),
	string(slo.KindPrometheus)}

var needIndicator = "add an indicator: " + anyIndicator

var anyIndicator = suggest.OneOf(indicatorKinds)

// indicator is exactly one kind of indicator.
type indicator struct{ *sloDraft }

func (s indicator) of(kind slo.IndicatorKind) inside {
	switch kind {
	case slo.KindEvents:
		return inside{keys: s.eventKeys, first: oneOfBadAndGood, then: s.allValid}
	case slo.KindLatency:
		return inside{keys: s.latencyKeys, then: s.allValid}
	case slo.KindThroughput:
		return inside{keys: s.throughputKeys, then: s.checkThroughput}
	case slo.KindRatio:
		return inside{keys: s.ratioKeys, then: s.checkRatio}
	case slo.KindApdex:
		return inside{keys: s.apdexKeys, then: s.checkApdex}
	case slo.KindVolume:
		return inside{keys: s.volumeKeys, then: s.checkVolume}
	case slo.KindCompletion:
		return inside{keys: s.completionKeys, then: s.checkCompletion, tall: true}
	}
	return inside{keys: s.prometheusKeys, then: s.readPrometheus,
		tall: s.Indicator.PromTotalQuery+s.Indicator.PromErrorRatioQuery != ""}
}

func (s indicator) read(v *yamldoc.Value) {
	o := v.Object(indicatorKinds...)
	if o == nil {
		return
	}
	var kinds []string
	for _, k := range indicatorKinds {
		if o.Has(k) {
			kinds = append(kinds, k)
		}
	}
	switch {
	case len(kinds) > 1:
		v.Errorf("keep one, and write a second SLO for the other", "indicator: want one of %s, got %d",
			anyIndicator, len(kinds))
	case len(kinds) == 1:
		if in := o.Get(kinds[0]); in != nil {
			s.Indicator.Kind, s.kindKnown = slo.IndicatorKind(kinds[0]), true
			s.of(s.Indicator.Kind).read(in)
		}
	case len(o.Keys) == 0:
		v.Errorf("want "+anyIndicator, "indicator is empty")
	}
}

func (s indicator) write(e *encoder) *yamlgen.Node {
	m := &yamlgen.Map{}
	m.Set(string(s.Indicator.Kind), s.of(s.Indicator.Kind).write(e))
	return m.Node()
}

func (s indicator) shape() shape.Shape {
	var kinds keys
	for _, k := range indicatorKinds {
		kinds = append(kinds, at(k, s.of(slo.IndicatorKind(k))))
	}
	return inside{keys: func() keys { return kinds }, one: true}.shape()
}

// validKey is the key of the events that an indicator is about.
func (s *sloDraft) validKey() key {
	return at("valid", matchers{&s.Indicator.Valid, &s.valid, s.service, true})
}

// allValid lets all events count if the indicator does not say which.
func (s *sloDraft) allValid(o *yamldoc.Object) {
	if !o.Has("valid") {
		s.valid = &selector{}
	}
}

func (s *sloDraft) eventKeys() keys {
	return keys{
		s.validKey(),
		at("bad", someEvents{matchers{&s.Indicator.Bad, new(*selector), s.service, true},
			`select the bad events, such as {outcome="failure"}`, "be bad"}),
		at("good", custom{
			in: func(v *yamldoc.Value) { s.Indicator.Bad = opposite(v, s.service) },
			is: func() doc { return matchersDoc },
		}),
	}
}

// oneOfBadAndGood reports whether an indicator says which events are bad.
func oneOfBadAndGood(o *yamldoc.Object) bool {
	bad, good := o.Has("bad"), o.Has("good")
	switch {
	case bad && good:
		o.KeyErrorf("good", "keep bad", "events: bad and good exclude each other")
	case !bad && !good && !o.Meant("bad") && !o.Meant("good"):
		o.Errorf(`select the bad events among the valid ones, such as bad: '{outcome="failure"}'`, "events: bad is missing")
	}
	return true
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
		slo.OpEqual: slo.OpNotEqual, slo.OpNotEqual: slo.OpEqual, slo.OpRegexp: slo.OpNotRegexp,
		slo.OpNotRegexp: slo.OpRegexp,
	}
	m, err := slo.NewMatcher(m.Name, inverse[m.Op], m.Value)
	if err != nil {
		v.Errorf("", "good: %v", err)
		return nil
	}
	return slo.Selector{m}
}

func (s *sloDraft) latencyKeys() keys {
	return keys{s.validKey(), at("threshold", length{&s.Indicator.Threshold, time.Millisecond, maxWindow}).
		need("set the duration up to which an event is good, such as `threshold: 500ms`")}
}

func (s *sloDraft) throughputKeys() keys {
	per := sliceKey("per", &s.Indicator.Per).orShown("1m")
	per.hint = ""
	return keys{
		s.validKey(),
		at("at_least", events(&s.Indicator.AtLeast)).need("set the minimum number of events, such as `at_least: 100`"),
		per,
		s.duringKey(),
		at("capacity", capacity{&s.Indicator.Capacity}),
	}
}

// duringKey is the key of weekly hours.
func (s *sloDraft) duringKey() key {
	return at("during", later{
		out: func(*encoder) *yamlgen.Node { return textNode(s.Indicator.During.String()) },
		is:  &hoursDoc,
	})
}

func (s *sloDraft) checkThroughput(o *yamldoc.Object) {
	s.allValid(o)
	if !o.Has("per") {
		s.Indicator.Per = time.Minute
	}
	if d := o.Get("during"); d != nil {
		sc, ok := readSchedule(d)
		if !ok {
			return
		}
		s.Indicator.During = sc
		if s.Indicator.Per >= time.Minute && !someSliceFits(sc, s.Indicator.Per) {
			d.Errorf(
				"use a shorter `per` or longer hours", "during: no slice of %s, counted from midnight UTC, lies inside these hours",
				slo.FormatDuration(s.Indicator.Per))
		}
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

// capacity is "120 per 1m" or {events: 120, per: 1m}.
type capacity struct{ *slo.Capacity }

func (c capacity) keys() keys {
	return keys{
		at("events", events(&c.Events)).need("set how many events the service can take, such as `events: 120`"),
		at("per", length{&c.Per, time.Second, day}).need("set the time that these events may take, such as `per: 1m`"),
	}
}

func (c capacity) read(v *yamldoc.Value) {
	if v.IsMapping() {
		c.keys().read(v)
		return
	}
	text, ok := v.Text()
	if !ok {
		return
	}
	m := capacityText.FindStringSubmatch(text)
	if m == nil {
		v.Errorf("write it as in `capacity: 120 per 1m`", "capacity: %q is not a number of events per time", text)
		return
	}
	n, err := strconv.ParseUint(m[1], 10, 32)
	d, derr := slo.ParseDuration(m[2])
	if err != nil || n == 0 || derr != nil || d < time.Second || d > day {
		v.Errorf("write it as in `capacity: 120 per 1m`, with 1 to 4294967295 events and a time from 1s to 1d",
			"capacity: invalid %q", text)
		return
	}
	*c.Capacity = slo.Capacity{Events: n, Per: d}
}

func (c capacity) write(*encoder) *yamlgen.Node {
	if c.IsZero() {
		return nil
	}
	return yamlgen.Text(c.String())
}

func (c capacity) shape() shape.Shape {
	return eitherShape(doc{Kind: shape.Text, Pattern: `^[0-9]+ per [0-9a-z]+$`, Note: "number of events per time"},
		c.keys().shape())
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
	{[]string{"error_query", "good_query", "total_query"},
		"{error_query, total_query} or {good_query, total_query}: PromQL with $window"},
	{[]string{"error_ratio_query"}, "{error_ratio_query}: PromQL with $window"},
	{[]string{"query", "op", "value"}, "{query, op, value}: PromQL whose samples are compared"},
}

func (s *sloDraft) prometheusKeys() keys {
	in := &s.Indicator
	query := func(name string, to *string, comment string) key {
		v := laterText{to: to, is: &queryDoc}
		if comment == "" {
			return at(name, v)
		}
		return at(name, noted{v, comment})
	}
	const window = "$window is each window of the rules"
	return keys{
		at("bad", laterText{to: &in.PromBad, is: &counterDoc}),
		at("good", laterText{to: &in.PromGood, is: &counterDoc}),
		at("total", laterText{to: &in.PromTotal, is: &counterDoc}),
		query("error_query", &in.PromBadQuery, window),
		query("good_query", &in.PromGoodQuery, ""),
		query("total_query", &in.PromTotalQuery, ""),
		query("error_ratio_query", &in.PromErrorRatioQuery, window),
		query("query", &in.PromQuery, "a sample is good if it compares so with the value"),
		at("op", later{
			out: func(*encoder) *yamlgen.Node { return textNode(comparisonWord(in.PromOp)) },
			is:  &doc{Kind: shape.Text, Words: comparisonWords},
		}),
		at("value", later{out: func(*encoder) *yamlgen.Node {
			if in.PromQuery == "" {
				return nil
			}
			return yamlgen.Plain(decimalText(in.PromValue))
		}, is: &doc{Kind: shape.Number, Quoted: true}}),
	}
}

func (s *sloDraft) readPrometheus(o *yamldoc.Object) {
	form := 0
	found := ""
	for i, f := range promForms {
		for _, k := range f.keys {
			if !o.Has(k) {
				continue
			}
			if found != "" && form != i {
				o.KeyErrorf(k, "want either "+promForms[form].hint+", or "+f.hint,
					"prometheus: %s and %s exclude each other", k, found)
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
		if ratio, ok := readWindowedQuery(o.Get("error_ratio_query")); ok {
			s.readRatioQuery(ratio, false)
		}
	case 3:
		s.readPromThreshold(o)
	}
}

func (s *sloDraft) readPromCounters(o *yamldoc.Object) {
	s.Indicator.PromTotal, _ = readSeries(
		o.Need("total", "add the selector of all requests, such as total: http_requests_total"))
	bad, good := o.Has("bad"), o.Has("good")
	switch {
	case bad && good:
		o.KeyErrorf("good", "keep one of them", "prometheus: bad and good exclude each other")
	case bad:
		s.Indicator.PromBad, _ = readSeries(o.Get("bad"))
	case good:
		s.Indicator.PromGood, _ = readSeries(o.Get("good"))
	case !o.Meant("bad") && !o.Meant("good"):
		o.Errorf(fmt.Sprintf("add the selector of failed requests, such as bad: '%s'", `http_requests_total{code=~"5.."}`),
			"prometheus: bad is missing")
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
		o.Errorf("add the query of all requests, such as total_query: sum(rate(http_requests_total[$window]))",
			"prometheus: total_query is missing")
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

// comparisonWord is the word of a comparison, "" if there is none.
func comparisonWord(op slo.Comparison) string {
	for word, of := range comparisons {
		if of == op {
			return word
		}
	}
	return ""
}

func (s *sloDraft) readPromThreshold(o *yamldoc.Object) {
	q, ok := readQuery(o.Need("query", "add the query whose samples are compared"))
	s.readCompared(o, q, ok, "set the comparison that makes a sample good: lt, lte, gt or gte",
		"set the value that samples are compared with")
}

// readCompared reads what the samples of a query, if it is ok, are compared with.
func (s *sloDraft) readCompared(o *yamldoc.Object, q *promQuery, ok bool, needOp, needValue string) {
	word, _ := o.Need("op", needOp).Choice(comparisonWords...)
	x, known := o.Need("value", needValue).Float()
	if ok && word != "" && known {
		s.readThresholdQuery(q, comparisons[word], x)
	}
}
