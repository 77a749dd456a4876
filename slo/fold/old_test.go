package fold

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/slo"
)

// TestOldTrafficIsNoNewTraffic: what is backfilled, and what is replayed more than
// a minute after its time, counts in its own time and moves no counter that
// somebody takes a rate of.
func TestOldTrafficIsNoNewTraffic(t *testing.T) {
	slow := Indicator{ID: "shop/latency", Service: "shop", Kind: Latency, Edges: []time.Duration{time.Second},
		Retention: 30 * day}
	cfg := config(availability(), slow)
	cfg.Services[0].Buckets = []time.Duration{time.Second}
	f := newFold(t, cfg, t0)
	aggregated := times(shop(t0.Add(-3*day)), 5)
	aggregated.Durations = []event.DurationCount{{Duration: time.Millisecond, Count: 2}, {Duration: time.Minute, Count: 3}}
	for _, x := range []struct {
		mode Mode
		e    *event.Event
	}{
		{Live, took(shop(t0.Add(-23*time.Hour)), time.Hour)}, // late, and new traffic: counters move on arrival
		{Backfill, failed(took(times(shop(t0.Add(-2*day)), 10), 2*time.Second))},
		{Backfill, aggregated},
		{Backfill, took(shop(t0), time.Second)}, // however recent
		{Replay, took(shop(t0.Add(-time.Minute)), time.Second)},
		{Replay, failed(took(shop(t0.Add(-time.Minute-1)), 2*time.Second))},
	} {
		require.NoError(t, tryApply(f, t0, x.mode, x.e))
	}
	data, _ := encode(f)
	for _, f := range []*Fold{f, restored(t, data)} {
		s := f.Sums(everything(t0.Add(time.Second)))
		a, l := groupOf(t, s, "shop/availability"), groupOf(t, s, "shop/latency")
		require.Equal(t, []uint64{2, 0}, a.Total)
		require.Equal(t, []uint64{6, 11}, a.Old)
		require.Equal(t, []uint64{1, 1}, l.Total)
		require.Equal(t, []uint64{3, 14}, l.Old)
		require.Equal(t, []uint64{8, 11}, longest(a), "windows know no difference")
		require.Equal(t, []uint64{4, 15}, longest(l))
		require.EqualValues(t, 4, s.Stats.Backfilled)
		require.EqualValues(t, 6, s.Stats.Events)
		require.Len(t, s.Traffic, 2)
		require.EqualValues(t, 2, s.Traffic[0].Count+s.Traffic[1].Count)
		require.Equal(t, []uint64{1, 1}, s.Durations[0].Counts)
		require.Equal(t, (3601 * time.Second).Seconds(), s.Durations[0].SumSeconds)
	}

	// A new generation forgets both.
	cfg.Indicators[0].Bad = nil
	require.NoError(t, f.SetConfig(cfg, t0.UnixNano()))
	a := groupOf(t, f.Sums(Request{}), "shop/availability")
	require.Equal(t, []uint64{0, 0}, a.Total)
	require.Nil(t, a.Old)
}

// longest are the sums of the longest window.
func longest(g Group) []uint64 {
	out := make([]uint64, len(g.Total))
	for _, sums := range g.Spans {
		for i, n := range sums {
			out[i] = max(out[i], n)
		}
	}
	return out
}

// restoredFile restores what an earlier version wrote.
func restoredFile(t *testing.T, name string, format byte) *Fold {
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	var parts map[string][]byte
	require.NoError(t, json.Unmarshal(text, &parts))
	require.Equal(t, format, parts[partState][0])
	data := map[string]string{}
	for name, part := range parts {
		data[name] = string(part)
	}
	return restored(t, data)
}

// TestStateOfFormat6 reads histograms that are split by service and type only. They go on beside those that are split
// further, until the config has other buckets.
func TestStateOfFormat6(t *testing.T) {
	f := restoredFile(t, "testdata/state6.json", oldestFormat)
	old := Durations{
		Service: "shop", Type: "order", Buckets: []time.Duration{time.Second}, Counts: []uint64{1, 1},
		Sum: 61 * time.Second, SumSeconds: 61,
	}
	require.Equal(t, []Durations{old}, f.Sums(Request{}).Durations)
	apply(t, f, t0, took(shop(t0, "channel", "front"), time.Second))
	split := Durations{
		Service: "shop", Type: "order", Outcome: "success", Dimensions: []string{"front"},
		Buckets: []time.Duration{time.Second},
		Counts:  []uint64{1, 0}, Sum: time.Second, SumSeconds: 1,
	}
	parts, _ := encode(f)
	require.Equal(t, byte(stateFormat), parts[partState][0])
	f = restored(t, parts)
	require.Equal(t, []Durations{old, split}, f.Sums(Request{}).Durations)

	cfg := config(availability())
	cfg.Services[0].Dimensions, cfg.Services[0].Buckets = []string{"channel"},
		[]time.Duration{time.Millisecond, time.Second}
	require.NoError(t, f.SetConfig(cfg, t0.UnixNano()))
	require.Empty(t, f.Sums(Request{}).Durations)
}

// TestStateOfFormat7 reads what knows nothing of receive times: late events from before count at their own time in
// conditions, and those that come now when they come.
func TestStateOfFormat7(t *testing.T) {
	f := restoredFile(t, "testdata/state7.json", flightFormat)
	now := t0.Add(2 * time.Hour)
	ask := Request{Now: now.Add(time.Second),
		Spans: []slo.Span{last(now.Add(time.Second), time.Hour), last(now.Add(time.Second), 5*time.Minute)}}
	a := groupOf(t, f.Sums(ask), "shop/availability", "A")
	require.Equal(t, []uint64{6, 1}, a.Spans[0])
	require.Nil(t, a.Moved)
	apply(t, f, now, failed(shop(now.Add(-40*time.Minute), "product", "A")))
	parts, _ := encode(f)
	require.Equal(t, byte(stateFormat), parts[partState][0])
	a = groupOf(t, restored(t, parts).Sums(ask), "shop/availability", "A")
	require.Equal(t, []uint64{6, 2}, a.Spans[0])
	require.Equal(t, []uint64{1, 0}, a.Spans[1])
	for span, want := range [][]uint64{{6, 2}, {1, 1}} {
		bins, _ := a.Received(span, slo.LatenessOf(time.Hour))
		require.Equal(t, want, bins)
	}
}
