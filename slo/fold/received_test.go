package fold

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/slo"
)

// While receive times stand still ahead of a clock that was set back, conditions still see what arrives.
func TestConditionsSeeEventsWhenTheClockWasSetBack(t *testing.T) {
	for _, back := range []time.Duration{2 * time.Minute, time.Hour, 24 * time.Hour} {
		f := newFold(t, config(availability()), t0)
		record := t0.Add(back) // the log's time, which never goes back
		apply(t, f, record, shop(record))
		for i := range 60 {
			apply(t, f, record, failed(shop(t0.Add(time.Duration(i)*time.Second))))
		}
		now := t0.Add(time.Minute)
		sums := f.Sums(Request{Now: now,
			Spans: []slo.Span{
				{From: now.Add(-5 * time.Minute), To: now}, {From: now.Add(-5 * time.Minute), To: now.Add(-time.Minute)}}})
		bins, _ := sums.Groups[0].Received(0, 0)
		require.Equal(t, []uint64{0, 60}, bins, "set back by %s", back)
		bins, _ = sums.Groups[0].Received(1, 0)
		require.Equal(t, []uint64{0, 0}, bins, "a span of the past has none of them")
		require.Equal(t, []uint64{0, 60}, sums.Groups[0].Spans[0], "windows count by event time")
	}
}
