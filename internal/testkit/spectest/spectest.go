// Package spectest reads the specs of tests.
package spectest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/slo/spec"
	"github.com/sloengine/sloengine/testdata/specs"
)

// Spec reads a spec without errors.
func Spec(t testing.TB, name, text string) *spec.Spec {
	t.Helper()
	sp, problems := spec.Load([]spec.File{{Name: name, Data: []byte(text)}})
	require.NoError(t, problems.Err())
	return sp
}

// Example reads testdata/specs/NAME.yaml.
func Example(t testing.TB, name string) *spec.Spec {
	t.Helper()
	text, err := specs.All.ReadFile(name + ".yaml")
	require.NoError(t, err)
	return Spec(t, name+".yaml", string(text))
}

// Rules are what rules are generated from.
func Rules(sp *spec.Spec) rules.Spec {
	return rules.Spec{SLOs: sp.SLOs, Thresholds: sp.Thresholds, Agreements: sp.Agreements}
}
