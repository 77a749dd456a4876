package counting

import (
	"bytes"
	"testing"

	"github.com/VictoriaMetrics/metrics"
	"github.com/stretchr/testify/require"
)

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
