package rules

import (
	"maps"

	"github.com/sloengine/sloengine/rules/series"
)

// cost records what the bad events of each five minutes cost, without planned maintenance.
func (r *sloRules) cost() []Rule {
	if r.s.Cost == nil {
		return nil
	}
	labels := r.costLabels()
	labels[series.LabelBasis] = r.s.Cost.Basis()
	bad := r.short(badSeries, base) + " * " + num(r.s.UnitCost().Float()*base.Seconds())
	if r.g.Minimal() {
		bad = r.series(series.BadCount+":5m") + " * " + num(r.s.UnitCost().Float())
	}
	return []Rule{{Record: series.CostIncrease, Expr: bad, Labels: labels}}
}

func (r *sloRules) costLabels() map[string]string {
	out := maps.Clone(r.labels)
	out[series.LabelCurrency] = r.s.Cost.Currency
	return out
}

// payments are the constants that costs are compared with, for all groups together.
func (r *sloRules) payments() []Rule {
	c := r.s.Cost
	if c == nil || c.Baseline.Per == 0 {
		return nil
	}
	out := []Rule{{Record: series.CostBaseline, Expr: "vector(" + num(c.Baseline.Amount.Float()/c.Baseline.Per.Seconds()) +
		")", Labels: r.costLabels()}}
	if c.Investment.Per > 0 {
		out = append(out, Rule{Record: series.CostInvestment,
			Expr: "vector(" + num(c.Investment.Amount.Float()/c.Investment.Per.Seconds()) + ")", Labels: r.costLabels()})
	}
	return out
}
