package series

import (
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/zeebo/xxh3"

	"github.com/sloengine/sloengine/ingest/counter"
)

// Unit is a pair of counters, and the SLOs that compare them.
type Unit struct {
	Stream string // the name of what is observed, which no other unit has
	Total  string // a selector of counters, without a range
	Part   string // likewise, of the bad events, or of the good ones
	Good   bool   // Part is that of the good ones
	SLOs   []SLO
}

// SLO is how the events of one SLO look.
type SLO struct {
	Service, Type string
	Owner         string   // the service that a token says
	GroupBy       []string // labels of the series
	Attributes    []string // that have their values; likewise
}

// plan is a compiled unit.
type plan struct {
	Unit
	class counter.Key
	total selector
	part  selector
	// inside: the series of the part are among those of the total.
	inside bool
}

// nameLabel is the label with the name of the metric.
const nameLabel = "__name__"

// pair names the counters in failures: several units may have one of them in common.
func (p *plan) pair() string { return p.Total + " and " + p.Part }

// selector is a parsed selector of series.
type selector struct {
	text     string
	key      counter.Key
	matchers []*labels.Matcher
}

func newPlan(u Unit) (*plan, error) {
	p := &plan{Unit: u, class: xxh3.HashString128(u.Stream)}
	var err error
	if p.total, err = newSelector(u.Total); err != nil {
		return nil, err
	}
	if p.part, err = newSelector(u.Part); err != nil {
		return nil, err
	}
	p.inside = p.total.name() != "" && p.total.contains(&p.part)
	return p, nil
}

func newSelector(text string) (selector, error) {
	s := selector{text: text, key: xxh3.HashString128(text)}
	var err error
	if s.matchers, err = parser.NewParser(parser.Options{}).ParseMetricSelector(text); err != nil {
		return s, fmt.Errorf("selector %s: %w", text, err)
	}
	return s, nil
}

// name is that of the metric; "" if the selector does not say one.
func (s *selector) name() string {
	for _, m := range s.matchers {
		if m.Name == nameLabel && m.Type == labels.MatchEqual {
			return m.Value
		}
	}
	return ""
}

// contains reports whether all series of the other one match, as far as the matchers say so: for each the other one has
// the same, or one that allows a single value, which matches. Buckets of one histogram are of one metric, but apart.
func (s *selector) contains(other *selector) bool {
	for _, m := range s.matchers {
		if !slices.ContainsFunc(other.matchers, func(o *labels.Matcher) bool {
			return o.Name == m.Name && (o.Type == m.Type && o.Value == m.Value ||
				o.Type == labels.MatchEqual && m.Matches(o.Value))
		}) {
			return false
		}
	}
	return true
}

func (s *selector) matches(of seriesLabels) bool {
	for _, m := range s.matchers {
		if !m.Matches(of.get(m.Name)) {
			return false
		}
	}
	return true
}

// seriesLabels are sorted by name.
type seriesLabels []label

type label struct{ name, value string }

func (l seriesLabels) get(name string) string {
	if i, ok := slices.BinarySearchFunc(l, name, func(l label, name string) int {
		return strings.Compare(l.name, name)
	}); ok {
		return l[i].value
	}
	return ""
}

// hash identifies the series, and target what was scraped.
func (l seriesLabels) hash(h *xxh3.Hasher) (series uint64, target counter.Key) {
	h.Reset()
	for _, x := range l {
		if x.name == "job" || x.name == "instance" {
			_, _ = h.WriteString(x.name + "\xff" + x.value + "\xff")
		}
	}
	target = h.Sum128()
	for _, x := range l {
		if x.name != "job" && x.name != "instance" {
			_, _ = h.WriteString(x.name + "\xff" + x.value + "\xff")
		}
	}
	return h.Sum64(), target
}
