package slo_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/slo"
)

const (
	day   = 24 * time.Hour
	month = 30 * day
)

// The factors that the SRE workbook gives for a period of 30 days.
func TestTierFactors(t *testing.T) {
	want := []float64{14.4, 6, 3, 1}
	for i, tier := range slo.Tiers {
		require.InDelta(t, want[i], tier.Factor(month), 1e-9)
		require.InDelta(t, want[i]*7/30, tier.Factor(7*day), 1e-9)
		require.Contains(t, slo.BurnWindows, tier.Long)
		require.Contains(t, slo.BurnWindows, tier.Short)
	}
}

func TestJudge(t *testing.T) {
	left := func(x float64) slo.Budget { return slo.Budget{HasData: true, Consumed: 1 - x, Remaining: x} }
	burn := func(long time.Duration, rate float64, short time.Duration, now float64) []slo.Burn {
		return []slo.Burn{{Window: short, Rate: now, HasData: true}, {Window: long, Rate: rate, HasData: true}}
	}
	for _, c := range []struct {
		name   string
		period time.Duration
		budget slo.Budget
		burns  []slo.Burn
		want   slo.State
	}{
		{"no events", month, slo.Budget{}, nil, slo.StateNoData},
		{"no events, old burn", month, slo.Budget{}, burn(time.Hour, 99, 5*time.Minute, 99), slo.StateNoData},
		{"whole budget", month, left(1), nil, slo.StateOK},
		{"exactly the mark", month, left(0.2), nil, slo.StateOK},
		{"below the mark", month, left(0.199), nil, slo.StateAtRisk},
		{"nothing left", month, left(0), nil, slo.StateExhausted},
		{"overspent", month, left(-1.75), burn(time.Hour, 0, 5*time.Minute, 0), slo.StateExhausted},
		{"burns now", month, left(0.9), burn(time.Hour, 14.5, 5*time.Minute, 20), slo.StateAtRisk},
		{"exactly the factor", month, left(0.9), burn(time.Hour, slo.Tiers[0].Factor(month), 5*time.Minute, 20), slo.StateOK},
		{"long window only: it is over", month, left(0.9), burn(time.Hour, 100, 5*time.Minute, 0), slo.StateOK},
		{"short window only: a blip", month, left(0.9), burn(time.Hour, 1, 5*time.Minute, 100), slo.StateOK},
		{"slow burn", month, left(0.9), burn(3*day, 1.1, 6*time.Hour, 1.1), slo.StateAtRisk},
		{"windows of different tiers", month, left(0.9), burn(6*time.Hour, 7, 5*time.Minute, 99), slo.StateOK},
		{"short window without data", month, left(0.9),
			[]slo.Burn{{Window: time.Hour, Rate: 99, HasData: true}, {Window: 5 * time.Minute, Rate: 99}}, slo.StateOK},
		{"the period is no tier's window", 6 * time.Hour, left(0.9),
			[]slo.Burn{{Window: 30 * time.Minute, Rate: 99, HasData: true},
				{Window: 6 * time.Hour, Rate: 99, HasData: true, Period: true}}, slo.StateOK},
		{"a tier as long as the period", time.Hour, left(0.9), burn(time.Hour, 99, 5*time.Minute, 99), slo.StateOK},
		{"a week's factors are lower", 7 * day, left(0.9), burn(time.Hour, 3.4, 5*time.Minute, 3.4), slo.StateAtRisk},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, slo.Judge(c.period, c.budget, c.burns))
		})
	}
}
