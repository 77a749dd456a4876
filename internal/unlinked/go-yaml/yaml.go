// Package yaml declares what gin names of the package: see internal/unlinked/README.md.
package yaml

import (
	"errors"
	"io"
)

var errUnlinked = errors.New("gin reads and writes no YAML in this build")

// A Decoder reads nothing.
type Decoder struct{}

// NewDecoder returns a decoder.
func NewDecoder(io.Reader) Decoder { return Decoder{} }

// Decode returns an error.
func (Decoder) Decode(any) error { return errUnlinked }

// Marshal returns an error.
func Marshal(any) ([]byte, error) { return nil, errUnlinked }
