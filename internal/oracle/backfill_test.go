package oracle

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/internal/testkit/spectest"
	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/rules/rulestest"
	"github.com/sloengine/sloengine/sla"
)

// Thirty days of failures that arrive within a second are history: the engine shows
// them in their own time, and neither it nor the generated rules take them for a burn
// of now, although both go on counting live traffic.
func TestBackfillIsNoBurnOfNow(t *testing.T) {
	t.Parallel()
	const text = lateSpec + `limits:
  - {name: slow, match: '{type="order"}', critical: 1s}
`
	sp := spectest.Spec(t, "late.yaml", text)
	s := sp.SLOs[0]
	o := alerts.Options{
		NoEngine: true, Options: rules.Options{Scrape: oracleScrape, Eval: 30 * time.Second, LongEval: 5 * time.Minute}}
	recording, err := rules.Recording(spectest.Rules(sp), o.Options)
	require.NoError(t, err)
	alerting := alerts.Rules(spectest.Rules(sp), o)
	p := rulestest.New(t, oracleStart, lean(append(recording, alerting...)))
	e := newOracleEngine(t, sp, oracleStart)
	machine, err := state.New(state.Options{Alerts: o})
	require.NoError(t, err)
	byEngine, byRules := alertHistory{}, alertHistory{}
	p.After = func(at time.Time) { byRules.see(p.Firing(""), at.Sub(oracleStart).Truncate(oracleScrape)) }

	encoded := func(at time.Duration, failed bool) []byte {
		x := event.Event{Service: "shop", Type: "order", Time: oracleStart.Add(at), Count: 1,
			Duration: time.Millisecond, HasDuration: true}
		if failed {
			x.Outcome, x.Duration = event.Failure, time.Minute
		}
		return event.AppendBinary(nil, &x)
	}
	var live []*oracleEvent
	for at := time.Duration(0); at < 4*time.Hour; at += 500 * time.Millisecond {
		live = append(
			live, &oracleEvent{at: at, received: at, encoded: encoded(at, at%(1000*time.Second) == 100*time.Second)})
	}
	const arrival = 2 * time.Hour
	const day = 24 * 60
	var r *sla.Report
	sample := func(at time.Time, put func(string, float64)) {
		now := at.Sub(oracleStart)
		if now == arrival {
			for batch := range 30 {
				var body []byte
				for i := range day {
					body = append(body, encoded(-time.Duration(batch*day+i)*time.Minute, i%2 == 0)...)
				}
				e.apply(record.TypeEvents, at.Add(-1), append([]byte{day&0x7f | 0x80, day >> 7, 1}, body...))
			}
		}
		live, r = e.take(live, -1, now)
		byEngine.note(machine.Step(r), now)
		e.scrape("0", put)
	}
	p.Run(oracleStart.Add(arrival+2*time.Second), oracleScrape, sample)
	require.EqualValues(t, 15*day, r.SLOs[0].Backfilled.Bad, "in total, whatever is still in a window")
	require.Zero(t, r.Thresholds[0].Total.Critical-r.SLOs[0].Total.Bad, "violations of live traffic only")
	require.EqualValues(t, 15*day-60+1, r.Thresholds[0].Month.Critical-r.SLOs[0].Total.Bad,
		"and the month has all but what the two hours pushed out")
	p.Run(oracleStart.Add(3*time.Hour+2*time.Second), oracleScrape, sample)

	ratio, ok := p.Value(o.ErrorRatio(s, time.Hour), p.Now())
	require.True(t, ok)
	require.InDelta(t, 0.0005, ratio, 0.0002, "the rules know the live failures")
	require.Empty(t, byRules, "no alert of the rules")
	for key := range byEngine {
		require.NotContains(t, key, "page", "no page of the engine")
		require.NotContains(t, key, "LatencySLACritical")
	}
}
