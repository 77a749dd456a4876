package evaluator

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/slo"
)

// TestVolumeByHand counts four weeks of a shop that takes 60 orders on every day at 10:00 and 60 at 20:00, and 90 in
// all on the last Tuesday before the present one.
func TestVolumeByHand(t *testing.T) {
	s := &slo.SLO{
		ID: "shop/daily", Objective: percent(t, "90"), Window: slo.Window{Rolling: 10 * day},
		Indicator: slo.Indicator{Kind: slo.KindVolume, Valid: sel(t, "type", "order"), AtLeast: 100,
			Calendar: slo.Day, Location: time.UTC},
	}
	w := &world{began: monday, Inputs: Inputs{SLOs: []*slo.SLO{s}}}
	const missed = 29 // a Tuesday
	for d := range 36 {
		for _, hour := range []int{10, 20} {
			n := uint64(60)
			if d == missed && hour == 20 {
				n = 30
			}
			at := monday.Add(time.Duration(d)*day + time.Duration(hour)*time.Hour)
			w.events = append(
				w.events, happening{at: at, received: at.Add(time.Second), typ: "order", outcome: "success", n: n, took: -1})
		}
	}
	p := newPlayer(t, w)
	now := monday.Add(36*day + 12*time.Hour) // a Tuesday, on which nothing has come
	r := find(p.report(now), "shop/daily")[0]
	// The window holds the days 27 to 35 as a whole, of which one was missed.
	require.Equal(t, slo.Counts{Good: 8, Bad: 1}, r.Budget.Counts)
	require.InDelta(t, (1.0/9)/0.1, r.Budget.Consumed, 1e-12)
	require.Equal(t, slo.StateExhausted, r.State)
	v := r.Volume
	require.NotNil(t, v)
	require.True(t, v.From.Equal(monday.Add(36*day)))
	require.Zero(t, v.Events)
	require.EqualValues(t, 100, v.Target)
	// The same weekday of four weeks: 60 of 120, 60 of 90, 60 of 120, 60 of 120 had come by noon.
	require.Equal(t, 4, v.Usual)
	require.InDelta(t, 100*240.0/450, v.Expected, 1e-9)
	require.True(t, v.Missed.From.Equal(monday.Add(missed*day)))
	require.EqualValues(t, 90, v.MissedEvents)
	for _, b := range r.Burns[:5] {
		require.False(t, b.HasData, "no day lies within %s", b.Window)
	}
	require.Equal(t, slo.Counts{Good: 36*120 - 30}, r.Total, "no event is bad for coming")

	// A day without events is bad, and its late events make it good.
	now = now.Add(day)
	r = find(p.report(now), "shop/daily")[0]
	require.Equal(t, slo.Counts{Good: 7, Bad: 2}, r.Budget.Counts)
	late := happening{at: monday.Add(36*day + 15*time.Hour), received: now.Add(time.Minute), typ: "order",
		outcome: "success", n: 100, took: -1}
	w.events = append(w.events, late)
	r = find(p.report(now.Add(2*time.Minute)), "shop/daily")[0]
	require.Equal(t, slo.Counts{Good: 8, Bad: 1}, r.Budget.Counts)
}

// TestVolumeWithoutEvents: empty days are bad once all of a day was observed, also of an expected group.
func TestVolumeWithoutEvents(t *testing.T) {
	s := &slo.SLO{
		ID: "shop/daily", Objective: percent(t, "90"), Window: slo.Window{Rolling: 30 * day}, GroupBy: []string{"product"},
		MaxGroups: 10, Expect: []slo.Group{{"a"}},
		Indicator: slo.Indicator{Kind: slo.KindVolume, AtLeast: 1, Calendar: slo.Day, Location: time.UTC},
	}
	w := &world{began: monday.Add(6 * time.Hour), Inputs: Inputs{SLOs: []*slo.SLO{s}}}
	r := find(newPlayer(t, w).report(monday.Add(3*day+time.Hour)), "shop/daily")
	require.Len(t, r, 1)
	require.Equal(t, slo.Counts{Bad: 2}, r[0].Budget.Counts, "the day on which the engine began is not judged")
}
