package evaluator

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/slo"
)

// TestCorrectedCountsStayAsTheyAge asks again and again while maintenance that
// begins and ends at odd seconds, and the events around it, move from minutes
// before now to many days, and their counts into wider and wider buckets.
func TestCorrectedCountsStayAsTheyAge(t *testing.T) {
	orders, failed := sel(t, "type", "order"), sel(t, "outcome", "failure")
	window := slo.Window{Rolling: 14 * day}
	rng := rand.New(rand.NewPCG(3, 4))
	began := monday.Add(10 * time.Hour)
	fixes := []slo.Correction{{Start: began.Add(61 * time.Second), Duration: 4 * time.Minute}}
	for range 8 {
		fixes = append(fixes, slo.Correction{
			Start:    began.Add(time.Duration(rng.IntN(7200)) * time.Second),
			Duration: time.Duration(1+rng.IntN(400)) * time.Second,
		})
	}
	w := &world{began: monday, Inputs: Inputs{SLOs: []*slo.SLO{
		{
			ID: "shop/events", Objective: percent(t, "90"), Window: window, Corrections: fixes,
			Indicator: slo.Indicator{Kind: slo.KindEvents, Valid: orders, Bad: failed},
		},
		{
			ID: "shop/once", Objective: percent(t, "90"), Window: window, Corrections: fixes[:1],
			Indicator: slo.Indicator{Kind: slo.KindEvents, Valid: orders, Bad: failed},
		},
		{
			ID: "shop/slices", Objective: percent(t, "90"), Window: window, Corrections: fixes,
			Budgeting: slo.Budgeting{Method: slo.Timeslices, Slice: time.Minute, Target: percent(t, "50")},
			Indicator: slo.Indicator{Kind: slo.KindEvents, Valid: orders, Bad: failed},
		},
	}}}
	for s := range 3 * 3600 { // one event a second
		at := began.Add(time.Duration(s-1800) * time.Second)
		h := happening{at: at, received: at, typ: "order", outcome: "success", took: -1, n: 1}
		if rng.IntN(4) == 0 {
			h.outcome = "failure"
		}
		w.events = append(w.events, h)
	}
	p := newPlayer(t, w)
	first := map[slo.ID]slo.Counts{}
	for _, age := range []time.Duration{
		0, 10*time.Minute + 7*time.Second, time.Hour, 70 * time.Minute, 7*time.Hour + 13*time.Second, 2 * day,
		71 * time.Hour, 3 * day,
		3*day + 3*time.Hour + 41*time.Second, 4 * day, 9*day + 17*time.Minute, 13 * day,
	} {
		now := began.Add(3*time.Hour - 20*time.Minute + age)
		r, o := p.report(now), w.oracle(now)
		require.Len(t, r.SLOs, 3)
		for i := range r.SLOs {
			x := &r.SLOs[i]
			if age == 0 {
				first[x.SLO.ID] = x.Budget.Counts
				require.Equal(t, o.count(x.SLO, nil, monday, true).counts, x.Budget.Counts, x.SLO.ID)
				require.Less(t, x.Budget.Counts.Valid(), x.Raw.Counts.Valid(), x.SLO.ID)
			}
			require.Equal(t, first[x.SLO.ID], x.Budget.Counts, "%s, %s later", x.SLO.ID, age)
			require.Equal(t, o.corrected(x.SLO, slo.Span{From: monday, To: began.Add(3 * time.Hour)}), x.Corrected,
				"%s, %s later", x.SLO.ID, age)
		}
		require.Equal(t, 10*time.Minute, r.SLOs[1].Corrected, "from 10:01:01 to 10:05:01")
		require.Equal(t, r.SLOs[1].Raw.Counts.Valid()-600, r.SLOs[1].Budget.Counts.Valid())
	}
}
