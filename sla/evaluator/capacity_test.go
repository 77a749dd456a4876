package evaluator

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/slo"
)

// TestCapacityEvents counts the events of a throughput with a capacity, also outside of its hours: 30 in its last
// slice, and 500 at night. One without a capacity exports no such counter.
func TestCapacityEvents(t *testing.T) {
	hours, err := slo.ParseSchedule("Mon-Fri 09:00-18:00 UTC")
	require.NoError(t, err)
	s := &slo.SLO{
		ID: "shop/orders", Objective: percent(t, "90"), Window: slo.Window{Rolling: day},
		Indicator: slo.Indicator{Kind: slo.KindThroughput, Valid: sel(t, "type", "order"), AtLeast: 1, Per: time.Minute,
			During: hours, Capacity: slo.Capacity{Events: 120, Per: time.Minute}},
	}
	plain := *s
	plain.ID, plain.Indicator.Capacity = "shop/plain", slo.Capacity{}
	w := &world{began: monday, Inputs: Inputs{SLOs: []*slo.SLO{s, &plain}}}
	now := monday.Add(12 * time.Hour)
	for _, x := range []struct {
		at time.Time
		n  uint64
	}{{monday.Add(3 * time.Hour), 500}, {now.Add(-time.Minute), 30}} {
		w.events = append(
			w.events, happening{at: x.at, received: x.at.Add(time.Second), typ: "order", outcome: "success", n: x.n, took: -1})
	}
	r := newPlayer(t, w).report(now)
	require.EqualValues(t, 530, find(r, "shop/orders")[0].EventsTotal)
	require.InDelta(t, 0.1, find(r, "shop/orders")[0].Rate, 1e-12)
	require.Zero(t, find(r, "shop/plain")[0].EventsTotal)
}
