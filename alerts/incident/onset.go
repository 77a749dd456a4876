package incident

import "time"

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
func Onset(buckets []Bucket, threshold float64) (at time.Time, ok bool) {
	sum, best := 0.0, 0.0
	for k := len(buckets) - 1; k >= 0; k-- {
		b := &buckets[k]
		sum += float64(b.Bad) - threshold*float64(b.Valid)
		if sum > best {
			best, at, ok = sum, b.From, true
		}
	}
	return at, ok
}
