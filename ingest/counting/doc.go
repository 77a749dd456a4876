// Package counting holds the counts of a running engine: the active spec and its changes, the fold as the log's
// reader sees it, the sums that others ask for, and the generations that are parked.
//
// It receives no events and judges no objective: ingest/engine feeds it, and sla/evaluator asks it.
package counting
