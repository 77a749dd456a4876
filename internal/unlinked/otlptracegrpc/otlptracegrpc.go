// Package otlptracegrpc declares what Alertmanager names of the package: see internal/unlinked/README.md.
package otlptracegrpc

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

// WithCompressor does nothing.
func WithCompressor(string) Option { return Option{} }

// WithTLSCredentials does nothing.
func WithTLSCredentials(any) Option { return Option{} }
