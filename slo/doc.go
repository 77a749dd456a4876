// Package slo is the language that every other package speaks: objectives,
// windows, matchers, counts, error budgets, burn rates and states, and the
// arithmetic on them.
//
// It works on values only. It knows nothing of events' encoding, of storage, of
// YAML, HTTP or Prometheus, and never reads a clock: the time is an argument.
// It imports the standard library and nothing else.
package slo
