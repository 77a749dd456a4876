// Package alertmanager writes the configuration of Prometheus' Alertmanager for
// the alerts that a spec gives rise to: routes by severity and service, grouping
// that keeps products apart, escalation times, inhibition, and planned maintenance
// as mute time intervals.
//
// It emits values of its own, for Alertmanager's own ones print their secrets as
// "<secret>"; secrets are only ever named by file. What it writes is understood by
// Alertmanager 0.25 and later. It reads no clock: the same input gives the same
// bytes. It knows nothing of the alerts' expressions, nor of delivery.
package alertmanager
