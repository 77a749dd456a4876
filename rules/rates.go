package rules

import (
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sloengine/sloengine/reliability/metric"
	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/slo"
)

// rates are the two expressions that everything else comes from: valid and bad
// events per second over five minutes.
//
// The bad events are zero wherever there are valid ones, for an error series is
// commonly born with the first error. The valid ones are recorded before, so
// that the second rule sees them.
func (r *sloRules) rates() (valid, bad string) {
	in := &r.s.Indicator
	sum := func(expr string) string { return sumBy(r.groups, r.renamed(expr)) }
	rate := func(selector string) string { return r.perEval(sum(r.rate(selector))) }
	v := r.valid()
	filled := func(expr string) string { return expr + " or " + on(r.groups) + " " + v + " * 0" }
	without := func(good string) string { return "clamp_min(" + v + " - " + on(r.groups) + " " + good + ", 0)" }

	switch in.PromForm() {
	case slo.PromCounters:
		valid = rate(selector(in.PromTotal))
		if in.PromBad != "" {
			return valid, filled(rate(selector(in.PromBad)))
		}
		return valid, without("(" + filled(rate(selector(in.PromGood))) + ")")
	case slo.PromQueries:
		// The comparison drops what is no number, such as a share of no events.
		query := func(q string) string { return r.perEval(sum("(" + slo.PromAt(q, r.window()) + ") >= 0")) }
		valid = query(in.PromTotalQuery)
		if in.PromBadQuery != "" {
			return valid, filled(query(in.PromBadQuery))
		}
		return valid, without("(" + filled(query(in.PromGoodQuery)) + ")")
	case slo.PromRatio:
		ratio := "avg" + strings.TrimPrefix(sum("("+slo.PromAt(in.PromErrorRatioQuery, r.window())+") >= 0"), "sum")
		return ratio + " * 0 + 1", "clamp_max(" + ratio + ", 1)"
	case slo.PromThreshold:
		if r.g.Minimal() {
			good := sum("(" + in.PromQuery + ") " + string(in.PromOp) + " bool " + num(in.PromValue))
			return "count" + strings.TrimPrefix(sum(in.PromQuery), "sum"), without(good)
		}
		steps := "[5m:" + dur(r.g.Eval) + "]"
		valid = sum("count_over_time(("+in.PromQuery+")"+steps+")") + " / 300"
		good := sum(
			"sum_over_time(((" + in.PromQuery + ") " + string(in.PromOp) + " bool " + num(in.PromValue) + ")" + steps + ")")
		return valid, without(good + " / 300")
	}
	id := series.LabelSLOID + `="` + string(r.s.ID) + `"`
	if in.Kind == slo.KindRatio {
		part := func(i int) string {
			return rate(series.PartEvents.Name + "{" + id + "," + series.LabelPart + `="` + in.Kind.PartNames()[i] + `"}`)
		}
		// What the numerator is short of the denominator. Below zero it makes up for what other minutes are short of, as the
		// two counts of one window do, so it is bounded only where a window is judged.
		return part(1), v + " - " + on(r.groups) + " (" + filled(part(0)) + ")"
	}
	valid = rate(series.Events.Name + "{" + id + "}")
	if r.s.Budgeting.Method == slo.RatioTimeslices && in.Kind != slo.KindThroughput {
		return valid, without(rate(series.SliceRatio.Name + "{" + id + "}"))
	}
	return valid, filled(rate(series.Events.Name + "{" + id + "," + series.LabelResult + `="` + series.ResultBad + `"}`))
}

// renamed gives samples of existing series the labels of the SLO's groups, where these have other names.
func (r *sloRules) renamed(expr string) string {
	if r.s.Indicator.Kind != slo.KindPrometheus {
		return expr
	}
	for i, label := range r.groups {
		if name := r.s.GroupBy[i]; name != label {
			expr = fmt.Sprintf(`label_replace(%s, %q, "$1", %q, "((?s).*)")`, expr, label, name)
		}
	}
	return expr
}

// valid selects the series that is recorded first, of the valid events.
func (r *sloRules) valid() string {
	if r.g.Minimal() {
		return r.series(series.ValidCount)
	}
	return r.series(series.ValidEvents)
}

// window is what rates are taken over: a scrape longer than what they stand for, so that the increase between the last
// sample before it and its first one is in it.
func (r *sloRules) window() time.Duration {
	if r.g.Minimal() {
		return r.g.Eval + r.g.Scrape
	}
	return base + r.g.Scrape
}

// rate is the rate of every counter of a selector. Profile Minimal takes it over one evaluation and a scrape, other
// profiles over five minutes. There, without a
// reset that is a difference of two samples: neighbouring rates meet end to end,
// and nothing is lost where a counter leaves zero, below which rate() extends
// nothing. With a reset, or without a sample five minutes ago, it is rate() over
// a range one scrape longer, so that it always holds one sample more than there
// are intervals in five minutes.
//
// A sample that was looked back for may be from before the range, and a reset
// between them: no difference is below zero.
func (r *sloRules) rate(selector string) string {
	if r.g.Minimal() {
		return "rate(" + selector + "[" + dur(r.window()) + "])"
	}
	return r.rate5m(selector)
}

// rate5m is the rate over five minutes in every profile.
func (r *sloRules) rate5m(selector string) string {
	rng := selector + "[" + dur(base+r.g.Scrape) + "]"
	if r.g.Minimal() {
		return "rate(" + rng + ")"
	}
	return "(" + selector + " - " + selector + " offset 5m >= 0) / 300 unless resets(" + rng + ") > 0 or rate(" + rng + ")"
}

// selector is a selector that a range may follow: without brackets around it.
func selector(text string) string {
	text = strings.TrimSpace(text)
	if !strings.HasPrefix(text, "(") && !strings.Contains(text, "#") {
		return text
	}
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	if err != nil {
		return text
	}
	for {
		p, ok := expr.(*parser.ParenExpr)
		if !ok {
			return expr.String()
		}
		expr = p.Expr
	}
}

// volumes are the rates of events that count towards a target volume, and of the
// target.
func (r *sloRules) volumes() []Rule {
	rate := func(s *metric.Family) string {
		return sumBy(r.groups, r.rate5m(s.Name+"{"+series.LabelSLOID+`="`+string(r.s.ID)+`"}`))
	}
	return []Rule{
		{Record: series.SliceAchievedRate, Expr: rate(series.SliceAchieved), Labels: r.labels},
		{Record: series.SliceTargetRate, Expr: rate(series.SliceTarget), Labels: r.labels},
	}
}
