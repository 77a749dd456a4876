// Package cache is imported by tests of Prometheus alone.
package cache
