// Package rest declares what Prometheus names of the package of client-go: see internal/unlinked/README.md.
package rest

import "context"

// A WarningHandlerWithContext takes the warnings that a Kubernetes API answers with.
type WarningHandlerWithContext interface {
	HandleWarningHeaderWithContext(ctx context.Context, code int, agent, text string)
}

// A WarningLogger drops warnings: no Kubernetes API is asked.
type WarningLogger struct{}

// HandleWarningHeaderWithContext does nothing.
func (WarningLogger) HandleWarningHeaderWithContext(context.Context, int, string, string) {}
