package spec

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/yamldoc"
)

// maxQuery bounds queries, in bytes.
const maxQuery = 16 << 10

// windowText stands for the window while a query is parsed. It is as long as the
// shortest placeholder, so that places stay where they are, and nobody writes it.
const (
	windowText  = "1h7m11s"
	windowProbe = time.Hour + 7*time.Minute + 11*time.Second
)

var (
	windowTemplate = regexp.MustCompile(`\{\{-?\s*\.window\s*-?\}\}|\$window`)
	otherTemplate  = regexp.MustCompile(`\{\{[^}]*\}?\}?|\$[a-zA-Z_{][a-zA-Z_]*\}?`)
)

// promQuery is a query that a spec brings along.
type promQuery struct {
	at     *yamldoc.Value
	text   string // with slo.PromWindow for the window
	expr   parser.Expr
	places [][]int // of the window in the text as written
}

// windowed reports whether the query says where the window goes.
func (q *promQuery) windowed() bool { return len(q.places) > 0 }

// query reads PromQL in which {{.window}} or $window stands for the window.
func readQuery(v *yamldoc.Value) (*promQuery, bool) {
	return readQueryAs(v, same)
}

// readQueryAs reads a query that another format writes in its own way. Places in it are exact up to what changes.
func readQueryAs(v *yamldoc.Value, rewrite func(string) string) (*promQuery, bool) {
	text, ok := v.TextUpTo(maxQuery)
	if !ok {
		return nil, false
	}
	text = rewrite(text)
	q := &promQuery{at: v}
	filled := text
	if strings.ContainsAny(text, "{$") {
		q.places = windowTemplate.FindAllStringIndex(text, -1)
	}
	if q.windowed() {
		var with, show strings.Builder
		last := 0
		for _, p := range q.places {
			with.WriteString(text[last:p[0]])
			with.WriteString(windowText)
			with.WriteString(strings.Repeat(" ", p[1]-p[0]-len(windowText)))
			show.WriteString(text[last:p[0]])
			show.WriteString(slo.PromWindow)
			last = p[1]
		}
		with.WriteString(text[last:])
		show.WriteString(text[last:])
		filled, text = with.String(), show.String()
	}
	q.text = strings.TrimSpace(text)
	expr, err := promql.ParseExpr(filled)
	if err != nil {
		if at := otherTemplate.FindStringIndex(filled); at != nil {
			v.ErrorfAt(v.Inside(at[0]), "only the window is substituted, write out the rest", "%s: unknown template %s", v.What,
				yamldoc.Printable(yamldoc.Clip(filled[at[0]:at[1]])))
			return nil, false
		}
		if v.Lenient() {
			v.Warnf("load the rules with vmalert",
				"%s: not PromQL, so Prometheus refuses its rules: %s", v.What, yamldoc.Printable(firstLine(err)))
			q.expr = unknownExpr
			return q, true
		}
		parseErrors(
			v, err, "want PromQL with {{.window}} for the window, such as sum(rate(http_requests_total[{{.window}}]))")
		return nil, false
	}
	q.expr = expr
	warnQuotedNames(v, expr)
	if t := expr.Type(); t != parser.ValueTypeVector {
		hint := "want an expression that returns a vector, such as sum(rate(http_requests_total[{{.window}}]))"
		if t == parser.ValueTypeMatrix {
			hint = "wrap it in rate() or another function"
		}
		v.Errorf(hint, "%s: the query returns a %s", v.What, t)
		return nil, false
	}
	return q, true
}

// unknownExpr stands for a query that cannot be parsed: nobody knows what labels its samples have.
var unknownExpr = &parser.Call{Func: parser.Functions["label_replace"]}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// windowedQuery is query for one that must have the window somewhere.
func readWindowedQuery(v *yamldoc.Value) (*promQuery, bool) {
	q, ok := readQuery(v)
	if ok && !q.windowed() {
		v.Errorf("write {{.window}} or $window for the range, such as [{{.window}}]",
			"%s: the query contains no window, so all windows would return the same value", v.What)
		return nil, false
	}
	return q, ok
}

// counter is a counter that a query takes the rate of.
type counter struct {
	selector string
	matchers []*labels.Matcher
	by       []string
	function string        // rate or increase; "" for the bare counter
	fixed    time.Duration // its range where that is not the window
}

// counterIn recognises sum(rate(selector[window])), with labels to sum by or not.
func (q *promQuery) counterIn(e parser.Expr) (counter, bool) {
	agg, ok := unwrap(e).(*parser.AggregateExpr)
	if !ok || agg.Op != parser.SUM || agg.Without {
		return counter{}, false
	}
	c := counter{by: agg.Grouping}
	inner := unwrap(agg.Expr)
	if call, ok := inner.(*parser.Call); ok {
		if call.Func.Name != "rate" && call.Func.Name != "increase" {
			return counter{}, false
		}
		m, ok := unwrap(call.Args[0]).(*parser.MatrixSelector)
		if !ok || m.RangeExpr != nil {
			return counter{}, false
		}
		c.function, inner = call.Func.Name, m.VectorSelector
		if m.Range != windowProbe {
			c.fixed = m.Range
		}
	}
	sel, ok := inner.(*parser.VectorSelector)
	if !ok || !plain(sel) || q.windowIn(sel) {
		return counter{}, false
	}
	c.selector, c.matchers = sel.String(), sel.LabelMatchers
	return c, true
}

// windowIn reports whether the window is part of a selector.
func (q *promQuery) windowIn(sel *parser.VectorSelector) bool {
	r := sel.PositionRange()
	return slices.ContainsFunc(q.places, func(p []int) bool { return p[0] >= int(r.Start) && p[0] < int(r.End) })
}

func unwrap(e parser.Expr) parser.Expr {
	for {
		p, ok := e.(*parser.ParenExpr)
		if !ok {
			return e
		}
		e = p.Expr
	}
}

// plain reports whether a selector has no offset, @ or other modifier.
func plain(s *parser.VectorSelector) bool {
	return s.OriginalOffset == 0 && s.OriginalOffsetExpr == nil && s.Timestamp == nil && s.StartOrEnd == 0 &&
		!s.Anchored && !s.Smoothed
}

// same reports whether two counters are taken in the same way, so that their
// difference and ratio can be had from their rates.
func (c counter) same(d counter) bool {
	return c.function == d.function && c.fixed == d.fixed && slices.Equal(sorted(c.by), sorted(d.by))
}

// sameSeries reports whether two counters are the same series.
func (c counter) sameSeries(d counter) bool {
	text := func(ms []*labels.Matcher) []string {
		out := make([]string, len(ms))
		for i, m := range ms {
			out[i] = m.String()
		}
		slices.Sort(out)
		return slices.Compact(out)
	}
	return slices.Equal(text(c.matchers), text(d.matchers))
}

func sorted(s []string) []string { return slices.Sorted(slices.Values(s)) }

// binary takes a plain operation between two vectors apart.
func binary(e parser.Expr, op parser.ItemType) (l, r parser.Expr, ok bool) {
	b, ok := unwrap(e).(*parser.BinaryExpr)
	if !ok || b.Op != op || b.ReturnBool {
		return nil, nil, false
	}
	if m := b.VectorMatching; m != nil &&
		(m.On || len(m.MatchingLabels) > 0 || m.Card != parser.CardOneToOne && op != parser.LOR) {
		return nil, nil, false
	}
	return b.LHS, b.RHS, true
}

func isNumber(e parser.Expr, x float64) bool {
	n, ok := unwrap(e).(*parser.NumberLiteral)
	return ok && n.Val == x
}

// withoutZero takes "or vector(0)" off a query that is not grouped: what is
// counted counts as zero anyway where it is absent.
func withoutZero(e parser.Expr) parser.Expr {
	b, ok := unwrap(e).(*parser.BinaryExpr)
	if !ok || b.Op != parser.LOR || len(b.VectorMatching.MatchingLabels) > 0 {
		return e
	}
	call, ok := unwrap(b.RHS).(*parser.Call)
	if !ok || call.Func.Name != "vector" || !isNumber(call.Args[0], 0) {
		return e
	}
	if set, known := labelsOf(b.LHS); !known || len(set) > 0 {
		return e
	}
	return b.LHS
}

// aboveZero takes "> 0" off a total: nothing counted is no data anyway.
func aboveZero(e parser.Expr) parser.Expr {
	if l, r, ok := binary(e, parser.GTR); ok && isNumber(r, 0) {
		return l
	}
	return e
}

// labelsOf gives the labels of the samples of an expression, where the
// expression says so. One sample without labels is the empty list.
func labelsOf(e parser.Expr) (set []string, known bool) {
	switch e := e.(type) {
	case *parser.ParenExpr:
		return labelsOf(e.Expr)
	case *parser.UnaryExpr:
		return labelsOf(e.Expr)
	case *parser.SubqueryExpr:
		return labelsOf(e.Expr)
	case *parser.NumberLiteral:
		return nil, true
	case *parser.AggregateExpr:
		switch e.Op {
		case parser.TOPK, parser.BOTTOMK, parser.LIMITK, parser.LIMIT_RATIO, parser.COUNT_VALUES:
			return nil, false
		}
		return e.Grouping, !e.Without
	case *parser.Call:
		return labelsOfCall(e)
	case *parser.BinaryExpr:
		return labelsOfBinary(e)
	}
	return nil, false
}

func labelsOfCall(e *parser.Call) ([]string, bool) {
	switch e.Func.Name {
	case "vector", "scalar", "time", "pi":
		return nil, true
	case "label_replace", "label_join", "absent", "absent_over_time", "info":
		return nil, false
	}
	for _, a := range e.Args {
		if t := a.Type(); t != parser.ValueTypeVector && t != parser.ValueTypeMatrix {
			continue
		}
		set, known := labelsOf(a)
		if e.Func.Name == "histogram_quantile" {
			set = slices.DeleteFunc(slices.Clone(set), func(l string) bool { return l == labels.BucketLabel })
		}
		return set, known
	}
	return nil, false
}

func labelsOfBinary(e *parser.BinaryExpr) ([]string, bool) {
	if e.VectorMatching == nil { // a scalar on one side
		if e.LHS.Type() == parser.ValueTypeScalar {
			return labelsOf(e.RHS)
		}
		return labelsOf(e.LHS)
	}
	l, lok := labelsOf(e.LHS)
	r, rok := labelsOf(e.RHS)
	m := e.VectorMatching
	switch {
	case e.Op == parser.LAND || e.Op == parser.LUNLESS:
		return l, lok
	case m.Card == parser.CardManyToOne || m.Card == parser.CardOneToMany:
		return nil, false
	case m.On && e.Op != parser.LOR:
		return m.MatchingLabels, true
	case lok && rok && slices.Equal(sorted(l), sorted(r)):
		return l, true
	}
	return nil, false
}
