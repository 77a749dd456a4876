// Package trace declares what Prometheus and Alertmanager name of the package: see internal/unlinked/README.md.
package trace

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
)

// A TracerProvider makes tracers.
type TracerProvider interface {
	Tracer(name string) Tracer
}

// A Tracer makes spans.
type Tracer interface {
	Start(ctx context.Context, name string, o ...SpanStartOption) (context.Context, Span)
}

// A Span is recorded nowhere.
type Span interface {
	AddEvent(name string, o ...EventOption)
	End(o ...SpanEndOption)
	RecordError(err error, o ...EventOption)
	SetAttributes(a ...attribute.KeyValue)
	SetStatus(code codes.Code, description string)
	SpanContext() SpanContext
}

// A SpanContext has no ids.
type SpanContext struct{}

func (SpanContext) HasTraceID() bool { return false }
func (SpanContext) IsSampled() bool  { return false }
func (SpanContext) SpanID() string   { return "" }
func (SpanContext) TraceID() TraceID { return "" }

// A TraceID is empty.
type TraceID string

func (id TraceID) String() string { return string(id) }

// A SpanStartOption has no effect.
type SpanStartOption struct{}

type (
	EventOption   = SpanStartOption
	SpanEndOption = SpanStartOption
)

// A SpanKind has no effect.
type SpanKind int

const (
	SpanKindInternal SpanKind = iota
	SpanKindClient
)

func WithAttributes(...attribute.KeyValue) SpanStartOption { return SpanStartOption{} }
func WithTimestamp(time.Time) SpanStartOption              { return SpanStartOption{} }
func WithSpanKind(SpanKind) SpanStartOption                { return SpanStartOption{} }

// SpanFromContext returns nil, which callers take for a context without a span.
func SpanFromContext(context.Context) Span { return nil }
