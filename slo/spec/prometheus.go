package spec

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/yamldoc"
)

// readEventQueries makes the indicator from a query of the bad events, or of the
// good ones, and one of all. Where each is no more than the rate of a counter
// the counters are kept instead: the rules then need only two recorded rates.
func (s *sloDraft) readEventQueries(bad, good, total *promQuery) {
	in := &s.Indicator
	in.Kind = slo.KindPrometheus
	part, what := bad, "bad"
	if bad == nil {
		part, what = good, "good"
	}
	all, ok := total.counterIn(aboveZero(total.expr))
	if ok {
		if c, ok := part.counterIn(withoutZero(part.expr)); ok {
			if c.function != all.function {
				part.at.Errorf("use rate() in both", "%s: %s() cannot be divided by %s()", part.at.What, c.function, all.function)
				return
			}
			if c.same(all) {
				s.counters(what, c, all)
				s.groupBy(total.at, c.by, true)
				return
			}
		}
		// All that are not good: a histogram's count without one of its buckets.
		if l, r, ok := binary(part.expr, parser.SUB); ok && bad != nil {
			left, ok1 := part.counterIn(l)
			right, ok2 := part.counterIn(r)
			if ok1 && ok2 && left.same(all) && right.same(all) && left.sameSeries(all) {
				s.counters("good", right, all)
				s.groupBy(total.at, all.by, true)
				return
			}
		}
	}
	if isShare(part.expr) && !isShare(total.expr) && countsRate(total.expr) {
		part.at.Warnf("write the ratio as error_ratio_query, or count events, such as those above a bucket of the histogram",
			"%s: the query returns a share or a quantile, but that of the total a rate of events, so their quotient is no "+
				"ratio of bad events", part.at.What)
	}
	in.PromTotalQuery = total.text
	if what == "bad" {
		in.PromBadQuery = part.text
	} else {
		in.PromGoodQuery = part.text
	}
	set, known := labelsOf(total.expr)
	if own, ok := labelsOf(withoutZero(part.expr)); known && ok && !slices.Equal(sorted(own), sorted(set)) {
		part.at.Errorf("sum both by the same labels",
			"%s: the samples have the labels %s, but the samples of the total have %s", part.at.What,
			labelList(own), labelList(set))
		return
	}
	s.groupBy(total.at, set, known)
	if !known && len(s.GroupBy) == 0 {
		total.at.Warnf("write sum(...) around it, or sum by (label) (...) for an SLO for each label",
			"%s: the query may return several series, which are summed", total.at.What)
	}
}

// isShare reports whether the samples of an expression are shares or quantiles, which are no numbers of events.
func isShare(e parser.Expr) bool {
	switch e := unwrap(e).(type) {
	case *parser.AggregateExpr:
		return e.Op != parser.COUNT && isShare(e.Expr)
	case *parser.Call:
		return e.Func.Name == "histogram_quantile"
	case *parser.BinaryExpr:
		switch {
		case e.Op == parser.DIV:
			return e.LHS.Type() == parser.ValueTypeVector && e.RHS.Type() == parser.ValueTypeVector
		case e.Op == parser.SUB && isNumber(e.LHS, 1):
			return isShare(e.RHS)
		case e.Op.IsComparisonOperator() && !e.ReturnBool, e.Op == parser.LOR:
			return isShare(e.LHS)
		}
	}
	return false
}

// countsRate reports whether an expression reads the rate or increase of a counter.
func countsRate(e parser.Expr) bool {
	found := false
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		if c, ok := n.(*parser.Call); ok && (c.Func.Name == "rate" || c.Func.Name == "increase") {
			found = true
		}
		return nil
	})
	return found
}

func (s *sloDraft) counters(what string, part, total counter) {
	s.Indicator.PromTotal = total.selector
	if what == "bad" {
		s.Indicator.PromBad = part.selector
	} else {
		s.Indicator.PromGood = part.selector
	}
}

// readRatioQuery makes the indicator from a query of the ratio of bad events, or
// of good ones.
func (s *sloDraft) readRatioQuery(q *promQuery, ofGood bool) {
	in := &s.Indicator
	in.Kind = slo.KindPrometheus
	expr := q.expr
	if l, r, ok := binary(expr, parser.SUB); ok && isNumber(l, 1) {
		expr, ofGood = r, !ofGood
		if a, b, ok := binary(expr, parser.DIV); ok && s.ratioOfCounters(q, a, b, ofGood) {
			return
		}
		ofGood = !ofGood
	} else if a, b, ok := binary(expr, parser.DIV); ok {
		if l, r, ok := binary(a, parser.SUB); ok {
			// (all - some) / all
			left, ok1 := q.counterIn(l)
			all, ok2 := q.counterIn(aboveZero(b))
			if ok1 && ok2 && left.same(all) && left.sameSeries(all) && s.ratioOfCounters(q, r, b, !ofGood) {
				return
			}
		}
		if s.ratioOfCounters(q, a, b, ofGood) {
			return
		}
	}
	in.PromErrorRatioQuery = q.text
	if ofGood {
		in.PromErrorRatioQuery = "1 - (" + q.text + ")"
	}
	set, known := labelsOf(q.expr)
	s.groupBy(q.at, set, known)
	if !known && len(s.GroupBy) == 0 {
		q.at.Warnf("write avg(...) or max(...) around it",
			"%s: the query may return several series, but the rules can record only one", q.at.What)
	}
}

func (s *sloDraft) ratioOfCounters(q *promQuery, part, total parser.Expr, ofGood bool) bool {
	c, ok1 := q.counterIn(withoutZero(part))
	all, ok2 := q.counterIn(aboveZero(total))
	if !ok1 || !ok2 || !c.same(all) || c.function == "" {
		return false
	}
	if c.fixed > 0 {
		warnFixed(q.at, c.fixed)
	}
	what := "bad"
	if ofGood {
		what = "good"
	}
	s.counters(what, c, all)
	s.groupBy(q.at, all.by, true)
	return true
}

// readThresholdQuery makes the indicator from a query whose samples are compared
// with a value.
func (s *sloDraft) readThresholdQuery(q *promQuery, op slo.Comparison, x float64) {
	in := &s.Indicator
	in.Kind, in.PromQuery, in.PromOp, in.PromValue = slo.KindPrometheus, q.text, op, x
	if q.windowed() {
		q.at.Errorf(
			"write a fixed range such as [5m]", "%s: the rules compare single samples, so the query takes no window", q.at.What)
		return
	}
	set, known := labelsOf(q.expr)
	s.groupBy(q.at, set, known)
	if !known && len(s.GroupBy) == 0 {
		q.at.Warnf("write max(...), min(...) or sum(...) around it",
			"%s: the query may return several series, but the rules can compare only one", q.at.What)
	}
}

// groupBy takes over the labels by which a query is summed, unless the SLO says
// group_by itself.
func (s *sloDraft) groupBy(v *yamldoc.Value, set []string, known bool) {
	if !known {
		return
	}
	if len(s.GroupBy) > 0 {
		for _, l := range s.GroupBy {
			if !slices.Contains(set, l) {
				v.Errorf(fmt.Sprintf("sum by (%s)", strings.Join(s.GroupBy, ", ")),
					"%s: the SLO is grouped by %s, but the query is not", v.What, l)
			}
		}
		return
	}
	var by []string
	for _, l := range set {
		if !isAttribute(v, l) || !addGroupLabel(v, &by, l) {
			s.groupsKnown = false
			return
		}
	}
	if len(by) > 0 {
		s.GroupBy, s.MaxGroups = by, DefaultMaxGroups
	}
}

// warnFixed says that the range of a query is not what the rules take.
func warnFixed(v *yamldoc.Value, d time.Duration) {
	v.Warnf("write {{.window}} for the range", "%s: the rules use their own windows instead of %s",
		v.What, slo.FormatDuration(d))
}

func labelList(set []string) string {
	if len(set) == 0 {
		return "none"
	}
	return strings.Join(sorted(set), ", ")
}
