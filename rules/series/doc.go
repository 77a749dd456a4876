// Package series owns the name, help text, type and labels of every indicator series that the engine exports (slo_*,
// sla_*) and that the rules record (slo:*, sla:*), so that the exposition, the generated rules and the dashboards
// cannot drift apart.
//
// It does not know how the values come about or how they are exposed. The engine's other metrics are defined in package
// reliability/metric, which this package takes its types from.
package series
