// Package http declares what Prometheus names of the package: see internal/unlinked/README.md.
package http

import (
	"context"
	"errors"
	"net/http"

	"google.golang.org/api/option"
)

// NewTransport returns an error.
func NewTransport(context.Context, http.RoundTripper, ...option.ClientOption) (http.RoundTripper, error) {
	return nil, errors.New("this build does not sign requests to Google")
}
