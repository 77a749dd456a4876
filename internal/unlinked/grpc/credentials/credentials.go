// Package credentials declares what Alertmanager names of the package: see internal/unlinked/README.md.
package credentials

import "crypto/tls"

// TransportCredentials are never used.
type TransportCredentials struct{}

// NewTLS returns TransportCredentials.
func NewTLS(*tls.Config) TransportCredentials { return TransportCredentials{} }
