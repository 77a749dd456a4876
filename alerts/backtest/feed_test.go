package backtest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/reliability/wal"
)

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
		f := feed{most: maxAheadBytes, next: func(r *wal.Record) (bool, error) {
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
