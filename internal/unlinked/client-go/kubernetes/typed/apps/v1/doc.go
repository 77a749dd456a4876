// Package v1 is imported by tests of Prometheus alone.
package v1
