// Package yaml is go.yaml.in/yaml/v2 under the name that Alertmanager imports: see internal/unlinked/README.md.
package yaml

import "go.yaml.in/yaml/v2"

type (
	MapItem     = yaml.MapItem
	MapSlice    = yaml.MapSlice
	Marshaler   = yaml.Marshaler
	TypeError   = yaml.TypeError
	Unmarshaler = yaml.Unmarshaler
)

func Marshal(in any) ([]byte, error)           { return yaml.Marshal(in) }
func Unmarshal(in []byte, out any) error       { return yaml.Unmarshal(in, out) }
func UnmarshalStrict(in []byte, out any) error { return yaml.UnmarshalStrict(in, out) }
