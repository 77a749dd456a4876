package evaluator

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/slo"
)

// TestPeakMinuteByHand: a minute of 30 orders, one of 50 that leaves the last hour, a late order, and another group.
func TestPeakMinuteByHand(t *testing.T) {
	open, err := slo.ParseSchedule("Mon-Fri 09:00-18:00 UTC")
	require.NoError(t, err)
	s := &slo.SLO{
		ID: "shop/orders", Objective: percent(t, "99"), Window: slo.Window{Rolling: 10 * day},
		GroupBy: []string{"product"}, MaxGroups: 10,
		Indicator: slo.Indicator{Kind: slo.KindThroughput, Valid: sel(t, "type", "order"), AtLeast: 1,
			Per: 5 * time.Minute, During: open},
	}
	w := &world{began: monday, Inputs: Inputs{SLOs: []*slo.SLO{s}}}
	noon := monday.Add(20 * time.Hour) // after the hours, which judge slices only
	order := func(product string, ago time.Duration, n uint64, late time.Duration) {
		at := noon.Add(-ago)
		w.events = append(w.events, happening{at: at, received: at.Add(late), typ: "order", outcome: "success", n: n,
			took: -1, product: product})
	}
	order("a", 60*time.Minute, 50, time.Second)                 // its minute is the first of the hour before noon
	order("a", 90*time.Minute, 90, time.Second)                 // before it
	order("a", 10*time.Minute, 12, time.Second)                 // 30 in one minute
	order("a", 9*time.Minute+time.Second, 18, time.Second)      //
	order("a", 9*time.Minute, 5, time.Second)                   // the next one
	order("b", 30*time.Minute, 7, time.Second)                  //
	order("a", 20*time.Second, 99, time.Second)                 // the present minute of noon minus a second
	order("b", 40*time.Minute, 8, 40*time.Minute+5*time.Second) // late: received five seconds after noon
	p := newPlayer(t, w)
	peaks := func(at time.Time) (a, b uint64) {
		for _, r := range find(p.report(at), "shop/orders") {
			if r.Group[0] == "a" {
				a = r.PeakMinute
			} else {
				b = r.PeakMinute
			}
		}
		return a, b
	}
	for _, c := range []struct {
		after time.Duration
		a, b  uint64
	}{
		{-time.Second, 50, 7}, // up to 11:59
		{0, 99, 7},
		{10 * time.Second, 99, 7}, // asked for again with the next minute only
		{time.Minute, 99, 8},
		{20 * time.Minute, 99, 8},
		{21 * time.Minute, 99, 7},
		{30 * time.Minute, 99, 7},
		{31 * time.Minute, 99, 0},
		{60*time.Minute - time.Second, 99, 0},
		{60 * time.Minute, 0, 0},
	} {
		a, b := peaks(noon.Add(c.after))
		require.Equal(t, [2]uint64{c.a, c.b}, [2]uint64{a, b}, "%s after noon", c.after)
	}
}
