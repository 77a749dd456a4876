// Package bson declares what gin names of the package: see internal/unlinked/README.md.
package bson

import "errors"

var errUnlinked = errors.New("this build does not know BSON")

// Marshal returns an error.
func Marshal(any) ([]byte, error) { return nil, errUnlinked }

// Unmarshal returns an error.
func Unmarshal([]byte, any) error { return errUnlinked }
