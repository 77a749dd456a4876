package diff

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/rules/explain"
	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/slo"
)

// Groups compares two sets of rule groups: alerts by their name and labels,
// recording rules by what they record and their labels. It fails on an
// expression that does not parse.
func Groups(old, new []rules.Group) ([]Change, error) {
	was, err := index(old)
	if err != nil {
		return nil, fmt.Errorf("old rules: %w", err)
	}
	now, err := index(new)
	if err != nil {
		return nil, fmt.Errorf("new rules: %w", err)
	}
	keys := slices.Collect(maps.Keys(was))
	keys = append(keys, slices.Collect(maps.Keys(now))...)
	slices.Sort(keys)
	var out []Change
	for _, k := range slices.Compact(keys) {
		o, n := was[k], now[k]
		switch {
		case o == nil:
			out = append(out, Change{Kind: Added, What: n.what, ID: n.id, New: n.conditions()})
		case n == nil:
			out = append(out, Change{Kind: Removed, What: o.what, ID: o.id, Old: o.conditions()})
		default:
			out = append(out, compareRules(o, n)...)
		}
	}
	return out, nil
}

// rule is a rule prepared for comparison.
type rule struct {
	*rules.Rule
	interval time.Duration
	what, id string
	expr     parser.Expr
	text     string // the expression as the parser writes it
	compared []comparison
}

// comparison is a recorded error ratio compared with a number.
type comparison struct {
	window    string
	threshold float64
}

// identity are the labels that tell alerts and records of one name apart, and
// survive a change of thresholds.
var identity = []string{
	series.LabelSLOID, series.LabelSlothID, series.LabelService, series.LabelSLA, series.LabelComponent, "agreement", "tier", "severity",
	series.LabelCorrections, series.LabelCalendar, series.LabelTimezone,
}

func index(groups []rules.Group) (map[string]*rule, error) {
	p := parser.NewParser(parser.Options{})
	out := map[string]*rule{}
	for _, g := range groups {
		for i := range g.Rules {
			r := &rule{Rule: &g.Rules[i], interval: g.Interval}
			expr, err := p.ParseExpr(r.Expr)
			if err != nil {
				return nil, fmt.Errorf("group %s: rule %s%s: %w", g.Name, r.Record, r.Alert, err)
			}
			r.expr, r.text = expr, expr.String()
			r.what, r.id = "record", r.Record
			if r.Alert != "" {
				r.what, r.id = "alert", r.Alert
				r.compared = comparisons(expr)
			}
			var own []string
			for _, l := range identity {
				if v := r.Labels[l]; v != "" {
					own = append(own, l+"="+strconv.Quote(v))
				}
			}
			if len(own) == 0 || r.Labels[series.LabelSLOID] == "" && r.Labels[series.LabelSlothID] == "" {
				// What a rule passes on says nothing of its labels: its group does.
				own = append(own, "group="+strconv.Quote(g.Name))
			}
			r.id += "{" + strings.Join(own, ",") + "}"
			key := r.what + " " + r.id
			for n := 2; out[key] != nil; n++ {
				key = fmt.Sprintf("%s %s #%d", r.what, r.id, n)
			}
			out[key] = r
		}
	}
	return out, nil
}

var ratioName = regexp.MustCompile("^" + regexp.QuoteMeta(series.ErrorRatioPrefix) + "_?([0-9a-z]+)$")

// comparisons finds where error ratios are compared with numbers, each once.
func comparisons(e parser.Node) []comparison {
	var out []comparison
	add := func(c comparison) {
		if !slices.Contains(out, c) {
			out = append(out, c)
		}
	}
	if b, ok := e.(*parser.BinaryExpr); ok && (b.Op == parser.GTR || b.Op == parser.GTE) {
		if x, ok := constant(fullyObserved(b.RHS)); ok {
			for _, w := range windows(b.LHS) {
				add(comparison{w, round(x)})
			}
		}
	}
	for child := range parser.ChildrenIter(e) {
		for _, c := range comparisons(child) {
			add(c)
		}
	}
	return out
}

// fullyObserved is a threshold as it is where the whole window was observed: what
// it is divided by.
func fullyObserved(e parser.Expr) parser.Expr {
	b, ok := e.(*parser.BinaryExpr)
	if !ok || b.Op != parser.DIV {
		return e
	}
	observed := false
	parser.Inspect(b.RHS, func(n parser.Node, _ []parser.Node) error {
		v, ok := n.(*parser.VectorSelector)
		observed = observed || ok && strings.HasPrefix(v.Name, series.ObservedRatioPrefix)
		return nil
	})
	if observed {
		return b.LHS
	}
	return e
}

func windows(e parser.Node) []string {
	var out []string
	if v, ok := e.(*parser.VectorSelector); ok {
		if m := ratioName.FindStringSubmatch(v.Name); m != nil {
			out = append(out, m[1])
		}
	}
	for child := range parser.ChildrenIter(e) {
		out = append(out, windows(child)...)
	}
	return out
}

func constant(e parser.Expr) (float64, bool) {
	switch e := e.(type) {
	case *parser.NumberLiteral:
		return e.Val, true
	case *parser.ParenExpr:
		return constant(e.Expr)
	case *parser.BinaryExpr:
		a, ok1 := constant(e.LHS)
		b, ok2 := constant(e.RHS)
		if !ok1 || !ok2 {
			return 0, false
		}
		switch e.Op {
		case parser.MUL:
			return a * b, true
		case parser.DIV:
			return a / b, true
		case parser.ADD:
			return a + b, true
		case parser.SUB:
			return a - b, true
		}
	}
	return 0, false
}

func (r *rule) conditions() string {
	var parts []string
	for _, c := range r.compared {
		parts = append(parts, fmt.Sprintf("%s above %s %%", c.window, slo.FormatRatio(round(100*c.threshold))))
	}
	return strings.Join(slices.Compact(parts), ", ")
}

// policy is the alert as windows and thresholds; false if it is something else.
func (r *rule) policy() (explain.Policy, bool) {
	c := explain.Condition{For: r.For}
	for _, x := range r.compared {
		d, err := slo.ParseDuration(x.window)
		if err != nil {
			return nil, false
		}
		c.Windows = append(c.Windows, explain.Window{Length: d, Factor: x.threshold})
	}
	return explain.Policy{c}, len(c.Windows) > 0
}

func compareRules(o, n *rule) []Change {
	f := fields{what: n.what, id: n.id}
	if o.text != n.text || o.For != n.For {
		why := ""
		before, ok1 := o.policy()
		after, ok2 := n.policy()
		if ok1 && ok2 {
			highest := 0.0
			for _, c := range slices.Concat(o.compared, n.compared) {
				highest = max(highest, c.threshold)
			}
			why = meaning(before, after, 1, min(1, round(2*highest)))
		}
		a, b := o.conditions(), n.conditions()
		switch {
		case o.text == n.text:
		case a != b:
			f.add("condition", a, b, why)
		case n.what == "alert":
			f.add("expression", o.text, n.text, why)
		default:
			f.add("expression", o.text, n.text, "")
		}
		if o.For != n.For {
			f.add("for", slo.FormatDuration(o.For), slo.FormatDuration(n.For), why)
		}
	}
	f.add("keep_firing_for", window(o.KeepFiringFor), window(n.KeepFiringFor), "")
	f.add("interval", window(o.interval), window(n.interval), "")
	f.add("labels", labels(o.Labels), labels(n.Labels), "")
	f.add("annotations", labels(o.Annotations), labels(n.Annotations), "")
	return f.out
}
