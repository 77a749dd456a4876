// Package retry runs a function again after errors that may pass, with
// exponential backoff and jitter.
//
// The rules that hold for all options: a delay is never negative, never above the cap (or, when the
// server named one, MaxRetryAfter plus one base delay); a wait that would end at or after the
// deadline of the context is not begun; the last error is always kept and can be found with
// errors.Is and errors.As.
//
// A Budget keeps retries to a share of the measured traffic, a Limit to a rate of
// their own. Class sorts errors by the remedy.
//
// It does not know HTTP clients, events, breakers or quotas: the caller says
// through Classify, or by wrapping its errors in Permanent and After, which
// errors are worth another try.
package retry
