package slo

import (
	"math"
	"time"
)

// Alert conditions count an event in the minute in which it was received, as counters and rules do. Budgets, reports
// and history count it at its own time. Event time and receive time within a minute of each other count as equal. What
// is said here of lateness is exact to ten seconds, in favour of the event.

// ReceivedWindow is the longest window over which conditions count by receive time. Longer ones count by event time.
const ReceivedWindow = 6 * time.Hour

// Lateness are the bounds by which events are told apart by how long after their time they were received: a condition
// leaves out events that came later than its longest window.
var Lateness = [...]time.Duration{time.Hour, 6 * time.Hour, 24 * time.Hour, 72 * time.Hour, math.MaxInt64}

// LatenessOf is the place in Lateness of the bound of a condition whose longest window is given: the first bound that
// is as long, and 72 hours for all longer windows.
func LatenessOf(window time.Duration) int {
	i := 0
	for i < len(Lateness)-2 && window > Lateness[i] {
		i++
	}
	return i
}
