package backtest

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/reliability/fsys"
)

// TestVerify: a tick with different states is found, and named.
func TestVerify(t *testing.T) {
	w := newWorld(t)
	sp := load(t, shop(t))
	w.engine(sp)
	w.start(began, sp)
	verify := func() (*Checked, error) {
		w.save()
		source, err := engine.OpenLog(fsys.OS(), w.dir)
		require.NoError(t, err)
		return Verify(t.Context(), source, time.Now(), 10*time.Second, alerts.Options{})
	}
	_, err := verify()
	require.ErrorContains(t, err, "has no ticks")
	for i := range 100 {
		now := began.Add(time.Duration(i+1) * 10 * time.Second)
		e := &event.Event{Service: "shop", Type: "order", Time: now.Add(-time.Second), Count: 10}
		if i >= 50 {
			e.Outcome = event.Failure
		}
		e.Set("bank", "b")
		w.Event(e)
		w.Flush(now.Add(-time.Millisecond))
		w.tick(now)
		states := w.machine.Hash()
		if i == 70 {
			states++
		}
		w.save()
		tick := record.Tick{Time: now.UnixNano(), Folded: w.NextSeq() - 1, States: states, Started: i == 0}
		w.Write(record.TypeTicks, now.Add(time.Millisecond), tick.Append(nil))
	}
	out, err := verify()
	require.NoError(t, err)
	lines := strings.Join(out.Summary(), "\n")
	require.Contains(t, lines, "100 ticks compared, 1 difference.")
	require.Contains(t, lines, "1 start of the engine")
	require.Regexp(t, `The first difference is at 2026-11-02 00:11:50Z, behind record \d+\. The replay has these `+
		`alerts: .*`+
		`ErrorBudgetBurnPage shop/checkout firing since`, lines)

	// Counts that were rebuilt are not in the log.
	w.Write(record.TypeRebuilt, w.Last, (&record.Rebuilt{Indicators: []string{"shop/checkout"}}).Append(nil))
	w.save()
	tick := record.Tick{Time: w.Last.UnixNano(), Folded: w.NextSeq() - 1}
	w.Write(record.TypeTicks, w.Last.Add(time.Millisecond), tick.Append(nil))
	w.save()
	out, err = verify()
	require.NoError(t, err)
	require.Equal(t, []int{100, 1, 101}, []int{out.Compared, out.Differences, out.Ticks})
	require.Contains(t, strings.Join(out.Notes, "\n"), "1 tick not compared")
}
