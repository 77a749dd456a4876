// Package otlptracehttp declares what Alertmanager names of the package: see internal/unlinked/README.md.
package otlptracehttp

import "time"

// An Option is a setting of a client.
type Option struct{}

// NewClient returns a client that otlptrace.New refuses.
func NewClient(...Option) any { return nil }

// WithEndpoint does nothing, as the functions below.
func WithEndpoint(string) Option { return Option{} }

// WithHeaders does nothing.
func WithHeaders(map[string]string) Option { return Option{} }

// WithInsecure does nothing.
func WithInsecure() Option { return Option{} }

// WithTimeout does nothing.
func WithTimeout(time.Duration) Option { return Option{} }

// Compression is a way to compress requests.
type Compression int

// GzipCompression is not used.
const GzipCompression Compression = 1

// WithCompression does nothing.
func WithCompression(Compression) Option { return Option{} }

// WithTLSClientConfig does nothing.
func WithTLSClientConfig(any) Option { return Option{} }
