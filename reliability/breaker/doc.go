// Package breaker stops calls to a target that keeps failing, and lets a few probes
// through after a while to see whether it is well again.
//
// Failures in a row, and the rate of failures over a rolling time, open a breaker, each
// for a time of its own. Some outcomes count neither way. Probes end: a hung one counts
// as a failure instead of keeping the breaker half-open forever. Results that come in after the
// state has changed are not counted. Health checks run in the background.
//
// It does not know the target. retry.Class decides which errors count as failures of the target.
package breaker
