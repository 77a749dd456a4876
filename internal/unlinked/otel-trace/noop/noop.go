// Package noop declares what Alertmanager names of the package: see internal/unlinked/README.md.
package noop

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// A TracerProvider makes tracers.
type TracerProvider struct{}

// NewTracerProvider returns a TracerProvider.
func NewTracerProvider() TracerProvider { return TracerProvider{} }

func (TracerProvider) Tracer(string) trace.Tracer { return Tracer{} }

// A Tracer makes spans.
type Tracer struct{}

func (Tracer) Start(ctx context.Context, _ string, _ ...trace.SpanStartOption) (context.Context, trace.Span) {
	return ctx, Span{}
}

// A Span is recorded nowhere.
type Span struct{}

func (Span) AddEvent(string, ...trace.EventOption)   {}
func (Span) End(...trace.SpanEndOption)              {}
func (Span) RecordError(error, ...trace.EventOption) {}
func (Span) SetAttributes(...attribute.KeyValue)     {}
func (Span) SetStatus(codes.Code, string)            {}
func (Span) SpanContext() trace.SpanContext          { return trace.SpanContext{} }
