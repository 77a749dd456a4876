// Package collector serves /metrics: the series of a report as package rules/series defines them, the states of alerts,
// and the engine's own metrics, in every exposition format.
//
// One walk turns a report into series. Two encoders take them: text, which is what Prometheus asks for, and values of
// client_model for the rest. The package knows no pages and computes nothing.
package collector
