// Package clientcmd is imported by tests of Prometheus alone.
package clientcmd
