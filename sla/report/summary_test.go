package report

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/sla"
)

func TestSummary(t *testing.T) {
	var r Report
	for _, v := range []Verdict{Met, Informative, NoData, Breached, Met} {
		r.SLOs = append(r.SLOs, SLO{Covered: Covered{Coverage: 1}, Verdict: v})
	}
	r.SLAs = make([]SLA, 1)
	r.SLAs[0].Verdict, r.SLAs[0].Coverage = Breached, 0.5
	r.Thresholds = make([]Threshold, 2)
	for i := range r.Thresholds {
		r.Thresholds[i].Coverage, r.Thresholds[i].Violations = 1, sla.Violations{Within: 1, Warning: 2, Critical: 3}
	}
	require.Equal(t, Tally{Met: 2, Breached: 1, NoData: 1}, r.Objectives())
	require.Equal(t, 3, r.Objectives().Judged(), "what only informs, and what has no data, is not judged")
	require.Equal(t, Tally{Breached: 1}, r.Agreements())
	require.Equal(t, sla.Violations{Within: 2, Warning: 4, Critical: 6}, r.Violations())
	low, ok := r.LowestCoverage()
	require.True(t, ok)
	require.InDelta(t, 0.5, low, 1e-12)

	var order []Verdict
	for _, x := range WorstFirst(r.SLOs, func(x *SLO) Verdict { return x.Verdict }) {
		order = append(order, x.Verdict)
	}
	require.Equal(t, []Verdict{Breached, NoData, Met, Met, Informative}, order)

	require.Len(t, r.Notes(), 3, "what an objective means, coverage, late events")
	r.SLAs[0].Coverage, r.SLOs[0].Rounded, r.SLOs[0].Corrected = 1, true, 1
	require.Len(t, r.Notes(), 4, "maintenance and hours in place of coverage")
}
