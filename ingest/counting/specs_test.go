package counting

import (
	"bytes"
	"testing"

	"github.com/VictoriaMetrics/metrics"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/slo/spec"
)

// A config record has the whole spec, also what is not counted: it is read again as it was.
func TestTheWholeSpecIsInTheLog(t *testing.T) {
	load := func(text string) (*spec.Spec, spec.Problems, error) {
		sp, problems := spec.Load([]spec.File{{Name: "spec.yaml", Data: []byte(text)}})
		return sp, problems, nil
	}
	const text = "version: sloengine/v1\nservice: shop\nslos:\n  - name: checkout\n    objective: 99.5\n    window: " +
		"28d\n    alerting: {min_events: 20}\n" +
		"    indicator: {events: {valid: '{type=\"order\"}', bad: '{outcome=\"failure\"}'}}\n"
	s, err := LoadSpecs(func() (*spec.Spec, spec.Problems, error) { return load(text) })
	require.NoError(t, err)
	stored, err := SpecOf(s.InForce().Encoded)
	require.NoError(t, err)
	again, problems, err := load(stored)
	require.NoError(t, err)
	require.NoError(t, problems.Err())
	require.Equal(t, spec.Encode(s.InForce().Spec), spec.Encode(again))
	require.Equal(t, 20, int(again.SLOs[0].Alerting.MinEvents))

	stored, err = SpecOf([]byte(`{"version":1}`))
	require.NoError(t, err)
	require.Empty(t, stored, "of an older version")
	_, err = SpecOf([]byte("{"))
	require.Error(t, err)
}

// The hash of the spec in force is a metric: one series, of the present spec.
func TestHashIsPublished(t *testing.T) {
	s, set := &Specs{}, metrics.NewSet()
	exported := func() string {
		var out bytes.Buffer
		set.WritePrometheus(&out)
		return out.String()
	}
	s.Use(&Spec{Hash: "aaaa"})
	require.Empty(t, exported(), "without a set there are no metrics")
	s.Publish(set)
	require.Equal(t, "sloengine_spec_info{hash=\"aaaa\"} 1\n", exported())
	s.Use(&Spec{Hash: "aaaa"})
	require.Equal(t, "sloengine_spec_info{hash=\"aaaa\"} 1\n", exported())
	s.Use(&Spec{Hash: "bbbb"})
	require.Equal(t, "sloengine_spec_info{hash=\"bbbb\"} 1\n", exported())
}
