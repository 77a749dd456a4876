// Package otlp turns OpenTelemetry signals into events: which spans count, as which service and type, with which
// attributes. It reads what package otlpwire decodes, knows the names of the semantic conventions, and neither stores
// nor answers anything.
package otlp
