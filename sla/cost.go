package sla

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sloengine/sloengine/internal/order"
	"github.com/sloengine/sloengine/slo"
)

// Counted is what one SLO in one group counted over a time, for its cost.
type Counted struct {
	SLO   *slo.SLO
	Group slo.Group
	Bad   uint64        // events, or slices where these are judged, without planned maintenance
	Time  time.Duration // without planned maintenance
	// of the time, in [0,1]: share that was observed, times the share of events that no limit dropped
	Coverage float64
	Sampled  bool // some events stand for others
	Whole    bool // all groups of the SLO are there, so that a baseline can be compared
}

// Counted is what the report counted over the SLO's window, for its cost. whole is as in Counted.
func (r *SLOReport) Counted(whole bool) Counted {
	return Counted{SLO: r.SLO, Group: r.Group, Bad: r.Budget.Counts.Bad, Time: r.Period.Duration() - r.Corrected,
		Coverage: r.Coverage, Sampled: r.Sampled(), Whole: whole}
}

// Cost is what one group costs by itself; nil if its SLO has no cost.
func (x Counted) Cost() *SLOCost {
	if x.SLO.Cost == nil {
		return nil
	}
	return &NewCosts([]Counted{x}).SLOs[0]
}

// Sampled reports whether some events of the period stand for others, which rate limits left out. It is false where
// slices are judged.
func (r *SLOReport) Sampled() bool {
	for i := range r.Burns {
		if b := &r.Burns[i]; b.Period && r.Slice == 0 {
			return b.Effective < float64(b.Counts.Valid())
		}
	}
	return false
}

// AgreementCosts are what violations of an agreement's components cost over its window. It is nil if none has a cost.
// find gives what is known of an SLO, any of its groups; nil if nothing is.
func AgreementCosts(r *SLAReport, find func(slo.ID) *SLOReport) *Costs {
	var all []Counted
	for i := range r.Components {
		c := &r.Components[i]
		of := find(c.SLO)
		if of == nil {
			continue
		}
		// Maintenance of the SLO's own window is at least that of a shorter one, so the saving is not overstated.
		all = append(all, Counted{
			SLO: of.SLO, Group: r.Group, Bad: c.Counts.Bad, Time: max(0, r.Period.Duration()-of.Corrected), Coverage: c.Coverage,
			Sampled: of.Sampled(), Whole: len(r.SLA.GroupBy) == 0,
		})
	}
	return NewCosts(all)
}

// Costs are what violations cost over a time, with everything that the sums rest on.
type Costs struct {
	Sums  []CostSum `json:"sums"` // one for each currency, by its code
	SLOs  []SLOCost `json:"slos"` // those with a cost, by ID; all of their groups that were counted together
	Other []slo.ID  `json:"without_cost"`
	// Twice are pairs of SLOs in the same sum that can count the same event, or the same time, as bad.
	Twice    [][2]slo.ID `json:"counted_twice"`
	Estimate bool        `json:"estimate"` // some of the time was not observed, or rate limits dropped or sampled events
}

// SLOCost is what violations of one SLO cost.
type SLOCost struct {
	SLO      slo.ID    `json:"slo"`
	Basis    string    `json:"basis"` // such as 12.50 EUR per bad event
	Currency string    `json:"currency"`
	Amount   slo.Money `json:"amount"`
	Bad      uint64    `json:"bad"`               // events, or slices where these are judged
	Minutes  *float64  `json:"minutes,omitempty"` // of violation, if these have a price
	Coverage float64   `json:"coverage"`          // the lowest of its groups
	Sampled  bool      `json:"sampled"`
	Comparison
}

// CostSum is what violations cost in one currency.
type CostSum struct {
	Currency string    `json:"currency"`
	Amount   slo.Money `json:"amount"`
	Comparison
	Compared []slo.ID `json:"compared,omitempty"` // the SLOs that the comparison is about
}

// Comparison holds costs against what they were before. All are nil if that is not stated. It is about the time that
// was observed, so what nobody saw saved nothing.
type Comparison struct {
	Baseline   *slo.Money `json:"baseline,omitempty"` // what the same time cost before
	Saving     *slo.Money `json:"saving,omitempty"`   // the baseline without the cost; negative if it costs more now
	Investment *slo.Money `json:"investment,omitempty"`
	Return     *float64   `json:"return,omitempty"` // (saving - investment) / investment; 1 is 100 %
}

// NewCosts adds up what was counted. It is nil if no SLO has a cost.
func NewCosts(all []Counted) *Costs {
	c := &Costs{}
	var with []*slo.SLO
	observed := map[slo.ID]time.Duration{}
	for i := range all {
		x := &all[i]
		id := x.SLO.ID
		if x.SLO.Cost == nil {
			c.Other = append(c.Other, id)
			continue
		}
		at := slices.IndexFunc(c.SLOs, func(y SLOCost) bool { return y.SLO == id })
		saw := time.Duration(float64(x.Time) * x.Coverage).Round(time.Second)
		if at < 0 {
			at = len(c.SLOs)
			with = append(with, x.SLO)
			c.SLOs = append(
				c.SLOs, SLOCost{SLO: id, Basis: x.SLO.Cost.Basis(), Currency: x.SLO.Cost.Currency, Coverage: x.Coverage})
			observed[id] = saw
		}
		y := &c.SLOs[at]
		y.Bad += x.Bad
		y.Coverage, y.Sampled = min(y.Coverage, x.Coverage), y.Sampled || x.Sampled
		if !x.Whole {
			saw = -1 // nothing can be compared
		}
		observed[id] = min(observed[id], saw)
	}
	if len(with) == 0 {
		return nil
	}
	for i := range c.SLOs {
		y := &c.SLOs[i]
		s := with[i]
		y.Amount = slo.Money{Amount: s.UnitCost().Times(y.Bad), Currency: s.Cost.Currency}
		if s.Cost.Unit == slo.PerMinute {
			minutes := float64(y.Bad) * s.JudgedSlice().Minutes()
			y.Minutes = &minutes
		}
		if saw := observed[s.ID]; saw >= 0 && s.Cost.Baseline.Per > 0 {
			y.compare(y.Amount, s.Cost.Baseline.Over(saw), s.Cost.Investment.Over(saw))
		}
		for k := range i {
			if other := with[k]; s.Cost.Currency == other.Cost.Currency && slo.MayShare(s, other) {
				pair := [2]slo.ID{s.ID, other.ID}
				slices.Sort(pair[:])
				c.Twice = append(c.Twice, pair)
			}
		}
	}
	c.Sum()
	return c
}

// Sum adds up the SLOs, those of each currency by themselves, and puts everything in order. Nil lists become empty
// ones.
func (c *Costs) Sum() {
	c.Sums, c.Other, c.Twice = []CostSum{}, append([]slo.ID{}, c.Other...), append([][2]slo.ID{}, c.Twice...)
	slices.Sort(c.Other)
	c.Other = slices.Compact(c.Other)
	order.By(c.Twice, func(a, b *[2]slo.ID) int { return slices.Compare(a[:], b[:]) })
	c.Twice = slices.Compact(c.Twice)
	order.By(c.SLOs, func(a, b *SLOCost) int { return cmp.Compare(a.SLO, b.SLO) })
	for i := range c.SLOs {
		x := &c.SLOs[i]
		c.Estimate = c.Estimate || x.IsEstimate()
		at, ok := slices.BinarySearchFunc(c.Sums, x.Currency, func(s CostSum, currency string) int {
			return cmp.Compare(s.Currency, currency)
		})
		if !ok {
			c.Sums = slices.Insert(c.Sums, at, CostSum{Currency: x.Currency, Amount: slo.Money{Currency: x.Currency}})
		}
		s := &c.Sums[at]
		s.Amount.Amount = s.Amount.Plus(x.Amount.Amount)
		if x.Baseline == nil {
			continue
		}
		if s.Compared = append(s.Compared, x.SLO); s.Baseline == nil {
			s.Baseline, s.Saving = &slo.Money{Currency: x.Currency}, &slo.Money{Currency: x.Currency}
		}
		s.Baseline.Amount, s.Saving.Amount = s.Baseline.Plus(x.Baseline.Amount), s.Saving.Plus(x.Saving.Amount)
		if x.Investment != nil {
			if s.Investment == nil {
				s.Investment = &slo.Money{Currency: x.Currency}
			}
			s.Investment.Amount = s.Investment.Plus(x.Investment.Amount)
		}
	}
	for i := range c.Sums {
		c.Sums[i].returns()
	}
}

func (c *Comparison) compare(cost slo.Money, before, invested slo.Amount) {
	c.Baseline = &slo.Money{Amount: before, Currency: cost.Currency}
	c.Saving = &slo.Money{Amount: before.Minus(cost.Amount), Currency: cost.Currency}
	if invested.Sign() > 0 {
		c.Investment = &slo.Money{Amount: invested, Currency: cost.Currency}
	}
	c.returns()
}

func (c *Comparison) returns() {
	if c.Investment == nil {
		return
	}
	if x, ok := c.Saving.Minus(c.Investment.Amount).Quotient(c.Investment.Amount); ok {
		c.Return = &x
	}
}

// IsEstimate reports whether violations may be missing or multiplied.
func (c *SLOCost) IsEstimate() bool { return c.Coverage < wholeCoverage || c.Sampled }

// wholeCoverage is shown as 100 %.
const wholeCoverage = 0.9995

// Notes say what the sums rest on, in sentences.
func (c *Costs) Notes() []string {
	var out []string
	for i := range c.SLOs {
		x := &c.SLOs[i]
		if x.Coverage < wholeCoverage {
			out = append(out,
				fmt.Sprintf("The cost of %s is an estimate: its coverage is %.1f%%, and what was not observed has no cost.",
					x.SLO, 100*x.Coverage))
		}
		if x.Sampled {
			out = append(out, fmt.Sprintf(
				"The cost of %s is an estimate: rate limits sampled its events, and each one stands for several.", x.SLO))
		}
	}
	for _, p := range c.Twice {
		out = append(
			out, fmt.Sprintf("%s and %s can count the same event or time, so the sum may contain it twice.", p[0], p[1]))
	}
	if len(c.Other) > 0 {
		out = append(out, "No cost is stated for "+list(c.Other)+".")
	}
	if len(c.Sums) > 1 {
		out = append(out, "Amounts in different currencies are not added up.")
	}
	for i := range c.Sums {
		if s := &c.Sums[i]; s.Baseline != nil {
			out = append(out,
				fmt.Sprintf("The saving in %s compares %s with the stated baseline, over the time that was observed.",
					s.Currency, list(s.Compared)))
		}
	}
	return out
}

// listed is how many names a sentence has.
const listed = 8

func list(ids []slo.ID) string {
	var names []string
	for _, id := range ids[:min(len(ids), listed)] {
		names = append(names, string(id))
	}
	if more := len(ids) - listed; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}
