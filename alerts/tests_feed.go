package alerts

import (
	"errors"
	"fmt"
	"maps"
	"regexp/syntax"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/slo"
)

// phase is a period of the traffic of a test: a share of bad events in [0,1],
// no events, or no samples.
type phase struct {
	length time.Duration
	share  float64
}

const (
	silence = -1
	gone    = -2
)

// feed is the series from which rules count the events of one SLO.
type feed struct{ series []counterFeed }

// counterFeed is one counter, which grows by a part of the good events and a
// part of the bad ones, or a series that is always 1.
type counterFeed struct {
	metric    string
	good, bad bool
	one       bool
}

// values is the counter in promtool's notation, a sample a minute.
func (c counterFeed) values(phases []phase) string {
	parts, at := []string{"0"}, 0.0
	if c.one {
		parts, at = []string{"1"}, 1
	}
	for _, p := range phases {
		n := int(p.length / testScrape)
		if n == 0 {
			continue
		}
		if p.share == gone {
			parts = append(parts, fmt.Sprintf("_x%d", n))
			continue
		}
		step := 0.0
		if p.share != silence && !c.one {
			if c.good {
				step += (1 - p.share) * testPerMinute
			}
			if c.bad {
				step += p.share * testPerMinute
			}
		}
		step = exact(step)
		// The notation gives one sample more than its steps.
		parts = append(parts, fmt.Sprintf("%s+%sx%d", number(at+step), number(step), n-1))
		at = exact(at + float64(n)*step)
	}
	return strings.Join(parts, " ")
}

var errFree = errors.New("its query is free, no counter is known to feed it")

func newFeed(s *slo.SLO) (feed, error) {
	switch s.Indicator.PromForm() {
	case slo.PromNone:
		return engineFeed(s), nil
	case slo.PromCounters:
		return prometheusFeed(s)
	}
	return feed{}, errFree
}

// groupValues are values for the labels of one group.
func groupValues(s *slo.SLO) map[string]string {
	out := map[string]string{}
	for i, l := range rules.GroupLabels(s) {
		out[l] = "one"
		if len(s.Expect) > 0 && i < len(s.Expect[0]) {
			out[l] = s.Expect[0][i]
		}
	}
	return out
}

func engineFeed(s *slo.SLO) feed {
	metric := func(name, result string) string {
		all := groupValues(s)
		all[series.LabelSLOID], all[series.LabelService], all[series.LabelSLO] = string(s.ID), s.ID.Service(), s.ID.Name()
		if result != "" {
			all[series.LabelResult] = result
		}
		return metricText(name, all)
	}
	counters := []counterFeed{
		{metric: metric(series.Events.Name, series.ResultGood), good: true},
		{metric: metric(series.Events.Name, series.ResultBad), bad: true},
	}
	if s.Indicator.Kind == slo.KindRatio {
		part := func(i int) string {
			all := groupValues(s)
			all[series.LabelSLOID], all[series.LabelService], all[series.LabelSLO] = string(s.ID), s.ID.Service(), s.ID.Name()
			all[series.LabelPart] = s.Indicator.Kind.PartNames()[i]
			return metricText(series.PartEvents.Name, all)
		}
		counters = []counterFeed{{metric: part(0), good: true}, {metric: part(1), good: true, bad: true}}
	}
	f := feed{append(counters, []counterFeed{
		{metric: metricText(series.Info.Name, map[string]string{
			series.LabelSLOID: string(s.ID), series.LabelService: s.ID.Service(), series.LabelSLO: s.ID.Name(),
			series.LabelObjective: s.Objective.Percent(), series.LabelWindow: s.Window.String(),
		}), one: true},
	}...)}
	if s.Budgeting.Method == slo.RatioTimeslices && s.Indicator.Kind != slo.KindThroughput {
		f.series = append(f.series, counterFeed{metric: metric(series.SliceRatio.Name, ""), good: true})
	}
	return f
}

func metricText(name string, all map[string]string) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(all)) {
		parts = append(parts, k+"="+quote(all[k]))
	}
	return name + "{" + strings.Join(parts, ",") + "}"
}

// prometheusFeed makes up counters that the selectors of an indicator find: one
// that the selector of a part matches, and the rest of the total.
func prometheusFeed(s *slo.SLO) (feed, error) {
	in := &s.Indicator
	text, partIsBad := in.PromGood, false
	if in.PromBad != "" {
		text, partIsBad = in.PromBad, true
	}
	p := parser.NewParser(parser.Options{})
	part, err := p.ParseMetricSelector(strings.Trim(strings.TrimSpace(text), "()"))
	if err != nil {
		return feed{}, errFree
	}
	total, err := p.ParseMetricSelector(strings.Trim(strings.TrimSpace(in.PromTotal), "()"))
	if err != nil {
		return feed{}, errFree
	}
	both, ok := example(slices.Concat(part, total))
	if !ok {
		// Different counters, such as those of a histogram.
		one, ok1 := example(part)
		all, ok2 := example(total)
		if !ok1 || !ok2 {
			return feed{}, errors.New("no example of its selectors is known")
		}
		return feed{[]counterFeed{
			{metric: withGroup(s, one), good: !partIsBad, bad: partIsBad},
			{metric: withGroup(s, all), good: true, bad: true},
		}}, nil
	}
	rest, ok := outside(part, total)
	if !ok {
		return feed{}, errors.New("its selectors leave no event out")
	}
	return feed{[]counterFeed{
		{metric: withGroup(s, both), good: !partIsBad, bad: partIsBad},
		{metric: withGroup(s, rest), good: partIsBad, bad: !partIsBad},
	}}, nil
}

func withGroup(s *slo.SLO, all map[string]string) string {
	name := all[model.MetricNameLabel]
	out := maps.Clone(all)
	delete(out, model.MetricNameLabel)
	for k, v := range groupValues(s) {
		if _, taken := out[k]; !taken {
			out[k] = v
		}
	}
	return metricText(name, out)
}

// example finds labels that all matchers match.
func example(ms []*labels.Matcher) (map[string]string, bool) {
	out := map[string]string{}
	for _, m := range ms {
		if _, done := out[m.Name]; done {
			continue
		}
		for _, v := range candidates(m) {
			if matches(ms, m.Name, v) {
				out[m.Name] = v
				break
			}
		}
		if _, done := out[m.Name]; !done {
			if !matches(ms, m.Name, "") {
				return nil, false
			}
			out[m.Name] = ""
		}
	}
	maps.DeleteFunc(out, func(_, v string) bool { return v == "" })
	return out, out[model.MetricNameLabel] != ""
}

// outside finds labels that the total matches and the part does not.
func outside(part, total []*labels.Matcher) (map[string]string, bool) {
	for _, m := range part {
		if m.Name == model.MetricNameLabel {
			continue
		}
		for _, v := range []string{"200", "ok", "none", ""} {
			if m.Matches(v) || !matches(total, m.Name, v) {
				continue
			}
			out, ok := example(slices.DeleteFunc(slices.Concat(total, part), func(x *labels.Matcher) bool { return x.Name == m.Name }))
			if !ok {
				continue
			}
			if v != "" {
				out[m.Name] = v
			}
			return out, true
		}
	}
	return nil, false
}

func matches(ms []*labels.Matcher, name, value string) bool {
	return !slices.ContainsFunc(ms, func(m *labels.Matcher) bool { return m.Name == name && !m.Matches(value) })
}

// candidates are values that a matcher may match.
func candidates(m *labels.Matcher) []string {
	switch m.Type {
	case labels.MatchEqual:
		return []string{m.Value}
	case labels.MatchRegexp:
		re, err := syntax.Parse(m.Value, syntax.Perl)
		if err != nil {
			return nil
		}
		return []string{sampleOf(re.Simplify())}
	}
	return []string{"", "200", "ok", "none"}
}

// sampleOf is some text that a regular expression matches, in most cases.
func sampleOf(re *syntax.Regexp) string {
	switch re.Op {
	case syntax.OpLiteral:
		return string(re.Rune)
	case syntax.OpCharClass:
		if len(re.Rune) > 0 {
			return string(re.Rune[0])
		}
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return "0"
	case syntax.OpCapture, syntax.OpPlus, syntax.OpAlternate:
		return sampleOf(re.Sub[0])
	case syntax.OpRepeat:
		return strings.Repeat(sampleOf(re.Sub[0]), max(1, re.Min))
	case syntax.OpStar, syntax.OpQuest:
		return sampleOf(re.Sub[0])
	case syntax.OpConcat:
		var b strings.Builder
		for _, sub := range re.Sub {
			b.WriteString(sampleOf(sub))
		}
		return b.String()
	}
	return ""
}

// sharesCounters finds a subject whose made-up counters an SLO would count as
// well, or the other way round: what is fed to one would disturb the other.
func sharesCounters(s *slo.SLO, f feed, subjects []subject) (slo.ID, bool) {
	for _, other := range subjects {
		if finds(s, other.feed) || finds(other.SLO, f) {
			return other.ID, true
		}
	}
	return "", false
}

// finds reports whether a selector of the SLO matches a series of the feed.
func finds(s *slo.SLO, f feed) bool {
	p := parser.NewParser(parser.Options{})
	for _, text := range []string{s.Indicator.PromBad, s.Indicator.PromGood, s.Indicator.PromTotal} {
		selector, err := p.ParseMetricSelector(strings.Trim(strings.TrimSpace(text), "()"))
		if err != nil {
			continue // empty, or free: nothing is fed to it
		}
		for _, c := range f.series {
			metric, err := p.ParseMetric(c.metric)
			if err == nil && !slices.ContainsFunc(selector, func(m *labels.Matcher) bool { return !m.Matches(metric.Get(m.Name)) }) {
				return true
			}
		}
	}
	return false
}
