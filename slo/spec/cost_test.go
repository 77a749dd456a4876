package spec

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/slo"
)

const (
	countsEvents = "indicator: {events: {valid: '{}', bad: '{outcome=\"failure\"}'}}"
	countsSlices = countsEvents + ", budgeting: {timeslices: {slice: 10s, target: 95}}"
)

func loadCost(slo, cost string) (*Spec, Problems) {
	return Load([]File{{Name: "f",
		Data: []byte("version: sloengine/v1\nservice: shop\ntypes: any\nslos:\n  - {name: a, objective: 99, " + slo +
			", cost: " + cost + "}\n")}})
}

func TestCost(t *testing.T) {
	price := func(s string) slo.Amount {
		a, err := slo.ParseAmount(s)
		require.NoError(t, err)
		return a
	}
	s, ps := loadCost(countsEvents,
		"{per_bad: 12.50, currency: EUR, baseline: {amount: 12000, per: 30d}, investment: {amount: 0.10, per: 1d}}")
	require.NoError(t, ps.Err())
	require.Equal(t, &slo.Cost{
		Unit: slo.PerBad, Price: price("12.5"), Currency: "EUR",
		Baseline:   slo.Payment{Amount: price("12000"), Per: 30 * 24 * time.Hour},
		Investment: slo.Payment{Amount: price("0.1"), Per: 24 * time.Hour},
	}, s.SLOs[0].Cost)
	requireRoundTrip(t, s)
	s, ps = loadCost(countsSlices, "{per_minute: 3, currency: JPY}")
	require.NoError(t, ps.Err())
	require.Equal(t, &slo.Cost{Unit: slo.PerMinute, Price: price("3"), Currency: "JPY"}, s.SLOs[0].Cost)

	for _, c := range []struct{ slo, cost, want string }{
		{countsEvents, "{}", "neither per_bad nor per_minute is set (write {per_bad: 12.50, currency: EUR})"},
		{countsEvents, "{per_bad: 1, per_minute: 1, currency: EUR}", "only one of per_bad and per_minute is allowed"},
		{countsEvents, "{per_bad: 1}", "add the currency"},
		{countsEvents, "{per_bad: 1, currency: euro}", `invalid currency "euro"`},
		{countsEvents, "{per_bad: 0, currency: EUR}",
			`want an amount above 0 with at most 12 digits before the point and 6 after it, got "0"`},
		{countsEvents, "{per_bad: 1e3, currency: EUR}", `got "1e3"`},
		{countsEvents, "{per_bad: -1, currency: EUR}", `got "-1"`},
		{countsEvents, "{per_bat: 1, currency: EUR}", "per_bad"},
		{countsEvents, "{per_minute: 1, currency: EUR}",
			"cost: per_minute requires slices of time, and this slo counts events (write per_bad"},
		{countsSlices, "{per_bad: 1, currency: EUR}",
			"cost: per_bad requires events, and this slo counts slices of time (write per_minute"},
		{countsEvents + ", budgeting: {ratio_timeslices: {slice: 1m}}", "{per_minute: 1, currency: EUR}",
			"counts neither bad events nor bad slices"},
		{`indicator: {ratio: {numerator: '{type="b"}', denominator: '{type="a"}'}}`, "{per_bad: 1, currency: EUR}",
			"a ratio has no bad events"},
		{`indicator: {apdex: {valid: '{type="a"}', satisfied: 1s, tolerating: 4s}}`, "{per_bad: 1, currency: EUR}",
			"an apdex counts half events"},
		{`indicator: {volume: {valid: '{type="a"}', at_least: 10, per: day, timezone: UTC}}`,
			"{per_minute: 1, currency: EUR}", "a volume counts days, weeks or months"},
		{"indicator: {prometheus: {error_ratio_query: 'avg_over_time(x[$window])'}}", "{per_bad: 1, currency: EUR}",
			"counts neither bad events nor bad slices"},
		{countsEvents, "{per_bad: 1, currency: EUR, investment: {amount: 1, per: 1d}}", "investment requires baseline"},
		{countsEvents, "{per_bad: 1, currency: EUR, baseline: {amount: 1}}", "set for how long it is"},
		{countsEvents, "{per_bad: 1, currency: EUR, baseline: 12}", "baseline"},
	} {
		_, ps := loadCost(c.slo, c.cost)
		require.ErrorContains(t, ps.Err(), c.want, c.cost)
		require.True(t, strings.HasPrefix(ps.Err().Error(), "f:5:"), ps.Err())
	}
}
