package backtest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/record"
)

// TestWorkbook replays logs of steady traffic with the incidents of the Google SRE workbook, chapter 5, for 99.9 % over
// 30 days: alerts fire and end when the workbook says.
func TestWorkbook(t *testing.T) {
	const never = 0
	m := func(x float64) time.Duration { return time.Duration(x * float64(time.Minute)) }
	sp := load(t, `version: sloengine/v1
service: shop
slos:
  - {name: checkout, objective: 99.9, window: 30d,
      indicator: {events: {valid: '{type="order"}', bad: '{outcome="failure"}'}}}
`)
	for _, c := range []struct {
		ratio                     float64
		lasts                     time.Duration
		pageDetect, pageReset     time.Duration
		ticketDetect, ticketReset time.Duration
	}{
		{1, 4 * time.Hour, 52 * time.Second, m(29.8), m(4.3), 6 * time.Hour},
		{0.15, 10 * time.Minute, m(5.8), m(4.5), never, never},
		{0.1, time.Hour, m(8.6), m(28.2), m(43.2), m(5.94 * 60)},
		{0.01, 12 * time.Hour, m(3.6 * 60), m(12), m(7.2 * 60), m(5.4 * 60)},
		{0.002, 3 * 24 * time.Hour, never, never, 36 * time.Hour, 3 * time.Hour},
	} {
		t.Run(fmt.Sprintf("%g for %s", c.ratio, c.lasts), func(t *testing.T) {
			const step, each = 10 * time.Second, 10_000
			w := newWorld(t)
			w.start(began, sp)
			begin := began.Add(3*24*time.Hour + time.Hour) // the longest window of an alert is full
			end := begin.Add(c.lasts)
			stop := end.Add(7 * time.Hour)
			for now := began.Add(step); now.Before(stop); now = now.Add(step) {
				e := event.Event{Service: "shop", Type: "order", Time: now.Add(-step / 2), Count: each}
				if !now.Before(begin.Add(step)) && now.Before(end.Add(step)) {
					bad := e
					bad.Outcome, bad.Count = event.Failure, uint32(c.ratio*each)
					w.Event(&bad)
					e.Count -= bad.Count
				}
				if e.Count > 0 {
					w.Event(&e)
				}
				w.Flush(now.Add(-time.Millisecond))
			}
			w.Beat(stop, record.BeatStop)
			r := w.replay(begin.Add(-time.Hour), stop, sp)
			require.NoError(t, r.run(t.Context()))
			for page, want := range map[bool][2]time.Duration{true: {c.pageDetect, c.pageReset},
				false: {c.ticketDetect, c.ticketReset}} {
				var fired, over time.Time
				for _, a := range r.lanes[0].alerts {
					if a.Tier == "" || a.Page != page {
						continue // the budget runs out, too
					}
					if fired.IsZero() {
						fired = a.Start
					}
					require.NotNil(t, a.End, "nothing burns any more")
					if a.End.After(over) {
						over = *a.End
					}
				}
				if want[0] == never {
					require.Zero(t, fired, "page %t", page)
					continue
				}
				// The workbook rounds to tenths of a minute or of an hour, and the traffic comes every ten seconds.
				for what, got := range []time.Duration{fired.Sub(begin), over.Sub(end)} {
					require.InDelta(t, want[what], got, 0.012*float64(want[what])+float64(2*step), "page %t: %d is %s",
						page, what, got)
				}
			}
		})
	}
}
