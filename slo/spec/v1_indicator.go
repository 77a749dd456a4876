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

// indicatorTexts describe the kinds of indicator.
var indicatorTexts = []struct {
	kind          slo.IndicatorKind
	example, text string
}{
	{slo.KindEvents, `{valid: '{type="order"}', bad: '{outcome="failure"}'}`, "Good and bad events."},
	{slo.KindLatency, `{threshold: 300ms}`, "Events with a duration up to a threshold are good."},
	{slo.KindThroughput, `{at_least: 100, per: 1m}`, "Slices of time with enough events are good."},
	{slo.KindRatio, `{numerator: '{type="connected"}', denominator: '{type="applied"}'}`, "One count over another."},
	{slo.KindApdex, `{satisfied: 500ms, tolerating: 2s}`, "A score with two time thresholds."},
	{slo.KindVolume, `{at_least: 10000, per: day, timezone: Europe/Moscow}`, "Days, weeks or months with enough events are good."},
	{slo.KindCompletion, `{started: '{type="order.created"}', finished: '{type="order.shipped"}', key: order_id, within: 15m}`,
		"Work that starts is good if it finishes in time."},
	{slo.KindPrometheus, `{bad: 'http_requests_total{code=~"5.."}', total: 'http_requests_total'}`,
		"Counters or queries of Prometheus, for generated rules only."},
}

var indicatorKinds = func() (kinds []string) {
	for _, t := range indicatorTexts {
		kinds = append(kinds, string(t.kind))
	}
	return kinds
}()

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
	return inside{keys: s.prometheusKeys, then: s.readPrometheus, tall: s.Indicator.PromTotalQuery+s.Indicator.PromErrorRatioQuery != ""}
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
		v.Errorf("keep one, and write a second SLO for the other", "indicator: want one of %s, got %d", anyIndicator, len(kinds))
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
	for _, t := range indicatorTexts {
		kinds = append(kinds, at(string(t.kind), s.of(t.kind), t.example, t.text))
	}
	return inside{keys: func() keys { return kinds }, one: true}.shape()
}

// validKey is the key of the events that an indicator is about.
func (s *sloDraft) validKey() key {
	return at("valid", matchers{&s.Indicator.Valid, &s.valid, s.service, true}, `'{type="order"}'`, "The events that count.").
		or("all events")
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
			`select the bad events, such as {outcome="failure"}`, "be bad"}, `'{outcome="failure"}'`,
			"The bad events among the valid ones. `bad` or `good` is required.").excludes("good"),
		at("good", custom{
			in: func(v *yamldoc.Value) { s.Indicator.Bad = opposite(v, s.service) },
			is: func() doc { return matchersDoc },
		}, `'{outcome="success"}'`, "The good events, by a single matcher, instead of `bad`."),
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
		slo.OpEqual: slo.OpNotEqual, slo.OpNotEqual: slo.OpEqual, slo.OpRegexp: slo.OpNotRegexp, slo.OpNotRegexp: slo.OpRegexp,
	}
	m, err := slo.NewMatcher(m.Name, inverse[m.Op], m.Value)
	if err != nil {
		v.Errorf("", "good: %v", err)
		return nil
	}
	return slo.Selector{m}
}

func (s *sloDraft) latencyKeys() keys {
	return keys{s.validKey(), at("threshold", length{&s.Indicator.Threshold, time.Millisecond, maxWindow}, "300ms", "The longest good duration.").
		need("set the duration up to which an event is good, such as `threshold: 500ms`")}
}

func (s *sloDraft) throughputKeys() keys {
	per := sliceKey("per", &s.Indicator.Per).orShown("1m")
	per.hint, per.example = "", "5m"
	return keys{
		s.validKey(),
		at("at_least", events(&s.Indicator.AtLeast), "100", "The number of events of a good slice.").
			need("set the minimum number of events, such as `at_least: 100`"),
		per,
		s.duringKey("The weekly hours in which slices count."),
		at("capacity", capacity{&s.Indicator.Capacity}, "120 per 1m", "How many events the service can take."),
	}
}

// duringKey is the key of weekly hours, which are read when the other keys are.
func (s *sloDraft) duringKey(text string) key {
	return at("during", custom{
		out: func(*encoder) *yamlgen.Node { return textNode(s.Indicator.During.String()) },
		is:  func() doc { return hoursDoc },
	}, `"Mon-Fri 09:00-18:00 Europe/Moscow"`, text).or("always")
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
			d.Errorf("use a shorter `per` or longer hours", "during: no slice of %s, counted from midnight UTC, lies inside these hours",
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
		at("events", events(&c.Events), "120", "The number of events.").
			need("set how many events the service can take, such as `events: 120`"),
		at("per", length{&c.Per, time.Second, day}, "1m", "The time in which they can be taken.").
			need("set the time that these events may take, such as `per: 1m`"),
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
		v.Errorf("write it as in `capacity: 120 per 1m`, with 1 to 4294967295 events and a time from 1s to 1d", "capacity: invalid %q", text)
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
	return eitherShape(doc{Kind: shape.Text, Pattern: `^[0-9]+ per [0-9a-z]+$`, Note: "number of events per time"}, c.keys().shape())
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

func (s *sloDraft) prometheusKeys() keys {
	in := &s.Indicator
	part := func(name string, to *string, is *doc, example, text string) key {
		return at(name, custom{out: func(*encoder) *yamlgen.Node { return textNode(*to) }, is: func() doc { return *is }}, example, text)
	}
	windowed := func(name string, to *string, example, text string) key {
		k := part(name, to, &queryDoc, example, text)
		k.value = noted{k.value, "$window is each window of the rules"}
		return k
	}
	query := part("query", &in.PromQuery, &queryDoc, "max(queue_length)", "A query whose samples are compared with `value`.")
	query.value = noted{query.value, "a sample is good if it compares so with the value"}
	return keys{
		part("bad", &in.PromBad, &counterDoc, `'http_requests_total{code=~"5.."}'`, "The counter of bad events.").
			excludes("good", "error_query", "error_ratio_query", "query").requires("total"),
		part("good", &in.PromGood, &counterDoc, `'http_requests_total{code!~"5.."}'`, "The counter of good events, instead of `bad`.").
			excludes("error_query", "good_query", "total_query", "error_ratio_query", "query").requires("total"),
		part("total", &in.PromTotal, &counterDoc, "http_requests_total", "The counter of all events, with `bad` or `good`.").
			excludes("error_query", "good_query", "total_query", "error_ratio_query", "query"),
		windowed("error_query", &in.PromBadQuery, `'sum(rate(http_requests_total{code=~"5.."}[$window]))'`,
			"The rate of bad events, with `$window` as the range.").
			excludes("good_query", "error_ratio_query", "query").requires("total_query"),
		part("good_query", &in.PromGoodQuery, &queryDoc, `'sum(rate(http_requests_total{code!~"5.."}[$window]))'`,
			"The rate of good events, instead of `error_query`.").
			excludes("bad", "error_ratio_query", "query").requires("total_query"),
		part("total_query", &in.PromTotalQuery, &queryDoc, "'sum(rate(http_requests_total[$window]))'",
			"The rate of all events, with `error_query` or `good_query`.").excludes("bad", "error_ratio_query", "query"),
		windowed("error_ratio_query", &in.PromErrorRatioQuery,
			"'sum(rate(errors_total[$window])) / sum(rate(requests_total[$window]))'", "The ratio of bad events.").excludes("query"),
		query.requires("op", "value"),
		at("op", custom{
			out: func(*encoder) *yamlgen.Node { return textNode(comparisonWord(in.PromOp)) },
			is:  func() doc { return wordsShape(comparisonWords...) },
		}, "lt", "The comparison that makes a sample good.").requires("query", "value"),
		at("value", custom{
			out: func(*encoder) *yamlgen.Node {
				if in.PromQuery == "" {
					return nil
				}
				return yamlgen.Plain(decimalText(in.PromValue))
			},
			is: func() doc { return doc{Kind: shape.Number, Quoted: true} },
		}, "100", "The value that samples are compared with.").requires("query", "op"),
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
