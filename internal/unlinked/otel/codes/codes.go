// Package codes declares what Prometheus and Alertmanager name of the package: see internal/unlinked/README.md.
package codes

// A Code is the status of a span.
type Code uint32

const Error Code = 1
