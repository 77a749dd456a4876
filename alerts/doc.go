// Package alerts turns specs into Prometheus alert rules, into promtool tests of
// those rules, and into findings about alerts that cannot work.
//
// Burn-rate windows are data (slo.Tiers, or an SLO's own). Every alert's name
// and labels are fixed here, so that routing, live states and runbooks can rely
// on them; every expression is built from the query builders of package rules.
//
// It knows nothing of how rules are delivered, of Alertmanager, of events, or of
// what fires right now, and never reads a clock.
package alerts
