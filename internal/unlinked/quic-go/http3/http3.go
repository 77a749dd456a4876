// Package http3 declares what gin names of the package: see internal/unlinked/README.md.
package http3

import (
	"errors"
	"net/http"
)

// ListenAndServeQUIC returns an error.
func ListenAndServeQUIC(_, _, _ string, _ http.Handler) error {
	return errors.New("this build does not serve HTTP/3")
}
