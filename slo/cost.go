package slo

import "time"

// CostUnit is what has a price.
type CostUnit string

// The units of cost.
const (
	PerBad    CostUnit = "per_bad"    // a bad event
	PerMinute CostUnit = "per_minute" // a minute of violation: of a bad slice
)

// Cost is what violations of an SLO cost. Planned maintenance costs nothing, as it is no part of the budget.
type Cost struct {
	Unit     CostUnit
	Price    Amount
	Currency string // such as EUR

	Baseline   Payment // what the violations of all groups cost before; zero if it is not known
	Investment Payment // what is spent on keeping the SLO; zero if it is not stated
}

// Payment is an amount for every Per of time.
type Payment struct {
	Amount Amount
	Per    time.Duration // 0: there is none
}

// Over is the payment for a time.
func (p Payment) Over(d time.Duration) Amount {
	if p.Per == 0 {
		return Amount{}
	}
	return p.Amount.Over(d, p.Per)
}

// Basis says what the cost rests on, such as "12.50 EUR per bad event".
func (c *Cost) Basis() string {
	unit := " per bad event"
	if c.Unit == PerMinute {
		unit = " per minute of violation"
	}
	return c.Price.price(c.Currency) + unit
}

// Text is a payment in a currency, such as "12000.00 EUR per 30d".
func (p Payment) Text(currency string) string {
	return p.Amount.price(currency) + " per " + FormatDuration(p.Per)
}

// JudgedSlice is the length of the slices that the SLO judges; 0 if it judges events.
func (s *SLO) JudgedSlice() time.Duration {
	switch {
	case s.Indicator.Kind == KindThroughput:
		return s.Indicator.Per
	case s.Budgeting.Method == Timeslices || s.Budgeting.Method == RatioTimeslices:
		return s.Budgeting.Slice
	}
	return 0
}

// HasCostUnit reports whether the SLO counts what a unit of cost is about, as whole events or slices.
func (s *SLO) HasCostUnit(u CostUnit) bool {
	series := s.Indicator.Kind == KindPrometheus // which nobody cuts into slices
	if s.JudgedSlice() > 0 {
		return !series && u == PerMinute && (s.Budgeting.Method != RatioTimeslices || s.Indicator.Kind == KindThroughput)
	}
	switch s.Indicator.Kind {
	case KindEvents, KindLatency, KindCompletion:
		return u == PerBad
	}
	return series && u == PerBad && s.Indicator.PromForm() == PromCounters
}

// UnitCost is what one bad event costs, or one bad slice where slices are judged. The SLO must have a Cost.
func (s *SLO) UnitCost() Amount {
	if s.Cost.Unit == PerMinute {
		return s.Cost.Price.Over(s.JudgedSlice(), time.Minute)
	}
	return s.Cost.Price
}

// MayShare reports whether one thing that happens can cost money twice, because both SLOs count it as bad. It errs on
// the side of true: only matchers that contradict each other tell events apart.
func MayShare(a, b *SLO) bool {
	if a.ID.Service() != b.ID.Service() {
		return false // an event belongs to one service
	}
	if a.Indicator.Kind == KindPrometheus || b.Indicator.Kind == KindPrometheus {
		return true
	}
	for _, x := range a.Indicator.badMatchers() {
		for _, y := range b.Indicator.badMatchers() {
			if x.Name == y.Name && (x.Op == OpEqual && !y.Matches(x.Value) || y.Op == OpEqual && !x.Matches(y.Value)) {
				return false
			}
		}
	}
	return true
}

// badMatchers all match every bad event.
func (i *Indicator) badMatchers() Selector {
	return append(i.Valid[:len(i.Valid):len(i.Valid)], i.Bad...)
}
