// Package propagation declares what Alertmanager names of the package: see internal/unlinked/README.md.
package propagation

import "context"

// A MapCarrier carries nothing.
type MapCarrier map[string]string

// A TextMapPropagator propagates nothing.
type TextMapPropagator interface {
	Inject(ctx context.Context, carrier MapCarrier)
	Extract(ctx context.Context, carrier MapCarrier) context.Context
}

// TraceContext implements TextMapPropagator.
type TraceContext struct{}

func (TraceContext) Inject(context.Context, MapCarrier)                        {}
func (TraceContext) Extract(ctx context.Context, _ MapCarrier) context.Context { return ctx }
