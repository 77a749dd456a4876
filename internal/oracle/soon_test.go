package oracle

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/internal/testkit/spectest"
	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/rules/rulestest"
	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/forecast"
	"github.com/sloengine/sloengine/slo"
)

// outlookAt is what an engine forecasts of one group for a while.
type outlookAt struct {
	piece
	outlook *sla.Outlook // nil: there is none
}

// drawOutlooks is a day of forecasts: below, at and above the threshold of 0.75, an empty budget, or none. After a time
// without a forecast the next one stands for long enough that both sides follow it.
func drawOutlooks(rng *rand.Rand, length time.Duration) []outlookAt {
	var out []outlookAt
	for at := time.Duration(0); at < length; {
		least, kind := 4*time.Minute, rng.IntN(6)
		if n := len(out); n > 0 && out[n-1].outlook == nil {
			least, kind = 25*time.Minute, 1+rng.IntN(5)
		}
		x := outlookAt{piece: piece{at, at + between(rng, least, 45*time.Minute).Truncate(oracleStep)}}
		f := forecast.Forecast{Time: oracleStart.Add(at),
			Exhaustion: forecast.Exhaustion{Low: time.Hour, Median: 2 * time.Hour, High: 3 * time.Hour}}
		switch kind {
		case 0:
		case 1:
			f.Exhaustion = forecast.Exhaustion{Already: true, Soon: 1, Probability: 1}
			x.outlook = &sla.Outlook{Forecast: f}
		default:
			f.Exhaustion.Soon = []float64{0.3, 0.749, 0.75, 0.95}[rng.IntN(4)]
			x.outlook = &sla.Outlook{Forecast: f}
		}
		out = append(out, x)
		at = x.to
	}
	return out
}

// TestOneOracleOfForecasts: the live alert on a forecast and its rule, which scrapes the same engine, fire at the same
// times. docs/forecasts.md names the one difference: while there is no forecast, the live alert keeps firing, and the
// rule resolves.
func TestOneOracleOfForecasts(t *testing.T) {
	t.Parallel()
	sp := spectest.Spec(t, "spec.yaml", `
version: sloengine/v1
service: shop
slos:
  - name: availability
    objective: 99
    group_by: [product]
    indicator: {events: {valid: '{type="order"}', bad: '{outcome="failure"}'}}
    alerting: {exhausted_soon: {within: 36h, probability: 75}}
`)
	const length = 24 * time.Hour
	s, rng := sp.SLOs[0], rand.New(rand.NewPCG(1, 2))
	products := []string{"a", "b", slo.OtherGroup}
	drawn := map[string][]outlookAt{}
	for _, p := range products {
		drawn[p] = drawOutlooks(rng, length)
	}
	report := func(now time.Duration) *sla.Report {
		r := &sla.Report{Time: oracleStart.Add(now), Watermark: oracleStart.Add(now)}
		for _, p := range products {
			x := sla.SLOReport{SLO: s, Group: slo.Group{p}, Informative: p == slo.OtherGroup, Coverage: 1,
				Budget: slo.NewBudget(s.Objective, slo.Counts{Good: 99_500, Bad: 500})}
			i := slices.IndexFunc(drawn[p], func(o outlookAt) bool { return o.from <= now && now < o.to })
			x.Outlook = drawn[p][i].outlook
			r.SLOs = append(r.SLOs, x)
		}
		return r
	}

	o := alerts.Options{
		Options: rules.Options{Scrape: oracleScrape, Eval: time.Minute, LongEval: 5 * time.Minute}, NoEngine: true}
	m, err := state.New(state.Options{Alerts: o})
	require.NoError(t, err)
	engine, ruled := alertHistory{}, alertHistory{}
	for now := oracleStep; now < length; now += oracleStep {
		engine.note(m.Step(report(now)), now)
	}
	groups := alerts.Rules(spectest.Rules(sp), o)
	for i := range groups {
		groups[i].Rules = slices.DeleteFunc(slices.Clone(groups[i].Rules), func(r rules.Rule) bool {
			return r.Alert != alerts.NameExhaustedSoon
		})
	}
	w := rulestest.New(t, oracleStart, slices.DeleteFunc(groups, func(g rules.Group) bool { return len(g.Rules) == 0 }))
	w.After = func(at time.Time) { ruled.see(w.Firing(""), at.Sub(oracleStart).Truncate(oracleStep)) }
	w.Run(oracleStart.Add(length), oracleScrape, func(at time.Time, add func(string, float64)) {
		if now := at.Sub(oracleStart); now < length {
			export(
				report(now.Truncate(oracleStep)), []string{series.ForecastExhausted.Name, series.ForecastExhaustion.Name}, "0", add)
		}
	})

	const keeps = 15 * time.Minute // keep_firing_for
	grace := o.Eval + 2*oracleScrape
	for key := range engine {
		require.True(t, !strings.Contains(key, slo.OtherGroup), "the group of all others never alerts: %s", key)
	}
	transitions, together, gaps := 0, 0, 0
	for _, p := range products[:2] {
		key := alertKey(func(name string) string {
			return map[string]string{"alertname": alerts.NameExhaustedSoon, series.LabelSLOID: string(s.ID),
				series.LabelService: "shop", "product": p}[name]
		})
		e, r := engine.of(key), ruled.of(key)
		require.Equal(t, e.labels, r.labels)
		transitions += e.transitions() + r.transitions()
		for now := time.Duration(0); now < length; now += oracleStep {
			if e.at(now) == r.at(now) {
				if e.at(now) {
					together++
				}
				continue
			}
			from := now
			for now < length && e.at(now) != r.at(now) && e.at(now) == e.at(from) {
				now += oracleStep
			}
			now -= oracleStep
			if now-from <= grace {
				continue
			}
			missing := slices.ContainsFunc(drawn[p], func(o outlookAt) bool {
				return o.outlook == nil && o.from <= from && now <= o.to+keeps+grace
			})
			require.True(t, e.at(from) && missing, "%s: only the %s from %s to %s, and there is a forecast", key,
				map[bool]string{true: "engine fires", false: "rule fires"}[e.at(from)], from, now)
			gaps++
		}
	}
	require.Greater(t, transitions, 20)
	require.Greater(t, together, int(time.Hour/oracleStep))
	require.Positive(t, gaps, "no forecast was missing for long enough")
}
