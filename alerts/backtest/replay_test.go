package backtest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/sla"
)

// statesOf are the alerts of a machine, to be compared.
func statesOf(m *state.Machine) string {
	v := m.View()
	type one struct {
		Fingerprint        string
		State              state.State
		Value              float64
		Since, Fired, Done time.Time
		Bad                time.Time
	}
	out := []one{}
	for _, a := range v.Active {
		out = append(out, one{a.Fingerprint, a.State, a.Value, a.ActiveSince, a.FiredAt, a.ResolvedAt, a.FirstBad})
	}
	text, err := json.MarshalIndent(out, "", " ")
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(string(text), len(v.Held))
}

// TestReplayEqualsTheEngine runs an engine over days of random traffic with late events, failures, restarts and
// kills, and replays its log (SLOENGINE_WEEK=1: a week): at every tick the alerts are the same, with their times and
// values.
func TestReplayEqualsTheEngine(t *testing.T) {
	days := 2
	if os.Getenv("SLOENGINE_WEEK") != "" {
		days = 7
	}
	const interval = 10 * time.Second
	sp := load(t, shop(t))
	w, rng := newWorld(t), rand.New(rand.NewPCG(1, 2))
	w.engine(sp)
	w.start(began, sp)
	seen := map[time.Time]string{}
	end := began.Add(time.Duration(days) * 24 * time.Hour)
	failing, slow := 0.0, 0.0
	for now := began.Add(interval); now.Before(end); now = now.Add(interval) {
		if rng.IntN(700) == 0 {
			failing = []float64{0, 0, 0.02, 0.1, 0.6}[rng.IntN(5)]
			slow = []float64{0, 0.02, 0.3}[rng.IntN(3)]
		}
		switch rng.IntN(4000) {
		case 0: // a restart
			w.Beat(now.Add(-time.Second), record.BeatStop)
			now = now.Add(time.Duration(1+rng.IntN(60)) * interval)
			w.engine(sp)
			w.start(now.Add(-5*time.Second), sp)
		case 1: // a kill, and some minutes until somebody starts it again
			// The log does not tell within how many seconds of its last record a kill came: here after the last tick that
			// the record allows for.
			for ; now.Sub(w.Last) <= upGrace; now = now.Add(interval) {
				w.tick(now)
				seen[now] = statesOf(w.machine)
			}
			now = now.Add(time.Duration(3+rng.IntN(60)) * interval)
			w.engine(sp)
			w.start(now.Add(-5*time.Second), sp)
		}
		busy := rng.IntN(10) > 0
		for range rng.IntN(8) {
			if !busy {
				break
			}
			at := now.Add(-time.Duration(rng.IntN(9000)) * time.Millisecond)
			if rng.IntN(20) == 0 {
				at = at.Add(-time.Duration(rng.IntN(7200)) * time.Second)
			}
			e := &event.Event{Service: "shop", Type: "order", Time: at, Count: 1, HasDuration: true,
				Duration: time.Duration(rng.IntN(900)) * time.Millisecond}
			e.Set("bank", fmt.Sprint("b", rng.IntN(3)))
			if rng.Float64() < failing {
				e.Outcome = event.Failure
			}
			if rng.Float64() < slow {
				e.Duration = 3 * time.Second
			}
			w.Event(e)
		}
		w.Flush(now.Add(-time.Duration(1+rng.IntN(900)) * time.Millisecond))
		if now.Sub(w.Last) >= interval-time.Second {
			w.Beat(now.Add(-time.Millisecond), record.BeatTick)
		}
		w.tick(now)
		seen[now] = statesOf(w.machine)
	}
	require.Zero(t, w.refused)

	r := w.replay(began.Add(warmUp), end, sp)
	different, fired, extra := 0, 0, 0
	r.step = func(l *lane, report *sla.Report) {
		want, ok := seen[report.Time]
		switch got := statesOf(l.machine); {
		case !ok:
			extra++
		case got != want:
			if different++; different < 4 {
				t.Errorf("%s:\n got %s\nwant %s", report.Time, got, want)
			}
		}
		delete(seen, report.Time)
	}
	require.NoError(t, r.run(t.Context()))
	for _, a := range r.lanes[0].alerts {
		if a.End != nil {
			fired++
		}
	}
	require.Zero(t, different)
	require.LessOrEqual(t, extra, 1, "at the first record")
	require.Empty(t, seen, "every tick is replayed")
	require.Greater(t, fired, 5)
	require.True(t, slices.ContainsFunc(r.lanes[0].alerts, func(a Alert) bool { return a.Name == "LatencySLARecovered" }))
	t.Logf("%d ticks, %d alerts, %d events", r.ticks, len(r.lanes[0].alerts), r.events)
}
