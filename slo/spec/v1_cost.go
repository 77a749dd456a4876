package spec

import (
	"regexp"
	"time"

	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/yamldoc"
	"github.com/sloengine/sloengine/slo/yamldoc/shape"
	"github.com/sloengine/sloengine/slo/yamlgen"
)

var currencyPattern = regexp.MustCompile(`^[A-Z]{3}$`)

func costKeys(c *slo.Cost) keys {
	price := func(unit slo.CostUnit) value {
		return custom{
			in: func(v *yamldoc.Value) {
				c.Unit = unit
				c.Price, _ = readAmount(v)
			},
			out: func(*encoder) *yamlgen.Node {
				if c.Unit != unit {
					return nil
				}
				return yamlgen.Plain(c.Price.String())
			},
			is: func() doc { return amountDoc },
		}
	}
	return keys{
		at(string(slo.PerBad), price(slo.PerBad)),
		at(string(slo.PerMinute), price(slo.PerMinute)),
		at("currency", textual(&c.Currency, readCurrency, &currencyDoc)).need("add the currency, such as `currency: EUR`"),
		at("baseline", payment(&c.Baseline)),
		at("investment", payment(&c.Investment)),
	}
}

// cost is what violations of the SLO cost. Its indicator and its budgeting have been read.
type cost struct{ *sloDraft }

func (c cost) read(v *yamldoc.Value) {
	c.Cost = &slo.Cost{}
	inside{keys: func() keys { return costKeys(c.Cost) }, first: hasPrice, then: c.checkCost}.read(v)
}

func (c cost) write(e *encoder) *yamlgen.Node {
	if c.Cost == nil {
		return nil
	}
	return costKeys(c.Cost).write(e).Line()
}

func (cost) shape() shape.Shape { return costKeys(&slo.Cost{}).shape() }

// hasPrice reports whether there is one price.
func hasPrice(o *yamldoc.Object) bool {
	switch perBad, perMinute := o.Has(string(slo.PerBad)), o.Has(string(slo.PerMinute)); {
	case perBad && perMinute:
		o.KeyErrorf(string(slo.PerMinute), "keep one of them", "cost: only one of per_bad and per_minute is allowed")
		return false
	case !perBad && !perMinute:
		if !o.Misspelt() {
			o.Errorf("write {per_bad: 12.50, currency: EUR}", "cost: neither per_bad nor per_minute is set")
		}
		return false
	}
	return true
}

func (s *sloDraft) checkCost(o *yamldoc.Object) {
	if x := o.Get("investment"); x != nil && !o.Has("baseline") {
		x.Errorf("add `baseline: {amount: 12000, per: 30d}`, what violations cost before", "investment requires baseline")
	}
	if unit := slo.PerBad; s.kindKnown {
		if o.Has(string(slo.PerMinute)) {
			unit = slo.PerMinute
		}
		s.costFits(o.Value, unit)
	}
}

// withoutCost says why some kinds of indicator have no cost: a price is for something that happened, or for a time.
var withoutCost = map[slo.IndicatorKind]string{
	slo.KindRatio:  "a ratio has no bad events, only what its numerator is short of",
	slo.KindApdex:  "an apdex counts half events, which have no price",
	slo.KindVolume: "a volume counts days, weeks or months, and a price is for an event or a minute",
}

// costFits refuses a unit that the SLO does not count.
func (s *sloDraft) costFits(v *yamldoc.Value, unit slo.CostUnit) {
	switch {
	case s.HasCostUnit(unit):
	case s.HasCostUnit(slo.PerBad):
		v.Errorf("write per_bad, or judge slices with `budgeting: {timeslices: ..}`", "cost: per_minute requires slices of time, and this slo counts events")
	case s.HasCostUnit(slo.PerMinute):
		v.Errorf("write per_minute, or remove the budgeting", "cost: per_bad requires events, and this slo counts slices of time")
	case withoutCost[s.Indicator.Kind] != "":
		v.Errorf("remove it, or give the cost to an slo that counts the events that cost money", "cost: %s", withoutCost[s.Indicator.Kind])
	default:
		v.Errorf("remove it, or give the cost to an slo that counts events or timeslices", "cost: this slo counts neither bad events nor bad slices")
	}
}

// readAmount reads an amount of money as the decimal that is written.
func readAmount(v *yamldoc.Value) (slo.Amount, bool) {
	s, ok := v.Text()
	if !ok {
		return slo.Amount{}, false
	}
	a, err := slo.ParseAmount(s)
	if err != nil {
		v.Errorf("write a decimal such as 12.50", "%s: want an amount above 0 with at most 12 digits before the point and 6 after it, got %q", v.What, yamldoc.Clip(s))
		return slo.Amount{}, false
	}
	return a, true
}

func readCurrency(v *yamldoc.Value) (string, bool) {
	code, ok := v.Text()
	if ok && !currencyPattern.MatchString(code) {
		v.Errorf("use the three letters of ISO 4217, such as EUR", "currency: invalid currency %q", yamldoc.Clip(code))
		return "", false
	}
	return code, ok
}

// payment is an amount for a time, such as {amount: 12000, per: 30d}.
func payment(p *slo.Payment) value {
	return inside{keys: func() keys {
		return keys{
			at("amount", single[slo.Amount]{&p.Amount, readAmount, amountText, &amountDoc}).
				need("set the amount, such as `amount: 12000`"),
			at("per", length{&p.Per, time.Hour, maxWindow}).need("set for how long it is, such as `per: 30d`"),
		}
	}}
}

func amountText(a slo.Amount) string {
	if a.Sign() == 0 {
		return ""
	}
	return a.String()
}
