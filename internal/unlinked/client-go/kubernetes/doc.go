// Package kubernetes is imported by tests of Prometheus alone.
package kubernetes
