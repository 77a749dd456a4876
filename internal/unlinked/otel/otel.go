// Package otel declares what Prometheus and Alertmanager name of the package: see internal/unlinked/README.md.
package otel

import (
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// An ErrorHandler is never called.
type ErrorHandler interface{ Handle(error) }

func GetTextMapPropagator() propagation.TextMapPropagator { return propagation.TraceContext{} }
func GetTracerProvider() trace.TracerProvider             { return noop.TracerProvider{} }
func Tracer(string) trace.Tracer                          { return noop.Tracer{} }

func SetErrorHandler(ErrorHandler)                       {}
func SetTextMapPropagator(propagation.TextMapPropagator) {}
func SetTracerProvider(trace.TracerProvider)             {}
