// Package sigv4 declares what Prometheus and Alertmanager name of the package: see internal/unlinked/README.md.
package sigv4

import (
	"errors"
	"net/http"
)

// SigV4Config takes any keys, so that a file with a receiver that needs them is refused for the receiver.
type SigV4Config map[string]any

// NewSigV4RoundTripper returns an error.
func NewSigV4RoundTripper(*SigV4Config, http.RoundTripper) (http.RoundTripper, error) {
	return nil, errors.New("this build does not sign requests with AWS Signature Version 4")
}
