// Package option declares what Prometheus names of the package: see internal/unlinked/README.md.
package option

// A ClientOption has no effect.
type ClientOption struct{}

// A CredentialsType is what kind of credentials a file has.
type CredentialsType int

const ServiceAccount CredentialsType = iota

func WithAuthCredentialsFile(CredentialsType, string) ClientOption { return ClientOption{} }
func WithCredentials(any) ClientOption                             { return ClientOption{} }
func WithScopes(...string) ClientOption                            { return ClientOption{} }
