// Package semconv declares what Alertmanager names of the package: see internal/unlinked/README.md.
package semconv

import "go.opentelemetry.io/otel/attribute"

const (
	SchemaURL         = ""
	ServiceNameKey    = attribute.Key("service.name")
	ServiceVersionKey = attribute.Key("service.version")
)
