// Package otelhttp declares what Alertmanager names of the package: see internal/unlinked/README.md.
package otelhttp

import (
	"context"
	"net/http"
	"net/http/httptrace"
)

// An Option has no effect.
type Option struct{}

func WithClientTrace(func(context.Context) *httptrace.ClientTrace) Option { return Option{} }
func WithSpanNameFormatter(func(string, *http.Request) string) Option     { return Option{} }

// NewTransport returns base, by default http.DefaultTransport.
func NewTransport(base http.RoundTripper, _ ...Option) http.RoundTripper {
	if base == nil {
		return http.DefaultTransport
	}
	return base
}

// NewHandler returns handler.
func NewHandler(handler http.Handler, _ string, _ ...Option) http.Handler { return handler }
