package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
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
	o := alerts.Options{NoEngine: true, Options: rules.Options{Scrape: oracleScrape, Eval: 30 * time.Second, LongEval: 5 * time.Minute}}
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
		x := event.Event{Service: "shop", Type: "order", Time: oracleStart.Add(at), Count: 1, Duration: time.Millisecond, HasDuration: true}
		if failed {
			x.Outcome, x.Duration = event.Failure, time.Minute
		}
		return event.AppendBinary(nil, &x)
	}
	var live []*oracleEvent
	for at := time.Duration(0); at < 4*time.Hour; at += 500 * time.Millisecond {
		live = append(live, &oracleEvent{at: at, received: at, encoded: encoded(at, at%(1000*time.Second) == 100*time.Second)})
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
	require.EqualValues(t, 15*day-60+1, r.Thresholds[0].Month.Critical-r.SLOs[0].Total.Bad, "and the month has all but what the two hours pushed out")
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

// TestBackfillOfTheProgram sends history in the ways that there are to a running
// program: `send --backfill`, and a replay of an old dead letter.
func TestBackfillOfTheProgram(t *testing.T) {
	dir := t.TempDir()
	specFile := writeFile(t, dir, "spec.yaml", strings.ReplaceAll(lateSpec, "window: 1d", "window: 30d")+"limits:\n  - {name: slow, match: '{type=\"order\"}', warning: 1s}\n")
	p, ok := serveIn(t, dir, specFile, "evaluator: {interval: 50ms}\nlimits:\n  default: off\n  contexts:\n    - {name: user, from: [\"attribute:user\"], limit: 1, window: 1d, on_exceeded: drop}\ndead_letters: {filter: {always_save: [order]}}\n")
	require.True(t, ok, p.log.String())
	p.waitReady(t)
	now := time.Now()
	line := func(id string, age time.Duration, user string) string {
		return fmt.Sprintf(`{"id":%q,"time":%q,"service":"shop","type":"order","outcome":"failure","duration_ms":2000,"attributes":{"user":%q}}`+"\n", id, now.Add(-age).UTC().Format(time.RFC3339Nano), user)
	}
	var past strings.Builder
	for i := range 3000 {
		past.WriteString(line(fmt.Sprintf("past-%d", i), time.Duration(i)*14*time.Minute, fmt.Sprintf("u%d", i)))
	}
	send := exec.Command(p.cmd.Path, "send", "--backfill", "--url", p.base, writeFile(t, dir, "past.ndjson", past.String()))
	send.Env = p.cmd.Env
	out, err := send.CombinedOutput()
	require.NoError(t, err, string(out))
	status, answer := post(t, p.base+"/api/v1/events", "", line("live", 0, "live")+line("refused", 2*time.Hour, "live"))
	require.Equal(t, http.StatusAccepted, status, answer)
	require.Contains(t, answer, `"dead_lettered":1`)
	require.Equal(t, 1, replayAll(t, p))

	check := func(p *process) {
		t.Helper()
		require.Eventually(t, func() bool { return counter(t, p, "slo_backfilled_events_total") == 3001 }, 60*time.Second, 50*time.Millisecond)
		for _, family := range []string{"slo_events_total", "sloengine_events_total", "sla_violations_total"} {
			require.Equal(t, 1.0, counter(t, p, family), "%s is of live traffic only", family)
		}
		h := scrape(t, p)["sloengine_event_duration_seconds"].GetMetric()
		require.Len(t, h, 1)
		require.EqualValues(t, 1, h[0].GetHistogram().GetSampleCount())
		require.Equal(t, 3001.0, counter(t, p, "sloengine_fold_backfilled_events_total"))
		var list struct {
			Items []struct {
				Total, Backfilled, Events struct{ Bad int }
				Coverage                  float64
			}
		}
		require.NoError(t, json.Unmarshal(get(t, p.base+"/api/v1/slos"), &list))
		require.Equal(t, 1, list.Items[0].Total.Bad)
		require.Equal(t, 3001, list.Items[0].Backfilled.Bad)
		require.Equal(t, 3002, list.Items[0].Events.Bad, "the window has them all")
		require.Greater(t, list.Items[0].Coverage, 0.95, "the file has all events of its time, 14 minutes apart")
	}
	check(p)
	p.kill()
	p, ok = serveIn(t, dir, specFile, "evaluator: {interval: 50ms}\n")
	require.True(t, ok, p.log.String())
	p.waitReady(t)
	check(p)
	p.stop(t)
}
