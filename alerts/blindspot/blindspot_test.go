package blindspot

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/sla/evaluator"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
)

const day = 24 * time.Hour

// outages begin with the third hour of a Tuesday.
var (
	outages = time.Date(2026, 11, 17, 3, 0, 0, 0, time.UTC)
	hour    = 24 + 3
)

func newSLO(t testing.TB, id slo.ID, objective string) *slo.SLO {
	o, err := slo.ParsePercent(objective)
	require.NoError(t, err)
	failed, err := slo.NewMatcher("outcome", slo.OpEqual, "failure")
	require.NoError(t, err)
	return &slo.SLO{
		ID: id, Objective: o, Window: slo.Window{Rolling: 30 * day}, GroupBy: []string{"case"}, MaxGroups: 1000,
		Budgeting: slo.Budgeting{Method: slo.Occurrences},
		Indicator: slo.Indicator{Kind: slo.KindEvents, Bad: slo.Selector{failed}},
	}
}

// trial is one outage in one group.
type trial struct {
	slo    *slo.SLO
	group  string
	week   *Week
	player *player
	length time.Duration
	ratio  float64
	pages  bool // as predicted
	paged  bool
	sent   float64 // events so far
	failed float64
}

// send gives the events up to a time after the begin of the outage, as two events of a count.
func (x *trial) send(at time.Duration, give func(outcome event.Outcome, n uint32)) {
	to := x.player.whole(at)
	failed := bad(min(to, x.player.whole(x.length)), x.ratio)
	if n := failed - x.failed; n > 0 {
		give(event.Failure, uint32(n))
	}
	if n := to - x.sent - (failed - x.failed); n > 0 {
		give(event.Success, uint32(n))
	}
	x.sent, x.failed = to, failed
}

// TestRealEngine plays outages that are one tick longer and shorter than the shortest that pages, and error ratios a
// little above and below the smallest, through the fold, the evaluator and the alert states.
func TestRealEngine(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var trials []*trial
	var slos []*slo.SLO
	add := func(s *slo.SLO, week *Week) {
		all, why := Find(s, week)
		require.Empty(t, why)
		h := all[hour]
		one := func(length time.Duration, ratio float64, pages bool) {
			p := newPlayer(s, week)
			p.move(hour)
			trials = append(trials, &trial{slo: s, group: fmt.Sprint(len(trials)), week: week, player: p, length: length,
				ratio: ratio, pages: pages})
		}
		if h.Outage > 0 && h.Outage < 5*time.Hour {
			one(h.Outage-tick, 1, false)
			one(h.Outage+tick, 1, true)
		} else {
			one(4*time.Hour, 1, false)
		}
		if h.ErrorRatio > 0 {
			one(time.Hour, h.ErrorRatio/1.02, false)
			one(time.Hour, min(1, h.ErrorRatio*1.01), true)
		} else {
			one(time.Hour, 1, false)
		}
	}
	for _, objective := range []string{"88", "95", "99", "99.5", "99.9", "99.99"} {
		s := newSLO(t, slo.ID(fmt.Sprintf("s%d/up", len(slos))), objective)
		switch len(slos) % 4 {
		case 1:
			s.Alerting.MinEvents = 20
		case 2:
			s.Alerting.Page.For = 3 * time.Minute
		case 3:
			s.Alerting.FalsePages = 0.01
			s.Alerting.Tiers = []slo.Tier{{Page: true, Long: 2 * time.Hour, Short: 10 * time.Minute, Share: 0.03},
				{Page: true, Long: 20 * time.Minute, Short: 5 * time.Minute, Share: 0.015}}
		}
		slos = append(slos, s)
		for _, perHour := range []float64{2, 5, 10, 30, 100, 1000, 10_000} {
			add(s, Flat(perHour))
			var week Week // nights and odd hours
			for i := range week {
				week[i] = perHour * math.Pow(3, rng.NormFloat64())
			}
			add(s, &week)
		}
	}
	quick, slow := []*trial(nil), []*trial(nil)
	for _, x := range trials {
		if x.length <= time.Hour {
			quick = append(quick, x)
		} else {
			slow = append(slow, x)
		}
	}
	play(t, slos, quick, 2*time.Hour+10*time.Minute)
	play(t, slos, slow, 6*time.Hour)
	right := 0
	for _, x := range trials {
		if x.pages == x.paged {
			right++
			continue
		}
		t.Logf("%s, %.3g events in the hour: %s at a ratio of %.3g, predicted %t", x.slo.Objective, x.week[hour],
			x.length, x.ratio, x.pages)
	}
	t.Logf("%d of %d as predicted", right, len(trials))
	require.GreaterOrEqual(t, float64(right), 0.95*float64(len(trials)))
}

// play has a real engine see the outages, which begin between two ticks.
func play(t *testing.T, slos []*slo.SLO, trials []*trial, until time.Duration) {
	in := evaluator.Inputs{SLOs: slos}
	cfg, err := evaluator.Compile(in)
	require.NoError(t, err)
	f, err := fold.New(fold.Options{})
	require.NoError(t, err)
	e, err := evaluator.New(evaluator.Options{Source: func(_ context.Context, req fold.Request) (*fold.Sums, error) {
		return f.Sums(req), nil
	}})
	require.NoError(t, err)
	m, err := state.New(state.Options{})
	require.NoError(t, err)

	const warm = 7 * time.Hour
	from := outages.Add(-warm)
	f.Advance(from.UnixNano(), fold.Start)
	require.NoError(t, f.SetConfig(cfg, from.UnixNano()))
	require.NoError(t, e.SetSpec(in))
	byGroup := map[string]*trial{}
	for _, x := range trials {
		byGroup[x.group] = x
		x.sent = x.player.whole(-warm)
	}
	var view event.View
	const piece = 5 * time.Second
	for at := piece - warm; at < until; at += piece {
		when := outages.Add(at)
		f.Advance(when.UnixNano(), fold.Tick)
		for _, x := range trials {
			x.send(at, func(outcome event.Outcome, n uint32) {
				ev := &event.Event{Service: x.slo.ID.Service(), Type: "order", Time: when.Add(-time.Second),
					Outcome: outcome, Count: n}
				ev.Set("case", x.group)
				_, err := view.Parse(event.AppendBinary(nil, ev))
				require.NoError(t, err)
				require.NoError(t, f.Apply(when.UnixNano(), fold.Live, &view))
			})
		}
		if at < 0 || at%tick == 0 {
			continue // the engine's ticks are those in between
		}
		r, err := e.Tick(context.Background(), when)
		require.NoError(t, err)
		for _, change := range m.Step(r) {
			if a := change.Alert; change.To == state.Firing && a.Severity == "page" {
				byGroup[a.Label("case")].paged = true
			}
		}
	}
}
