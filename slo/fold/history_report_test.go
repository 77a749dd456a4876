package fold

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/slo"
)

// TestKeptEqualsSums: what was dropped in a span is the same whoever asks, for events
// and slices alike, and asking changes nothing.
func TestKeptEqualsSums(t *testing.T) {
	sliced, other := availability("product"), availability("product")
	sliced.ID, sliced.Slice = "shop/slices", &Slice{Per: time.Minute, Target: 0.9}
	other.ID, other.Valid = "shop/refunds", []Matcher{eq("type", "refund")}
	f := newFold(t, config(availability("product"), sliced, other), t0)
	ids := []string{"shop/availability", "shop/refunds", "shop/slices", "nobody/knows"}
	require.Equal(t, []float64{1, 1, 1, 1}, f.Kept(ids, slo.Span{From: t0, To: t0.Add(time.Hour)}),
		"nothing was dropped yet")

	at := t0
	for i := range 600 {
		at = at.Add(30 * time.Second)
		apply(t, f, at, shop(at, "product", []string{"a", "b"}[i%2]))
		if i%10 == 0 && i < 300 {
			dropAt(f, at, "order", uint64(1+i%3))
		}
	}
	tick(f, at, at.Add(10*time.Minute))
	spans := []slo.Span{last(at, time.Hour), {From: t0, To: at},
		{From: t0.Add(30 * time.Minute), To: t0.Add(90 * time.Minute)}, {From: at, To: at}, {From: t0.Add(-day), To: t0}}
	want := f.Sums(Request{Now: at, Spans: spans})
	lost := false
	for i, sp := range spans {
		got := f.Kept(ids, sp)
		for k, id := range []string{"shop/availability", "", "shop/slices"} {
			if id == "" {
				require.Equal(t, 1.0, got[k], "no limit drops what has another type")
				continue
			}
			share := groupOf(t, want, id, "a").Loss.Kept(i)
			require.Equal(t, share, got[k], "%s %v", id, sp)
			lost = lost || share < 1
		}
		require.Equal(t, 1.0, got[3])
	}
	require.True(t, lost)
	require.Equal(t, want.Groups, f.Sums(Request{Now: at, Spans: spans}).Groups)
}
