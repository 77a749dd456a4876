package rules_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/rules/rulestest"
)

const counted = `
version: sloengine/v1
service: shop
slos:
  - name: conversion
    objective: 35
    group_by: [product]
    indicator:
      ratio: {numerator: '{type="connected"}', denominator: '{type="applied"}'}
  - name: daily
    objective: 90
    indicator:
      volume: {at_least: 100, timezone: UTC}
slas:
  - name: all
    window: 1h
    score: ratio
    components: {conversion: {slo: conversion, weight: 1}}
  - name: volumes
    components: {daily: {slo: daily, weight: 1}}
`

// TestRatioInPrometheus: product a has 30 connected of 100 applied in the first ten minutes and 60 of 100 in the next
// ten, product b twice as many connected as applied, and product c nobody who applied.
func TestRatioInPrometheus(t *testing.T) {
	w := rulestest.New(t, monday, recording(t, load(t, counted), rules.Options{}))
	series := func(product, part string) string {
		return `slo_part_events_total{slo_id="shop/conversion",service="shop",slo="conversion",product="` + product +
			`",slo_part="` + part + `"}`
	}
	sums := map[string]float64{}
	w.Run(monday.Add(20*time.Minute), scrape, func(at time.Time, add func(string, float64)) {
		connected := 6.0
		if at.Sub(monday) <= 10*time.Minute {
			connected = 3
		}
		for name, n := range map[string]float64{
			series("a", "numerator"): connected, series("a", "denominator"): 10, series("b", "numerator"): 20,
			series("b", "denominator"): 10,
			series("c", "numerator"):   4, series("c", "denominator"): 0,
		} {
			sums[name] += n
			add(name, sums[name])
		}
	})
	require.InDelta(t, 0.4, value(t, w, `slo:sli_error:ratio_rate5m{slo_id="shop/conversion",product="a"}`), 1e-6)
	require.InDelta(t, 0.55, value(t, w, `slo:sli_error:ratio_rate30m{slo_id="shop/conversion",product="a"}`), 0.02)
	require.InDelta(t, 0.4/0.65, value(t, w, `slo:current_burn_rate:ratio{slo_id="shop/conversion",product="a"}`), 1e-6)
	require.Zero(t, value(t, w, `slo:sli_error:ratio_rate5m{slo_id="shop/conversion",product="b"}`), "at most 1")
	require.Negative(t, value(t, w, `slo:bad_events:rate5m{slo_id="shop/conversion",product="b"}`))
	require.Empty(t, w.Query(`slo:sli_error:ratio_rate5m{slo_id="shop/conversion",product="c"}`, w.Now()),
		"no denominator is no data")
	// All products together: the sums are compared, and b makes up for a.
	require.InDelta(t, 100, value(t, w, `sla:composite_score:ratio{sla="all"}`), 1e-6)
	require.Empty(t, w.Query(`{slo_id="shop/daily"}`, w.Now()), "no rule is about a volume")
}

func TestExpressible(t *testing.T) {
	in := load(t, counted).Expressible()
	require.Len(t, in.SLOs, 1)
	require.Len(t, in.Agreements, 1)
	require.Equal(t, "all", in.Agreements[0].Name)
}

// A gauge of OpenSLO with counter: false is a rate: 10 events a second, 1 of them bad, are 3,000 in five minutes and
// not as many as samples of it.
func TestGaugesOfEventsDoNotCountScrapes(t *testing.T) {
	const metric = `{metricSource: {type: Prometheus, spec: {query: `
	in := load(t, `
apiVersion: openslo/v1
kind: SLO
metadata: {name: paid}
spec:
  service: shop
  budgetingMethod: Occurrences
  timeWindow: [{duration: 30d, isRolling: true}]
  objectives: [{target: 0.99}]
  alertPolicies: []
  indicator:
    metadata: {name: i}
    spec:
      ratioMetric: {counter: false, bad: `+metric+`failing}}}, total: `+metric+`orders}}}}
`)
	for _, o := range []rules.Options{{}, {Profile: rules.Minimal}} {
		w := rulestest.New(t, monday, recording(t, in, o))
		w.Run(monday.Add(time.Hour), scrape, func(_ time.Time, add func(string, float64)) {
			add("failing", 1)
			add("orders", 10)
		})
		events := "slo:valid_events:rate5m * 300"
		if o.Profile == rules.Minimal {
			events = "slo:valid_events:5m"
		}
		require.InDelta(t, 3000, value(t, w, events), 1e-6)
		require.InDelta(t, 0.1, value(t, w, "slo:sli_error:ratio_rate5m"), 1e-6)
	}
}
