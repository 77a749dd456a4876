package series

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/zeebo/xxh3"

	"github.com/sloengine/sloengine/ingest/counter"
)

// Unit is a pair of counters or queries, and the SLOs that compare them.
type Unit struct {
	Stream string // the name of what is observed, which no other unit has
	Form   Form
	Total  string             // a selector of counters, without a range; of other forms a query
	Part   string             // likewise, of the bad events, or of the good ones
	Good   bool               // Part is that of the good ones
	Every  time.Duration      // how often queries are evaluated
	Holds  func(float64) bool // of a Gauge: whether a sample is good
	SLOs   []SLO

	// Of one of several servers: the stream of all of them, and that of the groups that the server has.
	base, groups string
}

// SLO is how the events of one SLO look.
type SLO struct {
	ID            string
	Service, Type string
	Owner         string        // the service that a token says
	GroupBy       []string      // labels of the series
	Attributes    []string      // that have their values; likewise
	Slice         time.Duration // that it judges; 0: it judges events
}

func (s *SLO) equal(o *SLO) bool {
	return s.ID == o.ID && s.Service == o.Service && s.Type == o.Type && s.Owner == o.Owner && s.Slice == o.Slice &&
		slices.Equal(s.GroupBy, o.GroupBy) && slices.Equal(s.Attributes, o.Attributes)
}

// plan is a compiled unit.
type plan struct {
	Unit
	class counter.Key
	total selector
	part  selector
	// inside: the series of the part are among those of the total.
	inside bool
	weight float64 // of a sample of a query, in events; 0 if it does not say
	native *span   // what counts of native histograms; nil: samples are numbers

	former []former // who counted before and is not forgotten yet
	final  bool     // one server knows that there is none
	since  int64    // Unix nanoseconds; they counted all samples up to it
}

// nameLabel is the label with the name of the metric.
const nameLabel = "__name__"

// pair names the SLOs and the counters in failures: several units may have some of them in common.
func (p *plan) pair() string {
	ids := make([]string, 0, len(p.SLOs))
	for i := range p.SLOs[:min(len(p.SLOs), 5)] {
		ids = append(ids, p.SLOs[i].ID)
	}
	name := strings.Join(ids, ", ")
	if more := len(p.SLOs) - len(ids); more > 0 {
		name += fmt.Sprintf(" and %d more", more)
	}
	if p.Form != Counters {
		return name
	}
	return name + ": " + p.Total + " and " + p.Part
}

// selector is a parsed selector of series.
type selector struct {
	ask       string // what the server is asked, which does not know its external labels
	key       counter.Key
	matchers  []*labels.Matcher
	elsewhere bool // other servers have its series
}

func newPlan(u Unit, window time.Duration, external seriesLabels) (*plan, error) {
	p := &plan{Unit: u, class: xxh3.HashString128(u.Stream)}
	if u.Form != Counters {
		p.total.ask, _ = external.query(u.Total)
		p.part.ask, _ = external.query(u.Part)
		return p, p.weigh(window)
	}
	var err error
	if p.total, err = newSelector(u.Total, external); err != nil {
		return nil, err
	}
	if p.part, err = newSelector(u.Part, external); err != nil {
		return nil, err
	}
	p.inside = p.total.name() != "" && p.total.contains(&p.part)
	return p, nil
}

// newSelector reads a selector of the series of a server with external labels.
func newSelector(text string, external seriesLabels) (selector, error) {
	s := selector{ask: text, key: xxh3.HashString128(text)}
	var err error
	if s.matchers, err = parser.NewParser(parser.Options{}).ParseMetricSelector(text); err != nil {
		return s, fmt.Errorf("selector %s: %w", text, err)
	}
	var own []*labels.Matcher
	if own, s.elsewhere = external.own(s.matchers); len(own) < len(s.matchers) {
		ask := make([]string, len(own))
		for i, m := range own {
			ask[i] = m.String()
		}
		s.ask = "{" + strings.Join(ask, ",") + "}"
	}
	return s, nil
}

// own are the matchers that the server can judge. Elsewhere: the others exclude its external labels.
func (l seriesLabels) own(all []*labels.Matcher) (own []*labels.Matcher, elsewhere bool) {
	for _, m := range all {
		if value := l.get(m.Name); value == "" {
			own = append(own, m)
		} else if !m.Matches(value) {
			elsewhere = true
		}
	}
	return own, elsewhere
}

// query is what the server is asked. Elsewhere: all of its selectors exclude the external labels. If only some do, they
// select nothing, as in "a or b" and "a / b".
func (l seriesLabels) query(text string) (ask string, elsewhere bool) {
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	if err != nil || len(l) == 0 {
		return text, false // the server says what is wrong with it
	}
	selectors, excluded, changed := 0, 0, false
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		s, ok := n.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		own, not := l.own(s.LabelMatchers)
		selectors++
		changed = changed || len(own) < len(s.LabelMatchers)
		if not {
			excluded++
			own = append(own, labels.MustNewMatcher(labels.MatchEqual, l[0].name, ""),
				labels.MustNewMatcher(labels.MatchNotEqual, l[0].name, ""))
		}
		s.LabelMatchers = own
		return nil
	})
	if changed {
		text = expr.String()
	}
	return text, selectors > 0 && excluded == selectors
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

// Relabel says which series the units need: those where the values of the labels, joined by semicolons, match the
// expression. Of a selector that excludes values it takes these, too.
func Relabel(units []Unit) (names []string, expr string, err error) {
	var all []selector
	for _, u := range units {
		p, err := newPlan(u, 0, nil)
		if err != nil {
			return nil, "", err
		}
		if all = append(all, p.total); !p.inside {
			all = append(all, p.part)
		}
	}
	names = []string{nameLabel}
	for _, s := range all {
		for _, m := range s.matchers {
			if (m.Type == labels.MatchEqual || m.Type == labels.MatchRegexp) && !slices.Contains(names, m.Name) {
				names = append(names, m.Name)
			}
		}
	}
	slices.Sort(names[1:])
	var any []string
	for _, s := range all {
		values := make([]string, len(names))
		for i, name := range names {
			values[i] = s.values(name)
		}
		any = append(any, strings.Join(values, ";"))
	}
	slices.Sort(any)
	return names, strings.Join(slices.Compact(any), "|"), nil
}

// values is an expression for the values of a label that the selector allows.
func (s *selector) values(name string) string {
	for _, m := range s.matchers {
		switch {
		case m.Name != name:
		case m.Type == labels.MatchEqual:
			return regexp.QuoteMeta(m.Value)
		case m.Type == labels.MatchRegexp:
			return "(?:" + m.Value + ")"
		}
	}
	return ".*"
}
