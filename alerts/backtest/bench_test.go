package backtest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/event"
)

// BenchmarkReplay replays a day with 20 SLOs, ticks of 10 seconds and 3.3 million events, against a candidate with
// other objectives: a thirtieth of 30 days with 100 million events, but for the sums of windows that fill.
func BenchmarkReplay(b *testing.B) { benchmarkReplay(b, 24*time.Hour, 386) }

// BenchmarkReplayMonth replays 30 days with a tenth of the events, so that the cost of ticks shows.
func BenchmarkReplayMonth(b *testing.B) { benchmarkReplay(b, 30*24*time.Hour, 39) }

func benchmarkReplay(b *testing.B, last time.Duration, perTick int) {
	text := "version: sloengine/v1\nservice: shop\nslos:\n"
	for i := range 20 {
		text += fmt.Sprintf("  - {name: slo-%02d, objective: 99.9, window: 30d, indicator: {events: {valid: "+
			"'{type=\"order\",step=~\"s%d.*\"}', bad: '{outcome=\"failure\"}'}}}\n", i, i%5)
	}
	before, after := load(b, text), load(b, strings.ReplaceAll(text, "99.9", "99"))
	w := newWorld(b)
	w.start(began, before)
	end := began.Add(last)
	for now := began.Add(10 * time.Second); now.Before(end); now = now.Add(10 * time.Second) {
		for i := range perTick {
			e := event.Event{Service: "shop", Type: "order", Time: now.Add(-time.Duration(i) * time.Millisecond), Count: 1}
			if i == 7 {
				e.Outcome = event.Failure
			}
			e.Set("step", fmt.Sprintf("s%d", i%50))
			w.Event(&e)
		}
		w.Flush(now.Add(-time.Millisecond))
	}
	b.ResetTimer()
	for b.Loop() {
		r := w.replay(began.Add(warmUp), end, before, after)
		require.NoError(b, r.run(b.Context()))
		require.Len(b, r.tallies, 1, "the two share a fold")
	}
}
