// Package spec reads what users write: YAML files that describe services, their
// SLOs, event thresholds, corrections and agreements, as values of slo and sla.
//
// Besides the own format it reads Sloth's prometheus/v1 and Kubernetes resource,
// and OpenSLO v1. Every document says what it is, so files of all formats can be
// loaded together; Write writes any of them in the own format. A query that is no
// more than the rate of a counter is taken apart into the counter's selector.
//
// It is strict. Unknown keys, wrong types, doubtful units and references to
// what does not exist are problems, and all of them are reported at once, each
// with file, line, column and what to do about it. What another format says and
// this one cannot is an error too; what is taken in a way that the writer may not
// have meant is a warning. Nothing is dropped in silence.
//
// It knows nothing of how events are counted, stored or served, of the engine's
// own settings, and of the clock: the same files always give the same Spec.
package spec
