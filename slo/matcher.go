package slo

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// MatchOp is one of the four operators of a PromQL label matcher.
type MatchOp string

// The operators, spelt as in PromQL.
const (
	OpEqual     MatchOp = "="
	OpNotEqual  MatchOp = "!="
	OpRegexp    MatchOp = "=~"
	OpNotRegexp MatchOp = "!~"
)

// Matcher compares one label with a value. Regular expressions are RE2 and
// anchored at both ends, as in PromQL. Make one with NewMatcher.
type Matcher struct {
	Name  string
	Op    MatchOp
	Value string
	re    *regexp.Regexp
}

// NewMatcher compiles a matcher. It fails on an unknown operator or a regular
// expression that does not compile.
func NewMatcher(name string, op MatchOp, value string) (Matcher, error) {
	m := Matcher{Name: name, Op: op, Value: value}
	switch op {
	case OpEqual, OpNotEqual:
		return m, nil
	case OpRegexp, OpNotRegexp:
		// By itself first: "a)|(b" is no expression, but becomes one in the anchors.
		if _, err := regexp.Compile(value); err != nil {
			return Matcher{}, fmt.Errorf("label %s: %w", name, err)
		}
		re, err := regexp.Compile("^(?s:" + value + ")$")
		if err != nil {
			return Matcher{}, fmt.Errorf("label %s: %w", name, err)
		}
		m.re = re
		return m, nil
	}
	return Matcher{}, fmt.Errorf("label %s: unknown operator %q", name, op)
}

// Matches reports whether the value of the label (""  if it is missing) fits.
func (m Matcher) Matches(value string) bool {
	switch m.Op {
	case OpEqual:
		return value == m.Value
	case OpNotEqual:
		return value != m.Value
	case OpRegexp:
		return m.re.MatchString(value)
	default:
		return !m.re.MatchString(value)
	}
}

// String is the matcher in PromQL syntax. A name that is no label name, such as
// http.status, is quoted; PromQL does not take the replacement character as it is.
func (m Matcher) String() string {
	name := m.Name
	if !isLabelName(name) {
		name = quote(name)
	}
	return name + string(m.Op) + quote(m.Value)
}

func quote(s string) string { return strings.ReplaceAll(strconv.Quote(s), "\uFFFD", `\ufffd`) }

func isLabelName(s string) bool {
	for i, c := range s {
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// Selector is a list of matchers that must all match. The empty selector
// matches everything.
type Selector []Matcher

// Matches reports whether every matcher fits the labels that get looks up.
func (s Selector) Matches(get func(name string) string) bool {
	for _, m := range s {
		if !m.Matches(get(m.Name)) {
			return false
		}
	}
	return true
}

// String is the selector in PromQL syntax, such as {type="task",outcome!="success"}.
func (s Selector) String() string {
	parts := make([]string, len(s))
	for i, m := range s {
		parts[i] = m.String()
	}
	return "{" + strings.Join(parts, ",") + "}"
}
