package spec

import (
	"regexp"
	"time"

	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/yamldoc"
	"github.com/sloengine/sloengine/slo/yamlgen"
)

var currencyPattern = regexp.MustCompile(`^[A-Z]{3}$`)

// readCost reads what violations cost. Indicator and budgeting have been read.
func (s *sloDraft) readCost(v *yamldoc.Value) {
	o := v.Object(string(slo.PerBad), string(slo.PerMinute), "currency", "baseline", "investment")
	if o == nil {
		return
	}
	c := &slo.Cost{}
	switch {
	case o.Has(string(slo.PerBad)) && o.Has(string(slo.PerMinute)):
		o.KeyErrorf(string(slo.PerMinute), "keep one of them", "cost: only one of per_bad and per_minute is allowed")
		return
	case o.Has(string(slo.PerMinute)):
		c.Unit = slo.PerMinute
	case o.Has(string(slo.PerBad)):
		c.Unit = slo.PerBad
	case !o.Misspelt():
		v.Errorf("write {per_bad: 12.50, currency: EUR}", "cost: neither per_bad nor per_minute is set")
		return
	default:
		return
	}
	if p := o.Get(string(c.Unit)); p != nil {
		c.Price, _ = readAmount(p)
	}
	if x := o.Need("currency", "add the currency, such as `currency: EUR`"); x != nil {
		if code, ok := x.Text(); ok && !currencyPattern.MatchString(code) {
			x.Errorf("use the three letters of ISO 4217, such as EUR", "currency: invalid currency %q", yamldoc.Clip(code))
		} else {
			c.Currency = code
		}
	}
	if x := o.Get("baseline"); x != nil {
		c.Baseline = readPayment(x)
	}
	if x := o.Get("investment"); x != nil {
		c.Investment = readPayment(x)
		if !o.Has("baseline") {
			x.Errorf("add `baseline: {amount: 12000, per: 30d}`, what violations cost before", "investment requires baseline")
		}
	}
	if s.kindKnown {
		s.costFits(v, c.Unit)
	}
	s.Cost = c
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

// readPayment reads {amount: 12000, per: 30d}.
func readPayment(v *yamldoc.Value) (p slo.Payment) {
	o := v.Object("amount", "per")
	if o == nil {
		return p
	}
	if a := o.Need("amount", "set the amount, such as `amount: 12000`"); a != nil {
		p.Amount, _ = readAmount(a)
	}
	if d := o.Need("per", "set for how long it is, such as `per: 30d`"); d != nil {
		p.Per, _ = readDuration(d, time.Hour, maxWindow)
	}
	return p
}

func cost(c *slo.Cost) *yamlgen.Node {
	m := &yamlgen.Map{}
	m.Plain(string(c.Unit), c.Price.String())
	m.Text("currency", c.Currency)
	for _, p := range []struct {
		key string
		slo.Payment
	}{{"baseline", c.Baseline}, {"investment", c.Investment}} {
		if p.Per > 0 {
			in := &yamlgen.Map{}
			in.Plain("amount", p.Amount.String())
			in.Plain("per", slo.FormatDuration(p.Per))
			m.Set(p.key, in.Line())
		}
	}
	return m.Line()
}
