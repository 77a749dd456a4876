// Package explain says what an objective means in minutes and in events, how
// soon its alerts see an outage, what its rules cost Prometheus, and what a
// change of specs means: Changes compares values, not text.
//
// It computes from specs and generated rules alone. It knows neither the live
// numbers, which its callers may hand in, nor how alerts are written.
package explain
