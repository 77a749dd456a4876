// Package resource declares what Alertmanager names of the package: see internal/unlinked/README.md.
package resource

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
)

// A Resource describes nothing.
type Resource struct{}

// An Option has no effect.
type Option struct{}

func WithAttributes(...attribute.KeyValue) Option { return Option{} }
func WithProcessRuntimeDescription() Option       { return Option{} }
func WithSchemaURL(string) Option                 { return Option{} }
func WithTelemetrySDK() Option                    { return Option{} }

// New returns an empty resource.
func New(context.Context, ...Option) (*Resource, error) { return &Resource{}, nil }
