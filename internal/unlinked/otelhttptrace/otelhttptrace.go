// Package otelhttptrace declares what Alertmanager names of the package: see internal/unlinked/README.md.
package otelhttptrace

import (
	"context"
	"net/http/httptrace"
)

// NewClientTrace returns a trace without hooks.
func NewClientTrace(context.Context) *httptrace.ClientTrace { return &httptrace.ClientTrace{} }
