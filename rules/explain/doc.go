// Package explain says what an objective means in minutes and in events, how
// soon its alerts see an outage, and what its rules cost Prometheus.
//
// It computes from specs and generated rules alone. It knows neither the live
// numbers, which its callers may hand in, nor how alerts are written.
package explain
