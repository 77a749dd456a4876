package main

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/rules/rulestest"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo/spec"
)

const lateSpec = `
version: sloengine/v1
service: shop
slos:
  - name: checkout
    objective: 99
    window: 1d
    indicator: {events: {valid: '{type="order"}', bad: '{outcome="failure"}'}}
`

// Events that come an hour late are where the two ways of counting part: the
// engine puts them into the minute in which they happened, and counters move when
// they arrive. So rules show an outage an hour after it, and page for it. Windows
// that hold both times agree, and so does the budget.
func TestLateEventsPartTheEngineFromTheRules(t *testing.T) {
	t.Parallel()
	const (
		perSecond    = 2
		outage       = 2 * time.Hour // for five minutes, in which every event fails
		arrival      = 3 * time.Hour // of the failures, all at once
		failures     = 5 * 60 * perSecond
		end          = 6 * time.Hour
		page         = "alertname=ErrorBudgetBurnPage slo_id=shop/checkout service=shop tier=page-1h"
		almost, none = 0.01, 0.0
	)
	sp, problems := spec.Load([]spec.File{{Name: "late.yaml", Data: []byte(lateSpec)}})
	require.NoError(t, problems.Err())
	s := sp.SLOs[0]

	var events []*oracleEvent
	add := func(at, received time.Duration, failed bool) {
		x := event.Event{Service: "shop", Type: "order", Time: oracleStart.Add(at), Count: 1}
		if failed {
			x.Outcome = event.Failure
		}
		events = append(events, &oracleEvent{at: at, received: received, encoded: event.AppendBinary(nil, &x)})
	}
	for i := range 20 { // rate() takes the first steps of a counter from zero for too small
		at := time.Duration(i) * time.Second
		add(at, at, true)
	}
	for at := time.Duration(0); at < end; at += time.Second / perSecond {
		if at == arrival {
			for i := range failures {
				add(outage+time.Duration(i)*time.Second/perSecond, at, true)
			}
		}
		if at < outage || at >= outage+5*time.Minute {
			add(at, at, false)
		}
	}
	slices.SortStableFunc(events, func(a, b *oracleEvent) int { return int(a.received - b.received) })

	// The one engine is both told and scraped.
	o := alerts.Options{NoEngine: true, Options: rules.Options{Scrape: oracleScrape, Eval: 30 * time.Second, LongEval: 5 * time.Minute}}
	recording, err := rules.Recording(rulesOf(sp), o.Options)
	require.NoError(t, err)
	alerting, err := alerts.Rules(rulesOf(sp), o)
	require.NoError(t, err)
	p := rulestest.New(t, oracleStart, lean(append(recording, alerting...)))
	e := newOracleEngine(t, sp, oracleStart)
	machine, err := state.New(state.Options{Alerts: o})
	require.NoError(t, err)
	byEngine, byRules := alertHistory{}, alertHistory{}
	reports := map[time.Duration]*sla.Report{}
	p.After = func(at time.Time) { byRules.see(p.Firing(""), at.Sub(oracleStart).Truncate(oracleScrape)) }
	sample := func(at time.Time, put func(string, float64)) {
		now := at.Sub(oracleStart)
		events, reports[now] = e.take(events, -1, now)
		byEngine.note(machine.Step(reports[now]), now)
		e.scrape("0", put)
	}

	for _, c := range []struct {
		name          string
		at, window    time.Duration
		engine, rules float64
	}{
		{"in the outage nobody knows", outage + 4*time.Minute, time.Hour, none, none},
		{"as they come, they are news to the rules only", arrival + time.Minute, 5 * time.Minute, none, 0.5},
		{"the hour before holds them as the rules see it", arrival + 10*time.Minute, time.Hour, none, failures / (3600.0*perSecond + failures)},
		{"a window with both times agrees", arrival + 30*time.Minute, 2 * time.Hour, failures / (7200.0 * perSecond), failures / (6900.0*perSecond + failures)},
		{"the outage has left the window of the engine", arrival + 90*time.Minute, 2 * time.Hour, none, failures / (7200.0*perSecond + failures)},
		{"both have forgotten", arrival + 150*time.Minute, 2 * time.Hour, none, none},
	} {
		p.Run(oracleStart.Add(c.at+2*time.Second), oracleScrape, sample)
		for _, b := range reports[c.at].SLOs[0].Burns {
			if b.Window == c.window && !b.Period {
				require.InDelta(t, c.engine, b.Rate*s.Objective.Budget(), 1e-9, "%s: engine", c.name)
			}
		}
		got, ok := p.Value(o.ErrorRatio(s, c.window), p.Now())
		require.True(t, ok, c.name)
		require.InDelta(t, c.rules, got, almost*max(c.rules, 1e-9), "%s: rules", c.name)
	}
	left, ok := p.Value(o.PeriodRemaining(s), p.Now())
	require.True(t, ok)
	require.InDelta(t, e.eval.Latest().SLOs[0].Budget.Remaining, left, 0.05)
	require.Empty(t, byEngine.of(page).spans, "the engine knows that it is long over")
	require.Len(t, byRules.of(page).spans, 1)
	require.InDelta(t, arrival.Seconds(), byRules.of(page).spans[0].from.Seconds(), 60)
}
