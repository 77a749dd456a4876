// Package shapetest holds the JSON Schema of a shape against documents and makes its reference, for tests.
package shapetest

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/sloengine/sloengine/slo/yamldoc/shape"
)

// Compile compiles the schema of a shape. The function that it returns gives the error of a YAML document, nil if the
// schema accepts it.
func Compile(t *testing.T, s shape.Shape) func(doc string) error {
	t.Helper()
	text, err := s.Schema("urn:test", "test", "Test.")
	require.NoError(t, err)
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource("test.json", parsed))
	schema, err := c.Compile("test.json")
	require.NoError(t, err)
	return func(doc string) error {
		var value any
		require.NoError(t, yaml.Unmarshal([]byte(doc), &value), doc)
		data, err := json.Marshal(value)
		require.NoError(t, err, doc)
		value, err = jsonschema.UnmarshalJSON(bytes.NewReader(data))
		require.NoError(t, err)
		return schema.Validate(value)
	}
}
