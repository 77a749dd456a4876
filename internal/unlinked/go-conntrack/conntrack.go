// Package conntrack dials for the HTTP clients of prometheus/common, without counting or tracing connections: see
// internal/unlinked/README.md.
package conntrack

import (
	"context"
	"net"
)

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// A DialerOpt is an option of NewDialContextFunc.
type DialerOpt func(*dialFunc)

// DialWithDialContextFunc sets the function that dials.
func DialWithDialContextFunc(f dialFunc) DialerOpt { return func(dial *dialFunc) { *dial = f } }

// DialWithName does nothing.
func DialWithName(string) DialerOpt { return func(*dialFunc) {} }

// DialWithTracing does nothing.
func DialWithTracing() DialerOpt { return func(*dialFunc) {} }

// NewDialContextFunc returns the function that the options set, or that of a net.Dialer.
func NewDialContextFunc(options ...DialerOpt) func(context.Context, string, string) (net.Conn, error) {
	dial := (&net.Dialer{}).DialContext
	for _, o := range options {
		o(&dial)
	}
	return dial
}
