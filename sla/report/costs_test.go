package report

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

// By hand: 12 and 5 bad applications at 2.50 are 42.50, in the whole month of 30 days against 100 per 10 days before.
func TestReportCosts(t *testing.T) {
	price, err := slo.ParseAmount("2.50")
	require.NoError(t, err)
	before, err := slo.ParseAmount("100")
	require.NoError(t, err)
	s := &slo.SLO{ID: "shop/a", GroupBy: []string{"region"},
		Cost: &slo.Cost{
			Unit: slo.PerBad, Price: price, Currency: "EUR", Baseline: slo.Payment{Amount: before, Per: 240 * time.Hour}}}
	free := &slo.SLO{ID: "shop/b"}
	month := slo.Span{From: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), To: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)}
	line := func(s *slo.SLO, region string, bad uint64) SLO {
		x := SLO{Covered: Covered{Span: month, Coverage: 1}, Now: &sla.SLOReport{SLO: s, Group: slo.Group{region}}}
		x.Net.Counts = slo.Counts{Good: 100, Bad: bad}
		x.Raw.Counts = slo.Counts{Good: 100, Bad: bad + 50} // planned maintenance costs nothing
		return x
	}
	r := &Report{SLOs: []SLO{line(s, "eu", 12), line(s, "us", 5), line(free, "", 7)}}
	c := r.Costs()
	require.Equal(t, "42.50 EUR", c.Sums[0].Amount.String())
	require.Equal(t, "300.00 EUR", c.Sums[0].Baseline.String())
	require.Equal(t, "257.50 EUR", c.Sums[0].Saving.String())
	require.Equal(t, []slo.ID{"shop/b"}, c.Other)
	require.False(t, c.Estimate)
	require.Equal(t, "30.00 EUR", r.SLOs[0].Cost().Amount.String())
	require.Nil(t, r.SLOs[0].Cost().Baseline, "it is that of all groups")
	require.Nil(t, r.SLOs[2].Cost())

	x := &SLA{}
	x.SLA, x.Period, x.Group = &sla.Agreement{GroupBy: []string{"region"}}, month, slo.Group{"eu"}
	x.Components = []sla.ComponentReport{{SLO: "shop/a", Counts: slo.Counts{Bad: 12}, Coverage: 0.5},
		{SLO: "shop/b", Counts: slo.Counts{Bad: 7}, Coverage: 1}, {SLO: "shop/gone"}}
	c = r.AgreementCosts(x)
	require.Equal(t, "30.00 EUR", c.Sums[0].Amount.String())
	require.Nil(t, c.Sums[0].Saving)
	require.True(t, c.Estimate)
	require.Equal(t, []slo.ID{"shop/b"}, c.Other)
}
