package incident

import "time"

// isolated is the share of an incident's bad events that its beginning must hold to belong to it.
const isolated = 0.05

// Bucket is what an SLO counted from a time on, until the next bucket.
type Bucket struct {
	From       time.Time
	Valid, Bad uint64
}

// Onset is the start of the bucket t that maximises
//
//	sum over all buckets from t on of (bad - threshold x valid)
//
// where threshold is the error ratio over which the alert fires. Of several maxima it is the latest, so that time
// without events or with as many errors as the threshold allows is not part of the incident. ok is false if
// the sum is nowhere positive: then the counts do not show the incident.
//
// It is the maximum-likelihood estimate of the place where a ratio changed, with the threshold as the dividing line, as
// in a CUSUM test (E. S. Page, Continuous Inspection Schemes, Biometrika 41, 1954).
//
// A beginning that holds less than isolated of the sum is not part of it unless it is without a break: one bad event
// hours before an outage, with little traffic between, did not begin it.
func Onset(buckets []Bucket, threshold float64) (at time.Time, ok bool) {
	excess := func(k int) float64 { return float64(buckets[k].Bad) - threshold*float64(buckets[k].Valid) }
	sum, best, first := 0.0, 0.0, len(buckets)
	for k := len(buckets) - 1; k >= 0; k-- {
		if sum += excess(k); sum > best {
			best, first = sum, k
		}
	}
	if first == len(buckets) {
		return at, false
	}
	k, sum := len(buckets), 0.0
	for sum < (1-isolated)*best {
		k--
		sum += excess(k)
	}
	for k > first && excess(k-1) > 0 {
		k--
	}
	return buckets[k].From, true
}
