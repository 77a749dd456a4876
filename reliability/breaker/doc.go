// Package breaker stops calls to a target that keeps failing, and lets a few probes
// through after a while to see whether it is well again.
//
// While a breaker is closed, failsafe-go counts for it: a run of failures, and the
// rate of failures over a rolling time; either can open it. What is own here is what
// that library lacks: both rules in one breaker with their own times, outcomes that
// count neither way, probes that end (a hung one counts as a failure instead of
// keeping the breaker half-open for ever), results that come in after the state has
// changed (not counted), and health checks in the background.
//
// It does not know what is called. Which errors say that the target is unwell is
// decided by retry.Class.
package breaker
