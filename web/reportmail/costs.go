package reportmail

import (
	"fmt"
	"math"

	"github.com/sloengine/sloengine/sla/report"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/format"
)

// fillCosts adds what violations cost, if the spec says it, with what the sums rest on.
func (m *model) fillCosts(r, before *report.Report) {
	c := r.Costs()
	if c == nil {
		return
	}
	was := map[string]slo.Money{}
	if before != nil {
		if b := before.Costs(); b != nil {
			for i := range b.Sums {
				was[b.Sums[i].Currency] = b.Sums[i].Amount
			}
		}
	}
	for i := range c.Sums {
		s := &c.Sums[i]
		f := figure{Name: "Cost of violations in " + s.Currency, Value: format.Money(s.Amount), Before: format.NoValue}
		if x, ok := was[s.Currency]; ok {
			f.Before = format.Money(x)
		}
		if c.Estimate {
			f.Value += " (estimate)"
		}
		m.Figures = append(m.Figures, f)
		if s.Saving != nil {
			m.Figures = append(m.Figures, figure{Name: "Saving against the baseline in " + s.Currency,
				Value: format.Money(*s.Saving), Before: format.NoValue, Bad: s.Saving.Sign() < 0})
		}
		if s.Return != nil {
			m.Figures = append(m.Figures, figure{Name: "Return on the investment in " + s.Currency,
				Value: format.Percent(*s.Return, 0), Before: format.NoValue, Bad: *s.Return < 0})
		}
	}
	t := m.table("Cost of violations").left("SLO/Cost of violations", "Price").right("Counted", "Cost", "Before", "Saving")
	t.most = math.MaxInt
	for i := range c.SLOs {
		x := &c.SLOs[i]
		counted, baseline, saving := format.Count(x.Bad), format.NoValue, format.NoValue
		if x.Minutes != nil {
			counted = fmt.Sprintf("%.4g min", *x.Minutes)
		}
		if x.Saving != nil {
			baseline, saving = format.Money(*x.Baseline), format.Money(*x.Saving)
		}
		t.add(format.Safe(string(x.SLO), format.MaxTitle), x.Basis, counted, format.Money(x.Amount), baseline, saving)
	}
	m.show(t)
	m.Notes = append(m.Notes, c.Notes()...)
}
