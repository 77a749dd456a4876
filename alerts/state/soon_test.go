package state

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/forecast"
	"github.com/sloengine/sloengine/slo"
)

// TestExhaustedSoon fires by the forecast, keeps firing while there is none, and ends once the budget is empty.
func TestExhaustedSoon(t *testing.T) {
	s := newSLO(t, "shop/availability", "99.9")
	s.Alerting.Soon = slo.SoonAlert{Within: 24 * time.Hour, Probability: 0.8}
	m := newMachine(t)
	now := start
	step := func(after time.Duration, f *forecast.Forecast) []string {
		now = now.Add(after)
		r := &sla.Report{Time: now, SLOs: []sla.SLOReport{
			{SLO: s, Coverage: 1, Budget: slo.NewBudget(s.Objective, slo.Counts{Good: 100_000, Bad: 50})}}}
		if f != nil {
			r.SLOs[0].Outlook = &sla.Outlook{Forecast: *f}
		}
		m.Step(r)
		var out []string
		for _, a := range m.View().Active {
			if a.Name == "ErrorBudgetExhaustedSoon" {
				out = append(out, string(a.State))
			}
		}
		return out
	}
	soon := func(p float64) *forecast.Forecast {
		return &forecast.Forecast{Exhaustion: forecast.Exhaustion{Soon: p}}
	}
	require.Empty(t, step(0, nil), "no forecast yet")
	require.Empty(t, step(time.Minute, soon(0.79)))
	require.Equal(t, []string{"pending"}, step(time.Minute, soon(0.8)))
	for range 5 {
		step(time.Minute, soon(0.9))
	}
	require.Equal(t, []string{"firing"}, step(time.Minute, soon(0.9)))
	for range 30 {
		require.Equal(t, []string{"firing"}, step(time.Minute, nil), "without a forecast nobody knows that it is over")
	}
	empty := soon(1)
	empty.Exhaustion.Already = true
	require.Equal(t, []string{"firing"}, step(time.Minute, empty), "until the alert on an empty budget fires")
	for range 14 {
		step(time.Minute, empty)
	}
	require.Empty(t, step(time.Minute, empty))
	require.Empty(t, step(
		time.Minute, &forecast.Forecast{TooLittle: "no bad event in five weeks", Exhaustion: forecast.Exhaustion{Soon: 1}}))
}
