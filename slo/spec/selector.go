package spec

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/suggest"
	"github.com/sloengine/sloengine/slo/yamldoc"
)

var promql = parser.NewParser(parser.Options{})

// attributePattern is what attributes of events may be called.
var attributePattern = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9._-]*$`)

// selector is a slo.Selector with what is known of the event types it can match.
type selector struct {
	slo.Selector
	at *yamldoc.Value
	// types are the event types it can match; nil if it does not say.
	types []string
}

// reservedAttribute says why no event has an attribute of the name; "" if events can have it.
func reservedAttribute(name string) string {
	switch {
	case name == "id" || name == "time":
		return "reserved: it is a field of every event that is not matched"
	case name == series.LabelService || name == series.LabelSeverity: // fields of events
		return ""
	case name == series.LabelAlertName || name == series.LabelAlertState || strings.HasPrefix(name, "sloth_"):
		return ""
	}
	return series.Reserved(name)
}

// selector reads label matchers in PromQL syntax. The service of the spec is
// implied, so a matcher for another service could never match.
func readSelector(v *yamldoc.Value, service string) (selector, bool) {
	text, ok := v.Text()
	if !ok {
		return selector{}, false
	}
	if strings.TrimSpace(text) == "" {
		v.Errorf("leave the key out to match every event", "%s is empty", v.What)
		return selector{}, false
	}
	matchers, ok := parseMatchers(v, text)
	if !ok {
		return selector{}, false
	}
	out := selector{at: v}
	for _, m := range matchers {
		if m.Name == model.MetricNameLabel {
			v.Errorf("events have no metric name, write only the braces: {type=\"...\"}", "%s: %s is a metric name", v.What,
				yamldoc.Printable(m.Value))
			return selector{}, false
		}
		sm, err := slo.NewMatcher(m.Name, slo.MatchOp(m.Type.String()), m.Value)
		if err != nil {
			v.Errorf("", "%s: %v", v.What, err)
			return selector{}, false
		}
		out.Selector = append(out.Selector, sm)
		ok = possible(v, text, m, service) && ok
	}
	out.types = pinnedTypes(matchers)
	return out, ok
}

// parseMatchers parses and reports every syntax error at its own place.
func parseMatchers(v *yamldoc.Value, text string) ([]*labels.Matcher, bool) {
	hint := `want PromQL label matchers such as {type="order",outcome!="success"}`
	if t := strings.TrimSpace(text); !strings.HasPrefix(t, "{") && strings.ContainsAny(t, "=~") &&
		!strings.Contains(t, "{") {
		v.Errorf(fmt.Sprintf("did you mean {%s}?", yamldoc.Clip(t)), "%s: the matchers are not in braces", v.What)
		return nil, false
	}
	matchers, err := promql.ParseMetricSelector(text)
	if err != nil {
		parseErrors(v, err, hint)
		return nil, false
	}
	return matchers, true
}

func parseErrors(v *yamldoc.Value, err error, hint string) {
	var list parser.ParseErrors
	if !errors.As(err, &list) {
		v.Errorf(hint, "%s: %s", v.What, yamldoc.Printable(err.Error()))
		return
	}
	for _, e := range list {
		v.ErrorfAt(v.Inside(int(e.PositionRange.Start)), hint, "%s: %s", v.What, yamldoc.Printable(e.Err.Error()))
	}
}

// possible reports matchers that no event of the service can fit.
func possible(v *yamldoc.Value, text string, m *labels.Matcher, service string) bool {
	at := func() Position { return v.Inside(matcherOffset(text, m)) } // nearly always all is well
	if why := reservedAttribute(m.Name); why != "" {
		v.ErrorfAt(at(), "rename the attribute", "%s: no event has the attribute %q, it is %s", v.What,
			yamldoc.Clip(m.Name), why)
		return false
	}
	if !attributePattern.MatchString(m.Name) {
		v.ErrorfAt(at(), "use letters, digits, dots, dashes and underscores, beginning with a letter or underscore",
			"%s: no event has the attribute %q", v.What, yamldoc.Clip(m.Name))
		return false
	}
	switch m.Name {
	case "service":
		if service != "" && !m.Matches(service) {
			v.ErrorfAt(at(), "remove it: the service of the file is implied", "%s: %s never matches, the service is %q", v.What,
				yamldoc.Printable(m.String()), service)
			return false
		}
	case "outcome":
		if !m.Matches("success") && !m.Matches("failure") {
			hint := "the outcome of an event is success or failure"
			if o := otherOutcomes[strings.ToLower(m.Value)]; o != "" {
				hint = fmt.Sprintf("did you mean %q?", o)
			} else if o := suggest.DidYouMean(m.Value, []string{"success", "failure"}); o != "" {
				hint = o
			}
			v.ErrorfAt(at(), hint, "%s: %s never matches", v.What, yamldoc.Printable(m.String()))
			return false
		}
	case "type":
		if m.Type == labels.MatchEqual && m.Value == "" {
			v.ErrorfAt(at(), "every event has a type", "%s: type=\"\" never matches", v.What)
			return false
		}
	}
	return true
}

// otherOutcomes are what other systems call the two outcomes.
var otherOutcomes = map[string]string{
	"failed": "failure", "fail": "failure", "error": "failure", "bad": "failure",
	"succeeded": "success", "successful": "success", "ok": "success", "good": "success",
}

// matcherOffset finds a matcher in the text that it was parsed from.
func matcherOffset(text string, m *labels.Matcher) int {
	re, err := regexp.Compile(`["']?` + regexp.QuoteMeta(m.Name) + `["']?\s*` + regexp.QuoteMeta(m.Type.String()) +
		`\s*["'` + "`" + `]` + regexp.QuoteMeta(m.Value))
	if err == nil {
		if at := re.FindStringIndex(text); at != nil {
			return at[0]
		}
	}
	return 0
}

// pinnedTypes are the event types that matchers name by = or by a regular
// expression that is a list of literals; nil if they leave the type open.
func pinnedTypes(ms []*labels.Matcher) []string {
	var types []string
	pinned := false
	for _, m := range ms {
		if m.Name != "type" {
			continue
		}
		var named []string
		switch m.Type {
		case labels.MatchEqual:
			named = []string{m.Value}
		case labels.MatchRegexp:
			named = m.SetMatches()
		}
		if len(named) > 0 && !pinned {
			types, pinned = slices.Clone(named), true
		}
	}
	if !pinned {
		return nil
	}
	types = slices.DeleteFunc(types, func(t string) bool {
		return t == "" || slices.ContainsFunc(ms, func(m *labels.Matcher) bool { return m.Name == "type" && !m.Matches(t) })
	})
	slices.Sort(types)
	types = slices.Compact(types)
	if types == nil {
		return []string{}
	}
	return types
}

// series reads the selector of an existing Prometheus counter.
func readSeries(v *yamldoc.Value) (string, bool) {
	text, ok := v.Text()
	if !ok {
		return "", false
	}
	hint := `want the selector of a counter such as http_requests_total{code=~"5.."}`
	expr, err := promql.ParseExpr(text)
	if err != nil {
		parseErrors(v, err, hint)
		return "", false
	}
	for {
		p, ok := expr.(*parser.ParenExpr)
		if !ok {
			break
		}
		expr = p.Expr
	}
	sel, ok := expr.(*parser.VectorSelector)
	switch {
	case !ok:
		if m, matrix := expr.(*parser.MatrixSelector); matrix {
			v.ErrorfAt(v.Inside(int(m.PositionRange().Start)), "remove the range, the rules add their own",
				"%s: a range is not allowed", v.What)
			return "", false
		}
		v.ErrorfAt(v.Inside(int(expr.PositionRange().Start)), hint+", the rules add rate() and sum()",
			"%s: this is an expression, not a selector", v.What)
		return "", false
	case sel.OriginalOffset != 0 || sel.OriginalOffsetExpr != nil || sel.Timestamp != nil || sel.StartOrEnd != 0 ||
		sel.Anchored || sel.Smoothed:
		v.Errorf(hint, "%s: modifiers such as offset and @ are not allowed", v.What)
		return "", false
	}
	text = strings.TrimSpace(text)
	if name := metricName(sel); name != "" && sel.Name == "" && !model.LegacyValidation.IsValidMetricName(name) {
		text = sel.String() // {"a.b"} is new in Prometheus 3.0, {__name__="a.b"} is not
	}
	warnQuotedNames(v, sel)
	return text, true
}

func metricName(sel *parser.VectorSelector) string {
	for _, m := range sel.LabelMatchers {
		if m.Name == model.MetricNameLabel && m.Type == labels.MatchEqual {
			return m.Value
		}
	}
	return ""
}

// warnQuotedNames says that an older Prometheus does not load an expression with names in quotes.
func warnQuotedNames(v *yamldoc.Value, expr parser.Expr) {
	name := ""
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		look := func(names ...string) {
			for _, s := range names {
				if !model.LegacyValidation.IsValidLabelName(s) {
					name = s
				}
			}
		}
		switch n := n.(type) {
		case *parser.VectorSelector:
			for _, m := range n.LabelMatchers {
				look(m.Name)
			}
		case *parser.AggregateExpr:
			look(n.Grouping...)
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				look(append(n.VectorMatching.MatchingLabels, n.VectorMatching.Include...)...)
			}
		}
		return nil
	})
	if name != "" {
		v.Warnf("use Prometheus 3.0 or later", "%s: Prometheus before 3.0 does not load rules with the label name %q",
			v.What, yamldoc.Clip(name))
	}
}
