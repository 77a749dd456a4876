package slo

import (
	"math"
	"time"
)

// DefaultFalsePages is how many pages a year chance may cause in one group of an SLO whose spec says nothing about it.
const DefaultFalsePages = 1.0

// MinBad is how many bad events the long window of a page must have.
const MinBad = 3

// Hold is how long a page is held through minutes that say little: while the short window has fewer events than
// HoldEvents, a condition of the page counts as met if it was within the last Hold. A page would otherwise end and begin
// again with every bad event.
const Hold = 30 * time.Minute

// HoldEvents is how many events the short window must have for its ratio to show the end of a page by itself: as many as
// make ten bad ones at the threshold. With fewer, a ratio of twice the threshold is often seen below it.
func HoldEvents(threshold float64) float64 { return 10 / threshold }

// Evidence is how much n events, of which the share ratio was bad, speak against a true error ratio of rate: the
// exponent of Chernoff's bound of the Poisson tail. By chance, ratio reaches a value above rate with a probability of at
// most exp(-Evidence). It is 0 without events, and where ratio is not above rate.
func Evidence(n, ratio, rate float64) float64 {
	if !(n > 0) || !(ratio > rate) {
		return 0
	}
	return n * (ratio*(math.Log(ratio/rate)-1) + rate)
}

// EvidenceNeeded is the evidence that a page needs, for at most so many false pages a year: in one group, of both usual
// tiers, while half of the budget is used. A page looks at windows that move on, so the exponent is not that of a single
// look. It was found by simulation, whose table is in docs/alerts.md.
func EvidenceNeeded(falsePages float64) float64 {
	return math.Max(0, 6-1.5*math.Log(falsePages))
}

// MaxFalsePages is FalsePages, or its default.
func (a *Alerting) MaxFalsePages() float64 {
	if a.FalsePages > 0 {
		return a.FalsePages
	}
	return DefaultFalsePages
}
