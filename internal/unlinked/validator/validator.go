// Package validator declares what gin names of the package: see internal/unlinked/README.md.
package validator

import "errors"

// A Validate refuses everything.
type Validate struct{}

// New returns a Validate.
func New() *Validate { return &Validate{} }

// SetTagName does nothing.
func (*Validate) SetTagName(string) {}

// Struct returns an error.
func (*Validate) Struct(any) error { return errors.New("gin validates nothing in this build") }
