// Package gcp is imported by tests of Prometheus alone.
package gcp
