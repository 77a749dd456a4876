// Package spec reads what users write: YAML files that describe services, their
// SLOs, limits, corrections and agreements, as values of slo and sla.
//
// It is strict. Unknown keys, wrong types, doubtful units and references to
// what does not exist are problems, and all of them are reported at once, each
// with file, line, column and what to do about it.
//
// It knows nothing of how events are counted, stored or served, of the engine's
// own settings, and of the clock: the same files always give the same Spec.
package spec
