package slo

import (
	"math"
	"time"
)

// DefaultFalsePages is how many pages a year chance may cause in one group of an SLO whose spec says nothing about it.
const DefaultFalsePages = 1.0

// MinBad is how many bad events the long window of a page must have.
const MinBad = 3

// Hold is how long the evidence of a page with a short window below Hold lasts, and the time whose events tell whether
// there is little traffic.
const Hold = 30 * time.Minute

// Quiet is how the short window of a page is read at little traffic, where it is often empty of bad events in the
// middle of an incident, and above the threshold by a single one after it. A page would end and begin again with every
// bad event. While the last Hold has fewer events than QuietEvents, the highest error ratio over Window within For
// counts instead. The zero value is for tiers that are read the same at any traffic.
type Quiet struct{ Window, For time.Duration }

// QuietOf is how a tier is read at little traffic. It was found by simulation, whose table is in docs/alerts.md.
func QuietOf(t Tier) Quiet {
	switch {
	case !t.Page || t.Short >= time.Hour:
		return Quiet{}
	case t.Short < Hold:
		return Quiet{Window: t.Short, For: Hold}
	}
	return Quiet{Window: time.Hour, For: Hold / 2}
}

// QuietEvents is how many events Hold must have for the short window of a tier to show the end of a page by itself: at
// that pace, ten in the short window are bad at the threshold. With fewer, a ratio of twice the threshold is often seen
// below it.
func (t Tier) QuietEvents(threshold float64) float64 {
	return math.Ceil(10 / threshold * float64(Hold) / float64(t.Short))
}

// Evidence is how much n events, of which the share ratio was bad, speak against a true error ratio of rate: the
// exponent of Chernoff's bound of the Poisson tail. By chance, ratio reaches a value above rate with a probability of
// at most exp(-Evidence). It is 0 without events, and where ratio is not above rate.
func Evidence(n, ratio, rate float64) float64 {
	if !(n > 0) || !(ratio > rate) {
		return 0
	}
	return n * (ratio*(math.Log(ratio/rate)-1) + rate)
}

// EvidenceNeeded is the evidence that a page needs, for at most so many false pages a year: in one group, of both usual
// tiers, while half of the budget is used. A page looks at windows that move on, so the exponent is not that of a
// single look. It was found by simulation, whose table is in docs/alerts.md.
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
