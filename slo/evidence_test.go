package slo

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEvidence(t *testing.T) {
	for _, c := range []struct {
		name           string
		n, ratio, rate float64
		want           float64
	}{
		{"no events", 0, 1, 0.001, 0},
		{"nothing bad", 1000, 0, 0.001, 0},
		{"less than nothing bad", 1000, -0.1, 0.001, 0},
		{"as many as the budget", 1000, 0.001, 0.001, 0},
		{"far fewer than the budget, of many", 1_000_000, 0.0001, 0.001, 0},
		{"one of one", 1, 1, 0.001, 5.9088},
		{"more bad than valid", 10, 1.5, 0.001, 94.7},
		{"a full outage", 3, 1, 0.001, 17.726},
		{"2 of 100", 100, 0.02, 0.001, 4.0915},
		{"20 of 1,000", 1000, 0.02, 0.001, 40.915},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.InDelta(t, c.want, Evidence(c.n, c.ratio, c.rate), 0.001*c.want)
		})
	}
	// exp(-Evidence) is never below the probability of so many bad events: of a Poisson number with the mean n x rate.
	for _, mean := range []float64{0.01, 0.5, 3, 40} {
		tail, term := 1.0, math.Exp(-mean)
		for k := 0; k < 120; k++ {
			if bad := float64(k); bad > mean {
				require.GreaterOrEqual(t, math.Exp(-Evidence(1000, bad/1000, mean/1000))*(1+1e-9), tail, "%d of %v", k, mean)
			}
			tail -= term
			term *= mean / float64(k+1)
			if tail < 1e-12 {
				break // what is left of it is rounding
			}
		}
	}
}

func TestEvidenceNeeded(t *testing.T) {
	require.Equal(t, EvidenceNeeded(1), EvidenceNeeded((&Alerting{}).MaxFalsePages()))
	require.InDelta(t, 6, EvidenceNeeded(1), 1e-12)
	require.InDelta(t, 9.4539, EvidenceNeeded(0.1), 1e-4)
	require.Zero(t, EvidenceNeeded(365))
	last := math.Inf(1)
	for _, f := range []float64{0.001, 0.1, 1, 12, 365} {
		needed := EvidenceNeeded((&Alerting{FalsePages: f}).MaxFalsePages())
		require.Less(t, needed, last)
		require.GreaterOrEqual(t, needed, 0.0)
		last = needed
	}
}
