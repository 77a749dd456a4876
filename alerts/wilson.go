package alerts

import "math"

// The terms of the lower end of a one-sided 95 % Wilson interval, z = 1.644854:
// z^2/2, z, z^2/4 and z^2.
const (
	wilsonHalf    = "1.35277"
	wilsonZ       = "1.644854"
	wilsonQuarter = "0.676386"
	wilsonSquare  = "2.70554"
)

// LowerBound is the error ratio in [0,1] that the true one exceeds with 95 %
// confidence when, of n events, the share ratio was bad (Wilson 1927, one-sided).
// Few events give a low bound: one bad event of one proves little. A ratio
// outside [0,1], which rates of unequal counters can give, is clamped, for the
// root of a negative number would silence a full outage. No events give 0.
func LowerBound(ratio, n float64) float64 {
	if !(n > 0) {
		return 0
	}
	p := min(max(ratio, 0), 1)
	return (p + 1.35277/n - 1.644854*math.Sqrt(p*(1-p)/n+0.676386/(n*n))) / (1 + 2.70554/n)
}

// lowerBound is the same as PromQL, over a vector of ratios and one of event
// counts with the same labels. Where they differ, matching says how to join them,
// such as " ignoring (sloth_window)".
func lowerBound(ratio, n, matching string) string {
	p := "clamp(" + ratio + ", 0, 1)"
	n = "(" + n + ")"
	return "(" + p + " +" + matching + " " + wilsonHalf + " / " + n +
		" -" + matching + " " + wilsonZ + " * sqrt(" + p + " * (1 - " + p + ") /" + matching + " " + n + " +" + matching + " " + wilsonQuarter + " / " + n + " ^ 2))" +
		" /" + matching + " (1 + " + wilsonSquare + " / " + n + ")"
}
