package state

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/forecast"
	"github.com/sloengine/sloengine/slo"
)

// TestBudgetLow: each share of the budget has an alert, which fires at it, keeps firing for an hour above it, and says
// what the forecast says.
func TestBudgetLow(t *testing.T) {
	s := newSLO(t, "shop/availability", "99.9")
	s.Alerting.Left = []slo.LeftAlert{{Share: 0.2, Page: true}, {Share: 0.5}}
	m := newMachine(t)
	now := start
	texts := map[string]string{}
	step := func(after time.Duration, bad uint64) (out []string) {
		now = now.Add(after)
		r := &sla.Report{Time: now, SLOs: []sla.SLOReport{{SLO: s, Coverage: 1,
			Budget: slo.NewBudget(s.Objective, slo.Counts{Good: 100_000 - bad, Bad: bad}),
			Burns: []slo.Burn{{Window: 5 * time.Minute, Observed: 1}, {Window: 30 * 24 * time.Hour, Period: true, Observed: 1,
				Effective: 100_000}},
			Outlook: &sla.Outlook{Forecast: forecast.Forecast{Pace: forecast.Pace{Low: 6 * time.Hour, High: 9 * time.Hour}}},
		}}}
		m.Step(r)
		for _, a := range m.View().Active {
			if a.Name == "ErrorBudgetLow" && a.State == Firing {
				require.Equal(t, a.Label("slo_tier") == "budget-20", a.Urgent)
				out = append(out, a.Label("slo_tier")+" "+a.Severity)
				for _, x := range a.Annotations() {
					texts[x.Name] = x.Value
				}
			}
		}
		return out
	}
	lasting := func(d time.Duration, bad uint64) (out []string) {
		for range int(d / time.Minute) {
			out = step(time.Minute, bad)
		}
		return out
	}
	require.Empty(t, lasting(30*time.Minute, 49))
	require.Empty(t, lasting(10*time.Minute, 50))
	require.Equal(t, []string{"budget-50 ticket"}, step(time.Minute, 50))
	require.Equal(t, "shop/availability has at most 50 % of its error budget left", texts["summary"])
	require.Equal(t, "50% of the budget over 30d is left. Once it is empty, the objective of 99.9% is missed. If no "+
		"burn-rate alert of this SLO fires, the budget was spent before, and is not being spent fast now.",
		texts["description"])
	require.Equal(t, "exhausted in 6h to 9h at this pace", texts["forecast"])
	require.Equal(t, []string{"budget-50 ticket"}, lasting(30*time.Minute, 79))
	require.Equal(t, []string{"budget-50 ticket", "budget-20 page"}, lasting(11*time.Minute, 80))
	require.Equal(t, []string{"budget-50 ticket", "budget-20 page"}, lasting(time.Minute, 150))
	require.Contains(t, texts["description"], "Nothing of the budget over 30d is left.")
	require.Equal(t, []string{"budget-50 ticket", "budget-20 page"}, lasting(59*time.Minute, 60))
	require.Equal(t, []string{"budget-50 ticket"}, lasting(2*time.Minute, 60))
	require.Empty(t, lasting(61*time.Minute, 10))
}

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
