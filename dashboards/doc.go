// Package dashboards makes Grafana dashboards for what a spec promises and for
// the engine itself, with the types of Grafana's classic JSON model
// (schema v1), which every Grafana from version 9 on imports as it is.
//
// A dashboard holds one panel for a question, not one for an SLO: which SLOs,
// agreements and groups it shows is picked by variables, so that a thousand SLOs
// make the same dashboards as one. The spec decides which labels can be
// picked, which windows and thresholds are drawn, and which rows there are.
//
// Long windows come from recorded series only, so that opening a dashboard
// costs a handful of samples; counters are read raw over $__rate_interval. Every
// panel says in its description what it shows, and shows words, not a void, when
// there is no data.
//
// The package reads no clock, no file and no Grafana: the same spec gives the
// same bytes. It does not know how dashboards get into a Grafana, apart from the
// two forms of packing, Provider and ConfigMaps. Recorded and exported series come
// from packages rules and rules/series. What is on a dashboard is said by the
// files in boards. A test compares the names of their metrics with packages
// reliability/metric and rules/series.
package dashboards
