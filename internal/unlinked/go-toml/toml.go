// Package toml declares what gin names of the package: see internal/unlinked/README.md.
package toml

import (
	"errors"
	"io"
)

var errUnlinked = errors.New("gin reads and writes no TOML in this build")

// A Decoder reads nothing.
type Decoder struct{}

// NewDecoder returns a decoder.
func NewDecoder(io.Reader) Decoder { return Decoder{} }

// Decode returns an error.
func (Decoder) Decode(any) error { return errUnlinked }

// Marshal returns an error.
func Marshal(any) ([]byte, error) { return nil, errUnlinked }
