package sla_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

const day = 24 * time.Hour

func priced(t *testing.T, id slo.ID, price, currency, baseline, investment string) *slo.SLO {
	t.Helper()
	parse := func(s string) slo.Amount {
		a, err := slo.ParseAmount(s)
		require.NoError(t, err)
		return a
	}
	c := &slo.Cost{Unit: slo.PerBad, Price: parse(price), Currency: currency}
	if baseline != "" {
		c.Baseline = slo.Payment{Amount: parse(baseline), Per: 30 * day}
	}
	if investment != "" {
		c.Investment = slo.Payment{Amount: parse(investment), Per: 30 * day}
	}
	return &slo.SLO{ID: id, Cost: c, Indicator: slo.Indicator{Kind: slo.KindEvents}}
}

// A table by hand. 30 days, of which 97 % were observed for b:
//
//	SLO     bad      price      cost    baseline                 saving     investment
//	shop/a  40 + 2   12.50 EUR  525.00  12000                    11475.00   3000
//	shop/b  1000     0.30 EUR   300.00  900 * 0.97 = 873.00      573.00
//	bank/c  3        7 USD      21.00
//	shop/d  9        none
//	                 EUR        825.00  12873.00                 12048.00   3000, return 3.016
func TestCosts(t *testing.T) {
	a, b, c := priced(t, "shop/a", "12.50", "EUR", "12000", "3000"), priced(t, "shop/b", "0.30", "EUR", "900", ""),
		priced(t, "bank/c", "7", "USD", "", "")
	d := &slo.SLO{ID: "shop/d"}
	got := sla.NewCosts([]sla.Counted{
		{SLO: a, Group: slo.Group{"x"}, Bad: 40, Time: 30 * day, Coverage: 1, Whole: true},
		{SLO: a, Group: slo.Group{"y"}, Bad: 2, Time: 30 * day, Coverage: 1, Whole: true},
		{SLO: b, Bad: 1000, Time: 30 * day, Coverage: 0.97, Whole: true},
		{SLO: c, Bad: 3, Time: 30 * day, Coverage: 1, Sampled: true, Whole: true},
		{SLO: d, Bad: 9, Time: 30 * day, Coverage: 1, Whole: true},
	})
	require.Len(t, got.Sums, 2)
	eur, usd := got.Sums[0], got.Sums[1]
	require.Equal(t, "825.00 EUR", eur.Amount.String())
	require.Equal(t, "12873.00 EUR", eur.Baseline.String())
	require.Equal(t, "12048.00 EUR", eur.Saving.String())
	require.Equal(t, "3000.00 EUR", eur.Investment.String())
	require.InDelta(t, 3.016, *eur.Return, 1e-12)
	require.Equal(t, []slo.ID{"shop/a", "shop/b"}, eur.Compared)
	require.Equal(t, "21.00 USD", usd.Amount.String(), "never added to euros")
	require.Nil(t, usd.Baseline)
	require.Equal(t, []slo.ID{"shop/d"}, got.Other)
	require.Equal(t, [][2]slo.ID{{"shop/a", "shop/b"}}, got.Twice)
	require.True(t, got.Estimate)
	require.Equal(t, []string{
		"The cost of bank/c is an estimate: rate limits sampled its events, and each one stands for several.",
		"The cost of shop/b is an estimate: its coverage is 97.0%, and what was not observed has no cost.",
		"shop/a and shop/b can count the same event or time, so the sum may contain it twice.",
		"No cost is stated for shop/d.",
		"Amounts in different currencies are not added up.",
		"The saving in EUR compares shop/a, shop/b with the stated baseline, over the time that was observed.",
	}, got.Notes())
	require.Equal(t, "525.00 EUR", got.SLOs[1].Amount.String())
	require.EqualValues(t, 42, got.SLOs[1].Bad)
	text, err := json.Marshal(got.SLOs[1])
	require.NoError(t, err)
	require.JSONEq(t,
		`{"slo":"shop/a","basis":"12.50 EUR per bad event","currency":"EUR","amount":"525.00","bad":42,"coverage":1,
		"sampled":false,
		"baseline":"12000.00","saving":"11475.00","investment":"3000.00","return":2.825}`, string(text))
}

// What costs more than before saves less than nothing, and one group of several is compared with nothing.
func TestCostsAgainstBaseline(t *testing.T) {
	a := priced(t, "shop/a", "100", "EUR", "300", "30")
	got := sla.NewCosts([]sla.Counted{{SLO: a, Bad: 2, Time: 10 * day, Coverage: 1, Whole: true}}) // 200 instead of 100
	require.Equal(t, "-100.00 EUR", got.Sums[0].Saving.String())
	require.InDelta(t, -11, *got.Sums[0].Return, 1e-12, "(-100 - 10) / 10")
	require.False(t, got.Estimate)
	got = sla.NewCosts([]sla.Counted{{SLO: a, Group: slo.Group{"x"}, Bad: 2, Time: 10 * day, Coverage: 1}})
	require.Nil(t, got.Sums[0].Saving)
	require.Nil(t, sla.NewCosts([]sla.Counted{{SLO: &slo.SLO{ID: "shop/d"}, Bad: 1}}))
	minutes := &slo.SLO{ID: "shop/m", Budgeting: slo.Budgeting{Method: slo.Timeslices, Slice: 10 * time.Second},
		Cost: &slo.Cost{Unit: slo.PerMinute, Price: a.Cost.Price, Currency: "EUR"}}
	got = sla.NewCosts([]sla.Counted{{SLO: minutes, Bad: 9, Time: day, Coverage: 1}})
	require.Equal(t, "150.00 EUR", got.Sums[0].Amount.String())
	require.InDelta(t, 1.5, *got.SLOs[0].Minutes, 0)
}

func TestReportCounted(t *testing.T) {
	r := &sla.SLOReport{SLO: &slo.SLO{ID: "shop/a"}, Coverage: 0.5, Corrected: time.Hour,
		Period: slo.Span{From: time.Unix(0, 0), To: time.Unix(86400, 0)}}
	r.Budget.Counts = slo.Counts{Good: 90, Bad: 10}
	r.Burns = []slo.Burn{{}, {Period: true, Counts: r.Budget.Counts, Effective: 100}}
	require.Equal(t, sla.Counted{SLO: r.SLO, Bad: 10, Time: 23 * time.Hour, Coverage: 0.5, Whole: true}, r.Counted(true))
	r.Burns[1].Effective = 80
	require.True(t, r.Counted(false).Sampled)
	r.Slice = time.Minute
	require.False(t, r.Sampled())
}
