package explain

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/rules/series"
)

// Load is how many series there are behind an SLO.
type Load struct {
	Raw    int           // series of the counters of valid events; default 100
	Groups int           // values of group_by that there are; default 1
	Scrape time.Duration // scrape interval; default 15s
}

func (l Load) withDefaults() Load {
	if l.Raw <= 0 {
		l.Raw = 100
	}
	if l.Groups <= 0 {
		l.Groups = 1
	}
	if l.Scrape <= 0 {
		l.Scrape = 15 * time.Second
	}
	return l
}

// Cost is what rules cost a Prometheus.
type Cost struct {
	SamplesPerSecond float64 // read by queries, as Prometheus counts them
	RulesPerSecond   float64 // evaluations
	Rules            int
	Series           int // recorded, at the given number of groups
}

// Of computes what rule groups cost from their expressions. It fails on an
// expression that does not parse.
func Of(groups []rules.Group, l Load) (Cost, error) {
	c := coster{Load: l.withDefaults(), every: map[string]time.Duration{}, parser: parser.NewParser(parser.Options{})}
	for _, g := range groups {
		for _, r := range g.Rules {
			if r.Record != "" {
				c.every[r.Record] = interval(g)
			}
		}
	}
	var out Cost
	for _, g := range groups {
		perSecond := 1 / interval(g).Seconds()
		for _, r := range g.Rules {
			expr, err := c.parser.ParseExpr(r.Expr)
			if err != nil {
				return Cost{}, fmt.Errorf("parse rule %s%s of group %s: %w", r.Record, r.Alert, g.Name, err)
			}
			out.Rules++
			out.RulesPerSecond += perSecond
			out.SamplesPerSecond += c.read(expr, 1) * perSecond
			if r.Record != "" {
				out.Series += c.count(r.Record, false)
			}
		}
	}
	return out, nil
}

func interval(g rules.Group) time.Duration {
	if g.Interval > 0 {
		return g.Interval
	}
	return time.Minute // Prometheus' own default
}

type coster struct {
	Load
	every  map[string]time.Duration // recorded names
	parser parser.Parser
}

// read is how many samples one evaluation of an expression reads, on the average
// of so many steps of the subqueries around it.
func (c *coster) read(e parser.Expr, steps float64) float64 {
	switch e := e.(type) {
	case *parser.VectorSelector:
		if e.StartOrEnd != 0 || e.Timestamp != nil {
			return c.series(e) / steps // read once, whatever the steps
		}
		return c.series(e)
	case *parser.MatrixSelector:
		v, ok := e.VectorSelector.(*parser.VectorSelector)
		if !ok {
			return 0
		}
		if every, recorded := c.every[v.Name]; recorded { // evaluated at the instants at which it is read
			return c.series(v) * math.Ceil(float64(e.Range)/float64(every))
		}
		return c.series(v) * float64(e.Range) / float64(c.Scrape)
	case *parser.SubqueryExpr:
		n := math.Floor(float64(e.Range) / float64(max(e.Step, time.Second)))
		return c.read(e.Expr, steps*n) * n
	}
	var sum float64
	for child := range parser.ChildrenIter(e) {
		if x, ok := child.(parser.Expr); ok {
			sum += c.read(x, steps)
		}
	}
	return sum
}

func (c *coster) series(v *parser.VectorSelector) float64 {
	failed := false
	for _, m := range v.LabelMatchers {
		failed = failed || m.Name == series.LabelResult && m.Type == labels.MatchEqual
	}
	return float64(c.count(v.Name, failed))
}

// count is how many series a name stands for: one per group of what is recorded
// for an SLO, one of what is the same for all groups, and all counters, half of
// them where only one result is wanted.
func (c *coster) count(name string, half bool) int {
	switch name {
	case "ALERTS":
		return 0 // as long as nothing fires
	case series.Objective, series.ErrorBudget, series.Capacity, series.CostBaseline, series.CostInvestment,
		series.TimePeriod, series.RecordedInfo, series.SlothInfo, series.Info.Name, series.Engines, series.Observed,
		series.ObservedIncrease, series.PeriodStart, series.PeriodEnd, series.CorrectionStart, series.CorrectionEnd,
		series.Maintenance, series.TablesEnd, series.ComponentWeight:
		return 1
	}
	if strings.HasPrefix(name, series.ObservedRatioPrefix) {
		return 1
	}
	if _, recorded := c.every[name]; recorded {
		return c.Groups
	}
	if half {
		return (c.Raw + 1) / 2
	}
	return c.Raw
}
