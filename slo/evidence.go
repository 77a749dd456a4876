package slo

import (
	"math"
	"time"
)

// DefaultFalsePages is how many pages a year chance may cause in one group of an SLO whose spec says nothing about it.
const DefaultFalsePages = 1.0

// MinBad is how many bad events the long window of a page must have.
const MinBad = 3

// A page that has begun is held through quiet minutes: while its short window has fewer than HoldEvents events, its
// conditions count as met if they were within the last Hold.
const (
	HoldEvents = 50
	Hold       = 30 * time.Minute
)

// Evidence is how much n events, of which the share ratio was bad, speak against a true error ratio of rate: the
// exponent of Chernoff's bound of the Poisson tail. By chance, ratio reaches a value above rate with a probability of at
// most exp(-Evidence). It is 0 without events or bad ones, and grows in both directions from rate, so that it means
// something only where ratio is above rate.
func Evidence(n, ratio, rate float64) float64 {
	if !(n > 0) || !(ratio > 0) {
		return 0
	}
	return n * (ratio*(math.Log(ratio/rate)-1) + rate)
}

// EvidenceNeeded is the evidence that a page needs, for at most so many false pages a year.
func EvidenceNeeded(falsePages float64) float64 {
	return 6 - math.Log(falsePages)
}

// MaxFalsePages is FalsePages, or its default.
func (a *Alerting) MaxFalsePages() float64 {
	if a.FalsePages > 0 {
		return a.FalsePages
	}
	return DefaultFalsePages
}
