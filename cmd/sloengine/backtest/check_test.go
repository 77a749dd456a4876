package backtest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/reliability/wal"
)

// TestVerify: a tick with different states is found, and named.
func TestVerify(t *testing.T) {
	w := newWorld(t)
	sp := load(t, shop)
	w.engine(sp)
	w.start(began, sp)
	_, err := run(t, "--verify", "--data-dir", w.dir)
	require.ErrorContains(t, err, "has no ticks")
	for i := range 100 {
		now := began.Add(time.Duration(i+1) * 10 * time.Second)
		e := &event.Event{Service: "shop", Type: "order", Time: now.Add(-time.Second), Count: 10}
		if i >= 50 {
			e.Outcome = event.Failure
		}
		e.Set("bank", "b")
		w.event(e)
		w.flush(now.Add(-time.Millisecond))
		w.tick(now)
		states := w.machine.Hash()
		if i == 70 {
			states++
		}
		w.save()
		tick := record.Tick{Time: now.UnixNano(), Folded: w.log.NextSeq() - 1, States: states, Started: i == 0}
		w.write(record.TypeTicks, now.Add(time.Millisecond), tick.Append(nil))
	}
	w.save()
	out, err := run(t, "--verify", "--data-dir", w.dir)
	require.ErrorIs(t, err, cli.ErrFindings)
	require.Contains(t, out, "100 ticks compared, 1 difference.")
	require.Contains(t, out, "1 start of the engine")
	require.Regexp(t, `The first difference is at 2026-11-02 00:11:50Z, behind record \d+\. The replay has these alerts: .*`+
		`ErrorBudgetBurnPage shop/checkout firing since`, out)

	// Counts that were rebuilt are not in the log.
	w.write(record.TypeRebuilt, w.last, (&record.Rebuilt{Indicators: []string{"shop/checkout"}}).Append(nil))
	w.save()
	tick := record.Tick{Time: w.last.UnixNano(), Folded: w.log.NextSeq() - 1}
	w.write(record.TypeTicks, w.last.Add(time.Millisecond), tick.Append(nil))
	w.save()
	out, err = run(t, "--verify", "--data-dir", w.dir)
	require.ErrorIs(t, err, cli.ErrFindings)
	require.Contains(t, out, "100 ticks compared, 1 difference.")
	require.Contains(t, out, "1 tick not compared")

	_, err = run(t, "--verify", "-f", "x.yaml", "--data-dir", w.dir)
	require.ErrorContains(t, err, "takes no -f")
}

// TestFeed: ticks come between the records that they saw and those that they did not, whatever was written before they
// were. What is too far behind is late, and nothing is read ahead without bounds.
func TestFeed(t *testing.T) {
	ticks := func(folded ...uint64) (payload []byte) {
		for _, n := range folded {
			payload = (&record.Tick{Time: int64(n), Folded: n}).Append(payload)
		}
		return payload
	}
	const other = record.TypeEvents
	type rec struct {
		typ     byte
		at      time.Duration
		payload []byte
	}
	start := rec{record.TypeHeartbeat, 0, []byte{byte(record.BeatStart)}}
	for _, c := range []struct {
		log  []rec
		want string
	}{
		{[]rec{start, {other, 1, nil}, {other, 2, nil}, {record.TypeTicks, 3, ticks(2)}, {other, 4, nil}}, "1 2 t2 3 4 5 "},
		{[]rec{start, {record.TypeTicks, 1, ticks(1)}, start, {other, 1, nil}, {record.TypeTicks, 2, ticks(4, 4)}},
			"1 t1 2 3 4 t4 t4 5 "},
		{[]rec{start, {other, 1, nil}}, "1- 2- "},
		{[]rec{start, {other, 1, nil}, {other, 3 * maxAhead, nil}, {record.TypeTicks, 3 * maxAhead, ticks(1)}},
			"1- 2- late1 3 4 "},
	} {
		n := 0
		f := feed{next: func(r *wal.Record) (bool, error) {
			if n == len(c.log) {
				return false, nil
			}
			x := c.log[n]
			n++
			*r = wal.Record{Seq: uint64(n), Type: x.typ, Time: int64(x.at), Payload: x.payload}
			return true, nil
		}}
		got := ""
		for {
			e, ticks, late, ok, err := f.pull()
			require.NoError(t, err)
			for _, x := range ticks {
				got += fmt.Sprintf("%s%d ", map[bool]string{true: "late", false: "t"}[late], x.Folded)
			}
			if !ok {
				break
			}
			got += fmt.Sprint(e.Seq, map[bool]string{true: " ", false: "- "}[e.proc.ticks])
		}
		require.Equal(t, c.want, got)
	}
}
