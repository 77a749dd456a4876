package site

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/format"
)

// Costs are what violations cost, for people: the sums, and everything that they rest on.
type Costs struct {
	Figures  []Figure
	Rows     []costRow
	Compared bool // some row has a baseline
	Notes    []string
}

type costRow struct {
	Service, Name                        string
	Basis, Counted, Amount               string
	Estimate                             bool
	Baseline, Saving, Investment, Return string
	Worse                                bool // it costs more than before
}

// NewCosts prints costs. It is nil if there are none.
func NewCosts(c *sla.Costs) *Costs {
	if c == nil {
		return nil
	}
	out := &Costs{Notes: c.Notes()}
	for i := range c.Sums {
		s := &c.Sums[i]
		note := "of the SLOs with a cost"
		switch {
		case c.Estimate && len(c.Twice) > 0:
			note = "an estimate, and some of it may be counted twice"
		case c.Estimate:
			note = "an estimate"
		case len(c.Twice) > 0:
			note = "some of it may be counted twice"
		}
		out.Figures = append(
			out.Figures, Figure{Name: "Cost", Value: format.Money(s.Amount), Note: note, Partial: c.Estimate})
		out.Figures = append(out.Figures, comparisonFigures(&s.Comparison)...)
	}
	for i := range c.SLOs {
		x := &c.SLOs[i]
		r := costRow{
			Service: format.Safe(x.SLO.Service(), format.MaxName), Name: format.Safe(x.SLO.Name(), format.MaxName),
			Basis: x.Basis, Counted: CountedText(x), Amount: format.Money(x.Amount),
			Estimate: x.IsEstimate(), Baseline: moneyOrNone(x.Baseline), Saving: moneyOrNone(x.Saving),
			Investment: moneyOrNone(x.Investment), Return: returnText(x.Return),
			Worse: x.Saving != nil && x.Saving.Sign() < 0,
		}
		out.Compared = out.Compared || x.Baseline != nil
		out.Rows = append(out.Rows, r)
	}
	return out
}

// SLOCosts are what violations of an SLO cost over its window, all groups together.
func SLOCosts(rep *sla.Report, id slo.ID) *sla.Costs {
	var all []sla.Counted
	for _, r := range RowsOf(rep, id) {
		all = append(all, r.Counted(true))
	}
	return sla.NewCosts(all)
}

// AgreementCosts are what violations of an agreement's components cost over its window.
func AgreementCosts(rep *sla.Report, r *sla.SLAReport) *sla.Costs {
	return sla.AgreementCosts(r, func(id slo.ID) *sla.SLOReport {
		i, ok := slices.BinarySearchFunc(rep.SLOs, id, func(r sla.SLOReport, id slo.ID) int {
			return cmp.Compare(r.SLO.ID, id)
		})
		if !ok {
			return nil
		}
		return &rep.SLOs[i]
	})
}

// IncidentCosts add up what an incident cost; nil if no affected SLO had a cost.
func IncidentCosts(spent []incident.Spent) *sla.Costs {
	c := &sla.Costs{}
	for i := range spent {
		x, id := &spent[i], slo.ID(spent[i].SLO)
		if x.Cost == nil {
			c.Other = append(c.Other, id)
			continue
		}
		at := slices.IndexFunc(c.SLOs, func(y sla.SLOCost) bool { return y.SLO == id && y.Basis == x.Cost.Basis })
		if at < 0 {
			at = len(c.SLOs)
			c.SLOs = append(c.SLOs, sla.SLOCost{SLO: id, Basis: x.Cost.Basis, Currency: x.Cost.Currency,
				Amount: slo.Money{Currency: x.Cost.Currency}, Coverage: 1})
		}
		y := &c.SLOs[at]
		y.Amount.Amount, y.Bad = y.Amount.Plus(x.Cost.Amount), y.Bad+x.Bad
		y.Coverage, y.Sampled = min(y.Coverage, x.Cost.Coverage), y.Sampled || x.Cost.Sampled
		if x.Cost.Minutes > 0 {
			minutes := x.Cost.Minutes
			if y.Minutes != nil {
				minutes += *y.Minutes
			}
			y.Minutes = &minutes
		}
		for _, other := range x.Cost.Shared {
			pair := [2]slo.ID{id, slo.ID(other)}
			slices.Sort(pair[:])
			c.Twice = append(c.Twice, pair)
		}
	}
	if len(c.SLOs) == 0 {
		return nil
	}
	c.Sum()
	return c
}

func comparisonFigures(c *sla.Comparison) (out []Figure) {
	if c.Saving != nil {
		out = append(out, Figure{Name: "Saving", Value: format.Money(*c.Saving),
			Note: "before, the same time cost " + format.Money(*c.Baseline), Bad: c.Saving.Sign() < 0})
	}
	if c.Return != nil {
		out = append(out, Figure{Name: "Return", Value: returnText(c.Return),
			Note: "on an investment of " + format.Money(*c.Investment), Bad: *c.Return < 0})
	}
	return out
}

// CountedText says what the cost of an SLO was counted in.
func CountedText(x *sla.SLOCost) string {
	if x.Minutes != nil {
		return fmt.Sprintf("%.4g minutes of violation", *x.Minutes)
	}
	return format.Plural(x.Bad, "bad event")
}

func moneyOrNone(m *slo.Money) string {
	if m == nil {
		return format.NoValue
	}
	return format.Money(*m)
}

func returnText(x *float64) string {
	if x == nil {
		return format.NoValue
	}
	return format.Percent(*x, 0)
}
