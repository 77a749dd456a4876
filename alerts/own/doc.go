// Package own evaluates the alerts on the engine inside the engine, without a Prometheus: the expressions of the
// generated rules, in Prometheus' own query engine, over a short history of the engine's own metrics.
//
// The history holds only the families that the expressions mention, for as long as they look back, and is bounded.
// States and times of alerts belong to alerts/state. The package knows nothing of SLOs, of storage or of delivery.
package own
