package spec

import (
	"bytes"
	_ "embed"
)

//go:embed starter.yaml
var starter []byte

// Starter is a commented spec to begin with, for the service of that name. It
// is valid if the name is.
func Starter(service string) []byte {
	return bytes.ReplaceAll(starter, []byte("SERVICE"), []byte(service))
}
