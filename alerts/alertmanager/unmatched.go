package alertmanager

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/alertmanager/pkg/labels"
	"gopkg.in/yaml.v3"

	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/slo/yamldoc"
)

// Unmatched finds the routes of a file of receivers, or of a configuration of Alertmanager, that no alert of the rules
// matches, such as those on severities that older versions had.
func Unmatched(name string, data []byte, in rules.Spec, generated []rules.Group) (yamldoc.Problems, error) {
	u := unmatched{file: name, generator: generator{in: in}, severities: map[string]bool{}}
	u.generator.severities()
	for _, g := range generated {
		for _, r := range g.Rules {
			if r.Alert != "" {
				l := maps.Clone(r.Labels)
				l[labelAlertName] = r.Alert
				u.alerts = append(u.alerts, l)
				u.severities[l[series.LabelSeverity]] = true
			}
		}
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if len(doc.Content) == 0 {
		return nil, nil
	}
	root := doc.Content[0]
	if route := child(root, "route"); route != nil {
		err := u.route(route, nil)
		return u.problems, err
	}
	if _, err := ReadReceivers(name, data); err != nil {
		return nil, err
	}
	u.classes("routes", "", child(root, "routes"))
	if services := child(root, "services"); services != nil {
		for i := 0; i+1 < len(services.Content); i += 2 {
			service := services.Content[i].Value
			u.classes("services."+service, service, services.Content[i+1])
		}
	}
	return u.problems, nil
}

type unmatched struct {
	generator
	file       string
	alerts     []map[string]string
	severities map[string]bool // that alerts have
	problems   yamldoc.Problems
}

func child(n *yaml.Node, key string) *yaml.Node {
	for i := 0; n != nil && n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

func (u *unmatched) add(at *yaml.Node, hint, format string, args ...any) {
	u.problems = append(u.problems, yamldoc.Problem{
		Position: yamldoc.Position{File: u.file, Line: at.Line, Column: at.Column}, Severity: yamldoc.SeverityWarning,
		Message: fmt.Sprintf(format, args...), Suggestion: hint,
	})
}

// classes looks for an alert of each class in a mapping of routes, of a service if it is not "".
func (u *unmatched) classes(path, service string, n *yaml.Node) {
	for i := 0; n != nil && i+1 < len(n.Content); i += 2 {
		class := Class(n.Content[i].Value)
		if !slices.ContainsFunc(u.alerts, func(l map[string]string) bool {
			return (service == "" || l[series.LabelService] == service) &&
				slices.Contains(u.class[class], l[series.LabelSeverity])
		}) {
			u.add(n.Content[i], "remove it", "%s.%s: no alert matches it: none has the severity %s", path, class,
				strings.Join(u.class[class], " or "))
		}
	}
}

// route looks for an alert that matches a route of Alertmanager, and those above it.
func (u *unmatched) route(n *yaml.Node, above labels.Matchers) error {
	all := slices.Clone(above)
	var at *yaml.Node
	take := func(node *yaml.Node, ms ...*labels.Matcher) {
		all = append(all, ms...)
		if at == nil {
			at = node
		}
	}
	for _, old := range []struct {
		key string
		op  labels.MatchType
	}{{"match", labels.MatchEqual}, {"match_re", labels.MatchRegexp}} {
		m := child(n, old.key)
		for i := 0; m != nil && i+1 < len(m.Content); i += 2 {
			x, err := labels.NewMatcher(old.op, m.Content[i].Value, m.Content[i+1].Value)
			if err != nil {
				return fmt.Errorf("%s:%d:%d: %w", u.file, m.Line, m.Column, err)
			}
			take(m, x)
		}
	}
	if list := child(n, "matchers"); list != nil {
		for _, x := range list.Content {
			ms, err := labels.ParseMatchers(x.Value)
			if err != nil {
				return fmt.Errorf("%s:%d:%d: %w", u.file, x.Line, x.Column, err)
			}
			take(list, ms...)
		}
	}
	if at != nil && !slices.ContainsFunc(u.alerts, func(l map[string]string) bool { return u.mayMatch(all, l) }) {
		hint := "remove the route, or change its matchers"
		if i := slices.IndexFunc(all, func(m *labels.Matcher) bool { return m.Name == series.LabelSeverity }); i >= 0 {
			hint = "alerts have the severities " + strings.Join(slices.Sorted(maps.Keys(u.severities)), ", ")
		}
		var text []string
		for _, m := range all {
			text = append(text, m.String())
		}
		u.add(at, hint, "no alert matches this route: %s", strings.Join(text, ", "))
		return nil
	}
	if routes := child(n, "routes"); routes != nil {
		for _, r := range routes.Content {
			if err := u.route(r, all); err != nil {
				return err
			}
		}
	}
	return nil
}

// mayMatch reports whether an alert of a rule may match. Labels of groups and of scrapes may have any value.
func (u *unmatched) mayMatch(ms labels.Matchers, l map[string]string) bool {
	return !slices.ContainsFunc(ms, func(m *labels.Matcher) bool {
		value, known := l[m.Name]
		switch {
		case strings.Contains(value, "{{"):
			return false
		case !known && m.Name != series.LabelService && m.Name != series.LabelSLO && !strings.HasPrefix(m.Name, "slo_"):
			return false
		}
		return !m.Matches(value)
	})
}
