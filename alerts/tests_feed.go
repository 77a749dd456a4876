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

// feed is the series from which rules count the events of one SLO, of two groups where it has groups and both can be
// fed. What happens in a test happens to each of them, so their alerts must differ by nothing but the groups' labels.
type feed struct {
	series []counterFeed
	groups int // 1 for an SLO without groups
}

// counterFeed is one counter, which grows by a part of the good events and a
// part of the bad ones, or a series that is always 1.
type counterFeed struct {
	metric    string
	good, bad bool
	one       bool
}

// values is the counter in promtool's notation, a sample each scrape.
func (c counterFeed) values(phases []phase, scrape time.Duration) string {
	parts, at := []string{"0"}, 0.0
	if c.one {
		parts, at = []string{"1"}, 1
	}
	for _, p := range phases {
		n := int(p.length / scrape)
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
		step = exact(step * scrape.Minutes())
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

// testGroups are the values of the groups that a test feeds, of which each value must fit. There are none if no value
// fits some name.
func testGroups(s *slo.SLO, fits func(name, value string) bool, more func(name string) []string) []slo.Group {
	if len(s.GroupBy) == 0 {
		return []slo.Group{nil}
	}
	out := []slo.Group{{}, {}}
	differ := false
	for i, name := range s.GroupBy {
		var values []string
		for _, g := range s.Expect {
			values = append(values, g[i])
		}
		values = slices.DeleteFunc(append(append(values, more(name)...), "one", "two"), func(v string) bool {
			return !fits(name, v)
		})
		if len(values) == 0 {
			return nil
		}
		second := slices.IndexFunc(values, func(v string) bool { return v != values[0] })
		differ = differ || second >= 0
		out[0], out[1] = append(out[0], values[0]), append(out[1], values[max(0, second)])
	}
	if !differ {
		return out[:1]
	}
	return out
}

// engineGroups are the labels by which the engine exports the groups that a test feeds.
func engineGroups(s *slo.SLO) []map[string]string {
	var out []map[string]string
	groups := testGroups(s, func(string, string) bool { return true }, func(string) []string { return nil })
	for _, g := range groups {
		all := map[string]string{series.LabelSLOID: string(s.ID), series.LabelService: s.ID.Service(),
			series.LabelSLO: s.ID.Name()}
		for i, l := range rules.GroupLabels(s) {
			all[l] = g[i]
		}
		out = append(out, all)
	}
	return out
}

// with is labels and one more.
func with(all map[string]string, name, value string) map[string]string {
	out := maps.Clone(all)
	out[name] = value
	return out
}

func engineFeed(s *slo.SLO) feed {
	var f feed
	for _, group := range engineGroups(s) {
		f.groups++
		if s.Indicator.Kind == slo.KindRatio {
			part := func(i int) string {
				return metricText(series.PartEvents.Name, with(group, series.LabelPart, s.Indicator.Kind.PartNames()[i]))
			}
			f.series = append(f.series, counterFeed{metric: part(0), good: true},
				counterFeed{metric: part(1), good: true, bad: true})
		} else {
			f.series = append(f.series,
				counterFeed{metric: metricText(series.Events.Name, with(group, series.LabelResult, series.ResultGood)), good: true},
				counterFeed{metric: metricText(series.Events.Name, with(group, series.LabelResult, series.ResultBad)), bad: true})
		}
		if s.Budgeting.Method == slo.RatioTimeslices && s.Indicator.Kind != slo.KindThroughput {
			f.series = append(f.series, counterFeed{metric: metricText(series.SliceRatio.Name, group), good: true})
		}
	}
	f.series = append(f.series, counterFeed{metric: metricText(series.Info.Name, map[string]string{
		series.LabelSLOID: string(s.ID), series.LabelService: s.ID.Service(), series.LabelSLO: s.ID.Name(),
		series.LabelObjective: s.Objective.Percent(), series.LabelWindow: s.Window.String(),
	}), one: true})
	return f
}

func metricText(name string, all map[string]string) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(all)) {
		parts = append(parts, slo.Matcher{Name: k, Op: slo.OpEqual, Value: all[k]}.String())
	}
	return name + "{" + strings.Join(parts, ",") + "}"
}

// prometheusFeed makes up counters that the selectors of an indicator find: one that the selector of a part matches,
// and the rest of the total. Both are in the same groups, so a matcher on the label of a group holds for both,
// whichever selector it stands in.
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
	every := slices.Concat(part, total)
	groups := testGroups(s, func(name, value string) bool {
		return matches(every, name, value)
	}, func(name string) []string {
		var out []string
		for _, m := range every {
			if m.Name == name {
				out = append(append(out, candidates(m)...), m.SetMatches()...)
			}
		}
		return out
	})
	if groups == nil {
		return feed{}, errors.New("no group is known that both of its selectors match")
	}
	ofGroup := func(m *labels.Matcher) bool { return slices.Contains(s.GroupBy, m.Name) }
	part, total = slices.DeleteFunc(part, ofGroup), slices.DeleteFunc(total, ofGroup)
	var fed []counterFeed // without the labels of a group
	var own []map[string]string
	add := func(all map[string]string, good, bad bool) {
		fed, own = append(fed, counterFeed{good: good, bad: bad}), append(own, all)
	}
	if both, ok := example(slices.Concat(part, total)); ok {
		rest, ok := outside(part, total)
		if !ok {
			return feed{}, errors.New("its selectors leave no event of a group out")
		}
		add(both, !partIsBad, partIsBad)
		add(rest, partIsBad, !partIsBad)
	} else { // different counters, such as those of a histogram
		one, ok1 := example(part)
		all, ok2 := example(total)
		if !ok1 || !ok2 {
			return feed{}, errors.New("no example of its selectors is known")
		}
		add(one, !partIsBad, partIsBad)
		add(all, true, true)
	}
	f := feed{groups: len(groups)}
	for _, g := range groups {
		for i, c := range fed {
			all := maps.Clone(own[i])
			name := all[model.MetricNameLabel]
			delete(all, model.MetricNameLabel)
			for k, v := range g {
				if v != "" {
					all[s.GroupBy[k]] = v
				}
			}
			c.metric = metricText(name, all)
			f.series = append(f.series, c)
		}
	}
	return f, nil
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
			out, ok := example(slices.DeleteFunc(slices.Concat(total, part), func(x *labels.Matcher) bool {
				return x.Name == m.Name
			}))
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
			if err == nil && !slices.ContainsFunc(selector, func(m *labels.Matcher) bool {
				return !m.Matches(metric.Get(m.Name))
			}) {
				return true
			}
		}
	}
	return false
}
