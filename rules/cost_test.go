package rules_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/rules/rulestest"
)

const pricedShop = shop +
	`    cost: {per_bad: 12.50, currency: EUR, baseline: {amount: 86400, per: 1d}, investment: {amount: 8640, per: 1d}}
`

// By hand: 10 events a second, of which one in a hundred fails, are 360 bad events and 4500 EUR an hour. Maintenance
// costs nothing, so four hours with it cost only two of them.
func TestCostRules(t *testing.T) {
	const maintenance = `corrections:
  - {name: upgrade, start: 2026-03-02T04:00:00Z, duration: 2h, author: ops, reason: planned}
`
	w := rulestest.New(t, monday, coarse(recording(t, load(t, pricedShop+maintenance), rules.Options{}),
		"slo:valid_events:rate5m", "slo:bad_events:rate5m", "slo:cost:increase5m", "slo:cost_baseline:per_second",
		"slo:cost_investment:per_second",
		"slo:correction_start:seconds", "slo:correction_end:seconds"))
	n := traffic{valid: 1e6, bad: 1e4}
	w.Run(monday.Add(8*time.Hour+6*time.Minute), scrape, func(at time.Time, add func(string, float64)) {
		n.scrape(add)
		n.add(10, 0.01)
	})
	const cost = `slo:cost:increase5m{slo_id="shop/checkout",service="shop",slo="checkout",slo_currency="EUR",` +
		`slo_basis="12.50 EUR per bad event"}`
	sum := func(over string, at time.Duration) float64 {
		x, ok := w.Value("sum_over_time("+cost+"["+over+"])", monday.Add(at))
		require.True(t, ok)
		return x
	}
	require.InEpsilon(t, 4500, sum("1h", 3*time.Hour), 0.02)
	require.InDelta(t, 22*375, sum("4h", 8*time.Hour), 100, "22 times five minutes: the rules round maintenance outward")
	require.InDelta(t, 1, value(t, w, `slo:cost_baseline:per_second{slo_id="shop/checkout",slo_currency="EUR"}`), 1e-12)
	require.InDelta(
		t, 0.1, value(t, w, `slo:cost_investment:per_second{slo_id="shop/checkout",slo_currency="EUR"}`), 1e-12)
}

// A bad slice costs its minutes.
func TestCostRulesOfSlices(t *testing.T) {
	in := load(t, strings.Replace(pricedShop, "per_bad: 12.50", "per_minute: 12", 1)+
		"    budgeting: {timeslices: {slice: 5m, target: 95}}\n")
	for _, g := range recording(t, in, rules.Options{}) {
		for _, r := range g.Rules {
			if r.Record == "slo:cost:increase5m" {
				require.True(t, strings.HasSuffix(r.Expr, ` * 18000`), "%s: 60 EUR for each of the slices of 300 seconds", r.Expr)
				require.Equal(t, "12.00 EUR per minute of violation", r.Labels["slo_basis"])
				return
			}
		}
	}
	t.Fatal("no rule of costs")
}
