package series

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A threshold that is no bound of the histogram is told with the nearest ones, and nothing is counted as bad.
func TestThresholdThatIsNoBound(t *testing.T) {
	u := Unit{Stream: "main 1", Total: `took_count`, Part: `took_bucket{le="0.4"}`, Good: true,
		SLOs: []SLO{{ID: "shop/latency", Service: "shop~prometheus", Type: "latency"}}}
	r := newRig(t, quick, u)
	for i := range 3 {
		r.prometheus.add(`took_count{instance="a"}`, at(15*i), float64(10*i))
		for _, le := range []string{"0.1", "0.25", "0.5", "+Inf"} {
			r.prometheus.add(`took_bucket{instance="a",le="`+le+`"}`, at(15*i), float64(9*i))
			r.prometheus.add(`group by (le) ({__name__="took_bucket"}) => {le="`+le+`"}`, at(15*i+2), 1)
		}
		r.round(t, 15*i+4)
	}
	require.Empty(t, r.store.sums)
	troubles := r.source.o.Intake.Troubles()
	require.Len(t, troubles, 1)
	require.Equal(t, `shop/latency: took_count and took_bucket{le="0.4"}`, troubles[0].Name)
	require.Equal(t, `the histogram has no bound le="0.4": the nearest are le="0.5" and le="0.25"`, troubles[0].Reason)
	u.Stream, u.Part = "main 2", `took_bucket{le="0.5"}`
	r.source.o.Units = func() []Unit { return []Unit{u} }
	r.round(t, 34)
	r.prometheus.add(`took_count{instance="a"}`, at(45), 30)
	r.prometheus.add(`took_bucket{instance="a",le="0.5"}`, at(45), 27)
	r.round(t, 49)
	require.Empty(t, r.source.o.Intake.Troubles())
	require.NotEmpty(t, r.store.sums)
}
